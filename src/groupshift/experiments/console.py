"""What a person at a terminal sees of a run: what is to be done before it, what remains during it."""

import sys
from collections import Counter
from collections.abc import Collection

from groupshift._explain.wording import plural
from groupshift.experiments.grid import Task
from groupshift.experiments.run import Progress
from groupshift.experiments.table_text import duration, place_title


def say(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def plan_line(tasks: Collection[Task], pending: Collection[Task]) -> str:
    """What is to be done, in one line."""
    if not pending:
        return f"Nothing is left to do: {plural(len(tasks), 'run')} of a method are finished."
    draws = plural(len({task.draw.key for task in pending}), "draw")
    finished = len(tasks) - len(pending)
    kept = f"; {finished:,} of {len(tasks):,} are finished and stay" if finished else ""
    return f"{draws}, {plural(len(pending), 'run')} of a method{kept}."


def plan_table(tasks: Collection[Task], pending: Collection[Task]) -> list[str]:
    """A line for each data set and setting: its draws, the methods on them, and how many runs are left."""
    left = Counter(_place(task) for task in pending)
    lines = []
    for place in dict.fromkeys(map(_place, tasks)):
        here = [task for task in tasks if _place(task) == place]
        draws = plural(len({task.draw.key for task in here}), "draw")
        methods = ", ".join(dict.fromkeys(task.method.label for task in here))
        lines.append(f"  {place}: {draws}, {left[place]:,} of {plural(len(here), 'run')} left ({methods})")
    return lines


def _place(task: Task) -> str:
    return place_title(task.draw.data.name, str(task.draw.setting))


def progress_line(progress: Progress) -> str:
    """One line that says what remains.

    >>> progress_line(Progress(done=3, total=12, failed=1, seconds=60.0, last="synthetic-d01"))
    '3 of 12 runs, 1 failed; about 3 minutes remain (synthetic-d01 done)'
    """
    failed = f", {progress.failed} failed" if progress.failed else ""
    rest = f"about {duration(progress.remaining_seconds)} remain"
    rest = "nothing remains" if progress.done == progress.total else rest
    return f"{progress.done} of {progress.total} runs{failed}; {rest} ({progress.last} done)"


def show_progress(progress: Progress) -> None:
    """A line for each finished draw; at a terminal each takes the place of the one before."""
    if not sys.stderr.isatty():
        say(progress_line(progress))
        return
    end = "\n" if progress.done == progress.total else ""
    sys.stderr.write(f"\r\x1b[K{progress_line(progress)}{end}")
    sys.stderr.flush()
