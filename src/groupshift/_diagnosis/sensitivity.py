"""What no diagnosis can check: labels of positives that came more often, or less, in all groups alike."""

from collections.abc import Iterator

import numpy as np
from scipy.special import expit, logit

from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.in_common import common_shift, face_value, if_selected, remedy, statement
from groupshift._diagnosis.share_errors import overall_share
from groupshift._diagnosis.share_tables import group_level_shares, overall_shares
from groupshift._diagnosis.wording import percent
from groupshift._math.arrays import FloatArray, Table
from groupshift._shifts.known_shares import mean_posterior

# What all groups have in common is seldom off by a factor of two: half of what that would cost.
IF_SELECTED = 0.5


def shares_if_selected(model: FittedModel, odds: float) -> tuple[float, FloatArray]:
    """Overall share, and that of each group, if positives were so many times likelier to be labelled, in all groups alike.

    Labels of positives that came twice as often make every share too high by an odds ratio of 2.
    Known rates stay as they are.
    """
    points, weight = model.tally_, model.row_weight_
    if points is None or not weight.sum():
        return np.nan, np.full(len(model.groups_), np.nan)
    is_open = ~np.isin(model.groups_, model.known_groups_) & (model.known_overall_ is None)
    move = np.where(is_open, np.log(odds), 0.0)[:, None] * np.ones(weight.shape[1])

    def mean(shift: FloatArray) -> FloatArray:
        found = mean_posterior(points, shift)[0]
        return np.clip(np.where(np.isnan(found), 0.5, found), 1e-12, 1 - 1e-12)

    # From the share as it is reported: scores of rows that were learned from are not quite those of predictions.
    share = np.clip(model.group_prior_, 1e-12, 1 - 1e-12)
    moved = expit(logit(share) + logit(mean(model.shift_ - move)) - logit(mean(model.shift_)))
    positive = weight * np.where(move == 0, model.group_prior_, moved)
    return float(positive.sum() / weight.sum()), positive.sum(1) / np.maximum(weight.sum(1), 1e-300)


def sensitivity(model: FittedModel) -> Table:
    """All rows together (group None), then each group: its share, and what it would be under other labelling."""
    if not len(model.groups_):
        return {}
    half, twice = (shares_if_selected(model, odds) for odds in (0.5, 2.0))
    table = group_level_shares(model, 0.9)
    return {
        "group": np.array([None, *model.groups_.tolist()], dtype=object),
        "rows": np.append(model.rows_.sum(), table["rows"]),
        "share": np.append(overall_shares(model)[1], table["share"]),
        "if_half": np.append(*half),
        "if_twice": np.append(*twice),
    }


def overall_numbers(model: FittedModel, table: Table) -> dict[str, float]:
    """The overall share, its 90 % interval, and what it would be under other labelling (from `sensitivity`) or at face value."""
    found = overall_share(model)
    half, twice = (float(table[name][0]) if table else np.nan for name in ("if_half", "if_twice"))
    unused = common_shift(model).unused
    return {
        "share": found.share,
        "share_low": found.low,
        "share_high": found.high,
        "share_if_half": half,
        "share_if_twice": twice,
        "share_at_face_value": shares_if_selected(model, float(np.exp(-unused)))[0] if unused else np.nan,
    }


def selection_cost(numbers: dict[str, float]) -> float:
    """How far the overall share may be off by what all groups have in common, roughly."""
    away = [abs(numbers[name] - numbers["share"]) for name in ("share_if_half", "share_if_twice")]
    return IF_SELECTED * max(away)


def undecided(model: FittedModel, numbers: dict[str, float]) -> Iterator[str]:
    """What all groups may have in common: what it would do to the overall share, and what would decide it."""
    if not len(model.groups_):
        return
    found = common_shift(model)
    before, after = overall_shares(model)
    low, high = numbers["share_low"], numbers["share_high"]
    range_of = f", 90 % interval {percent(low)} to {percent(high)}" if low < high else ""
    moves = f"from {percent(before)} (labelled sample) to {percent(after)} (population{range_of})"
    parts = [f"The model moves the overall share {moves}."] if np.any(model.shift_) else []
    parts.append(statement(found))
    if not found.is_settled:
        parts.append(if_selected(found, after, numbers["share_if_half"], numbers["share_if_twice"]))
        if np.isfinite(all_used := numbers["share_at_face_value"]):
            parts.append(face_value(found, all_used))
        parts.append(remedy(found))
    yield " ".join(parts)
