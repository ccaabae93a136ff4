"""`python -m paper`: run the experiments of the article, and report on them."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from groupshift._explain.wording import plural
from paper.acs_files import download_persons
from paper.data_sources import prepare_tables, without_missing
from paper.grid import Task, list_tasks
from paper.run import Progress, run_experiment
from paper.spec import Experiment
from paper.spec_files import load_experiment
from paper.store import Store
from paper.table_text import duration, place_title

EPILOG = "Example: python -m paper paper --scale small --out paper/results/mine"


def main(arguments: Sequence[str] | None = None, prog: str = "python -m paper") -> int:
    """Run a command and return its exit code; `python -m paper paper` means `python -m paper run paper`."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if not given[0].startswith("-") and given[0] not in COMMANDS:
        given.insert(0, "run")
    options = _parser(prog).parse_args(given)
    try:
        COMMANDS[options.command][0](options)
    except (ValueError, OSError, ImportError) as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("\nStopped. What is finished is kept; run the same command again to go on.")
        return 130
    return 0


def _run(options: argparse.Namespace) -> None:
    experiment, store = _named(options)
    experiment, absent = without_missing(experiment)
    tasks = list_tasks(experiment)
    say(_heading(experiment, store))
    say(plan_line(tasks, store.pending(tasks, retry_failed=options.retry_failed)))
    if absent:
        say(absent)
    summary = run_experiment(
        experiment,
        store.folder,
        n_jobs=options.jobs,
        backend=options.backend,
        stop_after=options.stop_after,
        retry_failed=options.retry_failed,
        on_progress=show_progress,
    )
    left = f", {summary.left} left for the next run" if summary.left else ""
    say(
        f"{summary.ran} run, {summary.failed} failed{left}; {summary.rows} rows in {store.folder}/results.csv."
    )
    say(f"Next: python -m paper report {store.folder}")


def _plan(options: argparse.Namespace) -> None:
    experiment, store = _named(options)
    tasks = list_tasks(experiment)
    pending = store.pending(tasks)
    say("\n".join([_heading(experiment, store), *plan_table(tasks, pending), plan_line(tasks, pending)]))


def _prepare(options: argparse.Namespace) -> None:
    experiment, store = _named(options)
    experiment, absent = without_missing(experiment)
    for path in prepare_tables(experiment, store.folder):
        say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    if absent:
        say(absent)


def _fetch(options: argparse.Namespace) -> None:
    folder, horizon = Path(options.out), f"{options.years}-Year"
    states = options.states.split(",") if options.states else None
    files = download_persons(year=options.year, horizon=horizon, states=states, data_dir=folder)
    say(f"{plural(len(files), 'file')}. Next: python -m paper paper --data {files[0].parent}")


def _combine(options: argparse.Namespace) -> None:
    store = Store(options.folder)
    counts = store.combine(store.stored_tasks())
    say(", ".join(f"{n} {what}" for what, n in counts.items()))


def _report(options: argparse.Namespace) -> None:
    from paper.experiment_report import write_report

    say(str(write_report(options.folder, options.out, figures=not options.no_figures)))


COMMANDS = {
    "run": (_run, "run what is not finished yet; kill it whenever you like, it goes on where it was"),
    "plan": (_plan, "list what a run would do, and run nothing"),
    "fetch": (_fetch, "download Census files of person records, with folktables"),
    "prepare": (_prepare, "write the real tables as npz files, for a machine without pyarrow"),
    "combine": (_combine, "make the tables of a folder of results again"),
    "report": (_report, "write one HTML file on a folder of results, and its tables and figures as files"),
}


def _named(options: argparse.Namespace) -> tuple[Experiment, Store]:
    experiment = load_experiment(options.spec, scale=options.scale, data_dir=options.data)
    return experiment, Store(options.out or f"results/{experiment.name}")


def _heading(experiment: Experiment, store: Store) -> str:
    return f"{experiment.title} (scale {experiment.scale}, seed {experiment.seed}) into {store.folder}"


def _parser(prog: str) -> argparse.ArgumentParser:
    about = "Run the paper's experiments again, and report on them. The name of an experiment alone runs it."
    parser = argparse.ArgumentParser(prog=prog, description=about, epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, help_line) in COMMANDS.items():
        sub = commands.add_parser(name, help=help_line, description=help_line)
        if name in ("combine", "report"):
            sub.add_argument("folder", metavar="FOLDER", help="a folder that `run` wrote")
        elif name == "fetch":
            sub.add_argument("--year", type=int, default=2018, help="by default 2018, as in the paper")
            sub.add_argument("--years", type=int, choices=(1, 5), default=1, help="years that a file covers")
            sub.add_argument("--states", metavar="AL,AK,…", help="by default all of them, and Puerto Rico")
        else:
            sub.add_argument(
                "spec", metavar="FILE", help="a TOML file, or paper, authors_code, beyond, flights"
            )
            sub.add_argument("--scale", help="small, results or paper; by default the file's own")
            sub.add_argument("--data", metavar="FOLDER", help="where the data files are")
        if name != "combine":
            default = "FOLDER/report" if name == "report" else "results/NAME"
            needed = name in ("prepare", "fetch")
            about = "where to write; to be named by --data later" if needed else f"by default {default}"
            sub.add_argument("--out", "-o", metavar="FOLDER", help=about, required=needed)
        if name == "run":
            cores = os.cpu_count() or 1
            jobs = "draws at the same time; by default one for each core"
            sub.add_argument("--jobs", "-j", type=int, default=cores, help=jobs)
            sub.add_argument("--backend", default="loky", help="joblib's backend, such as loky or dask")
            sub.add_argument("--stop-after", type=float, help="seconds after which nothing new is begun")
            sub.add_argument("--retry-failed", action="store_true", help="run again what failed")
        if name == "report":
            sub.add_argument("--no-figures", action="store_true", help="tables alone; needs no matplotlib")
    return parser


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
