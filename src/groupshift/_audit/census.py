"""All rows of a population as an audit looks at them: a few numbers for each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from groupshift._audit.tickets import CURVE
from groupshift._data.keys import content_keys, hash_keys
from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._shifts.scorer import Scored


@dataclass(frozen=True)
class Census:
    """Arrays of shape (n_rows,), and a sum over the rows that another population hardly has."""

    log_odds: FloatArray
    weight: FloatArray
    group: IntArray
    cluster: IntArray
    check: int

    @classmethod
    def of(cls, rows: Rows, scored: Scored, first: int = 0) -> "Census":
        """Of a chunk of rows, `first` being the number of its first one."""
        place = np.arange(first, first + len(rows)).astype(np.uint64)
        content = content_keys(rows.matrix) ^ hash_keys(scored.group.astype(np.uint64), 5)
        check = int(hash_keys(content ^ hash_keys(place, 6), 7).sum(dtype=np.uint64))
        weight = np.asarray(rows.weight, float)
        return cls(scored.score, weight, scored.group, scored.cluster, check)

    def __len__(self) -> int:
        return len(self.log_odds)

    @property
    def population(self) -> bytes:
        """What tells this population from another."""
        return self.check.to_bytes(8, "little")

    @property
    def part(self) -> FloatArray:
        """Of the whole weight, row by row."""
        part: FloatArray = self.weight / self.weight.sum()
        return part

    def curve(self) -> FloatArray:
        """Overall share if all log-odds were moved by the values of CURVE."""
        part = self.part
        return np.array([part @ expit(self.log_odds + shift) for shift in CURVE])


def whole_census(parts: Sequence[Census]) -> Census:
    """Chunks below each other."""
    return Census(
        np.concatenate([part.log_odds for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.cluster for part in parts]),
        sum(part.check for part in parts) % 2**64,
    )
