"""The command line: `python -m paper run paper`, `report`, `fetch`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from paper.acs import download_persons
from paper.run import Progress, run_experiment, without_missing
from paper.spec import SPECS, load_experiment

EPILOG = "Example: python -m paper run paper --scale small --out paper/results/small"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    options = _parser().parse_args(given)
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
    experiment = load_experiment(options.spec, scale=options.scale, data_dir=options.data)
    folder = options.out or f"paper/results/{experiment.name}"
    say(f"{experiment.title} (scale {experiment.scale}, seed {experiment.seed}) into {folder}")
    experiment, absent = without_missing(experiment)
    if absent:
        say(absent)
    ended = run_experiment(experiment, folder, n_jobs=options.jobs, on_progress=show)
    say(
        f"{ended.done} of {ended.total} runs finished, {ended.failed} failed. Next: python -m paper report {folder}"
    )


def show(progress: Progress) -> None:
    failed = f", {progress.failed} failed" if progress.failed else ""
    say(f"{progress.done} of {progress.total} runs{failed} ({progress.last} done)")


def _fetch(options: argparse.Namespace) -> None:
    states = options.states.split(",") if options.states else None
    files = download_persons(
        year=options.year, horizon=f"{options.years}-Year", states=states, data_dir=Path(options.out)
    )
    say(f"{len(files)} files. Next: python -m paper run paper --data {files[0].parent}")


def _report(options: argparse.Namespace) -> None:
    from paper.report import write_report

    say(str(write_report(options.folder, options.out)))


COMMANDS = {
    "run": (_run, "run what is not finished yet; stop it whenever you like, it goes on where it was"),
    "report": (
        _report,
        "write one HTML file on a folder of results beside the article, and its figures as files",
    ),
    "fetch": (_fetch, "download Census files of person records, with folktables"),
}


def _parser() -> argparse.ArgumentParser:
    about = "Run the article's experiments again, and set them beside the article."
    parser = argparse.ArgumentParser(prog="python -m paper", description=about, epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    subs = {
        name: commands.add_parser(name, help=text, description=text) for name, (_, text) in COMMANDS.items()
    }
    names = ", ".join(sorted(path.stem for path in SPECS.glob("*.toml")))
    run, report, fetch = subs["run"], subs["report"], subs["fetch"]
    run.add_argument("spec", metavar="FILE", help=f"a TOML file, or {names}")
    run.add_argument("--scale", help="small, results or paper; by default the file's own")
    run.add_argument("--data", metavar="FOLDER", help="where the data files are")
    run.add_argument("--out", "-o", metavar="FOLDER", help="by default paper/results/NAME")
    run.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1, help="draws at the same time")
    report.add_argument("folder", metavar="FOLDER", help="a folder that `run` wrote")
    report.add_argument("--out", "-o", metavar="FOLDER", help="by default FOLDER/report")
    fetch.add_argument("--out", "-o", metavar="FOLDER", required=True, help="to be named by --data later")
    fetch.add_argument("--year", type=int, default=2018, help="by default 2018, as in the article")
    fetch.add_argument("--years", type=int, choices=(1, 5), default=1, help="years that a file covers")
    fetch.add_argument("--states", metavar="AL,AK,…", help="by default all of them, and Puerto Rico")
    return parser


def say(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
