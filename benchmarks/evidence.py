"""Everything in one table: python -m benchmarks.evidence --data DIR --out results/evidence --jobs 16.

What is claimed, with which seeds and sizes, stands in `results/evidence.toml`. A draw is run by one process with one thread,
first draw 1 of every place, then draw 2: a run that is stopped has the same number of draws everywhere, but for one.
The same command goes on where it was.
"""

import argparse
import hashlib
import json
import os
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import process_time, time

# Before NumPy is loaded: as many processes as cores, one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from joblib import Parallel, delayed

from benchmarks.evidence_draws import Place, make_draw
from benchmarks.evidence_methods import METHODS, methods_of
from benchmarks.evidence_scores import scores

SPEC = Path(__file__).parent.parent / "results" / "evidence.toml"
Json = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder made by benchmarks.evidence_data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="seconds; then no draw begins")
    parser.add_argument("--commit", help="of the code, where the machine has no git")
    parser.add_argument("--spec", type=Path, default=SPEC)
    parser.add_argument("--seeds", help="other seeds, for development: 1,2")
    parser.add_argument("--only", default="", help="places with this word alone, for development")
    options = parser.parse_args()
    deadline = time() + options.stop_after
    spec = tomllib.loads(options.spec.read_text(encoding="utf-8"))
    seeds = [int(seed) for seed in options.seeds.split(",")] if options.seeds else spec["seeds"]
    options.out.mkdir(parents=True, exist_ok=True)
    _write_origin(options.out / "experiment.json", _origin(options.spec, options.commit, seeds))
    kept = options.out / "draws.jsonl"
    done = {_key(rows[0]) for rows in kept_draws(kept)}
    tasks = [task for task in list_tasks(spec, seeds) if _key(task) not in done]
    tasks = [task for task in tasks if options.only in f"{task['table']}, {task['kind']}"]
    parallel = Parallel(n_jobs=options.jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
    with kept.open("a") as file:
        for found in parallel(delayed(run_draw)(options.data, task, deadline) for task in tasks):
            if found:
                file.write(json.dumps(found) + "\n")
                file.flush()


def kept_draws(path: Path) -> list[list[Json]]:
    """A line of the file is a draw with all its methods. What was killed while it wrote is half a line, and is cut off."""
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def list_tasks(spec: dict, seeds: list[int]) -> Iterator[Json]:
    """One for each draw: seed by seed, and of one seed the largest tables first, so that no core waits at the end."""
    places = [
        {"table": table, "kind": kind, "rows": entry["rows"], "gpboost": _has_gpboost(entry, table, kind)}
        for entry in spec["places"]
        for table in entry["tables"]
        for kind in entry["kinds"]
    ]
    places.sort(key=lambda place: (-place["gpboost"], -place["rows"]))
    for number, seed in enumerate(seeds):
        left_out = spec.get("left_out", []) if number >= spec.get("whole_seeds", len(seeds)) else []
        yield from ({**place, "seed": seed, "left_out": left_out} for place in places)


def _has_gpboost(entry: dict, table: str, kind: str) -> bool:
    """Where a random intercept is of use: it is 0 for groups without labels, and where shares do not differ."""
    return table in entry.get("gpboost", ()) and kind in ("random", "volunteers", "setting 2")


def run_draw(data: Path, task: Json, deadline: float = float("inf")) -> list[Json]:
    """All methods on one draw; nothing after the deadline. A method that fails is a result too."""
    if time() > deadline:
        return []
    warnings.simplefilter("ignore")
    place = Place(task["table"], task["kind"], task["rows"])
    seed = task["seed"]
    draw = make_draw(data, place, seed)
    hidden = draw.y < 0
    same = {name: task[name] for name in ("table", "kind", "rows", "seed")}
    rows = []
    for method in methods_of(draw, place.kind, with_gpboost=task["gpboost"]):
        if method in task.get("left_out", ()):
            continue
        start = process_time()
        try:
            p, extra = METHODS[method](draw, seed)
            found = {**scores(p, draw.truth[hidden], draw.group[hidden]), **extra}
        except Exception:
            found = {"error": traceback.format_exc()}
        rows.append({**same, "method": method, "seconds": process_time() - start, **found})
    return rows


def _key(row: Json) -> tuple:
    return row["table"], row["kind"], row["rows"], row["seed"]


def _origin(spec: Path, commit: str | None, seeds: list[int]) -> Json:
    """Code, libraries and machine, and what was written down."""
    from paper.origin import described_origin

    origin: Json = {**described_origin(), "spec": hashlib.sha256(spec.read_bytes()).hexdigest()[:12]}
    origin |= {"seeds": seeds, "benchmarks": _sources()}
    for package in ("pandas", "gpboost"):
        try:
            origin[package] = version(package)
        except PackageNotFoundError:
            origin[package] = "none"
    return origin | ({"commit": commit} if commit else {})


def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("evidence*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _write_origin(path: Path, origin: Json) -> None:
    """Once: draws of two codes or two machines do not go into one table."""
    if path.exists() and json.loads(path.read_text()) != origin:
        raise SystemExit(f"{path} is of another code, file or machine: choose another --out.")
    path.write_text(json.dumps(origin, indent=2) + "\n")


if __name__ == "__main__":
    # Worker processes find functions by the name of their module, which "__main__" is not.
    from benchmarks import evidence

    evidence.main()
