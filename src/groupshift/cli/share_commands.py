"""`groupshift shares` and `groupshift report`: what a model says about its groups."""

import tempfile
from pathlib import Path
from typing import Any

from groupshift._explain.wording import percent
from groupshift._io.files import (
    STANDARD_OUTPUT,
    check_output,
    check_page_name,
    table_format,
    whole_file,
    write_table,
)
from groupshift.cli.errors import InputError
from groupshift.cli.models import load_model
from groupshift.cli.screen import Screen, bold, print_json

# What fits a screen; all of them go to a file.
MOST_ROWS = 40


def shares(model_path: str, out: str | None, *, by, coverage, force, as_json) -> None:
    if by not in ("group", "cell"):
        raise InputError(f"--by {by!r} is not known. Choose group or cell.")
    if not 0 < coverage < 1:
        raise InputError(
            f"--coverage {coverage} is no probability. Pass a number between 0 and 1, such as 0.9."
        )
    if as_json and out == STANDARD_OUTPUT:
        raise InputError("--json and --out - both want standard output. Name a file for the table.")
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


def share_table(model: Any, *, by: str, coverage: float) -> Any:
    """Shares of the population with their interval, beside those of the labelled rows."""
    import pyarrow as pa

    from groupshift._explain.share_tables import cell_shares, group_level_shares, labeled_sample

    if by == "cell":
        return pa.table(cell_shares(model, coverage))
    # A group without labelled rows has an empty cell.
    labeled = pa.array(labeled_sample(model)[0], from_pandas=True)
    return pa.table(group_level_shares(model, coverage)).append_column("labeled_share", labeled)


def _print(table: Any, coverage: float) -> None:
    screen = Screen()
    rows = table.sort_by([("share", "descending")]).to_pylist()
    headings = {"group": "left"} | ({"cluster": "right"} if "cluster" in rows[0] else {})
    headings |= {"rows": "right", "share": "right", f"{100 * coverage:g} % interval": "right"}
    if "labeled_share" in rows[0]:
        headings["labelled sample"] = "right"
    shown = rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS // 2] + rows[-MOST_ROWS // 2 :]
    lines = [_line(row) for row in shown]
    if len(shown) < len(rows):
        lines.insert(
            MOST_ROWS // 2, [f"… {len(rows) - len(shown):,} more, with --out"] + [""] * (len(headings) - 1)
        )
    screen.table(headings, lines)


def _line(row: dict[str, Any]) -> list[str]:
    line = [str(row["group"])] + ([str(row["cluster"])] if "cluster" in row else [])
    line += [f"{row['rows']:,}", percent(row["share"]), f"{percent(row['low'])} to {percent(row['high'])}"]
    if "labeled_share" in row:
        line.append("none" if row["labeled_share"] is None else percent(row["labeled_share"]))
    return line


def report(model_path: str, out: str, *, force) -> None:
    check_output(out, force=force)
    check_page_name(out)
    model, _, manifest = load_model(model_path, group="group")
    screen = Screen(answers_to_stderr=out == STANDARD_OUTPUT)
    with screen.working("Writing the report"):
        write_report_file(model, out, names=_names(manifest), force=force)
    if out != STANDARD_OUTPUT:
        screen.say("Wrote ", bold(out), ". Open it in a browser; it needs no network.")


def _names(manifest: dict[str, Any]) -> Any:
    """What the files called target, positive class and groups; None for a model made in Python."""
    from groupshift._explain.report.facts import Names

    table = manifest.get("table")
    return Names(table.get("target"), table.get("positive"), table.get("group")) if table else None


def write_report_file(model: Any, out: str | Path, *, names: Any = None, force: bool) -> None:
    """The HTML report, whole or not at all."""
    from groupshift._explain.report import write_report

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "report.html"
        write_report(model, made, names=names)
        with whole_file(out, force=force) as file:
            file.write(made.read_bytes())
