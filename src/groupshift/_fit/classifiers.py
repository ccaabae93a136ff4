"""Classifiers trained on labelled rows, and what they say of rows: raw scores."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from joblib import parallel_config
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from groupshift._article import training_rows
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._regions.partitions import Partition
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.frames import Features, concat_rows, take_rows, with_some_value
from groupshift._rows.progress import counted
from groupshift._rows.rows import Rows
from groupshift._rows.workers import ahead, at_once, n_workers

# Classifiers whose decision function is the log-odds of their probability, to more digits than the probability has.
IN_LOG_ODDS = (LogisticRegression, HistGradientBoostingClassifier)
GROWN_IN_PYTHON = (HistGradientBoostingClassifier,)
# Beyond it a probability in double precision is 0 or 1.
FINEST_EDGE = 1e-15
# Log-odds outside the edge lie within a tenth of it: enough for their order, too little to matter to calibration.
BESIDE = 0.02


class Classifier(Protocol):
    """What scikit-learn calls a classifier."""

    def fit(self, X: Features, y: IntArray, **weights: FloatArray) -> Self: ...

    def predict_proba(self, X: Features) -> FloatArray: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


# Trees of 8 leaves in 66 larger steps, instead of scikit-learn's 100 of 31: in half the time or less they predict better from
# few rows or where features say little, worse from many rows where they say much together. The posterior of one cluster is a
# simple one: there they do as well.
SMALL_TREES = {"max_leaf_nodes": 8, "learning_rate": 0.15, "max_iter": 66}


def default_classifier(is_category: BoolArray, random_state: int, *, small_trees: bool) -> Classifier:
    """Histogram gradient boosting that knows which columns are categories.

    Early stopping is off: its validation rows are drawn at random, and would hold copies of training examples.
    """
    boosted: Classifier = HistGradientBoostingClassifier(
        **(SMALL_TREES if small_trees else {}),
        early_stopping=False,
        categorical_features=is_category if is_category.any() else None,
        random_state=random_state,
    )
    return boosted


def seeded_classifier(estimator: Classifier, seed: int) -> Classifier:
    """An unfitted copy; parts without a seed of their own get one, so that one seed governs everything."""
    copy = clone(estimator)
    names = (name for name in copy.get_params() if name.endswith("random_state"))
    copy.set_params(**{name: seed for name in names if copy.get_params()[name] is None})
    seeded: Classifier = copy
    return seeded


def weight_argument(estimator: Classifier) -> str | None:
    """Name under which `estimator.fit` takes row weights; None if it takes none."""
    if isinstance(estimator, (PerClusterClassifier, SwappedClassifier)):
        return weight_argument(estimator.estimator)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fit_classifier(estimator: Classifier, features: Features, y: IntArray, weight: FloatArray) -> Classifier:
    """A fitted clone of `estimator`; equal weights are not passed, so that any classifier serves.

    A frozen estimator, trained elsewhere, is used as it is.
    """
    if isinstance(estimator, FrozenEstimator):
        trained_elsewhere: Classifier = estimator
        return trained_elsewhere
    model: Classifier = clone(estimator)
    features = with_some_value(features)
    if np.all(weight == weight[0]):
        with _explained(model, features):
            return model.fit(features, y)
    argument = weight_argument(model)
    if argument is None:
        raise ValueError(
            f"{type(model).__name__} takes no sample_weight, but rows have different weights. "
            "Use a classifier that takes weights, or leave the weights out."
        )
    with _explained(model, features):
        return model.fit(features, y, **{argument: weight})


@contextmanager
def _explained(model: Classifier, features: Features) -> Iterator[None]:
    """What a classifier says of a frame that it cannot take, with what to do."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(features, np.ndarray):
            raise
        raise type(error)(
            f"{type(model).__name__} cannot take these columns ({error}). Make numbers of them, put a transformer before the "
            "classifier, or use estimator=None, which takes text, dates and missing values."
        ) from error


