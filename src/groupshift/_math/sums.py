"""Sums, means and ratios by part (group, cluster or cell), safe where a part is empty (NumPy)."""

import numpy as np
from numpy.typing import NDArray

from groupshift._math.arrays import FloatArray, IntArray


def sum_by(part: NDArray[np.integer], values: NDArray[np.number], n_parts: int) -> FloatArray:
    """Sum of the values of each of the parts ``0 … n_parts - 1``.

    >>> sum_by(np.array([0, 0, 2]), np.array([1, 2, 3]), 3).tolist()
    [3.0, 0.0, 3.0]
    """
    # Without rows, NumPy counts in whole numbers even where weights are given.
    return np.bincount(part, weights=values, minlength=n_parts).astype(np.float64, copy=False)


def ratio(numerator: FloatArray, denominator: FloatArray, *, empty: float = np.nan) -> FloatArray:
    """Numerator over denominator; `empty` where there is nothing to divide by.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """
    quotient: FloatArray = np.divide(
        numerator, denominator, out=np.full(np.shape(numerator), empty), where=denominator > 0
    )
    return quotient


def mean_by(
    part: NDArray[np.integer],
    values: NDArray[np.number],
    weight: FloatArray,
    n_parts: int,
    *,
    empty: float = np.nan,
) -> FloatArray:
    """Weighted mean of the values of each part; `empty` for a part without weight.

    >>> mean_by(np.array([0, 0]), np.array([1.0, 4.0]), np.array([2.0, 1.0]), 2).tolist()
    [2.0, nan]
    """
    return ratio(sum_by(part, weight * values, n_parts), sum_by(part, weight, n_parts), empty=empty)


def in_steps(values: FloatArray, step: float) -> FloatArray:
    """The nearest multiples of a power of two: their sums are exact. 0 leaves values as they are.

    >>> in_steps(np.array([0.3, 1.0]), 0.25).tolist()
    [0.25, 1.0]
    """
    return np.rint(values / step) * step if step else values


def renumbered(part: IntArray) -> IntArray:
    """Parts numbered without gaps, in their order; much faster than `np.unique`, which sorts the rows.

    >>> renumbered(np.array([5, 2, 5])).tolist()
    [1, 0, 1]
    """
    number: IntArray = np.cumsum(np.bincount(part) > 0) - 1
    return number[part]


def power_of_two(size: FloatArray | float) -> FloatArray:
    """The largest power of two up to each size: numbers divided by it are not rounded.

    >>> power_of_two(np.array([5.0, 0.3, 1e300])) <= np.array([5.0, 0.3, 1e300])
    array([ True,  True,  True])
    """
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1] - 1))
