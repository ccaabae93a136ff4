"""How columns of a file become features, kept in the model's manifest so that predict does the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupshift._io.columns import ColumnPlan, convert, group_values
from groupshift.cli.errors import InputError


@dataclass
class Recipe:
    """Feature columns in order with their treatment, the group's column, and what the classes are called."""

    columns: list[ColumnPlan]
    group: str | None = None
    target: str | None = None
    positive: str = "1"
    negative: str = "0"

    @property
    def names(self) -> list[str]:
        return [plan.name for plan in self.columns]

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "positive": self.positive,
            "negative": self.negative,
            "group": self.group,
            "columns": [plan.to_json() for plan in self.columns],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Recipe":
        return cls(
            [ColumnPlan(**column) for column in found["columns"]],
            found.get("group"),
            found.get("target"),
            found.get("positive", "1"),
            found.get("negative", "0"),
        )

    @classmethod
    def of_model(cls, model: Any, group: str | None) -> "Recipe":
        """For a model made in Python: the names and kinds that it saw."""
        encoder = model.encoder_
        columns = [ColumnPlan(name, kind) for name, kind in zip(encoder.names_, encoder.kinds_, strict=True)]
        group = group or getattr(model, "group", None)
        if group is None and getattr(model, "has_groups_", True):
            raise InputError(
                "This model was made in Python and does not say which column holds the groups. Name it with "
                "--group."
            )
        return cls(columns, group)

    def features(self, table: Any) -> tuple[Any, dict[str, int]]:
        """The feature columns of a table, treated, and how many values of each did not fit."""
        import pyarrow as pa

        converted, lost = {}, {}
        for plan in self.columns:
            converted[plan.name], lost[plan.name] = convert(table[plan.name], plan)
        return pa.table(converted), lost

    def groups(self, table: Any, like: np.ndarray) -> np.ndarray | None:
        """Groups of a table, of the same kind as the model's own; None where missing."""
        if self.group is None:
            return None
        values = group_values(table[self.group])
        if like.dtype.kind not in "biuf":
            return values
        numbers = np.full(len(values), np.nan)
        for i, value in enumerate(values):
            try:
                numbers[i] = float(value) if value is not None else np.nan
            except ValueError:
                continue
        return numbers
