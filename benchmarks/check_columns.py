"""`groupshift check` on 1,500 columns against 15: what grows faster than its columns is a defect."""

import contextlib
import io
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import line, run, side_by_side, timing

NARROW, WIDE = 15, 1_500


def measure(quick: bool, repeats: int) -> dict:
    n_rows, wide = (1_000, 150) if quick else (5_000, WIDE)
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: _write(Path(folder) / f"{n}.csv", n, n_rows) for n in (NARROW, wide)}
        sides = {str(n): lambda path=path: _check(path) for n, path in paths.items()}
        found = side_by_side(sides, repeats=repeats, clock=time.process_time)
    codes = {name: result["answer"] for name, result in found.items()}
    ratio = found[str(wide)]["median"] / found[str(NARROW)]["median"]
    reach = wide / NARROW
    return {
        "clock": "processor time",
        "details": {f"{name} columns": timing(result) for name, result in found.items()},
        "lines": [
            line(
                f"check, {wide:,} columns x {n_rows:,} rows",
                f"check, {NARROW} columns",
                ratio=ratio,
                reach=f"<= {reach:g} (linear)",
                met=ratio <= reach and set(codes.values()) == {0},
                accuracy=f"exit codes {codes}",
            )
        ],
    }


def _write(path: Path, n_columns: int, n_rows: int) -> Path:
    import pandas as pd

    rng = np.random.default_rng(n_columns)
    frame = pd.DataFrame(rng.normal(size=(n_rows, n_columns)), columns=[f"x{j}" for j in range(n_columns)])
    truth = (frame["x0"] + rng.normal(size=n_rows) > 0).map({True: "yes", False: "no"})
    label = truth.where(rng.random(n_rows) < 0.4, "")
    frame.assign(region=rng.integers(0, 20, n_rows), label=label).to_csv(path, index=False)
    return path


def _check(path: Path) -> int:
    from groupshift.cli.errors import run as command

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return int(command(["check", str(path), "--group", "region", "--target", "label"]))


if __name__ == "__main__":
    run("check_columns", "Checking wide tables", measure, repeats=3, quick_repeats=1)
