r"""Labelled and population rows of one group compared with each other, whatever its features do.

Where features of a group are of its own kind, its scores say little of its share beside other groups. They still say how its
population differs from its labelled rows: if labels were chosen by the label, a class has the same mean score in both, and
``share_U = share_L + (mean score_U − mean score_L) / gap``, with `gap` the difference of the classes' means within groups.
Labels chosen by x move mean scores as well. They do so whatever the labels show, while those chosen by the label were few in
the population where they are many among labelled rows: over the groups, the two estimates of a group's shift tell how much of
the comparison is to be believed. It also tells whether shifts from elsewhere are too large.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.known_shares import mean_posterior
from groupshift._math.points import Points
from groupshift._math.sums import mean_by, sum_by
from groupshift._math.view_worlds import MISFIT, NATURAL, SELECTION, log_half_t

# Fewer groups cannot tell selection by the label from selection by x. More than this many tell nothing new.
MIN_GROUPS, MAX_GROUPS = 5, 300
# A gap within three standard errors of zero may be none, and nothing can be divided by it.
MIN_GAP = 3.0
# Standard deviation of the factor that shifts are off by, before the comparison is looked at.
SCALE = 0.5
# Standard deviations that are tried, in log-odds: neighbours differ by less than a factor of two.
GRID = np.geomspace(0.05, 4.0, 9)


@dataclass(frozen=True)
class LabeledMeans:
    """Labels and cross-fitted scores of labelled groups, as far as the comparison needs them."""

    share: FloatArray  # (n_groups,): of positives
    score: FloatArray  # (n_groups,): mean log-odds
    rows: FloatArray  # (n_groups,): independent ones
    gap: float  # between mean scores of positives and negatives of a group; 0 where it may be none
    spread: float  # variance of scores within a class of a group

    @classmethod
    def of(
        cls, log_odds: FloatArray, y: IntArray, weight: FloatArray, group: IntArray, n_groups: int
    ) -> "LabeledMeans":
        """From labelled rows, whose weights count independent ones.

        >>> means = LabeledMeans.of(np.array([0., 2., 1., 3.]), np.array([0, 1, 0, 1]), np.ones(4), np.array([0, 0, 1, 1]), 2)
        >>> means.share.tolist(), means.score.tolist(), means.gap
        ([0.5, 0.5], [1.0, 2.0], 2.0)
        """
        rows = sum_by(group, weight, n_groups)
        share = mean_by(group, y.astype(float), weight, n_groups, empty=0.0)
        score = mean_by(group, log_odds, weight, n_groups, empty=0.0)
        label, own = y - share[group], log_odds - score[group]
        varied = float(weight @ label**2)
        gap = float(weight @ (label * own)) / max(varied, 1e-300)
        freedom = max(float(rows.sum()) - np.count_nonzero(rows) - 1, 1.0)
        spread = float(weight @ (own - gap * label) ** 2) / freedom
        is_clear = gap > MIN_GAP * np.sqrt(spread / max(varied, 1e-300))
        return cls(share, score, rows, gap if is_clear else 0.0, spread)


@dataclass(frozen=True)
class Compared:
    """Shifts and their variances after the comparison, (n_groups, 1), and how far it is used."""

    shift: FloatArray
    variance: FloatArray
    scale: float  # what shifts were multiplied by, 0 to 1
    use: float  # how far a shift follows the comparison on average, over groups that have one


def compare(
    labeled: LabeledMeans,
    labels: tuple[FloatArray, FloatArray],
    points: Points,
    shift: FloatArray,
    variance: FloatArray,
) -> Compared:
    """Shifts of the population's groups, corrected by the comparison of each with its own labelled rows.

    Parameters
    ----------
    labeled : LabeledMeans
        Of the population's groups in their order; those without labels have no rows.
    labels : pair of arrays of shape (n_groups,)
        What labels say of the shift of the labelled rows, and the precision of that.
    points : Points
        Of the population's groups, one cell each.
    shift, variance : arrays of shape (n_groups, 1)
        As other views say them, without what all groups have in common, which is left alone.
    """
    place, rows = shift[:, 0], points.effective_rows
    has = (labeled.rows > 0) & (rows > 0)
    if labeled.gap <= 0 or has.sum() < MIN_GROUPS:
        return Compared(shift, variance, 1.0, 0.0)
    score = sum_by(points.cell, points.weight * points.score, points.n_cells)
    score = score / np.where(has, points.weight_sum, 1.0)
    # A share beyond 0 or 1 is noise, or a choice by x, and would weigh too much among the others.
    share = np.clip(labeled.share + (score - labeled.score) / labeled.gap, 0, 1)
    error = (
        labeled.spread
        / labeled.gap**2
        * (1 / np.where(has, labeled.rows, 1.0) + 1 / np.where(has, rows, 1.0))
    )
    seen = _Seen(points, has, share)
    mean, slope = seen.at(place)
    response, noise = place + (share - mean) / slope, error / slope**2
    noise = noise + _chosen_by_x(labels[0][has], 1 / labels[1][has], response[has], noise[has])
    plain, _ = seen.at(np.zeros_like(place))
    precision = np.where(has, 1 / (slope**2 * (noise + variance[:, 0])), 0.0)
    common, scale = _scale(share - plain, mean - plain, slope, precision)
    found, left, use = seen.condition(scale * place, variance[:, 0], common, slope**2 * noise)
    return Compared(found[:, None], left[:, None], scale, float(use[has].mean()))


@dataclass(frozen=True)
class _Seen:
    """Shares of the population's groups by the comparison."""

    points: Points
    has: BoolArray
    share: FloatArray

    def at(self, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shares that given shifts would make, and their slopes."""
        mean, slope = mean_posterior(self.points, shift[:, None])
        return np.where(self.has, mean[:, 0], 0.5), np.where(self.has, np.maximum(slope[:, 0], 1e-3), 0.25)

    def condition(
        self, shift: FloatArray, variance: FloatArray, common: float, noise: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Posterior modes of shifts, their variances, and how far they follow the comparison.

        In shares and not in log-odds, where a share beyond 0 or 1 has no place.
        """
        found, wanted = shift.copy(), self.share - common * self.at(shift)[1]
        limit, last = np.full(len(shift), 0.5), np.zeros(len(shift))
        for _ in range(100):
            mean, slope = self.at(found)
            information = np.where(self.has, slope**2 / noise, 0.0)
            pull = np.where(self.has, (wanted - mean) * slope / noise, 0.0)
            step = (pull - (found - shift) / variance) / (information + 1 / variance)
            # Shares are flat near 0 and 1: a step that went too far is followed by shorter ones.
            limit = np.where(step * last < 0, limit / 2, limit)
            last = np.clip(step, -limit, limit)
            found = found + last
            if np.abs(last).max() < 1e-12:
                break
        information = np.where(self.has, self.at(found)[1] ** 2 / noise, 0.0)
        left = 1 / (information + 1 / variance)
        return found, left, information * left


def _scale(
    seen: FloatArray, shifted: FloatArray, slope: FloatArray, precision: FloatArray
) -> tuple[float, float]:
    """What all groups have in common in the comparison, in log-odds, and the factor by which shifts fit it best, 0 to 1."""
    design = np.stack([slope, shifted], 1)
    normal = (precision[:, None] * design).T @ design + np.diag([1e-9, SCALE**-2])
    common, scale = np.linalg.solve(normal, (precision * seen) @ design + np.array([0, SCALE**-2]))
    return float(common), float(np.clip(scale, 0, 1))


def _chosen_by_x(labels: FloatArray, label_noise: FloatArray, seen: FloatArray, noise: FloatArray) -> float:
    """Variance of what moves mean scores but is no share: labels chosen by x, in each group its own way.

    Labels show ``θ + λ``, the comparison ``θ + ν``; how groups differ, how labels were selected, and what x does are normal.
    The mean of ν² over all three spreads, with the priors that the views have.
    """
    telling = np.argsort(noise, kind="stable")[:MAX_GROUPS]
    natural, selection, by_x = (g.ravel()[:, None] for g in np.meshgrid(GRID, GRID, GRID, indexing="ij"))
    a = natural**2 + selection**2 + label_noise[telling]
    b = natural**2
    c = natural**2 + by_x**2 + noise[telling]
    det = a * c - b**2
    first, both, second = c / det, -b / det, a / det
    r, x = labels[telling], seen[telling]
    # Means of both are free: what all groups have in common is not asked about.
    n11, n12, n22 = first.sum(1), both.sum(1), second.sum(1)
    h1, h2 = (first * r + both * x).sum(1), (both * r + second * x).sum(1)
    normal = n11 * n22 - n12**2
    mean_r, mean_x = (n22 * h1 - n12 * h2) / normal, (n11 * h2 - n12 * h1) / normal
    u, v = r - mean_r[:, None], x - mean_x[:, None]
    quadratic = (first * u**2 + 2 * both * u * v + second * v**2).sum(1)
    fit = -(quadratic + np.log(det).sum(1) + np.log(normal)) / 2
    spreads = ((natural, NATURAL), (selection, SELECTION), (by_x, MISFIT))
    for spread, scale in spreads:
        fit = fit + log_half_t(np.log(spread / scale)[:, 0])
    return float(np.exp(fit - logsumexp(fit)) @ by_x[:, 0] ** 2)
