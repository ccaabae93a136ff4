"""The default fit on several cores: library defaults on a busy machine, two cores against one.

On two cores a large fit has a second process. It takes a second or two to start, stays for the fits that follow and ends after
five minutes without work. The first fit of a Python process is its start as well: that is shown on a line of its own, and what
is compared is the fits after it.
"""

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

    sides = {"one core": lambda: fit(1), "two cores": lambda: fit(2), "library defaults": lambda: fit(None)}
    first = side_by_side({name: sides[name] for name in ("one core", "two cores")}, repeats=1)
    idle = side_by_side(sides, repeats=repeats)
    memory = process_memory()
    with busy_cores():
        busy = side_by_side({name: sides[name] for name in ("one core", "library defaults")}, repeats=repeats)
    answers = [result["answer"].predict_proba(X, groups) for result in idle.values()]
    alike = all(np.array_equal(answers[0], other) for other in answers[1:])
    said = "the same bits" if alike else "NOT the same bits"
    rows = f"default fit, {known.sum():,} labelled and {(~known).sum():,} unlabelled rows"

    def claim(what: str, against: str, ratio: float, reach: str, met: bool) -> dict:
        return line(what, against, ratio=ratio, reach=reach, met=met and alike, accuracy=said)

    slower = _ratio(busy, "library defaults", "one core")
    faster = _ratio(idle, "one core", "two cores")
    at_first = _ratio(first, "one core", "two cores")
    return {
        "details": {
            f"{name}, {state}": timing(result)
            for state, found in (("first fit", first), ("idle", idle), ("every core busy", busy))
            for name, result in found.items()
        },
        "memory_of_second_process_mb": memory,
        "lines": [
            claim(f"{rows}, library defaults, every core busy", "one core", slower, "<= 1.2", slower <= 1.2),
            claim(f"{rows}, how much faster on two cores", "one core", faster, ">= 1.6", faster >= 1.6),
            claim(
                f"{rows}, the same, the second process not started yet", "one core", at_first, "shown", True
            ),
        ],
    }


def _ratio(found: dict, one: str, other: str) -> float:
    return found[one]["median"] / found[other]["median"]


def process_memory() -> list[int]:
    """Megabytes of each process that works for this one, without what they share with others."""
    import psutil

    children = psutil.Process().children()
    return [
        round(p.memory_full_info().uss / 2**20)
        for p in children
        if "resource_tracker" not in str(p.cmdline())
    ]


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
    run("threads", "The default fit on several cores", measure, repeats=3, quick_repeats=1)