@dataclass(frozen=True)
class TrainingSet:
    """Rows to train on, by their numbers: they are taken where they are trained on, a few sets at a time."""

    parts: tuple[tuple[Rows, IntArray], ...]  # rows of a table, and which of them, one part below the other
    y: IntArray

    def fit(self, estimator: Classifier) -> Classifier:
        """A copy of the estimator, fitted to these rows."""
        features = [take_rows(rows.features, own) for rows, own in self.parts]
        weight = np.concatenate([rows.weight[own] for rows, own in self.parts])
        return fit_classifier(estimator, concat_rows(features), self.y, weight)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        """What travels to another process are its own rows."""
        parts = tuple((rows.take(own), np.arange(len(own))) for rows, own in self.parts)
        return type(self), (parts, self.y)

    def of_clusters(self, partition: Partition) -> tuple[list[Self], IntArray]:
        """A set for each cluster of several classes, then, where one has none, that of all rows; and whose set is which."""
        cluster = np.concatenate([partition.predict(rows)[own] for rows, own in self.parts])
        own = training_rows(self.y, cluster, partition.n_clusters)
        is_trainable = np.array([rows is not None for rows in own])
        sets = [self._of(cluster == k) for k in np.flatnonzero(is_trainable)]
        number = np.where(is_trainable, np.cumsum(is_trainable) - 1, len(sets))
        return sets + ([] if is_trainable.all() else [self]), number

    def _of(self, chosen: BoolArray) -> Self:
        ends = np.cumsum([len(own) for _, own in self.parts])[:-1]
        parts = zip(self.parts, np.split(chosen, ends), strict=True)
        return replace(self, parts=tuple((rows, own[mine]) for (rows, own), mine in parts), y=self.y[chosen])


Pair: TypeAlias = tuple[Classifier, TrainingSet]


def fit_each(estimator: Classifier, sets: Sequence[TrainingSet]) -> tuple[Classifier, ...]:
    """One model for each set, trained at once; where each cluster has a classifier, all clusters of all sets are."""
    pairs, models_of = _pairs(estimator, sets)
    is_python = all(grows_in_python(one) for one, _ in pairs)
    return models_of(counted(at_once(fit_pair, pairs, is_python=is_python), len(pairs), "fits"))


def _pairs(
    estimator: Classifier, sets: Sequence[TrainingSet]
) -> tuple[list[Pair], Callable[[Iterable[Classifier]], tuple[Classifier, ...]]]:
    """What is to be trained, and how models of the sets are made of it."""
    if not isinstance(estimator, PerClusterClassifier):
        return [(estimator, one) for one in sets], tuple
    split = [one.of_clusters(estimator.partition) for one in sets]

    def models_of(fitted: Iterable[Classifier]) -> tuple[Classifier, ...]:
        fitted = iter(fitted)
        parts = [(list(islice(fitted, len(parts))), number) for parts, number in split]
        return tuple(estimator.with_classifiers([of_parts[i] for i in number]) for of_parts, number in parts)

    return [(estimator.estimator, part) for parts, _ in split for part in parts], models_of


@contextmanager
def fits_ahead(
    estimator: Classifier, rows: Rows, y: IntArray, batches: Sequence[Sequence[IntArray]]
) -> Iterator[Iterator[tuple[Classifier, ...]]]:
    """A block in which there are models of one batch of sets of labelled rows after the other, see `ahead`."""
    sets = [[TrainingSet(((rows, own),), y[own]) for own in batch] for batch in batches]
    if not grows_in_python(estimator) or n_workers(is_python=True) == 1:
        yield (fit_each(estimator, batch) for batch in sets)
        return
    split = [_pairs(estimator, batch) for batch in sets]
    with ahead(fit_pair, [pairs for pairs, _ in split], is_python=True) as fitted:
        yield (models_of(counted(next(fitted), len(pairs), "fits")) for pairs, models_of in split)


