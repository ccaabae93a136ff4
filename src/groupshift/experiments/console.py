"""What a person at a terminal sees of a run: its cost before, what remains during."""

from __future__ import annotations

import sys
from pathlib import Path

from groupshift.experiments.cost import Cost, duration, estimate_cost
from groupshift.experiments.grid import list_tasks
from groupshift.experiments.run import Progress
from groupshift.experiments.spec import Experiment
from groupshift.experiments.store import Store


def report_cost(experiment: Experiment, out: str | Path, *, n_jobs: int, retry_failed: bool = False) -> Cost:
    """Say on standard error what is about to be run and what it will cost."""
    tasks = list_tasks(experiment)
    pending = Store(out).pending(tasks, retry_failed=retry_failed)
    cost = estimate_cost(experiment, pending, n_jobs=n_jobs)
    sys.stderr.write(f"{experiment.title} (scale {experiment.scale}, seed {experiment.seed}) into {out}\n")
    if len(pending) < len(tasks):
        sys.stderr.write(f"{len(tasks) - len(pending)} of {len(tasks)} runs are finished and stay.\n")
    sys.stderr.write(f"{cost if pending else 'Nothing is left to do.'}\n")
    return cost


def plain_progress(progress: Progress) -> None:
    sys.stderr.write(f"{progress_line(progress)}\n")
    sys.stderr.flush()


def progress_line(progress: Progress) -> str:
    """One line that says what remains.

    >>> progress_line(Progress(done=3, total=12, failed=1, share=0.25, seconds=60.0, last="synthetic-d01"))
    '3 of 12 runs, 1 failed; about 3 minutes remain (synthetic-d01 done)'
    """
    return f"{progress.done} of {progress.total} runs{failed_words(progress)}; {remains(progress)}"


def failed_words(progress: Progress) -> str:
    return f", {progress.failed} failed" if progress.failed else ""


def remains(progress: Progress) -> str:
    """What remains, and what was done last."""
    rest = f"about {duration(progress.remaining_seconds)} remain"
    return f"{'nothing remains' if progress.done == progress.total else rest} ({progress.last} done)"
