"""Groups and other values of users as numbers."""

import warnings
from collections.abc import Iterable
from functools import cached_property
from itertools import repeat
from typing import Self

import numpy as np

from groupshift._data.frames import some
from groupshift._data.keys import hash_keys
from groupshift._data.workers import map_chunks
from groupshift._math.arrays import BoolArray, IntArray, KeyArray, ValueArray

# Texts of more than 32 characters are looked up one by one.
MAX_WORDS = 16
# So many rows stay in the processor's cache.
BLOCK_ROWS = 16_384


class FittedPart:
    """A fitted value from its making: scikit-learn's `clone` hands it on as it is."""

    def __sklearn_clone__(self) -> Self:
        return self


class Codes(FittedPart):
    """Numbers for values of any hashable kind: their places among the sorted distinct values."""

    values_: ValueArray

    def fit(self, values: ValueArray) -> Self:
        if values.dtype.kind == "O":
            distinct = [_plain(value) for value in dict.fromkeys(values.tolist())]
            try:
                distinct = sorted(distinct)  # type: ignore[type-var]  # kinds that do not compare raise
            except TypeError:
                # Kinds that do not compare, such as 1 and "a": one kind after the other, so that order says nothing here too.
                distinct = sorted(distinct, key=lambda value: (type(value).__name__, str(value)))
            self.values_ = np.empty(len(distinct), object)
            self.values_[:] = distinct
        else:
            self.values_ = np.unique(values)
        return self

    @classmethod
    def of(cls, values: ValueArray) -> Self:
        """Codes whose values are known and in order."""
        codes = cls()
        codes.values_ = values
        return codes

    def transform(self, values: ValueArray) -> IntArray:
        """Codes of values; -1 where a value was not seen by `fit`."""
        if len(self.values_) == 0 or len(values) == 0:
            return np.full(len(values), -1)
        own = _words(values, self.values_)
        if own is not None and (table := self._table(values, len(own))) is not None:
            parts = (slice(start, start + BLOCK_ROWS) for start in range(0, len(values), BLOCK_ROWS))
            return np.concatenate([table.find([word[part] for word in own]) for part in parts])
        numeric = "biuf"
        if values.dtype.kind in numeric and self.values_.dtype.kind in numeric:
            at = np.minimum(np.searchsorted(self.values_, values), len(self.values_) - 1)
            return np.where(self.values_[at] == values, at, -1)
        return np.fromiter(map(self._lookup.get, values.tolist(), repeat(-1)), np.int64, len(values))

    def __getstate__(self) -> dict[str, ValueArray]:
        return {"values_": self.values_}

    # Made once: batches of a file ask the same codes again and again.
    @cached_property
    def _lookup(self) -> dict[object, int]:
        return {value: code for code, value in enumerate(self.values_.tolist())}

    @cached_property
    def _tables(self) -> "dict[int, _Table]":
        return {}

    def _table(self, values: ValueArray, n_words: int) -> "_Table | None":
        """The table for values of so many words."""
        if n_words not in self._tables:
            known = _words(self.values_, values)
            if known is None:
                return None
            self._tables[n_words] = _Table(known)
        return self._tables[n_words]


def same_kind(one: ValueArray, other: ValueArray, what: str) -> None:
    """Refuse groups that are text on one side and numbers on the other: none would find its like; `what` is said of both."""
    if len(one) and len(other) and isinstance(one[0], str) != isinstance(other[0], str):
        found = what.format(*(type(groups[0]).__name__ for groups in (one, other)))
        raise ValueError(f"{found}: no group is in both. Convert one of them.")


def _plain(value: object) -> object:
    """A NumPy scalar as the Python value that it equals; dates stay, as not all have one."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufUS" else value


def _words(values: ValueArray, others: ValueArray) -> list[KeyArray] | None:
    """Whole numbers, or texts of a fixed width, as columns of 64-bit words; equal in both arrays for equal values.

    None for values of other kinds, for two kinds, and for long texts.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind != others.dtype.kind or kind not in "iuU" or not values.dtype.isnative:
        return None
    if kind != "U":
        return [values.astype(np.int64, copy=False).view(np.uint64)]
    starts = range(0, max(size, others.dtype.itemsize), 8)
    if len(starts) > MAX_WORDS:
        return None
    own = [start for start in starts if start < size]
    # A character is half a word; texts of an odd number end with half of one.
    formats = [np.uint64 if size - start >= 8 else np.uint32 for start in own]
    names = [f"{start}" for start in own]
    layout = np.dtype({"names": names, "formats": formats, "offsets": own, "itemsize": size})
    parts = np.ascontiguousarray(values).view(layout)
    words = [parts[name].astype(np.uint64, copy=False) for name in names]
    return words + [np.zeros(len(values), np.uint64)] * (len(starts) - len(own))