def fit_sets(
    estimator: Classifier, rows: Rows, y: IntArray, sets: Sequence[IntArray]
) -> tuple[Classifier, ...]:
    """One model for each set of labelled rows."""
    return fit_each(estimator, [TrainingSet(((rows, own),), y[own]) for own in sets])


def grows_in_python(estimator: Classifier) -> bool:
    """Whether training is mostly Python's own work, and a trained copy small: boosted trees, also at the end of a pipeline.

    Only steps of scikit-learn: of others we do not know what they do in a process of their own.
    """
    if type(estimator).__module__ == __name__:
        # A wrapper of ours around the classifier that is trained.
        return grows_in_python(estimator.get_params(deep=False)["estimator"])
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    return type(steps[-1]) in GROWN_IN_PYTHON and all(
        type(s).__module__.startswith("sklearn.") for s in steps
    )


def fit_pair(pair: Pair) -> Classifier:
    estimator, training = pair
    return training.fit(estimator)


def raw_score(
    model: Classifier, features: Features, edge: float | None, cluster: IntArray | None = None
) -> FloatArray:
    """What a fitted classifier says of rows: with an `edge`, the log-odds of its probability, held about that far from 0 and 1.

    Without an edge, and from classifiers without probabilities, the decision function is taken as it is, or else the
    probability, which is how Platt scaling is commonly fed. `cluster`: of the rows, where it is known already.
    """
    if isinstance(model, PerClusterClassifier):
        return model.scores(features, model.cluster(features) if cluster is None else cluster, edge)
    if isinstance(model, SwappedClassifier):
        return -raw_score(model.estimator_, features, edge)
    if not hasattr(model, "decision_function"):
        check_probabilities(model)
    with _explained(model, features):
        return _raw_score(model, features, edge)


def _raw_score(model: Classifier, features: Features, edge: float | None) -> FloatArray:
    if edge is not None and isinstance(model, IN_LOG_ODDS):
        return hold(_log_odds(model, features), edge)
    decide = getattr(model, "decision_function", None)
    if decide is not None and (edge is None or not hasattr(model, "predict_proba")):
        with parallel_config("sequential"):
            return np.asarray(decide(features), float)
    probability = probabilities(model, features)
    if edge is None:
        return probability[:, 1]
    # Of both columns: next to 1 a probability has lost the digits that the other still has.
    log_p = np.log(np.maximum(probability, FINEST_EDGE))
    return hold(log_p[:, 1] - log_p[:, 0], edge)


def check_probabilities(model: Classifier) -> None:
    """A fitted classifier gives probabilities; before its fit, some do not know yet whether they will."""
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{type(model).__name__} has no predict_proba, so it gives no probabilities of classes. Pass a classifier that does, "
            "or make one of it: CalibratedClassifierCV of scikit-learn."
        )


def probabilities(model: Classifier, features: Features) -> FloatArray:
    """Probabilities of the classes that the classifier knows, of shape (n_rows, n_classes)."""
    # A forest on several threads adds up its trees in the order in which they end, and the last bits with it.
    with parallel_config("sequential"):
        return np.asarray(model.predict_proba(features), float)


def _log_odds(model: LogisticRegression | HistGradientBoostingClassifier, features: Features) -> FloatArray:
    if isinstance(features, np.ndarray) and isinstance(getattr(model, "coef_", None), np.ndarray):
        # What scikit-learn does before this product takes longer than the product. Scores that are numbers were made of numbers.
        log_odds: FloatArray = features @ model.coef_[0] + model.intercept_[0]
        if np.isfinite(log_odds).all():
            return log_odds
    decided: FloatArray = model.decision_function(features)
    return decided


