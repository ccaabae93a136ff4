"""The first pass over a file to learn from: what its columns hold, and which rows lack what every row needs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from groupshift._io.column_facts import ColumnSurvey, Distinct, survey_column, value_counts
from groupshift._io.columns import as_text
from groupshift._io.table_files import Source
from groupshift._rows.chunks import add_up, map_chunks
from groupshift.cli.errors import InputError
from groupshift.cli.prepared import group, weight


@dataclass(frozen=True)
class FileSurvey:
    """Sums over the rows of a file.

    `target` counts the values of the target and `groups` the rows of each group; `no_group` and `no_weight`
    count the rows that have none, `negative` those whose weight is below zero.
    """

    rows: int
    columns: dict[str, ColumnSurvey] = field(default_factory=dict)
    target: Counter = field(default_factory=Counter)
    groups: Distinct = field(default_factory=Distinct.none)
    no_group: int = 0
    no_weight: int = 0
    negative: int = 0

    def __add__(self, other: "FileSurvey") -> "FileSurvey":
        return FileSurvey(
            self.rows + other.rows,
            {name: survey + other.columns[name] for name, survey in self.columns.items()},
            self.target + other.target,
            self.groups + other.groups,
            self.no_group + other.no_group,
            self.no_weight + other.no_weight,
            self.negative + other.negative,
        )


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

    def __call__(self, table: Any) -> FileSurvey:
        groups = None if self.group is None else group(self.group).make(table, 0)
        return FileSurvey(
            table.num_rows,
            {name: survey_column(table[name], as_texts=name in self.mixed) for name in self.features},
            Counter() if self.target is None else _counted(table[self.target]),
            Distinct.none() if groups is None else Distinct.of(groups),
            0 if groups is None else groups.null_count,
            *((0, 0) if self.weight is None else _bad_weights(weight(self.weight).make(table, 0))),
        )


def survey_file(source: Source, surveyor: FileSurveyor) -> FileSurvey:
    """The sums over all rows of a file; a file without rows is refused."""
    columns = surveyor.columns or source.columns[:1]
    surveys = map_chunks(surveyor, source.batches(columns))
    total = add_up(chain([next(surveys, FileSurvey(0))], surveys))
    if not total.rows:
        raise InputError(f"{source.path} has a header but no rows. Check how it was made.")
    return total


def check_groups(survey: FileSurvey, source: Source, name: str | None) -> None:
    if survey.no_group:
        raise InputError(
            f"{survey.no_group:,} of {survey.rows:,} rows of {source.path} have no {name!r}, and every row "
            "needs a group. Fill them in, drop these rows, or give them a group of their own."
        )


def check_weights(survey: FileSurvey, source: Source, name: str | None) -> None:
    if survey.no_weight:
        raise InputError(
            f"{survey.no_weight:,} of {survey.rows:,} rows of {source.path} have no weight {name!r}, or one that "
            "is no number. Every row needs one."
        )
    if survey.negative:
        raise InputError(
            f"{survey.negative:,} of {survey.rows:,} rows of {source.path} have a negative weight {name!r}. "
            "Weights say how many rows a row stands for: zero or more."
        )


def _bad_weights(weights: Any) -> tuple[int, int]:
    import pyarrow.compute as pc

    return weights.null_count, pc.sum(pc.less(weights, 0.0)).as_py() or 0


def _counted(column: Any) -> Counter:
    values, rows = value_counts(as_text(column))
    return Counter(dict(zip(values.to_pylist(), rows.tolist(), strict=True)))
