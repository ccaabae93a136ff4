"""What models say about groups: `groupshift shares`, `groupshift compare` and `groupshift report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupshift import GroupShiftClassifier, share_changes
from groupshift._diagnosis.report import write_report
from groupshift._diagnosis.report.facts import Names
from groupshift._diagnosis.share_tables import shares_of_levels
from groupshift._diagnosis.wording import percent, plural, short
from groupshift.cli.errors import InputError, check_choice
from groupshift.cli.recipe import load_model, parts_of
from groupshift.cli.screen import Screen, bold, print_json
from groupshift.tables.files import STANDARD_OUTPUT, check_output, check_page_name, write_table

# Lines of a table of groups on a screen, without and with details; all of them go to a file.
MOST_ROWS, MOST_DETAILS = 14, 40
# Classes whose overall change is told in words; all are in the table.
MOST_CLASSES = 5
# What stands for a group where all rows are meant.
ALL = "(all)"
NUMBERS = ("rows", "share", "low", "high", "narrow_low", "narrow_high", "labeled_share")


def table_of(found: object) -> pa.Table:
    """What a model answers, a frame or a dict of arrays, as one kind of table; what is not known is empty."""
    columns: Mapping[str, Any]
    if isinstance(found, Mapping):
        columns = found
    else:
        frame: Any = nw.from_native(found, eager_only=True)
        columns = {name: frame[name].to_numpy() for name in frame.columns}
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def shares(
    model_path: str, out: str | None, *, by: str, coverage: float, escape_formulas: bool = False, **how: bool
) -> None:
    screen = Screen(out, **how)
    screen.check_table([model_path], coverage)
    model, _, manifest = load_model(model_path, group="group")
    columns = (manifest.get("table") or {}).get("group_columns", ())
    levels = tuple(columns) if len(columns) > 1 else ()
    check_choice("--by", by, ["group", "cell", *levels, "overall"])
    if not len(model.groups_):
        raise InputError(
            f"{model_path} was fitted without unlabeled rows, so it has no shares. Fit it with some, or update it."
        )
    table = share_table(model, by=by, coverage=coverage, columns=levels)
    with evidence_of(model_path):
        verdict = model.diagnose().verdict
    if screen.quiet:
        print_json(table.to_pylist())
    if out is not None:
        write_table(table, out, force=screen.force, escape_formulas=escape_formulas)
        whose = "the overall share" if by == "overall" else f"shares of {plural(len(model.groups_), 'group')}"
        if out != STANDARD_OUTPUT:
            screen.say(f"Wrote {whose} to ", bold(out), ".")
    else:
        _print(screen, table, coverage)
    screen.say(verdict)


@contextmanager
def evidence_of(model_path: str) -> Iterator[None]:
    """Refuse a file whose evidence lacks what a sentence asks for; it cannot be checked part by part when it is read."""
    try:
        yield
    except (KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{model_path} holds evidence that cannot be reported ({type(error).__name__}: {error}). Fit it again; if that "
            "does not help, run this with --debug and send us what it shows."
        ) from error


def share_table(
    model: GroupShiftClassifier, *, by: str, coverage: float, columns: Sequence[str] = ()
) -> pa.Table:
    """Shares of the population with their intervals, all rows together first, beside those of the labeled rows.

    `columns` are those that make a group, where they are several: their values stand beside the groups, and `by` may name
    one of them.
    """
    if by in columns and not model.is_multiclass_:
        values = np.array([parts_of(str(group), len(columns))[columns.index(by)] for group in model.groups_])
        names, level = np.unique(values, return_inverse=True)
        table = table_of({by: names.astype(object), **shares_of_levels(model, level, coverage)})
    else:
        table = table_of(model.group_shares(by=by, coverage=coverage))
    if by == "overall" or model.is_multiclass_:
        return table
    if by == "group" and columns:
        parts = zip(*(parts_of(str(group), len(columns)) for group in model.groups_), strict=True)
        for place, (column, own) in enumerate(zip(columns, parts, strict=True), 1):
            table = table.add_column(place, column, pa.array(own))
    whole = table_of(model.group_shares(by="overall", coverage=coverage)).to_pydict()
    if table.schema.field(0).type in (pa.string(), pa.large_string()):
        # Where groups are numbers, they have no name for all rows, and the cell is empty.
        whole[table.column_names[0]] = [ALL]
    first = [pa.array(whole.get(f.name, [None]), f.type) for f in table.schema]
    return pa.concat_tables([pa.table(first, schema=table.schema), table])


def _print(screen: Screen, table: pa.Table, coverage: float) -> None:
    """All rows together first, then groups by their share; the classes of a group stay together."""
    names = [name for name in table.column_names if name not in NUMBERS]
    has_labeled = "labeled_share" in table.column_names
    headings = [
        *names,
        ">rows",
        ">share",
        f">{100 * coverage:g} % interval",
        *[">labeled sample"] * has_labeled,
    ]
    if "class" not in names:
        table = pa.concat_tables([table.slice(0, 1), table.slice(1).sort_by([("share", "descending")])])
    lines = []
    for row in table.to_pylist():
        line = ["" if row[name] is None else _fitting(screen, row[name]) for name in names]
        line += [
            f"{row['rows']:,}",
            percent(row["share"]),
            f"{percent(row['low'])} to {percent(row['high'])}",
        ]
        lines.append([*line, *([percent(row["labeled_share"])] if has_labeled else [])])
    half = (MOST_DETAILS if screen.details else MOST_ROWS) // 2
    if (more := len(lines) - 2 * half) > 0:
        lines[half:-half] = [[f"… {more:,} more, with --out"] + [""] * (len(headings) - 1)]
    screen.table(headings, lines)


def _fitting(screen: Screen, name: object) -> str:
    return str(name) if screen.details else short(str(name))


def compare(before: str, after: str, out: str | None, *, coverage: float, **how: bool) -> None:
    screen = Screen(out, **how)
    screen.check_table([before, after], coverage)
    models = [load_model(path, group="group")[0] for path in (before, after)]
    for model, path in zip(models, (before, after), strict=True):
        if not len(model.groups_):
            raise InputError(f"{path} was fitted without unlabeled rows, so it has no shares to compare.")
    table = change_table(*models, coverage=coverage)
    if screen.quiet:
        print_json(table.to_pylist())
    if out is not None:
        write_table(table, out, force=screen.force)
    show_changes(screen, table, coverage)
    if out not in (None, STANDARD_OUTPUT):
        screen.say("Wrote all groups to ", bold(out), ".")


def change_table(before: GroupShiftClassifier, after: GroupShiftClassifier, *, coverage: float) -> pa.Table:
    """Shares of two models and their changes, all rows together first; `beyond_noise` where an interval leaves out zero."""
    overall, groups = (
        table_of(share_changes(before, after, by=by, coverage=coverage)) for by in ("overall", "group")
    )
    names = pa.array([*[ALL] * len(overall), *map(str, groups["group"].to_pylist())])
    table = pa.concat_tables([overall, groups.drop_columns(["group"])], promote_options="permissive")
    moved = pc.or_(pc.greater(table["low"], 0), pc.less(table["high"], 0))
    return table.add_column(0, "group", names).append_column("beyond_noise", pc.fill_null(moved, False))


def show_changes(screen: Screen, table: pa.Table, coverage: float) -> None:
    """What changed, the groups that moved first."""
    has_classes = "class" in table.column_names
    rows = [
        row | ({"group": f"{row['group']}, {row['class']}"} if has_classes else {})
        for row in table.to_pylist()
    ]
    n_whole = sum(name == ALL for name in table["group"].to_pylist()) if has_classes else 1
    whole, groups = rows[:n_whole], rows[n_whole:]
    one = "group" if n_whole == 1 else "share"
    known = [row for row in groups if row["change"] is not None]
    moved = sorted((row for row in known if row["beyond_noise"]), key=lambda row: -abs(row["change"]))
    for words, missing in (("only before", "after"), ("only after", "before")):
        if only := [row for row in groups if row[missing] is None]:
            screen.say(f"{plural(len(only), one)} {words}: {', '.join(str(r['group']) for r in only[:6])}.")
    about = "; ".join(_went(row, named=has_classes) for row in whole[:MOST_CLASSES])
    if not moved:
        screen.say(
            f"The overall share {about}. No {one} moved beyond noise ({100 * coverage:g} % intervals)."
        )
        return
    screen.say(f"The overall share {about}. {len(moved):,} of {plural(len(known), one)} moved beyond noise:")
    most = MOST_DETAILS if screen.details else MOST_ROWS
    lines = [
        [_fitting(screen, row["group"]), percent(row["before"]), percent(row["after"]), *_change_cells(row)]
        for row in moved[:most]
    ]
    screen.table(("group", ">before", ">after", ">change", f">{100 * coverage:g} % interval"), lines)
    if (more := len(moved) - most) > 0:
        screen.say(f"… and {more:,} more.")


def _went(row: Mapping[str, Any], *, named: bool) -> str:
    change, interval = _change_cells(row)
    noise = "" if row["beyond_noise"] else ", which may be noise"
    whose = f"of {row['class']} " if named else ""
    return (
        f"{whose}went from {percent(row['before'])} to {percent(row['after'])}, {change} ({interval}){noise}"
    )


def _change_cells(row: Mapping[str, Any]) -> list[str]:
    change, low, high = (f"{100 * row[name]:+.1f}" for name in ("change", "low", "high"))
    return [f"{change} points", f"{low} to {high}"]


def report(model_path: str, out: str, *, force: bool) -> None:
    check_output(out, force=force, inputs=[model_path])
    check_page_name(out)
    model, _, manifest = load_model(model_path, group="group")
    # What the files called target, positive class and groups; a model made in Python has no such names.
    table = manifest.get("table")
    names = Names(table.get("target"), table.get("positive"), table.get("group")) if table else None
    screen = Screen(out)
    with screen.working("Writing the report"), evidence_of(model_path):
        write_report(model, out, names=names, force=force)
    if out != STANDARD_OUTPUT:
        screen.say("Wrote ", bold(out), ". Open it in a browser; it needs no network.")
