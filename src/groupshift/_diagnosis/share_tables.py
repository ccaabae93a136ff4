"""Shares as tables with intervals: by cell, by group, of levels, of all rows; their differences and changes.

Arrays have a last axis for the classes whose shares are told: the positive one of two, or each of several.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtri

from groupshift._data.checks import check_coverage
from groupshift._data.codes import Codes
from groupshift._data.frames import Features, frame_like
from groupshift._diagnosis.fitted import Model, by_class, has_classes, told_classes
from groupshift._diagnosis.wording import percent, percent_range
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, Table, ValueArray
from groupshift._math.sums import ratio, sum_by

COVERAGE = 0.9
# Numbers that may be computed for a table of several classes under other labeling: beyond that it would take minutes.
MAX_NUMBERS = 1_000_000_000


class ShareInterval(NamedTuple):
    """A share of positives, or of a class, and its interval."""

    share: float
    low: float
    high: float

    def _repr_html_(self) -> str:
        return f"<strong>{percent(self.share)}</strong> ({percent_range(self.low, self.high)})"


class ShareDifference(NamedTuple):
    """The difference of two shares and its interval."""

    difference: float
    low: float
    high: float

    def _repr_html_(self) -> str:
        points, low, high = (f"{100 * value:+.1f}" for value in self)
        return f"<strong>{points} points</strong> ({low} to {high})"


@dataclass(frozen=True)
class Shares:
    """Shares of groups, or of rows taken together, and where their errors come from: arrays (n, C), rows (n,)."""

    rows: IntArray
    share: FloatArray
    error: FloatArray  # standard error, if nothing but what was estimated shifts all groups alike
    common: FloatArray  # the part of it that all groups have in common
    slope: FloatArray  # how far a share follows a shift of all groups alike that no row decides

    def limits(self, unidentified: float, coverage: float) -> dict[str, FloatArray]:
        """The interval, which allows for a shift of all groups alike, and the narrow one inside it, which does not."""
        wide = np.hypot(self.error, np.sqrt(unidentified) * self.slope)
        names = ("low", "high"), ("narrow_low", "narrow_high")
        found = (interval(self.share, error, self.rows[:, None], coverage) for error in (wide, self.error))
        return {
            name: limit
            for pair, limits in zip(names, found, strict=True)
            for name, limit in zip(pair, limits, strict=True)
        }

    def at(self, numbers: IntArray) -> "Shares":
        """Those of the given numbers; NaN where a number is -1."""
        columns = (self.share, self.error, self.common, self.slope)
        rows = np.nan_to_num(values_at(self.rows, numbers)).astype(np.int64)
        return Shares(rows, *(values_at(values, numbers) for values in columns))

    def together(self, weight: FloatArray, level: IntArray, n_levels: int) -> "Shares":
        """Groups of one level taken together, by weight: what they have in common adds up, the rest averages out."""
        total = sum_by(level, weight, n_levels)
        part = (weight / np.maximum(total, 1e-300)[level])[:, None]

        def added(values: FloatArray) -> FloatArray:
            return np.column_stack([sum_by(level, column, n_levels) for column in values.T])

        common = added(part * self.common)
        rest = added(part**2 * (self.error**2 - self.common**2))
        rows = sum_by(level, self.rows, n_levels).astype(np.int64)
        share = np.where(total[:, None] > 0, added(part * self.share), np.nan)
        return Shares(rows, share, np.sqrt(common**2 + rest), common, added(part * self.slope))


def shares_of_groups(model: Model) -> Shares:
    """Shares of each group: those of its clusters, weighted by its rows (post-stratified)."""
    estimate = model.estimate_
    weight = estimate.row_weight / np.maximum(estimate.row_weight.sum(1, keepdims=True), 1e-300)
    weight, share, error, variance, shared, slope = (
        by_class(values, 2)
        for values in (
            weight,
            estimate.share,
            estimate.share_error,
            estimate.variance,
            estimate.shared_deviation,
            estimate.slope,
        )
    )
    # Cells of one group share the error of the group's effect, and have one of their own.
    error = weight * error
    correlation = np.clip(shared / np.sqrt(np.maximum(variance, 1e-300)), 0, 1)
    square = (error**2 * (1 - correlation**2)).sum(1) + (error * correlation).sum(1) ** 2
    in_common = np.minimum(np.sqrt(estimate.common_variance)[None, :, None], shared)
    common = np.minimum((weight * slope * in_common).sum(1), np.sqrt(square))
    follows = (weight * np.where(_is_known(model)[:, None, None], 0.0, slope)).sum(1)
    return Shares(estimate.rows.sum(1), (weight * share).sum(1), np.sqrt(square), common, follows)


def shares_of_all(model: Model, groups: Shares | None = None) -> Shares:
    """Shares of all rows of the population together, as one line; NaN without any."""
    groups = shares_of_groups(model) if groups is None else groups
    weight = model.estimate_.row_weight.sum(1)
    found = groups.together(weight, np.zeros(len(weight), np.int64), 1)
    scale, known = np.ones_like(found.share), model.estimate_.known_overall
    if known is not None:
        # Nothing is known worse than by the rate that was given.
        given = known if has_classes(model) else [(0, *known)]
        for number, _, error in given:
            c = int(number)
            spread = np.hypot(found.error[0, c], np.sqrt(model.estimate_.unidentified) * found.slope[0, c])
            scale[0, c] = min(1.0, error / max(spread, 1e-300))
    scaled = {name: scale * getattr(found, name) for name in ("error", "common", "slope")}
    return replace(found, **scaled)


def shares_by(model: Model, by: str, coverage: float) -> Table:
    """What `group_shares` returns: by cell, by group or overall, the last two with the share among labeled rows."""
    if by not in ("cell", "group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'cell', 'group' or 'overall'.")
    check_coverage(coverage)
    estimate = model.estimate_
    if by == "cell":
        n_groups, n_clusters = estimate.rows.shape
        share, error, slope = (by_class(v, 2) for v in (estimate.share, estimate.share_error, estimate.slope))
        slope = np.where(_is_known(model)[:, None, None], 0.0, slope)
        flat = (
            values.reshape(n_groups * n_clusters, share.shape[-1]) for values in (share, error, error, slope)
        )
        cells = Shares(estimate.rows.ravel(), *flat)
        names = {
            "group": np.repeat(model.estimate_.groups, n_clusters),
            "cluster": np.tile(np.arange(n_clusters), n_groups),
        }
        return _lines(model, names, cells, cells.limits(estimate.unidentified, coverage))
    groups = shares_of_groups(model)
    if by == "group":
        limits = groups.limits(estimate.unidentified, coverage)
        limits["labeled_share"] = labeled_sample(model)[0]
        return _lines(model, {"group": model.estimate_.groups}, groups, limits)
    everyone = shares_of_all(model, groups)
    limits = _limits_of_all(model, everyone, coverage)
    limits["labeled_share"] = model.evidence_.groups.overall[None]
    return _lines(model, {}, everyone, limits)


def shares_of_levels(model: Model, level: IntArray, coverage: float = COVERAGE) -> Table:
    """Shares of groups taken together: `level` has the number of each group's level, from 0 on."""
    check_coverage(coverage)
    weight = model.estimate_.row_weight.sum(1)
    found = shares_of_groups(model).together(weight, level, int(level.max(initial=-1)) + 1)
    return _lines(model, {}, found, found.limits(model.estimate_.unidentified, coverage))


