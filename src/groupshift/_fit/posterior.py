"""The labelled posterior: classifiers trained on labelled rows, their scores, and the calibration on top."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from groupshift._math.calibration import PlattScaling
from groupshift._math.fitted_part import FittedPart
from groupshift._math.odds import log_loss_rows
from groupshift._rows.frames import FeatureEncoder, take_rows
from groupshift._rows.rows import Rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Beyond it a probability in double precision is 0 or 1.
FINEST_EDGE = 1e-15
# Log-odds outside the edge lie within a tenth of it: enough for their order, too little to matter to calibration.
BESIDE = 0.02


def default_classifier(is_category: NDArray[np.bool_], random_state: int) -> HistGradientBoostingClassifier:
    """Histogram gradient boosting that knows which columns are categories.

    Early stopping is off: its validation rows are drawn at random, and would hold copies of training examples.
    """
    return HistGradientBoostingClassifier(
        early_stopping=False,
        categorical_features=is_category if is_category.any() else None,
        random_state=random_state,
    )


def weight_argument(estimator: Any) -> str | None:
    """Name under which `estimator.fit` takes row weights; None if it takes none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fit_classifier(estimator: Any, features: Any, y: IntArray, weight: FloatArray):
    """A fitted clone of `estimator`; equal weights are not passed, so that any classifier serves.

    A frozen estimator, trained elsewhere, is used as it is.
    """
    if isinstance(estimator, FrozenEstimator):
        return estimator
    model = clone(estimator)
    if np.all(weight == weight[0]):
        return model.fit(features, y)
    argument = weight_argument(model)
    if argument is None:
        raise ValueError(
            f"{type(model).__name__} takes no sample_weight, but rows have different weights. "
            "Use a classifier that takes weights, or leave the weights out."
        )
    return model.fit(features, y, **{argument: weight})


def raw_score(model: Any, features: Any, edge: float | None) -> FloatArray:
    """What a fitted classifier says of rows: with an `edge`, the log-odds of its probability, held about that far from 0 and 1.

    Without an edge, and from classifiers without probabilities, the decision function is taken as it is, or else the
    probability, which is how Platt scaling is commonly fed.
    """
    if isinstance(model, PerClusterClassifier):
        return model.scores(features, model.cluster(features), edge)
    bounded = edge is not None and hasattr(model, "predict_proba")
    if hasattr(model, "decision_function") and not bounded:
        return np.asarray(model.decision_function(features), float)
    probability = np.asarray(model.predict_proba(features)[:, 1], float)
    return (
        probability if edge is None else hold(logit(np.clip(probability, FINEST_EDGE, 1 - FINEST_EDGE)), edge)
    )


def hold(log_odds: FloatArray, edge: float) -> FloatArray:
    """Log-odds as they are inside the edge; outside, all of them next to it, in their order.

    Order is kept because ranking knows more than calibration does: where positives are rare, most rows lie outside.

    >>> hold(np.array([0.0, 3.0, 30.0]), edge=0.01).round(2).tolist()
    [0.0, 3.0, 4.66]
    """
    limit = logit(1 - edge)
    excess = np.maximum(np.abs(log_odds) - limit, 0)
    return np.clip(log_odds, -limit, limit) + np.sign(log_odds) * BESIDE * np.log1p(excess)


def choose_edge(log_odds: FloatArray, y: IntArray, weight: FloatArray) -> float:
    """How far to hold log-odds from infinity: by the number of rows, or less if Platt scaling then predicts labels better.

    A forest whose votes are unanimous is not certain, and is best held. Boosted trees go on telling rows apart far beyond;
    a standard error of the gain must show it. Log-odds are those of rows that the classifier was not trained on.
    """
    chosen = coarse = probability_edge(len(y))
    if np.abs(log_odds).max() <= logit(1 - coarse):
        return chosen
    everyone = np.zeros(len(y), np.int64)

    def loss(edge: float) -> FloatArray:
        score = hold(log_odds, edge)
        platt = PlattScaling().fit(score, y, weight, everyone, 1)
        return log_loss_rows(platt.transform(score, everyone), y)

    now = loss(coarse)
    for edge in (coarse**2, FINEST_EDGE):
        then = loss(edge)
        gain = weight * (now - then)
        if gain.sum() > np.sqrt((gain**2).sum()):
            chosen, now = edge, then
    return chosen


