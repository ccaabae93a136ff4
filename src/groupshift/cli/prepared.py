"""Rows of files as the method takes them, a batch at a time: features by their plan, and roles by our names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from groupshift._data.checks import unlabeled_mask
from groupshift.cli.target import Target
from groupshift.tables.columns import ColumnPlan, as_text, convert, group_text
from groupshift.tables.sources import Source

# Names that no file has: a column may be a feature and have a role besides.
TARGET, GROUP, WEIGHT, EXAMPLE = "\0target", "\0group", "\0weight", "\0example"
# So many cells, some 64 MB, are converted once and kept; larger tables are read again for each pass.
KEPT_CELLS = 4_000_000
Values: TypeAlias = "pa.ChunkedArray | NDArray[np.generic]"


@dataclass(frozen=True)
class Column:
    """How a column is made: of the file's column `raw`, or where that is None of the rows' numbers."""

    raw: str | None
    make: Callable[[pa.Table, int], Values]


@dataclass(frozen=True)
class Part:
    """A file, the columns that are made of it, and the number of its first row among all rows."""

    source: Source
    columns: dict[str, Column]
    first: int = 0

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        wanted = {name: self.columns[name] for name in names}
        raw = list(dict.fromkeys(column.raw for column in wanted.values() if column.raw is not None))
        first = self.first
        for table in self.source.batches(raw or self.source.columns[:1]):
            yield pa.table({name: column.make(table, first) for name, column in wanted.items()})
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
            yield from self._read(names)
            return
        if self._kept is None:
            self._kept = list(self._read(self.columns))
        yield from (table.select(names) for table in self._kept)

    def _read(self, names: Sequence[str]) -> Iterator[pa.Table]:
        for part in self.parts:
            yield from part.batches(names)


def unlabeled(table: pa.Table) -> pa.Table:
    """The rows of a prepared table that have no label."""
    return table.filter(unlabeled_mask(np.asarray(table[TARGET]), -1))


def as_floats(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Numbers, dates and booleans of a feature as floats; null where missing."""
    return pc.cast(pc.cast(column, pa.int64()) if kind == "date" else column, pa.float64())


def feature(plan: ColumnPlan) -> Column:
    return Column(plan.name, lambda table, first: convert(table[plan.name], plan)[0])


def group(name: str) -> Column:
    return Column(name, lambda table, first: group_text(table[name]))


def weight(name: str | None) -> Column:
    """Row weights; 1 where the file has none."""
    if name is None:
        return Column(None, lambda table, first: np.ones(table.num_rows))
    return feature(ColumnPlan(name, "number"))


def example(name: str | None) -> Column:
    """Ids of examples as text; a row without an id is an example of its own."""

    def make(table: pa.Table, first: int) -> pa.ChunkedArray:
        numbers = pc.cast(pa.array(np.arange(first, first + table.num_rows)), pa.string())
        own = pc.binary_join_element_wise("\0row", numbers, " ")
        return own if name is None else pc.coalesce(as_text(table[name]), own)

    return Column(name, make)


def labels(name: str, target: Target | None) -> Column:
    """Labels as `Target` has them; none where no target is given, which -1 says beside numbers and beside names."""
    if target is None:
        return Column(None, lambda table, first: np.full(table.num_rows, -1))
    return Column(name, lambda table, first: target.labels(table[name]))
