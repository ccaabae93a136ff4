"""Columns of a table by their role: features, group, weight, example, label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from groupshift._rows.checks import check_weights
from groupshift._rows.frames import (
    as_frame,
    is_missing,
)


@dataclass(frozen=True)
class Roles:
    """Which column is what.

    `target` is set only where one table holds labelled and unlabelled rows: those with a label are left out.
    """

    features: tuple[str, ...]
    group: str | None = None
    weight: str | None = None
    example_id: str | None = None
    target: str | None = None

    @property
    def columns(self) -> list[str]:
        """Columns to read for unlabelled rows."""
        others = (self.group, self.weight, self.example_id, self.target)
        return [*self.features, *(name for name in others if name is not None)]


@dataclass(frozen=True)
class ColumnNames:
    """Columns of labelled data as users name them; `features`: all others where they name none."""

    target: str
    group: str | None = None
    weight: str | None = None
    example_id: str | None = None
    features: Sequence[str] | None = None


def assign_roles(model: Any, columns: Sequence[str], names: ColumnNames) -> Roles:
    """Roles of the columns of labelled data; features are all that have no other role."""
    group = group_column(model, names.group)
    others = [name for name in (names.target, group, names.weight, names.example_id) if name is not None]
    rest = [name for name in columns if name not in others]
    wanted = rest if names.features is None else list(names.features)
    check_columns(columns, [*wanted, *others], "The labelled data")
    if set(wanted) & set(others):
        raise ValueError(
            f"Columns {sorted(set(wanted) & set(others))} cannot be features: they have another role."
        )
    return Roles(tuple(wanted), group, names.weight, names.example_id)


def fitted_roles(model: Any, group: str | None, weight: str | None) -> Roles:
    """Roles of the columns that a fitted model reads."""
    group = group_column(model, group)
    if model.has_groups_ and group is None:
        raise ValueError(
            "This model was fitted with groups. Pass group=, the name of the column that holds them."
        )
    return Roles(tuple(model.encoder_.names_), group if model.has_groups_ else None, weight)


def group_column(model: Any, group: str | None) -> str | None:
    """The column that holds the groups: as passed, or as the model has it."""
    if group is not None and model.group is not None and group != model.group:
        raise ValueError(
            f"Groups are in column {group!r} here and in {model.group!r} for the model. Pass one of them."
        )
    return model.group if group is None else group


def check_columns(found: Sequence[str], wanted: Sequence[str], where: str) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"{where} has no column {missing}; its columns are {list(found)[:20]}. Check the names."
        )


def framed(table: Any, what: str = "A batch") -> nw.DataFrame:
    """A table as a narwhals frame."""
    frame = as_frame(table)
    if frame is None:
        raise TypeError(f"{what} came as a {type(table).__name__}. Pass a pandas, polars or Arrow table.")
    return frame


def unlabeled_rows(batch: Any, roles: Roles, unlabeled_value: Any) -> tuple[NDArray[np.int64], nw.DataFrame]:
    """Positions in the batch of rows without a label, and these rows."""
    frame = framed(batch)
    if roles.target is None:
        return np.arange(len(frame)), frame
    rows = np.flatnonzero(is_unlabeled(frame.get_column(roles.target), unlabeled_value))
    return rows, frame if len(rows) == len(frame) else frame[rows]


def row_weights(frame: nw.DataFrame, roles: Roles) -> NDArray[np.float64]:
    """The weights of a batch of rows; 1 where there are none."""
    if roles.weight is None:
        return np.ones(len(frame))
    weight = frame.get_column(roles.weight).cast(nw.Float64).to_numpy()
    # A batch of rows that count for nothing is fine; that all batches are, the survey finds.
    return check_weights(weight, len(frame)) if weight.any() else np.zeros(len(frame))


def is_unlabeled(series: nw.Series, unlabeled_value: Any) -> NDArray[np.bool_]:
    """Which labels are missing or equal to the value that marks unlabelled rows."""
    values = series.to_numpy()
    unlabeled = is_missing(values) | series.is_null().to_numpy()
    if unlabeled_value is None:
        return unlabeled
    return unlabeled | np.fromiter((v == unlabeled_value for v in values.tolist()), bool, len(values))
