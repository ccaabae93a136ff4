"""The partition of the paper's real data: standardised columns, mini-batch k-means, K by silhouette."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from groupshift.datasets._rows import n_rows, named_columns, take_rows

CANDIDATES = (1, 2, 4, 8)
SILHOUETTE_ROWS = 25_000
CHUNK = 1 << 11


class KMeansPartition:
    """Mini-batch k-means on standardised columns.

    Numbers are standardised, a missing number becomes the column's mean. Text, categories and booleans
    become one 0/1 column per value, standardised too; a missing or new value has zeros. An array is all
    numbers.

    Parameters
    ----------
    n_clusters : int or None
        None chooses among 1, 2, 4 and 8 by the silhouette coefficient (1 scores 0) on 25,000 random rows.
    batch_size : int
        4096 in the paper; 14 in its code, where `2^12` is an exclusive or.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [9.0], [9.1]])
    >>> labels = KMeansPartition(n_clusters=2, random_state=0).fit(X).predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self, n_clusters: int | None = None, *, batch_size: int = 4096, random_state: Any = None
    ) -> None:
        self.n_clusters = n_clusters
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Any) -> KMeansPartition:
        rng = np.random.default_rng(self.random_state)
        self.columns_ = {name: _fit_column(column) for name, column in named_columns(X).items()}
        Z = self._encode(X)
        candidates = CANDIDATES if self.n_clusters is None else (self.n_clusters,)
        models = [self._fit_kmeans(Z, k, rng) for k in candidates if k <= len(Z)]
        if not models:
            raise ValueError(
                f"n_clusters is {self.n_clusters} and there are {len(Z)} rows: ask for fewer clusters."
            )
        self.silhouettes_ = {}
        if len(models) > 1:
            rows = rng.choice(len(Z), size=min(SILHOUETTE_ROWS, len(Z)), replace=False)
            scores = silhouettes(Z[rows], np.array([model.predict(Z[rows]) for model in models]))
            self.silhouettes_ = dict(zip(candidates, scores.tolist(), strict=False))
            self.kmeans_ = models[int(scores.argmax())]
        else:
            self.kmeans_ = models[0]
        self.n_clusters_ = self.kmeans_.n_clusters
        return self

    def predict(self, X: Any) -> np.ndarray:
        labels = np.empty(n_rows(X), dtype=np.int64)
        step = 100 * CHUNK
        for start in range(0, len(labels), step):
            rows = np.arange(start, min(start + step, len(labels)))
            labels[rows] = self.kmeans_.predict(self._encode(take_rows(X, rows)))
        return labels

    def _encode(self, X: Any) -> np.ndarray:
        blocks = [_encode_column(column, *self.columns_[name]) for name, column in named_columns(X).items()]
        return np.column_stack(blocks)

    def _fit_kmeans(self, Z: np.ndarray, k: int, rng: np.random.Generator) -> MiniBatchKMeans:
        seed = int(rng.integers(2**31))
        model = MiniBatchKMeans(n_clusters=k, batch_size=self.batch_size, n_init=3, random_state=seed)
        # Threads that meet after every 14 rows mostly wait: on two busy cores, 5 s against 0.1 s.
        with threadpool_limits(limits=1 if self.batch_size < 1024 else None):
            return model.fit(Z)


def silhouettes(Z: np.ndarray, labelings: np.ndarray) -> np.ndarray:
    """Mean silhouette coefficient of several labelings in one pass over distances; one cluster scores 0.

    >>> Z = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> silhouettes(Z, np.array([[0, 0, 1, 1], [0, 0, 0, 0]])).round(3)
    array([0.9, 0. ])
    """
    # Single precision: 25,000 rows have 625 million distances, and the coefficient is read to three digits.
    Z = (Z - Z.mean(axis=0)).astype(np.float32)
    blocks = [np.eye(labels.max() + 1, dtype=np.float32)[labels] for labels in labelings]
    sizes = [block.sum(axis=0, dtype=np.float64) for block in blocks]
    total = np.zeros(len(labelings))
    for start in range(0, len(Z), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(Z)))
        sums = _distances(Z[rows], Z) @ np.hstack(blocks)
        edges = np.cumsum([block.shape[1] for block in blocks])[:-1]
        for i, part in enumerate(np.split(sums, edges, axis=1)):
            total[i] += _silhouette_sum(part, labelings[i][rows], sizes[i])
    return total / len(Z)


def _silhouette_sum(sums: np.ndarray, own: np.ndarray, size: np.ndarray) -> float:
    if np.count_nonzero(size) < 2:
        return 0.0
    at = (np.arange(len(own)), own)
    # A row is at distance 0 from itself and does not count itself; alone in its cluster it scores 0.
    within = sums[at] / np.maximum(size[own] - 1, 1)
    others = np.where(size > 0, sums / np.maximum(size, 1), np.inf)
    others[at] = np.inf
    nearest = others.min(axis=1)
    largest = np.maximum(within, nearest)
    score = np.divide(nearest - within, largest, out=np.zeros(len(own)), where=largest > 0)
    return float(score[size[own] > 1].sum())


def _distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    squared = A @ (-2 * B.T) + np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B)
    return np.sqrt(np.maximum(squared, 0, out=squared), out=squared)


def _fit_column(column: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Values (None for numbers), means and standard deviations of the column's encoded form."""
    values = None if column.dtype.kind in "fiu" else np.unique([v for v in column.tolist() if _known(v)])
    raw = _raw_column(column, values)
    known = raw[~np.isnan(raw).any(axis=1)]
    mean, scale = (known.mean(axis=0), known.std(axis=0)) if len(known) else (np.zeros(1), np.zeros(1))
    # A constant column has nothing to say: it stays at zero instead of being divided by zero.
    return values, mean, np.where(scale > 0, scale, 1.0)


def _encode_column(
    column: np.ndarray, values: np.ndarray | None, mean: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    z = (_raw_column(column, values) - mean) / scale
    return np.nan_to_num(z, copy=False, nan=0.0)


def _raw_column(column: np.ndarray, values: np.ndarray | None) -> np.ndarray:
    if values is None:
        return column.astype(float)[:, None]
    return np.column_stack([column == value for value in values]).astype(float)


def _known(value: Any) -> bool:
    return value is not None and value == value
