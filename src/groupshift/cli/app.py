"""The commands and their help. Each one parses and calls; the work is in the file of its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

import groupshift
from groupshift.cli.typed_names import split_names as _split
from groupshift.serve.start import serve

Command = TypeVar("Command", bound=Callable[..., None])

EXAMPLES = """
[bold]From two files to a report[/]

  groupshift check   labeled.csv unlabeled.parquet --target y --group state

  groupshift fit     labeled.csv unlabeled.parquet --target y --group state --out model.gshift

  groupshift predict model.gshift new.parquet --out predictions.csv --keep person_id

  groupshift shares  model.gshift --out shares.csv

  groupshift report  model.gshift --out report.html

[bold]Files[/]  CSV, TSV (any separator and encoding), Parquet, Arrow; text may be gzipped; a folder of Parquet files
is one table. Unlabelled rows are read in batches and may be larger than memory. One file with an empty target
where the label is unknown works as well as two. Outputs go by the ending of their name; - is
standard output. They are written whole or not at all, and never over an existing file without --force.

[bold]Columns[/]  Every column but target, group, weight and id is a feature: numbers (also written as text),
dates, categories, missing values as they are. Columns that look like ids are left out, with a note.

[bold]Exit codes[/]  0 all went well · 2 wrong usage, bad input or an output that cannot be written · 1 a
fault of ours (run again with --debug for a traceback) · 130 stopped with Ctrl-C.

No files at hand? groupshift demo. Rather click than type? groupshift serve
"""

app = typer.Typer(
    name="groupshift",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Probabilities for every group, from labels that are a biased sample and a population without.",
    epilog=EXAMPLES,
)


def _argument(name: str, help: str) -> object:
    return typer.Argument(metavar=name, show_default=False, help=help)


def _column(help: str) -> object:
    return typer.Option(metavar="COLUMN", show_default=False, help=help)


def _out(help: str, metavar: str = "FILE") -> object:
    return typer.Option("--out", "-o", metavar=metavar, show_default=False, help=help)


Files = Annotated[
    list[str],
    _argument(
        "LABELED [UNLABELED]",
        "Labelled rows and unlabelled rows; or one file with both. A folder of Parquet is a file.",
    ),
]
Model = Annotated[str, _argument("MODEL", "A model that `groupshift fit` saved.")]
Data = Annotated[str, _argument("DATA", "A file with the columns of the model.")]
Target = Annotated[str, _column("Column of the known labels; two values.")]
Group = Annotated[str | None, _column("Column of the groups: state, hospital, gene …")]
GroupHere = Annotated[str | None, _column("Column of the groups, if it has another name here.")]
Weight = Annotated[str | None, _column("Column of row weights.")]
ExampleId = Annotated[
    str | None, _column("Column that is equal for copies of one example, or members of one household.")
]
Positive = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="Value of the target that counts as positive, against all others."),
]
Features = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Use these columns only.")]
Exclude = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Leave these columns out.")]
KnownShares = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Rates known from elsewhere: group, share and, if known, std_error."),
]
Seed = Annotated[int, typer.Option(help="The same seed, files and versions give the same model.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
Coverage = Annotated[float, typer.Option(metavar="P", help="Probability that an interval holds the truth.")]


def _one_or_two(files: list[str]) -> None:
    if len(files) > 2:
        raise typer.BadParameter(
            f"Pass one or two files, not {len(files)}: labelled rows, then unlabelled rows."
        )


def _command(example: str) -> Callable[[Command], Command]:
    return app.command(epilog=f"[bold]Example[/]  groupshift {example}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"groupshift {groupshift.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback when something fails; works in any place.")
    ] = False,
) -> None:
    pass


@_command("check labeled.csv unlabeled.csv --target ill --group hospital")
def check(
    files: Files,
    target: Target,
    group: Group = None,
    features: Features = None,
    exclude: Exclude = None,
    weight: Weight = None,
    example_id: ExampleId = None,
    positive: Positive = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at the columns only; do not ask whether it is worth it.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Look at the files: rows, groups, columns, and whether the method is worth it. Changes nothing."""
    from groupshift.cli.check import check as run
    from groupshift.cli.training import Roles

    _one_or_two(files)
    roles = Roles(target, group, weight, example_id, _split(features), _split(exclude), positive)
    run(files, roles, quick=quick, seed=seed, as_json=json)


