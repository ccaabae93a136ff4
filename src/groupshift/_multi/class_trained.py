"""The first stage for several classes: classifiers, and log-probabilities of rows that they were not trained on."""

from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from groupshift._fit.classifiers import Classifier, PerClusterClassifier, fit_sets
from groupshift._fit.problem import Problem
from groupshift._fit.trained import choose_estimator, held_out, judged_rows, training_sets
from groupshift._fit.trials import LabeledRows
from groupshift._math.arrays import FloatArray, IntArray, KeyArray
from groupshift._math.vector_scaling import choose_spread
from groupshift._multi.class_scores import (
    Models,
    choose_class_edge,
    cluster_log_probabilities,
    held,
    out_of_fold,
    training_order,
)
from groupshift._regions.partitions import Partition
from groupshift._rows.frames import take_rows
from groupshift._rows.keys import copy_correlation, design_effect, stratified_folds, within

N_FOLDS, MANY_ROWS, FEWER_FOLDS = 5, 10_000, 3


@dataclass(frozen=True)
class ClassTrained:
    """Classifiers, and scores of labelled rows by models that did not see them."""

    estimator: Classifier  # unfitted
    order: IntArray  # see `training_order`
    last: Models | None  # trained on all rows that may be trained on; None until `completed`
    judged: IntArray  # labelled rows whose scores may be looked at
    score: FloatArray  # (n_judged, n_classes): log-probabilities, held
    fold: IntArray | None  # (n_judged,); None where labels cannot be hidden
    edge: float
    spread: tuple[float, float]  # see `choose_spread`
    partition: Partition | None  # where each cluster has a classifier
    copy_correlation: float = 1.0
    design_effect: float = 1.0  # how many times fewer examples there are than judged rows
    group_effect: float = 1.0  # the same within groups: copies in another group are not counted

    def completed(self, problem: Problem) -> Self:
        """With the model of all rows."""
        if self.last is not None:
            return self
        everyone = [np.arange(len(problem.y))]
        return replace(self, last=_fit(problem, self.estimator, self.order, everyone, self.partition)[0])

    def labeled_rows(self, problem: Problem) -> LabeledRows:
        """The judge's view of the labelled rows; groups that hold none of them are left out."""
        return judged_rows(problem, self.judged, self.score, self.fold, self.design_effect, self.group_effect)


def train_classes(problem: Problem, partition: Partition | None) -> ClassTrained:
    """Train and score; `partition`: clusters that each have a classifier of their own."""
    estimator = choose_estimator(problem)
    order = training_order(problem.y, problem.labeled.key, estimator)
    train = _hold_out if problem.settings.calibration == "holdout" else _cross_fit
    trained = train(problem, estimator, order, partition)
    rows, y = problem.labeled.take(trained.judged), problem.y[trained.judged]
    edge = choose_class_edge(trained.score, y, rows.weight)
    score = held(trained.score, edge)
    alike = _alike(rows.key, rows.weight, score, y)
    keys = rows.key, within(rows.key, rows.group)
    effect, group_effect = (1 + (design_effect(key, rows.weight) - 1) * alike for key in keys)
    spread = choose_spread(score, y, rows.weight, trained.fold)
    return replace(
        trained,
        score=score,
        edge=edge,
        spread=spread,
        copy_correlation=alike,
        design_effect=effect,
        group_effect=group_effect,
    )


def _alike(key: KeyArray, weight: FloatArray, score: FloatArray, y: IntArray) -> float:
    """How alike scores of copies of one example are, on average over classes."""
    share = np.bincount(y, weights=weight, minlength=score.shape[1])
    found = [copy_correlation(key, weight, column) for column in score.T]
    return float(np.average(found, weights=share))


def _fit(
    problem: Problem,
    estimator: Classifier,
    order: IntArray,
    sets: list[IntArray],
    partition: Partition | None,
) -> list[Models]:
    """Classifiers of each set of labelled rows: one, or one for each cluster."""
    y = order[problem.y]
    if partition is None:
        return [(model,) for model in fit_sets(estimator, problem.labeled, y, sets)]
    for_each = PerClusterClassifier(estimator, partition, problem.encoder)
    fitted = cast("tuple[PerClusterClassifier, ...]", fit_sets(for_each, problem.labeled, y, sets))
    return [tuple(one.classifiers_) for one in fitted]


def _clusters(problem: Problem, partition: Partition | None) -> IntArray:
    return np.zeros(len(problem.y), np.int64) if partition is None else partition.predict(problem.labeled)


def _hold_out(
    problem: Problem, estimator: Classifier, order: IntArray, partition: Partition | None
) -> ClassTrained:
    """A fifth of the examples held out once, as in the paper."""
    rest, judged, fold = held_out(problem, problem.y)
    models = _fit(problem, estimator, order, [rest], partition)[0]
    cluster = _clusters(problem, partition)[judged]
    score = cluster_log_probabilities(models, take_rows(problem.labeled.features, judged), cluster, order)
    return ClassTrained(estimator, order, models, judged, score, fold, 0.0, (0.0, 0.0), partition)


def _cross_fit(
    problem: Problem, estimator: Classifier, order: IntArray, partition: Partition | None
) -> ClassTrained:
    """Every row scored by a model of the other folds."""
    labeled, y = problem.labeled, problem.y
    n_folds = FEWER_FOLDS if len(y) >= MANY_ROWS and problem.fewest_examples >= FEWER_FOLDS else N_FOLDS
    fold = stratified_folds(y, labeled.key, n_folds, problem.seeds.named("row folds"))
    models_of_folds = _fit(problem, estimator, order, training_sets(fold), partition)
    score = out_of_fold(models_of_folds, labeled.features, fold, _clusters(problem, partition), order)
    return ClassTrained(estimator, order, None, np.arange(len(y)), score, fold, 0.0, (0.0, 0.0), partition)
