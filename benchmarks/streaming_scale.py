"""Time and memory of a streaming fit as the population grows; each size in a process of its own."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.data import labeled_frame, paper_sample, write_population
from benchmarks.harness import RESULTS, PeakMemory, line, run

MILLIONS = (1, 2, 5, 10, 20)
# One pass of scoring: all else works on labelled rows and samples, whose cost does not grow with the population.
SETTINGS = {"partition": 4, "random_state": 0}


def fit_once(path: str) -> dict:
    """Seconds, peak memory above the labelled data, and the shares, of one fit."""
    from groupshift import GroupShiftClassifier, streaming
    from groupshift._data.progress import listen

    sample = paper_sample(100, 1000)
    labeled = labeled_frame(sample)
    steps: list[tuple[str, float]] = []
    model = GroupShiftClassifier(**SETTINGS)
    with PeakMemory() as memory, listen(lambda step: steps.append((step, time.perf_counter()))):
        start, busy = time.perf_counter(), time.process_time()
        streaming.fit(model, labeled, path, target="label", group="group")
        end = time.perf_counter()
    names = [name for name, _ in steps]
    ends = [at for _, at in steps[1:]] + [end]
    return {
        "seconds": end - start,
        "cpu_seconds": time.process_time() - busy,
        "memory_mib": memory.above_start / 2**20,
        "steps": {name: e - s for name, (_, s), e in zip(names, steps, ends, strict=True)},
        "error": _share_error(model, sample),
        "clusters": model.n_clusters_,
    }


def _share_error(model, sample) -> float:
    """Root mean square error of the share of positives of each group."""
    true = np.array([sample.truth[(sample.groups == g) & ~sample.labeled].mean() for g in model.groups_])
    found = model.group_shares(by="group")["share"]
    return float(np.sqrt(np.mean((np.asarray(found) - true) ** 2)))


def measure(quick: bool, repeats: int) -> dict:
    sizes = [m * (100_000 if quick else 1_000_000) for m in MILLIONS]
    results = []
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = RESULTS / "streaming_scale-so-far.json"
    sample = paper_sample(100, 1000)
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in sizes:
            path = write_population(sample, Path(folder) / "rows.parquet", n_rows)
            for _ in range(repeats):
                command = [sys.executable, "-m", "benchmarks.streaming_scale", "--one", str(path)]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                results.append({"rows": n_rows, "mib_of_data": n_rows * 16 * 8 / 2**20, **json.loads(answer)})
            path.unlink()
            # Large sizes take long: what is measured is kept even if the run is stopped.
            kept.write_text(json.dumps(results, indent=1) + "\n")
    kept.unlink()
    name = f"streaming_scale{'-quick' if quick else ''}.png"
    draw(results, RESULTS / name)
    most = max(r["memory_mib"] for r in results)
    # Linear: what a row costs beyond the fixed work on labelled rows is the same at every size.
    # Seconds of the processor: what else runs on the machine does not bend the line.
    n, seconds = np.array([[r["rows"], r["cpu_seconds"]] for r in results]).T
    slope, fixed = np.polyfit(n, seconds, 1)
    apart = float(np.abs(seconds / (slope * n + fixed) - 1).max())
    errors = f"error of group shares {results[0]['error']:.4f} to {results[-1]['error']:.4f}"
    rate = 1 / slope
    return {
        "settings": SETTINGS,
        "runs": results,
        "seconds_per_million_rows": slope * 1e6,
        "fixed_seconds": fixed,
        "figure": name,
        "lines": [
            line(
                f"memory of a fit to {sizes[-1]:,} x 16 in MiB",
                "above the labelled data",
                ratio=most,
                reach="< 2048",
                met=most < 2048,
                accuracy=errors,
            ),
            line(
                f"rows a core second, {sizes[0]:,} to {sizes[-1]:,} rows (up to {apart:.0%} off a line)",
                "a straight line",
                ratio=rate,
                reach="linear within 15 %",
                met=apart <= 0.15,
                accuracy=errors,
            ),
        ],
    }


def draw(results: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = [r["rows"] / 1e6 for r in results]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(n, [r["seconds"] for r in results], "o-", color="#1f5fa8")
    left.set(
        xlabel="unlabelled rows (millions)", ylabel="seconds", title="Time of a streaming fit", xlim=0, ylim=0
    )
    right.plot(n, [r["mib_of_data"] / 1024 for r in results], "--", color="#888888", label="the data itself")
    right.plot(
        n, [r["memory_mib"] / 1024 for r in results], "o-", color="#1f5fa8", label="peak above labelled data"
    )
    right.set(xlabel="unlabelled rows (millions)", ylabel="GiB", title="Memory", xlim=0, ylim=0)
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    if "--one" in sys.argv:
        print(json.dumps(fit_once(sys.argv[-1])))
    else:
        run("streaming_scale", "Time and memory of a streaming fit", measure, repeats=1, quick_repeats=1)
