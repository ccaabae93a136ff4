"""What columns of files hold, as sums over batches, the plans that follow, and how one file writes them (pyarrow)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from groupshift._data.keys import hash_keys
from groupshift.tables.arrow import pa, pc
from groupshift.tables.columns import (
    DATE_FORMATS,
    ColumnPlan,
    all_numbers,
    as_text,
    convert,
    dates_in,
    decoded,
    numbers_in,
)
from groupshift.tables.csv_cells import MISSING
from groupshift.tables.sources import Source

# Of the values that are there, so many must parse for a text column to count as numbers or dates.
NEARLY_ALL = 0.99
# Fewer rows than this can be all distinct by chance.
FEW_ROWS = 50
ID_SHARE = 0.95
# A part of the numbers 1, 2, 3 … is a row number; measurements that never repeat lie further apart.
COUNTER_ROWS, COUNTER_DENSITY = 200, 0.1
LOOKS_LIKE_DATE = r"^(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{4})"
# Also dates that are not read, since their order or century is a guess: 04.12.23, 4-Dec-2023.
NEARLY_DATE = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[-/. ]{1,2}[A-Za-z]{3,9}[-/. ]{1,2}(\d{4}|\d{2}))([T ,]|$)"
)
# Numbers whose decimal mark can be no other: not three digits after it, or a zero or thousands before it.
ONLY_POINT, ONLY_COMMA = (
    rf"^[^\d.,]*(0?{mark}\d+|\d+{mark}(\d{{0,2}}|\d{{4,}})|\d{{4,}}{mark}\d+|\d{{1,3}}({other}\d{{3}})+{mark}\d*"
    rf"|\d{{1,3}}({other}\d{{3}}){{2,}})([eE][+-]?\d+)?[^\d.,eE]*$"
    for mark, other in (("\\.", ","), (",", "\\."))
)
# A comma that stands before three digits, and may mark decimals or thousands.
EITHER_COMMA = r"^[^\d.,]*[1-9]\d{0,2},\d{3}[^\d.,]*$"
# A category of more values, most of which look like numbers or dates, is perhaps none.
MANY_VALUES, MOST = 20, 0.5
# Up to so many distinct values are all remembered, 1.6 MB a column.
MOST_DISTINCT = 100_000


@dataclass(frozen=True)
class Distinct:
    """Distinct values and their rows: all of them while they are few, of more those whose hash is low.

    At level l, one value in 2^l is remembered, with all its rows. Which ones depends on the values alone, so
    that parts add up in any order.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]
    level: int = 0

    @classmethod
    def none(cls) -> Distinct:
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64))

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Distinct:
        """The values of an Arrow column of numbers or text; missing ones are none.

        >>> import pyarrow as pa
        >>> Distinct.of(pa.chunked_array([["a", "b", None, "a"]])).count
        2
        """
        values, rows = value_counts(column)
        return cls.none()._with(_hashed(values), rows)

    @property
    def count(self) -> int:
        """Number of distinct values, an estimate where they are many."""
        return len(self.keys) << self.level

    @property
    def share(self) -> float:
        """Distinct values by rows: 1 where no value repeats."""
        return len(self.keys) / max(int(self.rows.sum()), 1)

    def __add__(self, other: Distinct) -> Distinct:
        few, many = sorted((self, other), key=lambda part: part.level)
        return many._with(*few._at(many.level))

    def _with(self, keys: NDArray[np.uint64], rows: NDArray[np.int64]) -> Distinct:
        together, at = np.unique(np.concatenate([self.keys, keys]), return_inverse=True)
        total = np.bincount(at, weights=np.concatenate([self.rows, rows]), minlength=len(together))
        found = Distinct(together, total.astype(np.int64), self.level)
        while len(found.keys) > MOST_DISTINCT:
            found = Distinct(*found._at(found.level + 1), found.level + 1)
        return found

    def _at(self, level: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        low = slice(None) if level == 0 else self.keys < np.uint64(2 ** (64 - level))
        return self.keys[low], self.rows[low]


def value_counts(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """Distinct values of an Arrow column that are there, in order of first sight, and their rows."""
    counts = pc.value_counts(column.drop_null())
    return counts.field("values"), counts.field("counts").to_numpy()


def counts_of_texts(column: pa.ChunkedArray) -> Counter[str]:
    """How often each text of an Arrow column occurs; missing ones are not counted."""
    values, rows = value_counts(column)
    return Counter(dict(zip(values.to_pylist(), rows.tolist(), strict=True)))


def _hashed(values: pa.Array) -> NDArray[np.uint64]:
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        kind = float if numbers.dtype.kind == "f" else np.int64
        return hash_keys(numbers.astype(kind).view(np.uint64), 0)
    return _hashed_texts(pc.cast(values, pa.large_string()))


def _hashed_texts(texts: pa.LargeStringArray) -> NDArray[np.uint64]:
    """A key for each text from its bytes and its length, for all texts at once.

    A sum of bytes times random numbers, one for each place: two texts have one sum by chance only, one in 2⁵⁰.

    >>> import pyarrow as pa
    >>> len(set(_hashed_texts(pa.array(["ab", "ba", "", "ab"], pa.large_string())).tolist()))
    3
    """
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    length = np.diff(ends)
    total = np.zeros(len(texts), np.uint64)
    if length.any():
        # Places of the bytes within their text.
        place = np.arange(ends[0], ends[-1]) - np.repeat(ends[:-1], length)
        mixed = (
            np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
            * hash_keys(np.arange(length.max()), 1)[place]
        )
        filled = np.flatnonzero(length)
        total[filled] = np.add.reduceat(mixed, ends[:-1][filled] - ends[0])
    return hash_keys(total + length.astype(np.uint64), 0)


@dataclass(frozen=True)
class Nearly:
    """What a column would be but for some of its values.

    `kind` is "number" or "date", `share` the part of the values that look like it, `misfit` the first that
    cannot be read as the others, and `form` how these are written, if they are dates that can be read.
    """

    kind: str
    share: float
    misfit: str
    form: str | None = None


@dataclass(frozen=True)
class ColumnSurvey:
    """Counts of the values of a column; surveys of its batches add up.

    Attributes
    ----------
    kind : {"nested", "boolean", "date", "integer", "number", "text"}
        By the type in the file; what text holds is told by the counts.
    rows, values : number of rows, and of those that are not missing
    distinct : distinct values of integers and text
    low, high : the smallest and largest whole number
    counts : numbers of texts that are a "code" ("007"), "whole" numbers, numbers with the decimal mark "." or ",", numbers
        that allow no other mark than the "point" or the "comma" (an "either comma" is a mark of decimals or thousands),
        a "truth" ("true" or "false"), "dated" (begin like a date) or "nearly dated" (look like one in whatever form),
        and dates, by format
    misfits : the first text that cannot be read, by decimal mark and date format
    """

    kind: str
    rows: int
    values: int
    distinct: Distinct = field(default_factory=Distinct.none)
    low: float = np.inf
    high: float = -np.inf
    counts: Counter[str] = field(default_factory=Counter)
    misfits: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: ColumnSurvey) -> ColumnSurvey:
        return ColumnSurvey(
            "nested" if "nested" in (self.kind, other.kind) else self.kind,
            self.rows + other.rows,
            self.values + other.values,
            self.distinct + other.distinct,
            min(self.low, other.low),
            max(self.high, other.high),
            self.counts + other.counts,
            other.misfits | self.misfits,
        )

    @property
    def is_whole(self) -> bool:
        """Whether every value is a whole number, and none a name made of digits, such as "007"."""
        return self.kind == "integer" or (0 < self.values == self.counts["whole"] and not self.counts["code"])

    @property
    def decimal(self) -> str:
        """The decimal mark with which more of the texts are numbers."""
        return "." if self.counts["."] >= self.counts[","] else ","

    def lost(self, plan: ColumnPlan) -> int:
        """How many values do not fit the plan and become missing."""
        if self.kind != "text" or plan.kind not in ("number", "date"):
            return 0
        return self.values - self.counts[plan.format or plan.decimal]

    def nearly(self, plan: ColumnPlan) -> Nearly | None:
        """What a text column that is no number and no date may have been meant to be."""
        if self.kind != "text" or plan.kind not in ("category", "id") or self.distinct.count <= MANY_VALUES:
            return None
        if (share := self.counts["nearly dated"] / self.values) > MOST:
            best = max(DATE_FORMATS, key=self.counts.__getitem__)
            return Nearly("date", share, self.misfits[best], best if self.counts["dated"] else None)
        # Digits alone are names with leading zeros or row numbers, and rightly no numbers.
        may_be_numbers = self.decimal in self.misfits and not self.counts["code"]
        if may_be_numbers and (share := self.counts[self.decimal] / self.values) > MOST:
            return Nearly("number", share, self.misfits[self.decimal])
        return None


@dataclass(frozen=True)
class Surveys:
    """Surveys of some columns, by name; those of batches add up."""

    by_name: dict[str, ColumnSurvey]

    def __add__(self, other: Surveys) -> Surveys:
        return Surveys({name: survey + other.by_name[name] for name, survey in self.by_name.items()})


def survey_column(
    column: pa.ChunkedArray,
    *,
    as_texts: bool = False,
    missing: tuple[str, ...] = MISSING,
    count_distinct: bool = True,
) -> ColumnSurvey:
    """The survey of a column or a batch of it.

    `as_texts` where other files have it in another type; `count_distinct`: what tells ids takes most of the time.
    """
    kind = kind_of_type(column.type)
    if kind == "nested":
        return ColumnSurvey(kind, len(column), len(column))
    column = decoded(column)
    if kind == "text" or as_texts:
        return _survey_text(as_text(column, missing=missing), count_distinct)
    survey = ColumnSurvey(kind, len(column), len(column) - column.null_count)
    if kind != "integer" or not survey.values:
        return survey
    ends = pc.min_max(column).as_py()
    return replace(survey, distinct=Distinct.of(column), low=ends["min"], high=ends["max"])


def kind_of_type(kind: pa.DataType) -> str:
    """What values of an Arrow type can be."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return "nested"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "date"
    if types.is_integer(kind):
        return "integer"
    if types.is_floating(kind) or types.is_decimal(kind) or types.is_temporal(kind):
        return "number"
    return "text"


def _survey_text(text: pa.ChunkedArray, count_distinct: bool) -> ColumnSurvey:
    values, rows = value_counts(text)
    numbers = numbers_in(values, ".")
    # Which texts are read in which way.
    read = {".": numbers.is_valid()}
    found = {
        "code": _like(values, r"^0\d+$"),
        "whole": _like(values, r"^-?\d+$"),
        "point": _like(values, ONLY_POINT),
    }
    ends = {"min": None}
    if all_numbers(values):
        # Plain numbers are numbers with a decimal comma too, none of which they have, and no dates.
        ends = pc.min_max(numbers).as_py()
        read[","] = read["."]
        found |= {".": read["."], ",": read["."]}
    else:
        dated = _like(values, LOOKS_LIKE_DATE)
        read[","] = numbers_in(values, ",").is_valid()
        some = pc.any(dated).as_py()
        parsed = {form: dates_in(values, form).is_valid() if some else dated for form in DATE_FORMATS}
        found |= {
            "comma": _like(values, ONLY_COMMA),
            "either comma": _like(values, EITHER_COMMA),
            "dated": dated,
            "nearly dated": _like(values, NEARLY_DATE),
            **read,
            **parsed,
        }
        found["truth"] = pc.is_in(pc.utf8_lower(values), value_set=pa.array(["true", "false"]))
        # A year of two digits is parsed too, as one of the first century: that is no fit.
        read |= {form: pc.and_(there, dated) for form, there in parsed.items()}
    first_misfit = dict.fromkeys(DATE_FORMATS, 0 if len(values) else -1)
    first_misfit |= {way: pc.index(fits, False).as_py() for way, fits in read.items()}
    return ColumnSurvey(
        "text",
        len(text),
        int(rows.sum()),
        Distinct.none()._with(_hashed(values), rows) if count_distinct else Distinct.none(),
        *((np.inf, -np.inf) if ends["min"] is None else (ends["min"], ends["max"])),
        Counter({name: int(rows[np.asarray(mask, bool)].sum()) for name, mask in found.items()}),
        {way: values[at].as_py() for way, at in first_misfit.items() if at >= 0},
    )


def _like(values: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(values, pattern)


def plan_column(name: str, column: pa.ChunkedArray) -> ColumnPlan:
    """The kind of a column, from all its values."""
    return plan_of(name, survey_column(column))


def plan_of(name: str, survey: ColumnSurvey, *, wanted: bool = False) -> ColumnPlan:
    """How the surveyed column becomes a feature; one that is wanted, even if it looks like an id or is empty."""
    if survey.kind == "nested":
        return ColumnPlan(name, "nested")
    if survey.values == 0:
        return ColumnPlan(name, "category" if wanted else "empty")
    if survey.is_whole:
        return ColumnPlan(name, "id" if is_counter(name, survey) and not wanted else "number")
    if survey.kind != "text":
        return ColumnPlan(name, survey.kind)
    if (plan := _plan_of_text(name, survey)) is not None:
        return plan
    is_id = survey.values >= FEW_ROWS and survey.distinct.share > ID_SHARE
    return ColumnPlan(name, "id" if is_id and not wanted else "category")


def _plan_of_text(name: str, survey: ColumnSurvey) -> ColumnPlan | None:
    """Numbers, truth values and dates that are written as text; None for names."""
    counts = survey.counts
    # "007" and "01234" are names made of digits: postcodes, FIPS codes, ids.
    if counts["code"]:
        return None
    enough = NEARLY_ALL * survey.values
    for decimal in ".,":
        if counts[decimal] >= enough:
            return ColumnPlan(name, "number", decimal=decimal)
    if counts["truth"] == survey.rows:
        return ColumnPlan(name, "boolean")
    for form in DATE_FORMATS:
        if min(counts["dated"], counts[form]) >= enough:
            return ColumnPlan(name, "date", format=form)
    return None


def is_counter(name: str, survey: ColumnSurvey) -> bool:
    """Whether whole numbers are all distinct and lie close together, as row numbers do, or are called ids."""
    n = survey.values
    if n < FEW_ROWS or n < survey.rows or survey.distinct.share < 1:
        return False
    dense = n >= COUNTER_ROWS and n > COUNTER_DENSITY * (survey.high - survey.low + 1)
    return dense or re.search(r"(^|_)(id|key|nr|no|number)$", name.lower()) is not None


# Batches that are looked at before a file is read whole: some hundred thousand rows.
HEAD_BATCHES = 2
# Sizes that differ by more are no chance: a lost decimal mark makes a thousand of it, percent a hundred.
FAR = 30.0
# Days between the typical dates of two files that are no refresh but another way of counting.
FAR_DAYS = 30 * 365.25
# Fewer values have no typical size.
FEW_VALUES = 5


def decimal_mark(surveys: Iterable[ColumnSurvey], separator: str | None) -> str | None:
    """The decimal mark of a file: what most cells show that allow no other; else what a comma between cells implies."""
    shown = list(surveys)
    points, commas = (sum(survey.counts[mark] for survey in shown) for mark in ("point", "comma"))
    if points != commas:
        return "." if points > commas else ","
    if separator == ";" and any(survey.counts["either comma"] for survey in shown):
        # Programs put semicolons between cells where the comma is taken.
        return ","
    return "." if separator == "," else None


def plan_in_file(plan: ColumnPlan, survey: ColumnSurvey, mark: str | None) -> ColumnPlan:
    """A column's plan as one file needs it: the decimal mark and the form of dates that this file writes."""
    if survey.kind != "text" or not survey.values:
        return plan
    counts = survey.counts
    if plan.kind == "number":
        if counts["point"] != counts["comma"]:
            mark = "." if counts["point"] > counts["comma"] else ","
        return replace(plan, decimal=mark or (plan.decimal if counts[plan.decimal] else survey.decimal))
    if plan.kind == "date":
        enough = NEARLY_ALL * survey.values
        # What was fitted is kept as long as it fits: 03/04/2024 alone does not say which is the month.
        forms = (plan.format or DATE_FORMATS[0], *DATE_FORMATS)
        fits = [form for form in forms if min(counts["dated"], counts[form]) >= enough]
        return replace(plan, format=fits[0]) if fits else plan
    return plan


def plans_in_file(
    plans: Sequence[ColumnPlan], surveys: Mapping[str, ColumnSurvey], source: Source
) -> list[ColumnPlan]:
    """Plans as a file needs them whose columns were surveyed; those of other columns as they are."""
    mark = decimal_mark(surveys.values(), source.separator)
    return [plan_in_file(plan, surveys[plan.name], mark) if plan.name in surveys else plan for plan in plans]


def typical(values: pa.ChunkedArray, kind: str) -> float | None:
    """The typical size of numbers (the median without zeros), or the typical day of dates; None of others or of few."""
    if kind == "date":
        days = np.asarray(pc.cast(pc.cast(values.drop_null(), pa.timestamp("s")), pa.int64()), float) / 86_400
        return float(np.median(days)) if len(days) >= FEW_VALUES else None
    if kind != "number":
        return None
    sizes = np.abs(np.asarray(pc.cast(values.drop_null(), pa.float64()), float))
    sizes = sizes[sizes > 0]
    return float(np.median(sizes)) if len(sizes) >= FEW_VALUES else None


def with_typical(plans: Iterable[ColumnPlan], table: pa.Table) -> list[ColumnPlan]:
    """Plans that remember the sizes of what was fitted."""
    return [replace(plan, typical=typical(table[plan.name], plan.kind)) for plan in plans]


def read_file(
    source: Source, plans: Sequence[ColumnPlan], own: Sequence[ColumnPlan] | None = None
) -> tuple[list[ColumnPlan], list[str], list[str]]:
    """How a file is to be read by plans of other files, from its first rows; by its `own` plans where these are known.

    Returns
    -------
    plans for this file, what to say of them, and why the file should not be read by them, if so
    """
    names = [plan.name for plan in plans if plan.kind in ("number", "date")]
    parts = list(islice(source.batches(names), HEAD_BATCHES)) if names else []
    if not parts:
        return list(plans), [], []
    head, path = pa.concat_tables(parts), source.path
    if own is None:
        surveys = {name: survey_column(head[name], count_distinct=False) for name in names}
        own = plans_in_file(plans, surveys, source)
    notes, problems = [], []
    for before, plan in zip(plans, own, strict=True):
        if plan.name not in names:
            continue
        values, text = convert(head[plan.name], plan)[0], as_text(head[plan.name])
        there = len(head) - text.null_count
        if there and len(values) - values.null_count < there / 2:
            lost = text.filter(pc.and_(text.is_valid(), values.is_null()))[0]
            problems.append(
                f"{plan.name!r} is a {plan.kind} in the model, and most of it in {path} is none, such as {str(lost)!r}."
            )
        elif (said := _size(before, typical(values, plan.kind), str(path))) is not None:
            problems.append(said)
        elif plan.decimal != before.decimal:
            notes.append(
                f"Numbers of {plan.name!r} have the decimal mark {plan.decimal!r} in {path}, and {before.decimal!r} at fit."
            )
        elif plan.format != before.format and before.format is not None:
            notes.append(
                f"Dates of {plan.name!r} are written as {plan.format} in {path}, and as {before.format} at fit."
            )
    return list(own), notes, problems


def _size(fitted: ColumnPlan, found: float | None, path: str) -> str | None:
    """A sentence where sizes differ by orders of magnitude."""
    if found is None or fitted.typical is None:
        return None
    if fitted.kind == "date":
        if abs(found - fitted.typical) <= FAR_DAYS:
            return None
        days = [str(np.datetime64(int(day), "D")) for day in (found, fitted.typical)]
        return f"Dates in {fitted.name!r} are typically of {days[0]} in {path}, and of {days[1]} where the model was fitted."
    ratio = found / fitted.typical
    if 1 / FAR < ratio < FAR:
        return None
    times = f"{ratio:,.0f} times larger" if ratio > 1 else f"{1 / ratio:,.0f} times smaller"
    percent = " One of them may be in percent." if 50 <= max(ratio, 1 / ratio) <= 200 else ""
    return (
        f"{fitted.name!r} is typically {found:.4g} in {path} and {fitted.typical:.4g} where the model was fitted: "
        f"{times}.{percent}"
    )
