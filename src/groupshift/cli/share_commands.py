"""`groupshift shares` and `groupshift report`: what a model says about its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from rich.console import JustifyMethod

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import write_report
from groupshift._diagnosis.report.facts import Names
from groupshift._diagnosis.share_tables import shares_by, shares_of_levels
from groupshift._diagnosis.wording import percent
from groupshift.cli.errors import InputError, check_answer
from groupshift.cli.grouped import parts_of
from groupshift.cli.recipe import load_model
from groupshift.cli.screen import Screen, bold, print_json
from groupshift.tables.files import STANDARD_OUTPUT, check_output, check_page_name, write_table

# What fits a screen; all of them go to a file.
MOST_ROWS = 40
# What stands for a group where all rows are meant.
ALL = "(all)"


def shares(
    model_path: str,
    out: str | None,
    *,
    by: str,
    coverage: float,
    force: bool,
    as_json: bool,
    escape_formulas: bool = False,
) -> None:
    check_answer(out, force=force, as_json=as_json, inputs=[model_path], coverage=coverage)
    model, _, manifest = load_model(model_path, group="group")
    columns = (manifest.get("table") or {}).get("group_columns", ())
    levels = tuple(columns) if len(columns) > 1 else ()
    choices = ["group", "cell", *levels, "overall"]
    if by not in choices:
        raise InputError(f"--by {by!r} is not known. Choose {', '.join(choices[:-1])} or {choices[-1]}.")
    if not len(model.groups_):
        raise InputError(
            f"{model_path} was fitted without unlabelled rows, so it knows no shares. Fit it with some."
        )
    table = share_table(model, by=by, coverage=coverage, columns=levels)
    if as_json:
        print_json(table.to_pylist())
    if out is not None:
        write_table(table, out, force=force, escape_formulas=escape_formulas)
        if out != STANDARD_OUTPUT and not as_json:
            whose = "the overall share" if by == "overall" else f"the shares of {len(model.groups_):,} groups"
            Screen().say(f"Wrote {whose} to ", bold(out), ".")
    elif not as_json:
        _print(table, coverage)


def share_table(
    model: GroupShiftClassifier, *, by: str, coverage: float, columns: Sequence[str] = ()
) -> pa.Table:
    """Shares of the population with their interval, all rows together first, beside those of the labelled rows.

    `columns` are those that make a group, where they are several: their values stand beside the groups, and `by` may name
    one of them.
    """
    if model.is_multiclass_:
        by_class = shares_by(model, by, coverage)
        return pa.table({name: pa.array(values, from_pandas=True) for name, values in by_class.items()})
    if by in columns:
        values = np.array([parts_of(str(group), len(columns))[columns.index(by)] for group in model.groups_])
        names, level = np.unique(values, return_inverse=True)
        found = {by: names.astype(object), **shares_of_levels(model, level, coverage)}
    else:
        found = shares_by(model, by, coverage)
    # A group without labelled rows has an empty cell.
    table = pa.table({name: pa.array(v, from_pandas=name == "labeled_share") for name, v in found.items()})
    if by == "group" and columns:
        parts = zip(*(parts_of(str(group), len(columns)) for group in model.groups_), strict=True)
        for place, (column, own) in enumerate(zip(columns, parts, strict=True), 1):
            table = table.add_column(place, column, pa.array(own))
    return table if by == "overall" else pa.concat_tables([_overall(model, table, coverage), table])


def _overall(model: GroupShiftClassifier, table: pa.Table, coverage: float) -> pa.Table:
    """The line of all rows together; where groups are no text, they have no name for it, and the cell is empty."""
    known = {name: pa.array(values) for name, values in shares_by(model, "overall", coverage).items()}
    first = table.column_names[0]
    if pa.types.is_string(table[first].type):
        known[first] = pa.array([ALL])
    return pa.table(
        [known.get(f.name, pa.nulls(1, f.type)).cast(f.type) for f in table.schema], schema=table.schema
    )


def _print(table: pa.Table, coverage: float) -> None:
    """All rows together first, then groups by their share; the classes of a group stay together."""
    numbers = {
        "rows": "rows",
        "share": "share",
        "low": f"{100 * coverage:g} % interval",
        "labeled_share": "labelled sample",
    }
    names = [name for name in table.column_names if name not in (*numbers, "high")]
    headings: dict[str, JustifyMethod] = dict.fromkeys(names, "left")
    headings |= {shown: "right" for name, shown in numbers.items() if name in table.column_names}
    parts = (table.slice(0, 1), table.slice(1).sort_by([("share", "descending")]))
    if "class" in names:
        parts = (table, table.slice(0, 0))
    lines = [_line(row, names) for part in parts for row in part.to_pylist()]
    if (more := len(lines) - MOST_ROWS) > 0:
        half = MOST_ROWS // 2
        lines[half:-half] = [[f"… {more:,} more, with --out"] + [""] * (len(headings) - 1)]
    Screen().table(headings, lines)


def _line(row: Mapping[str, float], names: Sequence[str]) -> list[str]:
    line = ["" if row[name] is None else str(row[name]) for name in names]
    line += [f"{row['rows']:,}", percent(row["share"]), f"{percent(row['low'])} to {percent(row['high'])}"]
    if "labeled_share" in row:
        line.append("none" if row["labeled_share"] is None else percent(row["labeled_share"]))
    return line


def report(model_path: str, out: str, *, force: bool) -> None:
    check_output(out, force=force, inputs=[model_path])
    check_page_name(out)
    model, _, manifest = load_model(model_path, group="group")
    # What the files called target, positive class and groups; a model made in Python has no such names.
    table = manifest.get("table")
    names = Names(table.get("target"), table.get("positive"), table.get("group")) if table else None
    screen = Screen(data_to=out)
    try:
        with screen.working("Writing the report"):
            write_report(model, out, names=names, force=force)
    except (KeyError, IndexError, AttributeError, ArithmeticError) as error:
        # What evidence a file holds cannot be checked part by part: each sentence asks for its own.
        raise InputError(
            f"{model_path} holds evidence that cannot be told ({type(error).__name__}: {error}). Fit the model again; if that "
            "does not help, run this with --debug and report what it shows."
        ) from error
    if out != STANDARD_OUTPUT:
        screen.say("Wrote ", bold(out), ". Open it in a browser; it needs no network.")
