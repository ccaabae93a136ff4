"""Sums over the rows, or the points, of each cell (NumPy)."""

from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from groupshift._math.arrays import BoolArray, FloatArray, IntArray

Value = TypeVar("Value", bound=np.generic)


class Segments:
    """Cells whose points lie next to each other: sums in a single pass, 4 to 25 times faster than `sums.sum_by`.

    Examples
    --------
    >>> cells = Segments(np.array([0, 0, 2]), n_cells=3)
    >>> cells.sum(np.array([1.0, 2.0, 3.0])).tolist()
    [3.0, 0.0, 3.0]
    >>> cells.spread(np.array([5.0, 6.0, 7.0])).tolist()
    [5.0, 5.0, 7.0]
    """

    def __init__(self, cell: IntArray, n_cells: int):
        self.n_cells = n_cells
        self.start = np.flatnonzero(np.concatenate([[len(cell) > 0], cell[1:] != cell[:-1]]))
        self.occupied = cell[self.start]
        self.size = np.diff(np.append(self.start, len(cell)))

    def sum(self, values: FloatArray) -> FloatArray:
        """Sum of the values of each cell's points; 0 for a cell without points."""
        total = np.zeros(self.n_cells)
        if len(self.start):
            total[self.occupied] = np.add.reduceat(values, self.start)
        return total

    def only(self, cells: BoolArray) -> Self:
        """The runs of the marked cells, for points of which the others are left out."""
        return type(self)(self.spread(np.arange(self.n_cells))[self.spread(cells)], self.n_cells)

    def spread(self, per_cell: NDArray[Value]) -> NDArray[Value]:
        """The value of its cell for each point."""
        return per_cell[self.occupied].repeat(self.size)
