"""Biased samples from a fully labelled table: the paper's resampling, and a natural split by groups."""

import numpy as np

from groupshift.datasets.class_shares import cell_counts, draw_shares, observed_shares
from groupshift.datasets.containers import Seed, Table, n_rows, take_rows
from groupshift.datasets.examples import encode_ids, halve, hold_out, some_examples
from groupshift.datasets.sample import GroupedSample, Partition


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
        # Imported here because scikit-learn takes a second to load, and generators do without.
        from groupshift.datasets.standard_kmeans import KMeansPartition

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


def natural_split(
    X: Table,
    y: np.ndarray,
    groups: np.ndarray,
    *,
    labeled_fraction: float = 0.5,
    example_ids: np.ndarray | None = None,
    sample_weight: np.ndarray | None = None,
    test_size: float = 0.2,
    random_state: Seed = None,
    name: str = "",
) -> GroupedSample:
    """Label a random part of the groups, predict the others; the bias is nature's, nothing is resampled.

    Parameters
    ----------
    labeled_fraction : float
        Share of the groups whose rows keep their labels; at least one group falls on each side.
    test_size : float
        Share of the distinct unlabelled examples that methods are judged on and do not see. 0 judges them
        on all unlabelled rows, which they see without labels (transductive).

    Examples
    --------
    >>> X, y, groups = np.zeros((6, 1)), np.array([1, 0, 1, 0, 1, 1]), np.array(list("aabbcc"))
    >>> sample = natural_split(X, y, groups, labeled_fraction=2 / 3, test_size=0, random_state=0)
    >>> sample.y, sample.shares.ravel()
    (array([ 1,  0, -1, -1,  1,  1]), array([nan, 0.5, nan]))
    """
    y, groups = _check_labels(X, y, groups)
    rng = np.random.default_rng(random_state)
    ids = encode_ids(example_ids, n_rows=len(y))
    names, group = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"There is one group, {names[0]!r}; a natural split needs two: one labelled, one not."
        )
    n_labeled = int(np.clip(round(labeled_fraction * len(names)), 1, len(names) - 1))
    is_labeled = np.isin(group, rng.permutation(len(names))[:n_labeled])
    _check_apart(ids, is_labeled)
    transductive = test_size == 0
    test = ~is_labeled if transductive else hold_out(ids, among=~is_labeled, test_size=test_size, rng=rng)
    labeled, unlabeled = (
        observed_shares(
            y[part], group=group[part], cluster=np.zeros(part.sum(), int), n_groups=len(names), n_clusters=1
        )
        for part in (is_labeled, ~is_labeled)
    )
    return GroupedSample(
        X=X,
        y=np.where(is_labeled, y, -1),
        groups=groups,
        truth=y,
        test=test,
        transductive=transductive,
        example_ids=ids,
        sample_weight=sample_weight,
        shares=unlabeled.positive,
        labeled_shares=labeled.positive,
        group_names=names,
        name=f"{name} natural split".strip(),
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


def _check_apart(ids: np.ndarray, is_labeled: np.ndarray) -> None:
    both = np.intersect1d(ids[is_labeled], ids[~is_labeled])
    if len(both):
        raise ValueError(
            f"{len(both)} examples (such as id {both[0]}) have rows in labelled and in unlabelled groups, so "
            f"their labels would leak. Drop these rows, or define groups that no example leaves."
        )
