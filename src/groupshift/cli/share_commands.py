"""`groupshift shares` and `groupshift report`: what a model says about its groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pyarrow as pa
from rich.console import JustifyMethod

from groupshift import GroupShiftClassifier
from groupshift._explain.class_model import ClassModel
from groupshift._explain.class_share_tables import class_shares_by
from groupshift._explain.report import write_report
from groupshift._explain.report.facts import Names
from groupshift._explain.share_tables import cell_shares, group_level_shares, labeled_sample
from groupshift._explain.wording import percent
from groupshift._io.files import STANDARD_OUTPUT, check_output, check_page_name, table_format, write_table
from groupshift.cli.errors import InputError, check_answer
from groupshift.cli.recipe import load_model
from groupshift.cli.screen import Screen, bold, print_json

# What fits a screen; all of them go to a file.
MOST_ROWS = 40


def shares(model_path: str, out: str | None, *, by: str, coverage: float, force: bool, as_json: bool) -> None:
    if by not in ("group", "cell"):
        raise InputError(f"--by {by!r} is not known. Choose group or cell.")
    check_answer(coverage, out, as_json)
    if out is not None:
        check_output(out, force=force)
        table_format(out)
    model, _, _ = load_model(model_path, group="group")
    if not len(model.groups_):
        raise InputError(
            f"{model_path} was fitted without unlabelled rows, so it knows no shares. Fit it with some."
        )
    table = share_table(model, by=by, coverage=coverage)
    if as_json:
        print_json(table.to_pylist())
    if out is not None:
        write_table(table, out, force=force)
        if out != STANDARD_OUTPUT and not as_json:
            Screen().say(f"Wrote the shares of {len(model.groups_):,} groups to ", bold(out), ".")
    elif not as_json:
        _print(table, coverage)


def share_table(model: GroupShiftClassifier, *, by: str, coverage: float) -> pa.Table:
    """Shares of the population with their interval, beside those of the labelled rows."""
    if model.is_multiclass_:
        columns = class_shares_by(cast("ClassModel", model), by, coverage)
        return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    if by == "cell":
        return pa.table(cell_shares(model, coverage))
    # A group without labelled rows has an empty cell.
    labeled = pa.array(labeled_sample(model)[0], from_pandas=True)
    return pa.table(group_level_shares(model, coverage)).append_column("labeled_share", labeled)


def _print(table: pa.Table, coverage: float) -> None:
    headings: dict[str, JustifyMethod] = {"group": "left"}
    headings |= {"cluster": "right"} if "cluster" in table.column_names else {}
    headings |= {"class": "left"} if "class" in table.column_names else {}
    headings |= {"rows": "right", "share": "right", f"{100 * coverage:g} % interval": "right"}
    headings |= {"labelled sample": "right"} if "labeled_share" in table.column_names else {}
    # The classes of a group stay together.
    ordered = table if "class" in table.column_names else table.sort_by([("share", "descending")])
    lines = [_line(row) for row in ordered.to_pylist()]
    if (more := len(lines) - MOST_ROWS) > 0:
        half = MOST_ROWS // 2
        lines[half:-half] = [[f"… {more:,} more, with --out"] + [""] * (len(headings) - 1)]
    Screen().table(headings, lines)


def _line(row: Mapping[str, float]) -> list[str]:
    line = [str(row[name]) for name in ("group", "cluster", "class") if name in row]
    line += [f"{row['rows']:,}", percent(row["share"]), f"{percent(row['low'])} to {percent(row['high'])}"]
    if "labeled_share" in row:
        line.append("none" if row["labeled_share"] is None else percent(row["labeled_share"]))
    return line


def report(model_path: str, out: str, *, force: bool) -> None:
    check_output(out, force=force)
    check_page_name(out)
    model, _, manifest = load_model(model_path, group="group")
    # What the files called target, positive class and groups; a model made in Python has no such names.
    table = manifest.get("table")
    names = Names(table.get("target"), table.get("positive"), table.get("group")) if table else None
    screen = Screen(answers_to_stderr=out == STANDARD_OUTPUT)
    with screen.working("Writing the report"):
        write_report(model, out, names=names, force=force)
    if out != STANDARD_OUTPUT:
        screen.say("Wrote ", bold(out), ". Open it in a browser; it needs no network.")
