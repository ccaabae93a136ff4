"""Whether labels differ between cells by more than chance (NumPy, SciPy)."""

import numpy as np
from scipy.special import expit

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import sum_by


def dispersion(log_odds: FloatArray, y: IntArray, weight: FloatArray, cell: IntArray, n_cells: int) -> float:
    """How far residuals of one cell agree with each other, in standard errors: about 0 where cells differ by chance alone.

    Products of two rows' residuals are added up. Unlike squares, these have mean zero without shifts however few rows a cell has.

    >>> y, cell = np.array([1, 1, 1, 1, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> round(dispersion(np.zeros(8), y, np.ones(8), cell, 2), 2)
    3.46
    """
    p = expit(log_odds)
    residual, variance = weight * (y - p), weight**2 * p * (1 - p)

    def products(values: FloatArray) -> float:
        return float((sum_by(cell, values, n_cells) ** 2).sum() - (values**2).sum())

    return products(residual) / float(np.sqrt(max(2 * products(variance), 1e-300)))
