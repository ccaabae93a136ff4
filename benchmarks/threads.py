"""The default fit on threads: library defaults on a busy machine, two cores against one."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from joblib import cpu_count

from benchmarks.data import paper_sample
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier


def measure(quick: bool, repeats: int) -> dict:
    sample = paper_sample(60, 400) if quick else paper_sample(200, 1640)
    X, y, groups, _ = sample.training()
    known = y >= 0

    def fit(n_jobs: int | None):
        return GroupShiftClassifier(random_state=0, n_jobs=n_jobs).fit(X, y, groups=groups)

    sides = {
        "one thread": lambda: fit(1),
        "two threads": lambda: fit(2),
        "library defaults": lambda: fit(None),
    }
    idle = side_by_side(sides, repeats=repeats)
    with busy_cores():
        busy = side_by_side(
            {name: sides[name] for name in ("one thread", "library defaults")}, repeats=repeats
        )
    answers = [result["answer"].predict_proba(X, groups) for result in idle.values()]
    alike = all(np.array_equal(answers[0], other) for other in answers[1:])
    said = "the same bits" if alike else "NOT the same bits"
    rows = f"default fit, {known.sum():,} labelled and {(~known).sum():,} unlabelled rows"

    def claim(what: str, against: str, ratio: float, reach: str, met: bool) -> dict:
        return line(what, against, ratio=ratio, reach=reach, met=met and alike, accuracy=said)

    slower = _ratio(busy, "library defaults", "one thread")
    faster = _ratio(idle, "one thread", "two threads")
    return {
        "details": {
            f"{name}, {state}": timing(result)
            for state, found in (("idle", idle), ("every core busy", busy))
            for name, result in found.items()
        },
        "lines": [
            claim(
                f"{rows}, library defaults, every core busy", "one thread", slower, "<= 1.2", slower <= 1.2
            ),
            claim(f"{rows}, how much faster on two threads", "one thread", faster, ">= 1.6", faster >= 1.6),
        ],
    }


def _ratio(found: dict, one: str, other: str) -> float:
    return found[one]["median"] / found[other]["median"]


@contextmanager
def busy_cores() -> Iterator[None]:
    """A process for each core that never rests."""
    context = multiprocessing.get_context("spawn")
    spinning = [context.Process(target=_spin, daemon=True) for _ in range(cpu_count())]
    for process in spinning:
        process.start()
    # Until they have begun.
    time.sleep(2)
    try:
        yield
    finally:
        for process in spinning:
            process.terminate()
            process.join()


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    run("threads", "The default fit on threads", measure, repeats=2, quick_repeats=1)
