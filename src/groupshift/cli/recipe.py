"""Saved models with their recipe: how columns of a file become features, so that predict does the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift import GroupShiftClassifier
from groupshift._io.columns import ColumnPlan, convert, group_values
from groupshift._io.model_files import Manifest, load, read_manifest
from groupshift._io.table_files import Source, no_column
from groupshift.cli.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """Feature columns in order with their treatment, the group's column, and what the classes are called."""

    columns: list[ColumnPlan]
    group: str | None = None
    target: str | None = None
    positive: str = "1"
    negative: str = "0"
    classes: Sequence[str] = ()  # with more than two

    @property
    def names(self) -> list[str]:
        return [plan.name for plan in self.columns]

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "columns": [plan.to_json() for plan in self.columns]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Recipe:
        return cls(**{**found, "columns": [ColumnPlan(**column) for column in found["columns"]]})

    @classmethod
    def of_model(cls, model: GroupShiftClassifier, group: str | None) -> Recipe:
        """For a model made in Python: the names and kinds that it saw."""
        encoder = model.encoder_
        columns = [ColumnPlan(name, kind) for name, kind in zip(encoder.names_, encoder.kinds_, strict=True)]
        group = group or model.group
        if group is None and model.has_groups_:
            raise InputError(
                "This model was made in Python and does not say which column holds the groups. Name it with --group."
            )
        return cls(columns, group)

    def features(self, table: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        """The feature columns of a table, treated, and how many values of each did not fit."""
        converted, lost = {}, {}
        for plan in self.columns:
            converted[plan.name], lost[plan.name] = convert(table[plan.name], plan)
        return pa.table(converted), lost

    def groups(self, table: pa.Table, like: NDArray[np.generic]) -> NDArray[np.generic] | None:
        """Groups of a table, of the same kind as the model's own; None or NaN where missing."""
        if self.group is None:
            return None
        values = group_values(table[self.group])
        return np.array([_number(value) for value in values]) if like.dtype.kind in "biuf" else values


def load_model(path: str, *, group: str | None = None) -> tuple[GroupShiftClassifier, Recipe, Manifest]:
    """A model, its recipe, and its manifest; `group` where its column has another name now."""
    manifest = read_manifest(path)
    model = load(path)
    if not isinstance(model, GroupShiftClassifier):
        raise InputError(
            f"{path} holds a {type(model).__name__}, which has no shares and intervals. Use it in Python."
        )
    table = manifest.get("table")
    recipe = Recipe.from_json(table) if table else Recipe.of_model(model, group)
    return model, recipe if group is None else replace(recipe, group=group), manifest


def columns_to_read(recipe: Recipe, source: Source, others: Sequence[str] = ()) -> list[str]:
    """The columns of a file that a model and the command need; an error names all that it does not have."""
    wanted = dict.fromkeys([*recipe.names, *([recipe.group] if recipe.group else []), *others])
    if missing := [name for name in wanted if name not in source.columns]:
        raise InputError(f"{no_column(missing, source)} The model was fitted with it.")
    return list(wanted)


def _number(text: str | None) -> float:
    try:
        return float("nan" if text is None else text)
    except ValueError:
        return float("nan")
