"""Rows of files as the method takes them, a batch at a time: a first pass, features by their plan, roles by our names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from groupshift._data.checks import unlabeled_mask
from groupshift._data.progress import counted
from groupshift._data.workers import add_up, map_chunks
from groupshift.cli.errors import InputError
from groupshift.cli.target import Target
from groupshift.tables.column_facts import Distinct, Surveys, counts_of_texts, survey_column
from groupshift.tables.columns import ColumnPlan, as_text, convert, group_text
from groupshift.tables.csv_cells import MISSING_GROUP
from groupshift.tables.sources import Source

# Names that no file has: a column may be a feature and have a role besides.
TARGET, GROUP, WEIGHT, EXAMPLE = "\0target", "\0group", "\0weight", "\0example"
# So many cells, some 64 MB, are converted once and kept; larger tables are read again for each pass.
KEPT_CELLS = 4_000_000
# How a column is made: of the file's column of this name, or where that is None of the rows' numbers.
Make: TypeAlias = "Callable[[pa.Table, int], pa.ChunkedArray | NDArray[np.generic]]"
Column: TypeAlias = "tuple[str | None, Make]"


@dataclass(frozen=True)
class FileSurvey:
    """Sums over the rows of a file.

    `target` counts the values of the target, those that stand for a missing one too, and `groups` the rows of each group;
    `lacking` counts the rows that have "no group" or "no weight", or a "negative" one.
    """

    rows: int
    columns: Surveys = field(default_factory=lambda: Surveys({}))
    target: Counter[str] = field(default_factory=Counter)
    groups: Distinct = field(default_factory=Distinct.none)
    lacking: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: FileSurvey) -> FileSurvey:
        return FileSurvey(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def check(self, source: Source, group: str | None, weight: str | None) -> None:
        """Refuse a file in which rows lack a group or a weight."""
        problems = {
            "no group": f"no {group!r}, and every row needs a group. Fill them in; or fit with --missing-group drop, which "
            "leaves these rows out, or with --missing-group own, which makes them a group of their own.",
            "no weight": f"no weight {weight!r}, or one that is not a number. Every row needs one.",
            "negative": f"a negative weight {weight!r}. A weight is the number of rows that a row stands for: zero or more.",
        }
        for problem, said in problems.items():
            if count := self.lacking[problem]:
                raise InputError(f"{count:,} of {self.rows:,} rows of {source.path} have {said}")


def survey_file(
    source: Source,
    features: Sequence[str] = (),
    *,
    mixed: frozenset[str] = frozenset(),
    target: str | None = None,
    group: str | None = None,
    weight: str | None = None,
) -> FileSurvey:
    """The sums over all rows of a file; columns in `mixed` are of another type in another file. No rows are refused."""

    def survey(table: pa.Table) -> FileSurvey:
        columns = {name: survey_column(table[name], as_texts=name in mixed) for name in features}
        values, groups, lacking = Counter[str](), Distinct.none(), Counter[str]()
        if target is not None:
            # Whether "NA" is a class is said later.
            values = counts_of_texts(as_text(table[target], missing=MISSING_GROUP))
        if group is not None:
            names = group_text(table[group])
            groups, lacking["no group"] = Distinct.of(names), names.null_count
        if weight is not None:
            weights, _ = convert(table[weight], ColumnPlan(weight, "number"))
            lacking["no weight"] = weights.null_count
            lacking["negative"] = pc.sum(pc.less(weights, 0.0)).as_py() or 0
        return FileSurvey(table.num_rows, Surveys(columns), values, groups, lacking)

    special = [name for name in (target, group, weight) if name is not None]
    wanted = list(dict.fromkeys([*special, *features])) or source.columns[:1]
    found = map_chunks(survey, source.batches(wanted))
    surveys = counted(found, source.n_rows, "rows", lambda part: part.rows)
    total = add_up(chain([next(surveys, FileSurvey(0))], surveys))
    if not total.rows:
        raise InputError(f"{source.path} has a header but no rows. Check how it was made.")
    return total


@dataclass(frozen=True)
class Part:
    """A file, the columns that are made of it, and the number of its first row among all rows."""

    source: Source
    columns: dict[str, Column]
    first: int = 0

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        wanted = {name: self.columns[name] for name in names}
        raw = list(dict.fromkeys(name for name, _ in wanted.values() if name is not None))
        first = self.first
        for table in self.source.batches(raw or self.source.columns[:1]):
            yield pa.table({name: make(table, first) for name, (_, make) in wanted.items()})
            first += table.num_rows


class Prepared:
    """Parts below each other, with `n_rows` rows in all, as one source of batches."""

    def __init__(self, parts: Sequence[Part], n_rows: int):
        self.parts = list(parts)
        self.n_rows = n_rows
        self._kept: list[pa.Table] | None = None

    @property
    def columns(self) -> list[str]:
        return list(self.parts[0].columns)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        names = self.columns if columns is None else list(columns)
        if self.n_rows * len(self.columns) > KEPT_CELLS:
            yield from chain.from_iterable(part.batches(names) for part in self.parts)
            return
        if self._kept is None:
            self._kept = [table for part in self.parts for table in part.batches(self.columns)]
        yield from (table.select(names) for table in self._kept)


def unlabeled(table: pa.Table) -> pa.Table:
    """The rows of a prepared table that have no label."""
    return table.filter(unlabeled_mask(np.asarray(table[TARGET]), -1))


def as_floats(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Numbers, dates and booleans of a feature as floats; null where missing."""
    return pc.cast(pc.cast(column, pa.int64()) if kind == "date" else column, pa.float64())


def feature(plan: ColumnPlan) -> Column:
    return plan.name, lambda table, first: convert(table[plan.name], plan)[0]


def roles_of(
    source: Source, group: str | None, weight: str | None, example_id: str | None
) -> dict[str, Column]:
    """Columns with a role, by our names; a row without an id is an example of its own, one without a weight counts once."""
    found: dict[str, Column] = {}
    if group is not None:
        found[GROUP] = group, lambda table, first: group_text(table[group])
    if weight in source.columns:
        found[WEIGHT] = feature(ColumnPlan(weight, "number"))
    elif weight is not None:
        found[WEIGHT] = None, lambda table, first: np.ones(table.num_rows)
    if example_id is not None:
        has_ids = example_id in source.columns

        def ids(table: pa.Table, first: int) -> pa.ChunkedArray:
            numbers = pc.cast(pa.array(np.arange(first, first + table.num_rows)), pa.string())
            own = pc.binary_join_element_wise("\0row", numbers, " ")
            return pc.coalesce(as_text(table[example_id]), own) if has_ids else own

        found[EXAMPLE] = (example_id if has_ids else None), ids
    return found


def labels(name: str, target: Target | None) -> Column:
    """Labels as `Target` has them; none where no target is given, which -1 says beside numbers and beside names."""
    if target is None:
        return None, lambda table, first: np.full(table.num_rows, -1)
    return name, lambda table, first: target.labels(table[name])
