"""The one place that asks for the number of classes: two have stages of their own (`_fit`), more have others (`_multi`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from groupshift._explain.class_evidence import ClassEvidence, record_class_evidence
from groupshift._explain.evidence import record_evidence
from groupshift._explain.evidence_parts import Evidence
from groupshift._fit.estimate import Estimate, estimate
from groupshift._fit.learned import Learned
from groupshift._fit.problem import Known, KnownRates, KnownShare, Notes, Problem, Rate
from groupshift._fit.scorer import AnyScorer, Details, Scorer
from groupshift._fit.stages import run
from groupshift._fit.trials import CandidateTable
from groupshift._math.arrays import ValueArray
from groupshift._multi.class_estimate import ClassEstimate, estimate_classes
from groupshift._multi.class_known import check_known_classes, rate_of_positives
from groupshift._multi.class_learned import ClassLearned
from groupshift._multi.class_scorer import ClassScorer, flat_details
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


def known_of(
    shares: KnownRates | None, overall: KnownShare | None, groups: ValueArray, classes: ValueArray
) -> Known:
    """Rates of positives by group and of all rows; with more than two classes, shares by class of the same."""
    if len(classes) == 2:
        of_positives = {
            group: rate_of_positives(value, f"known_shares of group {group!r}", classes)
            for group, value in dict(shares or {}).items()
        }
        rate = rate_of_positives(overall, "known_overall", classes)
        return Known.of(cast("KnownRates", of_positives), cast("Rate | None", rate), groups)
    return check_known_classes(shares, overall, groups, classes)


def detail_columns(found: Details, classes: ValueArray, library: str | None) -> Mapping[str, object]:
    """Details as they stand beside rows: arrays beside arrays; in a frame a column for each of several classes."""
    return {**found} if len(classes) == 2 or library is None else flat_details(found, classes)


def fit_whole(problem: Problem, classes: ValueArray) -> WholeFit:
    """All stages, and the evidence of them."""
    if len(classes) == 2:
        two = run(problem)
        evidence = record_evidence(problem, two)
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
    known: Known,
) -> Estimate | ClassEstimate:
    """Shares from new rows, everything else kept."""
    if isinstance(learned, ClassLearned):
        return estimate_classes(learned, population, groups, classes, known)
    return estimate(learned, population, groups, known)


def scorer_of(
    learned: Learned | ClassLearned, found: Estimate | ClassEstimate, classes: ValueArray
) -> AnyScorer:
    """What predictions are made by."""
    if isinstance(learned, ClassLearned):
        return ClassScorer.of(learned.posterior.score, found, classes)
    return Scorer.of(learned.posterior.score, found)