def overall_share(model: Model, coverage: float = COVERAGE, of_class: object = None) -> ShareInterval:
    """Share of one class among all population rows, by weight; NaN without any."""
    check_coverage(coverage)
    c, is_negative = class_number(model, of_class)
    found = shares_of_all(model)
    limits = _limits_of_all(model, found, coverage)
    share, low, high = (float(values[0, c]) for values in (found.share, limits["low"], limits["high"]))
    return ShareInterval(1 - share, 1 - high, 1 - low) if is_negative else ShareInterval(share, low, high)


def share_difference(
    model: Model, group: object, other: object, coverage: float = COVERAGE, of_class: object = None
) -> ShareDifference:
    """Share of a class in one group less that in another; what all groups have in common cancels in it."""
    check_coverage(coverage)
    c, is_negative = class_number(model, of_class)
    at = Codes.of(model.estimate_.groups).transform(np.array([group, other], model.estimate_.groups.dtype))
    for name, number in zip((group, other), at.tolist(), strict=True):
        if number < 0:
            raise ValueError(
                f"Group {name!r} has no unlabeled rows in this model, so its share is not known. groups_ lists those that do."
            )
    groups = shares_of_groups(model)
    first, second = (groups.at(at[i : i + 1]) for i in ((1, 0) if is_negative else (0, 1)))
    undecided = model.estimate_.unidentified * (first.slope - second.slope) ** 2
    return ShareDifference(
        *(float(values[0, c]) for values in _difference(first, second, undecided, coverage))
    )


