"""Sums up `natural_groups`: python -m benchmarks.natural_summary results/natural_groups writes summary.csv and verdicts.csv.

A line of the summary is a method on a table, with means over draws. Differences are to Global on the same draw, ± is one
standard error of the mean over draws. The verdicts are the claims of `results/natural_groups.toml`, each with its figures.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

COMPARED = ("auc", "auc_within", "log_loss", "calibration_error")
PLAIN = ("share_error", "coverage", "width")
BEFORE = "c652124"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    draws = _draws(folder)
    lines = list(_lines(draws))
    _write(folder / "summary.csv", lines)
    _write(folder / "verdicts.csv", list(_verdicts(lines)))


def _draws(folder: Path) -> dict:
    """Rows of all runs: (kind, table), then seed, then method."""
    found: dict = defaultdict(lambda: defaultdict(dict))
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            row = json.loads(text)
            if row["method"] == "failed":
                continue
            found[row["kind"], row["table"]][row["seed"]][row["method"]] = row
    return found


def _lines(draws: dict) -> Iterator[dict]:
    for (kind, table), seeds in sorted(draws.items()):
        methods = sorted({method for of_seed in seeds.values() for method in of_seed})
        for method in methods:
            pairs = [(d[method], d["global"]) for d in seeds.values() if method in d and "global" in d]
            if pairs:
                yield {"kind": kind, "table": table, "method": method, "draws": len(pairs), **_means(pairs)}


def _means(pairs: list) -> dict:
    line: dict = {}
    for name in COMPARED:
        own, difference = (
            np.array([row[name] for row, _ in pairs]),
            np.array([row[name] - plain[name] for row, plain in pairs]),
        )
        error = difference.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.nan
        line |= {name: own.mean(), f"{name}_gain": difference.mean(), f"{name}_gain_error": error}
    line["worst_auc_gain"] = min(row["auc"] - plain["auc"] for row, plain in pairs)
    for name in PLAIN:
        values = [row[name] for row, _ in pairs if name in row]
        line[name] = float(np.mean(values)) if values else np.nan
    told = [(plain["log_loss"] - row["log_loss"], row) for row, plain in pairs if "announced" in row]
    # Half of the fourth digit: a gain of nothing that is announced as nothing is right.
    held = [row["announced_low"] - 5e-5 <= gain <= row["announced_high"] + 5e-5 for gain, row in told]
    line["announced_held"] = float(np.mean(held)) if held else np.nan
    return {key: round(float(value), 6) for key, value in line.items()}


def _verdicts(lines: list[dict]) -> Iterator[dict]:
    table = {(line["kind"], line["table"], line["method"]): line for line in lines}
    for kind, auc, loss in (
        ("random", -0.0005, None),
        ("volunteers", -0.001, 0.0005),
        ("natural", -0.0005, None),
    ):
        ours = _of(lines, kind, "groupshift")
        worst = min(ours, key=lambda line: line["auc_gain"])
        yield _claim(
            f"{kind}: AUC at least Global's {auc}",
            worst["table"],
            worst["auc_gain"],
            worst["auc_gain"] >= auc,
        )
        if loss is not None:
            worst = max(ours, key=lambda line: line["log_loss_gain"])
            value = worst["log_loss_gain"]
            yield _claim(f"{kind}: log loss at most Global's + {loss}", worst["table"], value, value <= loss)
    yield from _against_intercept(lines, table)
    yield from _against_before(lines)
    for line in (
        one for one in lines if one["method"] == "groupshift" and one["kind"].startswith("setting 1")
    ):
        yield _claim(
            "setting 1: AUC within .001 of Global",
            line["table"],
            line["auc_gain"],
            line["auc_gain"] >= -0.001,
        )
    covered = [line for line in lines if line["method"] == "groupshift"]
    mean = float(np.mean([line["coverage"] for line in covered]))
    yield _claim("coverage .87 to .97 on average", "all", mean, 0.87 <= mean <= 0.97)
    worst = min(covered, key=lambda line: line["coverage"])
    yield _claim(
        "coverage at least .80",
        f"{worst['kind']}, {worst['table']}",
        worst["coverage"],
        worst["coverage"] >= 0.8,
    )
    held = float(np.average([c["announced_held"] for c in covered], weights=[c["draws"] for c in covered]))
    yield _claim("announced gain holds the realised one in 80 % of draws", "all", held, held >= 0.8)


def _against_intercept(lines: list[dict], table: dict) -> Iterator[dict]:
    means = {
        m: np.mean([line["auc_gain"] for line in _of(lines, "random", m)])
        for m in ("groupshift", "random intercept")
    }
    part = float(means["groupshift"] / means["random intercept"])
    yield _claim("random: part of the random intercept's gain in AUC", "all", part, part >= 2 / 3)
    for line in _of(lines, "random", "groupshift random"):
        other = table["random", line["table"], "random intercept"]
        value = line["auc_gain"] - other["auc_gain"]
        yield _claim(
            "selection=random: AUC at least the intercept's - .001", line["table"], value, value >= -0.001
        )
        before = table.get(("random", line["table"], BEFORE), other)
        value = line["share_error"] - min(other["share_error"], before["share_error"])
        yield _claim(
            "selection=random: error of shares at most the better one's", line["table"], value, value <= 0
        )


def _against_before(lines: list[dict]) -> Iterator[dict]:
    for kind, name, sign in (("random", "share_error", -1), ("volunteers", "auc_gain", 1)):
        ours, before = (np.mean([line[name] for line in _of(lines, kind, m)]) for m in ("groupshift", BEFORE))
        value = float(ours - before)
        yield _claim(f"{kind}: mean {name} against {BEFORE}", "all", value, sign * value > 0)
    for line in lines:
        if line["method"] == BEFORE and line["kind"].startswith("setting 2"):
            ours = next(o for o in _of(lines, line["kind"], "groupshift") if o["table"] == line["table"])
            value = ours["auc_gain"] - line["auc_gain"]
            yield _claim(
                f"{line['kind']}: AUC not below {BEFORE} by .001", line["table"], value, value >= -0.001
            )


def _of(lines: list[dict], kind: str, method: str) -> list[dict]:
    return [line for line in lines if line["kind"] == kind and line["method"] == method]


def _claim(claim: str, where: str, value: float, holds: bool) -> dict:
    return {"claim": claim, "where": where, "value": round(float(value), 5), "holds": bool(holds)}


def _write(path: Path, lines: list[dict]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
