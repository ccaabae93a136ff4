"""Ten thousand hostile inputs, each made from its number, and how each of them ended.

They are tables, files of every format that is read, small files beside them (known shares, answers of an audit,
settings) and model files.

Every attempt should end in an answer, an answer with a note, or one clear sentence. Attempts run in child processes, so
that one that brings its process down is counted too. The counts are kept in results/hostile.json.
"""

import argparse
import contextlib
import copy
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hostile_files import ENDINGS, hostile_file
from benchmarks.hostile_models import hostile_model
from benchmarks.hostile_sides import hostile_side
from benchmarks.hostile_tables import fit_hostile_table
from paper.origin import described_origin

KEPT = Path(__file__).parent.parent / "results" / "hostile.json"
COMMAND = "python -m benchmarks hostile"
# Of ten attempts, so many are of each kind.
KINDS = ("model file", "file", "table", "file", "file", "side file", "model file", "file", "file", "file")
GOOD = ("answer", "answer with a note", "one sentence")
SECONDS_EACH, MEMORY_EACH = 60, 6 << 30
ATTEMPTS_A_PROCESS = 250


def make_world(folder: Path) -> None:
    """Sound files and models that attempts begin with: small, so that ten thousand of them take minutes."""
    import pyarrow as pa
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    from groupshift import GroupShiftClassifier, save
    from groupshift.tables.columns import TableClassifier
    from groupshift.tables.files import write_table

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 240)
    table = pa.table(
        {
            "age": truth + rng.normal(size=240).round(3),
            "town": np.array(["Zürich", "Łódź", "Bern", "Köln"])[rng.integers(0, 4, 240)],
            "seen": np.datetime64("2024-01-01") + rng.integers(0, 300, 240),
            "g": np.array(list("abcdef"))[np.arange(240) % 6],
            "w": rng.integers(1, 4, 240).astype(float),
            "y": np.where(np.arange(240) // 6 % 2, truth.astype(str), ""),
        }
    )
    for ending in sorted(set(ENDINGS) - {"xpt", "db", "duckdb"}):
        write_table(table, folder / f"t.{ending}")
    _write_elsewhere(table.to_pandas(), folder)
    X, y = table.select(["age", "town"]).to_pandas(), np.where(table["y"].to_numpy() == "", -1, truth)
    trees = {
        "boosted": HistGradientBoostingClassifier(max_iter=3, max_depth=2, early_stopping=False),
        "forest": RandomForestClassifier(3, max_depth=2, random_state=0),
    }
    for name, tree in trees.items():
        model = GroupShiftClassifier(TableClassifier(tree), 1, random_state=0)
        save(model.fit(X, y, groups=table["g"].to_numpy()), folder / f"{name}.gshift")
    classes = GroupShiftClassifier(TableClassifier(trees["boosted"]), 1, random_state=0)
    parties = np.where(y == -1, "", np.array(["green", "red", "blue"])[(truth + rng.integers(0, 2, 240)) % 3])
    parties = np.array([party or None for party in parties], object)
    save(classes.fit(X, parties, groups=table["g"].to_numpy()), folder / "classes.gshift")
    plain = GroupShiftClassifier(trees["boosted"], 2, random_state=0)
    save(plain.fit(X[["age"]].to_numpy(), y, groups=table["g"].to_numpy()), folder / "array.gshift")
    write_table(table.append_column("x0", table["age"]), folder / "new.csv")
    _write_answers(folder)


def _write_elsewhere(frame: Any, folder: Path) -> None:
    """The same rows in formats that are read only."""
    import sqlite3

    import duckdb
    import pyreadstat

    pyreadstat.write_xport(frame.assign(seen=frame["seen"].astype(str)), folder / "t.xpt")
    with contextlib.closing(sqlite3.connect(folder / "t.db")) as database:
        frame.to_sql("people", database, index=False)
    with duckdb.connect(folder / "t.duckdb") as database:
        database.execute("create table people as select * from frame")


def _write_answers(folder: Path) -> None:
    """The rows that an audit asks for, and the answers."""
    import pandas as pd

    from groupshift.cli.errors import run

    to_label, model = folder / "answers.csv", folder / "boosted.gshift"
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        run(
            [
                "audit",
                str(model),
                f"{folder}/new.csv",
                "--group",
                "g",
                "--budget",
                "40",
                "--out",
                str(to_label),
            ]
        )
    rows = pd.read_csv(to_label, comment="#")
    rows.assign(label=np.arange(len(rows)) % 2).to_csv(to_label, index=False)


def attempt(number: int, world: Path, folder: Path) -> tuple[str, str]:
    """How the attempt with this number ended, and what was said."""
    rng = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]
    if kind == "table":
        return _ended(lambda: fit_hostile_table(rng))
    out = folder / "out.csv"
    out.unlink(missing_ok=True)
    make = {"file": hostile_file, "side file": hostile_side, "model file": hostile_model}[kind]
    path, command = make(rng, world, folder)
    outcome, said = _commanded([*command, "--force"] if "--out" in command or "run" in command else command)
    path.unlink(missing_ok=True)
    if outcome in GOOD[:2] and "predict" in command and not _is_sound(out):
        return "wrong answer", said
    return outcome, said


