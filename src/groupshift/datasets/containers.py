"""Rows of any table (array, frame or dict of columns), and splits that keep the rows of one example together."""

from importlib.util import find_spec
from typing import TypeAlias, TypeGuard, TypeVar, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrame

from groupshift._data import frames

Table: TypeAlias = "np.ndarray | dict[str, np.ndarray] | IntoDataFrame"
AnyTable = TypeVar("AnyTable", bound=Table)
# What NumPy makes a generator of; None draws another one each time.
Seed: TypeAlias = "int | np.random.SeedSequence | np.random.Generator | None"


def n_rows(X: Table) -> int:
    """Count the rows.

    >>> n_rows({"age": np.array([31, 64]), "urban": np.array([1, 0])})
    2
    """
    return len(next(iter(X.values())) if isinstance(X, dict) else X)


def take_rows(X: AnyTable, rows: np.ndarray) -> AnyTable:
    """Select rows by position or by mask; the container stays what it was.

    >>> take_rows({"age": np.array([31, 64, 18])}, np.array([2, 0]))
    {'age': array([18, 31])}
    """
    if isinstance(X, dict):
        return cast(AnyTable, {name: np.asarray(column)[rows] for name, column in X.items()})
    return cast(AnyTable, frames.take_rows(X if is_frame(X) else np.asarray(X), rows))


def is_frame(X: object) -> TypeGuard[IntoDataFrame]:
    """Whether X is a frame of a library that narwhals knows."""
    return frames.as_frame(X) is not None


def named_columns(X: Table) -> dict[str, np.ndarray]:
    """Columns by name, as arrays; the columns of an array are called x0, x1, ...

    >>> named_columns(np.array([[1.0, 2.0]]))
    {'x0': array([1.]), 'x1': array([2.])}
    """
    if isinstance(X, dict):
        return {name: np.asarray(column) for name, column in X.items()}
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        return {name: frame[name].to_numpy() for name in frame.columns}
    return {f"x{j}": column for j, column in enumerate(np.asarray(X).T)}


def frame_of(columns: dict[str, np.ndarray], *, backend: str | None) -> Table:
    """Put columns into a frame of `backend` ("pandas", "polars", "pyarrow"), or leave them a dict (None)."""
    if backend is None:
        return columns
    if find_spec(backend) is None:
        raise ImportError(
            f"backend={backend!r} needs {backend}. Install it (pip install {backend}), or pass None for a dict of arrays."
        )
    native = {name: _with_nulls(column) for name, column in columns.items()}
    frame = nw.from_dict(native, backend=backend)  # type: ignore[arg-type]  # a name that narwhals checks
    return cast(Table, frame.to_native())


def _with_nulls(column: np.ndarray) -> np.ndarray | list[object]:
    """The column with None for what is missing: polars and pyarrow tell NaN from null."""
    if column.dtype.kind == "f" and np.isnan(column).any():
        return [None if value != value else value for value in column.tolist()]
    return list(column.tolist()) if column.dtype.kind in "OU" else column


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
