"""Sums up `evidence`: python -m benchmarks.evidence_summary results/evidence writes table.csv and verdicts.csv.

A line of the table is a method on a table of data, with means over draws. Differences ("less Global") are paired, draw by draw.
± (columns that end in `_half`) is half of a 95 % interval of the mean over draws, by Student's t. Draws of one synthetic place
(a dimension and a number of clusters) are alike: for all places together the interval is over the means of places.
The verdicts are the claims of `results/evidence.toml`, each with its figures.
"""

import argparse
import csv
import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.evidence import SPEC, kept_draws, list_tasks
from paper.results import Mean

COMPARED = ("auc", "auc_within", "log_loss", "calibration_error", "share_error")
PLAIN = ("coverage", "width", "seconds")
# Half of the fourth digit: a gain of nothing that is announced as nothing is right.
ANNOUNCED_DIGIT = 5e-5
# (table, kind, rows)
Where = tuple[str, str, int]
# A method's line of a draw beside Global's.
Pair = tuple[dict, dict]
Line = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--spec", type=Path, default=SPEC)
    options = parser.parse_args()
    spec = tomllib.loads(options.spec.read_text(encoding="utf-8"))
    seeds = json.loads((options.folder / "experiment.json").read_text())["seeds"]
    draws = read_draws(options.folder / "draws.jsonl", list(list_tasks(spec, seeds)))
    _write(options.folder / "table.csv", list(summary(draws)))
    _write(options.folder / "verdicts.csv", list(verdicts(draws, spec["claims"])))


def read_draws(path: Path, tasks: Sequence[dict]) -> list[dict]:
    """Lines of all seeds that are complete: a run that was stopped has some places of its last seed and not others."""
    lines = [row for rows in kept_draws(path) for row in rows]
    there = {(*_where(line), line["seed"]) for line in lines}
    wanted: dict[int, set[Where]] = defaultdict(set)
    for task in tasks:
        wanted[task["seed"]].add(_where(task))
    whole = {seed for seed, places in wanted.items() if all((*place, seed) in there for place in places)}
    return [line for line in lines if line["seed"] in whole]


def summary(draws: list[dict]) -> Iterator[Line]:
    """A line for each place and method, and one for all synthetic places of a kind together."""
    found: dict[Where, dict[int, dict[str, dict]]] = defaultdict(lambda: defaultdict(dict))
    for row in draws:
        found[_where(row)][row["seed"]][row["method"]] = row
    together: dict[Where, list[Where]] = defaultdict(list)
    for where in found:
        if where[0].startswith("synthetic"):
            together["synthetic", *where[1:]].append(where)
    for where, parts in sorted([*((place, [place]) for place in found), *together.items()]):
        seen = {method: None for part in parts for seed in found[part].values() for method in seed}
        for method in seen:
            clusters = [_pairs(found[part], method) for part in parts]
            failed = sum(
                method in seed and "error" in seed[method] for p in parts for seed in found[p].values()
            )
            yield {
                **dict(zip(("table", "kind", "rows"), where, strict=True)),
                "method": method,
                "draws": sum(map(len, clusters)),
                "failed": failed,
                **_means([cluster for cluster in clusters if cluster]),
            }


def _pairs(seeds: dict[int, dict[str, dict]], method: str) -> list[Pair]:
    both = [(of_seed.get(method), of_seed.get("global")) for of_seed in seeds.values()]
    return [
        (own, plain) for own, plain in both if own and plain and "error" not in own and "error" not in plain
    ]


def _means(clusters: list[list[Pair]]) -> Line:
    """Means over draws; over clusters of draws where there are several."""
    line: Line = {}
    units = [[pair] for pair in clusters[0]] if len(clusters) == 1 else clusters
    for name in COMPARED:
        gain = Mean.of(np.mean([own[name] - plain[name] for own, plain in unit]) for unit in units)
        line |= {name: _mean(units, name), f"{name}_gain": gain.value, f"{name}_gain_half": gain.half}
    pairs = [pair for unit in units for pair in unit]
    line["worst_auc_gain"] = min((own["auc"] - plain["auc"] for own, plain in pairs), default=np.nan)
    line["worst_log_loss_gain"] = max(
        (own["log_loss"] - plain["log_loss"] for own, plain in pairs), default=np.nan
    )
    line |= {name: _mean(units, name) for name in PLAIN}
    line["announced_held"] = _mean([[_announced(pair)] for pair in pairs], "held")
    return {name: round(float(value), 6) for name, value in line.items()}


