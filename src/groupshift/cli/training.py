"""Files to learn from: labeled and unlabeled rows, in two files or stacked in one.

Labeled rows are held in memory, the others are read in batches whenever the method asks for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import clone

from groupshift import GroupShiftClassifier, streaming
from groupshift._data.batches import Roles as ColumnRoles
from groupshift._data.checks import unlabeled_mask
from groupshift._data.keys import sampled
from groupshift._data.workers import add_up
from groupshift._diagnosis.wording import percent, short
from groupshift.cli import prepared
from groupshift.cli.errors import InputError
from groupshift.cli.groups import about_groups, about_identifying, none_in_common
from groupshift.cli.prepared import EXAMPLE, GROUP, TARGET, WEIGHT, FileSurvey, Part, Prepared, survey_file
from groupshift.cli.recipe import OF_NAMES, Recipe, group_columns_of, with_groups
from groupshift.cli.screen import listed
from groupshift.cli.target import Target, read_target
from groupshift.tables.column_facts import (
    ColumnSurvey,
    Nearly,
    plan_of,
    plans_in_file,
    read_file,
    with_typical,
)
from groupshift.tables.columns import ColumnPlan, is_plain
from groupshift.tables.sources import Source, no_column, open_source

WHY_LEFT_OUT = {
    "id": "looks like an id (nearly all values differ)",
    "empty": "is empty",
    "nested": "holds lists or raw bytes",
}
# Shows how dates are written; a day that cannot be a month.
A_DAY = datetime(2024, 12, 31)


@dataclass(frozen=True)
class Roles:
    """Which column is what, as the command names them."""

    target: str
    group: str | None = None
    weight: str | None = None
    example_id: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    positive: str | None = None
    class_: tuple[str, ...] = ()  # values of the target that are classes, whatever they are called
    missing_group: str = "error"
    group_columns: tuple[str, ...] = ()  # those that make a group, as a file has them

    @property
    def special(self) -> list[str]:
        named = (self.target, self.group, *self.group_columns, self.weight, self.example_id)
        return [name for name in dict.fromkeys(named) if name is not None]


@dataclass
class Training:
    """Labelled rows with their numbers among all rows, the population, and how files were read.

    `population` holds all rows of the files that have unlabeled ones; `alarms` are notes that nobody should miss.
    """

    sources: list[Source]
    n_rows: list[int]
    labeled: pa.Table
    numbers: NDArray[np.int64]
    population: Prepared | None
    target: Target
    recipe: Recipe
    plans: list[ColumnPlan]
    notes: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    @property
    def against_rest(self) -> dict[str, NDArray[np.int64]]:
        """Labels of the labeled rows as 1 and 0, for each class; for the positive one alone where there are two."""
        y = np.asarray(self.labeled[TARGET])
        if not self.target.several:
            return {self.target.positive: y}
        return {name: (y == name).astype(np.int64) for name in self.target.several}

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the same among labeled rows."""
        return {name: float(y.mean()) for name, y in self.against_rest.items()}

    @property
    def n_unlabeled(self) -> int:
        return sum(self.n_rows) - len(self.numbers)

    def fit(self, model: GroupShiftClassifier, **known: Any) -> None:
        """Fit a model to all rows; `known` are rates as its own `fit` takes them."""
        if self.population is None:
            self._fit_labeled(model, self.labeled, **known)
        else:
            streaming.fit_to(model, self._streamed(self.population), **known)
        # Classes and groups are called what the files call them; groups of several columns are in none.
        group = self.recipe.group if len(self.recipe.group_columns) == 1 else None
        classes = self.target.classes
        model.schema_ = replace(model.schema_, classes=classes, group_name=group, by_name=True)
        model.set_params(group=None if group in self.recipe.names else group)

    def fit_sample(self, model: GroupShiftClassifier) -> GroupShiftClassifier:
        """A copy of the model, fitted to a part of the rows."""
        if self.population is not None:
            sample: GroupShiftClassifier = streaming.fit_sample(model, self._streamed(self.population))
            return sample
        some = sampled(self.numbers.astype(np.uint64), streaming.LABELED_TRIED / len(self.numbers), 0)
        return self._fit_labeled(clone(model), self.labeled.filter(some))

    def _streamed(self, population: Prepared) -> streaming.Training:
        group, weight, example_id = (
            name if name in self.labeled.column_names else None for name in (GROUP, WEIGHT, EXAMPLE)
        )
        first = population.parts[0].first
        # Files after the first one have no labels to leave out.
        target = TARGET if first == 0 else None
        columns = ColumnRoles(tuple(self.recipe.names), group, weight, example_id, target)
        return streaming.Training(self.labeled, population, columns, TARGET, first)

    def _fit_labeled(
        self, model: GroupShiftClassifier, table: pa.Table, **known: Any
    ) -> GroupShiftClassifier:
        groups, weight, ids = (
            table[name] if name in table.column_names else None for name in (GROUP, WEIGHT, EXAMPLE)
        )
        X, y = table.select(self.recipe.names), table[TARGET]
        model.fit(X, y, groups, sample_weight=weight, example_ids=ids, **known)
        return model


