"""Saved models with their recipe: how columns of a file become features, so that predict does the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from groupshift import GroupShiftClassifier
from groupshift._files.model_files import Manifest, ModelFileError, load, read_manifest
from groupshift.cli.classifiers_named import ALLOWED, trusted_types
from groupshift.cli.errors import InputError
from groupshift.cli.grouped import group_name, with_groups
from groupshift.cli.screen import Screen
from groupshift.tables.column_facts import read_file
from groupshift.tables.columns import ColumnPlan, convert, group_values, is_plain
from groupshift.tables.sources import Source, no_column, open_source


@dataclass(frozen=True)
class Recipe:
    """Feature columns in order with their treatment, the group's column, and what the classes are called."""

    columns: list[ColumnPlan]
    group: str | None = None
    target: str | None = None
    positive: str = "1"
    negative: str = "0"
    group_columns: tuple[str, ...] = ()
    missing_group: str = "error"
    classes: Sequence[str] = ()  # with more than two

    @property
    def names(self) -> list[str]:
        return [plan.name for plan in self.columns]

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "columns": [plan.to_json() for plan in self.columns]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any], names: Sequence[str]) -> Recipe:
        """The recipe that a file holds, for a model of these features; what a fit would not write raises."""
        columns = [ColumnPlan(**column) for column in found["columns"]]
        recipe = cls(**{**found, "columns": columns, "group_columns": tuple(found.get("group_columns", ()))})
        roles = (recipe.group, recipe.target)
        texts = [recipe.positive, recipe.negative, recipe.missing_group, *recipe.group_columns]
        texts += [text for text in roles if text is not None]
        texts += [text for plan in recipe.columns for text in (plan.name, plan.kind, plan.decimal)]
        sizes = [plan.typical for plan in recipe.columns if plan.typical is not None]
        is_sound = all(isinstance(text, str) for text in texts) and all(
            isinstance(size, float) for size in sizes
        )
        if recipe.names != list(names) or not is_sound:
            raise ValueError("its columns are not those of the model")
        return recipe

    def open(self, place: str, *, every_row: bool = True) -> Source:
        """A file to read by this recipe; its groups may be of several columns.

        `every_row`: rows without a group are kept, as each of them is to get an answer, though the fit left them out.
        """
        columns = self.group_columns or ((self.group,) if self.group else ())
        missing = "error" if self.missing_group == "drop" and every_row else self.missing_group
        source = open_source(place)
        if self.group in source.columns:
            # The output of another command has groups of several columns as one already.
            columns = (self.group,)
        return with_groups(source, columns, missing)

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

    def for_file(self, source: Source, *, anyway: bool) -> tuple[Recipe, list[str]]:
        """The recipe as a file needs it, and what to say of it; a file that holds something else is refused.

        A file is read by its own decimal mark and form of dates. `anyway` reads it though its columns are of another
        kind or size than those of fit.
        """
        found = read_file(source, self.columns)
        if found.problems and not anyway:
            raise InputError(
                f"{' '.join(found.problems[:3])}{_more(found.problems[3:])} The model would answer for values that it never saw. "
                "Look at how these columns are written; if they are right, pass --anyway."
            )
        return replace(self, columns=found.plans), [*found.problems, *found.notes]

    def groups(self, table: pa.Table, like: NDArray[np.generic]) -> NDArray[np.generic] | None:
        """Groups of a table, of the same kind as the model's own; None or NaN where missing."""
        if self.group is None:
            return None
        values = group_values(table[self.group])
        return np.array([_number(value) for value in values]) if like.dtype.kind in "biuf" else values


def load_model(path: str, *, group: str | None = None) -> tuple[GroupShiftClassifier, Recipe, Manifest]:
    """A model, its recipe, and its manifest; `group` where its column has another name now."""
    manifest = read_manifest(path)
    model = _loaded(path)
    if not isinstance(model, GroupShiftClassifier):
        raise InputError(
            f"{path} holds a {type(model).__name__}, which has no shares and intervals. Use it in Python."
        )
    table = manifest.get("table")
    try:
        recipe = Recipe.from_json(table, model.encoder_.names_) if table else Recipe.of_model(model, group)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise ModelFileError(
            f"{path} is refused: how its table is read is not described as `groupshift fit` does ({error}). Fit it again."
        ) from error
    if group is not None:
        columns = tuple(part.strip() for part in group.split(","))
        columns = columns if len(columns) == max(len(recipe.group_columns), 1) else (group,)
        recipe = replace(recipe, group=group_name(columns), group_columns=columns)
    return model, recipe, manifest


def _loaded(path: str) -> BaseEstimator:
    """A model; what loading warns of is said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            model = load(path, trusted=trusted_types())
        except ModelFileError as error:
            if "lightgbm" not in str(error) or trusted_types():
                raise
            raise InputError(
                f"{path} holds a classifier of LightGBM. If you know where the file comes from, set the environment "
                f"variable {ALLOWED}=lightgbm and run this again."
            ) from error
    Screen().note(*(str(warning.message) for warning in caught))
    return model


def columns_to_read(recipe: Recipe, source: Source, others: Sequence[str] = ()) -> list[str]:
    """The columns of a file that a model and the command need; an error names all that it does not have."""
    of_model = [*recipe.names, *([recipe.group] if recipe.group else [])]
    if missing := [name for name in of_model if name not in source.columns]:
        raise InputError(f"{no_column(missing, source)} The model was fitted with it.")
    if missing := [name for name in others if name not in source.columns]:
        raise InputError(f"{no_column(missing, source)} The command names it.")
    for name in of_model:
        if not is_plain(source.type_of(name)):
            raise InputError(
                f"{name!r} of {source.path} holds {source.type_of(name)}, which the model cannot use. Write it as text or "
                "numbers."
            )
    return list(dict.fromkeys([*of_model, *others]))


def _more(problems: Sequence[str]) -> str:
    return f" And {len(problems)} more columns." if problems else ""


def _number(text: str | None) -> float:
    try:
        return float("nan" if text is None else text)
    except ValueError:
        return float("nan")
