"""Groups at prediction: their numbers, and what is said of those that `fit` never saw."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._rows.frames import Codes


def group_numbers(model: Any, values: NDArray | None, n_rows: int) -> NDArray[np.int64]:
    """Number of each row's group in `groups_`; -1 where the group is not there or not given."""
    if not model.has_groups_:
        return np.full(n_rows, 0 if len(model.groups_) else -1)
    if values is None:
        warnings.warn(
            "This model was fitted with groups, but none were given to predict: every row gets the shift common to all "
            "groups. Pass groups=, or fit with group= naming a column of X.",
            UserWarning,
            stacklevel=4,
        )
        return np.full(n_rows, -1)
    group = Codes.of(model.groups_).transform(values)
    if (group < 0).any():
        report_unseen(model, values[group < 0])
    return group


def report_unseen(model: Any, values: NDArray) -> None:
    """Warn that rows of these groups take the common shift, or refuse them, as `unseen` says."""
    if not len(model.groups_):
        return
    unseen = list(dict.fromkeys(values.tolist()))
    named = ", ".join(map(repr, unseen[:5])) + (f" and {len(unseen) - 5} more" if len(unseen) > 5 else "")
    if model.unseen == "error":
        raise ValueError(
            f"Groups {named} had no unlabelled rows at fit, so their class shares are unknown. Add rows of these groups with "
            "update(), or pass unseen='pooled'."
        )
    warnings.warn(
        f"Groups {named} had no unlabelled rows at fit: their rows get the shift common to all groups. "
        "Add rows of these groups with update() for shifts of their own.",
        UserWarning,
        stacklevel=5,
    )