def read_training(paths: Sequence[str], roles: Roles) -> Training:
    """Read one stacked file, or labeled rows from the first and unlabeled ones from the others."""
    labeled_path, *others = paths
    opened = [open_source(labeled_path), *([open_source(others)] if others else [])]
    columns_of_group = group_columns_of(roles.group, opened[0])
    roles = replace(roles, group=OF_NAMES.join(columns_of_group) or None, group_columns=columns_of_group)
    sources = [with_groups(source, columns_of_group, roles.missing_group) for source in opened]
    _check_roles(sources, roles)
    notes: list[str] = []
    names = _feature_names(sources, roles, notes)
    surveys = _survey(sources, names, roles)
    target = read_target(
        surveys[0].target, roles.target, roles.positive, str(sources[0].path), classes=roles.class_
    )
    notes += target.notes
    if len(sources) == 2 and roles.target in sources[1].columns:
        notes.append(
            f"All rows of {sources[1].path} count as unlabeled: its column {roles.target!r} is ignored."
        )
    columns = add_up(survey.columns for survey in surveys).by_name
    by_file = [survey.columns.by_name for survey in surveys]
    plans = [_plan(name, [found[name] for found in by_file], name in roles.features) for name in names]
    used = [plan for plan in plans if plan.used]
    in_files = [plans_in_file(used, *found) for found in zip(by_file, sources, strict=True)]
    lost = Counter[str]()
    for found, own in zip(by_file, in_files, strict=True):
        lost.update({plan.name: found[plan.name].lost(plan) for plan in own})
    notes += _notes_on_columns(columns, plans, lost)
    if not used:
        raise InputError(
            f"No usable feature is left in {listed([str(s.path) for s in sources])}. "
            "Check --features and --exclude, and that both files have the same columns."
        )
    for survey, source in zip(surveys, sources, strict=True):
        survey.check(source, roles.group, roles.weight)
    if roles.weight is not None and any(roles.weight not in source.columns for source in sources):
        notes.append(f"Unlabeled rows have no {roles.weight!r}: each counts as one row.")
    n_rows = [survey.rows for survey in surveys]
    labeled, numbers, parts = _labeled_rows(sources, n_rows, in_files, target, roles)
    used = with_typical(in_files[0], labeled)
    if len(parts) == 2:
        notes.append(
            f"{n_rows[0] - len(numbers):,} unlabeled rows come from {sources[0].path} and {n_rows[1]:,} from "
            f"{sources[1].path}. Rows in both files count twice: remove them from one."
        )
    groups = add_up(survey.groups for survey in surveys)
    population = Prepared(parts, sum(n_rows[len(sources) - len(parts) :])) if parts else None
    # What the unlabeled rows hold in other sizes or kinds than the labeled ones.
    not_alike = [
        re.sub("where the model was fitted|in the model", "among labeled rows", problem)
        for source, own in zip(sources[1:], in_files[1:], strict=True)
        for problem in read_file(source, used, own)[2]
    ]
    recipe = Recipe(used, roles.group, roles.target, target.positive, target.negative)
    recipe = replace(
        recipe, group_columns=columns_of_group, missing_group=roles.missing_group, classes=target.several
    )
    alarms = [
        *(target.alarms + not_alike),
        *about_groups(roles.group, groups, used, columns),
        *none_in_common(roles.group, surveys),
        *about_identifying(labeled, population, used),
    ]
    return Training(sources, n_rows, labeled, numbers, population, target, recipe, plans, notes, alarms)


