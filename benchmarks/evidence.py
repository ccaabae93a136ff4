"""The registered run: what is claimed stands in `results/evidence.toml`, was committed before, and is run once at one commit.

    python -m benchmarks.ablation prepare --data ../shared/data --out TABLES
    git worktree add ../before 015ec12
    python -m benchmarks.evidence run --draws TABLES --before ../before/src --out results/evidence --jobs 2
    python -m benchmarks.evidence summary results/evidence

Runs of the file come one after the other, each seed by seed; the same command goes on where it was. With --stop-after no fit
begins later, and what is there counts: a claim says how many draws it rests on. Draws and methods are those of `ablation`.
`summary` writes table.csv (means over draws by size, kind and method) and claims.csv.
"""

import argparse
import gzip
import json
import math
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from time import time

# Before NumPy is loaded, and in every process: one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

from benchmarks import ablation
from benchmarks.ablation_draws import TABLES, list_draws
from benchmarks.evidence_others import OTHERS

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "results" / "evidence.toml"
DRAWS, TABLE, CLAIMS, ORIGIN = "draws.jsonl", "table.csv", "claims.csv", "experiment.json"
DIFFERENCES = ("auc_test", "log_loss_test", "share_error")
PLAIN = ("coverage", "width", "coverage_wide", "width_wide", "n_clusters", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    go = commands.add_parser("run")
    go.add_argument("--spec", type=Path, default=SPEC)
    go.add_argument("--draws", type=Path, required=True)
    go.add_argument("--before", type=Path, help="source folder of the version to be compared with")
    go.add_argument("--out", type=Path, required=True)
    go.add_argument("--jobs", type=int, default=os.cpu_count())
    go.add_argument("--stop-after", type=float, default=math.inf, help="seconds; then no fit begins")
    summed = commands.add_parser("summary")
    summed.add_argument("folder", type=Path)
    summed.add_argument("--spec", type=Path, default=SPEC)
    options = parser.parse_args()
    spec = tomllib.loads(options.spec.read_text(encoding="utf-8"))
    if options.command == "run":
        run(spec, options)
    else:
        summarize(spec, options.folder)


def run(spec: dict, options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    _write_origin(options.out / ORIGIN)
    out, deadline = options.out / DRAWS, time() + options.stop_after
    done = {
        (*(line[name] for name in ablation.KEY), line["method"])
        for line in ablation.read_lines([out])
        if "error" not in line
    }
    ablation._finish_line(out)
    tasks = []
    for draw, names in planned(spec):
        methods = [m for m in methods_of(spec, names, options.before) if (*draw.values(), m.name) not in done]
        if methods:
            tasks.append(delayed(run_draw)(draw, methods, options.draws, out, deadline))
    print(f"{len(tasks)} draws are left", flush=True)
    Parallel(n_jobs=options.jobs, pre_dispatch="n_jobs", batch_size=1)(tasks)


def run_draw(*args: object) -> None:
    """In a process of its own, which knows the methods of others because this module does."""
    ablation.run_draw(*args)


def planned(spec: dict) -> Iterator[tuple[dict, list[str]]]:
    """Every draw of the file with the names of its methods."""
    for part in spec["runs"]:
        tables = [t for name in part["tables"] for t in TABLES.get(name, [name])]
        kinds, rows = part["kinds"], [part["rows"]]
        for draw in list_draws(tables, kinds, rows, part["seeds"]):
            only = {name for name, wanted in spec.get("only", {}).items() if draw["kind"] not in wanted}
            yield draw, [name for name in part["methods"] if name not in only]


def methods_of(spec: dict, names: list[str], before: Path | None) -> list[ablation.Method]:
    """Methods of the file by name: settings of this version, patches of it, a version before, intercepts on scores."""
    sources = [f"groupshift={ROOT / 'src'}"]
    settings = [f"{name}={value}" for name, value in spec.get("settings", {}).items()]
    if before is not None:
        sources.append(f"before={before.resolve()}")
    else:
        settings = [said for said in settings if "@before" not in said]
        names = [name for name in names if not name.startswith("before")]
    own = [name for name in names if name not in OTHERS]
    options = argparse.Namespace(
        methods=own,
        src=sources,
        lean=None,
        settings=settings,
        patch=[
            f"{name}={path}={value}"
            for name, patch in spec.get("patches", {}).items()
            for path, value in patch.items()
        ],
        intercept=[f"{name}={base}" for name, base in spec.get("intercepts", {}).items()],
    )
    others = [
        ablation.Method(name, str(ROOT / "benchmarks" / "evidence_others.py"), name)
        for name in names
        if name in OTHERS
    ]
    return ablation.list_methods(options) + others


def _write_origin(path: Path) -> None:
    """Once: draws of two commits or two machines do not go into one table."""
    from paper.origin import described_origin

    origin = described_origin()
    if path.exists() and json.loads(path.read_text()) != origin:
        raise SystemExit(f"{path} is of another commit or machine: choose another --out.")
    path.write_text(json.dumps(origin, indent=2) + "\n")


def read(folder: Path):
    """A frame with a line for each draw and method; scores of failed methods are missing."""
    import pandas as pd

    packed = folder / f"{DRAWS}.gz"
    if not (folder / DRAWS).exists() and packed.exists():
        (folder / DRAWS).write_bytes(gzip.decompress(packed.read_bytes()))
    return pd.DataFrame(ablation.read_lines([folder / DRAWS]))


def summarize(spec: dict, folder: Path) -> None:
    lines = read(folder)
    table(lines).to_csv(folder / TABLE, index=False)
    claims(lines, spec).to_csv(folder / CLAIMS, index=False)


def table(lines):
    """Means over draws by size, kind and method; ".._less" is less `plain` on the same draws, ".._error" its standard error."""
    import pandas as pd

    found = []
    keys = [*ablation.KEY, "method"]
    values = lines.set_index(keys)
    for (rows, kind, method), part in values.groupby(["rows", "kind", "method"], sort=False):
        line = {"rows": rows, "kind": kind, "method": method, "draws": len(part)}
        if "error" in part:
            line["failed"] = int(part["error"].notna().sum())
        for name in DIFFERENCES:
            if name in part:
                less = difference(lines, name, method, "plain", kind=[kind], rows=[rows])
                line |= {name: part[name].mean(), f"{name}_less": less.mean(), f"{name}_error": less.sem()}
        line |= {name: part[name].mean() for name in PLAIN if name in part}
        found.append(line)
    return pd.DataFrame(found).round(6)


def difference(lines, score: str, method: str, than: str | None, **where: list):
    """A score of a method, less that of another, by draw."""
    for name, wanted in where.items():
        lines = lines[lines[name].isin(wanted)]
    wide = lines[lines.method.isin([method, than])].set_index([*ablation.KEY, "method"])[score].unstack()
    if method not in wide or (than is not None and than not in wide):
        return wide.sum(axis=1)[:0]
    return (wide[method] - wide[than] if than is not None else wide[method]).dropna()


def claims(lines, spec: dict):
    """Each claim with the kind or draw that fares worst, or the mean over kinds, and how many draws it rests on."""
    import pandas as pd

    return pd.DataFrame([_verdict(lines, claim) for claim in spec["claims"]])


def _verdict(lines, claim: dict) -> dict:
    where = {
        name.rstrip("s") if name != "rows" else name: claim[name]
        for name in ("kinds", "rows", "tables")
        if name in claim
    }
    if "table" in where:
        where["table"] = [t for name in where["table"] for t in TABLES.get(name, [name])]
    values = difference(lines, claim["score"], claim.get("method", "groupshift"), claim.get("than"), **where)
    if "times" in claim:  # at most so many times the other's
        own = difference(lines, claim["score"], claim.get("method", "groupshift"), None, **where)
        other = own - values
        values = own - claim["times"] * other
    by = values.groupby(level="kind")
    means, low = by.mean(), "at_least" in claim
    if not len(values):
        place, value, error = "nowhere", math.nan, math.nan
    elif claim["over"] == "mean of kinds":
        place, value = f"mean of {len(means)} kinds", float(means.mean())
        error = float(np.sqrt((by.sem() ** 2).sum()) / len(means))
    elif claim["over"] == "worst draw":
        at = values.idxmin() if low else values.idxmax()
        place, value, error = ", ".join(map(str, at)), float(values[at]), math.nan
    else:
        worst = means.idxmin() if low else means.idxmax()
        place, value, error = f"{worst}, worst of {len(means)}", float(means[worst]), float(by.sem()[worst])
    value = round(value, 6)
    holds = value >= claim.get("at_least", -math.inf) and value <= claim.get("at_most", math.inf)
    bounds = [f"{name.replace('_', ' ')} {claim[name]}" for name in ("at_least", "at_most") if name in claim]
    return {
        "claim": claim["text"],
        "expected": " and ".join(bounds),
        "where": place,
        "value": round(value, 5),
        "standard_error": round(error, 5),
        "draws": len(values),
        # What was not run is neither shown nor refuted.
        "holds": holds if len(values) else None,
    }


if __name__ == "__main__":
    # Worker processes find functions by the name of their module, which "__main__" is not.
    from benchmarks import evidence

    evidence.main()
