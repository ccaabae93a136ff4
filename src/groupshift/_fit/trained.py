"""The first stage: classifiers trained on labelled rows, and the scores of rows that they were not trained on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logit
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from groupshift._article import hold_out
from groupshift._fit.classifiers import (
    FINEST_EDGE,
    Classifier,
    SwappedClassifier,
    TrainingSet,
    default_classifier,
    fit_pair,
    fit_sets,
    grows_in_python,
    out_of_fold_scores,
    raw_score,
    seeded_classifier,
)
from groupshift._fit.posterior import calibrated_loss, choose_edge, probability_edge
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.trials import LabeledRows
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.sums import renumbered
from groupshift._regions.partitions import Partition
from groupshift._rows.frames import take_rows
from groupshift._rows.keys import class_order, copy_correlation, design_effect, stratified_folds, uniform_keys
from groupshift._rows.progress import counted
from groupshift._rows.workers import ahead, n_workers

# Held-out rows that two classifiers are compared on: more tell no difference that matters.
MAX_SHOWN = 4_000


@dataclass(frozen=True)
class Trained:
    """Classifiers, and scores of labelled rows by models that did not see them."""

    estimator: Classifier  # unfitted: what the models are copies of
    fold_models: tuple[Classifier, ...]  # each trained without one fold; none where folds were not made
    last: Classifier | None  # trained on all rows that may be trained on; None until `completed`
    judged: IntArray  # labelled rows whose scores may be looked at: all of them, or those held out
    score: FloatArray  # (n_judged,): raw scores
    fold: IntArray | None  # (n_judged,); None where labels cannot be hidden
    edge: float | None  # see `raw_score`
    copy_correlation: float = 1.0  # how alike scores of copies of one example are
    design_effect: float = 1.0  # how many times fewer independent examples there are than judged rows
    notes: Notes = ()
    left_out: tuple[str, ...] = ()  # features that the classifiers do not see
    small_trees: bool = False  # whether trees of few leaves predict held-out labels better

    def completed(self, problem: Problem) -> Self:
        """With the model of all rows. Trained late: where a classifier for each cluster took over, it is not needed."""
        if self.last is not None:
            return self
        everyone = [np.arange(len(problem.y))]
        return replace(self, last=fit_sets(self.estimator, problem.labeled, problem.y, everyone)[0])

    def labeled_rows(self, problem: Problem) -> LabeledRows:
        """The judge's view of the labelled rows; groups that hold none of them are left out."""
        return judged_rows(
            problem, self.judged, self.score, self.fold, self.design_effect, self.design_effect
        )

    def few(self, problem: Problem, most: int, stream: str) -> IntArray:
        """Numbers of judged rows: all of them, or a sample where they are many."""
        key = problem.labeled.key[self.judged]
        if len(key) <= most:
            return np.arange(len(key))
        order = np.argsort(uniform_keys(key, problem.seeds.named(stream)), kind="stable")
        return np.sort(order[:most])


def judged_rows(
    problem: Problem,
    judged: IntArray,
    score: FloatArray,
    fold: IntArray | None,
    design_effect: float,
    effect_on_weight: float,
) -> LabeledRows:
    """Labelled rows as the judge sees them; how many times fewer examples than rows there are, in all and for weights."""
    rows = problem.labeled.take(judged)
    if fold is None:
        fold = np.zeros(len(judged), np.int64)
    # Rows of unequal weight say less than as many equal ones (Kish), and so do copies.
    weight = rows.weight * (rows.weight.sum() / (rows.weight**2).sum()) / effect_on_weight
    return LabeledRows(score, problem.y[judged], weight, renumbered(rows.group), fold, design_effect)


@dataclass(frozen=True)
class FirstLook:
    """Large trees and small ones on the first fold of a cross-fit, which decides between them."""

    estimators: tuple[Classifier, Classifier]
    fold: IntArray
    # Of the first folds by the first estimator, then of the first fold by the second.
    models: Iterator[Classifier]


