"""Rows and columns of anything tabular: an array, a frame of any library narwhals knows, or a dict of columns."""

from typing import TypeAlias, TypeGuard, TypeVar, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrame

from groupshift._data import frames
from groupshift._data.extras import need

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
    try:
        native = {name: _with_nulls(column) for name, column in columns.items()}
        frame = nw.from_dict(native, backend=backend)  # type: ignore[arg-type]  # a name that narwhals checks
        return cast(Table, frame.to_native())
    except ModuleNotFoundError:
        # One message is enough: that the package is absent says it all.
        raise ImportError(
            f"A {backend} frame was asked for, and {backend} is not installed. "
            f"Install it (pip install {backend}), or pass backend=None for a dict of arrays."
        ) from None


def _with_nulls(column: np.ndarray) -> np.ndarray | list[object]:
    """The column with None for what is missing: polars and pyarrow tell NaN from null."""
    if column.dtype.kind == "f" and np.isnan(column).any():
        return [None if value != value else value for value in column.tolist()]
    return list(column.tolist()) if column.dtype.kind in "OU" else column


def assemble(
    columns: dict[str, np.ndarray], *, categorical: tuple[str, ...], as_frame: bool, extra: str
) -> np.ndarray | IntoDataFrame:
    """Float32 matrix (n, columns), NaN for missing; or a pandas frame in which codes are categories.

    >>> assemble({"age": np.array([31.0, np.nan])}, categorical=(), as_frame=False, extra="files")
    array([[31.], [nan]], dtype=float32)
    """
    if not as_frame:
        # Census codes, ages and hours stay below 2**24, so float32 holds them exactly in half the memory.
        X = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.float32)
        for j, column in enumerate(columns.values()):
            X[:, j] = codes(column)[0] if column.dtype.kind in "OU" else column
        return X
    pandas = need("pandas", extra=extra, what="as_frame=True")
    frame = pandas.DataFrame(columns, copy=False)
    for name in categorical:
        # Whole-number codes read better as 3 than as 3.0.
        whole = frame[name].dtype.kind == "f"
        frame[name] = (frame[name].astype("Int32") if whole else frame[name]).astype("category")
    return cast(IntoDataFrame, frame)


def codes(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct values of a text column in sorted order, NaN for missing; and these values.

    >>> codes(np.array(["JFK", "EWR", None], dtype=object))
    (array([ 1.,  0., nan]), array(['EWR', 'JFK'], dtype=object))
    """
    known = np.array([isinstance(v, str) for v in column])
    values, code = np.unique(np.asarray(column, dtype=object)[known], return_inverse=True)
    numbers = np.full(len(column), np.nan)
    numbers[known] = code
    return numbers, values
