"""How far to trust estimated shifts, learned from groups whose labels are known (METHOD, 4.5)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

FloatArray = NDArray[np.float64]

# Where groups have no labels to hide, trust may be anything from 0 to 1. Half of every shift brings three quarters of the gain
# if shifts are right, and a quarter of the harm if they are not; and a number anywhere between has this mean and variance.
UNCHECKED_TRUST, UNCHECKED_VARIANCE = 1 / 2, 1 / 12


@dataclass(frozen=True)
class Trust:
    """One number that scales every shift.

    Attributes
    ----------
    value : float
        b in [0, 1], less one standard error: few or disagreeing labelled groups make it cautious.
    estimate, std_error : float
        b before caution, and its standard error over groups.
    without : array of shape (n_groups,)
        The value that each group would get from the other groups alone.
    row_error : float
        Standard error that as many independent rows would have: two or three groups may agree by chance.
    """

    value: float
    estimate: float
    std_error: float
    without: FloatArray
    row_error: float = 0.0

    @property
    def variance(self) -> float:
        """Mean square of what the trust may be off by: its error, and the caution, within what a number from 0 to 1 can be."""
        value = float(np.clip(self.estimate, 0, 1))
        most = max(self.value, 1 - self.value)
        error = max(self.std_error, self.row_error)
        return min(error**2 + (value - self.value) ** 2, most**2)


def learn_trust(
    log_odds: FloatArray,
    shift: FloatArray,
    y: NDArray,
    weight: FloatArray,
    group: NDArray[np.int64],
    n_groups: int,
) -> Trust:
    """Logistic regression of `y` on ``log_odds + b · shift`` with `log_odds` as offset.

    Leave-one-group-out values cost one Newton step each: at the optimum the gradient of the others is minus the group's.
    """

    def by_group(values):
        return np.bincount(group, weights=values, minlength=n_groups)

    b = 0.5
    for _ in range(50):
        p = expit(log_odds + b * shift)
        gradient = by_group(weight * shift * (y - p))
        curvature = by_group(weight * shift**2 * p * (1 - p))
        total = curvature.sum()
        # Shifts of a hundredth are none: they move no probability by more than 0.0025, and labels cannot confirm them.
        if total <= 1e-4 * (weight * p * (1 - p)).sum():
            return Trust(0.0, 0.0, np.inf, np.zeros(n_groups))
        step = float(np.clip(gradient.sum() / total, -1, 1))
        b += step
        if abs(step) < 1e-8:
            break
    rest = np.maximum(total - curvature, 1e-12)
    without = b - gradient / rest
    # Groups are the sampling units; a few of them know their own spread badly, hence G / (G - 1).
    scale = n_groups / max(n_groups - 1, 1)
    error = float(np.sqrt(scale * (gradient**2).sum()) / total)
    error_without = np.sqrt(scale * np.maximum((gradient**2).sum() - gradient**2, 0)) / rest
    return Trust(
        value=float(np.clip(b - error, 0, 1)),
        estimate=b,
        std_error=error,
        without=np.clip(without - error_without, 0, 1),
        row_error=float(total**-0.5),
    )


def residual_variance(
    log_odds: FloatArray,
    y: NDArray,
    weight: FloatArray,
    cell: NDArray[np.int64],
    shift_variance: FloatArray,
) -> float:
    """Variance of the true shifts of labelled cells around the trusted ones that their own errors do not explain.

    Parameters
    ----------
    log_odds : array
        Log-odds of labelled rows, trusted shifts included.
    shift_variance : array of shape (n_cells,)
        Variance of the trusted shift of each cell.
    """
    n_cells = len(shift_variance)
    p = expit(log_odds)
    curvature = np.bincount(cell, weights=weight * p * (1 - p), minlength=n_cells)
    gradient = np.bincount(cell, weights=weight * (y - p), minlength=n_cells)
    seen = curvature > 1e-9
    error = gradient[seen] / curvature[seen]
    noise = 1 / curvature[seen] + shift_variance[seen]
    # Precise cells say most about what is left over.
    importance = 1 / noise**2
    return float(max(0.0, (importance * (error**2 - noise)).sum() / importance.sum()))