def _commanded(command: list[str]) -> tuple[str, str]:
    from groupshift.cli.errors import run

    said, shown = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown):
        code = run(command)
    text = said.getvalue()
    if code == 0:
        return ("answer with a note" if "Note:" in text or "first:" in text else "answer"), text
    # What was noted on the way stands before the sentence.
    errors = [line for line in text.splitlines() if not line.startswith("Note: ")]
    is_sentence = code == 2 and len(errors) == 1 and errors[0].startswith("Error: ")
    return "one sentence" if is_sentence else "should not have happened", text


def _ended(fit: Callable[[], np.ndarray]) -> tuple[str, str]:
    """How a fit in Python ended: an error counts as a sentence if our code wrote it."""
    import traceback

    import groupshift

    ours = Path(groupshift.__file__).parent
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            probability = fit()
        except (ValueError, TypeError) as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
            written = Path(frame.filename).is_relative_to(ours) or "sklearn/utils" in frame.filename
            return "one sentence" if written and str(error) else "should not have happened", text
        except Exception as error:
            return "should not have happened", "".join(traceback.format_exception(error)[-3:])
    if not np.isfinite(probability).all() or (probability < 0).any() or (probability > 1).any():
        return "wrong answer", "probabilities that are none"
    ours_said = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return "answer with a note" if ours_said else "answer", " ".join(ours_said)


def _is_sound(out: Path) -> bool:
    """Whether every probability lies within its interval, for two classes or for more."""
    import pyarrow.csv

    table = pyarrow.csv.read_csv(out)
    ends = [name.removeprefix("probability") for name in table.column_names if name.startswith("probability")]
    for end in ends:
        numbers = np.column_stack([table[name + end].to_numpy() for name in ("low", "probability", "high")])
        if not (np.isfinite(numbers).all() and (np.diff(numbers) >= 0).all() and (numbers <= 1).all()):
            return False
    return bool(ends)


def _remembering(load: Callable[..., tuple]) -> Callable[..., tuple]:
    kept: dict[tuple, tuple] = {}

    def remembered(path: str, **options: object) -> tuple:
        if "hostile.gshift" in path:
            return load(path, **options)
        key = (path, *options.items())
        if key not in kept:
            kept[key] = load(path, **options)
        return copy.deepcopy(kept[key])

    return remembered


