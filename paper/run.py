"""Run the tasks of an experiment in parallel; what is finished stays finished, whatever happens."""

import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from threading import Thread

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits

from groupshift.datasets import GroupedSample
from paper.data_sources import describe_table, without_missing
from paper.grid import Task, list_tasks
from paper.methods import run_method
from paper.origin import deciding_origin
from paper.sharing import SharedWork
from paper.spec import Experiment
from paper.store import Store


@dataclass(frozen=True)
class Progress:
    """How far a run is: tasks behind it, out of all that were to be run, and the seconds that they took."""

    done: int
    total: int
    failed: int
    seconds: float
    last: str

    @property
    def remaining_seconds(self) -> float:
        """At the pace so far. Large draws come first, so it is rather too long than too short."""
        return self.seconds * (self.total - self.done) / max(self.done, 1)


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    ran: int
    failed: int
    left: int
    rows: int


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    n_jobs: int = 1,
    backend: str = "loky",
    stop_after: float | None = None,
    retry_failed: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Run what is not finished yet of an experiment, and make its tables.

    Parameters
    ----------
    out : path
        Folder of the results. A run that was killed is resumed by running it again.
    n_jobs : int
        Draws that run at the same time, each in a process of one thread.
    backend : {"loky", "dask", "threading", ...}
        joblib's; "dask" uses the Dask client of this process.
    stop_after : float, optional
        Seconds after which no new draw or method is begun.
    retry_failed : bool
        Run again what failed before.
    on_progress : callable, optional
        Called after every finished draw.

    Returns
    -------
    Summary
    """
    _, absent = without_missing(experiment)
    if absent:
        raise FileNotFoundError(absent)
    store, tasks = Store(out), list_tasks(experiment)
    tables = {data.name: describe_table(data) for data in experiment.data}
    with store.lock():
        store.refuse_other_runs(tasks, tables)
        pending = store.pending(tasks, retry_failed=retry_failed)
        store.write_experiment(experiment, tables)
        deadline = None if stop_after is None else time.time() + stop_after
        ran, failed = 0, 0
        try:
            for progress in _run_all(experiment, store, pending, n_jobs, backend, deadline):
                ran, failed = progress.done, progress.failed
                if on_progress is not None:
                    on_progress(progress)
        except TerminatedWorkerError as error:
            raise ChildProcessError(
                f"A worker died, most likely for lack of memory. What is finished is kept in {out}: run it again "
                f"with fewer than {n_jobs} jobs."
            ) from error
        finally:
            counts = store.combine(tasks)
    return Summary(ran, failed, len(pending) - ran, counts["rows"])


def _run_all(
    experiment: Experiment,
    store: Store,
    pending: list[Task],
    n_jobs: int,
    backend: str,
    deadline: float | None,
) -> Iterator[Progress]:
    draws = [list(tasks) for _, tasks in groupby(pending, key=lambda task: task.draw.key)]
    # Of one repetition the largest draws come first, so that none of them is waited for at the end: real
    # tables, then synthetic ones by their dimension.
    draws.sort(key=lambda tasks: (tasks[0].draw.repetition, -(tasks[0].draw.d or math.inf)))
    parent = os.getpid() if backend == "loky" else None
    jobs = (delayed(run_draw)(experiment, tasks, str(store.folder), deadline, parent) for tasks in draws)
    done, failed, start = 0, 0, time.perf_counter()
    # Workers of loky read it before any code of ours runs there; others are told in `run_draw`.
    threads = 1 if backend == "loky" else None
    with parallel_config(backend=backend, inner_max_num_threads=threads):
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all")
        for finished in parallel(jobs):
            if finished:
                done += len(finished)
                failed += sum(status == "failed" for _, status in finished)
                last = finished[-1][0].split("/")[0]
                yield Progress(done, len(pending), failed, time.perf_counter() - start, last)


def run_draw(
    experiment: Experiment,
    tasks: list[Task],
    folder: str,
    deadline: float | None = None,
    parent: int | None = None,
) -> list[tuple[str, str]]:
    """Make a draw, run methods on it, store each as soon as it is finished; (key, status) of each.

    `parent` is the process that holds the folder's lock: a worker of another process ends when that one does.
    """
    if parent is not None and parent != os.getpid():
        _end_with(parent)
    store, work, finished = Store(folder), SharedWork(), []
    if deadline is not None and time.time() >= deadline:
        return []
    with threadpool_limits(limits=1):
        sample: GroupedSample | Exception
        try:
            sample = tasks[0].draw.sample()
        except Exception as error:
            sample = error
        for task in tasks:
            if deadline is not None and time.time() >= deadline:
                break
            lines = _run_task(experiment, task, sample, work)
            store.write(task, lines)
            finished.append((task.key, str(lines[0]["status"])))
    return finished


@cache
def _end_with(parent: int) -> None:
    """End this process as soon as its parent is gone; asked once for each worker."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        # At once: what is written after the parent has ended is written without its lock.
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _run_task(
    experiment: Experiment, task: Task, sample: GroupedSample | Exception, work: SharedWork
) -> list[dict[str, object]]:
    try:
        if isinstance(sample, Exception):
            raise RuntimeError(f"The draw could not be made: {sample}") from sample
        outcome = run_method(experiment, task, sample, work)
    except Exception as error:
        # One method on one draw is a hole in a table, not the end of a night's work.
        place = traceback.format_exception(error)[-3:]
        return [_run_line(task, "failed", error=f"{type(error).__name__}: {error}", traceback="".join(place))]
    return [
        _run_line(task, "ok", notes=outcome.notes),
        *({"kind": "row", "metric": name, "value": value} for name, value in outcome.metrics.items()),
        {"kind": "by_group", "columns": outcome.by_group},
        {"kind": "calibration", "columns": outcome.calibration},
    ]


def _run_line(task: Task, status: str, **more: object) -> dict[str, object]:
    origin = deciding_origin()
    return {
        "kind": "run",
        **task.labels,
        "status": status,
        "fingerprint": task.fingerprint,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": f"{platform.machine()} {os.cpu_count()} cores",
        # Of the process that ran it: a worker elsewhere may have others.
        "versions": {name: value for name, value in origin.items() if name != "machine"},
        **more,
    }
