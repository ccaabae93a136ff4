"""Frames in and out: feature columns as numbers, missing labels, groups of any kind (NumPy, narwhals)."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from itertools import repeat
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from groupshift._math.fitted_part import FittedPart

# Histogram gradient boosting takes at most 255 categories a column; the rarest of more become "other".
MAX_CATEGORIES = 254
# What a pandas column of Python objects holds if all its values are of these types; the narrowest kind first.
OBJECT_KINDS = {
    "boolean": (bool, np.bool_),
    "number": (int, float, Decimal, np.number),
    "date": (date, np.datetime64),
}
PLURAL = {"number": "numbers", "boolean": "booleans", "category": "text", "date": "dates"}


def as_frame(X) -> nw.DataFrame | None:
    """`X` as a narwhals frame if it is a pandas, polars or Arrow table, else None."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def take_rows(X, rows):
    """Rows of an array or a frame, by index, mask or slice; a slice is a view where the library has views."""
    frame = as_frame(X)
    if frame is None:
        return X[rows]
    if isinstance(rows, slice):
        return frame[rows].to_native()
    rows = np.asarray(rows)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    return frame[rows].to_native()


def concat_rows(parts: Sequence):
    """Arrays or frames below each other."""
    if as_frame(parts[0]) is None:
        return np.concatenate(parts)
    return nw.concat([nw.from_native(part, eager_only=True) for part in parts]).to_native()


def split_column(X, name: str):
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


def is_missing(values: NDArray) -> NDArray[np.bool_]:
    """Which values are None, NaN, NaT or pandas' NA.

    >>> is_missing(np.array(["a", None, float("nan")], dtype=object)).tolist()
    [False, True, True]
    """
    if values.dtype.kind in "fcmM":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, bool)
    # Most values answer with Python's False; only the others are looked at twice.
    return np.fromiter(
        (v is None or ((v != v) is not False and _is_gone(v)) for v in values), bool, len(values)
    )