@contextmanager
def first_look(problem: Problem) -> Iterator[FirstLook | None]:
    """A block in which others may be ahead with the first fits, before rows are pooled; None where trees are not chosen so."""
    settings = problem.settings
    is_one_for_all = not settings.per_cluster or settings.is_left_to_judge
    is_asked = settings.estimator is None and is_one_for_all and settings.calibration != "holdout"
    fold = _row_folds(problem) if is_asked else None
    if fold is None:
        yield None
        return
    large, small = (choose_estimator(problem, small_trees=is_small) for is_small in (False, True))
    training = [TrainingSet(((problem.labeled, own),), problem.y[own]) for own in training_sets(fold)]
    # Large trees take longer. While they are grown, workers that would wait grow them on what would be left over later.
    first = training[: 1 + _n_left_over(large, len(training) - 1)]
    pairs = [(large, one) for one in first] + [(small, training[0])]
    with ahead(fit_pair, [pairs], is_python=True) as fitted:
        yield FirstLook(
            (large, small), fold, (m for batch in fitted for m in counted(batch, len(pairs), "fits"))
        )


def train(
    problem: Problem, estimator: Classifier, partition: Partition | None, first: FirstLook | None = None
) -> Trained:
    """Train and score; `partition`: the clusters that held-out rows are stratified by, where they are known."""
    if problem.settings.calibration == "holdout" and problem.fewest_examples >= 2:
        trained = _hold_out(problem, estimator, partition)
    else:
        trained = _cross_fit(problem, estimator, first)
    rows = problem.labeled.take(trained.judged)
    alike = copy_correlation(rows.key, rows.weight, trained.score)
    effect = 1 + (design_effect(rows.key, rows.weight) - 1) * alike
    return replace(trained, copy_correlation=alike, design_effect=effect)


def choose_estimator(
    problem: Problem, *, small_trees: bool = False, left_out: tuple[str, ...] = ()
) -> Classifier:
    """The classifier that the settings name, unfitted, with a seed.

    The default classifier may leave features out; one that the user gave sees what the user gave it.
    """
    seed = problem.seeds.named("classifier")
    if problem.settings.estimator is not None:
        return seeded_classifier(problem.settings.estimator, seed)
    encoder = problem.encoder
    kept = [j for j, name in enumerate(encoder.names_) if name not in left_out]
    boosted = default_classifier(encoder.is_category[kept], seed, small_trees=small_trees)
    if left_out:
        chosen = ColumnTransformer([("kept", "passthrough", kept)])
        boosted = Pipeline([("kept", chosen), ("classifier", boosted)])
    is_swapped = problem.n_classes == 2 and class_order(problem.y, problem.labeled.key)[0] == 1
    return SwappedClassifier(boosted) if is_swapped else boosted


def training_sets(fold: IntArray) -> list[IntArray]:
    """Rows outside each fold."""
    return [np.flatnonzero(fold != f) for f in range(int(fold.max()) + 1)]


def _hold_out(problem: Problem, estimator: Classifier, partition: Partition | None) -> Trained:
    """A fifth of the examples held out once, as in the paper."""
    labeled, y = problem.labeled, problem.y
    # Rows held out then have each cluster's own share of positives, α̃_k; another share would pass for a shift of every
    # group in that cluster.
    strata = y if partition is None else y * partition.n_clusters + partition.predict(labeled)
    rest, judged, fold = held_out(problem, strata)
    model = fit_sets(estimator, labeled, y, [rest])[0]
    score = raw_score(model, take_rows(labeled.features, judged), None)
    return Trained(estimator, (), model, judged, score, fold, None)


def _has_all_classes(y: IntArray, is_held: BoolArray) -> bool:
    return len(np.unique(y[is_held])) == len(np.unique(y[~is_held])) == len(np.unique(y))


def held_out(problem: Problem, strata: IntArray) -> tuple[IntArray, IntArray, IntArray | None]:
    """Rows to train on, a fifth of the examples held out, and folds of these, unless they are too few.

    It is a fifth of all examples, as in the article, and a fifth of each stratum where small cells are pooled or a class would
    be missing on one side.
    """
    y, key, seeds = problem.y, problem.labeled.key, problem.seeds
    n_parts = min(5, problem.fewest_examples)
    is_held = hold_out(key, seeds.named("held out"))
    if problem.settings.shrinkage != "none" or not _has_all_classes(y, is_held):
        is_held = stratified_folds(strata, key, n_parts, seeds.named("held out")) == 0
    judged = np.flatnonzero(is_held)
    fold = None
    if len(judged) > 3:
        fold = stratified_folds(y[judged], key[judged], 2, seeds.named("held out, judged"))
    return np.flatnonzero(~is_held), judged, fold


