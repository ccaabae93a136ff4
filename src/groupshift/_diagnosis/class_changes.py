"""Differences of class shares between two groups, or between two models, with intervals."""

import numpy as np

from groupshift._data.codes import Codes
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.class_share_tables import class_shares_by
from groupshift._diagnosis.share_tables import (
    ShareDifference,
    ShareInterval,
    check_groups,
    groups_of_either,
    values_at,
)
from groupshift._math.arrays import FloatArray, Table


def class_number(model: ClassModel, of_class: object) -> int:
    """The place of a class that a user names."""
    names = model.classes_.tolist()
    if of_class not in names:
        found = "No class was named" if of_class is None else f"The model has no class {of_class!r}"
        shown = ", ".join(map(repr, names[:8])) + ("…" if len(names) > 8 else "")
        raise ValueError(
            f"{found}. Pass of_class=, one of {shown}; group_shares has the shares of all of them."
        )
    return int(names.index(of_class))


def overall_class_share(model: ClassModel, of_class: object, coverage: float) -> ShareInterval:
    """The share of one class among all population rows, with its interval; NaN without any."""
    at = class_number(model, of_class)
    table = class_shares_by(model, "overall", coverage)
    return ShareInterval(*(float(table[name][at]) for name in ("share", "low", "high")))


def class_share_difference(
    model: ClassModel, group: object, other: object, of_class: object, coverage: float
) -> ShareDifference:
    """Share of a class in one group less that in another; their errors count as independent."""
    at, groups = class_number(model, of_class), check_groups(model.groups_, group, other)
    table = class_shares_by(model, "group", coverage)
    sides = ({name: _by_line(model, table, name)[g, [at]] for name in LIMITS} for g in groups)
    difference, low, high = _difference(*sides)
    return ShareDifference(float(difference[0]), float(low[0]), float(high[0]))


LIMITS = ("share", "low", "high")


def class_share_changes(before: ClassModel, after: ClassModel, by: str, coverage: float) -> Table:
    """Shares of two models by group (or overall) and class, and their changes; NaN where a group has no rows in one of them."""
    if not np.array_equal(before.classes_, after.classes_):
        raise ValueError(
            f"The two models know different classes, {before.classes_.tolist()} and {after.classes_.tolist()}: their shares "
            "cannot be compared. Fit both with the same classes."
        )
    names, everyone = Table(), groups_of_either(before.groups_, after.groups_)
    if by == "group":
        names["group"] = np.repeat(everyone, len(before.classes_))
    names["class"] = np.tile(before.classes_, len(everyone) if by == "group" else 1)
    old, fresh = (_at(model, everyone, by, coverage) for model in (before, after))
    change, low, high = _difference(fresh, old)
    shares = {"before": old["share"], "after": fresh["share"], "change": change}
    return names | shares | {"low": low, "high": high}


def _at(model: ClassModel, groups: np.ndarray, by: str, coverage: float) -> dict[str, FloatArray]:
    """Shares and limits of the given groups and all classes, line by line."""
    table = class_shares_by(model, by, coverage)
    if by == "overall":
        return {name: table[name] for name in LIMITS}
    at = Codes.of(model.groups_).transform(groups)
    return {name: values_at(_by_line(model, table, name), at).ravel() for name in LIMITS}


def _by_line(model: ClassModel, table: Table, name: str) -> FloatArray:
    """(n_groups, n_classes)."""
    return np.asarray(table[name], float).reshape(-1, len(model.classes_))


def _difference(
    first: dict[str, FloatArray], second: dict[str, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First less second, with limits made of those of both (Zou and Donner, 2008)."""
    difference = first["share"] - second["share"]
    low = difference - np.hypot(first["share"] - first["low"], second["high"] - second["share"])
    high = difference + np.hypot(first["high"] - first["share"], second["share"] - second["low"])
    return difference, np.maximum(low, -1), np.minimum(high, 1)