def make_commands_quick() -> None:
    """Commands fit a few trees, and load a sound model once: what goes in is tried here, not what is learned."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from groupshift import GroupShiftClassifier
    from groupshift.cli import fit, predict
    from groupshift.tables.columns import TableClassifier

    trees = TableClassifier(HistGradientBoostingClassifier(max_iter=2, max_depth=2, early_stopping=False))
    # Sound models are loaded once. An update changes its model: each attempt has a copy.
    for command in (fit, predict):
        command.load_model = _remembering(command.load_model)
    fit.make_model = lambda method, seed, classifier=None: GroupShiftClassifier(trees, 1, random_state=seed)


def run_some(first: int, last: int, world: Path) -> None:
    """Attempts in this process; a line for each on standard output."""
    make_commands_quick()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_EACH, MEMORY_EACH))
    lines = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, last):
            signal.alarm(SECONDS_EACH)
            outcome, said = attempt(number, world, Path(folder))
            signal.alarm(0)
            lines.write(json.dumps([number, outcome, " ".join(said.split())[:300]]) + "\n")
            lines.flush()


def run_range(first: int, last: int, world: str) -> list[list[Any]]:
    """[number, outcome, what was said] of attempts in child processes; what brings one down is counted, the next goes on."""
    found: list[list[Any]] = []
    while first + len(found) < last:
        number = first + len(found)
        command = [sys.executable, "-m", "benchmarks.hostile", "--from", str(number), "--to", str(last)]
        done = subprocess.run([*command, "--world", world], capture_output=True, text=True, check=False)
        found += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        if first + len(found) < last:
            ended = "hang" if done.returncode == -signal.SIGALRM else "crash"
            found.append([first + len(found), ended, done.stderr[-300:]])
    return found


def run_all(n_attempts: int, n_jobs: int) -> dict[str, Any]:
    """All attempts, so many processes at once."""
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    faults: list[dict[str, object]] = []
    starts = range(0, n_attempts, ATTEMPTS_A_PROCESS)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(n_jobs) as pool:
        make_world(Path(folder))
        ranges = [(first, min(first + ATTEMPTS_A_PROCESS, n_attempts)) for first in starts]
        for found in pool.map(lambda ends: run_range(*ends, folder), ranges):
            for at, outcome, said in found:
                outcomes[KINDS[at % len(KINDS)]][outcome] += 1
                if outcome not in GOOD:
                    faults.append({"number": at, "outcome": outcome, "said": said})
            print(f"{found[-1][0] + 1:,} of {n_attempts:,}, {len(faults)} faults", flush=True)
    total: Counter[str] = sum(outcomes.values(), Counter())
    return {
        "command": COMMAND,
        "origin": described_origin(),
        "attempts": n_attempts,
        "outcomes": {name: total[name] for name in (*GOOD, *sorted(set(total) - set(GOOD)))},
        "by_kind": {kind: dict(sorted(counts.items())) for kind, counts in outcomes.items()},
        "faults": faults,
    }


def run_faults_again(counts: dict[str, Any]) -> dict[str, Any]:
    """The counts that are kept, their faults run again by the code of today; those that end well now are listed as mended."""
    mended, faults = counts.get("mended", []), []
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        make_world(world)
        make_commands_quick()
        for fault in counts["faults"]:
            number = fault["number"]
            outcome, said = attempt(number, world, world)
            for count in (counts["outcomes"], counts["by_kind"][KINDS[number % len(KINDS)]]):
                count[fault["outcome"]] -= 1
                count[outcome] = count.get(outcome, 0) + 1
            now = {"number": number, "outcome": outcome, "said": " ".join(said.split())[:300]}
            if outcome in GOOD:
                mended.append({**now, "was": fault["outcome"], "said_then": fault["said"]})
            else:
                faults.append(now)
    for count in (counts["outcomes"], *counts["by_kind"].values()):
        for name in [name for name, n in count.items() if n == 0 and name not in GOOD]:
            del count[name]
    return {**counts, "faults": faults, "mended": mended}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="200 attempts, nothing kept")
    parser.add_argument("--repeats", type=int, help="not used: an attempt is made from its number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--out", type=Path, default=KEPT)
    parser.add_argument("--again", action="store_true", help="only the faults of the counts that are kept")
    parser.add_argument("--from", type=int, dest="first")
    parser.add_argument("--to", type=int, dest="last")
    parser.add_argument("--world", type=Path)
    options = parser.parse_args()
    if options.world is not None:
        run_some(options.first, options.last, options.world)
        return 0
    start = time.perf_counter()
    if options.again:
        counts = run_faults_again(json.loads((KEPT if options.out.is_dir() else options.out).read_text()))
    else:
        counts = run_all(200 if options.quick else options.attempts, options.jobs)
    print(f"{counts['outcomes']} in {time.perf_counter() - start:.0f} s")
    if not options.quick:
        # `python -m benchmarks` names a folder.
        out = KEPT if options.out.is_dir() else options.out
        out.write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n")
    return int(bool(counts["faults"]))


if __name__ == "__main__":
    sys.exit(main())
