"""The overall share with its interval, and differences of shares: errors that groups have in common cancel in them."""

from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import ndtri

from groupshift._explain.class_changes import class_share_changes
from groupshift._explain.class_model import ClassModel
from groupshift._explain.evidence_parts import FloatArray, IntArray, Table
from groupshift._explain.fitted_model import FittedModel
from groupshift._explain.share_intervals import ShareDifference, ShareInterval, check_groups
from groupshift._explain.share_tables import (
    cell_shares,
    group_level_shares,
    interval,
    labeled_sample,
    overall_shares,
)
from groupshift._math.known_shares import mean_posterior
from groupshift._math.sums import ratio, sum_by
from groupshift._rows.checks import check_coverage
from groupshift._rows.codes import Codes
from groupshift._rows.frames import Features, frame_like


@dataclass(frozen=True)
class _Errors:
    """Errors of some shares, such as those of all groups, by where they come from: arrays (n,)."""

    common: FloatArray  # standard deviation by what all groups have in common
    rest: FloatArray  # variance of what each has by itself
    slope: FloatArray  # how far it follows a shift of all groups that nothing in the data decides

    @property
    def variance(self) -> FloatArray:
        return self.common**2 + self.rest


@dataclass(frozen=True)
class _Side:
    """Shares with their limits, what nothing decides left out, and where their errors come from."""

    table: Table  # share, low, high
    errors: _Errors

    @classmethod
    def of(cls, model: FittedModel, by: str, coverage: float) -> "_Side":
        """Of all groups of a model, or of its population."""
        if by == "group":
            return cls(group_level_shares(model, coverage), _of_groups(model))
        share, errors = np.array([overall_shares(model)[1]]), _of_population(model)
        rows = np.array([model.rows_.sum()])
        low, high = interval(model, share, np.sqrt(errors.variance), rows, coverage)
        return cls({"share": share, "low": low, "high": high}, errors)

    @property
    def reach(self) -> tuple[FloatArray, FloatArray]:
        """How far the limits lie below and above."""
        return self.table["share"] - self.table["low"], self.table["high"] - self.table["share"]

    def at(self, numbers: IntArray) -> "_Side":
        """Those of the given numbers; NaN where a number is -1."""
        table = {name: _at(self.table[name], numbers) for name in ("share", "low", "high")}
        parts = self.errors.common, self.errors.rest, self.errors.slope
        return _Side(table, _Errors(*(_at(part, numbers) for part in parts)))

    def apart(self) -> "_Side":
        """With nothing in common with others."""
        errors = self.errors
        return _Side(self.table, _Errors(np.zeros_like(errors.common), errors.variance, errors.slope))


def shares_by(model: FittedModel, by: str, coverage: float) -> Table:
    """What `group_shares` returns: by cell, by group or overall, the last two with the share among labelled rows."""
    if by not in ("cell", "group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'cell', 'group' or 'overall'.")
    check_coverage(coverage)
    if by == "cell":
        return cell_shares(model, coverage)
    if by == "group":
        return group_level_shares(model, coverage) | {"labeled_share": labeled_sample(model)[0]}
    found = overall_share(model, coverage)
    line = {"rows": model.rows_.sum(), **found._asdict(), "labeled_share": overall_shares(model)[0]}
    return {name: np.array([value]) for name, value in line.items()}


def overall_share(model: FittedModel, coverage: float = 0.9) -> ShareInterval:
    """Share of positives among all population rows, by weight; NaN without any.

    The interval holds what is not known of each group, the chance of every row, and what nothing in the data decides: labels
    of positives that came more often in all groups alike, by a factor between a half and two at 90 %.
    """
    check_coverage(coverage)
    _, share = overall_shares(model)
    if np.isnan(share):
        return ShareInterval(np.nan, np.nan, np.nan)
    if model.audit_ is not None:
        return ShareInterval(share, *model.audit_.posterior.interval(coverage))
    errors = _of_population(model)
    error = np.sqrt(errors.variance + model.unidentified_ * errors.slope**2)
    low, high = interval(model, np.array([share]), error, np.array([model.rows_.sum()]), coverage)
    return ShareInterval(share, float(low[0]), float(high[0]))


