"""`python -m groupshift.experiments run paper.toml --out results/paper`: the core dependencies are enough."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from groupshift.experiments.console import plain_progress, report_cost
from groupshift.experiments.data_sources import prepare_tables
from groupshift.experiments.grid import list_tasks
from groupshift.experiments.run import run_experiment
from groupshift.experiments.spec import load_experiment
from groupshift.experiments.store import Store


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (ValueError, OSError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. What is finished is kept; run the same command again to go on.\n")
        return 130


def _run(options: argparse.Namespace) -> int:
    experiment = load_experiment(options.spec, scale=options.scale, data_dir=options.data)
    out = options.out or f"results/{experiment.name}"
    report_cost(experiment, out, n_jobs=options.jobs, retry_failed=options.retry_failed)
    summary = run_experiment(
        experiment,
        out,
        n_jobs=options.jobs,
        backend=options.backend,
        stop_after=options.stop_after,
        retry_failed=options.retry_failed,
        on_progress=plain_progress,
    )
    left = f", {summary.left} left for the next run" if summary.left else ""
    sys.stderr.write(
        f"{summary.ran} run, {summary.failed} failed{left}; {summary.rows} rows in {out}/results.csv.\n"
    )
    return 0


def _cost(options: argparse.Namespace) -> int:
    experiment = load_experiment(options.spec, scale=options.scale, data_dir=options.data)
    report_cost(experiment, options.out or f"results/{experiment.name}", n_jobs=options.jobs)
    return 0


def _prepare(options: argparse.Namespace) -> int:
    experiment = load_experiment(options.spec, scale=options.scale, data_dir=options.data)
    for path in prepare_tables(experiment, options.out):
        sys.stderr.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB\n")
    return 0


def _combine(options: argparse.Namespace) -> int:
    experiment = load_experiment(options.spec, scale=options.scale, data_dir=options.data)
    counts = Store(options.out or f"results/{experiment.name}").combine(list_tasks(experiment))
    sys.stderr.write(", ".join(f"{n} {what}" for what, n in counts.items()) + "\n")
    return 0


def _report(options: argparse.Namespace) -> int:
    from groupshift.experiments.experiment_report import write_report

    sys.stderr.write(f"{write_report(options.folder, options.out)}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m groupshift.experiments", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, command, about in (
        ("run", _run, "run what is not finished yet; kill it whenever you like"),
        ("cost", _cost, "say what it will cost"),
        ("prepare", _prepare, "write its real tables as npz, for a machine without pyarrow"),
        ("combine", _combine, "make the tables of what is finished"),
    ):
        sub = commands.add_parser(name, help=about)
        sub.set_defaults(command=command)
        sub.add_argument("spec", help="a TOML file, or paper, authors_code, beyond")
        sub.add_argument("--out", help="folder of the results", required=name == "prepare")
        sub.add_argument("--scale", help="small, results or paper; by default the file's own")
        sub.add_argument("--data", help="folder of the data files")
        sub.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
        if name == "run":
            sub.add_argument("--backend", default="loky", help="joblib's backend: loky, dask, ...")
            sub.add_argument("--stop-after", type=float, help="seconds after which nothing new is begun")
            sub.add_argument("--retry-failed", action="store_true", help="run again what failed")
    report = commands.add_parser("report", help="tables, figures and one HTML file of a folder of results")
    report.set_defaults(command=_report)
    report.add_argument("folder")
    report.add_argument("--out", help="folder of the report; by default FOLDER/report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
