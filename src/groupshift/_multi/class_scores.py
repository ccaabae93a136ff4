"""What classifiers say of rows of several classes: log-probabilities, and the labelled posterior made of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax
from sklearn.frozen import FrozenEstimator

from groupshift._fit.classifiers import FINEST_EDGE, Classifier, by_fold, check_probabilities, probabilities
from groupshift._fit.posterior import probability_edge
from groupshift._math.arrays import FloatArray, IntArray, KeyArray
from groupshift._math.calibration import as_far_as_shown
from groupshift._math.vector_scaling import SPREADS, VectorScaling, class_log_loss
from groupshift._regions.partitions import Partition
from groupshift._rows.frames import Features, take_rows
from groupshift._rows.keys import class_order
from groupshift._rows.rows import Rows


def training_order(y: IntArray, key: KeyArray, estimator: Classifier) -> IntArray:
    """Number of each class in training: by its rows, so that no classifier sees how classes are called.

    A classifier that was trained elsewhere has them in their own order.
    """
    is_trained = isinstance(estimator, FrozenEstimator)
    return np.arange(int(y.max()) + 1) if is_trained else class_order(y, key)


def log_probabilities(model: Classifier, features: Features, order: IntArray) -> FloatArray:
    """Log-probabilities of all classes, (n_rows, n_classes); of a class that the classifier never saw, next to nothing."""
    check_probabilities(model)
    found = probabilities(model, features)
    if found.shape[1] == len(order):
        p = found
    elif isinstance(model, FrozenEstimator):
        raise ValueError(
            f"The classifier that was trained elsewhere knows {found.shape[1]} classes, but the labels have {len(order)}. Train "
            "it on all of them, or leave rows of the other classes out."
        )
    else:
        p = np.zeros((len(found), len(order)))
        p[:, np.asarray(model.classes_, np.int64)] = found  # type: ignore[attr-defined]  # scikit-learn's
    log_p: FloatArray = np.log(np.maximum(p, FINEST_EDGE))[:, order]
    return log_p


def held(log_p: FloatArray, edge: float) -> FloatArray:
    """Log-probabilities that no class has less than the edge.

    >>> np.exp(held(np.log(np.array([[0.98, 0.02, 1e-9]])), 0.01)).round(3).tolist()
    [[0.97, 0.02, 0.01]]
    """
    floored: FloatArray = log_softmax(np.maximum(log_p, np.log(edge)), axis=1)
    return floored


def choose_class_edge(log_p: FloatArray, y: IntArray, weight: FloatArray) -> float:
    """How far to hold probabilities from 0: by the number of rows, or less if a temperature then predicts labels better."""
    coarse = probability_edge(len(y))
    everyone = np.zeros(len(y), np.int64)

    def loss(edge: float) -> FloatArray:
        score = held(log_p, edge)
        scaling = VectorScaling().fit(score, y, weight, everyone, 1, SPREADS[0])
        return class_log_loss(scaling.transform(score, everyone), y)

    return as_far_as_shown((coarse, coarse**2, FINEST_EDGE), loss, weight)


# A classifier for all rows, or one for each cluster.
Models = tuple[Classifier, ...]


def cluster_log_probabilities(
    models: Models, features: Features, cluster: IntArray, order: IntArray
) -> FloatArray:
    """Log-probabilities by the one classifier, or by that of each row's cluster."""
    if len(models) == 1:
        return log_probabilities(models[0], features, order)
    log_p = np.empty((len(cluster), len(order)))
    for k, model in enumerate(models):
        own = np.flatnonzero(cluster == k)
        if len(own):
            log_p[own] = log_probabilities(model, take_rows(features, own), order)
    return log_p


def out_of_fold(
    models: Sequence[Models], features: Features, fold: IntArray, cluster: IntArray, order: IntArray
) -> FloatArray:
    """Log-probabilities of rows by the models that did not see their fold."""

    def of_fold(f: int, own: IntArray) -> FloatArray:
        return cluster_log_probabilities(models[f], take_rows(features, own), cluster[own], order)

    return by_fold(of_fold, fold, len(models), np.empty((len(fold), len(order))))


@dataclass(frozen=True)
class ClassPosterior:
    """log ρ̃(x) of all classes, with the cluster that each row belongs to."""

    models: Models
    partition: Partition
    calibration: VectorScaling
    edge: float
    order: IntArray  # see `training_order`

    def score(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        """Log-probabilities, (n_rows, n_classes), and clusters."""
        cluster = self.partition.predict(rows)
        log_p = cluster_log_probabilities(self.models, rows.features, cluster, self.order)
        return self.calibration.transform(held(log_p, self.edge), cluster), cluster
