"""The first pass over a file to learn from: what its columns hold, and which rows lack what every row needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from groupshift._data.progress import counted
from groupshift._data.workers import add_up, map_chunks
from groupshift.cli.errors import InputError
from groupshift.tables.column_facts import Distinct, Surveys, counts_of_texts, survey_column
from groupshift.tables.columns import ColumnPlan, as_text, convert, group_text
from groupshift.tables.csv_cells import MISSING_GROUP
from groupshift.tables.sources import Source


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
        return FileSurvey(
            self.rows + other.rows,
            self.columns + other.columns,
            self.target + other.target,
            self.groups + other.groups,
            self.lacking + other.lacking,
        )

    def check(self, source: Source, group: str | None, weight: str | None) -> None:
        """Refuse a file in which rows lack a group or a weight."""
        problems = {
            "no group": f"no {group!r}, and every row needs a group. Fill them in; or fit "
            "with --missing-group drop, which leaves these rows out, or with --missing-group own, which makes them a group of "
            "their own.",
            "no weight": f"no weight {weight!r}, or one that is no number. Every row needs one.",
            "negative": f"a negative weight {weight!r}. Weights say how many rows a row stands for: zero or more.",
        }
        for problem, said in problems.items():
            if count := self.lacking[problem]:
                raise InputError(f"{count:,} of {self.rows:,} rows of {source.path} have {said}")


@dataclass(frozen=True)
class FileSurveyor:
    """The survey of one batch; columns in `mixed` are of another type in another file."""

    features: Sequence[str]
    mixed: frozenset[str] = frozenset()
    target: str | None = None
    group: str | None = None
    weight: str | None = None

    @property
    def columns(self) -> list[str]:
        special = [name for name in (self.target, self.group, self.weight) if name is not None]
        return list(dict.fromkeys([*special, *self.features]))

    def __call__(self, table: pa.Table) -> FileSurvey:
        columns = {name: survey_column(table[name], as_texts=name in self.mixed) for name in self.features}
        target, groups, lacking = Counter[str](), Distinct.none(), Counter[str]()
        if self.target is not None:
            # Whether "NA" is a class is said later.
            target = counts_of_texts(as_text(table[self.target], missing=MISSING_GROUP))
        if self.group is not None:
            names = group_text(table[self.group])
            groups, lacking["no group"] = Distinct.of(names), names.null_count
        if self.weight is not None:
            weights, _ = convert(table[self.weight], ColumnPlan(self.weight, "number"))
            lacking["no weight"] = weights.null_count
            lacking["negative"] = pc.sum(pc.less(weights, 0.0)).as_py() or 0
        return FileSurvey(table.num_rows, Surveys(columns), target, groups, lacking)


def survey_file(source: Source, surveyor: FileSurveyor) -> FileSurvey:
    """The sums over all rows of a file; a file without rows is refused."""
    columns = surveyor.columns or source.columns[:1]
    found = map_chunks(surveyor, source.batches(columns))
    surveys = counted(found, source.n_rows, "rows", lambda survey: survey.rows)
    total = add_up(chain([next(surveys, FileSurvey(0))], surveys))
    if not total.rows:
        raise InputError(f"{source.path} has a header but no rows. Check how it was made.")
    return total
