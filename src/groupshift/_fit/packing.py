"""Sums on their way between machines: points in half the bytes, cells without rows in none."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._fit.estimate import Tally
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.feature_means import MeanSums
from groupshift._math.points import BIN_WIDTH, Points


@dataclass(frozen=True)
class Packed:
    """A value that is small when it is pickled; tallies are what it is for, others pass as they are."""

    value: Any

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.value, Tally):
            tally = self.value
            predicted = None if tally.predicted is None else PackedPoints.of(tally.predicted)
            return _unpacked, (PackedPoints.of(tally.points), predicted, tally.covariates, tally.means)
        return Packed, (self.value,)


def _unpacked(
    points: "PackedPoints", predicted: "PackedPoints | None", covariates: FloatArray, means: MeanSums | None
) -> Packed:
    of_predicted = None if predicted is None else predicted.unpacked()
    return Packed(Tally(points.unpacked(), of_predicted, covariates, means))


@dataclass(frozen=True)
class PackedPoints:
    """Points on the grid of bins as small arrays: bin numbers of 32 bits, cells by the number of their points.

    `weight_sums` are the sums of weights and of squared weights; None where every row has weight 1.

    >>> from groupshift._math.points import collect_points
    >>> points = collect_points([0.0, 1.0], [3, 3], n_cells=10, bin_width=BIN_WIDTH)
    >>> PackedPoints.of(points).unpacked().score.tolist()
    [0.0, 1.0]
    """

    n_cells: int
    cells: NDArray[np.integer]
    points_of_cell: NDArray[np.integer]
    bins: NDArray[np.int32]
    weight: FloatArray
    rows: NDArray[np.integer]
    weight_sums: tuple[FloatArray, FloatArray] | None

    @classmethod
    def of(cls, points: Points) -> "PackedPoints":
        cells = np.flatnonzero(points.rows)
        sums = points.weight_sum, points.weight_square_sum
        has_unit_weights = all(np.array_equal(points.rows, total) for total in sums)
        return cls(
            points.n_cells,
            _small(cells),
            _small(np.bincount(points.cell, minlength=points.n_cells)[cells]),
            np.rint(points.score / BIN_WIDTH).astype(np.int32),
            points.weight,
            _small(points.rows[cells]),
            None if has_unit_weights else (sums[0][cells], sums[1][cells]),
        )

    def unpacked(self) -> Points:
        """Points as they were."""
        rows = np.zeros(self.n_cells, np.int64)
        rows[self.cells] = self.rows
        total, square = np.zeros(self.n_cells), np.zeros(self.n_cells)
        total[self.cells], square[self.cells] = self.weight_sums or (self.rows, self.rows)
        cell = np.repeat(self.cells.astype(np.int64), self.points_of_cell)
        return Points(cell, self.bins.astype(float) * BIN_WIDTH, self.weight, rows, total, square)


def _small(numbers: IntArray) -> NDArray[np.integer]:
    return numbers.astype(np.int32) if len(numbers) == 0 or numbers.max() < 2**31 else numbers
