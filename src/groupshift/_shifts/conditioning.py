r"""Shifts of all groups given the rates that a user knows: of some groups, and of the whole population.

The shift of cell (g, k) is its estimate plus ``a_k z + e_gk``: z is what all groups have in common and no unlabelled row can
tell, e what is not known of the group itself. A known rate of a group speaks of both, so that it moves the other groups
through z; a known rate of the population speaks of z and, a little, of every group.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import brentq

from groupshift._data.problem import KnownRate
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.points import Points
from groupshift._shifts.known_shares import (
    MAX_SHIFT,
    KnownShares,
    by_rows,
    condition_group,
    mean_posterior,
)

# No group's shift is known better than to a tenth of its odds, no cell's beside its group better than to a thirtieth: a rate
# can move groups whose rows showed no difference.
GROUP_FLOOR, CELL_FLOOR = 0.1**2, 0.03**2
# A known group far from what the others say tells of itself alone: its distance has Student's distribution, with the degrees
# of freedom that the spread of groups has elsewhere.
FREEDOM = 4.0


@dataclass(frozen=True)
class CellShifts:
    """Shifts of all cells and what is not known of them; arrays (n_groups, n_clusters), those of clusters (n_clusters,)."""

    shift: FloatArray
    variance: FloatArray
    shared_deviation: FloatArray  # two cells of one group have the product of their entries as covariance
    cluster_shift: FloatArray  # of a group without rows
    cluster_variance: FloatArray  # of what all groups have in common


@dataclass(frozen=True)
class Conditioned:
    """Shifts that agree with known rates, and what is left of the variance of z (1 before)."""

    shifts: CellShifts
    common: float


@dataclass(frozen=True)
class _Belief:
    """What is thought of the shifts; arrays of shape (n_groups, n_clusters) unless another is given."""

    shift: FloatArray
    own: FloatArray  # variance of each cell alone
    group: FloatArray  # standard deviations of what cells of a group have in common
    load: FloatArray  # how far a cell follows z
    spread: float  # variance of z
    known: IntArray  # (n_known,): groups with a covariance of their own
    covariance: FloatArray  # (n_known, n_clusters, n_clusters)
    center: float = 0.0  # mean of z

    @classmethod
    def of(cls, shifts: CellShifts, common: FloatArray, in_shifts: FloatArray) -> Self:
        shared = shifts.shared_deviation**2
        group = np.sqrt(np.maximum(shared - in_shifts, GROUP_FLOOR))
        own = np.maximum(shifts.variance - shared, CELL_FLOOR)
        load, n = np.broadcast_to(np.sqrt(common), own.shape).copy(), len(common)
        return cls(shifts.shift, own, group, load, 1.0, np.zeros(0, np.int64), np.zeros((0, n, n)))

    def covariances(self, groups: IntArray) -> FloatArray:
        """Of the cells of some groups, given z: (n, n_clusters, n_clusters)."""
        own = self.own[groups][:, :, None] * np.eye(self.own.shape[1])
        return own + self.group[groups][:, :, None] * self.group[groups][:, None, :]

    def toward(self, slope: FloatArray) -> FloatArray:
        """Covariance of every shift with a sum of all shifts that has these slopes."""
        own = self.own * slope + self.group * (self.group * slope).sum(1, keepdims=True)
        own[self.known] = np.einsum("gkl,gl->gk", self.covariance, slope[self.known])
        found: FloatArray = own + self.load * self.spread * (self.load * slope).sum()
        return found

    @property
    def variance(self) -> FloatArray:
        own = self.own + self.group**2
        own[self.known] = np.maximum(np.einsum("gkk->gk", self.covariance), 0)
        return own + self.spread * self.load**2


def condition_on_rates(
    shifts: CellShifts,
    points: Points,
    *,
    common: FloatArray,
    in_shifts: FloatArray,
    weight: FloatArray,
    groups: KnownShares | None = None,
    overall: KnownRate | None = None,
) -> Conditioned:
    """Shifts given known rates: a rate is met by the mean prediction of the rows that it is about.

    Parameters
    ----------
    shifts : CellShifts
    points : Points
        Scores of the population's rows; cell number ``group * n_clusters + cluster``.
    common : array of shape (n_clusters,)
        Variance of what all groups have in common and rates decide.
    in_shifts : array of shape (n_clusters,)
        The part of it that the variances of `shifts` hold.
    weight : array of shape (n_groups, n_clusters)
        Each cell's part of all rows.
    groups, overall : known rates, optional
    """
    belief = _Belief.of(shifts, common, in_shifts)
    if groups is not None:
        belief = _with_groups(belief, groups, points)
    variance, left = belief.variance, belief.spread
    if overall is not None:
        belief, variance, left = _with_overall(belief, overall, points, weight)
    variance = np.minimum(shifts.variance, variance)
    shared = np.minimum(
        shifts.shared_deviation, np.sqrt(belief.group**2 + left * np.minimum(belief.load**2, in_shifts))
    )
    if groups is not None:
        # The error of a known rate is one of all cells of its group together.
        shared[groups.group] = np.inf
    return Conditioned(
        replace(
            shifts,
            shift=belief.shift,
            variance=variance,
            shared_deviation=np.minimum(shared, np.sqrt(variance)),
            cluster_shift=shifts.cluster_shift + np.sqrt(common) * belief.center,
            cluster_variance=left * shifts.cluster_variance,
        ),
        left,
    )


def _with_groups(belief: _Belief, known: KnownShares, points: Points) -> _Belief:
    """Known rates of groups: first what they say of all, then each group by its own rate."""
    covariance = belief.covariances(known.group)
    center, spread = _in_common(belief, known, points, covariance)
    shift, follow = belief.shift + belief.load * center, belief.load.copy()
    left = np.zeros_like(covariance)
    for i, g in enumerate(known.group):
        rate, error = by_rows(points, int(g), shift.shape[1]), known.std_error[i]
        shift[g], left[i] = condition_group(
            shift[g], covariance[i], known.share[i], error, known.weight[i], rate
        )
        if error == 0:
            follow[g], left[i] = 0.0, 0.0
            continue
        # Where z moves, a group of known rate stays near where its rate holds it.
        jacobian = known.weight[i] * rate(shift[g])[1]
        through = covariance[i] @ jacobian
        follow[g] = follow[g] - through / (jacobian @ through + error**2) * (jacobian @ follow[g])
    return replace(
        belief, shift=shift, load=follow, spread=spread, center=center, known=known.group, covariance=left
    )


def _in_common(
    belief: _Belief, known: KnownShares, points: Points, covariance: FloatArray
) -> tuple[float, float]:
    """Mean and variance of z, standard normal before, given how far known rates lie from those of a z.

    A rate lies off by its own error, by what is not known of its group, and by the chance of its rows: among ten rows
    it is 0 or 1/10, whatever their probabilities.
    """
    n_groups, n_clusters = belief.shift.shape
    is_known = np.zeros(n_groups, bool)
    is_known[known.group] = True
    own = points.only(np.repeat(is_known, n_clusters))
    rows = np.maximum(own.effective_rows.reshape(-1, n_clusters)[known.group].sum(1), 1)
    load = belief.load[known.group]
    center, spread = 0.0, 1.0
    for i in range(100):
        mean, doubt = mean_posterior(own, belief.shift + belief.load * center)
        rate = (known.weight * np.nan_to_num(mean[known.group])).sum(1)
        slope = known.weight * np.nan_to_num(doubt[known.group])
        variance = np.einsum("gk,gkl,gl->g", slope, covariance, slope) + known.std_error**2
        variance = np.maximum(variance + slope.sum(1) / rows, 1e-12)
        off = known.share - rate
        # All count alike at first: groups that agree are no outliers, however far they lie from where z was.
        trusted = (FREEDOM + 1) / (FREEDOM + off**2 / variance) if i >= 10 else np.ones_like(off)
        pull = (slope * load).sum(1) * trusted / variance
        spread = float(1 / (1 + (pull * (slope * load).sum(1)).sum()))
        step = float(np.clip(spread * ((pull * off).sum() - center), -1, 1))
        center += step
        if i > 10 and abs(step) < 1e-12:
            break
    return center, spread


def _with_overall(
    belief: _Belief, known: KnownRate, points: Points, weight: FloatArray
) -> tuple[_Belief, FloatArray, float]:
    """A known rate of the population: the belief moved to it, variances, and what is left of that of z."""
    shift, moved = belief.shift, 0.0
    # Where nothing can move the rate, as where all groups are known, there is nothing to do.
    toward, slope = np.zeros_like(shift), np.zeros_like(shift)
    noise = 0.0
    # Each pass meets the rate; the next ones only settle how much of the move is whose.
    for number in range(20):
        slope = weight * np.nan_to_num(mean_posterior(points, shift)[1])
        toward = belief.toward(slope)
        noise = float((slope * toward).sum())
        if noise <= 1e-14 and number == 0:
            return belief, belief.variance, belief.spread
        if noise <= 1e-14:
            break
        unit = toward * (slope.sum() / noise)
        length, is_met = _length(belief.shift, unit, known, points, weight, slope.sum() / noise)
        # Slopes of cells that lie at their limits lead nowhere: the pass before has met the rate.
        if number > 0 and not is_met:
            break
        new = np.clip(belief.shift + length * unit, -MAX_SHIFT, MAX_SHIFT)
        moved = length * slope.sum() / noise * belief.spread * float((belief.load * slope).sum())
        change = np.abs(new - shift).max()
        shift = new
        if change < 1e-6:
            break
    # A rate of rows differs from that of their probabilities by the chance of each row.
    noise += known.std_error**2 + slope.sum() / points.effective_rows.sum()
    followed = belief.spread * float((belief.load * slope).sum())
    left = max(belief.spread - followed**2 / noise, 0.0)
    variance = np.maximum(belief.variance - toward**2 / noise, 0)
    return replace(belief, shift=shift, center=belief.center + moved), variance, left


def _length(
    shift: FloatArray,
    unit: FloatArray,
    known: KnownRate,
    points: Points,
    weight: FloatArray,
    scale: float,
) -> tuple[float, bool]:
    """How far along `unit` the shifts go: to where the rate is met, or as far as its standard error asks; and whether it is."""

    def gap(length: float) -> float:
        moved = np.clip(shift + length * unit, -MAX_SHIFT, MAX_SHIFT)
        rate = float((weight * np.nan_to_num(mean_posterior(points, moved)[0])).sum())
        return length * scale * known.std_error**2 + rate - known.share

    # Cells follow at very different paces: some lie at their limit long before the last one has moved.
    for reach in (MAX_SHIFT, 1e2 * MAX_SHIFT, 1e4 * MAX_SHIFT):
        if gap(-reach) < 0 < gap(reach):
            return float(brentq(gap, -reach, reach, xtol=1e-13, rtol=1e-14)), True
    return (reach if gap(reach) <= 0 else -reach), False
