"""Draws and fills in what README.md and two pages show of results/: pictures in docs/images, and blocks between comments.

    python docs/make_results.py

`python -m benchmarks.evidence` writes the files of the evidence, `python -m benchmarks growth` those of the times. Tests compare
the blocks with the files, and each picture carries the checksum of the draws that it was drawn from.
"""

import csv
import gzip
import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.ablation_draws import TABLES
from benchmarks.evidence import difference

EVIDENCE = ROOT / "results" / "evidence"
GROWTH = ROOT / "results" / "benchmarks" / "growth.json"
IMAGES = ROOT / "docs" / "images"
KINDS = {
    "random": "a random sample",
    "mar": "by features and group",
    "volunteers": "volunteers",
    "common": "positives more often, everywhere",
    "severe": "positives by their features",
    "natural": "all of half of the groups",
    "s1": "the article's setting 1",
    "s2": "the article's setting 2",
    "s2tree": "setting 2, cells of a tree",
    "fewg": "volunteers in eight groups",
    "fewr": "a random sample, eight groups",
    "tinyv": "volunteers, 2,000 rows",
    "tinyr": "a random sample, 2,000 rows",
}
# Of Okabe and Ito's palette, as in groupshift.displays: color-blind readers can tell them apart.
METHODS = {
    "plain": ("one classifier that ignores groups", "#9a9a9a"),
    "random intercept": ("mixed model", "#009E73"),
    "label shift": ("label shift, group by group", "#E69F00"),
    "published": ("the article's method", "#D55E00"),
    "groupshift": ("groupshift", "#0072B2"),
}
SEVERAL_CLASSES = {*TABLES["classes"], *TABLES["made classes"]}


def main() -> None:
    draw_shares(EVIDENCE)
    draw_gains(EVIDENCE)
    for name, change in (
        ("README.md", readme),
        ("docs/explanation/results.md", results_page),
        ("docs/explanation/performance.md", performance_page),
    ):
        page = ROOT / name
        page.write_text(change(page.read_text(encoding="utf-8")), encoding="utf-8")


def readme(text: str, folder: Path = EVIDENCE) -> str:
    """The README with its blocks as the files have them."""
    return filled(text, "claims", f"{claims_held(folder)} {version(folder)}")


def results_page(text: str, folder: Path = EVIDENCE) -> str:
    """The page of results with its blocks as the files have them."""
    failed = [line for line in read_claims(folder) if line["holds"] == "False"]
    body = [[line["claim"], line["where"], f"{float(line['value']):.4f}"] for line in failed]
    lines = read_draws(folder)
    blocks = {
        "claims": f"{claims_held(folder)} {version(folder)}",
        "failed": markdown(["claim that does not hold", "where", "value"], body, words=2),
        "pieces": pieces(lines),
        "classes": classes(lines),
    }
    for name, content in blocks.items():
        text = filled(text, name, content)
    return text


def performance_page(text: str, source: Path = GROWTH) -> str:
    """The page of times with its table as the file has it."""
    report = json.loads(source.read_text(encoding="utf-8"))
    usual = ", ".join(f"{size:,} {axis}" for axis, size in report["usual"].items())
    body = []
    for axis, growth in report["growth"].items():
        for stage in ("the whole fit", "predicting"):
            seconds = " / ".join(f"{one.get(stage, 0.0):.2f}" for one in growth["seconds"])
            sizes = " / ".join(f"{size:,}" for size in growth["sizes"])
            body.append([axis, stage, sizes, seconds, _exponent(growth["exponents"].get(stage))])
    said = f"Seconds of {report['clock']} on {report['machine']}, by `{report['command']}` on {report['when'][:10]}."
    table = markdown(["grows", "step", "sizes", "seconds", "exponent"], body, words=3)
    return filled(text, "growth", f"{said} What does not grow: {usual}.\n\n{table}")


def claims_held(folder: Path) -> str:
    """How many claims hold."""
    lines = [line for line in read_claims(folder) if line["holds"] in ("True", "False")]
    found = f"{sum(line['holds'] == 'True' for line in lines)} of {len(lines)} claims hold."
    left = len(read_claims(folder)) - len(lines)
    return f"{found} Written down, and not run for lack of time: {left}." if left else found


def version(folder: Path) -> str:
    """Which code the figures are of."""
    origin = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    return f"Run at commit `{origin['commit'][:12]}`, version {origin['groupshift']}."


def pieces(lines: pd.DataFrame) -> str:
    """What is lost without each piece of the method, on the same draws."""
    without = [
        name for name in lines.method.unique() if name.startswith("without ") or name.endswith(" alone")
    ]
    body = []
    for name in without:
        change = [difference(lines, score, name, "groupshift") for score in ("auc_test", "log_loss_test")]
        body.append([name, str(len(change[0])), *(in_words(values) for values in change)])
    return markdown(["the method", "draws", "AUC", "log loss"], body) if body else "Not part of this run."


def classes(lines: pd.DataFrame) -> str:
    """Gains with more than two classes, by how labels were chosen."""
    lines = lines[lines.table.isin(SEVERAL_CLASSES)]
    body = []
    for kind in lines.kind.unique():
        change = [
            difference(lines, score, "groupshift", "plain", kind=[kind])
            for score in ("auc_test", "log_loss_test", "share_error")
        ]
        body.append([KINDS[kind], str(len(change[0])), *(in_words(values) for values in change)])
    header = ["labels", "draws", "AUC", "log loss", "error of shares"]
    return (
        markdown(header, body) if body else "Not part of this run; `results/multiclass` has an earlier one."
    )