class _Table:
    """A hash table of known values, given as columns of words, that is asked for many values at once.

    A search by halves takes several times as long even among fifty, since the processor cannot guess its turns.
    """

    def __init__(self, known: list[KeyArray]):
        self.known = known
        self.bits = max(len(known[0]).bit_length() + 3, 4)
        self.place = np.full(2**self.bits, -1, np.int32)
        wanted, slot = np.arange(len(known[0])), self._slots(known)
        while len(wanted):
            free = self.place[slot] < 0
            # Of several that want one slot, the last has it; the others go on to the next.
            self.place[slot[free]] = wanted[free]
            moves = self.place[slot] != wanted
            wanted, slot = wanted[moves], self._next(slot[moves])

    def find(self, rows: list[KeyArray]) -> IntArray:
        """Place of each row among the known ones, -1 where it is not there."""
        slot = self._slots(rows)
        found = self.place[slot].astype(np.int64)
        wrong = np.flatnonzero(self._differ(found, rows))
        while len(wrong):
            # An empty slot says that no known value is beyond it.
            wrong = wrong[found[wrong] >= 0]
            slot[wrong] = self._next(slot[wrong])
            found[wrong] = self.place[slot[wrong]]
            wrong = wrong[self._differ(found[wrong], [word[wrong] for word in rows])]
        return found

    def _next(self, slot: IntArray) -> IntArray:
        return (slot + 1) % len(self.place)

    def _slots(self, rows: list[KeyArray]) -> IntArray:
        """The highest bits of a sum of products: values that differ anywhere have different ones, mostly."""
        factors = hash_keys(np.arange(len(rows)), 0) | np.uint64(1)
        total = rows[0] * factors[0]
        for word, factor in zip(rows[1:], factors[1:], strict=True):
            total += word * factor
        slot: IntArray = (total >> np.uint64(64 - self.bits)).view(np.int64)
        return slot

    def _differ(self, place: IntArray, rows: list[KeyArray]) -> BoolArray:
        """Whether a row is another than the known one at its place; any row is where there is none."""
        differ: BoolArray = place < 0
        for column, word in zip(self.known, rows, strict=True):
            differ |= column.take(place, mode="wrap") != word
        return differ


# Rows whose groups are looked up by one worker at a time.
LOOKED_UP = 131_072

NOT_GIVEN = (
    "This model was fitted with groups, but none were given to predict: every row gets the shift common to all "
    "groups. Pass groups=, or fit with group= naming a column of X."
)


def group_numbers(values: ValueArray | None, groups: Codes, *, has_groups: bool, n_rows: int) -> IntArray:
    """Number of each row's group in `groups`; -1 where the group is not there or not given."""
    if not has_groups:
        return np.full(n_rows, 0 if len(groups.values_) else -1)
    if values is None:
        return np.full(n_rows, -1)
    parts = (values[start : start + LOOKED_UP] for start in range(0, max(n_rows, 1), LOOKED_UP))
    found = list(map_chunks(groups.transform, parts))
    return found[0] if len(found) == 1 else np.concatenate(found)


def report_unseen(values: Iterable[object], *, unseen: str, stacklevel: int) -> None:
    """Warn that rows of these groups take the common shift, or refuse them, as `unseen` says."""
    named = some(list(dict.fromkeys(values)), most=5)
    if unseen == "error":
        raise ValueError(
            f"Groups {named} had no unlabelled rows at fit, so their class shares are unknown. Add rows of these groups with "
            "update(), or pass unseen='pooled'."
        )
    warnings.warn(
        f"Groups {named} had no unlabelled rows at fit: their rows get the shift common to all groups. "
        "Add rows of these groups with update() for shifts of their own.",
        UserWarning,
        stacklevel=stacklevel,
    )