@_command("fit labeled.csv unlabeled.csv --target y --group state -o m.gshift")
def fit(
    files: Files,
    target: Target,
    out: Annotated[str, _out("The model, such as model.gshift.")],
    group: Group = None,
    features: Features = None,
    exclude: Exclude = None,
    weight: Weight = None,
    example_id: ExampleId = None,
    known_shares: KnownShares = None,
    positive: Positive = None,
    labels_chosen: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="How labels were chosen within a group: unknown, random (a random sample), or by_label.",
        ),
    ] = "unknown",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="groupshift, published (the paper's), label_shift, cluster_global or global."
        ),
    ] = "groupshift",
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn from labelled and unlabelled rows, and save the model."""
    from groupshift.cli.fit import fit as run
    from groupshift.cli.training import Roles

    _one_or_two(files)
    roles = Roles(target, group, weight, example_id, _split(features), _split(exclude), positive)
    run(
        files,
        roles,
        out,
        method=method,
        labels_chosen=labels_chosen,
        known_shares=known_shares,
        seed=seed,
        force=force,
        as_json=json,
    )


@_command("predict m.gshift new.parquet --out p.parquet --keep person_id,state")
def predict(
    model: Model,
    data: Data,
    out: Annotated[str, _out("Predictions, in the order of DATA.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns of DATA to keep beside the predictions; all for all."),
    ] = None,
    group: GroupHere = None,
    coverage: Coverage = 0.9,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add a probability with its interval to every row of a file; the file may be larger than memory.

    Columns: probability (of the positive class), low and high (what is not known about the group's share),
    cluster, and pooled (true where the answer leans on other groups because the row's own has few rows or
    none).
    """
    from groupshift.cli.predict import predict as run

    run(model, data, out, list(_split(keep)), group=group, coverage=coverage, force=force, as_json=json)


@_command("shares model.gshift --out shares.csv")
def shares(
    model: Model,
    out: Annotated[str | None, _out("A table; without it, shares are shown.")] = None,
    by: Annotated[
        str, typer.Option(metavar="group|cell", help="One line a group, or one a group and cluster.")
    ] = "group",
    coverage: Coverage = 0.9,
    force: Force = False,
    json: Json = False,
) -> None:
    """Share of positives in the population of every group, with its interval: the small-area table."""
    from groupshift.cli.share_commands import shares as run

    run(model, out, by=by, coverage=coverage, force=force, as_json=json)


@_command("update model.gshift june.parquet --out june.gshift")
def update(
    model: Model,
    data: Annotated[str, _argument("UNLABELED", "New unlabelled rows.")],
    out: Annotated[str, _out("The new model.")],
    group: GroupHere = None,
    weight: Weight = None,
    known_shares: KnownShares = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn the shares of the groups again from new unlabelled rows; the rest of the model is kept."""
    from groupshift.cli.fit import update as run

    run(model, data, out, group=group, weight=weight, known_shares=known_shares, force=force, as_json=json)


@_command("report model.gshift --out report.html")
def report(model: Model, out: Annotated[str, _out("One HTML file.")], force: Force = False) -> None:
    """Everything about a model on one page that opens offline: answer, shares, clusters, tests."""
    from groupshift.cli.share_commands import report as run

    run(model, out, force=force)


_command("serve --folder jobs")(serve)


@_command("demo --data flights --out flights")
def demo(
    data: Annotated[
        str, typer.Option(metavar="survey|flights", help="An invented survey, or flights out of New York.")
    ] = "survey",
    out: Annotated[str | None, _out("A new folder; by default groupshift-demo, then -2, …", "FOLDER")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare the methods on data with known truth, and write files to try every command on. A minute."""
    from groupshift.cli.demo import demo as run

    run(data, out, seed=seed, as_json=json)


def _reproduce(context: typer.Context) -> None:
    """Run the paper's experiments again. Has its own --help."""
    from groupshift.experiments.reproduce import main as reproduce

    raise SystemExit(reproduce(context.args, prog="groupshift reproduce"))


if (Path(groupshift.__file__).parent / "experiments" / "reproduce.py").exists():
    app.command(
        "reproduce",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )(_reproduce)
