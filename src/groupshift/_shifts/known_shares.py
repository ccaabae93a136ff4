"""Rates of positives that users know, and one group's shifts moved to agree with such a rate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.points import Points
from groupshift._math.sums import sum_by

# Takes the shifts of a group's clusters; gives the shares of positives in them, and their derivatives. Shapes (n_clusters,).
CellShares = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

# Shifts are differences of two logits of shares; shares of 1 in 10,000 on both ends are 18 apart.
MAX_SHIFT = 18.0
# Error of a rate that the search for shifts begins with.
LOOSE = 0.3


@dataclass(frozen=True)
class KnownShares:
    """Rates of positives that the user knows for some groups.

    Attributes
    ----------
    group, share, std_error : arrays of shape (n_known,)
        Number of each group, its rate, and the standard error of that.
    weight : array of shape (n_known, n_clusters)
        Each cluster's share of the group's rows: the rate is the sum of the clusters' shares times this.
    """

    group: IntArray
    share: FloatArray
    std_error: FloatArray
    weight: FloatArray


def by_rows(points: Points, group: int, n_clusters: int) -> CellShares:
    """Shares as the mean corrected posterior of the group's own rows: what their predictions add up to."""
    start, stop = np.searchsorted(points.cell, [group * n_clusters, (group + 1) * n_clusters])
    cell = points.cell[start:stop] - group * n_clusters
    score = points.score[start:stop]
    total = points.weight_sum[group * n_clusters : (group + 1) * n_clusters]
    weight = points.weight[start:stop] / np.maximum(total, 1e-300)[cell]

    def mean(values: FloatArray) -> FloatArray:
        return sum_by(cell, weight * values, n_clusters)

    def shares(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = expit(score + shift[cell])
        return mean(q), mean(q * (1 - q))

    return shares


def mean_posterior(points: Points, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the corrected posterior q of each cell, and of q(1 − q); NaN in cells without rows."""
    q = expit(points.score + shift.ravel()[points.cell])
    total = np.where(points.weight_sum > 0, points.weight_sum, np.nan)
    mean = sum_by(points.cell, points.weight * q, points.n_cells) / total
    doubt = sum_by(points.cell, points.weight * q * (1 - q), points.n_cells) / total
    return mean.reshape(shift.shape), doubt.reshape(shift.shape)


def condition_group(
    shift: FloatArray,
    covariance: FloatArray,
    share: float,
    std_error: float,
    weight: FloatArray,
    cell_shares: CellShares,
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and covariance of one group's shifts given that its rate of positives is `share` ± `std_error`.

    Examples
    --------
    A rate of 3 in 4 that is known for sure triples the odds of a group that was thought to have 1 in 2.

    >>> from groupshift._math.points import collect_points
    >>> rows = by_rows(collect_points([0.0], [0], n_cells=1), group=0, n_clusters=1)
    >>> shift, _ = condition_group(np.zeros(1), np.eye(1), 0.75, 0.0, np.ones(1), rows)
    >>> np.exp(shift).round(3).tolist()
    [3.0]
    """
    error = max(std_error, 1e-6)
    precision = np.linalg.inv(covariance)
    # A cell that was thought to be certain lies beyond the limit: held only in the end, it would move the rate again.
    shift = np.clip(shift, -MAX_SHIFT, MAX_SHIFT)

    def rate(candidate: FloatArray) -> float:
        return float(weight @ cell_shares(candidate)[0])

    def cost(candidate: FloatArray, error: float = error) -> float:
        move = candidate - shift
        return float(move @ precision @ move + ((share - rate(candidate)) / error) ** 2)

    def found(current: FloatArray) -> FloatArray:
        for i in range(60):
            # Shifts that meet an exact rate lie on a curve, along which steps are short: at first they need only be near it.
            loose = max(error, LOOSE * 0.5**i)
            alpha, slope = cell_shares(current)
            jacobian = weight * slope
            gain = covariance @ jacobian / (jacobian @ covariance @ jacobian + loose**2)
            wanted = shift + gain * (share - weight @ alpha - jacobian @ (shift - current))
            step = np.clip(wanted - current, -1.0, 1.0)
            # The rate is flat near 0 and 1, where a full step may overshoot: a shorter one then does better. Of a tiny step
            # rounding would say so as well.
            before = cost(current, loose)
            while np.abs(step).max() > 1e-6 and cost(current + step, loose) > before:
                step = step / 2
            current = current + step
            if loose == error and np.abs(step).max() <= 1e-12:
                break
        return current

    starts = [shift]
    if rate(shift - MAX_SHIFT) < share < rate(shift + MAX_SHIFT):
        # From a cell that seems certain no way leads back: another start meets the rate by moving all cells alike.
        starts.append(shift + brentq(lambda move: rate(shift + move) - share, -MAX_SHIFT, MAX_SHIFT))
    current = min(map(found, starts), key=cost)
    jacobian = weight * cell_shares(current)[1]
    gain = covariance @ jacobian / (jacobian @ covariance @ jacobian + error**2)
    return np.clip(current, -MAX_SHIFT, MAX_SHIFT), covariance - np.outer(gain, jacobian @ covariance)


def check_reached(overall: float, part: FloatArray, share: FloatArray, name: str, rounding: float) -> None:
    """Refuse an overall share beyond what groups of known shares leave to the others; `part`: theirs of the population."""
    least = float(part @ share)
    most = least + max(1 - float(part.sum()), 0.0)
    # Shares are written with a few digits: what differs by less is the same number, rounded.
    if not least - rounding <= overall <= most + rounding:
        raise ValueError(
            f"{name} is {overall:g}, but the groups with known shares ({part.sum():.1%} of the population) leave "
            f"it between {least:.4g} and {most:.4g}. Correct one of them, or give standard errors: (share, standard error)."
        )
