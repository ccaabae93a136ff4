"""Saved models with their recipe: how columns of a file become features and groups, so that predict does the same."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, ModelFileError, load, read_manifest
from groupshift._data.extras import need
from groupshift._diagnosis.wording import plural
from groupshift.cli.errors import InputError, check_choice
from groupshift.cli.prepared import GROUP, WEIGHT, Part, Prepared, feature, roles_of, survey_file
from groupshift.cli.screen import Screen
from groupshift.tables.column_facts import read_file
from groupshift.tables.columns import ColumnPlan, TableClassifier, convert, group_text, group_values, is_plain
from groupshift.tables.sources import Source, no_column, open_source

# Between the names of the columns that make a group, and between their values.
OF_NAMES, OF_VALUES = ", ", " × "  # noqa: RUF001
# What --missing-group takes, and the group that rows without one then have.
MISSING_GROUPS = ("error", "drop", "own")
NO_GROUP = "(no group)"
# A model of these is text that LightGBM reads, which is not made for files of strangers: who trusts theirs says so.
LIGHTGBM_TYPES = (
    "collections.OrderedDict",
    "collections.defaultdict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
)
ALLOWED = "GROUPSHIFT_ALLOW"


def classifier_named(name: str) -> BaseEstimator | None:
    """A classifier for tables with categories and missing values; None is the default."""
    check_choice("--classifier", name, CLASSIFIERS)
    return CLASSIFIERS[name]()


CLASSIFIERS: dict[str, Callable[[], BaseEstimator | None]] = {
    "boosted": lambda: None,
    # The paper's; it takes nothing but numbers.
    "forest": lambda: TableClassifier(RandomForestClassifier(n_estimators=500, max_depth=10, n_jobs=-1)),
    "logistic": lambda: TableClassifier(LogisticRegression(max_iter=1000), one_hot=True),
    "lightgbm": lambda: TableClassifier(need("lightgbm").LGBMClassifier(verbose=-1, n_jobs=1)),
}


def trusted_types() -> tuple[str, ...]:
    """Types of other packages that the user allows in model files."""
    return LIGHTGBM_TYPES if "lightgbm" in os.environ.get(ALLOWED, "").split(",") else ()


def group_columns_of(group: str | None, source: Source) -> tuple[str, ...]:
    """The columns that --group names: one, which may have a comma in its name, or several with commas between."""
    if group is None or group in source.columns:
        return () if group is None else (group,)
    return tuple(part.strip() for part in group.split(",") if part.strip())


def parts_of(group: str, n_columns: int) -> list[str]:
    """The values that make a group.

    >>> parts_of("Ohio × 18-29", 2), parts_of("(no group)", 2)
    (['Ohio', '18-29'], ['(no group)', '(no group)'])
    """
    parts = group.split(OF_VALUES)
    return parts if len(parts) == n_columns else [group] * n_columns


@dataclass(frozen=True)
class Grouped:
    """The tables of a source with the column of groups that several columns make, or without rows that have none."""

    source: Source
    columns: tuple[str, ...]
    missing: str

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        name = OF_NAMES.join(self.columns)
        inside = [column for column in names if column in self.source.columns]
        for table in self.source.batches(list(dict.fromkeys([*inside, *self.columns]))):
            parts = [group_text(table[column]) for column in self.columns]
            groups = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, OF_VALUES)
            if self.missing == "own":
                groups = pc.fill_null(groups, NO_GROUP)
            table = table.drop_columns([name]) if name in table.column_names else table
            table = table.append_column(name, groups)
            yield (table.filter(groups.is_valid()) if self.missing == "drop" else table).select(list(names))


def with_groups(source: Source, columns: Sequence[str], missing: str = "error") -> Source:
    """A source that has the group as one column, named by all columns that make it."""
    check_choice("--missing-group", missing, MISSING_GROUPS)
    if unknown := [column for column in columns if column not in source.columns]:
        raise InputError(no_column(unknown, source))
    if not columns or (len(columns) == 1 and missing == "error"):
        return source
    name = OF_NAMES.join(columns)
    others = [column for column in source.columns if column != name]
    return replace(
        source,
        columns=(*others, name),
        n_rows=None if missing == "drop" else source.n_rows,
        schema=pa.schema([*((column, source.type_of(column)) for column in others), (name, pa.string())]),
        rows=Grouped(source, tuple(columns), missing).batches,
    )


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

    @property
    def read(self) -> list[str]:
        """Columns of a file that are read to predict its rows."""
        return [*self.names, *([self.group] if self.group else [])]

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "columns": [plan.to_json() for plan in self.columns]}

    @classmethod
    def from_json(cls, found: Mapping[str, Any], names: Sequence[str]) -> Recipe:
        """The recipe that a file holds, for a model of these features; what a fit would not write raises."""
        columns = [ColumnPlan(**column) for column in found["columns"]]
        recipe = cls(**{**found, "columns": columns, "group_columns": tuple(found.get("group_columns", ()))})
        texts = [recipe.positive, recipe.negative, recipe.missing_group, *recipe.group_columns]
        texts += [text for text in (recipe.group, recipe.target) if text is not None]
        texts += [text for plan in columns for text in (plan.name, plan.kind, plan.decimal)]
        is_sound = recipe.names == list(names) and all(isinstance(text, str) for text in texts)
        if not is_sound or not all(isinstance(plan.typical, float | None) for plan in columns):
            raise ValueError("its columns are not those of the model")
        return recipe

    @classmethod
    def of_model(cls, model: GroupShiftClassifier, group: str | None) -> Recipe:
        """For a model made in Python: the names and kinds that it saw."""
        encoder = model.encoder_
        columns = [ColumnPlan(name, kind) for name, kind in zip(encoder.names_, encoder.kinds_, strict=True)]
        group = group or model.group
        if group is None and model.has_groups_:
            raise InputError(
                "This model was made in Python and does not know which column holds the groups. Name it with --group."
            )
        return cls(columns, group)

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

    def features(self, table: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        """The feature columns of a table, treated, and how many values of each did not fit."""
        converted, lost = {}, {}
        for plan in self.columns:
            converted[plan.name], lost[plan.name] = convert(table[plan.name], plan)
        return pa.table(converted), lost

    def for_file(
        self, source: Source, others: Sequence[str] = (), *, anyway: bool = False
    ) -> tuple[Recipe, list[str]]:
        """The recipe as a file needs it, and what to say of it; a file that holds something else is refused.

        `others` are columns that the command needs. A file is read by its own decimal mark and form of dates. `anyway` reads it
        though its columns are of another kind or size than those of fit.
        """
        for names, whose in ((self.read, "The model was fitted with it."), (others, "The command names it.")):
            if missing := [name for name in names if name not in source.columns]:
                raise InputError(f"{no_column(missing, source)} {whose}")
        for name in self.read:
            if not is_plain(kind := source.type_of(name)):
                raise InputError(
                    f"{name!r} of {source.path} holds {kind}, which the model cannot use. Write it as text or numbers."
                )
        plans, notes, problems = read_file(source, self.columns)
        if problems and not anyway:
            more = f" And {plural(len(problems) - 3, 'more column')}." if problems[3:] else ""
            raise InputError(
                f"{' '.join(problems[:3])}{more} The model would answer for values that it never saw. Look at how these "
                "columns are written; if they are right, pass --anyway."
            )
        return replace(self, columns=plans), [*problems, *notes]

    def groups(self, table: pa.Table, like: NDArray[np.generic]) -> NDArray[np.generic] | None:
        """Groups of a table, of the same kind as the model's own; None or NaN where missing."""
        if self.group is None:
            return None
        values = group_values(table[self.group])
        if like.dtype.kind not in "biuf":
            return values
        return np.array([_number(value) for value in values])


def _number(text: str | None) -> float:
    try:
        return float("nan" if text is None else text)
    except ValueError:
        return float("nan")


def load_model(path: str, *, group: str | None = None) -> tuple[GroupShiftClassifier, Recipe, dict[str, Any]]:
    """A model, its recipe, and its manifest; `group` where its column has another name now."""
    manifest = read_manifest(path)
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
        recipe = replace(recipe, group=OF_NAMES.join(columns), group_columns=columns)
    return model, recipe, manifest


def new_rows(
    model: GroupShiftClassifier, recipe: Recipe, source: Source, weight: str | None
) -> tuple[Prepared, dict[str, Any]]:
    """Rows of a file as a fitted model takes them, and their roles; each has a group, and a weight where these are named."""
    survey = survey_file(source, group=recipe.group, weight=weight)
    survey.check(source, recipe.group, weight)
    columns = {plan.name: feature(plan) for plan in recipe.columns} | roles_of(source, None, weight, None)
    group = None if recipe.group is None else model.group or GROUP
    if group is not None:
        columns[group] = recipe.group, lambda table, first: recipe.groups(table, model.groups_)
    return Prepared([Part(source, columns)], survey.rows), {"group": group, "weight": weight and WEIGHT}