def shares_of_levels(model: FittedModel, level: IntArray, coverage: float = 0.9) -> Table:
    """Shares of groups taken together: `level` has the number of each group's level, from 0 on."""
    check_coverage(coverage)
    n_levels = int(level.max(initial=-1)) + 1
    total = sum_by(level, model.row_weight_.sum(1), n_levels)
    weight = model.row_weight_ / np.maximum(total, 1e-300)[level][:, None]
    share = sum_by(level, (weight * model.group_prior_).sum(1), n_levels)
    common, shared, own, _ = (values.sum(1) for values in _by_cell(model, weight))
    variance = sum_by(level, common, n_levels) ** 2 + sum_by(level, shared**2 + own, n_levels)
    rows = sum_by(level, model.rows_.sum(1), n_levels).astype(np.int64)
    low, high = interval(model, share, np.sqrt(variance), rows, coverage)
    return {"rows": rows, "share": share, "low": low, "high": high}


def share_difference(
    model: FittedModel, group: object, other: object, coverage: float = 0.9
) -> ShareDifference:
    """Share of one group less that of another; what all groups have in common cancels in it."""
    check_coverage(coverage)
    at = check_groups(model.groups_, group, other)
    groups = _Side.of(model, "group", coverage)
    first, second = groups.at(at[:1]), groups.at(at[1:])
    undecided = model.unidentified_ * (first.errors.slope - second.errors.slope) ** 2
    difference, low, high = _difference(first, second, undecided, coverage)
    return ShareDifference(float(difference[0]), float(low[0]), float(high[0]))


def share_changes(
    before: FittedModel, after: FittedModel, *, by: str = "group", coverage: float = 0.9
) -> Features:
    """Shares of two models of the same groups, such as one before and after an `update`, and their changes with intervals.

    Where both have learned from the same labelled rows, what all groups have in common cancels in a change. Everything else
    counts as independent, which makes an interval too wide rather than too narrow.

    Parameters
    ----------
    before, after : fitted GroupShiftClassifier
    by : {"group", "overall"}
        One line for each group of either, or one for all rows together.
    coverage : float
        Probability that an interval holds the change.

    Returns
    -------
    frame of the library that X came in, or dict of arrays : (group,) before, after, change, low, high
        NaN where a group has no rows in one of the two. With more than two classes, a line for each class, named in a column
        class after the group; then all errors count as independent.

    Examples
    --------
    >>> from groupshift import GroupShiftClassifier, share_changes
    >>> from groupshift.datasets import make_grouped_mixture
    >>> sample = make_grouped_mixture(n_features=2, n_clusters=1, n_groups=20, labeled_per_group=(100, 0),
    ...                               unlabeled_per_group=(200, 0), random_state=0)
    >>> X, y, groups, _ = sample.training()
    >>> model = GroupShiftClassifier(partition=1, refine=0, random_state=0).fit(X, y, groups=groups)
    >>> changes = share_changes(model, model)
    >>> bool((changes["change"] == 0).all() and (changes["low"] < 0).all() and (changes["high"] > 0).all())
    True
    """
    check_coverage(coverage)
    if by not in ("group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'group' or 'overall'.")
    if before.is_multiclass_ != after.is_multiclass_:
        raise ValueError(
            f"One model knows {len(before.classes_)} classes and the other {len(after.classes_)}: their shares cannot be "
            "compared. Fit both with the same classes."
        )
    if after.is_multiclass_:
        first, second = (cast("ClassModel", model) for model in (before, after))
        return frame_like(class_share_changes(first, second, by, coverage), after.frame_library_)
    sides = [_Side.of(model, by, coverage) for model in (before, after)]
    names: Table = {}
    if by == "group":
        new = after.groups_[Codes.of(before.groups_).transform(after.groups_) < 0]
        names["group"] = np.concatenate([before.groups_, new])
        sides = [
            side.at(Codes.of(model.groups_).transform(names["group"]))
            for side, model in zip(sides, (before, after), strict=True)
        ]
    old, new_side = sides
    undecided = [
        np.sqrt(model.unidentified_) * side.errors.slope
        for model, side in zip((before, after), sides, strict=True)
    ]
    is_shared = _same_labels(before, after)
    variance = (undecided[1] - undecided[0]) ** 2 if is_shared else undecided[1] ** 2 + undecided[0] ** 2
    change, low, high = _difference(new_side, old if is_shared else old.apart(), variance, coverage)
    columns = {"before": old.table["share"], "after": new_side.table["share"], "change": change}
    return frame_like(names | columns | {"low": low, "high": high}, after.frame_library_)


