"""One HTML file on an experiment, for a reader who will argue with it, and each table and figure as files."""

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from paper.differences import against_paper
from paper.plots import Figure, all_figures
from paper.result_tables import all_tables
from paper.results import Results, load_results
from paper.store import LABELS, write_csv, write_whole
from paper.table_text import MINUS, NOTHING, Table, duration

SHOWN_HOLES = 30
# Tables and figures by their names, as they follow each other on the page; a star marks a figure.
ORDER = (
    *("table1", "table2", "table_natural", "table_amazon", "real_data*", "gains", "figure2*"),
    *("figure2_numbers", "figure3*", "bayes*", "bayes", "partition*", "partition", "calibration*"),
    *("quality", "effort"),
)
LATEX = {"\\": r"\textbackslash ", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"}
LATEX |= {MINUS: "$-$", "±": r"$\pm$", NOTHING: "--"}
FOLDER = Path(__file__).parent


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
    parts: dict[str, object] = {}
    for table in all_tables(results):
        write_table(table, out)
        parts[table.name] = table
    for figure in all_figures(results) if figures else []:
        svg = base64.b64encode(write_figure(figure, out)).decode()
        named = {"name": figure.name, "title": figure.title, "caption": figure.caption}
        parts[f"{figure.name}*"] = {**named, "svg": svg}
    page = _page(results, str(folder), [parts[name] for name in ORDER if name in parts])
    write_whole(out / "index.html", page)
    return out / "index.html"


def write_table(table: Table, out: Path) -> None:
    """CSV of the numbers, LaTeX of what is shown."""
    columns = list(dict.fromkeys(key for record in table.records for key in record))
    rows = ([record.get(c) for c in columns] for record in table.records)
    write_csv(out / f"{table.name}.csv", columns, rows)
    write_whole(out / f"{table.name}.tex", latex(table))


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
        _latex_row(table.header),
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
    return "".join(LATEX.get(letter, letter) for letter in text)


def write_figure(figure: Figure, out: Path) -> bytes:
    """PNG and SVG; returns the SVG."""
    from matplotlib import rc_context

    made = {}
    for kind in ("png", "svg"):
        data = io.BytesIO()
        # Without date and salt the same results would make another file each time.
        with rc_context({"svg.hashsalt": figure.name}):
            metadata = {"Date": None} if kind == "svg" else None
            figure.picture.savefig(data, format=kind, dpi=150, metadata=metadata)
        made[kind] = data.getvalue()
        write_whole(out / f"{figure.name}.{kind}", made[kind])
    return made["svg"]


def _page(results: Results, folder: str, parts: Sequence[object]) -> str:
    import jinja2

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER), autoescape=True)
    environment.filters["blocks"] = lambda header: list(column_blocks(header))
    holes = results.holes()
    seconds, shared = results.total("seconds"), results.total("seconds_borrowed")
    page: str = environment.get_template("experiment_report.html").render(
        css=(FOLDER / "report.css").read_text(),
        experiment=results.experiment,
        name=results.experiment.source or results.experiment.name,
        folder=folder,
        n_runs=sum(run["status"] == "ok" for run in results.runs),
        n_draws=len({tuple(run[c] for c in LABELS[:5]) for run in results.runs}),
        draws_of_methods=_draws_of_methods(results),
        holes=[[*(hole[c] for c in LABELS), hole["why"]] for hole in holes],
        n_failed=sum(hole["why"] != "not run yet" for hole in holes),
        shown_holes=SHOWN_HOLES,
        hole_columns=[*LABELS, "why"],
        differences=against_paper(results),
        parts=parts,
        versions=sorted({run["versions"] for run in results.runs if run["versions"]}),
        commit=results.commit,
        hosts=sorted({run["host"] for run in results.runs if run["host"]}),
        finished=sorted(run["finished"] for run in results.runs if run["finished"]),
        alone=duration(seconds - shared),
        unshared=duration(seconds),
    )
    return page


def column_blocks(header: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Titles above columns and how many columns they span; "Income: ours" begins a block "Income".

    >>> list(column_blocks(["Method", "Income: ours", "published", "IPR: ours"]))
    [('', 1), ('Income', 2), ('IPR', 1)]
    """
    starts = [i for i, name in enumerate(header) if ": " in name]
    if starts:
        yield "", starts[0]
    for start, end in pairwise([*starts, len(header)]):
        yield header[start].split(": ")[0], end - start


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
