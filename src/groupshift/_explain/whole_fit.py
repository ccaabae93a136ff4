"""The one place that asks for the number of classes: two have stages of their own (`_fit`), more have others (`_multi`)."""

from dataclasses import dataclass

from groupshift._explain.class_evidence import ClassEvidence, record_class_evidence
from groupshift._explain.evidence import Observed, record_evidence
from groupshift._explain.evidence_parts import Evidence
from groupshift._fit.estimate import Estimate, check_known, estimate
from groupshift._fit.learned import Learned
from groupshift._fit.problem import KnownRates, Notes, Problem
from groupshift._fit.scorer import Scorer
from groupshift._fit.stages import run
from groupshift._fit.trials import CandidateTable
from groupshift._math.arrays import ValueArray
from groupshift._multi.class_estimate import ClassEstimate, estimate_classes
from groupshift._multi.class_known import check_known_classes
from groupshift._multi.class_learned import ClassLearned
from groupshift._multi.class_scorer import ClassScorer
from groupshift._multi.class_stages import run_classes
from groupshift._rows.rows import Population


@dataclass(frozen=True)
class WholeFit:
    """What a fit ends in, whatever the number of classes."""

    learned: Learned | ClassLearned
    estimate: Estimate | ClassEstimate
    evidence: Evidence | ClassEvidence
    candidates: CandidateTable | None
    notes: Notes


def check_known_of(known: KnownRates | None, groups: ValueArray, classes: ValueArray) -> KnownRates:
    """Rates of positives by group; with more than two classes, shares by group and class."""
    return check_known(known, groups) if len(classes) == 2 else check_known_classes(known, groups, classes)


def fit_whole(problem: Problem, classes: ValueArray) -> WholeFit:
    """All stages, and the evidence of them."""
    if len(classes) == 2:
        two = run(problem)
        evidence = record_evidence(Observed.of(problem, two))
        return WholeFit(two.settled.learned, two.estimate, evidence, two.judged.table, two.notes)
    more = run_classes(problem, classes)
    return WholeFit(
        more.settled.learned,
        more.estimate,
        record_class_evidence(problem, more),
        more.judged.table,
        more.notes,
    )


def estimate_again(
    learned: Learned | ClassLearned,
    population: Population,
    groups: ValueArray,
    classes: ValueArray,
    known_shares: KnownRates | None,
) -> Estimate | ClassEstimate:
    """Shares from new rows, everything else kept."""
    if isinstance(learned, ClassLearned):
        return estimate_classes(learned, population, groups, classes, known_shares)
    return estimate(learned, population, groups, known_shares)


def scorer_of(
    learned: Learned | ClassLearned, found: Estimate | ClassEstimate, classes: ValueArray
) -> Scorer | ClassScorer:
    """What predictions are made by."""
    if isinstance(learned, ClassLearned) and isinstance(found, ClassEstimate):
        return ClassScorer.of(learned.posterior, found, classes)
    assert isinstance(learned, Learned)
    assert isinstance(found, Estimate)
    return Scorer.of(learned.posterior, found)