def _difference(
    first: "_Side", second: "_Side", undecided: FloatArray, coverage: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First less second, with limits made of those of both (Zou and Donner, 2008), which may be skewed and reach 0 and 1."""
    a, b = first.errors, second.errors
    correlation = ratio(a.common * b.common, np.sqrt(a.variance * b.variance), empty=0.0)
    more = ndtri(0.5 + coverage / 2) ** 2 * undecided
    difference = first.table["share"] - second.table["share"]

    def reach(up: FloatArray, down: FloatArray) -> FloatArray:
        return np.sqrt(np.maximum(up**2 + down**2 - 2 * correlation * up * down, 0) + more)

    below, above = first.reach
    other_below, other_above = second.reach
    low = np.maximum(difference - reach(below, other_above), -1)
    high = np.minimum(difference + reach(above, other_below), 1)
    return difference, low, high


def _of_groups(model: FittedModel) -> _Errors:
    weight = model.row_weight_ / np.maximum(model.row_weight_.sum(1, keepdims=True), 1e-300)
    common, shared, own, slope = _by_cell(model, weight)
    rest = (shared.sum(1)) ** 2 + own.sum(1)
    return _Errors(common.sum(1), rest, slope.sum(1))


def _of_population(model: FittedModel) -> _Errors:
    common, shared, own, slope = _by_cell(model, model.row_weight_ / model.row_weight_.sum())
    rest = (shared.sum(1) ** 2).sum() + own.sum()
    scale = 1.0
    if model.known_overall_ is not None:
        # Nothing is known worse than by the rate that was given.
        variance = common.sum() ** 2 + rest + model.unidentified_ * slope.sum() ** 2
        scale = min(1.0, model.known_overall_[1] / np.sqrt(max(variance, 1e-300)))
    return _Errors(
        *(np.array([value]) for value in (scale * common.sum(), scale**2 * rest, scale * slope.sum()))
    )


def _by_cell(model: FittedModel, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What each cell adds to the error of a weighted sum of shares; arrays (n_groups, n_clusters).

    Standard deviations by what all groups have in common and by what a group's cells do, the variance that a cell has by
    itself, and the slope of the sum against a shift of all groups.
    """
    share = model.group_prior_
    slope = share * (1 - share)
    if model.tally_ is not None:
        doubt = mean_posterior(model.tally_, model.shift_)[1]
        slope = np.where(np.isnan(doubt), slope, doubt)
    common = np.minimum(np.sqrt(model.common_variance_), model.shared_deviation_)
    shared = np.sqrt(np.maximum(model.shared_deviation_**2 - common**2, 0))
    own = np.maximum(model.share_error_**2 - (slope * model.shared_deviation_) ** 2, 0)
    # A known rate is one of a group's own rows: it does not move with the others.
    is_known = np.isin(model.groups_, model.known_groups_)[:, None]
    return (
        weight * slope * common,
        weight * slope * shared,
        weight**2 * own,
        np.where(is_known, 0, weight * slope),
    )


def _at(values: FloatArray, at: IntArray) -> FloatArray:
    """Values of the given numbers; NaN where a number is -1."""
    return np.where(at >= 0, values[at], np.nan)


def _same_labels(before: FittedModel, after: FittedModel) -> bool:
    """Whether both learned from the same labelled rows."""
    return np.array_equal(before.labeled_prior_, after.labeled_prior_) and np.array_equal(
        before.labeled_groups_, after.labeled_groups_
    )
