"""Partitions of feature space into clusters: what a partition is, and the kinds that labels play no part in."""

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupshift._data.codes import Codes, FittedPart
from groupshift._data.encoder import Space
from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, IntArray


class Partition(Protocol):
    """Clusters of feature space, numbered from 0."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters; some may hold no row."""

    def predict(self, rows: Rows) -> IntArray:
        """The cluster of each row."""


class Clusterer(Protocol):
    """A fitted clusterer of the user's, such as scikit-learn's `KMeans`."""

    def predict(self, X: Any, /) -> ArrayLike:
        """A label for each row of the table that the user gave to `fit`, whatever kind of table that is."""


class WholeSpace(FittedPart):
    """The partition with one cluster."""

    n_clusters = 1

    def predict(self, rows: Rows) -> IntArray:
        return np.zeros(len(rows), np.int64)


class GivenPartition(FittedPart):
    """The clusters of a `Clusterer`; its labels may be of any kind."""

    def __init__(self, clusterer: Clusterer):
        self.clusterer = clusterer

    def fit(self, rows: Rows) -> Self:
        labels = np.asarray(self.clusterer.predict(rows.features))
        self.codes_ = Codes().fit(labels)
        # A label that no row had at fit tells nothing about its place: the most common cluster is the best guess.
        self.fallback_ = int(np.bincount(self.codes_.transform(labels)).argmax())
        return self

    @property
    def n_clusters(self) -> int:
        return len(self.codes_.values_)

    def predict(self, rows: Rows) -> IntArray:
        code = self.codes_.transform(np.asarray(self.clusterer.predict(rows.features)))
        return np.where(code < 0, self.fallback_, code)


class LinearPartition(FittedPart):
    """Clusters with straight boundaries: a row belongs where its linear score is highest.

    Parameters
    ----------
    space : Space
    slope, intercept : arrays of shape (n_dimensions, n_clusters) and (n_clusters,)
        Scores of standardised rows are ``rows @ slope + intercept``.
    """

    def __init__(self, space: Space, slope: FloatArray, intercept: FloatArray):
        self.space = space
        self.slope = slope
        self.intercept = intercept

    @classmethod
    def from_centroids(cls, space: Space, centroids: FloatArray) -> Self:
        """Each row with its nearest centroid, as in k-means."""
        # -|x - c|² is linear in x but for |x|², which is the same for every c.
        return cls(space, 2 * centroids.T, -(centroids**2).sum(1))

    @property
    def n_clusters(self) -> int:
        return len(self.intercept)

    def predict(self, rows: Rows) -> IntArray:
        return self.cell(rows.matrix)

    def cell(self, matrix: NDArray[np.floating]) -> IntArray:
        """The cluster of each row of a matrix."""
        if self.space.is_category_.any():
            return _highest(self.slope.T @ self.space.transform(matrix).T, self.intercept)
        # Standardising folds into the slopes: one matrix product serves a row's scores of all clusters.
        slope = self.slope / self.space.scale_[:, None]
        score = slope.astype(matrix.dtype, copy=False).T @ matrix.T
        if not np.isfinite(score).all():
            score = slope.T @ np.where(np.isfinite(matrix), matrix, self.space.mean_).T
        return _highest(score, self.intercept - self.space.mean_ @ slope)


def _highest(score: NDArray[np.floating], intercept: FloatArray) -> IntArray:
    """Which of the clusters has the highest score plus intercept; the first of equals.

    `score` has shape (n_clusters, n_rows). One cluster after the other takes half the time of `argmax` over each row's few.
    """
    best = score[0] + intercept[0]
    # Of as many bytes as a truth value: the processor then needs no conversion.
    kind = np.int8 if len(score) <= np.iinfo(np.int8).max else np.int16
    cluster = np.zeros(len(best), kind)
    for k in range(1, len(score)):
        rival = score[k] + intercept[k]
        is_higher = (rival > best).view(np.int8)
        # Numbers grow: the higher one is the later one, and the winner so far.
        np.maximum(cluster, np.multiply(is_higher, kind(k), dtype=kind), out=cluster)
        np.maximum(best, rival, out=best)
    return cluster.astype(np.int64)
