"""What every benchmark shares: repeats side by side, machine and versions, results kept as files."""

import argparse
import csv
import gc
import json
import os
import platform
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "benchmarks"
PACKAGES = (
    "groupshift",
    "numpy",
    "scipy",
    "scikit-learn",
    "pyarrow",
    "dask",
    "QuaPy",
    "mlquantify",
    "gpboost",
)


def side_by_side(
    contenders: dict[str, Callable[[], Any]], *, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, dict]:
    """Seconds of each contender, taken in turns so that a slow moment of the machine hits all of them.

    The `clock` counts wall time. `time.process_time` counts that of the processor, which other work on the machine changes
    little: for what runs on one thread, on both sides.

    Returns for each: `seconds` (all repeats), `median`, `fastest`, and `answer`, what its last call returned.
    """
    results: dict[str, dict] = {name: {"seconds": []} for name in contenders}
    for _ in range(repeats):
        for name, call in contenders.items():
            gc.collect()
            start = clock()
            answer = call()
            results[name]["seconds"].append(clock() - start)
            results[name]["answer"] = answer
    for result in results.values():
        result["median"] = statistics.median(result["seconds"])
        result["fastest"] = min(result["seconds"])
    return results


def timing(result: dict) -> dict[str, Any]:
    """The part of a result that is kept in a file."""
    return {key: result[key] for key in ("seconds", "median", "fastest")}


class PeakMemory:
    """Peak resident memory of this process above its start, watched every 20 ms."""

    def __enter__(self) -> "PeakMemory":
        import psutil

        self.process = psutil.Process()
        gc.collect()
        self.start = self.peak = self.process.memory_info().rss
        self.running = True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while self.running:
            self.peak = max(self.peak, self.process.memory_info().rss)
            time.sleep(0.02)

    def __exit__(self, *error: object) -> None:
        self.running = False
        self.thread.join()

    @property
    def above_start(self) -> int:
        return self.peak - self.start


def environment() -> dict[str, Any]:
    """Command, machine, threads and versions."""
    return {
        "command": "python -m " + " ".join(["benchmarks." + Path(sys.argv[0]).stem, *sys.argv[1:]]),
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "machine": _processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "not set"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def run(
    name: str,
    title: str,
    measure: Callable[..., dict],
    *,
    repeats: int = 5,
    quick_repeats: int = 3,
    needs_data: bool = False,
) -> None:
    """Run one benchmark from the command line and keep its result as `results/benchmarks/<name>.json`.

    `measure(quick, repeats)`, or `measure(quick, repeats, data)` where it needs a folder of data, returns a dict whose "lines"
    are the claims: what, against, ratio, reach, met, accuracy.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--repeats", type=int, help="times that each contender runs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    if needs_data:
        parser.add_argument("--data", type=Path, required=True, help="folder of the shared data")
    options = parser.parse_args()
    before = environment()
    count = options.repeats or (quick_repeats if options.quick else repeats)
    found = measure(options.quick, count, *([options.data] if needs_data else []))
    report = {"title": title, **before, "quick": options.quick, "repeats": count, **found}
    report["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    options.out.mkdir(parents=True, exist_ok=True)
    # A quick run never replaces a full one.
    path = options.out / f"{name}{'-quick' if options.quick else ''}.json"
    path.write_text(json.dumps(report, indent=1, default=float) + "\n")
    print(title)
    for line in found["lines"]:
        print(
            f"  {line['what']}, against {line['against']}: {line['ratio']:.3g} "
            f"(reach {line['reach']}, {'met' if line['met'] else 'NOT MET'}); {line['accuracy']}"
        )


def line(what: str, against: str, *, ratio: float, reach: str, met: bool, accuracy: str) -> dict[str, Any]:
    """One claim: a ratio of speeds or times, what it should reach, and the accuracy that goes with it."""
    return {
        "what": what,
        "against": against,
        "ratio": float(ratio),
        "reach": reach,
        "met": bool(met),
        "accuracy": accuracy,
    }


def summarize(folder: Path) -> Path:
    """All claims of all results in a folder as one CSV file."""
    path = folder / "summary.csv"
    fields = ["benchmark", "quick", "what", "against", "ratio", "reach", "met", "accuracy"]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for source in sorted(folder.glob("*.json")):
            report = json.loads(source.read_text())
            for claim in report.get("lines", []):
                claim = {**claim, "ratio": f"{claim['ratio']:.4g}"}
                writer.writerow({"benchmark": source.stem, "quick": report["quick"], **claim})
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
