"""A population in files: read a batch at a time, as often as the method needs it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from groupshift._data.batches import OutsideMemory, Reader
from groupshift._data.first_pass import FirstLook, FirstPass
from groupshift._data.frames import Features
from groupshift._data.progress import counted
from groupshift._data.rows import Rows
from groupshift._data.workers import Sum, add_up, map_chunks
from groupshift.tables.batch_sources import BatchSource


@dataclass(frozen=True)
class Streamed(OutsideMemory):
    """A population in files: the rows of `source` as `reader` makes them, numbered from `first` on."""

    source: BatchSource
    reader: Reader
    n_rows: int
    first: int = 0

    def picked(self, fraction: float, random_state: int) -> Iterator[Rows | None]:
        return map_chunks(lambda part: self.reader.picked(fraction, random_state, *part), self._batches())

    def sum(self, function: Callable[[Rows], Sum]) -> Sum:
        found = map_chunks(lambda part: self.reader.applied(function, *part), self._batches())
        return add_up(value for value in found if value is not None)

    def _batches(self) -> Iterator[tuple[Features, int]]:
        first = self.first
        tables = self.source.batches(self.reader.roles.columns)
        for table in counted(tables, self.n_rows, "rows", lambda table: table.num_rows):
            yield table, first
            first += table.num_rows


def first_pass(source: BatchSource, look: FirstLook) -> FirstPass:
    """Number of rows, groups and categories of the unlabelled rows, from the columns that tell them."""
    batches = source.batches(look.columns)
    return add_up(chain([FirstPass()], map_chunks(look, batches))).checked()
