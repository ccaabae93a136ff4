"""An estimate moved by what audit labels say of all groups, and of each: the one way in which an audit changes a model."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtr

from groupshift._audit.common_shift import GRID, AuditedShift
from groupshift._math.arrays import FloatArray
from groupshift._math.points import Points
from groupshift._math.sums import ratio, sum_by
from groupshift._shifts.estimate import Estimate
from groupshift._shifts.known_shares import mean_posterior

# Shifts at which the shares of groups are tabled, to be read between them.
TABLED = np.arange(-8.0, 8.01, 0.25)


@dataclass(frozen=True)
class SharePosterior:
    """What is known of the overall share: for each common shift, how likely it is, and the share's mean and deviation then."""

    mass: FloatArray
    mean: FloatArray
    deviation: FloatArray

    def interval(self, coverage: float) -> tuple[float, float]:
        share = np.linspace(0, 1, 2001)
        below = ndtr((share[:, None] - self.mean) / np.maximum(self.deviation, 1e-6)) @ self.mass
        low, high = np.interp([(1 - coverage) / 2, (1 + coverage) / 2], below, share)
        return float(low), float(high)


def audited(estimate: Estimate, common: AuditedShift, *, counted: float, own: FloatArray) -> Estimate:
    """The estimate with its shifts moved, and their variances replaced by what is left of them.

    `counted` is the variance of the common shift that the estimate's variances hold, `own` that of each group's own shift.
    """
    added = common.group_shift[:, None]
    rest = np.maximum(estimate.variance - counted - own[:, None], 0)
    shift, variance = estimate.shift + added, rest + common.group_variance[:, None]
    shared = np.maximum(estimate.shared_deviation**2 - counted - own[:, None], 0)
    share, slope, error = _shares(estimate, shift, variance)
    return replace(
        estimate,
        shift=shift,
        slope=slope,
        variance=variance,
        shared_deviation=np.sqrt(np.minimum(shared + common.group_variance[:, None], variance)),
        share=share,
        share_error=error,
        unseen_shift=estimate.unseen_shift + common.mean,
        unseen_variance=np.maximum(estimate.unseen_variance - counted, 0) + common.variance,
        common_variance=np.full(shift.shape[1], common.variance),
        # The labels have decided it.
        unidentified=0.0,
    )


def share_posterior(estimate: Estimate, common: AuditedShift) -> SharePosterior:
    """The overall share of the estimate's rows, for an estimate that the audit has not moved yet."""
    assert isinstance(estimate.points, Points)
    n_groups, n_clusters = estimate.shift.shape
    moves = np.where(np.isin(estimate.groups, estimate.known_groups), 0.0, 1.0)[:, None]
    at = moves * GRID + common.own_shift[:, None]
    table, slope = _group_shares(estimate.points, estimate.shift, n_clusters)
    weight = estimate.row_weight.sum(1) / estimate.row_weight.sum()
    mean = weight @ _read(table, at)
    own = (weight[:, None] * _read(slope, at)) ** 2 * common.own_variance[:, None]
    # Predictions that are not those of the points differ from them by a little: so does the share.
    now = float((estimate.row_weight * estimate.share).sum() / estimate.row_weight.sum())
    of_points = float(weight @ _read(table, np.zeros((n_groups, 1)))[:, 0])
    offset = logit(np.clip(now, 1e-9, 1 - 1e-9)) - logit(np.clip(of_points, 1e-9, 1 - 1e-9))
    noise = now * (1 - now) / max(int(estimate.rows.sum()), 1)
    moved = expit(logit(np.clip(mean, 1e-12, 1 - 1e-12)) + offset)
    return SharePosterior(common.mass, moved, np.sqrt(own.sum(0) + noise))


def _shares(
    estimate: Estimate, shift: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Shares of cells after the move, by as much as those of their points change, their slopes and standard errors."""
    assert isinstance(estimate.points, Points)
    before, _ = mean_posterior(estimate.points, estimate.shift)
    after, slope = mean_posterior(estimate.points, shift)
    empty = np.isnan(after)
    moved = np.where(empty, shift - estimate.shift, _logit(after) - _logit(before))
    share = expit(_logit(estimate.share) + moved)
    slope = np.where(empty, share * (1 - share), slope)
    rows = np.maximum(estimate.points.effective_rows.reshape(share.shape), 0.5)
    return share, slope, np.sqrt(slope**2 * variance + slope / rows)


def _logit(share: FloatArray) -> FloatArray:
    found: FloatArray = logit(np.clip(np.nan_to_num(share, nan=0.5), 1e-12, 1 - 1e-12))
    return found


def _group_shares(points: Points, shift: FloatArray, n_clusters: int) -> tuple[FloatArray, FloatArray]:
    """Shares of groups if all their log-odds moved by TABLED, and their slopes, (n_groups, n_tabled)."""
    group, n_groups = points.cell // n_clusters, len(shift)
    score = points.score + shift.ravel()[points.cell]
    total = sum_by(group, points.weight, n_groups)
    columns = [
        ratio(sum_by(group, points.weight * expit(score + move), n_groups), total, empty=0.0)
        for move in TABLED
    ]
    table = np.stack(columns, 1)
    return table, np.gradient(table, TABLED, axis=1)


def _read(table: FloatArray, at: FloatArray) -> FloatArray:
    """Entries of a table between the values of TABLED, line by line."""
    step = TABLED[1] - TABLED[0]
    place = np.clip((at - TABLED[0]) / step, 0, len(TABLED) - 1.001)
    low = place.astype(np.int64)
    part, line = place - low, np.arange(len(table))[:, None]
    found: FloatArray = (1 - part) * table[line, low] + part * table[line, low + 1]
    return found
