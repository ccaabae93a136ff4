"""Fills the table against the paper in docs/explanation/results.md.

    python docs/make_results_table.py [results/beyond]

It comes from results.csv and experiment.json in a folder that `groupshift reproduce` wrote. Nothing but what stands
between the comments changes.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from groupshift.experiments.differences import against_paper
from groupshift.experiments.grid import list_tasks
from groupshift.experiments.published import NAMES, published_auc
from groupshift.experiments.results import Mean, Results, load_results
from groupshift.experiments.table_text import place_title, share, signed

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "explanation" / "results.md"
FOLDER = ROOT / "results" / "beyond"
ABSENT = (
    "The experiments behind this table have not been run yet: `groupshift reproduce beyond --scale results`."
)
SHORT = ("global", "published", "groupshift", "true_clustering")
# (data, setting) as in results.csv.
Title = tuple[str, str]


def main(folder: str | None = None) -> None:
    text = TARGET.read_text(encoding="utf-8")
    TARGET.write_text(current(text, Path(folder) if folder else FOLDER), encoding="utf-8")


def current(text: str, folder: Path = FOLDER) -> str:
    """The page with its table as the files have it now."""
    return filled(text, "results", block(folder))


def filled(text: str, name: str, content: str) -> str:
    """The text with what stands between two comments replaced.

    >>> filled("a <!-- b:begin -->old<!-- b:end --> c", "b", "new").split()
    ['a', '<!--', 'b:begin', '-->', 'new', '<!--', 'b:end', '-->', 'c']
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def block(folder: Path) -> str:
    """What the page says about a folder of results."""
    if not (folder / "results.csv").is_file():
        return ABSENT
    # The tables as they stand: to make them anew would meddle with a running experiment.
    results = load_results(folder, combine=False)
    values = draws(results)
    titles = list(dict.fromkeys((data, setting) for data, setting, _, _ in values))
    return "\n\n".join(
        [
            _source(results, folder),
            markdown(*short_table(values, titles)),
            "<details><summary>Every method, and log loss</summary>",
            markdown(*full_table(results, values, titles), words=2),
            "</details>",
            "<details><summary>What differs from the paper's experiments</summary>",
            "\n".join(f"- {sentence}" for sentence in against_paper(results)),
            "</details>",
        ]
    )


def draws(results: Results) -> dict[tuple[str, str, str, str], dict[tuple, float]]:
    """Values by (data, setting, method, metric), one for each draw; synthetic sets of all d and K together."""
    pooled: dict = {}
    for (place, method, metric), by_repetition in results.values.items():
        mine = pooled.setdefault((*place[:2], method, metric), {})
        mine |= {(*place[2:], repetition): value for repetition, value in by_repetition.items()}
    return pooled


def gain(values: dict, title: Title, method: str, metric: str) -> Mean:
    """Mean difference to Global over the draws that both have."""
    mine, base = values.get((*title, method, metric), {}), values.get((*title, "global", metric), {})
    return Mean.of(mine[draw] - base[draw] for draw in mine if draw in base)


def mean(values: dict, title: Title, method: str, metric: str) -> Mean:
    return Mean.of(values.get((*title, method, metric), {}).values())


def short_table(values: dict, titles: Sequence[Title]) -> tuple[list[str], list[list[str]]]:
    header = ["AUC", "draws", *(NAMES[m] for m in SHORT), "ours less Global", "log loss: ours less Global"]
    header += ["published: Global", "the paper's method"]
    body = []
    for title in titles:
        common = on_common_draws(values, title)
        means = [mean(common, title, method, "auc") for method in SHORT]
        cells = [share(m.value) if m.n else "" for m in means]
        gains = [signed(gain(common, title, "groupshift", metric)) for metric in ("auc", "log_loss")]
        published = [share(published_auc(method, *title)) for method in ("global", "published")]
        body.append([place_title(*title), str(max(m.n for m in means)), *cells, *gains, *published])
    return header, body


def on_common_draws(values: dict, title: Title) -> dict:
    """Values of the methods side by side, on the draws that all of them have: other draws may be harder."""
    wanted = [(*title, method, metric) for method in SHORT for metric in ("auc", "log_loss")]
    there = {key: values[key] for key in wanted if key in values}
    common = set.intersection(*map(set, there.values()))
    return {key: {draw: by_draw[draw] for draw in common} for key, by_draw in there.items()}


def full_table(results: Results, values: dict, titles: Sequence[Title]) -> tuple[list[str], list[list[str]]]:
    header = [
        "Data",
        "Method",
        "draws",
        "AUC",
        "less Global",
        "log loss",
        "less Global",
        "published AUC",
        "less Global",
    ]
    return header, [row for title in titles for row in _rows_of(results, values, title)]


def _rows_of(results: Results, values: dict, title: Title) -> Iterator[list[str]]:
    for method in results.methods:
        auc = mean(values, title, method, "auc")
        if not auc.n:
            continue
        cells = [place_title(*title), results.title(method), str(auc.n)]
        for metric in ("auc", "log_loss"):
            own = "" if method == "global" else signed(gain(values, title, method, metric))
            cells += [share(mean(values, title, method, metric).value), own]
        paper, base = published_auc(method, *title), published_auc("global", *title)
        against = "" if paper is None or base is None or method == "global" else signed(paper - base)
        yield [*cells, share(paper), against]


def _source(results: Results, folder: Path) -> str:
    where = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    experiment = results.experiment
    return (
        f"Made by `groupshift reproduce {experiment.name} --scale {experiment.scale}`, kept in "
        f"`{where}/results.csv`, and put here by `python docs/make_results_table.py`.\n"
        "Means over draws on held-out rows of the population; ± is half of a 95 % interval of the paired difference.\n"
        f"{experiment.about}{_unfinished(results)}\n"
        "Published numbers come from larger and partly other data: compare differences, not levels."
    )


def _unfinished(results: Results) -> str:
    """A warning if some of the planned runs are not in the file."""
    planned = len(list_tasks(results.experiment))
    there = sum(len(draw) for (_, _, metric), draw in results.values.items() if metric == "log_loss")
    return "" if there >= planned else f" {there:,} of {planned:,} planned runs are in the file."


def markdown(header: Sequence[str], body: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A table in Markdown, its first columns words to the left, the others numbers to the right.

    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    rule = "|" + "---|" * words + "--:|" * (len(header) - words)
    return "\n".join([_line(header), rule, *map(_line, body)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(*sys.argv[1:])
