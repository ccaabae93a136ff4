"""Columns of files as features: what kind each is, and the same treatment again at predict (pyarrow)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from groupshift._data.encoder import FeatureEncoder
from groupshift.tables.arrow import pa, pc
from groupshift.tables.csv_cells import MISSING, MISSING_GROUP

THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$"
THOUSANDS_WITH_DOTS = r"^[+-]?\d{1,3}(\.\d{3})+(,\d*)?$"
DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%m/%d/%Y",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
)
# The years 1 to 9999, in seconds since 1970.
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ColumnPlan:
    """How a column becomes a feature.

    kind is "number", "boolean", "date" or "category", or why the column is left out: "id", "empty" or
    "nested". `decimal` is the decimal mark of numbers in text, `format` the one of dates. `typical` is the median size of
    the numbers that were fitted, or their median day if they are dates.
    """

    name: str
    kind: str
    decimal: str = "."
    format: str | None = None
    typical: float | None = None

    @property
    def used(self) -> bool:
        return self.kind in ("number", "boolean", "date", "category")

    def to_json(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if value not in (None, ".")}


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that takes nothing but numbers, on tables: categories as codes, missing values as NaN.

    Parameters
    ----------
    estimator : classifier
    one_hot : bool
        For linear classifiers: numbers are scaled, and a missing one is an average one; categories are columns of 0 and 1.
    """

    def __init__(self, estimator: BaseEstimator, *, one_hot: bool = False):
        self.estimator = estimator
        self.one_hot = one_hot

    def fit(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> TableClassifier:
        self.encoder_ = FeatureEncoder().fit(X)
        numbers = self.encoder_.transform(X)
        there = np.isfinite(numbers).sum(0) > 0
        self.center_ = np.where(there, np.nanmean(np.where(there, numbers, 0.0), 0), 0.0)
        spread = np.nanstd(np.where(there, numbers, 0.0), 0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_ = clone(self.estimator).fit(self._matrix(X), y, **weight)
        self.classes_ = self.estimator_.classes_
        return self

    def _matrix(self, X: object) -> NDArray[np.floating]:
        matrix = self.encoder_.transform(X)
        if not self.one_hot:
            # Forests hold numbers in single precision, and refuse larger ones: the largest will do, as only order counts.
            clipped: NDArray[np.floating] = np.clip(matrix, -LARGEST, LARGEST)
            return clipped
        scaled = np.nan_to_num((matrix - self.center_) / self.scale_)
        is_category = self.encoder_.is_category
        columns = [scaled[:, ~is_category]]
        for j in np.flatnonzero(is_category):
            columns.append(matrix[:, [j]] == np.arange(len(self.encoder_.categories_[j])))
        return np.hstack(columns)

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        return np.asarray(self.estimator_.predict_proba(self._matrix(X)))

    def predict(self, X: object) -> NDArray[np.generic]:
        return np.asarray(self.estimator_.predict(self._matrix(X)))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: object) -> NDArray[np.float64]:
        return np.asarray(self.estimator_.decision_function(self._matrix(X)))

    def __sklearn_tags__(self) -> object:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.one_hot or get_tags(self.estimator).input_tags.allow_nan
        return tags


def as_text(column: pa.ChunkedArray, *, missing: tuple[str, ...] = MISSING) -> pa.ChunkedArray:
    """Values of an Arrow column as text that does not depend on the file they came from; null where missing.

    >>> import pyarrow as pa
    >>> as_text(pa.chunked_array([[1.0, 2.5, None]])).to_pylist()
    ['1', '2.5', None]
    >>> as_text(pa.chunked_array([[" a", "NA", "01"]])).to_pylist()
    ['a', None, '01']
    """
    column = decoded(column)
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = pc.cast(column, pa.float64())
        whole = pc.and_(pc.equal(column, pc.floor(column)), pc.less(pc.abs(column), 2.0**53))
        as_integer = pc.cast(pc.cast(pc.if_else(whole, column, 0.0), pa.int64()), pa.string())
        text = pc.if_else(pc.fill_null(whole, False), as_integer, pc.cast(column, pa.string()))
        return pc.if_else(pc.is_null(column, nan_is_null=True), None, text)
    text = pc.cast(column, pa.string())
    if not is_text(kind):
        return text
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(text, value_set=pa.array(missing)), None, text)


