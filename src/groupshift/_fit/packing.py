"""Sums on their way between machines: points in half the bytes, cells without rows in none."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._fit.estimate import Tally
from groupshift._math.points import BIN_WIDTH, Points


@dataclass(frozen=True)
class Packed:
    """A value that is small when it is pickled; tallies are what it is for, others pass as they are."""

    value: Any

    def __reduce__(self):
        if isinstance(self.value, Tally):
            return _unpacked, (pack_points(self.value.points), self.value.covariates)
        return Packed, (self.value,)


def _unpacked(points: tuple, covariates: NDArray) -> Packed:
    return Packed(Tally(unpack_points(points), covariates))


def pack_points(points: Points) -> tuple:
    """Points on the grid of bins as small arrays: bin numbers of 32 bits, cells by the number of their
    points.

    >>> from groupshift._math.points import collect_points
    >>> points = collect_points([0.0, 1.0], [3, 3], n_cells=10, bin_width=BIN_WIDTH)
    >>> unpack_points(pack_points(points)).score.tolist()
    [0.0, 1.0]
    """
    cells = np.flatnonzero(points.rows)
    per_cell = np.bincount(points.cell, minlength=points.n_cells)[cells]
    bins = np.rint(points.score / BIN_WIDTH).astype(np.int32)
    whole = np.array_equal(points.rows, points.weight_sum) and np.array_equal(
        points.rows, points.weight_square_sum
    )
    weights = None if whole else (points.weight_sum[cells], points.weight_square_sum[cells])
    return (
        points.n_cells,
        _small(cells),
        _small(per_cell),
        bins,
        points.weight,
        _small(points.rows[cells]),
        weights,
    )


def unpack_points(packed: tuple) -> Points:
    """Points as they were before `pack_points`."""
    n_cells, cells, per_cell, bins, weight, rows, weights = packed
    empty = Points(
        cell=np.repeat(cells.astype(np.int64), per_cell),
        score=bins * BIN_WIDTH,
        weight=weight,
        rows=_spread(rows, cells, n_cells, np.int64),
        weight_sum=np.zeros(0),
        weight_square_sum=np.zeros(0),
    )
    sums = (rows, rows) if weights is None else weights
    total, square = (_spread(values, cells, n_cells, float) for values in sums)
    return replace(empty, weight_sum=total, weight_square_sum=square)


def _spread(values: NDArray, cells: NDArray, n_cells: int, kind: type) -> NDArray:
    spread: NDArray = np.zeros(n_cells, kind)
    spread[cells] = values
    return spread


def _small(numbers: NDArray) -> NDArray:
    return numbers.astype(np.int32) if len(numbers) == 0 or numbers.max() < 2**31 else numbers