def in_words(values: pd.Series) -> str:
    """A mean with half of its 95 % interval.

    >>> in_words(pd.Series([0.01, 0.03]))
    '+0.0200 ± 0.0196'
    """
    return f"{values.mean():+.4f} ± {1.96 * values.sem():.4f}".replace("-", "\N{MINUS SIGN}")


def draw_shares(folder: Path) -> None:
    """Error of the groups' shares, and how many of their intervals hold the truth, by how labels were chosen."""
    pyplot, lines = drawing(), two_classes(folder)
    kinds = [kind for kind in KINDS if kind in set(lines.kind)]
    figure, (error, held) = pyplot.subplots(
        1, 2, figsize=(10, 1.3 + 0.27 * len(kinds)), sharey=True, layout="constrained", width_ratios=(3, 2)
    )
    for method in ("plain", "random intercept", "groupshift"):
        words, color = METHODS[method]
        means = lines[lines.method == method].groupby("kind")["share_error"].mean()
        found = [(k, means[kind]) for k, kind in enumerate(kinds) if kind in means]
        error.plot([value for _, value in found], [k for k, _ in found], "o", color=color, label=words)
    ours = lines[lines.method == "groupshift"].groupby("kind")["coverage_wide"].mean()
    held.plot([ours.get(kind) for kind in kinds], range(len(kinds)), "o", color=METHODS["groupshift"][1])
    held.axvline(0.9, color="#222222", linewidth=0.8)
    held.set_xlim(0.45, 1.0)
    error.set_xlim(left=0)
    error.set_yticks(range(len(kinds)), [KINDS[kind] for kind in kinds], fontsize=9)
    error.invert_yaxis()
    error.set_xlabel("mean error of a group's share", fontsize=9)
    held.set_xlabel("share of 90 % intervals that contain the truth", fontsize=9)
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
    save(figure, "evidence", folder)


def draw_gains(folder: Path) -> None:
    """Change of AUC and log loss against the same scores without groups; a bar is a 95 % interval over draws."""
    pyplot, lines = drawing(), two_classes(folder)
    kinds = [kind for kind in KINDS if kind in set(lines.kind)]
    shown = [name for name in METHODS if name != "plain"]
    figure, axes = pyplot.subplots(
        1, 2, figsize=(10, 1.3 + 0.36 * len(kinds)), sharey=True, layout="constrained"
    )
    for ax, score, title in zip(
        axes,
        ("auc_test", "log_loss_test"),
        ("AUC (right is better)", "log loss (left is better)"),
        strict=True,
    ):
        for i, name in enumerate(shown):
            words, color = METHODS[name]
            for k, kind in enumerate(kinds):
                values = difference(lines, score, name, "plain", kind=[kind])
                if len(values):
                    place = k + 0.17 * (i - (len(shown) - 1) / 2)
                    bar = 1.96 * values.sem()
                    label = None if ax.get_legend_handles_labels()[1].count(words) else words
                    ax.errorbar(
                        values.mean(), place, xerr=bar, fmt="o", color=color, markersize=4, label=label
                    )
        ax.set_xscale("symlog", linthresh=0.01)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.axvline(0, color="#222222", linewidth=0.8)
        ax.set_xlabel(f"change of the {title}", fontsize=9)
        ax.tick_params(labelsize=8)
        ax.set_yticks(range(len(kinds)), [KINDS[kind] for kind in kinds], fontsize=9)
    axes[0].invert_yaxis()
    handles = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside upper left", ncols=4, frameon=False, fontsize=9)
    save(figure, "gains", folder)


def drawing():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure, name: str, folder: Path) -> None:
    origin = {"Software": None, "Source": checksum(folder)}
    figure.savefig(IMAGES / f"{name}.png", dpi=150, facecolor="white", metadata=origin)


def draws_of(folder: Path) -> bytes:
    packed = folder / "draws.jsonl.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / "draws.jsonl").read_bytes()


def checksum(folder: Path) -> str:
    return sha256(draws_of(folder)).hexdigest()


def read_draws(folder: Path) -> pd.DataFrame:
    """A line for each draw and method."""
    return pd.DataFrame([json.loads(line) for line in draws_of(folder).splitlines()])


def two_classes(folder: Path) -> pd.DataFrame:
    """Draws of two classes, of each kind of label choice at the size that most of them have."""
    lines = read_draws(folder)
    lines = lines[~lines.table.isin(SEVERAL_CLASSES)]
    usual = lines.groupby("kind")["rows"].agg(lambda rows: rows.mode()[0])
    return lines[lines.rows == lines.kind.map(usual)] if len(lines) else lines


def read_claims(folder: Path) -> list[dict[str, str]]:
    with (folder / "claims.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def filled(text: str, name: str, content: str) -> str:
    """The text with what stands between two comments replaced.

    >>> filled("a <!-- b:begin -->old<!-- b:end --> c", "b", "new").split()
    ['a', '<!--', 'b:begin', '-->', 'new', '<!--', 'b:end', '-->', 'c']
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def markdown(header: Sequence[str], body: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A table in Markdown, its first columns words to the left, the others numbers to the right.

    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    rule = "|" + "---|" * words + "--:|" * (len(header) - words)
    return "\n".join([_line(header), rule, *map(_line, body)])


def _exponent(value: float | None) -> str:
    # Times of less than a tenth of a second have none.
    return "" if value is None else f"{value:.2f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