def _mean(units: list, name: str) -> float:
    """Mean of the means of clusters; NaN where a method has no such number."""
    values = [[pair[0][name] for pair in unit if name in pair[0]] for unit in units]
    return Mean.of(np.mean(unit) for unit in values if unit).value


def _announced(pair: Pair) -> tuple[dict, dict]:
    own, plain = pair
    if "announced" not in own:
        return {}, {}
    low, high = own["announced_low"] - ANNOUNCED_DIGIT, own["announced_high"] + ANNOUNCED_DIGIT
    return {"held": float(low <= plain["log_loss"] - own["log_loss"] <= high)}, {}


def verdicts(draws: list[dict], claims: Sequence[dict]) -> Iterator[Line]:
    """Each claim with the place where it fares worst, or with its mean over places."""
    for claim in claims:
        lines = summary(_beside(draws, claim.get("than", "global")))
        # A single synthetic place is no table of its own.
        whole = [line for line in lines if not str(line["table"]).startswith("synthetic ")]
        values = {place: _value(whole, place, claim) for place in _places(whole, claim)}
        values = {place: value for place, value in values.items() if not math.isnan(value)}
        yield _verdict(claim, values)


def _beside(draws: list[dict], method: str) -> list[dict]:
    """Draws that the method was run on: what others are compared with it by."""
    there = {(*_where(line), line["seed"]) for line in draws if line["method"] == method}
    return [line for line in draws if (*_where(line), line["seed"]) in there]


def _places(lines: list[Line], claim: dict) -> list[Where]:
    fits = [
        line
        for line in lines
        if line["method"] == claim.get("method", "groupshift")
        and line["kind"] in claim.get("kinds", [line["kind"]])
        and line["table"] in claim.get("tables", [line["table"]])
        and line["rows"] in claim.get("rows", [line["rows"]])
    ]
    return [_where(line) for line in fits]


def _value(lines: list[Line], place: Where, claim: dict) -> float:
    """The claim's column for its method, less that of the method it is compared with."""
    at = {line["method"]: line for line in lines if _where(line) == place}
    own = float(at[claim.get("method", "groupshift")][claim["column"]])
    if "than" not in claim:
        return own
    return own - float(at[claim["than"]][claim["column"]]) if claim["than"] in at else math.nan


def _verdict(claim: dict, values: dict[Where, float]) -> Line:
    bounds = {name: claim[name] for name in ("at_least", "at_most") if name in claim}
    if not values:
        where, value = "nowhere", math.nan
    elif claim["over"] == "mean":
        where, value = f"mean of {len(values)}", float(np.mean(list(values.values())))
    elif claim["over"] == "part of places":
        better = [
            value < 0 if claim["column"] in ("log_loss_gain", "share_error_gain") else value > 0
            for value in values.values()
        ]
        where, value = f"part of {len(values)}", float(np.mean(better))
    else:
        worst = min if "at_least" in bounds else max
        place = worst(values, key=lambda place: values[place])
        where, value = f"{place[0]}, {place[1]}, {place[2]:,} rows (worst of {len(values)})", values[place]
    inside = value >= bounds.get("at_least", -math.inf) and value <= bounds.get("at_most", math.inf)
    expected = " and ".join(f"{name.replace('_', ' ')} {bound}" for name, bound in bounds.items())
    return {
        "claim": claim["text"],
        "expected": expected,
        "where": where,
        "value": round(value, 5),
        "holds": inside,
    }


def _where(row: Line) -> Where:
    return row["table"], row["kind"], row["rows"]


def _write(path: Path, lines: list[Line]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
