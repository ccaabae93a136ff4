"""Groups and other values of users as numbers."""

import warnings
from collections.abc import Iterable
from functools import cached_property
from itertools import chain, repeat
from typing import Self

import numpy as np

from groupshift._data.frames import some
from groupshift._math.arrays import IntArray, ValueArray

BLOCK_ROWS = 65_536


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
        kinds = {values.dtype.kind, self.values_.dtype.kind}
        if kinds <= set("biuf") or kinds == {"U"}:
            at = np.searchsorted(self.values_, values)
            np.minimum(at, len(self.values_) - 1, out=at)
            at[self.values_[at] != values] = -1
            return at
        # In blocks: a Python object for each row at once would take several times as much as the rows.
        blocks = (values[start : start + BLOCK_ROWS].tolist() for start in range(0, len(values), BLOCK_ROWS))
        found = map(self._lookup.get, chain.from_iterable(blocks), repeat(-1))
        return np.fromiter(found, np.int64, len(values))

    def __getstate__(self) -> dict[str, ValueArray]:
        return {"values_": self.values_}

    # Made once: batches of a file ask the same codes again and again.
    @cached_property
    def _lookup(self) -> dict[object, int]:
        return {value: code for code, value in enumerate(self.values_.tolist())}


def same_kind(one: ValueArray, other: ValueArray, what: str) -> None:
    """Refuse groups that are text on one side and numbers on the other: none would find its like; `what` is said of both."""
    if len(one) and len(other) and isinstance(one[0], str) != isinstance(other[0], str):
        found = what.format(*(type(groups[0]).__name__ for groups in (one, other)))
        raise ValueError(f"{found}: no group is in both. Convert one of them.")


def _plain(value: object) -> object:
    """A NumPy scalar as the Python value that it equals; dates stay, as not all have one."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufUS" else value


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
    return groups.transform(values)


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
