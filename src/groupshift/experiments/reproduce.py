"""`groupshift reproduce`: the same commands as `python -m groupshift.experiments`, with a progress bar."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar
    from typer.core import TyperGroup
except ImportError as error:
    raise ImportError(
        'The command line needs typer and rich. Install them with: pip install "groupshift[cli]"'
    ) from error

from groupshift.experiments.console import failed_words, plain_progress, remains, report_cost
from groupshift.experiments.run import Progress, run_experiment
from groupshift.experiments.spec import load_experiment

CORES = os.cpu_count() or 1


class _RunByDefault(TyperGroup):
    """`reproduce paper.toml` means `reproduce run paper.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Run the paper's experiments again, and report on them. `reproduce paper.toml` runs it.",
)

Spec = Annotated[str, typer.Argument(metavar="FILE", help="A TOML file, or paper, authors_code, beyond.")]
Out = Annotated[str | None, typer.Option("--out", "-o", metavar="FOLDER", help="By default results/NAME.")]
Scale = Annotated[str | None, typer.Option(help="small, results or paper; by default the file's own.")]
Data = Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the data files are.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Draws at the same time; by default one for each core.")
]


@app.command(epilog="[bold]Example[/]  groupshift reproduce paper.toml --scale small --out results/paper")
def run(
    spec: Spec,
    out: Out = None,
    scale: Scale = None,
    data: Data = None,
    jobs: Jobs = CORES,
    backend: Annotated[str, typer.Option(help="joblib's backend, such as loky or dask.")] = "loky",
    stop_after: Annotated[
        float | None, typer.Option(help="Seconds after which nothing new is begun.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed.")] = False,
) -> None:
    """Run what is not finished yet of an experiment. Kill it whenever you like: it goes on where it was."""
    experiment = load_experiment(spec, scale=scale, data_dir=data)
    folder = out or f"results/{experiment.name}"
    report_cost(experiment, folder, n_jobs=jobs, retry_failed=retry_failed)
    try:
        with progress_bar() as show:
            summary = run_experiment(
                experiment,
                folder,
                n_jobs=jobs,
                backend=backend,
                stop_after=stop_after,
                retry_failed=retry_failed,
                on_progress=show,
            )
    except KeyboardInterrupt:
        typer.echo("Stopped. What is finished is kept; run the same command again to go on.", err=True)
        raise typer.Exit(130) from None
    left = f", {summary.left} left for the next run" if summary.left else ""
    typer.echo(
        f"{summary.ran} run, {summary.failed} failed{left}; {summary.rows} rows in {folder}/results.csv."
    )
    typer.echo(f"Next: groupshift reproduce report {folder}")


@app.command()
def cost(spec: Spec, out: Out = None, scale: Scale = None, data: Data = None, jobs: Jobs = CORES) -> None:
    """Say what a run would cost, and run nothing."""
    experiment = load_experiment(spec, scale=scale, data_dir=data)
    report_cost(experiment, out or f"results/{experiment.name}", n_jobs=jobs)


@app.command()
def prepare(
    spec: Spec,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FOLDER", help="To be passed as --data.")],
    scale: Scale = None,
    data: Data = None,
) -> None:
    """Write the real tables of an experiment as npz files, for a machine without pyarrow."""
    from groupshift.experiments.data_sources import prepare_tables

    for path in prepare_tables(load_experiment(spec, scale=scale, data_dir=data), out):
        typer.echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


@app.command(epilog="[bold]Example[/]  groupshift reproduce report results/paper")
def report(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder that `run` wrote.")],
    out: Annotated[str | None, typer.Option("--out", "-o", help="By default FOLDER/report.")] = None,
    figures: Annotated[bool, typer.Option(help="Draw figures; needs matplotlib.")] = True,
) -> None:
    """Write one HTML file with the tables and figures of a folder of results, each as files besides."""
    from groupshift.experiments.experiment_report import write_report

    typer.echo(write_report(folder, out, figures=figures))


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A bar that says what remains; plain lines where standard error is a file."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield plain_progress
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rest]}"),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("runs", total=None, rest="")

        def show(progress: Progress) -> None:
            rest = f"{remains(progress)}{failed_words(progress)}"
            bar.update(task, completed=progress.done, total=progress.total, rest=rest)

        yield show
