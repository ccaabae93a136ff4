"""How one file writes numbers and dates: decided by file and column, since two files of one table may differ.

"7.916" is eight or eight thousand. A column that holds "0.5" tells it; else the other columns of its file do; else the separator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from groupshift.tables.arrow import pa, pc
from groupshift.tables.column_facts import NEARLY_ALL, ColumnSurvey, survey_column
from groupshift.tables.columns import DATE_FORMATS, ColumnPlan, as_text, convert
from groupshift.tables.table_files import Source

# Batches that are looked at before a file is read whole: some hundred thousand rows.
HEAD_BATCHES = 2
# Sizes that differ by more are no chance: a lost decimal mark makes a thousand of it, percent a hundred.
FAR = 30.0
# Days between the typical dates of two files that are no refresh but another way of counting.
FAR_DAYS = 30 * 365.25
# Fewer values have no typical size.
FEW_VALUES = 5


@dataclass(frozen=True)
class FileReading:
    """Plans for one file, what to say of them, and why the file should not be read by them, if so."""

    plans: list[ColumnPlan]
    notes: list[str]
    problems: list[str]


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
) -> FileReading:
    """How a file is to be read by plans of other files, from its first rows; by its `own` plans where these are known."""
    names = [plan.name for plan in plans if plan.kind in ("number", "date")]
    parts = list(islice(source.batches(names), HEAD_BATCHES)) if names else []
    if not parts:
        return FileReading(list(plans), [], [])
    head = pa.concat_tables(parts)
    if own is None:
        surveys = {name: survey_column(head[name], count_distinct=False) for name in names}
        own = plans_in_file(plans, surveys, source)
    return _compared(head, plans, own, str(source.path))


def _compared(
    head: pa.Table, fitted: Sequence[ColumnPlan], own: Sequence[ColumnPlan], path: str
) -> FileReading:
    """Whether columns of a file hold what was fitted, by their type and size."""
    notes, problems = [], []
    for before, plan in zip(fitted, own, strict=True):
        if plan.name not in head.column_names:
            continue
        values, _ = convert(head[plan.name], plan)
        there = len(head) - as_text(head[plan.name]).null_count
        if there and len(values) - values.null_count < there / 2:
            problems.append(
                f"{plan.name!r} is a {plan.kind} in the model, and most of it in {path} is none, such as "
                f"{_first_lost(head[plan.name], values)!r}."
            )
        elif (said := _size(before, typical(values, plan.kind), path)) is not None:
            problems.append(said)
        elif (said := _other_form(before, plan, path)) is not None:
            notes.append(said)
    return FileReading(list(own), notes, problems)


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


def _other_form(before: ColumnPlan, plan: ColumnPlan, path: str) -> str | None:
    if plan.decimal != before.decimal:
        return f"Numbers of {plan.name!r} have the decimal mark {plan.decimal!r} in {path}, and {before.decimal!r} at fit."
    if plan.format != before.format and before.format is not None:
        return (
            f"Dates of {plan.name!r} are written as {plan.format} in {path}, and as {before.format} at fit."
        )
    return None


def _first_lost(column: pa.ChunkedArray, values: pa.ChunkedArray) -> str:
    text = as_text(column)
    lost = pc.and_(text.is_valid(), values.is_null())
    return str(text.filter(lost)[0].as_py())
