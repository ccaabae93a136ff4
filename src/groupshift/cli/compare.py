"""`groupshift compare`: which groups moved between two models, by how much, beyond noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.share_tables import share_changes
from groupshift._diagnosis.wording import percent, plural
from groupshift.cli.errors import InputError, check_answer
from groupshift.cli.recipe import load_model
from groupshift.cli.screen import Screen, bold, print_json
from groupshift.cli.share_commands import ALL, MOST_ROWS
from groupshift.tables.files import STANDARD_OUTPUT, write_table

Row = Mapping[str, Any]
# Classes whose overall change is told in words; all are in the table.
MOST_CLASSES = 5


def compare(before: str, after: str, out: str | None, *, coverage: float, force: bool, as_json: bool) -> None:
    check_answer(out, force=force, as_json=as_json, coverage=coverage)
    models = [load_model(path, group="group")[0] for path in (before, after)]
    for model, path in zip(models, (before, after), strict=True):
        if not len(model.groups_):
            raise InputError(f"{path} was fitted without unlabelled rows, so it knows no shares to compare.")
    table = change_table(*models, coverage=coverage)
    if as_json:
        print_json(table.to_pylist())
    if out is not None:
        write_table(table, out, force=force)
    screen = Screen(data_to=out, quiet=as_json)
    show_changes(screen, table, coverage)
    if out not in (None, STANDARD_OUTPUT):
        screen.say("Wrote all groups to ", bold(out), ".")


def change_table(before: GroupShiftClassifier, after: GroupShiftClassifier, *, coverage: float) -> pa.Table:
    """Shares of two models and their changes, all rows together first; `beyond_noise` where an interval leaves out zero."""
    overall, groups = (share_changes(before, after, by=by, coverage=coverage) for by in ("overall", "group"))
    first = [ALL] * len(np.asarray(overall["change"]))
    names = {"group": [*first, *map(str, np.asarray(groups["group"]).tolist())]}
    if after.is_multiclass_:
        names["class"] = [
            str(name) for part in (overall, groups) for name in np.asarray(part["class"]).tolist()
        ]
    columns = ("before", "after", "change", "low", "high")
    numbers = {
        name: np.concatenate([np.asarray(overall[name]), np.asarray(groups[name])]) for name in columns
    }
    moved = (numbers["low"] > 0) | (numbers["high"] < 0)
    values = {name: pa.array(found, from_pandas=True) for name, found in numbers.items()}
    return pa.table({**names, **values, "beyond_noise": moved})


def show_changes(screen: Screen, table: pa.Table, coverage: float) -> None:
    """What changed, the groups that moved first."""
    rows = [row | {"group": _named(row)} for row in table.to_pylist()]
    n_whole = sum(name == ALL for name in table["group"].to_pylist()) if "class" in table.column_names else 1
    whole, groups = rows[:n_whole], rows[n_whole:]
    one = "group" if n_whole == 1 else "share"
    known = [row for row in groups if row["change"] is not None]
    moved = sorted((row for row in known if row["beyond_noise"]), key=lambda row: -abs(row["change"]))
    for words, missing in (("before only", "after"), ("after only", "before")):
        if only := [row for row in groups if row[missing] is None]:
            screen.say(f"{plural(len(only), one)} {words}: {', '.join(str(r['group']) for r in only[:6])}.")
    about = (
        "The overall share " + "; ".join(_went(row, named=n_whole > 1) for row in whole[:MOST_CLASSES]) + "."
    )
    if not moved:
        screen.say(
            f"{about} No {one} moved beyond noise ({100 * coverage:g} % intervals of all changes hold zero)."
        )
        return
    screen.say(f"{about} {len(moved):,} of {plural(len(known), one)} moved beyond noise:")
    lines = [
        [str(row["group"]), percent(row["before"]), percent(row["after"]), *_change_cells(row)]
        for row in moved[:MOST_ROWS]
    ]
    heading = f"{100 * coverage:g} % interval"
    screen.table(
        {"group": "left", "before": "right", "after": "right", "change": "right", heading: "right"}, lines
    )
    if (more := len(moved) - MOST_ROWS) > 0:
        screen.say(f"… and {more:,} more, with --out.")


def _named(row: Row) -> str:
    """A group, or a class of a group."""
    return f"{row['group']}, {row['class']}" if "class" in row else str(row["group"])


def _went(row: Row, *, named: bool) -> str:
    whose = f"of {row['class']} " if named else ""
    return f"{whose}went from {percent(row['before'])} to {percent(row['after'])}, {_change(row)}"


def _change_cells(row: Row) -> list[str]:
    change, low, high = (f"{100 * row[name]:+.1f}" for name in ("change", "low", "high"))
    return [f"{change} points", f"{low} to {high}"]


def _change(row: Row) -> str:
    change, interval = _change_cells(row)
    return f"{change} ({interval})" + ("" if row["beyond_noise"] else ", which may be noise")
