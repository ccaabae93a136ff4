"""Partitions of feature space into clusters: k-means in standardised space, whole space, or the user's own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans

from groupshift.rows import Rows
from groupshift.tables import Codes, FittedPart

MAX_ONE_HOT = 20


class WholeSpace(FittedPart):
    """The partition with one cluster."""

    n_clusters = 1

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        return np.zeros(len(rows), np.int64)


class GivenPartition(FittedPart):
    """A fitted clusterer of the user's, asked through its `predict`."""

    def __init__(self, clusterer: Any):
        self.clusterer = clusterer

    def fit(self, rows: Rows) -> "GivenPartition":
        labels = np.asarray(self.clusterer.predict(rows.features))
        self.codes_ = Codes().fit(labels)
        # A label that no row had at fit tells nothing about its place: the most common cluster is the best guess.
        self.fallback_ = int(np.bincount(self.codes_.transform(labels)).argmax())
        return self

    @property
    def n_clusters(self) -> int:
        return len(self.codes_.values_)

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        code = self.codes_.transform(np.asarray(self.clusterer.predict(rows.features)))
        return np.where(code < 0, self.fallback_, code)


class Space(FittedPart):
    """Feature space as k-means sees it: numbers standardised, missing ones at the mean, categories one-hot.

    Two rows that differ in a category lie as far apart as two random rows do in a standardised number.
    """

    def fit(self, matrix: NDArray, weight: NDArray, is_category: NDArray[np.bool_]) -> "Space":
        number = matrix[:, ~is_category].astype(float)
        present = np.isfinite(number)
        share = weight[:, None] * present
        total = np.maximum(share.sum(0), 1e-300)
        filled = np.where(present, number, 0.0)
        self.mean_ = (share * filled).sum(0) / total
        deviation = np.sqrt((share * (filled - self.mean_) ** 2).sum(0) / total)
        # A constant column has no spread to divide by; it then tells no clusters apart.
        self.scale_ = np.where(deviation > 1e-12 * np.maximum(1, np.abs(self.mean_)), deviation, 1.0)
        self.is_category_ = is_category
        return self

    @property
    def n_dimensions(self) -> int:
        return len(self.mean_) + MAX_ONE_HOT * int(self.is_category_.sum())

    def transform(self, matrix: NDArray) -> NDArray[np.float64]:
        number = (matrix[:, ~self.is_category_] - self.mean_) / self.scale_
        np.nan_to_num(number, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        if not self.is_category_.any():
            return number
        codes = matrix[:, self.is_category_]
        # Codes are ordered by frequency: the rarest categories share the zero vector with the missing ones.
        one_hot = (codes[:, :, None] == np.arange(MAX_ONE_HOT)).reshape(len(matrix), -1)
        return np.hstack([number, one_hot.astype(float)])


class LinearPartition(FittedPart):
    """Clusters with straight boundaries: a row belongs where its linear score is highest.

    The cells of k-means are of this kind (`from_centroids`); several of them may make one cluster (`cluster_of`).
    """

    def __init__(self, space: Space, slope: NDArray, intercept: NDArray, cluster_of: NDArray | None = None):
        self.space = space
        self.slope = slope
        self.intercept = intercept
        self.cluster_of = cluster_of

    @classmethod
    def from_centroids(cls, space: Space, centroids: NDArray) -> "LinearPartition":
        # Nearest centroid: -|x - c|² is linear in x but for |x|², which is the same for every c.
        return cls(space, 2 * centroids.T, -(centroids**2).sum(1))

    @property
    def n_clusters(self) -> int:
        return self.slope.shape[1] if self.cluster_of is None else int(self.cluster_of.max()) + 1

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        cell = self.cell(rows.matrix)
        return cell if self.cluster_of is None else self.cluster_of[cell]

    def cell(self, matrix: NDArray) -> NDArray[np.int64]:
        """The cell of each row, before cells are joined to clusters."""
        if self.space.is_category_.any():
            return np.argmax(self.space.transform(matrix) @ self.slope + self.intercept, axis=1)
        # Standardising folds into the slopes: one matrix product serves a row's scores of all cells.
        slope = self.slope / self.space.scale_[:, None]
        score = matrix @ slope.astype(matrix.dtype, copy=False)
        if not np.isfinite(score).all():
            score = np.where(np.isfinite(matrix), matrix, self.space.mean_) @ slope
        return np.argmax(score + (self.intercept - self.space.mean_ @ slope), axis=1)


def kmeans_partition(
    space: Space,
    matrix: NDArray,
    weight: NDArray,
    *,
    n_clusters: int,
    random_state: int,
    batch_size: int | None = None,
) -> LinearPartition | WholeSpace:
    """k-means in standardised space; with a `batch_size`, in mini-batches as the paper runs it."""
    if n_clusters == 1:
        return WholeSpace()
    embedded = space.transform(matrix)
    distinct = len(np.unique(embedded[:1000], axis=0)) if len(embedded) < 1000 else n_clusters
    n_clusters = min(n_clusters, distinct)
    if n_clusters == 1:
        return WholeSpace()
    if batch_size is None:
        model = KMeans(n_clusters, n_init=1, max_iter=100, random_state=random_state)
    else:
        model = MiniBatchKMeans(n_clusters, batch_size=batch_size, n_init=3, random_state=random_state)
    model.fit(embedded, sample_weight=weight)
    return LinearPartition.from_centroids(space, model.cluster_centers_.astype(float))


def silhouette_partition(
    matrix: NDArray,
    weight: NDArray,
    is_category: NDArray[np.bool_],
    *,
    random_state: int,
    choices: tuple[int, ...] = (1, 2, 4, 8),
    batch_size: int = 4096,
    n_rows: int = 25_000,
) -> tuple[LinearPartition | WholeSpace, dict[int, float]]:
    """The paper's partition: mini-batch k-means, K by the silhouette on random rows; one cluster scores 0."""
    space = Space().fit(matrix, weight, is_category)
    candidates = {
        k: kmeans_partition(
            space, matrix, weight, n_clusters=k, random_state=random_state, batch_size=batch_size
        )
        for k in choices
    }
    rng = np.random.default_rng(random_state)
    rows = rng.choice(len(matrix), min(n_rows, len(matrix)), replace=False)
    embedded = space.transform(matrix[rows])
    labels = {k: p.cell(matrix[rows]) for k, p in candidates.items() if isinstance(p, LinearPartition)}
    scores = dict.fromkeys(choices, 0.0) | dict(
        zip(labels, silhouettes(embedded, list(labels.values())), strict=True)
    )
    return candidates[max(scores, key=lambda k: (scores[k], -k))], scores


def silhouettes(embedded: NDArray, labelings: list[NDArray], block: int = 2048) -> list[float]:
    """Mean silhouette of several labelings of the same rows; the distances are computed once for all of them.

    >>> points = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> [round(float(s), 3) for s in silhouettes(points, [np.array([0, 0, 1, 1])])]
    [0.98]
    """
    if not labelings:
        return []
    points = embedded.astype(np.float32)
    square = (points**2).sum(1)
    one_hot = [np.eye(labels.max() + 1, dtype=np.float32)[labels] for labels in labelings]
    stacked = np.hstack(one_hot)
    sums = np.empty((len(points), stacked.shape[1]), np.float32)
    for start in range(0, len(points), block):
        part = slice(start, start + block)
        distance = square[part, None] + square - 2 * points[part] @ points.T
        np.sqrt(np.maximum(distance, 0, out=distance), out=distance)
        # Rounding leaves a point a little away from itself.
        distance[np.arange(len(distance)), np.arange(start, start + len(distance))] = 0
        sums[part] = distance @ stacked
    ends = np.cumsum([h.shape[1] for h in one_hot])
    return [
        _silhouette(total.astype(float), labels)
        for total, labels in zip(np.split(sums, ends[:-1], axis=1), labelings, strict=True)
    ]


def _silhouette(total: NDArray, labels: NDArray) -> float:
    size = np.bincount(labels, minlength=total.shape[1])
    own = (np.arange(len(labels)), labels)
    within = total[own] / np.maximum(size[labels] - 1, 1)
    other = total / np.maximum(size, 1)
    other[:, size == 0] = np.inf
    other[own] = np.inf
    nearest = other.min(1)
    if not np.isfinite(nearest).all():
        return 0.0
    value = np.where(
        size[labels] > 1, (nearest - within) / np.maximum(np.maximum(nearest, within), 1e-300), 0.0
    )
    return float(value.mean())