def _labeled_rows(
    sources: list[Source], n_rows: list[int], plans: list[list[ColumnPlan]], target: Target, roles: Roles
) -> tuple[pa.Table, NDArray[np.int64], list[Part]]:
    """Labeled rows and their numbers, and the files that hold others."""
    parts = []
    for source, start, own in zip(sources, (0, n_rows[0]), plans, strict=False):
        columns = {plan.name: prepared.feature(plan) for plan in own}
        columns[TARGET] = prepared.labels(roles.target, target if start == 0 else None)
        columns |= prepared.roles_of(source, roles.group, roles.weight, roles.example_id)
        parts.append(Part(source, columns, start))
    first, *others = parts
    found, numbers, start = [], [], 0
    for table in first.batches(list(first.columns)):
        is_labeled = np.flatnonzero(~unlabeled_mask(np.asarray(table[TARGET]), -1))
        found.append(table.take(is_labeled))
        numbers.append(is_labeled + start)
        start += table.num_rows
    labeled = pa.concat_tables(found).combine_chunks()
    return labeled, np.concatenate(numbers), parts if labeled.num_rows < n_rows[0] else others


def _check_roles(sources: list[Source], roles: Roles) -> None:
    first, *others = sources
    needed = [(first, roles.special), (first, [*roles.features, *roles.exclude])]
    needed += [(source, [roles.group]) for source in others if roles.group is not None]
    for source in sources:
        for name in roles.special:
            if name in source.columns and not is_plain(source.type_of(name)):
                raise InputError(
                    f"{name!r} of {source.path} holds {source.type_of(name)}, which cannot be a target, group, weight or "
                    "id. Write it as text or numbers."
                )
    for source, names in needed:
        if unknown := [name for name in names if name not in source.columns]:
            raise InputError(no_column(unknown, source))


def _feature_names(sources: list[Source], roles: Roles, notes: list[str]) -> list[str]:
    wanted = list(roles.features) or [c for c in sources[0].columns if c not in roles.special]
    wanted = [name for name in wanted if name not in roles.exclude]
    shared = set(wanted).intersection(*(source.columns for source in sources[1:]))
    missing = [name for name in wanted if name not in shared]
    if missing and roles.features:
        raise InputError(no_column(missing, sources[1]))
    if missing:
        notes.append(f"Left out, because only {sources[0].path} has them: {listed(missing)}.")
    return [name for name in wanted if name in shared]


def _survey(sources: list[Source], names: list[str], roles: Roles) -> list[FileSurvey]:
    # A column that files hold in different types is read as text in all of them.
    mixed = frozenset(name for name in names if len({str(source.type_of(name)) for source in sources}) > 1)
    return [
        survey_file(
            source,
            names,
            mixed=mixed,
            target=roles.target if source is sources[0] else None,
            group=roles.group,
            weight=roles.weight if roles.weight in source.columns else None,
        )
        for source in sources
    ]


def _plan(name: str, surveys: Sequence[ColumnSurvey], wanted: bool) -> ColumnPlan:
    survey = add_up(iter(surveys))
    plan = plan_of(name, survey)
    own = [plan_of(name, one) for one in surveys]
    # Dates that are written in one way here and in another there are dates, though no one way fits all.
    kinds = {one.kind for one in own}
    if plan.kind not in ("number", "date") and kinds in ({"number"}, {"date"}):
        return own[0]
    # Who names a column wants it, even if it looks like an id.
    return plan_of(name, survey, wanted=True) if wanted and plan.kind == "id" else plan


def _notes_on_columns(
    columns: Mapping[str, ColumnSurvey], plans: list[ColumnPlan], lost: Mapping[str, int]
) -> list[str]:
    """What may have been meant otherwise, what could not be read, and what was left out."""
    notes = []
    for plan in plans:
        survey = columns[plan.name]
        if (found := survey.nearly(plan)) is not None:
            article = "a category" if plan.kind == "category" else "an id"
            notes.append(
                f"{plan.name!r} counts as {article} with {survey.distinct.count:,} values, although "
                f"{percent(found.share, 0)} of its rows look like {found.kind}s. {_how_to_read(found)}"
            )
    for plan in plans:
        if count := lost.get(plan.name):
            notes.append(f"{count:,} values of {plan.name!r} are not a {plan.kind} and count as missing.")
    for kind, reason in WHY_LEFT_OUT.items():
        if names := [plan.name for plan in plans if plan.kind == kind]:
            hint = " To use it: --features." if kind == "id" else ""
            notes.append(f"Left out: {listed(names)}, which {reason.partition(' (')[0]}.{hint}")
    return notes


def _how_to_read(found: Nearly) -> str:
    misfit, day = repr(short(found.misfit, 40)), f"{A_DAY:%Y-%m-%d}"
    if found.kind == "number":
        return f"{misfit} does not: if the column is a number, empty such cells or write NA."
    if found.form is None:
        return f"{misfit} has a form that is not read: if the column is a date, write it as {day}."
    return (
        f"They are not written alike, such as {A_DAY.strftime(found.form)} and {misfit}: if the column is a date, write every "
        f"cell as {day}, and empty those without one."
    )
