"""A biased sample and a population from a fully labelled table: the paper's resampling of real data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from groupshift.datasets.containers import (
    Seed,
    Table,
    encode_ids,
    halve,
    hold_out,
    n_rows,
    named_columns,
    some_examples,
    take_rows,
)
from groupshift.datasets.sample import GroupedSample, Partition
from groupshift.datasets.shares import cell_counts, draw_shares, observed_shares

CANDIDATES = (1, 2, 4, 8)
SILHOUETTE_ROWS = 25_000


def bias_groups(
    X: Table,
    y: np.ndarray,
    groups: np.ndarray,
    *,
    setting: int,
    n_clusters: int | None = None,
    partition: Partition | None = None,
    batch_size: int = 4096,
    replace: bool = True,
    example_ids: np.ndarray | None = None,
    max_rows: int | None = None,
    test_size: float = 0.2,
    random_state: Seed = None,
    name: str = "",
) -> GroupedSample:
    """Resample a labelled table into a biased labelled sample and a population (the paper's real data).

    The rows are partitioned, each group's distinct examples are halved into a labelled and an unlabelled
    pool, and every (group, cluster, class) of a pool is resampled to counts that follow from drawn cluster
    weights and shares.

    Parameters
    ----------
    X, y, groups : table, 0/1 array, array
        The table, all of it labelled.
    setting : {1, 2}
        1: weights and shares are common to all groups and both samples. 2: each group and sample has its own.
    n_clusters : int, optional
        None chooses 1, 2, 4 or 8 by silhouette. The authors' code ran setting 1 with `n_clusters=1`, their
        text says K.
    partition : object with `predict`, optional
        A fitted partition to use instead of k-means.
    batch_size : int
        Of the mini-batch k-means: 4096 (the text), or 14 (the code as run, where `2^12` is an exclusive or).
    replace : bool
        True draws with replacement (the text). False draws without (the code as run) and cuts a cell short
        where its pool has too few rows.
    example_ids : array, optional
        Rows of one id (a household, a patient) fall on one side of every split. By default each row is its
        own example.
    max_rows : int, optional
        Work on a random choice of whole examples with at most this many rows.

    Returns
    -------
    GroupedSample
        Copies of one row share its id. `shares` and weights are those the rows really have: a cell whose
        pool is empty cannot be filled, whatever was drawn.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y, groups = rng.normal(size=(400, 2)), rng.integers(0, 2, 400), np.repeat(["a", "b"], 200)
    >>> shares = bias_groups(X, y, groups, setting=1, n_clusters=1, random_state=1).shares
    >>> bool(abs(shares[0, 0] - shares[1, 0]) < 0.01)  # one share for all groups, up to rounding
    True
    """
    y, groups = _check_labels(X, y, groups)
    rng = np.random.default_rng(random_state)
    ids = encode_ids(example_ids, n_rows=len(y))
    if max_rows is not None:
        keep = some_examples(ids, max_rows=max_rows, rng=rng)
        X, y, groups, ids = take_rows(X, keep), y[keep], groups[keep], ids[keep]
    names, group = np.unique(groups, return_inverse=True)
    if partition is None:
        seed = int(rng.integers(2**31))
        partition = KMeansPartition(n_clusters, batch_size=batch_size, random_state=seed).fit(X)
    cluster = np.asarray(partition.predict(X))
    K = int(getattr(partition, "n_clusters_", cluster.max() + 1))
    in_labeled_pool = halve(ids, groups=group, rng=rng)
    parts = []
    for pool, shares in zip(
        (in_labeled_pool, ~in_labeled_pool),
        draw_shares(n_groups=len(names), n_clusters=K, setting=setting, rng=rng),
        strict=True,
    ):
        sizes = np.bincount(group[pool], minlength=len(names))
        wanted = cell_counts(shares, sizes, counts="rounded", rng=rng)
        cell = (group * K + cluster) * 2 + y
        parts.append(_resample(np.flatnonzero(pool), cell, wanted.ravel(), replace=replace, rng=rng))
    labeled, unlabeled = (
        observed_shares(y[p], group=group[p], cluster=cluster[p], n_groups=len(names), n_clusters=K)
        for p in parts
    )
    rows = np.concatenate(parts)
    is_unlabeled = np.arange(len(rows)) >= len(parts[0])
    return GroupedSample(
        X=take_rows(X, rows),
        y=np.where(is_unlabeled, -1, y[rows]),
        groups=groups[rows],
        truth=y[rows],
        test=hold_out(ids[rows], among=is_unlabeled, test_size=test_size, rng=rng),
        example_ids=ids[rows],
        cluster=cluster[rows],
        partition=partition,
        shares=unlabeled.positive,
        labeled_shares=labeled.positive,
        cluster_weights=unlabeled.weights,
        labeled_cluster_weights=labeled.weights,
        group_names=names,
        name=f"{name} setting {setting}".strip(),
    )


def _resample(
    rows: np.ndarray, cell: np.ndarray, wanted: np.ndarray, *, replace: bool, rng: np.random.Generator
) -> np.ndarray:
    """Draw `wanted[c]` of the rows of each cell c, in random order; a cell without rows gives none.

    >>> cell = np.array([0, 0, 1])
    >>> drawn = _resample(np.arange(3), cell, np.array([1, 2]), replace=True, rng=np.random.default_rng(0))
    >>> np.sort(cell[drawn])
    array([0, 1, 1])
    """
    # Sorted by cell and, inside a cell, at random: the first rows of a cell are then a draw without
    # replacement.
    rows = rows[np.lexsort((rng.random(len(rows)), cell[rows]))]
    size = np.bincount(cell[rows], minlength=len(wanted))
    start = np.cumsum(size) - size
    n = np.where(size > 0, wanted, 0) if replace else np.minimum(wanted, size)
    of_cell = np.repeat(np.arange(len(n)), n)
    if replace:
        rank = (rng.random(len(of_cell)) * size[of_cell]).astype(np.int64)
    else:
        rank = np.arange(len(of_cell)) - np.repeat(np.cumsum(n) - n, n)
    return rng.permutation(rows[start[of_cell] + rank])


def _check_labels(X: Table, y: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y, groups = np.asarray(y), np.asarray(groups)
    if not n_rows(X) == len(y) == len(groups):
        raise ValueError(
            f"X has {n_rows(X)} rows, y {len(y)} and groups {len(groups)}: they must be the same."
        )
    values = np.unique(y)
    if not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"y holds {values[:5].tolist()}, expected 0 and 1 only: labels are hidden here, so the table "
            f"must come fully labelled. Drop unlabelled rows first."
        )
    return y.astype(np.int64), groups


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
        self,
        n_clusters: int | None = None,
        *,
        batch_size: int = 4096,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Table) -> "KMeansPartition":
        from sklearn.preprocessing import StandardScaler

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
            from groupshift._partitions.kmeans import silhouettes

            self.silhouettes_ = dict(zip(models, silhouettes(Z[rows], labelings), strict=True))
        self.n_clusters_ = max(models, key=lambda k: self.silhouettes_[k])
        self.kmeans_ = models[self.n_clusters_]
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

    def _fit_kmeans(self, Z: np.ndarray, k: int, rng: np.random.Generator) -> Any:
        # Imported here because scikit-learn takes a second to load, and generators do without.
        from sklearn.cluster import MiniBatchKMeans

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