def share_changes(before: Model, after: Model, *, by: str = "group", coverage: float = COVERAGE) -> Features:
    """Shares of two models of the same groups, such as one before and after an `update`, and their changes with intervals.

    Where both have learned from the same labeled rows, what all groups have in common cancels in a change. Everything else
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
        class after the group.

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
    classes = before.schema_.classes, after.schema_.classes
    if (len(classes[0]) > 2) != (len(classes[1]) > 2):
        raise ValueError(
            f"One model knows {len(classes[0])} classes and the other {len(classes[1])}: their shares cannot be compared. "
            "Fit both with the same classes."
        )
    if len(classes[1]) > 2 and not np.array_equal(*classes):
        raise ValueError(
            f"The two models know different classes, {classes[0].tolist()} and {classes[1].tolist()}: their shares cannot be "
            "compared. Fit both with the same classes."
        )
    names, models = Table(), (before, after)
    old, new = (shares_of_groups(model) if by == "group" else shares_of_all(model) for model in models)
    if by == "group":
        of_after = after.estimate_.groups[
            Codes.of(before.estimate_.groups).transform(after.estimate_.groups) < 0
        ]
        names["group"] = np.concatenate([before.estimate_.groups, of_after])
        at = (Codes.of(model.estimate_.groups).transform(names["group"]) for model in models)
        old, new = (side.at(numbers) for side, numbers in zip((old, new), at, strict=True))
    moved = [
        np.sqrt(m.estimate_.unidentified) * side.slope for m, side in zip(models, (old, new), strict=True)
    ]
    has_same_labels = np.array_equal(
        before.learned_.labeled_prior, after.learned_.labeled_prior
    ) and np.array_equal(before.learned_.labeled_groups, after.learned_.labeled_groups)
    undecided = (moved[1] - moved[0]) ** 2 if has_same_labels else moved[1] ** 2 + moved[0] ** 2
    apart = old if has_same_labels else replace(old, common=np.zeros_like(old.common))
    change, low, high = _difference(new, apart, undecided, coverage)
    columns = {"before": old.share, "after": new.share, "change": change, "low": low, "high": high}
    return frame_like(_flat(after, names, columns), after.schema_.library)


def shares_if_selected(model: Model, odds: float) -> tuple[FloatArray, FloatArray]:
    """Overall shares (C,) and those of each group (n_groups, C), each class in its turn so many times likelier to be labeled.

    Labels of a class that came twice as often in all groups alike make every share of it too high by an odds ratio of 2. Known
    rates stay as they are.
    """
    estimate, n_told = model.estimate_, len(told_classes(model))
    weight, counts = estimate.row_weight, estimate.counts
    if counts is None or not weight.sum():
        return np.full(n_told, np.nan), np.full((len(estimate.groups), n_told), np.nan)
    is_open = ~np.isin(estimate.groups, estimate.known_groups)
    known = estimate.known_overall
    given = set() if known is None else {0} if n_told == 1 else set(known[:, 0].astype(int).tolist())
    share, shift = by_class(estimate.share, 2), by_class(estimate.shift, 2)

    def log_odds(moved: FloatArray, c: int) -> FloatArray:
        at = moved if n_told > 1 else moved[..., 0]
        mean = by_class(counts.scores.mean_shares(at, model.learned_.labeled_prior)[0], 2)[..., c]
        found: FloatArray = logit(np.clip(mean, 1e-12, 1 - 1e-12))
        return found

    found = np.empty((len(weight), n_told))
    for c in range(n_told):
        move = np.where(is_open & (c not in given), np.log(odds), 0.0)[:, None]
        moved = shift.copy()
        moved[..., c] -= move
        # From the share as it is reported: scores of rows that were learned from are not quite those of predictions.
        now = np.clip(share[..., c], 1e-12, 1 - 1e-12)
        fresh = expit(logit(now) + log_odds(moved, c) - log_odds(shift, c))
        fresh = np.where(move == 0, share[..., c], fresh)
        found[:, c] = (weight * fresh).sum(1)
    return found.sum(0) / weight.sum(), found / np.maximum(weight.sum(1), 1e-300)[:, None]


def sensitivity(model: Model) -> Table:
    """All rows together (group None), then each group: its shares, and what they would be under other labeling."""
    estimate, told = model.estimate_, told_classes(model)
    counts = estimate.counts
    if counts is None or not len(estimate.groups):
        return {}
    if len(told) > 1 and 2 * len(told) ** 2 * len(counts.scores.weight) > MAX_NUMBERS:
        return {}
    groups = shares_of_groups(model)
    half, twice = (np.vstack(shares_if_selected(model, odds)) for odds in (0.5, 2.0))
    everyone = np.array([None, *estimate.groups.tolist()], dtype=object)
    rows = np.append(estimate.rows.sum(), groups.rows)
    table = {"group": np.repeat(everyone, len(told))}
    if len(told) > 1:
        table["class"] = np.tile(told, len(everyone))
    return table | {
        "rows": np.repeat(rows, len(told)),
        "share": np.vstack([shares_of_all(model, groups).share, groups.share]).ravel(),
        "if_half": half.ravel(),
        "if_twice": twice.ravel(),
    }


def class_number(model: Model, of_class: object) -> tuple[int, bool]:
    """The place of a class on the axis of told classes, and whether it is the other of two, whose share is what is left to 1."""
    names = model.schema_.classes.tolist()
    if len(names) == 2:
        negative, positive = names
        if of_class not in (None, negative, positive):
            raise ValueError(
                f"The model has no class {of_class!r}. Pass of_class=, one of {negative!r}, {positive!r}; without it, the share "
                f"is that of {positive!r}."
            )
        return 0, of_class is not None and bool(of_class == negative)
    if of_class not in names:
        found = "No class was named" if of_class is None else f"The model has no class {of_class!r}"
        shown = ", ".join(map(repr, names[:8])) + ("…" if len(names) > 8 else "")
        raise ValueError(
            f"{found}. Pass of_class=, one of {shown}; group_shares has the shares of all of them."
        )
    return names.index(of_class), False


def labeled_sample(model: Model) -> tuple[FloatArray, IntArray, FloatArray]:
    """Shares (n_groups, C), NaN without any, numbers and weights of the labeled rows of each group of the population."""
    labeled, at = model.evidence_.groups, np.zeros(len(model.estimate_.groups), np.int64)
    if model.schema_.has_groups:
        at = Codes.of(model.learned_.labeled_groups).transform(model.estimate_.groups)
    rows, weight, share = np.where(at >= 0, labeled.rows[at], 0), labeled.weight[at], labeled.share[at]
    share[rows == 0] = np.nan
    return share, rows, np.where(rows > 0, weight, 0.0)


def shares_of_every_row(model: Model, groups: Shares) -> FloatArray:
    """Shares among labeled and unlabeled rows of each group: labels counted as they are, predictions for the rest."""
    share, _, counted = labeled_sample(model)
    weight, counted = model.estimate_.row_weight.sum(1)[:, None], counted[:, None]
    return ratio(counted * np.nan_to_num(share) + weight * groups.share, counted + weight)


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


def values_at(values: ValueArray, numbers: IntArray) -> FloatArray:
    """Values of the given numbers; NaN where a number is -1, as all are of a model that has no groups."""
    found = np.full((len(numbers), *values.shape[1:]), np.nan)
    found[numbers >= 0] = values[numbers[numbers >= 0]]
    return found


def _is_known(model: Model) -> BoolArray:
    """Groups whose rates are known: no shift of all groups alike moves them."""
    return np.isin(model.estimate_.groups, model.estimate_.known_groups)


def _limits_of_all(model: Model, found: Shares, coverage: float) -> dict[str, FloatArray]:
    limits = found.limits(model.estimate_.unidentified, coverage)
    if model.audit_ is not None and len(model.estimate_.groups):
        for name, limit in zip(("low", "high"), model.audit_.posterior.interval(coverage), strict=True):
            limits[name] = np.full((1, 1), limit)
    return limits


def _lines(model: Model, names: Table, found: Shares, limits: Mapping[str, FloatArray]) -> Table:
    rows = np.repeat(found.rows[:, None], found.share.shape[1], 1)
    return _flat(model, names, {"rows": rows, "share": found.share, **limits})


def _flat(model: Model, names: Table, columns: Mapping[str, ValueArray]) -> Table:
    """Columns (n, C) as lines, with a line and a name for each of several classes."""
    told = told_classes(model)
    n = len(next(iter(columns.values())))
    found = {name: np.repeat(values, len(told)) for name, values in names.items()}
    if len(told) > 1:
        found["class"] = np.tile(told, n)
    return found | {name: values.ravel() for name, values in columns.items()}


def _difference(
    first: Shares, second: Shares, undecided: FloatArray, coverage: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First less second, with limits made of those of both (Zou and Donner, 2008), which may be skewed and reach 0 and 1."""
    correlation = np.clip(ratio(first.common * second.common, first.error * second.error, empty=0.0), 0, 1)
    more = ndtri(0.5 + coverage / 2) ** 2 * undecided
    difference = first.share - second.share
    # Narrow limits: what nothing decides cancels as far as both shares follow it.
    a, b = (side.limits(0.0, coverage) for side in (first, second))

    def reach(up: FloatArray, down: FloatArray) -> FloatArray:
        error: FloatArray = np.sqrt(np.maximum(up**2 + down**2 - 2 * correlation * up * down, 0) + more)
        return error

    below = reach(first.share - a["low"], b["high"] - second.share)
    above = reach(a["high"] - first.share, second.share - b["low"])
    return difference, np.maximum(difference - below, -1), np.minimum(difference + above, 1)
