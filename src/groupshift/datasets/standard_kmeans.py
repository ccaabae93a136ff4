"""The partition of the paper's real data: standardised columns, mini-batch k-means, K by silhouette."""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from groupshift._partitions.kmeans import silhouettes
from groupshift.datasets.containers import Seed, Table, named_columns

CANDIDATES = (1, 2, 4, 8)
SILHOUETTE_ROWS = 25_000


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
    refit : bool
        Fit once more after the number of clusters is chosen, from another start, as the authors' code does.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [9.0], [9.1]])
    >>> labels = KMeansPartition(n_clusters=2, random_state=0).fit(X).predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        batch_size: int = 4096,
        refit: bool = False,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.batch_size = batch_size
        self.refit = refit
        self.random_state = random_state

    def fit(self, X: Table) -> "KMeansPartition":
        rng = np.random.default_rng(self.random_state)
        self.values_ = {name: _values(column) for name, column in named_columns(X).items()}
        self.scaler_ = StandardScaler().fit(self._numbers(X))
        Z = self.standardised(X)
        candidates = CANDIDATES if self.n_clusters is None else (self.n_clusters,)
        models = {k: self._fit_kmeans(Z, k, rng) for k in candidates if k <= len(Z)}
        if not models:
            raise ValueError(
                f"n_clusters is {self.n_clusters} and there are {len(Z)} rows: ask for fewer clusters."
            )
        self.silhouettes_ = dict.fromkeys(models, 0.0)
        if len(models) > 1:
            rows = rng.choice(len(Z), size=min(SILHOUETTE_ROWS, len(Z)), replace=False)
            labelings = [models[k].predict(Z[rows]) for k in models]
            self.silhouettes_ = dict(zip(models, silhouettes(Z[rows], labelings), strict=True))
        self.n_clusters_ = max(models, key=lambda k: self.silhouettes_[k])
        chosen = models[self.n_clusters_]
        self.kmeans_ = self._fit_kmeans(Z, self.n_clusters_, rng) if self.refit else chosen
        return self

    def predict(self, X: Table) -> np.ndarray:
        labels: np.ndarray = self.kmeans_.predict(self.standardised(X))
        return labels.astype(np.int64)

    def standardised(self, X: Table) -> NDArray[np.float64]:
        """Rows as k-means sees them; missing numbers are at the mean, 0."""
        scaled = np.asarray(self.scaler_.transform(self._numbers(X)), dtype=np.float64)
        return np.nan_to_num(scaled, copy=False, nan=0.0)

    def _numbers(self, X: Table) -> np.ndarray:
        """Numbers as they are, and a column of 0 and 1 for each value of any other column."""
        columns: list[np.ndarray] = []
        for name, column in named_columns(X).items():
            values = self.values_[name]
            columns += [column] if values is None else [column == value for value in values]
        return np.column_stack([column.astype(float) for column in columns])

    def _fit_kmeans(self, Z: np.ndarray, k: int, rng: np.random.Generator) -> MiniBatchKMeans:
        seed = int(rng.integers(2**31))
        model = MiniBatchKMeans(n_clusters=k, batch_size=self.batch_size, n_init=3, random_state=seed)
        # Threads that meet after every 14 rows mostly wait: on two busy cores, 5 s against 0.1 s.
        with threadpool_limits(limits=1 if self.batch_size < 1024 else None):
            return model.fit(Z)


def _values(column: np.ndarray) -> list[object] | None:
    """The distinct values of a column, without missing ones; None for a column of numbers."""
    if column.dtype.kind in "fiu":
        return None
    # Text, since values of mixed kinds have no order of their own.
    return sorted({value for value in column.tolist() if value is not None and value == value}, key=str)
