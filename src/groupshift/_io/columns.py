"""Columns of files as features: what kind each is, and the same treatment again at predict (pyarrow)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from groupshift._rows.encoder import FeatureEncoder

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", ".", "?", "-")
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


@dataclass(frozen=True)
class ColumnPlan:
    """How a column becomes a feature.

    kind is "number", "boolean", "date" or "category", or why the column is left out: "id", "empty" or
    "nested". `decimal` is the decimal mark of numbers in text, `format` the one of dates.
    """

    name: str
    kind: str
    decimal: str = "."
    format: str | None = None

    @property
    def used(self) -> bool:
        return self.kind in ("number", "boolean", "date", "category")

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in (None, ".")}


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that takes nothing but numbers, on tables: categories as codes, missing values as NaN.

    Parameters
    ----------
    estimator : classifier
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y, sample_weight=None):
        self.encoder_ = FeatureEncoder().fit(X)
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_ = clone(self.estimator).fit(self.encoder_.transform(X), y, **weight)
        self.classes_ = self.estimator_.classes_
        return self

    def predict_proba(self, X):
        return self.estimator_.predict_proba(self.encoder_.transform(X))

    def predict(self, X):
        return self.estimator_.predict(self.encoder_.transform(X))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X):
        return self.estimator_.decision_function(self.encoder_.transform(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


def as_text(column: Any, *, missing: tuple[str, ...] = MISSING) -> Any:
    """Values of an Arrow column as text that does not depend on the file they came from; null where missing.

    >>> import pyarrow as pa
    >>> as_text(pa.chunked_array([[1.0, 2.5, None]])).to_pylist()
    ['1', '2.5', None]
    >>> as_text(pa.chunked_array([[" a", "NA", "01"]])).to_pylist()
    ['a', None, '01']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = pc.cast(column, pa.float64())
        whole = pc.and_(pc.equal(column, pc.floor(column)), pc.less(pc.abs(column), 2.0**53))
        as_integer = pc.cast(pc.cast(pc.if_else(whole, column, 0.0), pa.int64()), pa.string())
        text = pc.if_else(pc.fill_null(whole, False), as_integer, pc.cast(column, pa.string()))
        return pc.if_else(pc.is_null(column, nan_is_null=True), None, text)
    text = pc.cast(column, pa.string())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return text
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(text, value_set=pa.array(missing)), None, text)


def convert(column: Any, plan: ColumnPlan) -> tuple[Any, int]:
    """A column as its plan has it, and how many values did not fit and became missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if plan.kind == "category":
        return as_text(column), 0
    if plan.kind == "date":
        return _dates_lossy(as_text(column), plan.format) if is_text else (_as_seconds(column, pa, pc), 0)
    if plan.kind == "boolean":
        text = pc.utf8_lower(as_text(column))
        truth = pc.if_else(
            pc.is_in(text, value_set=_array(["true", "1"])),
            True,
            pc.if_else(pc.is_in(text, value_set=_array(["false", "0"])), False, None),
        )
        return truth, _lost(text, truth)
    if is_text:
        text = as_text(column)
        numbers = numbers_in(text, plan.decimal, pc)
        return numbers, _lost(text, numbers)
    return _finite(_plain_numbers(column, pa, pc), pc), 0


def _plain_numbers(column: Any, pa: Any, pc: Any) -> Any:
    kind = column.type
    if pa.types.is_time(kind):
        column = pc.cast(pc.cast(column, pa.time64("us")), pa.int64())
        return pc.divide(pc.cast(column, pa.float64()), 1e6)
    if pa.types.is_duration(kind):
        return pc.divide(pc.cast(pc.cast(pc.cast(column, pa.duration("us")), pa.int64()), pa.float64()), 1e6)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # A column of numbers at fit that now holds dates has nothing to say.
        return _array([None] * len(column), pa.float64())
    return pc.cast(column, pa.float64(), safe=False)


def _as_seconds(column: Any, pa: Any, pc: Any) -> Any:
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return _array([None] * len(column), pa.timestamp("s"))
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.cast(column, pa.timestamp(column.type.unit, tz="UTC"))
        column = pc.cast(column, pa.timestamp(column.type.unit))
    return pc.cast(column, pa.timestamp("s"), safe=False)


def _dates_lossy(text: Any, form: str | None) -> tuple[Any, int]:
    dates = dates_in(text, form or DATE_FORMATS[0])
    return dates, _lost(text, dates)


def dates_in(text: Any, form: str) -> Any:
    import pyarrow.compute as pc

    # ISO's T, fractions of a second and zone are more than a model of days needs.
    text = pc.replace_substring_regex(text, r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})", r"\1 \2")
    text = pc.replace_substring_regex(text, r"(:\d{2})(\.\d+)?(Z|[+-]\d{2}:?\d{2})?$", r"\1")
    return pc.strptime(text, format=form, unit="s", error_is_null=True)


def all_numbers(text: Any, pc: Any) -> bool:
    import pyarrow as pa

    try:
        pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def numbers_in(text: Any, decimal: str, pc: Any) -> Any:
    """Numbers in text, null where there is none; currency, percent and thousands marks are left aside."""
    import pyarrow as pa

    if decimal == "." and all_numbers(text, pc):
        return _finite(pc.cast(text, pa.float64()), pc)
    text = pc.replace_substring_regex(text, r"^([+-]?)\s*[$€£]\s*", r"\1")
    text = pc.replace_substring_regex(text, r"\s*[%€]$", "")
    if decimal == ",":
        in_groups = pc.match_substring_regex(text, THOUSANDS_WITH_DOTS)
        text = pc.if_else(in_groups, pc.replace_substring(text, ".", ""), text)
        text = pc.replace_substring(text, ",", ".", max_replacements=1)
    else:
        text = pc.if_else(
            pc.match_substring_regex(text, THOUSANDS), pc.replace_substring(text, ",", ""), text
        )
    good = pc.match_substring_regex(text, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
    return _finite(pc.cast(pc.if_else(good, text, None), pa.float64()), pc)


def _finite(numbers: Any, pc: Any) -> Any:
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def _lost(before: Any, after: Any) -> int:
    return after.null_count - before.null_count


def decoded(column: Any) -> Any:
    """A column without dictionary encoding and views, in one array type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if str(column.type) == "string_view":
        column = pc.cast(column, pa.string())
    return pc.cast(column, pa.string()) if pa.types.is_null(column.type) else column


def _array(values: list, kind: Any = None) -> Any:
    import pyarrow as pa

    return pa.array(values, kind)


def group_values(column: Any) -> np.ndarray:
    """Groups as text; None where missing. "NA" is a group (Namibia), only an empty cell is none."""
    return np.array(as_text(column, missing=("",)).to_pylist(), dtype=object)
