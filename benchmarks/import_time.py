"""What `import groupshift` costs over `import sklearn`, in fresh processes."""

import statistics
import subprocess
import sys

import numpy as np

from benchmarks.harness import line, run

# The second import is timed in the process that has done the first: the difference of two processes' times, a second
# or more each, would be mostly the machine's mood.
CODE = "import time; {}; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
PAIRS = {
    "import groupshift": ("import sklearn", "import groupshift"),
    # The first use of the estimator loads what it is made of; so does scikit-learn's.
    "the estimator": (
        "from sklearn.ensemble import HistGradientBoostingClassifier; import sklearn.cluster",
        "from groupshift import GroupShiftClassifier",
    ),
}
AGAINST = {"import groupshift": "import sklearn", "the estimator": "scikit-learn's own models"}
LIMITS = {"import groupshift": 0.1}


def seconds(before: str, statement: str) -> float:
    command = [sys.executable, "-c", CODE.format(before, statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(quick: bool, repeats: int) -> dict:
    times: dict[str, list[float]] = {name: [] for name in (*PAIRS, "import sklearn")}
    for _ in range(repeats):
        for name, (before, statement) in PAIRS.items():
            times[name].append(seconds(before, statement))
        times["import sklearn"].append(seconds("pass", "import sklearn"))
    median = {name: statistics.median(values) for name, values in times.items()}
    lines = [
        line(
            f"{name}, seconds over",
            AGAINST[name],
            ratio=median[name],
            reach=f"<= {LIMITS[name]}" if name in LIMITS else "shown",
            met=median[name] <= LIMITS.get(name, np.inf),
            accuracy=f"no accuracy is at stake; import sklearn itself takes {median['import sklearn']:.2f} s",
        )
        for name in PAIRS
    ]
    return {"seconds": times, "median": median, "lines": lines}


if __name__ == "__main__":
    run("import_time", "What importing costs", measure, repeats=9, quick_repeats=5)
