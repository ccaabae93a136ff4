"""Groups at prediction: their numbers, and what is said of those that `fit` never saw."""

import warnings

import numpy as np

from groupshift._data.codes import Codes
from groupshift._data.frames import some
from groupshift._data.workers import map_chunks
from groupshift._math.arrays import IntArray, ValueArray

# Rows whose groups are looked up by one worker at a time.
LOOKED_UP = 131_072

NOT_GIVEN = (
    "This model was fitted with groups, but none were given to predict: every row gets the shift common to all "
    "groups. Pass groups=, or fit with group= naming a column of X."
)


def group_numbers(values: ValueArray | None, groups: Codes, *, has_groups: bool, n_rows: int) -> IntArray:
    """Number of each row's group in `groups`; -1 where the group is not there or not given."""
    if not has_groups:
        return np.full(n_rows, 0 if len(groups.values_) else -1)
    if values is None:
        return np.full(n_rows, -1)
    parts = (values[start : start + LOOKED_UP] for start in range(0, max(n_rows, 1), LOOKED_UP))
    found = list(map_chunks(groups.transform, parts))
    return found[0] if len(found) == 1 else np.concatenate(found)


def report_unseen(values: ValueArray, *, unseen: str, stacklevel: int) -> None:
    """Warn that rows of these groups take the common shift, or refuse them, as `unseen` says."""
    named = some(list(dict.fromkeys(values.tolist())), most=5)
    if unseen == "error":
        raise ValueError(
            f"Groups {named} had no unlabelled rows at fit, so their class shares are unknown. Add rows of these groups with "
            "update(), or pass unseen='pooled'."
        )
    warnings.warn(
        f"Groups {named} had no unlabelled rows at fit: their rows get the shift common to all groups. "
        "Add rows of these groups with update() for shifts of their own.",
        UserWarning,
        stacklevel=stacklevel,
    )
