"""Frames of any library, and arrays, handled alike (NumPy, narwhals)."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from groupshift._data.extras import need
from groupshift._math.arrays import BoolArray, IntArray, ValueArray

# An array, or a frame of pandas, polars or PyArrow: libraries that we do not depend on, so no type can name them.
Features: TypeAlias = Any
Frame: TypeAlias = nw.DataFrame[Any]
Series: TypeAlias = nw.Series[Any]
Table = TypeVar("Table")


def as_frame(X: Features) -> Frame | None:
    """`X` as a narwhals frame if it is a pandas, polars or Arrow table, else None."""
    if isinstance(X, np.ndarray):
        return None
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def gathered(X: Features) -> Features:
    """Rows that lie elsewhere or come as a stream (a query, a lazy table, Arrow batches) as a table; others as they are."""
    if as_frame(X) is not None:
        return X
    lazy = nw.from_native(X, pass_through=True)
    if isinstance(lazy, nw.LazyFrame):
        kind = lazy.implementation
        if kind.is_dask() or kind.is_pyspark():
            name, ways = (
                (
                    "Dask",
                    "groupshift.distributed.fit(model, labeled, X, target=...), and update and predict of that module",
                )
                if kind.is_dask()
                else (
                    "Spark",
                    "mapInPandas with model.count and model.predict_proba, as the how-to on Spark shows",
                )
            )
            raise TypeError(f"X is a {name} DataFrame, whose rows lie on many machines. Call {ways}.")
        return lazy.collect("pyarrow").to_native()
    if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        return need("pyarrow").table(X)
    return X.to_table() if type(X).__module__.startswith("pyarrow.") and hasattr(X, "to_table") else X


def take_rows(X: Table, rows: IntArray | BoolArray | Sequence[int] | slice) -> Table:
    """Rows of an array or a frame, by index, mask or slice; a slice is a view where the library has views."""
    frame = as_frame(X)
    if frame is None:
        taken: Table = X[rows]  # type: ignore[index]  # an array
        return taken
    if not isinstance(rows, slice):
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    native: Table = frame[rows].to_native()
    return native


def concat_rows(parts: Sequence[Features]) -> Features:
    """Arrays or frames below each other."""
    if len(parts) == 1:
        return parts[0]
    if as_frame(parts[0]) is None:
        return np.concatenate(parts)
    return nw.concat([nw.from_native(part, eager_only=True) for part in parts]).to_native()


def split_column(X: Features, name: str) -> tuple[Features, ValueArray]:
    """A frame without the column `name`, and that column as an array."""
    frame = as_frame(X)
    if frame is None:
        raise TypeError(
            f"group={name!r} names a column, but X is a {type(X).__name__} without column names. "
            "Pass a pandas or polars frame, or give the groups as groups=."
        )
    if name not in frame.columns:
        raise ValueError(
            f"X has no column {name!r}, which group= names; its columns are {some(frame.columns)}. "
            "Pass the name of the column that holds the groups."
        )
    return frame.drop(name).to_native(), frame.get_column(name).to_numpy()


def is_missing(values: ValueArray) -> BoolArray:
    """Which values are None, NaN, NaT or pandas' NA.

    >>> is_missing(np.array(["a", None, float("nan")], dtype=object)).tolist()
    [False, True, True]
    """
    if values.dtype.kind in "fcmM":
        found: BoolArray = np.isnan(values)
        return found
    if values.dtype.kind != "O":
        return np.zeros(values.shape, bool)
    # Most values answer with Python's False; only the others are looked at twice.
    try:
        return np.fromiter(
            (v is None or ((v != v) is not False and is_missing_value(v)) for v in values), bool, len(values)
        )
    except ArithmeticError:
        return np.fromiter(map(is_missing_value, values), bool, len(values))


def as_column(values: ArrayLike | Series) -> ValueArray:
    """A one-dimensional array from a list, array or series."""
    if type(values).__module__ == "pyarrow.lib" and hasattr(values, "__arrow_c_array__"):
        values = need("pyarrow").chunked_array([values])
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        found = series.to_numpy()
        if (
            series.dtype.is_integer()
            and found.dtype.kind == "f"
            and np.nanmax(np.abs(found), initial=0) > 2**53
        ):
            # With gaps, whole numbers became floats, and several of these large ones the same.
            found = np.array(series.to_list(), object)
        return found
    if isinstance(values, (list, tuple)) and _loses_kind(values):
        column = np.empty(len(values), object)
        column[:] = values
        return column
    return np.asarray(values)


def as_texts(values: ValueArray) -> ValueArray:
    """Numbers as the text that they have in a file; what is text, or missing, stays.

    >>> as_texts(np.array([13.0, 1.5, np.nan])).tolist(), as_texts(np.array(["a", 13], object)).tolist()
    (['13', '1.5', None], ['a', '13'])
    """
    distinct, place = (
        np.unique(values, return_inverse=True) if values.dtype.kind in "biuf" else (values, None)
    )
    texts = np.empty(len(distinct), object)
    texts[:] = [_text(value) for value in distinct.tolist()]
    return texts if place is None else texts[place]


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if is_missing_value(value):
        return None
    if isinstance(value, (int, float)):
        return str(int(value) if float(value).is_integer() else value)
    return value


def _loses_kind(values: Sequence[object]) -> bool:
    """Whether NumPy would take tuples apart, or make texts of numbers that stand among texts."""
    kinds = set(map(type, values))
    return tuple in kinds or (any(issubclass(k, (str, bytes)) for k in kinds) and len(kinds) > 1)


def frame_like(columns: Mapping[str, ValueArray], like: str | None) -> Features:
    """Columns as a frame of the library `like` ("pandas", "polars", "pyarrow"); as they are if it is None."""
    if like is None:
        return dict(columns)
    return nw.from_dict(columns, backend=like).to_native()  # type: ignore[arg-type]  # a literal, kept as text


def frame_beside(columns: Mapping[str, Any], X: Features) -> Features:
    """Columns as a frame of the library of `X`, row by row beside it; a dict where `X` is an array."""
    beside = frame_like(columns, library_of(X))
    if library_of(X) == "pandas":
        # Otherwise pandas would put rows together by their numbers.
        beside.index = X.index
    return beside


def with_some_value(X: Features) -> Features:
    """Features of which no number is missing in every row: such a column holds zeros instead, and so says nothing.

    Boosted trees of scikit-learn cannot be trained on a column without a value. The rows outside a fold may lack what all
    rows together have.

    >>> with_some_value(np.array([[1.0, np.nan], [2.0, np.nan]])).tolist()
    [[1.0, 0.0], [2.0, 0.0]]
    """
    frame = as_frame(X)
    if frame is not None:
        numbers = (frame.get_column(name) for name in frame.columns if frame.schema[name].is_numeric())
        empty = [column.name for column in numbers if is_missing(column.to_numpy()).all()]
        return frame.with_columns(nw.lit(0.0).alias(name) for name in empty).to_native() if empty else X
    # The first row tells at once that most columns have values.
    candidates = np.flatnonzero(np.isnan(X[0]))
    empty_columns = candidates[np.isnan(X[:, candidates]).all(0)]
    if not len(empty_columns):
        return X
    filled = X.copy()
    filled[:, empty_columns] = 0.0
    return filled


def in_library(X: Features, library: str) -> Features:
    """A frame as one of the named library."""
    frame = as_frame(X)
    assert frame is not None
    if frame.implementation.value == library:
        return frame.to_native()
    return {"pandas": frame.to_pandas, "polars": frame.to_polars, "pyarrow": frame.to_arrow}[library]()


def library_of(X: Features) -> str | None:
    """Name of the frame library of `X`; None for arrays."""
    frame = as_frame(X)
    return None if frame is None else str(frame.implementation.value)


def some(names: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def is_missing_value(value: object) -> bool:
    """Whether a single value is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    # NaN is not equal to itself, and pandas' NA is neither equal nor unequal: its answer is no boolean. A signalling NaN of
    # decimals refuses to be compared.
    try:
        unequal = value != value
    except ArithmeticError:
        return True
    return bool(unequal) if isinstance(unequal, (bool, np.bool_)) else True
