"""Learning from the unlabelled rows: their corrected posteriors become soft labels for another round of training."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from groupshift._fit.classifiers import (
    Classifier,
    PerClusterClassifier,
    TrainingSet,
    fit_each,
    out_of_fold_scores,
    raw_score,
    weight_argument,
)
from groupshift._fit.estimate import Estimate, estimate
from groupshift._fit.hidden_groups import HiddenGroups
from groupshift._fit.judge import Judged, promises, try_candidate
from groupshift._fit.learned import Settled, settle
from groupshift._fit.pooled import Pooled
from groupshift._fit.posterior import FoldPosterior
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.trials import confirmed, without_shift
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._rows.keys import fold_of, uniform_keys
from groupshift._rows.progress import begin
from groupshift._rows.rows import Rows
from groupshift._rows.workers import at_once

# Each soft row is drawn twice: three rows of training to a labelled one. More change little and cost much.
SOFT_ROWS_PER_LABEL = 1.5
MIN_SOFT_ROWS, MAX_SOFT_ROWS = 10_000, 60_000
# A classifier that gives back more than this part of a row's own soft label would count its shift twice.
MAX_MEMORISED = 0.25
# Later rounds were hardly ever confirmed.
MAX_ROUNDS = 1
# With more labelled rows than this, soft labels add little, and training on them takes longer than all the rest of a fit.
MAX_LABELED_ROWS = 15_000


@dataclass(frozen=True)
class Fitted:
    """A fit so far: what was judged, what was settled, what was estimated."""

    judged: Judged
    settled: Settled
    estimate: Estimate


def n_soft_rows(n_labeled: int) -> int:
    return int(min(max(SOFT_ROWS_PER_LABEL * n_labeled, MIN_SOFT_ROWS), MAX_SOFT_ROWS))


def refine(
    problem: Problem, pooled: Pooled, fitted: Fitted, hidden: HiddenGroups | None
) -> tuple[Fitted, Notes]:
    """Rounds of learning from unlabelled rows, each kept only if hidden labels confirm it."""
    wanted, trained = problem.settings.refine, fitted.judged.trained
    rounds = MAX_ROUNDS if wanted == "auto" else int(wanted)
    if not rounds or len(trained.fold_models) < 2 or weight_argument(trained.estimator) is None:
        return fitted, ()
    if wanted == "auto" and not _may_help(problem, fitted):
        return fitted, ()
    notes: Notes = ()
    for number in range(1, rounds + 1):
        begin(f"learning from unlabelled rows, round {number}", problem.settings.verbose)
        better = _round(problem, pooled, fitted, hidden)
        verdict = "was not confirmed and is left out" if better is None else "was kept"
        notes = (*notes, Note(f"Round {number} of learning from unlabelled rows {verdict}."))
        if better is None:
            break
        fitted = better
    return fitted, notes


def _may_help(problem: Problem, fitted: Fitted) -> bool:
    """Whether a round is worth its time: hidden labels confirmed hardly one where each cluster has its own classifier."""
    is_shifted = fitted.judged.trial is not None and bool(np.any(fitted.estimate.shift))
    has_one_classifier = not isinstance(fitted.judged.trained.estimator, PerClusterClassifier)
    return is_shifted and has_one_classifier and len(problem.y) <= MAX_LABELED_ROWS


def _round(problem: Problem, pooled: Pooled, fitted: Fitted, hidden: HiddenGroups | None) -> Fitted | None:
    """The fit after one more round; None if it is not to be kept."""
    judged, learned = fitted.judged, fitted.settled.learned
    trained, candidate = judged.trained, judged.candidate
    n_soft = n_soft_rows(len(problem.y))
    soft = SoftTraining.of(problem, fitted, problem.sample(n_soft, problem.seeds.named("soft rows")))
    is_judged = problem.settings.refine == "auto" and judged.trial is not None
    first = soft.fit([0])
    if is_judged and not promises(problem, judged, first[0], trained.edge):
        return None
    n_folds = len(trained.fold_models)
    models = first + soft.fit(range(1, n_folds + 1))
    if soft.memorised(models) > MAX_MEMORISED:
        return None
    assert trained.fold is not None
    score = out_of_fold_scores(
        models[:-1], problem.labeled.features, trained.fold, trained.edge, candidate.cluster
    )
    trained = replace(trained, fold_models=models[:-1], last=models[-1], score=score)
    trial = None
    if judged.trial is not None:
        trial = try_candidate(problem, trained, candidate)
        trial = without_shift(trial, trained.labeled_rows(problem)) if learned.trust == 0 else trial
    judged = replace(judged, trained=trained, trial=trial)
    judged = judged.trusted_by(judged.held_out, trained.labeled_rows(problem))
    settled = settle(problem, pooled, judged, hidden)
    if is_judged:
        assert fitted.settled.loss is not None
        assert settled.loss is not None
        if not confirmed(fitted.settled.loss, settled.loss, trained.labeled_rows(problem)):
            return None
    blind = FoldPosterior(settled.learned.posterior, trained.fold_models, soft.fold_seed)
    settled = replace(settled, learned=replace(settled.learned, population_posterior=blind))
    again = estimate(settled.learned, problem.population, problem.groups, problem.known)
    return Fitted(judged, settled, again)


def drawn_labels(draw: FloatArray, probability: FloatArray) -> IntArray:
    """Labels drawn by uniform numbers: low ones draw the class that is less likely, whichever it is.

    >>> drawn_labels(np.array([0.1, 0.1, 0.5]), np.array([0.3, 0.7, 0.7])).tolist()
    [1, 0, 1]
    """
    is_likely = probability > 0.5
    return (is_likely ^ (draw < np.where(is_likely, 1 - probability, probability))).astype(np.int64)


@dataclass(frozen=True)
class SoftTraining:
    """Training on soft labels too, model by model: one for each fold and one for all rows.

    Each fold's soft labels come from the model that did not see the fold, and no row trains the model that scores it.

    """

    problem: Problem
    fitted: Fitted
    sample: Rows  # unlabelled rows to learn from
    cluster: IntArray
    fold: IntArray
    shift: FloatArray  # corrects the labelled posterior of each row
    fold_seed: int  # of the stream that folds are drawn from, by lasting keys

    @classmethod
    def of(cls, problem: Problem, fitted: Fitted, sample: Rows) -> "SoftTraining":
        seed = problem.seeds.named("soft folds")
        cluster = fitted.settled.learned.posterior.partition.predict(sample)
        fold = fold_of(sample.lasting_key, len(fitted.judged.trained.fold_models), seed)
        shift = fitted.estimate.shift[sample.group, cluster]
        return cls(problem, fitted, sample, cluster, fold, shift, seed)

    def fit(self, numbers: Iterable[int]) -> tuple[Classifier, ...]:
        """The models with the given numbers; the last number is that of all rows."""
        numbers = list(numbers)
        sets = [self._set(f, soft) for f, soft in zip(numbers, at_once(self._soft, numbers), strict=True)]
        return fit_each(self.fitted.judged.trained.estimator, sets)

    def _soft(self, f: int) -> FloatArray:
        """Corrected probabilities of the sample, by the model with the given number."""
        trained, posterior = self.fitted.judged.trained, self.fitted.settled.learned.posterior
        assert trained.last is not None
        raw = raw_score((*trained.fold_models, trained.last)[f], self.sample.features, posterior.edge)
        is_last = f == len(trained.fold_models)
        log_odds = (posterior.log_odds if is_last else posterior.calibration.transform)(raw, self.cluster)
        soft: FloatArray = expit(log_odds + self.shift)
        return soft

    def _set(self, f: int, soft: FloatArray) -> TrainingSet:
        """Hard labels, and two labels drawn for each soft row outside the fold, by its probability.

        The draws lie half a unit apart, so that a row of probability 1/2 is once positive and once negative. Unlike weighted
        copies they serve classifiers without weights, and those that are slow with them.
        """
        problem, trained = self.problem, self.fitted.judged.trained
        assert trained.fold is not None
        hard_rows, soft_rows = np.flatnonzero(trained.fold != f), np.flatnonzero(self.fold != f)
        first = uniform_keys(self.sample.key[soft_rows], problem.seeds.named("soft labels"))
        drawn = [drawn_labels(draw, soft[soft_rows]) for draw in (first, (first + 0.5) % 1)]
        soft_part = (self.sample, soft_rows)
        return TrainingSet(
            ((problem.labeled, hard_rows), soft_part, soft_part),
            np.concatenate([problem.y[hard_rows], *drawn]),
        )

    def memorised(self, models: tuple[Classifier, ...]) -> float:
        """How much of a row's own soft label the model trained on it gives back: 0 for none, 1 for all of it.

        A classifier that memorises would count the shift of a row twice, once in its score and once on top.
        """
        posterior = self.fitted.settled.learned.posterior
        blind = out_of_fold_scores(models[:-1], self.sample.features, self.fold, posterior.edge)
        seen, before = at_once(
            lambda model: raw_score(model, self.sample.features, posterior.edge),
            (models[-1], posterior.classifier),
        )
        pull = posterior.log_odds(before, self.cluster) + self.shift - blind
        pull = pull - pull.mean()
        return float((pull * (seen - blind)).sum() / max((pull**2).sum(), 1e-300))
