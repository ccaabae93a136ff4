"""Fills what README.md and docs/explanation/results.md show of results/evidence, of results/natural_groups and of the transcript.

    PYTHONPATH=. python docs/make_results_rows.py

Numbers come from table.csv and verdicts.csv, which `python -m benchmarks.evidence_summary results/evidence` writes, and from
docs/transcript.md. Nothing but what stands between the comments changes.
"""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import t

from paper.results import Mean
from paper.table_text import MINUS, share, signed

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "explanation" / "results.md"
TRANSCRIPT = ROOT / "docs" / "transcript.md"
EVIDENCE = ROOT / "results" / "evidence"
NATURAL = ROOT / "results" / "natural_groups"
CLASSES = ROOT / "results" / "multiclass"
# Claims of several classes that are differences, and how their column is called.
OF_CLASSES = {
    "accuracy - Global": "accuracy",
    "log loss - Global": "log loss",
    "error of shares - EMQ": "error of shares, less EMQ's",
    "coverage of 90 % intervals": "90 % intervals hold",
}
ABSENT = "The experiment has not been run yet: `python -m benchmarks.evidence` (results/evidence.toml)."
PLUS_MINUS = (
    "± is half of a 95 % interval of the mean over draws, paired with Global on the same draw; for all synthetic places "
    "together, over the means of places."
)
# Of each way to choose labels one row, one where there is nothing to gain, and one that may lose.
SHOWN = (
    ("pupils", "random", 25_000),
    ("households", "volunteers", 25_000),
    ("ipr", "natural", 100_000),
    ("trial", "random", 25_000),
    ("trial", "volunteers", 25_000),
)
KINDS = {
    "random": "random",
    "volunteers": "volunteers",
    "natural": "half of the groups",
    "setting 1": "setting 1",
    "setting 2": "setting 2",
    "setting 2, tree cells": "setting 2, tree cells",
    "setting 2, categories": "setting 2, categories",
}
TABLES = {
    "synthetic": "generated, six places",
    "election survey": "voters by US state",
    "trial": "deaths after a heart attack by region",
    "pupils": "weak pupils by country",
    "households": "poor households by district (synthetic)",
    "provinces": "low incomes by province (synthetic)",
    "income": "income by US state",
    "employment": "employment by US state",
    "ipr": "income near poverty by US state",
    "reviews": "good reviews by category",
    "destinations": "late flights by destination",
    "carriers": "late flights by carrier",
}
METHODS = {
    "global": "Global",
    "random intercept": "Random intercept",
    "group as feature": "group as feature",
    "label shift": "Label shift",
    "published": "the paper's",
    "gpboost": "GPBoost",
    "groupshift": "groupshift",
    "groupshift random": "groupshift, told that labels are random",
    "groupshift told": "groupshift, told the cells",
    "bayes": "Bayes limit",
}
SIDE_BY_SIDE = ("global", "random intercept", "group as feature", "label shift", "published", "gpboost")
SIDE_BY_SIDE += ("groupshift", "groupshift told")
Line = dict[str, str]
# (table, kind, rows)
Where = tuple[str, str, int]
# How the lines of the demo begin that the README shows.
DEMO = ("method", "Global", "Label shift", "groupshift  ")


