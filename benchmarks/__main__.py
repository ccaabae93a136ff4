"""Run benchmarks, each in a process of its own, and sum their claims up in summary.csv."""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import RESULTS, summarize

NAMES = (
    "class_shares",
    "many_classes",
    "many_small_groups",
    "group_cost",
    "fit_cost",
    "default_fit",
    "predict",
    "threads",
    "check_columns",
    "growth",
    "theorem_one",
    "streaming_fit",
    "streaming_scale",
    "dask_workers",
    "dask_traffic",
    "spark",
    "whole_job",
    "intervals",
    "prediction_sets",
    "import_time",
    "hostile",
    "hostile_estimators",
    "audit",
    "serve_memory",
)
# Those that need a folder of data; without one they are left out, unless they are named.
NEED_DATA = {"audit"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(NAMES)}")
    parser.add_argument(
        "--all", action="store_true", help="all of them, which takes hours and replaces what is kept"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes in all")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--data", help=f"folder of the shared data, for {', '.join(sorted(NEED_DATA))}")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    if not options.names and not options.all:
        # A run overwrites results and takes hours: nobody wants that by leaving out a word.
        print(f"Name what to run, or pass --all; there are {', '.join(NAMES)}.")
        return 2
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    passed = ["--quick"] * options.quick + (["--repeats", str(options.repeats)] if options.repeats else [])
    passed += ["--out", str(options.out)]
    data = ["--data", options.data] if options.data else []
    wanted = options.names or [name for name in NAMES if options.data or name not in NEED_DATA]
    failed = [
        name
        for name in wanted
        if subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *passed, *(data if name in NEED_DATA else [])],
            check=False,
        ).returncode
    ]
    print(f"claims: {summarize(options.out)}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
