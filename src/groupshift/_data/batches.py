"""Rows of the method from batches of a table: what files and clusters share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from groupshift._data.checks import MissingGroupsError, example_keys
from groupshift._data.codes import Codes
from groupshift._data.frames import Features, Frame, is_missing
from groupshift._data.keys import sampled
from groupshift._data.roles import Roles, row_weights, unlabeled_rows
from groupshift._data.rows import Rows, concatenated
from groupshift._data.schema import Schema
from groupshift._data.unseen import group_numbers
from groupshift._math.arrays import FloatArray, IntArray, KeyArray, ValueArray

Result = TypeVar("Result")


@dataclass(frozen=True)
class Reader:
    """Rows of the method from batches of a table.

    Attributes
    ----------
    groups : array
        Names of the groups, in the order of their numbers.
    by_content : bool
        Whether content decides which rows are drawn; see `draws_by_content`.
    needs_groups : bool
        Whether rows without a group are refused.
    """

    schema: Schema
    roles: Roles
    groups: ValueArray
    unlabeled_value: object = None
    by_content: bool = True
    needs_groups: bool = True

    def __call__(self, batch: Features, first: int = 0) -> Rows:
        """Unlabelled rows of a batch; `first` is the number of its first row in the whole table."""
        at, frame = unlabeled_rows(batch, self.roles, self.unlabeled_value)
        weight = row_weights(frame, self.roles)
        return self.schema.rows(
            frame.select(self.roles.features).to_native(),
            weight=weight,
            key=self._keys(frame, at, first),
            has_ids=self.roles.example_id is not None,
            group=self._group_numbers(frame, weight),
        )

    def _group_numbers(self, frame: Frame, weight: FloatArray) -> IntArray:
        values = self.group_values(frame)
        number = group_numbers(values, self._codes, has_groups=self.schema.has_groups, n_rows=len(frame))
        if self.needs_groups and values is not None:
            # A missing group is among the unknown ones: of most batches there is none to look at.
            unknown = values[(number < 0) & (weight > 0)]
            if n_missing := int(is_missing(unknown).sum()):
                raise MissingGroupsError.of(n_missing, int((weight > 0).sum()))
        return number

    def weighed(self, batch: Features, first: int) -> Rows | None:
        """Those of the rows that weigh something; None where there are none."""
        rows = self(batch, first) if len(batch) else None
        if rows is not None and not rows.weight.all():
            rows = rows.take(rows.weight > 0)
        return rows if rows is not None and len(rows) else None

    @cached_property
    def _codes(self) -> Codes:
        return Codes.of(self.groups)

    def group_values(self, frame: Frame) -> ValueArray | None:
        """Groups of the rows of a batch, by name."""
        return None if self.roles.group is None else frame.get_column(self.roles.group).to_numpy()

    def _keys(self, frame: Frame, at: IntArray, first: int) -> KeyArray:
        if self.roles.example_id is None:
            return (at + first).astype(np.uint64)
        return example_keys(frame.get_column(self.roles.example_id).to_numpy(), len(frame))

    def picked(self, fraction: float, random_state: int, batch: Features, first: int) -> Rows | None:
        """The rows of a batch that belong to the sample of the given fraction; None where there are none."""
        rows = self.weighed(batch, first)
        if rows is None or fraction >= 1:
            return rows
        keep = np.flatnonzero(sampled(rows.drawing_key(self.by_content), fraction, random_state))
        return rows.take(keep) if len(keep) else None

    def applied(self, function: Callable[[Rows], Result], batch: Features, first: int) -> Result | None:
        """`function` of the rows of a batch; None where there are none, which classifiers refuse to score."""
        rows = self.weighed(batch, first)
        return None if rows is None else function(rows)


class OutsideMemory:
    """A population that is read anew for every sample, by `picked`, and for every sum."""

    n_rows: int
    # Rows that a sample may hold in memory: with 16 numbers a row, 128 MB.
    sample_limit: float = 1_000_000

    @cached_property
    def _samples(self) -> dict[tuple[int, int], Rows]:
        return {}

    def picked(self, fraction: float, random_state: int) -> Iterable[Rows | None]:
        """The rows of each part that are drawn; None where there are none."""
        raise NotImplementedError

    def sample(self, n_rows: int, random_state: int) -> Rows:
        if (n_rows, random_state) not in self._samples:
            # Rounds of learning ask for the same sample again; a sample of another size is a new step.
            self._samples.clear()
            parts = self.picked(min(1.0, n_rows / self.n_rows), random_state)
            drawn = concatenated([part for part in parts if part is not None])
            self._samples[n_rows, random_state] = drawn.ordered()[0]
        return self._samples[n_rows, random_state]