def main() -> None:
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(results_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def readme(text: str, folder: Path = EVIDENCE) -> str:
    """The README with its two blocks as the files have them now."""
    if (folder / "table.csv").is_file():
        text = filled(text, "rows", rows(folder))
    return filled(text, "flights", flights(TRANSCRIPT.read_text(encoding="utf-8")))


def results_page(text: str, folder: Path = EVIDENCE) -> str:
    """The page of results with all lines and all claims."""
    text = filled(text, "evidence", everything(folder) if (folder / "table.csv").is_file() else ABSENT)
    text = filled(text, "classes", of_classes())
    return filled(text, "natural", claims(NATURAL))


def rows(folder: Path) -> str:
    """Five lines, with Global and the random intercept beside ours."""
    found = places(read(folder / "table.csv"))
    shown = ("global", "random intercept", "groupshift")
    header = ["labels", "table", "draws", *(f"AUC: {METHODS[method]}" for method in shown)]
    header += ["log loss: ours less Global", "error of group shares: Global", "ours", "90 % intervals hold"]
    body = []
    for where in SHOWN:
        lines, ours = found[where], found[where]["groupshift"]
        body.append(
            [
                KINDS[where[1]],
                TABLES[where[0]],
                ours["draws"],
                *(number(lines[method]["auc"]) for method in shown),
                difference(ours, "log_loss"),
                number(lines["global"]["share_error"]),
                number(ours["share_error"]),
                percent(ours["coverage"]),
            ]
        )
    words = (
        f"Means over draws, on the rows without labels. {PLUS_MINUS} Higher AUC is better, lower log loss is better. "
        "The error of group shares is the mean distance to the true share."
    )
    written = "The experiment was [written down](results/evidence.toml) before it was run."
    lost = [
        i for i, where in enumerate(SHOWN, 1) if float(found[where]["groupshift"]["log_loss_gain"]) > 0.001
    ]
    harm = f" It does harm in row {' and '.join(map(str, lost))}." if lost else ""
    return f"{markdown(header, body, words=2)}\n\n{words} {source(folder)} {written}{harm}"


def everything(folder: Path) -> str:
    """Two tables for each kind of labels, every line of the file, and every claim with its verdict."""
    found = dict(sorted(places(read(folder / "table.csv")).items(), key=_order))
    whole = {where: lines for where, lines in found.items() if not where[0].startswith("synthetic ")}
    parts = [source(folder), _origin(folder), PLUS_MINUS, claims(folder)]
    for kind, title in KINDS.items():
        of_kind = {where: lines for where, lines in whole.items() if where[1] == kind}
        if of_kind:
            parts += [f"### Labels: {title}", _side_by_side(of_kind), _ours(of_kind)]
    header = [
        "table",
        "labels",
        "rows",
        "method",
        "draws",
        "AUC",
        "less Global",
        "within groups, less Global",
    ]
    header += ["worst draw, less Global", "log loss", "less Global", "calibration error", "error of shares"]
    header += ["90 % intervals hold", "width", "seconds"]
    body = [_full(line) for lines in found.values() for line in lines.values()]
    parts += ["<details><summary>Every place and every method</summary>", markdown(header, body, words=4)]
    return "\n\n".join([*parts, "</details>"])


def _order(entry: tuple[Where, object]) -> tuple[int, str, int, str]:
    """Tables as they are listed above, one below the other in all their sizes; single synthetic places first."""
    table, kind, rows = entry[0]
    return [*TABLES, table].index(table) % len(TABLES), table, rows, kind


def _side_by_side(of_kind: dict[Where, dict[str, Line]]) -> str:
    there = [method for method in SIDE_BY_SIDE if any(method in lines for lines in of_kind.values())]
    body = [
        [*_place(where), *(number(lines[m]["auc"]) if m in lines else "" for m in there)]
        for where, lines in of_kind.items()
    ]
    return markdown(["AUC", "rows", *(METHODS[m] for m in there)], body)


def _ours(of_kind: dict[Where, dict[str, Line]]) -> str:
    header = ["groupshift less Global", "rows", "draws", "AUC", "within groups", "worst draw", "log loss"]
    header += ["calibration error", "error of shares", "90 % intervals hold", "width", "gain as announced"]
    body = []
    for where, lines in of_kind.items():
        ours, plain = lines["groupshift"], lines["global"]
        body.append(
            [
                *_place(where),
                ours["draws"],
                difference(ours, "auc"),
                difference(ours, "auc_within"),
                signed(float(ours["worst_auc_gain"]), 4),
                difference(ours, "log_loss"),
                *(f"{number(plain[n])} → {number(ours[n])}" for n in ("calibration_error", "share_error")),
                percent(ours["coverage"]),
                number(ours["width"]),
                percent(ours["announced_held"]),
            ]
        )
    return markdown(header, body)


def _place(where: Where) -> list[str]:
    return [TABLES.get(where[0], where[0]), f"{where[2]:,}"]


def _full(line: Line) -> list[str]:
    plain = line["method"] == "global"
    gains = {name: "" if plain else difference(line, name) for name in ("auc", "auc_within", "log_loss")}
    failed = f" ({line['failed']} failed)" if line["failed"] != "0" else ""
    return [
        line["table"],
        line["kind"],
        f"{int(line['rows']):,}",
        METHODS[line["method"]],
        line["draws"] + failed,
        number(line["auc"]),
        gains["auc"],
        gains["auc_within"],
        "" if plain else signed(float(line["worst_auc_gain"]), 4),
        number(line["log_loss"]),
        gains["log_loss"],
        number(line["calibration_error"]),
        number(line["share_error"]),
        percent(line["coverage"]),
        "" if line["width"] == "nan" else number(line["width"]),
        f"{float(line['seconds']):.1f}",
    ]


def claims(folder: Path) -> str:
    """Every claim, as it was written down, with where it fares worst and whether it holds."""
    lines = read(folder / "verdicts.csv")
    values = [f"{float(line['value']):.4f}".replace("-", MINUS) for line in lines]
    body = [
        [line["claim"], line["where"], value, holds(line)] for line, value in zip(lines, values, strict=True)
    ]
    held = sum(line["holds"] == "True" for line in lines)
    return (
        f"**{held} of {len(lines)} claims hold**, as they were written down before the run:\n\n"
        f"{markdown(['claim', 'where', 'value', 'holds'], body, words=2)}"
    )


def of_classes() -> str:
    """A line for each set and kind of several classes, with means and their intervals; claims that fail are marked."""
    lines = [line for line in read(CLASSES / "verdicts.csv") if line["claim"] in OF_CLASSES]
    found: dict[tuple[str, str], dict[str, Line]] = {}
    for line in lines:
        found.setdefault((line["set"], line["kind"]), {})[line["claim"]] = line

    def cell(line: Line | None, claim: str) -> str:
        if line is None:
            return ""
        if claim.startswith("coverage"):
            return percent(line["mean"])
        half = t.ppf(0.975, int(line["draws"]) - 1) * float(line["std_error"])
        text = f"{float(line['mean']):+.6f} ± {half:.6f}".replace("-", MINUS)
        return f"**{text}**" if line["holds"] == "False" else text

    body = [
        [*where, *(cell(by_claim.get(claim), claim) for claim in OF_CLASSES)]
        for where, by_claim in found.items()
    ]
    judged = [line for line in lines if line["holds"] in ("True", "False")]
    held = sum(line["holds"] == "True" for line in judged)
    header = ["set", "labels", *OF_CLASSES.values()]
    return (
        f"**{held} of {len(judged)} claims hold**, as they were written down before the run; those in bold letters do not. "
        f"± is half of a 95 % interval of the mean over ten draws.\n\n{markdown(header, body, words=2)}"
    )


def _origin(folder: Path) -> str:
    origin = json.loads((folder / "experiment.json").read_text(encoding="utf-8"))
    names = ("python", "numpy", "scipy", "scikit-learn", "gpboost")
    versions = ", ".join(f"{name} {origin[name]}" for name in names)
    return f"Run at commit `{origin['commit'][:12]}` on {origin['cores']} cores ({origin['machine']}): {versions}."


def flights(text: str) -> str:
    """What the demo and the fit of the transcript say, in a few lines."""
    parts = re.findall(r"```console\n(.*?)\n```", text, flags=re.DOTALL)
    demo = next(part for part in parts if part.startswith("$ groupshift demo"))
    fit = next(part for part in parts if part.startswith("$ groupshift fit"))
    shown = [line for line in demo.splitlines() if line.startswith(DEMO)]
    learned, verdict = fit[fit.index("Fitted on") :].split("\n\n")[:2]
    return "\n".join(["```text", *shown, "", learned, "", verdict, "```"])


def places(lines: Sequence[Line]) -> dict[Where, dict[str, Line]]:
    """Lines by place and method, in the order of the file."""
    found: dict[Where, dict[str, Line]] = {}
    for line in lines:
        found.setdefault((line["table"], line["kind"], int(line["rows"])), {})[line["method"]] = line
    return found


def holds(line: Line) -> str:
    if line["value"] == "nan":
        return "not run"
    return "yes" if line["holds"] == "True" else "**no**"


def read(path: Path) -> list[Line]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text: str) -> str:
    """A share with three digits.

    >>> number("0.80330")
    '.803'
    """
    return share(float(text))


def percent(text: str) -> str:
    """A share in percent; nothing where there is none.

    >>> percent("0.9919"), percent("nan")
    ('99 %', '')
    """
    return "" if text == "nan" else f"{100 * float(text):.0f} %"


def difference(line: Line, name: str) -> str:
    """A difference to Global and its interval, with four digits, since many are small."""
    value, half = float(line[f"{name}_gain"]), float(line[f"{name}_gain_half"])
    return signed(Mean(value, half, int(line["draws"])), 4)


def source(folder: Path) -> str:
    where = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    return f"From `{where.as_posix()}`, put here by `python docs/make_results_rows.py`."


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


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
