"""The overall share with its interval, and differences of shares: errors that groups have in common cancel in them."""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.special import ndtri

from groupshift._data.checks import check_coverage
from groupshift._data.codes import Codes
from groupshift._data.frames import Features, frame_like
from groupshift._diagnosis.class_changes import class_share_changes
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.share_tables import (
    ShareDifference,
    ShareInterval,
    cell_shares,
    check_groups,
    group_level_shares,
    groups_of_either,
    interval,
    labeled_sample,
    open_slope,
    overall_shares,
    values_at,
)
from groupshift._math.arrays import FloatArray, IntArray, Table
from groupshift._math.sums import ratio, sum_by

# Where errors come from: `common`, `rest` and `slope` of `_Shares`.
_Errors = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class _Shares:
    """Shares with their limits, what nothing decides left out, and where their errors come from: arrays (n,)."""

    share: FloatArray
    low: FloatArray
    high: FloatArray
    common: FloatArray  # standard deviation by what all groups have in common
    rest: FloatArray  # variance of what each has by itself
    slope: FloatArray  # how far it follows a shift of all groups that nothing in the data decides

    @classmethod
    def of(cls, model: FittedModel, by: str, coverage: float) -> "_Shares":
        """Of all groups of a model, or of its population."""
        if by == "group":
            table = group_level_shares(model, coverage)
            return cls(table["share"], table["narrow_low"], table["narrow_high"], *_of_groups(model))
        share, (common, rest, slope) = np.array([overall_shares(model)[1]]), _of_population(model)
        rows = np.array([model.rows_.sum()])
        limits = interval(share, np.sqrt(common**2 + rest), rows, coverage)
        return cls(share, *limits, common, rest, slope)

    @property
    def variance(self) -> FloatArray:
        return self.common**2 + self.rest

    def at(self, numbers: IntArray) -> "_Shares":
        """Those of the given numbers; NaN where a number is -1."""
        return _Shares(*(values_at(getattr(self, name), numbers) for name in self.__dataclass_fields__))

    def apart(self) -> "_Shares":
        """With nothing in common with others."""
        return replace(self, common=np.zeros_like(self.common), rest=self.variance)


def shares_by(model: FittedModel, by: str, coverage: float) -> Table:
    """What `group_shares` returns: by cell, by group or overall, the last two with the share among labelled rows."""
    if by not in ("cell", "group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'cell', 'group' or 'overall'.")
    check_coverage(coverage)
    if by == "cell":
        return cell_shares(model, coverage)
    if by == "group":
        return group_level_shares(model, coverage) | {"labeled_share": labeled_sample(model)[0]}
    found, narrow = overall_share(model, coverage), _Shares.of(model, "overall", coverage)
    line = {"rows": model.rows_.sum(), **found._asdict()}
    line |= {
        "narrow_low": narrow.low[0],
        "narrow_high": narrow.high[0],
        "labeled_share": overall_shares(model)[0],
    }
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
    common, rest, slope = _of_population(model)
    error = np.sqrt(common**2 + rest + model.unidentified_ * slope**2)
    low, high = interval(np.array([share]), error, np.array([model.rows_.sum()]), coverage)
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
    low, high = interval(share, np.sqrt(variance), rows, coverage)
    return {"rows": rows, "share": share, "low": low, "high": high}


def share_difference(
    model: FittedModel, group: object, other: object, coverage: float = 0.9
) -> ShareDifference:
    """Share of one group less that of another; what all groups have in common cancels in it."""
    check_coverage(coverage)
    at = check_groups(model.groups_, group, other)
    groups = _Shares.of(model, "group", coverage)
    first, second = groups.at(at[:1]), groups.at(at[1:])
    undecided = model.unidentified_ * (first.slope - second.slope) ** 2
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
    >>> model = GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=groups)
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
    models, names = (before, after), Table()
    sides = [_Shares.of(model, by, coverage) for model in models]
    if by == "group":
        names["group"] = groups_of_either(before.groups_, after.groups_)
        at = [Codes.of(model.groups_).transform(names["group"]) for model in models]
        sides = [side.at(numbers) for side, numbers in zip(sides, at, strict=True)]
    old, new = sides
    moved = [np.sqrt(m.unidentified_) * side.slope for m, side in zip(models, sides, strict=True)]
    is_shared = _same_labels(before, after)
    undecided = (moved[1] - moved[0]) ** 2 if is_shared else moved[1] ** 2 + moved[0] ** 2
    change, low, high = _difference(new, old if is_shared else old.apart(), undecided, coverage)
    columns = {"before": old.share, "after": new.share, "change": change, "low": low, "high": high}
    return frame_like(names | columns, after.frame_library_)


def _difference(
    first: _Shares, second: _Shares, undecided: FloatArray, coverage: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First less second, with limits made of those of both (Zou and Donner, 2008), which may be skewed and reach 0 and 1."""
    spread = np.sqrt(first.variance * second.variance)
    correlation = ratio(first.common * second.common, spread, empty=0.0)
    more = ndtri(0.5 + coverage / 2) ** 2 * undecided
    difference = first.share - second.share

    def reach(up: FloatArray, down: FloatArray) -> FloatArray:
        error: FloatArray = np.sqrt(np.maximum(up**2 + down**2 - 2 * correlation * up * down, 0) + more)
        return error

    below = reach(first.share - first.low, second.high - second.share)
    above = reach(first.high - first.share, second.share - second.low)
    return difference, np.maximum(difference - below, -1), np.minimum(difference + above, 1)


def _of_groups(model: FittedModel) -> _Errors:
    weight = model.row_weight_ / np.maximum(model.row_weight_.sum(1, keepdims=True), 1e-300)
    common, shared, own, slope = _by_cell(model, weight)
    rest = (shared.sum(1)) ** 2 + own.sum(1)
    return common.sum(1), rest, slope.sum(1)


def _of_population(model: FittedModel) -> _Errors:
    common, shared, own, slope = _by_cell(model, model.row_weight_ / model.row_weight_.sum())
    rest = (shared.sum(1) ** 2).sum() + own.sum()
    scale = 1.0
    if model.known_overall_ is not None:
        # Nothing is known worse than by the rate that was given.
        variance = common.sum() ** 2 + rest + model.unidentified_ * slope.sum() ** 2
        scale = min(1.0, model.known_overall_[1] / np.sqrt(max(variance, 1e-300)))
    return np.array([scale * common.sum()]), np.array([scale**2 * rest]), np.array([scale * slope.sum()])


def _by_cell(model: FittedModel, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What each cell adds to the error of a weighted sum of shares; arrays (n_groups, n_clusters).

    Standard deviations by what all groups have in common and by what a group's cells do, the variance that a cell has by
    itself, and the slope of the sum against a shift of all groups.
    """
    slope = model.share_slope_
    common = np.minimum(np.sqrt(model.common_variance_), model.shared_deviation_)
    shared = np.sqrt(np.maximum(model.shared_deviation_**2 - common**2, 0))
    own = np.maximum(model.share_error_**2 - (slope * model.shared_deviation_) ** 2, 0)
    return weight * slope * common, weight * slope * shared, weight**2 * own, weight * open_slope(model)


def _same_labels(before: FittedModel, after: FittedModel) -> bool:
    """Whether both learned from the same labelled rows."""
    return np.array_equal(before.labeled_prior_, after.labeled_prior_) and np.array_equal(
        before.labeled_groups_, after.labeled_groups_
    )
