"""Weights of rows as users pass them."""

import numpy as np
from numpy.typing import ArrayLike

from groupshift._math.arrays import FloatArray


def checked_weights(weight: ArrayLike | None, n_rows: int, name: str) -> FloatArray:
    """One weight for each row, all 1 where none are given.

    >>> checked_weights(None, 2, "weight").tolist()
    [1.0, 1.0]
    """
    if weight is None:
        return np.ones(n_rows)
    checked = np.asarray(weight, dtype=np.float64)
    if checked.shape != (n_rows,):
        raise ValueError(f"{name} has shape {checked.shape}; ({n_rows},) was expected, one for each row.")
    if not np.isfinite(checked).all() or (checked < 0).any() or not (checked > 0).any():
        raise ValueError(
            f"{name} has negative, infinite, NaN or only zero values; weights >= 0, not all 0, were expected."
        )
    return checked
