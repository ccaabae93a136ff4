"""A share, or a difference of two, with its interval."""

from typing import NamedTuple

import numpy as np

from groupshift._explain.evidence_parts import Column, IntArray
from groupshift._rows.codes import Codes


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


def check_groups(groups: Column, *names: object) -> IntArray:
    """Numbers of groups that a user names; each must have unlabelled rows."""
    at = Codes.of(groups).transform(np.array(names, groups.dtype))
    for name, number in zip(names, at.tolist(), strict=True):
        if number < 0:
            raise ValueError(
                f"Group {name!r} has no unlabelled rows in this model, so its share is not known. groups_ lists those that do."
            )
    return at


def groups_of_either(before: Column, after: Column) -> Column:
    """Groups of two models: those of the first, then those that only the second has."""
    return np.concatenate([before, after[Codes.of(before).transform(after) < 0]])