def as_column(values: Any) -> NDArray:
    """A one-dimensional array from a list, array or series."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series.to_numpy()
    if isinstance(values, (list, tuple)) and _loses_kind(values):
        column = np.empty(len(values), object)
        column[:] = values
        return column
    return np.asarray(values)


def _loses_kind(values: Sequence) -> bool:
    """Whether NumPy would take tuples apart, or make texts of numbers that stand among texts."""
    kinds = set(map(type, values))
    return tuple in kinds or (any(issubclass(k, (str, bytes)) for k in kinds) and len(kinds) > 1)


class Codes(FittedPart):
    """Numbers for values of any hashable kind, in order of first sight of their sorted distinct values."""

    def fit(self, values: NDArray) -> "Codes":
        if values.dtype.kind == "O":
            distinct = [_plain(value) for value in dict.fromkeys(values.tolist())]
            # Kinds that do not compare, such as 1 and "a", stay in their order of appearance.
            with suppress(TypeError):
                distinct = sorted(distinct)
            self.values_ = np.empty(len(distinct), object)
            self.values_[:] = distinct
        else:
            self.values_ = np.unique(values)
        return self

    @classmethod
    def of(cls, values: NDArray) -> "Codes":
        """Codes whose values are known and in order."""
        codes = cls()
        codes.values_ = values
        return codes

    def transform(self, values: NDArray) -> NDArray[np.int64]:
        """Codes of values; -1 where a value was not seen by `fit`."""
        if len(self.values_) == 0 or len(values) == 0:
            return np.full(len(values), -1)
        numeric = "biuf"
        if values.dtype.kind in numeric and self.values_.dtype.kind in numeric:
            at = np.minimum(np.searchsorted(self.values_, values), len(self.values_) - 1)
            return np.where(self.values_[at] == values, at, -1)
        lookup = {value: code for code, value in enumerate(self.values_.tolist())}
        return np.fromiter(map(lookup.get, values.tolist(), repeat(-1)), np.int64, len(values))


class FeatureEncoder(FittedPart):
    """Columns of an array or frame as one matrix of floats: numbers, booleans, dates, codes of categories.

    Missing values are NaN. Categories are numbered by their frequency at fit; rarer ones than the first
    254, and those that fit never saw, share the last code.

    Attributes
    ----------
    names_ : list of str
        Column names; "x0", "x1", … for an array.
    kinds_ : list of {"number", "boolean", "category", "date"}
    categories_ : list of arrays of str, empty where the column is not a category
    """

    def fit(self, X) -> "FeatureEncoder":
        frame = as_frame(X)
        if frame is None:
            self.names_ = [f"x{j}" for j in range(X.shape[1])]
            self.kinds_ = ["number"] * X.shape[1]
            self.categories_ = [np.empty(0, object)] * X.shape[1]
            return self
        self.names_ = [str(name) for name in frame.columns]
        self.kinds_ = [_kind(frame.get_column(name)) for name in frame.columns]
        self.categories_ = [
            ranked_categories(category_counts(frame.get_column(name)))
            if kind == "category"
            else np.empty(0, object)
            for name, kind in zip(frame.columns, self.kinds_, strict=True)
        ]
        return self

    @property
    def is_category(self) -> NDArray[np.bool_]:
        return np.array([kind == "category" for kind in self.kinds_])

    def transform(self, X) -> NDArray:
        frame = as_frame(X)
        if frame is None:
            return X
        matrix = np.empty((len(frame), len(self.names_)))
        for j, (name, kind) in enumerate(zip(frame.columns, self.kinds_, strict=True)):
            matrix[:, j] = _numbers(frame.get_column(name), kind, self.categories_[j])
        return matrix


def frame_like(columns: dict[str, NDArray], like: Any):
    """Columns as a frame of the library `like` ("pandas", "polars", "pyarrow"); as they are if it is None."""
    return columns if like is None else nw.from_dict(columns, backend=like).to_native()


def library_of(X) -> str | None:
    """Name of the frame library of `X`; None for arrays."""
    frame = as_frame(X)
    return None if frame is None else str(frame.implementation.value)


def some(names: Sequence, most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _kind(series: nw.Series) -> str:
    dtype = series.dtype
    if dtype.is_numeric():
        return "number"
    if dtype == nw.Boolean:
        return "boolean"
    if dtype.is_temporal():
        return "date"
    return _kind_of_objects(series) if dtype == nw.Object else "category"


def _kind_of_objects(series: nw.Series) -> str:
    """Kind of a pandas column of Python objects, which is how columns with missing values often arrive."""
    types = {type(value) for value in series.to_numpy().tolist() if not _is_gone(value)}
    for kind, members in OBJECT_KINDS.items():
        if types and all(issubclass(t, members) for t in types):
            return kind
    return "category"


def category_counts(series: nw.Series) -> Counter:
    """How often each category of a column occurs, as text; missing values are not counted."""
    counts = Counter(_hashable(_values(series)))
    texts: Counter = Counter()
    for value, count in counts.items():
        if not _is_gone(value):
            texts[str(value)] += count
    return texts


def ranked_categories(counts: Counter) -> NDArray:
    """The most frequent categories first, at most 254 of them; equally frequent ones by name.

    >>> ranked_categories(Counter("abcbb")).tolist()
    ['b', 'a', 'c']
    """
    ranked = sorted(counts, key=lambda text: (-counts[text], text))[:MAX_CATEGORIES]
    values = np.empty(len(ranked), object)
    values[:] = ranked
    return values


def _values(series: nw.Series) -> list:
    values = series.to_numpy()
    if values.dtype.kind != "f" or not series.is_null().any():
        return values.tolist()
    # Whole-number categories come back as floats where some are missing; category 1 must not become "1.0".
    present = ~series.is_null().to_numpy()
    found = np.empty(len(values), object)
    found[present] = series.filter(present.tolist()).to_numpy().tolist()
    return found.tolist()


def _hashable(values: list) -> list:
    try:
        set(values)
    except TypeError:
        return [str(value) for value in values]
    return values


def _is_gone(value: Any) -> bool:
    if value is None:
        return True
    # NaN is not equal to itself, and pandas' NA is neither equal nor unequal: its answer is no boolean.
    unequal = value != value
    return bool(unequal) if isinstance(unequal, (bool, np.bool_)) else True


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value that it equals; dates stay, as not all have one."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufUS" else value


def _numbers(series: nw.Series, kind: str, categories: NDArray) -> NDArray[np.float64]:
    if kind == "category":
        lookup = {text: float(code) for code, text in enumerate(categories.tolist())}
        values = _hashable(_values(series))
        # Text is made of each distinct value once, not of each row.
        codes = {
            v: np.nan if _is_gone(v) else lookup.get(str(v), float(len(categories))) for v in set(values)
        }
        return np.fromiter(map(codes.__getitem__, values), float, len(values))
    if series.is_null().all():
        return np.full(len(series), np.nan)
    found = _kind(series)
    if found != kind and {found, kind} != {"number", "boolean"}:
        raise ValueError(
            f"Column {series.name!r} holds {PLURAL[found]} here but held {PLURAL[kind]} when the model was "
            "fitted. Convert it to the same type as at fit."
        )
    if kind == "date":
        return _days(series)
    if series.dtype == nw.Object:
        return np.array([np.nan if _is_gone(v) else float(v) for v in series.to_numpy().tolist()])
    return series.cast(nw.Float64).to_numpy().astype(float)


def _days(series: nw.Series) -> NDArray[np.float64]:
    """Dates as days since 1970, durations as days, times as a part of the day."""
    if series.dtype == nw.Time:
        times = series.to_list()
        seconds = [None if t is None else 3600 * t.hour + 60 * t.minute + t.second for t in times]
        return np.array(seconds, float) / 86400
    values = series.to_numpy()
    values = values.astype("timedelta64[s]" if values.dtype.kind == "m" else "datetime64[s]")
    return np.where(np.isnat(values), np.nan, values.astype(float) / 86400)