def probability_edge(n_rows: int) -> float:
    """Trained on n rows, nobody knows a probability finer than 1 in n.

    >>> probability_edge(98)
    0.01
    """
    return 1 / (n_rows + 2)


def training_sets(fold: IntArray) -> list[IntArray]:
    """Rows outside each fold, and last all rows."""
    return [np.flatnonzero(fold != f) for f in range(int(fold.max()) + 1)] + [np.arange(len(fold))]


def fit_sets(
    estimator: Any, features: Any, y: IntArray, weight: FloatArray, sets: Sequence, n_jobs: int | None
) -> list:
    """One model for each set of rows."""
    return Parallel(n_jobs=n_jobs)(
        delayed(fit_classifier)(estimator, take_rows(features, rows), y[rows], weight[rows]) for rows in sets
    )


def out_of_fold_scores(
    models: Sequence, features: Any, fold: IntArray, edge: float | None, cluster: IntArray | None = None
) -> FloatArray:
    """Scores of rows by the model that did not see their fold; by the classifier of `cluster` where each has one."""
    score = np.empty(len(fold))
    for f, model in enumerate(models):
        own = np.flatnonzero(fold == f)
        if not len(own):
            continue
        part = take_rows(features, own)
        if cluster is not None and isinstance(model, PerClusterClassifier):
            score[own] = model.scores(part, cluster[own], edge)
        else:
            score[own] = raw_score(model, part, edge)
    return score


class PerClusterClassifier(BaseEstimator):
    """One classifier for each cluster of a partition, as the paper trains them; read through `raw_score`.

    A cluster without labelled rows of both classes has nothing to train on: the classifier of all rows speaks for it.
    """

    def __init__(self, estimator: Any, partition: Any, encoder: FeatureEncoder):
        self.estimator = estimator
        self.partition = partition
        self.encoder = encoder

    def cluster(self, features: Any) -> IntArray:
        matrix = self.encoder.transform(features)
        n = len(matrix)
        nothing = np.zeros(n, np.int64)
        return self.partition.predict(Rows(features, matrix, nothing, np.ones(n), nothing.astype(np.uint64)))

    def fit(
        self, features: Any, y: IntArray, sample_weight: FloatArray | None = None
    ) -> "PerClusterClassifier":
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        cluster = self.cluster(features)
        parts = [np.flatnonzero(cluster == k) for k in range(self.partition.n_clusters)]
        trainable = [len(np.unique(y[part])) == 2 for part in parts]
        self.classes_ = np.array([0, 1])
        self.fallback_ = None if all(trainable) else fit_classifier(self.estimator, features, y, weight)
        self.classifiers_ = [
            fit_classifier(self.estimator, take_rows(features, part), y[part], weight[part])
            if good
            else self.fallback_
            for part, good in zip(parts, trainable, strict=True)
        ]
        return self

    def scores(self, features: Any, cluster: IntArray, edge: float | None) -> FloatArray:
        """Raw scores of rows whose clusters are known already."""
        score = np.empty(len(cluster))
        for k, model in enumerate(self.classifiers_):
            own = np.flatnonzero(cluster == k)
            if len(own):
                score[own] = raw_score(model, take_rows(features, own), edge)
        return score


class LabeledPosterior(FittedPart):
    """logit ρ̃(x) of rows, with the cluster that each belongs to.

    Parameters
    ----------
    classifier : fitted classifier
    partition : object with `predict(rows)` and `n_clusters`
    calibration : fitted PlattScaling
    edge : float or None
        See `raw_score`.
    """

    def __init__(self, classifier: Any, partition: Any, calibration: PlattScaling, edge: float | None):
        self.classifier = classifier
        self.partition = partition
        self.calibration = calibration
        self.edge = edge

    def score(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        cluster = self.partition.predict(rows)
        if isinstance(self.classifier, PerClusterClassifier):
            score = self.classifier.scores(rows.features, cluster, self.edge)
        else:
            score = raw_score(self.classifier, rows.features, self.edge)
        return self.calibration.transform(score, cluster), cluster
