"""Partitions of feature space into clusters: k-means in standardised space, whole space, or the user's own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus
from threadpoolctl import threadpool_limits

from groupshift._math.fitted_part import FittedPart
from groupshift._rows.chunks import add_up, map_chunks
from groupshift._rows.frames import Codes
from groupshift._rows.rows import Rows

MAX_ONE_HOT = 20
BLOCK_ROWS = 4096


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
        first = _weighted_sums(matrix, weight, ~is_category, np.zeros(int((~is_category).sum())), power=1)
        total = np.maximum(first[1], 1e-300)
        self.mean_ = first[0] / total
        second = _weighted_sums(matrix, weight, ~is_category, self.mean_, power=2)
        deviation = np.sqrt(second[0] / total)
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


def _weighted_sums(
    matrix: NDArray, weight: NDArray, columns: NDArray[np.bool_], center: NDArray, *, power: int
) -> NDArray[np.float64]:
    """Σ w (x − center)^power of each column over the rows where it is a number, and Σ w of those rows."""
    total = np.zeros((2, len(center)))
    # A few thousand rows at a time stay in the processor's cache: 5 times faster than whole columns.
    for start in range(0, len(matrix), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        number = matrix[part][:, columns].astype(float, copy=False)
        present = np.isfinite(number)
        far = np.where(present, number - center, 0.0)
        total += weight[part] @ far**power, weight[part] @ present
    return total


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
    distinct = len(np.unique(space.transform(matrix), axis=0)) if len(matrix) < 1000 else n_clusters
    n_clusters = min(n_clusters, distinct)
    if n_clusters == 1:
        return WholeSpace()
    if batch_size is not None:
        centroids = _mini_batch_centroids(space, matrix, weight, n_clusters, batch_size, random_state)
        return LinearPartition.from_centroids(space, centroids)
    model = KMeans(n_clusters, n_init=1, max_iter=100, random_state=random_state)
    model.fit(space.transform(matrix), sample_weight=weight)
    return LinearPartition.from_centroids(space, model.cluster_centers_.astype(float))


def _mini_batch_centroids(
    space: Space, matrix: NDArray, weight: NDArray, n_clusters: int, batch_size: int, random_state: int
) -> NDArray[np.float64]:
    """Mini-batches of random rows until ten of them in a row bring nothing, by scikit-learn's rule for that.

    The steps are scikit-learn's; the batches are drawn here, since its `fit` weighs all rows anew for each batch, which
    takes ten times as long as the batch itself from a million rows.
    """
    rng = np.random.default_rng(random_state)
    size = min(batch_size, len(matrix))
    # A batch of rows without weight would have no centre.
    able = np.flatnonzero(weight > 0)

    def draw(n_rows: int) -> tuple[NDArray, NDArray]:
        rows = able[rng.integers(len(able), size=n_rows)]
        return space.transform(matrix[rows]), weight[rows]

    start = _best_start(*draw(min(3 * max(size, n_clusters), len(matrix))), n_clusters, random_state)
    model = MiniBatchKMeans(n_clusters, init=start, n_init=1, batch_size=size, random_state=random_state)
    memory = 1 - min(2 * size / (len(matrix) + 1), 1)
    smooth = lowest = np.inf
    stalled = 0
    for _ in range(100 * len(matrix) // size):
        batch, mass = draw(size)
        model.partial_fit(batch, sample_weight=mass)
        inertia = model.inertia_ / max(mass.sum(), 1e-300)
        smooth = inertia if smooth == np.inf else memory * smooth + (1 - memory) * inertia
        stalled = 0 if smooth < lowest else stalled + 1
        lowest = min(lowest, smooth)
        if stalled == 10:
            break
    return model.cluster_centers_.astype(float)


def _best_start(points: NDArray, weight: NDArray, n_clusters: int, random_state: int) -> NDArray:
    """The best of three starts by k-means++."""
    starts = [
        kmeans_plusplus(points, n_clusters, sample_weight=weight, random_state=random_state + i)[0]
        for i in range(3)
    ]
    # |x|² is the same for every start.
    return min(starts, key=lambda c: weight @ ((c**2).sum(1) - 2 * points @ c.T).min(1))


def silhouette_partition(
    space: Space,
    matrix: NDArray,
    weight: NDArray,
    *,
    random_state: int,
    choices: tuple[int, ...] = (1, 2, 4, 8),
    batch_size: int = 4096,
    n_rows: int = 25_000,
) -> tuple[LinearPartition | WholeSpace, dict[int, float]]:
    """The paper's partition: mini-batch k-means, K by the silhouette on random rows; one cluster scores 0."""
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


def silhouettes(embedded: NDArray, labelings: list[NDArray], block: int = 256) -> list[float]:
    """Mean silhouette of several labelings of the same rows; the distances are computed once for all of them.

    >>> points = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> [round(float(s), 3) for s in silhouettes(points, [np.array([0, 0, 1, 1])])]
    [0.98]
    """
    if not labelings:
        return []
    one_hot = [np.eye(labels.max() + 1, dtype=np.float32)[labels] for labels in labelings]
    sums = _distance_sums(embedded.astype(np.float32), np.hstack(one_hot), block)
    ends = np.cumsum([h.shape[1] for h in one_hot])
    return [
        _silhouette(total, labels)
        for total, labels in zip(np.split(sums, ends[:-1], axis=1), labelings, strict=True)
    ]


def _distance_sums(points: NDArray, member: NDArray, block: int) -> NDArray[np.float64]:
    """Sum of the distances of each point to the members of each cluster.

    Blocks of distances stay in the processor's cache, and each serves both of its sides.
    """
    square = (points**2).sum(1, keepdims=True)
    one = np.ones_like(square)
    # |x|² + |y|² − 2xy as one product.
    left, right = np.hstack([-2 * points, square, one]), np.hstack([points, one, square])
    parts = [slice(start, start + block) for start in range(0, len(points), block)]

    def strip(i: int) -> NDArray[np.float64]:
        sums = np.zeros((len(points), member.shape[1]))
        for b in parts[i:]:
            distance = left[parts[i]] @ right[b].T
            np.sqrt(np.maximum(distance, 0, out=distance), out=distance)
            if b == parts[i]:
                # Rounding leaves a point a little away from itself.
                np.fill_diagonal(distance, 0)
            else:
                sums[b] += distance.T @ member[parts[i]]
            sums[parts[i]] += distance @ member[b]
        return sums

    # Our threads share the cores already: BLAS, left to itself, would start as many again for every small block.
    with threadpool_limits(1, user_api="blas"):
        return add_up(map_chunks(strip, range(len(parts))))


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
