"""Groups and other values of users as numbers."""

from contextlib import suppress
from itertools import repeat
from typing import Self

import numpy as np

from groupshift._math.arrays import IntArray, ValueArray
from groupshift._math.fitted_part import FittedPart


class Codes(FittedPart):
    """Numbers for values of any hashable kind: their places among the sorted distinct values."""

    values_: ValueArray

    def fit(self, values: ValueArray) -> Self:
        if values.dtype.kind == "O":
            distinct = [_plain(value) for value in dict.fromkeys(values.tolist())]
            # Kinds that do not compare, such as 1 and "a", stay in their order of appearance.
            with suppress(TypeError):
                distinct = sorted(distinct)  # type: ignore[type-var]  # kinds that do not compare raise
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
        numeric = "biuf"
        if values.dtype.kind in numeric and self.values_.dtype.kind in numeric:
            at = np.minimum(np.searchsorted(self.values_, values), len(self.values_) - 1)
            return np.where(self.values_[at] == values, at, -1)
        lookup = {value: code for code, value in enumerate(self.values_.tolist())}
        return np.fromiter(map(lookup.get, values.tolist(), repeat(-1)), np.int64, len(values))


def _plain(value: object) -> object:
    """A NumPy scalar as the Python value that it equals; dates stay, as not all have one."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufUS" else value