def _row_folds(problem: Problem) -> IntArray | None:
    """Folds of labelled rows; None where a class has too few examples to hold any out."""
    y, fewest = problem.y, problem.fewest_examples
    # Models of two thirds of the rows, or of half, score nearly as the last one does, if rows are many, of the rarer class too.
    n_folds = 5
    if len(y) >= 10_000 and fewest >= 1_000:
        n_folds = 3 if len(y) < 15_000 else 2
    n_folds = min(n_folds, fewest)
    if n_folds < 2:
        return None
    return stratified_folds(y, problem.labeled.key, n_folds, problem.seeds.named("row folds"))


def _cross_fit(problem: Problem, estimator: Classifier, first_seen: FirstLook | None) -> Trained:
    """Every row scored by a model of the other folds."""
    labeled, y = problem.labeled, problem.y
    edge = probability_edge(len(y)) if problem.settings.calibration == "crossfit" else None
    everyone = np.arange(len(y))
    fold = _row_folds(problem) if first_seen is None else first_seen.fold
    if fold is None:
        note = Note(
            "Too few examples of one class to hold any out: scores are calibrated on the rows they were trained on."
        )
        model = fit_sets(estimator, labeled, y, [everyone])[0]
        score = raw_score(model, labeled.features, edge)
        return Trained(estimator, (), model, everyone, score, None, edge, notes=(note,))
    first: tuple[Classifier, ...] = ()
    has_small_trees = False
    if first_seen is not None:
        first, has_small_trees = _better(problem, first_seen)
        estimator = first_seen.estimators[has_small_trees]
    n_folds = int(fold.max()) + 1
    sets = training_sets(fold)[len(first) :]
    # A worker that would have nothing to do trains the model of all rows meanwhile: it is mostly needed in the end.
    has_idle_worker = _n_left_over(estimator, len(sets)) > 0
    models = first + fit_sets(estimator, labeled, y, sets + [everyone] * has_idle_worker)
    models, last = models[:n_folds], models[-1] if has_idle_worker else None
    score = out_of_fold_scores(models, labeled.features, fold, None if edge is None else FINEST_EDGE)
    if edge is not None:
        edge = choose_edge(score, y, labeled.weight)
        # Mostly no row lies outside the edge, and nothing is to be held.
        if np.abs(score).max() > logit(1 - edge):
            score = out_of_fold_scores(models, labeled.features, fold, edge)
    return Trained(estimator, models, last, everyone, score, fold, edge, small_trees=has_small_trees)


def _n_left_over(estimator: Classifier, n_fits: int) -> int:
    """Fits of the last round, where they are too few for all workers."""
    return n_fits % n_workers(is_python=grows_in_python(estimator))


def _better(problem: Problem, first: FirstLook) -> tuple[tuple[Classifier, ...], bool]:
    """Models of the first folds by the second of two classifiers, or by the first if it predicts the labels of the first fold
    better beyond noise; whether it is the second.

    The choice is one of two, so that the rows which made it may be judged by it.
    """
    labeled, y = problem.labeled, problem.y
    shown = np.flatnonzero(first.fold == 0)
    shown = shown[:: -(-len(shown) // MAX_SHOWN)]
    held, truth = labeled.take(shown), y[shown]

    def loss(model: Classifier) -> FloatArray:
        # As it will be used: calibrated.
        return calibrated_loss(raw_score(model, held.features, FINEST_EDGE), truth, held.weight)

    *large, small = first.models
    gain, weight = loss(small) - loss(large[0]), held.weight / held.weight.sum()
    mean = float(weight @ gain)
    error = float(np.sqrt((weight**2) @ (gain - mean) ** 2))
    is_second = mean <= error
    return (small,) if is_second else tuple(large), is_second
