"""Rows of a table on their way through the method, and the population: unlabelled rows, wherever they live."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from groupshift._data.frames import Features, concat_rows, take_rows
from groupshift._data.keys import (
    class_order,
    content_keys,
    copies_expected,
    hash_keys,
    sampled,
    told_apart,
)
from groupshift._data.progress import counted
from groupshift._data.workers import Sum, add_up, map_chunks
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, KeyArray

# Large enough that the work per chunk dwarfs its overhead, small enough that intermediate arrays stay in tens of MB.
CHUNK_ROWS = 262_144
# A population of fewer rows than eight such chunks is cut into eight, so that several cores have work, but not into crumbs.
N_CHUNKS, FEWEST_CHUNK_ROWS = 8, 16_384


@dataclass(frozen=True)
class Rows:
    """Features as the classifier takes them, the same as a matrix of floats, and what belongs to each row.

    `key` identifies the example that a row is a copy of, as a 64-bit number: the user's id (`has_ids`), or one made of the
    row's content (`ordered`). Rows of a population that were not drawn yet have their places in the table instead.
    """

    features: Features
    matrix: NDArray[np.floating]
    group: IntArray
    weight: FloatArray
    key: KeyArray
    has_ids: bool = False

    def __len__(self) -> int:
        return len(self.group)

    @property
    def lasting_key(self) -> KeyArray:
        """A key that the row has in every table it stands in: its id, or its content."""
        return self.key if self.has_ids else content_keys(self.matrix)

    def drawing_key(self, by_content: bool) -> KeyArray:
        """What decides whether a row is drawn: its id, its content, or its place in the table."""
        return self.lasting_key if by_content else self.key

    def ordered(self, *labels: IntArray) -> tuple[Self, IntArray]:
        """Rows with keys of their own, in the order of these, and where they stood: any shuffled table gives the same.

        `labels` tell rows of equal content apart that have different ones, whatever the classes are called.
        """
        content = content_keys(self.matrix)
        # The number of each row's class, by all that belongs to the rows of the classes but their names.
        told = content ^ hash_keys(self.group, 0) ^ hash_keys(self.weight.view(np.int64), 1)
        content = told_apart(content, self.group, *(class_order(y, told)[y] for y in labels), self.weight)
        key = self.key if self.has_ids else content
        order = np.lexsort((content, key))
        return replace(self, key=key).take(order), order

    def take(self, rows: IntArray | BoolArray | slice) -> Self:
        matrix = self.matrix[rows]
        features = matrix if self.features is self.matrix else take_rows(self.features, rows)
        return type(self)(features, matrix, self.group[rows], self.weight[rows], self.key[rows], self.has_ids)

    def numbered(self, group: IntArray) -> Self:
        """The same rows with other group numbers."""
        return replace(self, group=group)

    def in_units(self, unit: float) -> Self:
        """Rows with their weights in multiples of `unit`."""
        return self if unit == 1 else replace(self, weight=self.weight / unit)

    def at_most(self, n_rows: float, seed: int) -> Self:
        """All rows, or a sample of about `n_rows` of them."""
        return self if len(self) <= n_rows else self.take(sampled(self.key, n_rows / len(self), seed))

    def chunks(self, size: int = CHUNK_ROWS) -> Iterator[Self]:
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


def draws_by_content(labeled: Rows, n_rows: int) -> bool:
    """Whether samples of a population of `n_rows` rows are drawn by content.

    Copies are then drawn together, which is fine as long as a row has hardly any. Where rows repeat themselves, places in the
    table decide: which copies are drawn makes no difference, and their number hardly any.
    """
    return labeled.has_ids or copies_expected(content_keys(labeled.matrix), n_rows) < 1


def concatenated(parts: Sequence[Rows]) -> Rows:
    """Rows of several parts below each other; groups keep their numbers."""
    if len(parts) == 1:
        return parts[0]
    matrix = np.concatenate([part.matrix for part in parts])
    own = parts[0].features is not parts[0].matrix
    return Rows(
        concat_rows([part.features for part in parts]) if own else matrix,
        matrix,
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.key for part in parts]),
        parts[0].has_ids,
    )


class Population(Protocol):
    """Unlabelled rows that can be sampled and summed over, in memory, in a file or on a cluster."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def sample_limit(self) -> float:
        """The most rows that `sample` may be asked for: what memory holds."""

    def sample(self, n_rows: int, random_state: int) -> Rows:
        """About `n_rows` rows, those whose key hashes low: the same rows, in the same order, however they are stored."""

    def sum(self, function: Callable[[Rows], Sum]) -> Sum:
        """The sum of `function` over chunks of rows."""


@dataclass(frozen=True)
class InMemory:
    """A population held in memory."""

    rows: Rows
    by_content: bool = True  # whether content decides which rows are drawn; see `draws_by_content`

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def sample_limit(self) -> float:
        return np.inf

    def sample(self, n_rows: int, random_state: int) -> Rows:
        rows = self.rows
        if n_rows < len(rows):
            rows = rows.take(sampled(self._key, n_rows / len(rows), random_state))
        return rows.ordered()[0]

    @cached_property
    def _key(self) -> KeyArray:
        return self.rows.drawing_key(self.by_content)

    def sum(self, function: Callable[[Rows], Sum]) -> Sum:
        # By the number of rows alone: sums are the same bits for any number of workers.
        size = min(max(-(-len(self.rows) // N_CHUNKS), FEWEST_CHUNK_ROWS), CHUNK_ROWS)
        n_chunks = max(-(-len(self.rows) // size), 1)
        return add_up(counted(map_chunks(function, self.rows.chunks(size)), n_chunks, "chunks of rows"))