def group_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Groups as text, the same in every kind of file; null where a row has none.

    >>> import pyarrow as pa
    >>> group_text(pa.chunked_array([["13.0", "13", "1.5", "NA", ""]])).to_pylist()
    ['13', '13', '1.5', 'NA', None]
    """
    # Programs that know missing numbers but no missing integers write the group 13 as 13.0.
    return pc.replace_substring_regex(as_text(column, missing=MISSING_GROUP), r"^(-?\d+)\.0+$", r"\1")


def is_plain(kind: pa.DataType) -> bool:
    """Whether a type holds numbers, text, dates or truth values, also as a dictionary; no lists, records or raw bytes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return not (pa.types.is_nested(kind) or "binary" in str(kind))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def convert(column: pa.ChunkedArray, plan: ColumnPlan) -> tuple[pa.ChunkedArray, int]:
    """A column as its plan has it, and how many values did not fit and became missing."""
    column = decoded(column)
    if plan.kind == "category":
        return as_text(column), 0
    if plan.kind != "boolean" and not is_text(column.type):
        return (_as_seconds(column) if plan.kind == "date" else _plain_numbers(column)), 0
    text = as_text(column)
    if plan.kind == "date":
        values = dates_in(text, plan.format or DATE_FORMATS[0])
    else:
        values = _truths_in(text) if plan.kind == "boolean" else numbers_in(text, plan.decimal)
    return values, values.null_count - text.null_count


def _truths_in(text: pa.ChunkedArray) -> pa.ChunkedArray:
    text = pc.utf8_lower(text)
    is_true, is_false = (pc.is_in(text, value_set=pa.array(t)) for t in (["true", "1"], ["false", "0"]))
    return pc.if_else(is_true, True, pc.if_else(is_false, False, None))


def _plain_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # A column of numbers at fit that now holds dates has nothing to say.
        return pa.nulls(len(column), pa.float64())
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        unit = pa.time64("us") if pa.types.is_time(kind) else pa.duration("us")
        return pc.divide(pc.cast(pc.cast(pc.cast(column, unit), pa.int64()), pa.float64()), 1e6)
    return _finite(pc.cast(column, pa.float64(), safe=False))


def _as_seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return pa.nulls(len(column), pa.timestamp("s"))
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.cast(column, pa.timestamp(column.type.unit, tz="UTC"))
        column = pc.cast(column, pa.timestamp(column.type.unit))
    seconds = pc.cast(column, pa.timestamp("s"), safe=False)
    number = pc.cast(seconds, pa.int64())
    # No calendar has the others; neither has Python.
    is_day = pc.and_(pc.greater_equal(number, FIRST_SECOND), pc.less_equal(number, LAST_SECOND))
    return pc.if_else(is_day, seconds, None)


def dates_in(text: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Dates in text, null where there is none."""
    # ISO's T, fractions of a second and zone are more than a model of days needs.
    text = pc.replace_substring_regex(text, r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})", r"\1 \2")
    text = pc.replace_substring_regex(text, r"(:\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$", r"\1")
    return pc.strptime(text, format=form, unit="s", error_is_null=True)


def all_numbers(text: pa.ChunkedArray) -> bool:
    try:
        pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def numbers_in(text: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Numbers in text, null where there is none; currency, percent and thousands marks are left aside."""
    if decimal == "." and all_numbers(text):
        return _finite(pc.cast(text, pa.float64()))
    text = pc.replace_substring_regex(text, r"^([+-]?)\s*[$€£]\s*", r"\1")
    text = pc.replace_substring_regex(text, r"\s*[%€]$", "")
    mark, in_groups = (".", THOUSANDS_WITH_DOTS) if decimal == "," else (",", THOUSANDS)
    text = pc.if_else(pc.match_substring_regex(text, in_groups), pc.replace_substring(text, mark, ""), text)
    if decimal == ",":
        text = pc.replace_substring(text, ",", ".", max_replacements=1)
    good = pc.match_substring_regex(text, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
    return _finite(pc.cast(pc.if_else(good, text, None), pa.float64()))


def _finite(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without dictionary encoding and views, in one array type."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if str(column.type) == "string_view" or pa.types.is_null(column.type):
        return pc.cast(column, pa.string())
    return column


def group_values(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Groups as text; None where missing."""
    return np.array(group_text(column).to_pylist(), dtype=object)
