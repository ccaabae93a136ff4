r"""A weighted sample without replacement as a race: rows finish one after the other, and the first are asked.

Row i runs for ``T_i = E_i / s_i``, with E_i standard exponential and s_i its chance. Three things make this the sample of an
audit. The next row to finish is each time drawn among the others in proportion to their chances, so that every prefix of the
order is a sample, and a row that cannot be had is replaced by the next. Given when the first row that was *not* asked finishes
(τ), each row had finished before with probability ``1 − exp(−s_i τ)``, on its own: sums that are weighted by the inverse are
unbiased, and their terms uncorrelated (Cohen and Kaplan's rank conditioning). And E_i is a hash of the row's number: the same
seed gives the same order.
"""

import numpy as np
from scipy.special import expit

from groupshift._math.arrays import FloatArray

# A row that hardly says anything keeps this part of a mean row's chance: the assumption is tested everywhere, and no single
# label could overturn the share. Smaller values save next to no labels, and leave bets on the share without force: no bet may be
# larger than the most surprising label allows.
LEAST_CHANCE = 0.75
# Log-odds at which doubt is tabled; beyond them it is as good as none.
FURTHEST, STEP = 16.0, 0.125


def race_times(uniform: FloatArray, chance: FloatArray) -> FloatArray:
    """When each row finishes, from a uniform number for each.

    >>> race_times(np.array([0.5, 0.5]), np.array([1.0, 2.0])).round(3).tolist()
    [0.693, 0.347]
    """
    return -np.log1p(-uniform) / chance


def inclusion(chance: FloatArray, threshold: float) -> FloatArray:
    """Probability that a row finishes before the first row that was not asked.

    >>> inclusion(np.array([0.1, 0.2]), 5.0).round(3).tolist()
    [0.393, 0.632]
    """
    return -np.expm1(-chance * threshold)


def chances(
    log_odds: FloatArray,
    weight: FloatArray,
    variance: FloatArray,
    shift: FloatArray,
    mass: FloatArray,
) -> FloatArray:
    """Chances of rows, adding up to 1: in proportion to how far a label is expected to lie from its prediction.

    For a given number of labels this makes the error of a difference estimator smallest. A label is far from its prediction
    where both classes are likely, and where the shift of the row's cell is not well known.

    Parameters
    ----------
    log_odds, weight, variance : arrays of shape (n_rows,)
        Predictions, weights of rows, and the variance of the shift of each row's own cell.
    shift, mass : arrays of shape (n_values,)
        What the shift of all groups may be, and how likely.
    """
    grid = np.arange(-FURTHEST, FURTHEST + STEP, STEP)
    q = expit(grid[:, None] + shift)
    doubt, square = (q * (1 - q)) @ mass, (q * (1 - q)) ** 2 @ mass
    expected = np.interp(log_odds, grid, doubt) + variance * np.interp(log_odds, grid, square)
    size = np.sqrt(np.maximum(expected, 0))
    size = weight * np.maximum(size, LEAST_CHANCE * np.average(size, weights=weight))
    # A row without weight says nothing of the share, but a chance of 0 has no time to finish at.
    size = np.maximum(size, 1e-9 * size.max(initial=1e-300))
    found: FloatArray = size / size.sum()
    return found
