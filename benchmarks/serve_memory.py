"""How much memory the page's process takes while files of 1,000,000 rows are dropped and looked at.

python -m benchmarks.serve_memory
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.harness import line, run
from groupshift.tables.files import write_table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

# What the issue allows, in MB.
REACH = 500


def make_files(folder: Path, n_rows: int) -> None:
    """A survey with a labelled part of 2 %, as CSV."""
    rng = np.random.default_rng(0)
    for name, n in (("labeled", n_rows // 50), ("population", n_rows)):
        columns = {f"x{i}": rng.normal(size=n).round(4) for i in range(6)}
        columns["region"] = np.array([f"region {g:03d}" for g in range(200)])[rng.integers(0, 200, n)]
        if name == "labeled":
            positive = columns["x0"] + rng.normal(size=n) > 0.3
            columns["ill"] = np.where(positive, "yes", "no")
        write_table(pa.table(columns), folder / f"{name}.csv")


def memory_of(process: subprocess.Popen) -> float:
    """The most memory that a process has had so far, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def measure(quick: bool, repeats: int) -> dict:
    from serve_pages import served

    n_rows = 50_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as made, served() as page:
        folder = Path(made)
        make_files(folder, n_rows)
        page.ask("GET", "")
        before = memory_of(page.process)
        job = page.new_job()
        start = time.perf_counter()
        for slot in ("labeled", "population"):
            # A file is sent in pieces, as a browser does.
            with open(folder / f"{slot}.csv", "rb") as file:
                status = page.ask("PUT", f"jobs/{job}/files/{slot}?name={slot}.csv", file)[0]
            assert status == 201
        uploaded = time.perf_counter() - start
        state = page.json("POST", f"jobs/{job}/start/look") and page.wait(job, "look", 600)
        assert state["status"] == "done", state
        looked = time.perf_counter() - start - uploaded
        found = page.json("GET", f"jobs/{job}/columns")[1]
        assert found["unlabeled_rows"] == n_rows
        after = memory_of(page.process)
        size = (folder / "population.csv").stat().st_size / 1e6
    what = f"most memory of the page's process in MB, {n_rows:,} rows ({size:.0f} MB) dropped and looked at"
    seconds = f"upload {uploaded:.1f} s, look {looked:.1f} s"
    return {
        "rows": n_rows,
        "file_mb": round(size, 1),
        "memory_mb_before": round(before, 1),
        "memory_mb_most": round(after, 1),
        "upload_seconds": round(uploaded, 2),
        "look_seconds": round(looked, 2),
        "lines": [
            line(what, "nothing", ratio=after, reach=f"< {REACH}", met=after < REACH, accuracy=seconds)
        ],
    }


if __name__ == "__main__":
    run("serve_memory", "Memory of the page's process", measure, repeats=1, quick_repeats=1)
