"""How far to trust estimated shifts, learned from groups whose labels are known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import sum_by

# Where groups have no labels to hide, trust may be anything from 0 to 1: a uniform number has this mean and variance. Half of
# every shift brings three quarters of the gain if shifts are right, and a quarter of the harm if they are not.
UNCHECKED_TRUST, UNCHECKED_VARIANCE = 1 / 2, 1 / 12


# With fewer groups than this nothing is trusted fully, however well they agree.
FEW_GROUPS = 5


def most_trust(n_groups: int) -> float:
    """The most that so many groups can confirm: 1, or by Laplace's rule of succession where they are few.

    After n groups whose labels all confirmed the shifts, those of the next one do so with probability (n + 1) / (n + 2).

    >>> most_trust(2), most_trust(4), most_trust(5)
    (0.75, 0.8333333333333334, 1.0)
    """
    return 1.0 if n_groups >= FEW_GROUPS else (n_groups + 1) / (n_groups + 2)


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
        `value` for each group, learned from the other groups alone.
    row_error : float
        Standard error if rows were independent. Two or three groups may agree by chance, and `std_error` is then too small.
    """

    value: float
    estimate: float
    std_error: float
    without: FloatArray
    row_error: float = 0.0

    @property
    def variance(self) -> float:
        """Mean square error of `value`: that of the estimate, and the caution; at most what a number in [0, 1] can be off by."""
        estimate = float(np.clip(self.estimate, 0, 1))
        largest_error = max(self.value, 1 - self.value)
        error = max(self.std_error, self.row_error)
        return min(error**2 + (estimate - self.value) ** 2, largest_error**2)


def learn_trust(
    log_odds: FloatArray, shift: FloatArray, y: IntArray, weight: FloatArray, group: IntArray, n_groups: int
) -> Trust:
    """Logistic regression of `y` on ``log_odds + b · shift`` with `log_odds` as offset."""

    def terms(b: float) -> tuple[FloatArray, FloatArray, float]:
        p = expit(log_odds + b * shift)
        slope, bend = weight * shift * (y - p), weight * shift**2 * p * (1 - p)
        return slope, bend, (weight * p * (1 - p)).sum()

    return _trust(terms, group, n_groups)


def learn_class_trust(
    log_p: FloatArray, shift: FloatArray, y: IntArray, weight: FloatArray, group: IntArray, n_groups: int
) -> Trust:
    """The same for several classes: log-probabilities and shifts of shape (n_rows, n_classes)."""
    at = np.arange(len(y))

    def terms(b: float) -> tuple[FloatArray, FloatArray, float]:
        r = softmax(log_p + b * shift, axis=1)
        mean = (r * shift).sum(1)
        spread = (r * shift**2).sum(1) - mean**2
        return weight * (shift[at, y] - mean), weight * spread, (weight * (1 - (r**2).sum(1))).sum()

    return _trust(terms, group, n_groups)


def _trust(
    terms: Callable[[float], tuple[FloatArray, FloatArray, float]], group: IntArray, n_groups: int
) -> Trust:
    """The b of highest likelihood; `terms`: slopes and curvatures of rows at some b, and the information that shifts of 1 have.

    Leave-one-group-out values cost one Newton step each: at the optimum the gradient of the others is minus the group's.
    """

    def by_group(values: FloatArray) -> FloatArray:
        return sum_by(group, values, n_groups)

    b = 0.5
    for _ in range(50):
        slope, bend, information = terms(b)
        gradient, curvature = by_group(slope), by_group(bend)
        total = curvature.sum()
        # Shifts of a hundredth move no probability by more than 0.0025, and labels cannot confirm them.
        if total <= 1e-4 * information:
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
        value=float(np.clip(b - error, 0, most_trust(n_groups))),
        estimate=b,
        std_error=error,
        without=np.clip(without - error_without, 0, most_trust(n_groups - 1)),
        row_error=float(total**-0.5),
    )


def residual_variance(
    log_odds: FloatArray, y: IntArray, weight: FloatArray, cell: IntArray, shift_variance: FloatArray
) -> float:
    """Variance of true shifts around trusted ones, over labelled cells, beyond what their known errors explain.

    Parameters
    ----------
    log_odds : array of shape (n_rows,)
        Log-odds of labelled rows, trusted shifts included.
    cell : array of shape (n_rows,)
    shift_variance : array of shape (n_cells,)
        Variance of the trusted shift of each cell.
    """
    n_cells = len(shift_variance)
    p = expit(log_odds)
    curvature = sum_by(cell, weight * p * (1 - p), n_cells)
    gradient = sum_by(cell, weight * (y - p), n_cells)
    has_rows = curvature > 1e-9
    error = gradient[has_rows] / curvature[has_rows]
    noise = 1 / curvature[has_rows] + shift_variance[has_rows]
    # Cells whose errors are well known say most about what they leave unexplained.
    importance = 1 / noise**2
    return float(max(0.0, (importance * (error**2 - noise)).sum() / importance.sum()))
