"""Columns of a table by their role: features, group, weight, example, label."""

from collections.abc import Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np

from groupshift._data.checks import check_weights, unlabeled_mask
from groupshift._data.frames import Features, Frame, Series, as_frame
from groupshift._data.schema import Schema
from groupshift._math.arrays import BoolArray, FloatArray, IntArray


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


def assign_roles(columns: Sequence[str], names: ColumnNames, own_group: str | None) -> Roles:
    """Roles of the columns of labelled data; features are all that have no other role.

    `own_group` is the column that the model's setting `group` names.
    """
    group = group_column(names.group, own_group)
    others = [name for name in (names.target, group, names.weight, names.example_id) if name is not None]
    rest = [name for name in columns if name not in others]
    wanted = rest if names.features is None else list(names.features)
    check_columns(columns, [*wanted, *others], "The labelled data")
    if set(wanted) & set(others):
        raise ValueError(
            f"Columns {sorted(set(wanted) & set(others))} cannot be features: they have another role."
        )
    return Roles(tuple(wanted), group, names.weight, names.example_id)


def fitted_roles(
    schema: Schema,
    own_group: str | None,
    group: str | None,
    weight: str | None,
    example_id: str | None = None,
) -> Roles:
    """Roles of the columns that a fitted model reads."""
    group = group_column(group, own_group)
    if schema.has_groups and group is None:
        raise ValueError(
            "This model was fitted with groups. Pass group=, the name of the column that holds them."
        )
    features = tuple(schema.encoder.names_)
    return Roles(features, group if schema.has_groups else None, weight, example_id)


def group_column(group: str | None, own_group: str | None) -> str | None:
    """The column that holds the groups: as passed, or as the model has it."""
    if group is not None and own_group is not None and group != own_group:
        raise ValueError(
            f"Groups are in column {group!r} here and in {own_group!r} for the model. Pass one of them."
        )
    return own_group if group is None else group


def check_columns(found: Sequence[str], wanted: Sequence[str], where: str) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"{where} has no column {missing}; its columns are {list(found)[:20]}. Check the names."
        )


def framed(table: Features, what: str = "A batch") -> Frame:
    """A table as a narwhals frame."""
    frame = as_frame(table)
    if frame is None:
        raise TypeError(f"{what} came as a {type(table).__name__}. Pass a pandas, polars or Arrow table.")
    return frame


def unlabeled_rows(batch: Features, roles: Roles, unlabeled_value: object) -> tuple[IntArray, Frame]:
    """Positions in the batch of rows without a label, and these rows."""
    frame = framed(batch)
    if roles.target is None:
        return np.arange(len(frame)), frame
    rows = np.flatnonzero(unlabeled_in(frame.get_column(roles.target), unlabeled_value))
    return rows, frame if len(rows) == len(frame) else frame[rows]


def weighed_rows(frame: Frame, roles: Roles) -> Frame:
    """Rows that weigh something: the others are left out, wherever rows are learned from."""
    weight = row_weights(frame, roles)
    return frame if weight.all() else frame[np.flatnonzero(weight)]


def unlabeled_in(series: Series, unlabeled_value: object) -> BoolArray:
    """Which rows of a column of labels have none."""
    return unlabeled_mask(series.to_numpy(), unlabeled_value) | series.is_null().to_numpy()


def row_weights(frame: Frame, roles: Roles) -> FloatArray:
    """The weights of a batch of rows; 1 where there are none."""
    if roles.weight is None:
        return np.ones(len(frame))
    weight = frame.get_column(roles.weight).cast(nw.Float64).to_numpy()
    # A batch of rows that count for nothing is fine; that all batches are, the survey finds.
    return check_weights(weight, len(frame)) if weight.any() else np.zeros(len(frame))
