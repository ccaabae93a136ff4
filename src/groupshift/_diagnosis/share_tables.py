"""Shares of positives as tables, with intervals: by cell, and by group over its clusters."""

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from groupshift._data.codes import Codes
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._math.arrays import FloatArray, IntArray, Table, ValueArray
from groupshift._shifts.estimate import Estimate


class ShareInterval(NamedTuple):
    """A share of positives, or of a class, and its interval."""

    share: float
    low: float
    high: float


class ShareDifference(NamedTuple):
    """The difference of two shares and its interval."""

    difference: float
    low: float
    high: float


def intervals(
    share: FloatArray, error: FloatArray, moved: FloatArray, rows: IntArray, coverage: float
) -> Table:
    """Columns low and high, and the narrow interval inside them.

    `error` is the standard error if nothing but what was estimated shifts all groups alike, and `moved` the standard deviation
    of what such a shift, which no row decides, would add: the wide interval allows for it, the narrow one does not.
    """
    low, high = interval(share, np.hypot(error, moved), rows, coverage)
    narrow_low, narrow_high = interval(share, error, rows, coverage)
    return {"low": low, "high": high, "narrow_low": narrow_low, "narrow_high": narrow_high}


def cell_shares(model: FittedModel, coverage: float) -> Table:
    """One line for each (group, cluster) cell of a fitted model."""
    n_groups, n_clusters = model.group_prior_.shape
    moved = np.sqrt(model.unidentified_) * open_slope(model)
    found = intervals(model.group_prior_, model.share_error_, moved, model.rows_, coverage)
    return {
        "group": np.repeat(model.groups_, n_clusters),
        "cluster": np.tile(np.arange(n_clusters), n_groups),
        "rows": model.rows_.ravel(),
        "share": model.group_prior_.ravel(),
        **{name: values.ravel() for name, values in found.items()},
    }


def group_level_shares(model: FittedModel, coverage: float) -> Table:
    """One line for each group: shares of its clusters weighted by its rows."""
    (share, error), rows = over_clusters(model.estimate_), model.rows_.sum(1)
    weight = model.row_weight_ / np.maximum(model.row_weight_.sum(1, keepdims=True), 1e-300)
    moved = np.sqrt(model.unidentified_) * (weight * open_slope(model)).sum(1)
    return {
        "group": model.groups_,
        "rows": rows,
        "share": share,
        **intervals(share, error, moved, rows, coverage),
    }


def open_slope(model: FittedModel) -> FloatArray:
    """How far the share of each cell follows a shift of all groups alike; a known rate does not."""
    is_known = np.isin(model.groups_, model.known_groups_)[:, None]
    return np.where(is_known, 0.0, model.share_slope_)


def over_clusters(estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Shares of each group, clusters weighted by its rows (post-stratified), and their standard errors: (n_groups, …)."""
    weight = estimate.row_weight / np.maximum(estimate.row_weight.sum(1, keepdims=True), 1e-300)
    weight = weight.reshape(estimate.share.shape[:2] + (1,) * (estimate.share.ndim - 2))
    error = weight * estimate.share_error
    # Cells of one group share the error of the group's effect, and have one of their own.
    common = np.clip(estimate.shared_deviation / np.sqrt(np.maximum(estimate.variance, 1e-300)), 0, 1)
    variance = (error**2 * (1 - common**2)).sum(1) + (error * common).sum(1) ** 2
    return (weight * estimate.share).sum(1), np.sqrt(variance)


def labeled_sample(model: FittedModel | ClassModel) -> tuple[FloatArray, IntArray]:
    """Shares (NaN without any) and number of the labelled rows of each group of the population."""
    labeled, at = model.evidence_.groups, np.zeros(len(model.groups_), np.int64)
    if model.has_groups_:
        at = Codes.of(model.labeled_groups_).transform(model.groups_)
    rows, share = np.where(at >= 0, labeled.rows[at], 0), labeled.share[at]
    share[rows == 0] = np.nan
    return share, rows


def overall_shares(model: FittedModel) -> tuple[float, float]:
    """Share of positives among all labelled rows, and among all population rows (NaN without any), by weight."""
    weight = model.row_weight_
    population = float((weight * model.group_prior_).sum() / weight.sum()) if weight.sum() > 0 else np.nan
    return model.evidence_.groups.overall_share, population


def interval(
    share: FloatArray, error: FloatArray, rows: IntArray, coverage: float
) -> tuple[FloatArray, FloatArray]:
    """Interval of a share among so many rows.

    A share of ten rows is a count of tenths, and its interval reaches 0 where 0 is likely: the quantiles of a beta
    distribution with this mean and error, out to whole rows.
    """
    inside = np.clip(share, 1e-12, 1 - 1e-12)
    spread = inside * (1 - inside)
    size = spread / np.clip(error**2, 1e-12 * spread, 0.999 * spread) - 1
    tail = (1 - coverage) / 2
    low, high = (betaincinv(inside * size, (1 - inside) * size, level) for level in (tail, 1 - tail))
    n = np.maximum(rows, 1)
    is_known = error > 0
    low = np.where(is_known, np.floor(np.minimum(low, share) * n + 1e-9) / n, share)
    high = np.where(is_known, np.ceil(np.maximum(high, share) * n - 1e-9) / n, share)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def check_groups(groups: ValueArray, *names: object) -> IntArray:
    """Numbers of groups that a user names; each must have unlabelled rows."""
    at = Codes.of(groups).transform(np.array(names, groups.dtype))
    for name, number in zip(names, at.tolist(), strict=True):
        if number < 0:
            raise ValueError(
                f"Group {name!r} has no unlabelled rows in this model, so its share is not known. groups_ lists those that do."
            )
    return at


def groups_of_either(before: ValueArray, after: ValueArray) -> ValueArray:
    """Groups of two models: those of the first, then those that only the second has."""
    return np.concatenate([before, after[Codes.of(before).transform(after) < 0]])


def values_at(values: FloatArray, numbers: IntArray) -> FloatArray:
    """Values of the given numbers; NaN where a number is -1, as all are of a model that has no groups."""
    found = np.full((len(numbers), *values.shape[1:]), np.nan)
    found[numbers >= 0] = values[numbers[numbers >= 0]]
    return found
