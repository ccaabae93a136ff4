"""Distinct examples: copies of one row, or members of one household, stay on one side of every split."""

import numpy as np


def encode_ids(example_ids: np.ndarray | None, *, n_rows: int) -> np.ndarray:
    """Turn ids of any type into integers; without ids every row is its own example.

    >>> encode_ids(np.array(["b", "a", "b"]), n_rows=3)
    array([1, 0, 1])
    """
    if example_ids is None:
        return np.arange(n_rows)
    ids = np.asarray(example_ids)
    if ids.shape != (n_rows,):
        raise ValueError(
            f"example_ids has shape {ids.shape}, expected ({n_rows},): pass one id for each row, the same "
            f"id for rows that are the same example."
        )
    if np.issubdtype(ids.dtype, np.integer):
        return ids.astype(np.int64, copy=False)
    return np.unique(ids, return_inverse=True)[1]


def some_examples(ids: np.ndarray, *, max_rows: int | None, rng: np.random.Generator) -> np.ndarray:
    """Positions, in order, of a random choice of whole examples that has at most `max_rows` rows.

    >>> some_examples(np.array([7, 7, 7, 8, 9]), max_rows=2, rng=np.random.default_rng(0))
    array([3, 4])
    """
    if max_rows is None or max_rows >= len(ids):
        return np.arange(len(ids))
    if max_rows < 1:
        raise ValueError(f"max_rows is {max_rows}, expected at least 1, or None for all rows.")
    _, code, size = np.unique(ids, return_inverse=True, return_counts=True)
    order = rng.permutation(len(size))
    # An example larger than the whole budget can never enter, and must not stop those behind it.
    order = order[size[order] <= max_rows]
    chosen = np.zeros(len(size), dtype=bool)
    chosen[order[np.cumsum(size[order]) <= max_rows]] = True
    return np.flatnonzero(chosen[code])


def hold_out(ids: np.ndarray, *, among: np.ndarray, test_size: float, rng: np.random.Generator) -> np.ndarray:
    """Mask of the rows of a random share `test_size` of the distinct examples among the rows `among`.

    >>> ids, unlabelled = np.array([1, 1, 2, 3]), np.array([True, True, True, False])
    >>> hold_out(ids, among=unlabelled, test_size=0.5, rng=np.random.default_rng(1))
    array([ True,  True, False, False])
    """
    if not 0 <= test_size < 1:
        raise ValueError(
            f"test_size is {test_size}, expected a share of the examples in [0, 1), such as 0.2."
        )
    distinct, code = np.unique(ids[among], return_inverse=True)
    chosen = np.zeros(len(distinct), dtype=bool)
    chosen[rng.permutation(len(distinct))[: round(test_size * len(distinct))]] = True
    held = np.zeros(len(ids), dtype=bool)
    held[among] = chosen[code]
    return held


def halve(ids: np.ndarray, *, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mask of the labelled half: a random half of each group's distinct examples.

    An example seen in several groups is counted in the group of its first row, and all of it goes to one
    side.

    >>> ids = np.array([1, 1, 2, 3, 4])
    >>> halve(ids, groups=np.array([0, 0, 0, 1, 1]), rng=np.random.default_rng(0))
    array([False, False,  True, False,  True])
    """
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    home = groups[first]
    order = np.lexsort((rng.random(len(home)), home))
    start = np.flatnonzero(np.r_[True, np.diff(home[order]) != 0])
    size = np.diff(np.r_[start, len(order)])
    rank = np.arange(len(order)) - np.repeat(start, size)
    # The odd one falls on either side with equal chance, or the labelled half would always be the smaller.
    half = (size + rng.integers(0, 2, size=len(size))) // 2
    labeled = np.empty(len(home), dtype=bool)
    labeled[order] = rank < np.repeat(half, size)
    return labeled[code]
