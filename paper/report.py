"""One HTML file in which every table and figure of the article stands beside ours."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from paper.differences import against_article
from paper.plots import breakdown_figure, illustration, relative_figure
from paper.result_tables import all_tables
from paper.results import Results, load_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent
DIAMONDS = "Boxes, dots: ours. Diamonds: the article's medians, read from its figure."


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a folder of results, its figures beside it; returns the HTML file.

    Data sets that the folder lacks are taken from the stored run of the same experiment (`paper/results`), and said to be.
    """
    results, borrowed = _with_stored(load_results(folder), Path(folder))
    if not results.values:
        raise ValueError(f"No run in {folder} is finished, so there is nothing to report. Run it first.")
    out = Path(folder) / "report" if out is None else Path(out)
    out.mkdir(parents=True, exist_ok=True)
    figures = {
        "Figure 1": (illustration(), "Drawn from our generator, pairs by the authors' walk; d = 1, K = 2."),
        "Figure 2": (relative_figure(results), f"Over the (d, K), each averaged over draws. {DIAMONDS}"),
        "Figure 3": (breakdown_figure(results), f"Setting 2, over draws. {DIAMONDS}"),
    }
    import jinja2

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER), autoescape=True)
    environment.filters["blocks"] = lambda header: list(column_blocks(header))
    page = environment.get_template("report.html").render(
        css=(FOLDER / "report.css").read_text(),
        experiment=results.described,
        folder=folder,
        borrowed=borrowed,
        differences=against_article(results),
        tables=all_tables(results),
        figures={
            name: (write_figure(figure, out / name.lower().replace(" ", "")), caption)
            for name, (figure, caption) in figures.items()
        },
    )
    (out / "index.html").write_text(page, encoding="utf-8")
    return out / "index.html"


def _with_stored(results: Results, folder: Path) -> tuple[Results, str]:
    """The results with data sets of the stored run that they lack, and a sentence on these."""
    stored_folder = FOLDER / "results" / results.described["name"]
    if stored_folder.resolve() == folder.resolve() or not (stored_folder / "results.csv").is_file():
        return results, ""
    stored, there = load_results(stored_folder), {place[0] for place in results.places}
    added = {key: draws for key, draws in stored.values.items() if key[0][0] not in there}
    if not added:
        return results, ""
    names = ", ".join(sorted({key[0][0] for key in added}))
    tables = {**stored.described["tables"], **results.described["tables"]}
    merged = replace(
        results, values={**results.values, **added}, described={**results.described, "tables": tables}
    )
    of = f"scale {stored.described['scale']}, commit {stored.described['origin']['commit'][:12]}"
    return merged, f"Not run here, but taken from {stored_folder.relative_to(FOLDER.parent)} ({of}): {names}."


def write_figure(figure: "Figure", path: Path) -> str:
    """PNG and SVG; returns the SVG for a page, encoded."""
    from matplotlib import rc_context

    data = io.BytesIO()
    # Without date and salt the same results would make another file each time.
    with rc_context({"svg.hashsalt": path.name}):
        figure.savefig(data, format="svg", metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120)
    path.with_suffix(".svg").write_bytes(data.getvalue())
    return base64.b64encode(data.getvalue()).decode()


def column_blocks(header: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Titles above columns and how many columns they span; "Income: ours" begins a block "Income".

    >>> list(column_blocks(["Method", "Income: ours", "article", "IPR: ours"]))
    [('', 1), ('Income', 2), ('IPR', 1)]
    """
    starts = [i for i, name in enumerate(header) if ": " in name]
    if starts:
        yield "", starts[0]
    for start, end in pairwise([*starts, len(header)]):
        yield header[start].split(": ")[0], end - start
