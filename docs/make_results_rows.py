"""Fills what README.md and docs/explanation/results.md show of results/natural_groups and of the transcript.

    python docs/make_results_rows.py [results/natural_groups]

Numbers come from summary.csv and verdicts.csv, which `python -m benchmarks.natural_summary results/natural_groups` writes,
and from docs/transcript.md. Nothing but what stands between the comments changes.
"""

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from make_results_table import ROOT, TARGET, filled, markdown

from groupshift.experiments.results import Mean
from groupshift.experiments.table_text import share, signed

README = ROOT / "README.md"
FOLDER = ROOT / "results" / "natural_groups"
TRANSCRIPT = ROOT / "docs" / "transcript.md"
ABSENT = "The experiment has not been run yet: `python -m benchmarks.natural_groups` (results/natural_groups.toml)."
# Of each way to choose labels one row, one where there is nothing to gain, and one where it loses.
SHOWN = (
    ("random", "pupils"),
    ("volunteers", "households"),
    ("natural", "ipr"),
    ("random", "trial"),
    ("volunteers", "pupils"),
)
KINDS = {"natural": "half of the groups"}
TABLES = {
    "election survey": "voters by US state",
    "trial": "deaths after a heart attack by region",
    "pupils": "weak pupils by country",
    "households": "poor households by district (synthetic)",
    "provinces": "low incomes by province (synthetic)",
    "income": "income by US state",
    "employment": "employment by US state",
    "ipr": "income near poverty by US state",
}
METHODS = {"global": "Global", "random intercept": "Random intercept", "groupshift": "groupshift"}
Line = dict[str, str]
# How the lines of the demo begin that the README shows.
DEMO = ("method", "Global", "Label shift", "groupshift  ")


def main(folder: str | None = None) -> None:
    found = Path(folder) if folder else FOLDER
    README.write_text(readme(README.read_text(encoding="utf-8"), found), encoding="utf-8")
    TARGET.write_text(results_page(TARGET.read_text(encoding="utf-8"), found), encoding="utf-8")


def readme(text: str, folder: Path = FOLDER) -> str:
    """The README with its two blocks as the files have them now."""
    refused = refusal(TRANSCRIPT.read_text(encoding="utf-8"))
    return filled(filled(text, "rows", rows(folder)), "no", refused)


def results_page(text: str, folder: Path = FOLDER) -> str:
    """The page of results with all lines and all claims."""
    return filled(text, "natural", everything(folder))


def rows(folder: Path) -> str:
    """Five lines, with Global and the random intercept beside ours."""
    if not (folder / "summary.csv").is_file():
        return ABSENT
    found = {(line["kind"], line["table"], line["method"]): line for line in read(folder / "summary.csv")}
    header = ["labels", "table", "draws", *(f"AUC: {name}" for name in METHODS.values())]
    header += ["log loss: ours less Global", "error of group shares: Global", "ours", "90 % intervals hold"]
    body = []
    for place in SHOWN:
        lines = {method: found[*place, method] for method in METHODS}
        ours = lines["groupshift"]
        body.append(
            [
                KINDS.get(place[0], place[0]),
                TABLES[place[1]],
                ours["draws"],
                *(number(line["auc"]) for line in lines.values()),
                difference(ours, "log_loss"),
                number(lines["global"]["share_error"]),
                number(ours["share_error"]),
                percent(ours["coverage"]),
            ]
        )
    words = (
        "Means over draws, on the rows without labels; ± is one standard error over draws. "
        "Higher AUC is better, lower log loss is better. "
        "The error of group shares is the mean distance to the true share."
    )
    failed = float(found[*SHOWN[-1], "groupshift"]["log_loss_gain"]) > 0
    remark = " The last row is a failure that we have not mended." if failed else ""
    return f"{markdown(header, body, words=2)}\n\n{words} {source(folder)}{remark}"


def everything(folder: Path) -> str:
    """Every line of the summary, and every claim with its verdict."""
    if not (folder / "summary.csv").is_file():
        return ABSENT
    header = ["labels", "table", "method", "draws", "AUC", "less Global", "within groups, less Global"]
    header += ["worst draw, less Global", "log loss", "less Global", "calibration error", "error of shares"]
    header += ["90 % intervals hold"]
    body = list(_lines(read(folder / "summary.csv")))
    claims = [
        [line["claim"], line["where"], line["value"], holds(line)] for line in read(folder / "verdicts.csv")
    ]
    return "\n\n".join(
        [
            source(folder),
            "**The claims, as they were written down**, each with the table where it fares worst:",
            markdown(["claim", "where", "value", "holds"], claims, words=2),
            "<details><summary>Every table and every method</summary>",
            markdown(header, body, words=3),
            "</details>",
        ]
    )


def _lines(summary: list[Line]) -> Iterator[list[str]]:
    for line in summary:
        plain = line["method"] == "global"
        gains = {name: "" if plain else difference(line, name) for name in ("auc", "auc_within", "log_loss")}
        yield [
            KINDS.get(line["kind"], line["kind"]),
            line["table"],
            METHODS.get(line["method"], line["method"]),
            line["draws"],
            number(line["auc"]),
            gains["auc"],
            gains["auc_within"],
            "" if plain else signed(float(line["worst_auc_gain"]), 4),
            number(line["log_loss"]),
            gains["log_loss"],
            number(line["calibration_error"]),
            number(line["share_error"]),
            percent(line["coverage"]),
        ]


def refusal(text: str) -> str:
    """What the demo and the fit of the transcript say where no shift is confirmed, in a few lines."""
    parts = re.findall(r"```console\n(.*?)\n```", text, flags=re.DOTALL)
    demo = next(part for part in parts if part.startswith("$ groupshift demo"))
    fit = next(part for part in parts if part.startswith("$ groupshift fit"))
    shown = [line for line in demo.splitlines() if line.startswith(DEMO)]
    verdict = re.search(r"^Not worth it.*?(?=\n\n)", fit, flags=re.DOTALL | re.MULTILINE)
    if verdict is None:
        raise ValueError("The transcript's fit no longer says 'Not worth it': choose another example.")
    return "\n".join(["```text", *shown, "", verdict[0], "```"])


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
    """A difference to Global and its standard error, with four digits, since many are small."""
    value, error = float(line[f"{name}_gain"]), float(line[f"{name}_gain_error"])
    return signed(Mean(value, error, int(line["draws"])), 4)


def source(folder: Path) -> str:
    where = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    return f"From `{where.as_posix()}`, put here by `python docs/make_results_rows.py`."


if __name__ == "__main__":
    main(*sys.argv[1:])
