"""Sums on their way between machines: points in half the bytes, cells without rows in none."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._shifts.common import MeanSums
from groupshift._shifts.estimate import Counts
from groupshift._shifts.sums import Sums


@dataclass(frozen=True)
class Packed:
    """A value that is small when it is pickled; counts are what it is for, others pass as they are."""

    value: Any

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.value, Counts):
            return _unpacked, (PackedSums.of(self.value.scores), self.value.means)
        return Packed, (self.value,)


def _unpacked(scores: "PackedSums", means: MeanSums | None) -> Packed:
    return Packed(Counts(scores.unpacked(), means))


@dataclass(frozen=True)
class PackedSums:
    """Sums as small arrays: bins of 32 bits where they fit, scores of a grid by its width, cells by the number of their points.

    `weight_sums` are the sums of weights and of squared weights; None where every row has weight 1.
    """

    n_cells: int
    cells: NDArray[np.integer]
    points_of_cell: NDArray[np.integer]
    bins: NDArray[np.integer]
    score: FloatArray | float  # or the width of the grid
    weight: FloatArray
    rows: NDArray[np.integer]
    weight_sums: tuple[FloatArray, FloatArray] | None

    @classmethod
    def of(cls, sums: Sums) -> "PackedSums":
        cells = np.flatnonzero(sums.rows)
        totals = sums.weight_sum, sums.weight_square_sum
        has_unit_weights = all(np.array_equal(sums.rows, total) for total in totals)
        width = _grid(sums)
        return cls(
            sums.n_cells,
            _small(cells),
            _small(np.bincount(sums.cell, minlength=sums.n_cells)[cells]),
            _small(sums.bin),
            sums.score if width is None else width,
            sums.weight,
            _small(sums.rows[cells]),
            None if has_unit_weights else (totals[0][cells], totals[1][cells]),
        )

    def unpacked(self) -> Sums:
        """Sums as they were."""
        rows = np.zeros(self.n_cells, np.int64)
        rows[self.cells] = self.rows
        total, square = np.zeros(self.n_cells), np.zeros(self.n_cells)
        total[self.cells], square[self.cells] = self.weight_sums or (self.rows, self.rows)
        cell, bins = np.repeat(self.cells.astype(np.int64), self.points_of_cell), self.bins.astype(np.int64)
        score = np.asarray(self.score if isinstance(self.score, np.ndarray) else (bins * self.score)[:, None])
        return Sums(cell, bins, self.weight, score, rows, total, square)


def _grid(sums: Sums) -> float | None:
    """The width of the grid that scores lie on; None where they lie on none."""
    if sums.n_contrasts > 1 or not len(sums.bin):
        return None
    at = int(np.abs(sums.bin).argmax())
    width = float(sums.score[at, 0] / sums.bin[at]) if sums.bin[at] else 1.0
    return width if np.array_equal(sums.bin * width, sums.score[:, 0]) else None


def _small(numbers: IntArray) -> NDArray[np.integer]:
    fits = len(numbers) == 0 or (numbers.max() < 2**31 and numbers.min() >= -(2**31))
    return numbers.astype(np.int32) if fits else numbers
