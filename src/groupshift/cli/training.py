"""Files to learn from: labelled and unlabelled rows, in two files or stacked in one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groupshift.cli.errors import InputError
from groupshift.cli.recipe import Recipe
from groupshift.cli.screen import listed
from groupshift.cli.target import Target, read_target
from groupshift.column_survey import plan_column
from groupshift.columns import ColumnPlan, as_text, convert, group_values
from groupshift.sources import Source, no_column, open_source

WHY_LEFT_OUT = {
    "id": "looks like an id (nearly all values differ)",
    "empty": "is empty",
    "nested": "holds lists or raw bytes",
}


@dataclass
class Roles:
    """Which column is what, as the command names them."""

    target: str
    group: str | None = None
    weight: str | None = None
    example_id: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    positive: str | None = None

    @property
    def special(self) -> list[str]:
        return [name for name in (self.target, self.group, self.weight, self.example_id) if name is not None]


@dataclass
class Training:
    """Rows of all files below each other, and how they were read."""

    sources: list[Source]
    n_rows: list[int]
    features: Any
    y: np.ndarray
    groups: np.ndarray | None
    weight: np.ndarray | None
    example_ids: np.ndarray | None
    target: Target
    recipe: Recipe
    plans: list[ColumnPlan]
    notes: list[str] = field(default_factory=list)

    @property
    def labeled(self) -> np.ndarray:
        return self.y >= 0

    def fit_arguments(self) -> dict[str, Any]:
        return {"groups": self.groups, "sample_weight": self.weight, "example_ids": self.example_ids}


def read_training(paths: Sequence[str], roles: Roles) -> Training:
    """Read one stacked file, or labelled and unlabelled rows from two."""
    sources = [open_source(path) for path in paths]
    notes: list[str] = []
    _check_roles(sources, roles)
    names = _feature_names(sources, roles, notes)
    tables = [_read(source, names, roles) for source in sources]
    target = read_target(tables[0][roles.target], roles.target, roles.positive, str(sources[0].path))
    notes += target.notes
    if len(sources) == 2 and roles.target in sources[1].columns:
        notes.append(
            f"The target column {roles.target!r} of {sources[1].path} is not looked at: its rows count as "
            "unlabelled."
        )
    plans = [_plan(name, [table[name] for table in tables], name in roles.features) for name in names]
    _note_left_out(plans, notes)
    used = [plan for plan in plans if plan.used]
    if not used:
        raise InputError(
            f"No usable feature is left in {listed([str(s.path) for s in sources])}. "
            "Check --features and --exclude, and that both files have the same columns."
        )
    return Training(
        sources=sources,
        n_rows=[table.num_rows for table in tables],
        features=_features(tables, used, notes),
        y=np.concatenate([target.y, np.full(sum(t.num_rows for t in tables[1:]), -1)]),
        groups=_groups(tables, sources, roles.group),
        weight=_weights(tables, roles.weight, notes),
        example_ids=_example_ids(tables, roles.example_id),
        target=target,
        recipe=Recipe(used, roles.group, roles.target, target.positive, target.negative),
        plans=plans,
        notes=notes,
    )


def _check_roles(sources: list[Source], roles: Roles) -> None:
    for name in roles.special:
        if name not in sources[0].columns:
            raise InputError(no_column([name], sources[0]))
    if roles.group is not None:
        for source in sources[1:]:
            if roles.group not in source.columns:
                raise InputError(no_column([roles.group], source))
    unknown = [name for name in (*roles.features, *roles.exclude) if name not in sources[0].columns]
    if unknown:
        raise InputError(no_column(unknown, sources[0]))


def _feature_names(sources: list[Source], roles: Roles, notes: list[str]) -> list[str]:
    wanted = list(roles.features) or [c for c in sources[0].columns if c not in roles.special]
    wanted = [name for name in wanted if name not in roles.exclude]
    shared = set(wanted).intersection(*(source.columns for source in sources[1:]))
    missing = [name for name in wanted if name not in shared]
    if missing and roles.features:
        raise InputError(no_column(missing, sources[1]))
    if missing:
        notes.append(f"Only in {sources[0].path}, and so left out: {listed(missing)}.")
    return [name for name in wanted if name in shared]


def _read(source: Source, names: list[str], roles: Roles) -> Any:
    special = [name for name in roles.special if name in source.columns]
    table = source.read(list(dict.fromkeys([*special, *names])))
    if table.num_rows == 0:
        raise InputError(f"{source.path} has a header but no rows. Check how it was made.")
    return table


def _plan(name: str, columns: list[Any], wanted: bool) -> ColumnPlan:
    plan = plan_column(name, together(columns))
    # Who names a column wants it, even if it looks like an id.
    if wanted and plan.kind == "id":
        import pyarrow as pa

        return ColumnPlan(name, "number" if pa.types.is_integer(columns[0].type) else "category")
    return plan


def together(columns: list[Any]) -> Any:
    """Columns of one name below each other; as text where files disagree on their type."""
    import pyarrow as pa

    if any(column.type != columns[0].type for column in columns):
        columns = [as_text(column) for column in columns]
    return pa.chunked_array(
        [chunk for column in columns for chunk in pa.chunked_array(column).chunks], columns[0].type
    )


def _note_left_out(plans: list[ColumnPlan], notes: list[str]) -> None:
    for kind, reason in WHY_LEFT_OUT.items():
        names = [plan.name for plan in plans if plan.kind == kind]
        if names:
            notes.append(
                f"Left out: {listed(names)}, which {reason}."
                + (" Name it in --features to use it." if kind == "id" else "")
            )


def _features(tables: list[Any], plans: list[ColumnPlan], notes: list[str]) -> Any:
    import pyarrow as pa

    converted = {}
    for plan in plans:
        parts = [convert(table[plan.name], plan) for table in tables]
        converted[plan.name] = pa.chunked_array(
            [c for part, _ in parts for c in pa.chunked_array(part).chunks], parts[0][0].type
        )
        lost = sum(count for _, count in parts)
        if lost:
            notes.append(f"{lost:,} values of {plan.name!r} are no {plan.kind} and count as missing.")
    return pa.table(converted)


def _groups(tables: list[Any], sources: list[Source], name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    found = [group_values(table[name]) for table in tables]
    for values, source in zip(found, sources, strict=True):
        missing = sum(value is None for value in values)
        if missing:
            raise InputError(
                f"{missing:,} of {len(values):,} rows of {source.path} have no {name!r}, and every row "
                "needs a group. Fill them in, "
                "drop these rows, or give them a group of their own."
            )
    return np.concatenate(found)


def _weights(tables: list[Any], name: str | None, notes: list[str]) -> np.ndarray | None:
    if name is None:
        return None
    plan = ColumnPlan(name, "number")
    parts = []
    for table in tables:
        if name not in table.column_names:
            notes.append(f"Unlabelled rows have no {name!r}: each counts as one row.")
            parts.append(np.ones(table.num_rows))
            continue
        weight = convert(table[name], plan)[0].to_numpy()
        if np.isnan(weight.astype(float)).any():
            raise InputError(
                f"Some rows have no weight {name!r}, or one that is no number. Every row needs one."
            )
        parts.append(weight.astype(float))
    return np.concatenate(parts)


def _example_ids(tables: list[Any], name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    ids: list[Any] = []
    for table in tables:
        known = as_text(table[name]).to_pylist() if name in table.column_names else [None] * table.num_rows
        # A row without an id is an example of its own.
        ids += [value if value is not None else f"\0row {len(ids) + i}" for i, value in enumerate(known)]
    return np.array(ids, dtype=object)
