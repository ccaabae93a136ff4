"""Partitions by k-means in standardised space, and the paper's choice of K by the silhouette."""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus

from groupshift._data.encoder import Space
from groupshift._data.keys import Seeds
from groupshift._data.workers import add_up, even_unconverged, map_chunks
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._partitions.partitions import LinearPartition, WholeSpace


def kmeans_partition(
    space: Space,
    matrix: NDArray[np.floating],
    weight: FloatArray,
    *,
    n_clusters: int,
    random_state: int,
    batch_size: int | None = None,
    max_iter: int = 100,
) -> LinearPartition | WholeSpace:
    """k-means in standardised space; with a `batch_size`, in mini-batches as the paper runs it.

    Without mini-batches every cluster holds a row: distinct rows that are fewer than `n_clusters` make fewer clusters.
    """
    n_clusters = min(n_clusters, len(matrix))
    if len(matrix) < 1000:
        n_clusters = min(n_clusters, len(np.unique(space.transform(matrix), axis=0)))
    if n_clusters == 1:
        return WholeSpace()
    if batch_size is None:
        centroids = _centroids(space.transform(matrix), weight, n_clusters, random_state, max_iter)
    else:
        centroids = _mini_batch_centroids(space, matrix, weight, n_clusters, batch_size, random_state)
    return WholeSpace() if len(centroids) == 1 else LinearPartition.from_centroids(space, centroids)


def _centroids(
    embedded: FloatArray, weight: FloatArray, n_clusters: int, random_state: int, max_iter: int
) -> FloatArray:
    model = KMeans(n_clusters, n_init=1, max_iter=max_iter, random_state=random_state)
    # Fewer distinct rows than clusters: the centroids that no row is nearest to are left out below.
    with even_unconverged():
        # Centres need no more digits than single precision has, in half the time.
        model.fit(embedded.astype(np.float32), sample_weight=weight)
    centroids: FloatArray = model.cluster_centers_[np.unique(model.labels_)].astype(float)
    return centroids


def _mini_batch_centroids(
    space: Space,
    matrix: NDArray[np.floating],
    weight: FloatArray,
    n_clusters: int,
    batch_size: int,
    random_state: int,
) -> FloatArray:
    """Mini-batches of random rows until ten of them in a row bring nothing, by scikit-learn's rule for that.

    The steps are scikit-learn's; the batches are drawn here, since its `fit` weighs all rows anew for each batch, which
    takes ten times as long as the batch itself from a million rows.
    """
    rng = np.random.default_rng(random_state)
    size = min(batch_size, len(matrix))
    # A batch of rows without weight would have no centre.
    has_weight = np.flatnonzero(weight > 0)

    def draw(n_rows: int) -> tuple[FloatArray, FloatArray]:
        rows = has_weight[rng.integers(len(has_weight), size=n_rows)]
        return space.transform(matrix[rows]), weight[rows]

    start = _best_start(*draw(min(3 * max(size, n_clusters), len(matrix))), n_clusters, random_state)
    model = MiniBatchKMeans(n_clusters, init=start, n_init=1, batch_size=size, random_state=random_state)
    memory = 1 - min(2 * size / (len(matrix) + 1), 1)
    smooth = lowest = np.inf
    stalled = 0
    for _ in range(100 * len(matrix) // size):
        batch, batch_weight = draw(size)
        model.partial_fit(batch, sample_weight=batch_weight)
        inertia = model.inertia_ / max(batch_weight.sum(), 1e-300)
        smooth = inertia if smooth == np.inf else memory * smooth + (1 - memory) * inertia
        stalled = 0 if smooth < lowest else stalled + 1
        lowest = min(lowest, smooth)
        if stalled == 10:
            break
    centroids: FloatArray = model.cluster_centers_.astype(float)
    return centroids


def _best_start(points: FloatArray, weight: FloatArray, n_clusters: int, random_state: int) -> FloatArray:
    """The best of three starts by k-means++."""
    starts: list[FloatArray] = [
        kmeans_plusplus(points, n_clusters, sample_weight=weight, random_state=random_state + i)[0]
        for i in range(3)
    ]
    # |x|² is the same for every start.
    return min(starts, key=lambda c: weight @ ((c**2).sum(1) - 2 * points @ c.T).min(1))


def silhouette_partition(
    space: Space,
    matrix: NDArray[np.floating],
    weight: FloatArray,
    *,
    seeds: Seeds,
    choices: tuple[int, ...] = (1, 2, 4, 8),
    batch_size: int = 4096,
    n_rows: int = 25_000,
) -> tuple[LinearPartition | WholeSpace, dict[int, float]]:
    """The paper's partition: mini-batch k-means, K by the silhouette on random rows; one cluster scores 0."""
    partitions = {
        k: kmeans_partition(
            space,
            matrix,
            weight,
            n_clusters=k,
            random_state=seeds.named(f"k-means {k}"),
            batch_size=batch_size,
        )
        for k in choices
    }
    rng = seeds.generator("silhouette rows")
    rows = rng.choice(len(matrix), min(n_rows, len(matrix)), replace=False)
    embedded = space.transform(matrix[rows])
    labels = {k: p.cell(matrix[rows]) for k, p in partitions.items() if isinstance(p, LinearPartition)}
    scores = dict.fromkeys(choices, 0.0) | dict(
        zip(labels, silhouettes(embedded, list(labels.values())), strict=True)
    )
    return partitions[max(scores, key=lambda k: (scores[k], -k))], scores


def silhouettes(embedded: FloatArray, labelings: list[IntArray], block: int = 256) -> list[float]:
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


def _distance_sums(points: NDArray[np.float32], member: NDArray[np.float32], block: int) -> FloatArray:
    """Sum of the distances of each point to the members of each cluster: (n_points, n_clusters).

    Blocks of distances stay in the processor's cache, and each serves both of its sides.
    """
    square = (points**2).sum(1, keepdims=True)
    one = np.ones_like(square)
    # |x|² + |y|² − 2xy as one product.
    left, right = np.hstack([-2 * points, square, one]), np.hstack([points, one, square])
    parts = [slice(start, start + block) for start in range(0, len(points), block)]

    def strip(i: int) -> FloatArray:
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

    return add_up(map_chunks(strip, range(len(parts))))


def _silhouette(total: FloatArray, labels: IntArray) -> float:
    """Mean silhouette from the sums of distances to each cluster, of shape (n_points, n_clusters)."""
    size = np.bincount(labels, minlength=total.shape[1])
    own = (np.arange(len(labels)), labels)
    within = total[own] / np.maximum(size[labels] - 1, 1)
    other = total / np.maximum(size, 1)
    other[:, size == 0] = np.inf
    other[own] = np.inf
    nearest = other.min(1)
    if not np.isfinite(nearest).all():
        return 0.0
    value = (nearest - within) / np.maximum(np.maximum(nearest, within), 1e-300)
    return float(np.where(size[labels] > 1, value, 0.0).mean())
