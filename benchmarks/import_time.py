"""What `import groupshift` costs over `import sklearn`, in fresh processes."""

import subprocess
import sys

from benchmarks.harness import line, run

CODE = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
STATEMENTS = {
    "sklearn": "import sklearn",
    "groupshift": "import groupshift",
    "both": "import sklearn; import groupshift",
    # The first use of the estimator loads what it is made of; so does scikit-learn's.
    "sklearn's models": "from sklearn.ensemble import HistGradientBoostingClassifier; import sklearn.cluster",
    "the estimator": "from groupshift import GroupShiftClassifier",
}


def seconds(statement: str) -> float:
    command = [sys.executable, "-c", CODE.format(statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(quick: bool, repeats: int) -> dict:
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repeats):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    # The fastest of several: whatever else the machine does can only add to it.
    least = {name: min(values) for name, values in times.items()}
    return {
        "seconds": times,
        "fastest": least,
        "lines": [
            _claim("import groupshift", "import sklearn", least["both"] - least["sklearn"], limit=0.1),
            _claim(
                "the estimator",
                "scikit-learn's own models",
                least["the estimator"] - least["sklearn's models"],
            ),
        ],
    }


def _claim(what: str, against: str, over: float, limit: float | None = None) -> dict:
    return line(
        f"{what}, seconds over",
        against,
        ratio=over,
        reach="shown" if limit is None else f"<= {limit}",
        met=limit is None or over <= limit,
        accuracy="no accuracy is at stake",
    )


if __name__ == "__main__":
    run("import_time", "What importing costs", measure, repeats=9, quick_repeats=5)