def hold(log_odds: FloatArray, edge: float) -> FloatArray:
    """Log-odds as they are inside the edge; outside, all of them next to it, in their order.

    Order is kept because ranking knows more than calibration does: where positives are rare, most rows lie outside.

    >>> hold(np.array([0.0, 3.0, 30.0]), edge=0.01).round(2).tolist()
    [0.0, 3.0, 4.66]
    """
    limit = logit(1 - edge)
    size = np.abs(log_odds)
    if not len(size) or size.max() <= limit:
        return log_odds
    excess = np.maximum(size - limit, 0)
    held: FloatArray = np.clip(log_odds, -limit, limit) + np.sign(log_odds) * BESIDE * np.log1p(excess)
    return held


def out_of_fold_scores(
    models: Sequence[Classifier],
    features: Features,
    fold: IntArray,
    edge: float | None,
    cluster: IntArray | None = None,
) -> FloatArray:
    """Scores of rows by the model that did not see their fold; by the classifier of `cluster` where each has one."""

    def of_fold(f: int, own: IntArray) -> FloatArray:
        clusters = None if cluster is None else cluster[own]
        return raw_score(models[f], take_rows(features, own), edge, clusters)

    return by_fold(of_fold, fold, len(models), np.empty(len(fold)))


def by_fold(
    answer: Callable[[int, IntArray], FloatArray], fold: IntArray, n_folds: int, found: FloatArray
) -> FloatArray:
    """`found`, filled with the answers for the rows of each fold: of its number and theirs, all at once."""
    rows = [np.flatnonzero(fold == f) for f in range(n_folds)]
    with_rows = [f for f, own in enumerate(rows) if len(own)]
    for f, answered in zip(with_rows, at_once(lambda f: answer(f, rows[f]), with_rows), strict=True):
        found[rows[f]] = answered
    return found


class SwappedClassifier(BaseEstimator):
    """A classifier that is trained with the classes in each other's place; read through `raw_score`.

    Boosted trees with categories do not treat classes alike. Of two classes, their rows decide which one is positive to them,
    and not their names.
    """

    def __init__(self, estimator: Classifier):
        self.estimator = estimator

    def fit(self, features: Features, y: IntArray, **weights: FloatArray) -> Self:
        self.classes_ = np.array([0, 1])
        self.estimator_ = clone(self.estimator).fit(features, 1 - y, **weights)
        return self

    def predict_proba(self, features: Features) -> FloatArray:
        swapped: FloatArray = self.estimator_.predict_proba(features)[:, ::-1]
        return swapped


class PerClusterClassifier(BaseEstimator):
    """One classifier for each cluster of a partition, as the paper trains them; read through `raw_score`.

    A cluster without labelled rows of both classes has nothing to train on: the classifier of all rows speaks for it.
    """

    def __init__(self, estimator: Classifier, partition: Partition, encoder: FeatureEncoder):
        self.estimator = estimator
        self.partition = partition
        self.encoder = encoder

    def cluster(self, features: Features) -> IntArray:
        matrix = self.encoder.transform(features)
        n = len(matrix)
        nothing = np.zeros(n, np.int64)
        return self.partition.predict(Rows(features, matrix, nothing, np.ones(n), nothing.astype(np.uint64)))

    def with_classifiers(self, classifiers: list[Classifier]) -> Self:
        """A copy with a fitted classifier for each cluster."""
        fitted: Self = clone(self)
        fitted.classes_ = np.array([0, 1])
        fitted.classifiers_ = classifiers
        return fitted

    def scores(self, features: Features, cluster: IntArray, edge: float | None) -> FloatArray:
        """Raw scores of rows whose clusters are known already."""
        score = np.empty(len(cluster))
        for k, model in enumerate(self.classifiers_):
            own = np.flatnonzero(cluster == k)
            if len(own):
                score[own] = raw_score(model, take_rows(features, own), edge)
        return score

    def predict_proba(self, features: Features) -> FloatArray:
        positive = expit(raw_score(self, features, FINEST_EDGE))
        return np.column_stack([1 - positive, positive])
