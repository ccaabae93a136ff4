"""What `import groupshift` costs over `import sklearn`, in fresh processes."""

import statistics
import subprocess
import sys

from benchmarks.harness import line, run

CODE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
# What scikit-learn's own users import anyway: its models, not its bare name.
MODELS = "sklearn.ensemble, sklearn.cluster"


def seconds(modules: str) -> float:
    command = [sys.executable, "-c", CODE.format(modules)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(quick: bool, repeats: int) -> dict:
    names = {"sklearn": "sklearn", "sklearn's models": MODELS, "groupshift": "groupshift"}
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name, modules in names.items():
            times[name].append(seconds(modules))
    middle = {name: statistics.median(values) for name, values in times.items()}
    over = middle["groupshift"] - middle["sklearn"]
    over_models = middle["groupshift"] - middle["sklearn's models"]
    shown = "no accuracy is at stake"
    return {
        "seconds": times,
        "lines": [
            line(
                "import groupshift, seconds over",
                "import sklearn",
                ratio=over,
                reach="<= 0.1",
                met=over <= 0.1,
                accuracy=shown,
            ),
            line(
                "import groupshift, seconds over",
                f"import {MODELS}",
                ratio=over_models,
                reach="shown",
                met=True,
                accuracy=shown,
            ),
        ],
    }


if __name__ == "__main__":
    run("import_time", "What importing costs", measure, repeats=9, quick_repeats=5)
