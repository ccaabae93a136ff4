"""One HTML file on an experiment, for a reader who will argue with it, and each table and figure as files."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from groupshift.experiments.differences import against_paper
from groupshift.experiments.plots import Figure, all_figures
from groupshift.experiments.result_tables import all_tables
from groupshift.experiments.results import Results, load_results
from groupshift.experiments.store import LABELS, write_csv, write_whole
from groupshift.experiments.table_text import MINUS, NOTHING, Table, duration

SHOWN_HOLES = 30
TEXT_COLUMNS = ("Data", "Method")

CSS = Path(__file__).with_name("report.css")


def write_report(folder: str | Path, out: str | Path | None = None, *, figures: bool = True) -> Path:
    """Write the report of a folder of results; returns the HTML file.

    Each table is written as CSV and LaTeX, each figure as PNG and SVG, beside it.

    Parameters
    ----------
    out : path, optional
        Folder of the report; by default `report` inside the folder of results.
    figures : bool
        Whether to draw; needs matplotlib.
    """
    results = load_results(folder)
    if not results.values:
        raise ValueError(f"No run in {folder} is finished, so there is nothing to report. Run it first.")
    out = Path(out) if out is not None else Path(folder) / "report"
    tables = all_tables(results)
    pictures = all_figures(results) if figures else []
    for table in tables:
        write_table(table, out)
    drawn = [(figure, write_figure(figure, out)) for figure in pictures]
    page = _page(results, str(folder), tables, drawn)
    write_whole(out / "index.html", page.encode())
    return out / "index.html"


def write_table(table: Table, out: Path) -> None:
    """CSV of the numbers, LaTeX of what is shown."""
    columns = list(dict.fromkeys(key for record in table.records for key in record))
    write_csv(
        out / f"{table.name}.csv", columns, ([record.get(c) for c in columns] for record in table.records)
    )
    write_whole(out / f"{table.name}.tex", latex(table).encode())


def latex(table: Table) -> str:
    r"""A table for a paper.

    >>> print(latex(Table("t", "T", "A note.", ["Method", "AUC"], [["Label Shift", "−.010 ± .002"]])))
    \begin{table}
    \begin{tabular}{lr}
    Method & AUC \\
    \hline
    Label Shift & $-$.010 $\pm$ .002 \\
    \end{tabular}
    \caption{T. A note.}
    \end{table}
    <BLANKLINE>
    """
    lines = [
        r"\begin{table}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        f"{_latex_row(table.header)}",
        r"\hline",
        *map(_latex_row, table.body),
        r"\end{tabular}",
        rf"\caption{{{_latex_text(table.title)}. {_latex_text(table.note)}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(_latex_text, cells)) + r" \\"


def _latex_text(text: str) -> str:
    for plain, written in (
        ("\\", r"\textbackslash "),
        ("%", r"\%"),
        ("_", r"\_"),
        ("&", r"\&"),
        ("#", r"\#"),
    ):
        text = text.replace(plain, written)
    return text.replace(MINUS, "$-$").replace("±", r"$\pm$").replace(NOTHING, "--")


def write_figure(figure: Figure, out: Path) -> str:
    """PNG and SVG; returns the SVG."""
    from matplotlib import rc_context

    made = {}
    for kind in ("png", "svg"):
        data = io.BytesIO()
        # Without date and salt the same results would make another file each time.
        with rc_context({"svg.hashsalt": figure.name}):
            figure.picture.savefig(
                data, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None
            )
        made[kind] = data.getvalue()
        write_whole(out / f"{figure.name}.{kind}", made[kind])
    return made["svg"].decode()


def _page(results: Results, folder: str, tables: Sequence[Table], drawn: Sequence[tuple[Figure, str]]) -> str:
    by_name = {table.name: _table_html(table) for table in tables}
    pictures = {figure.name: _figure_html(figure, svg) for figure, svg in drawn}
    order = (
        *("table1", "table2", "table_natural", "table_amazon", "real_data", "gains"),
        *("figure2", "figure2_numbers", "figure3", "bayes_figure", "bayes", "partition_figure", "partition"),
        *("calibration", "quality", "effort"),
    )
    # A table and a figure may share a name: the figure comes first.
    parts = [
        html
        for name in order
        for html in (pictures.get(name.removesuffix("_figure")) if name in _FIGURES else by_name.get(name),)
        if html
    ]
    experiment = results.experiment
    return (
        '<!doctype html>\n<html lang="en"><head><meta '
        f'charset="utf-8"><title>{escape(experiment.title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{CSS.read_text()}</style></head><body>\n'
        f"<h1>{escape(experiment.title)}</h1>\n{_introduction(results, folder)}\n{_holes_html(results)}\n"
        f"{_differences_html(results)}\n{''.join(parts)}\n{_provenance_html(results)}</body></html>\n"
    )


_FIGURES = ("real_data", "figure2", "figure3", "bayes_figure", "partition_figure", "calibration")


def _introduction(results: Results, folder: str) -> str:
    e = results.experiment
    draws = {tuple(run[c] for c in LABELS[:5]) for run in results.runs}
    ok = sum(run["status"] == "ok" for run in results.runs)
    name = e.source or e.name
    command = f"groupshift reproduce {name} --scale {e.scale} --out {folder}"
    return (
        f'<p class="lead">{escape(e.about)}</p><p>This report is on <b>{escape(name)}</b> at scale '
        f"<b>{escape(e.scale)}</b>, seed {e.seed}: {ok:,} runs of a method on {len(draws):,} draws of data. "
        f"{escape(_draws_of_methods(results))} Every method of a draw sees the same rows and is given the "
        f"same classifier ({escape(_classifier(e))}; calibration: {escape(e.calibration)}).</p>"
        f"<p><code>{escape(command)}</code></p>"
    )


def _draws_of_methods(results: Results) -> str:
    """How many draws of a data set the methods have, those with fewer named."""
    counts: dict[str, set[int]] = {}
    for (_, method, metric), values in results.values.items():
        if metric == "auc":
            counts.setdefault(method, set()).add(len(values))
    usual = counts.get("global") or next(iter(counts.values()))
    others = [m for m in results.methods if max(counts[m]) < max(usual)]
    fewer = ", ".join(f"{results.title(m)} {_from_to(counts[m])}" for m in others)
    return f"Draws of each data set and setting: {_from_to(usual)}{f' ({fewer})' if fewer else ''}."


def _from_to(counts: set[int]) -> str:
    return f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _classifier(experiment: Any) -> str:
    params = ", ".join(f"{k} {v}" for k, v in experiment.classifier.params.items())
    return f"{experiment.classifier.name}{': ' + params if params else ''}"


def _holes_html(results: Results) -> str:
    holes = results.holes()
    if not holes:
        return "<p>No holes: every run that the file asks for is finished.</p>"
    shown = [[*(hole[c] for c in LABELS), hole["why"]] for hole in holes[:SHOWN_HOLES]]
    more = f"<p>… and {len(holes) - SHOWN_HOLES:,} more, in runs.csv.</p>" if len(holes) > SHOWN_HOLES else ""
    failed = sum(hole["why"] != "not run yet" for hole in holes)
    table = _grid([*LABELS, "why"], shown, text=("data", "method", "why"))
    return (
        f'<div class="warn"><p><b>{len(holes):,} holes</b>: {failed:,} runs failed and '
        f"{len(holes) - failed:,} were not "
        "run. Means below are over the draws that are "
        f"there.</p></div><details><summary>Which</summary>{table}{more}"
        "</details>"
    )


def _differences_html(results: Results) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in against_paper(results))
    return f"<h2>What differs from the paper</h2><ul>{items}</ul>" if items else ""


def _table_html(table: Table) -> str:
    files = f'<p class="files">Files: {table.name}.csv, {table.name}.tex</p>'
    grid = _grid(table.header, table.body)
    return f'<h2>{escape(table.title)}</h2><p class="note">{escape(table.note)}</p>{grid}{files}'


def _grid(header: Sequence[str], body: Sequence[Sequence[str]], *, text: Sequence[str] = TEXT_COLUMNS) -> str:
    is_text = [name in text for name in header]
    rows = []
    for row in body:
        ours = ' class="ours"' if any("(ours)" in cell for cell in row[:2]) else ""
        cells = "".join(_cell("td", str(cell), left) for cell, left in zip(row, is_text, strict=True))
        rows.append(f"<tr{ours}>{cells}</tr>")
    head = _head(header, is_text)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _head(header: Sequence[str], is_text: Sequence[bool]) -> str:
    """Column names; "Income: ours" begins a block of columns that stands under "Income"."""
    starts = [i for i, name in enumerate(header) if ": " in name]
    names = [name.split(": ")[-1] for name in header]
    low = "".join(_cell("th", name, left) for name, left in zip(names, is_text, strict=True))
    if not starts:
        return f"<tr>{low}</tr>"
    ends = [*starts[1:], len(header)]
    high = f"<th colspan={starts[0]}></th>" + "".join(
        f'<th class="block" colspan={end - start}>{escape(header[start].split(": ")[0])}</th>'
        for start, end in zip(starts, ends, strict=True)
    )
    return f"<tr>{high}</tr><tr>{low}</tr>"


def _cell(tag: str, content: str, left: bool) -> str:
    return f"<{tag}{' class=text' if left else ''}>{escape(content)}</{tag}>"


def _figure_html(figure: Figure, svg: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<h2>{escape(figure.title)}</h2><figure><img alt="{escape(figure.title)}" '
        f'src="data:image/svg+xml;base64,{data}"><figcaption>{escape(figure.caption)}</figcaption></figure>'
        f'<p class="files">Files: {figure.name}.png, {figure.name}.svg</p>'
    )


def _provenance_html(results: Results) -> str:
    versions = sorted({run["versions"] for run in results.runs if run["versions"]})
    hosts = sorted({run["host"] for run in results.runs if run["host"]})
    spent = sum(v for (_, _, m), vs in results.values.items() if m == "seconds" for v in vs.values())
    shared = sum(
        v for (_, _, m), vs in results.values.items() if m == "seconds_borrowed" for v in vs.values()
    )
    finished = sorted(run["finished"] for run in results.runs if run["finished"])
    mixed = "<b>Mixed versions.</b> " if len(versions) > 1 else ""
    return (
        f"<h2>Where the numbers come from</h2><p>{mixed}{escape('; '.join(versions))}. Machine: "
        f"{escape('; '.join(hosts))}. "
        f"Finished between {finished[0]} and {finished[-1]}. Methods took {duration(spent - shared)} of "
        "one core, and "
        f"would have taken {duration(spent)} without sharing. Rows: results.csv; by group: "
        "by_group.csv.gz; each run with "
        "its notes and errors: runs.csv.</p>"
    )
