"""The commands and their help. Each one parses and calls; the work is in the file of its name."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

import typer

import groupshift
from groupshift.cli.audit_command import audit
from groupshift.cli.options import (
    EXAMPLES,
    Anyway,
    Coverage,
    Data,
    EscapeFormulas,
    ExampleId,
    Exclude,
    Features,
    Files,
    Force,
    Group,
    GroupHere,
    Json,
    KnownOverall,
    KnownShares,
    MissingGroup,
    Model,
    Positive,
    Seed,
    Target,
    Weight,
    argument,
    out_file,
)
from groupshift.cli.typed_names import split_names as _split
from groupshift.serve.start import serve

Command = TypeVar("Command", bound=Callable[..., None])

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


@cache
def parsed_app() -> Callable[..., object]:
    """All commands with their options read from their signatures: once in a process, which may run several commands."""
    return typer.main.get_command(app)


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
    missing_group: MissingGroup = "error",
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at the columns only; do not ask whether it is worth it.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Look at the files: rows, groups, columns, and whether the method is worth it. Changes nothing."""
    from groupshift.cli.check import check as run
    from groupshift.cli.training import Roles

    groups = (group,) if group else ()
    columns = (weight, example_id, _split(features), _split(exclude))
    roles = Roles(target, groups, *columns, positive, missing_group)
    run(files, roles, quick=quick, seed=seed, as_json=json)


@_command("fit labeled.csv unlabeled.csv --target y --group state -o m.gshift")
def fit(
    files: Files,
    target: Target,
    out: Annotated[str, out_file("The model, such as model.gshift.")],
    group: Group = None,
    features: Features = None,
    exclude: Exclude = None,
    weight: Weight = None,
    example_id: ExampleId = None,
    known_shares: KnownShares = None,
    known_overall: KnownOverall = None,
    positive: Positive = None,
    missing_group: MissingGroup = "error",
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
    classifier: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="boosted (the default), forest, logistic or lightgbm."),
    ] = None,
    trust: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="Factor on every shift, 0 to 1; learned from hidden labels by default."
        ),
    ] = "learned",
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", show_default=False, help="Threads at once; by default all cores."),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn from labelled and unlabelled rows, and save the model."""
    from groupshift.cli.fit import fit as run
    from groupshift.cli.training import Roles

    groups = (group,) if group else ()
    columns = (weight, example_id, _split(features), _split(exclude))
    roles = Roles(target, groups, *columns, positive, missing_group)
    run(
        files,
        roles,
        out,
        method=method,
        classifier=classifier,
        trust=trust,
        jobs=jobs,
        labels_chosen=labels_chosen,
        known_shares=known_shares,
        known_overall=known_overall,
        seed=seed,
        force=force,
        as_json=json,
    )


@_command("predict m.gshift new.parquet --out p.parquet --keep person_id,state")
def predict(
    model: Model,
    data: Data,
    out: Annotated[str, out_file("Predictions, in the order of DATA.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns of DATA to keep beside the predictions; all for all."),
    ] = None,
    group: GroupHere = None,
    coverage: Coverage = 0.9,
    anyway: Anyway = False,
    escape_formulas: EscapeFormulas = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add a probability with its interval to every row of a file; the file may be larger than memory.

    Columns: probability (of the positive class), low and high (what is not known about the group's share),
    cluster, and pooled (true where the answer leans on other groups because the row's own has few rows or
    none).
    """
    from groupshift.cli.predict import predict as run

    run(
        model,
        data,
        out,
        list(_split(keep)),
        group=group,
        coverage=coverage,
        anyway=anyway,
        force=force,
        as_json=json,
        escape_formulas=escape_formulas,
    )


@_command("shares model.gshift --out shares.csv")
def shares(
    model: Model,
    out: Annotated[str | None, out_file("A table; without it, shares are shown.")] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="group|cell|overall|COLUMN",
            help="One line a group, one a group and cluster, one for all, or one a value of a column that makes groups.",
        ),
    ] = "group",
    coverage: Coverage = 0.9,
    escape_formulas: EscapeFormulas = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Share of positives in the population of every group, with its interval: the small-area table."""
    from groupshift.cli.share_commands import shares as run

    run(model, out, by=by, coverage=coverage, force=force, as_json=json, escape_formulas=escape_formulas)


@_command("update model.gshift june.parquet --out june.gshift")
def update(
    model: Model,
    data: Annotated[str, argument("UNLABELED", "New unlabelled rows.")],
    out: Annotated[str, out_file("The new model.")],
    group: GroupHere = None,
    weight: Weight = None,
    known_shares: KnownShares = None,
    known_overall: KnownOverall = None,
    anyway: Anyway = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn the shares of the groups again from new unlabelled rows; the rest of the model is kept."""
    from groupshift.cli.fit import update as run

    run(
        model,
        data,
        out,
        group=group,
        weight=weight,
        known_shares=known_shares,
        known_overall=known_overall,
        anyway=anyway,
        force=force,
        as_json=json,
    )


@_command("explain model.gshift new.csv --out parts.csv")
def explain(
    model: Model,
    data: Annotated[str | None, argument("[DATA]", "Rows to explain one by one, with --out.")] = None,
    out: Annotated[
        str | None, out_file("For each row: what features say, what the group adds, and both.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Columns of DATA to keep beside; all for all.")
    ] = None,
    anyway: Anyway = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """What drives the predictions: features by how much hidden labels need them, and the group's part of each row.

    Columns of --out: plain_probability (what the row's features say alone), shift (log-odds that its group
    adds) and probability (what both make of it).
    """
    from groupshift.cli.explain import explain as run

    run(model, data, out, list(_split(keep)), anyway=anyway, force=force, as_json=json)


@_command("compare may.gshift june.gshift")
def compare(
    before: Annotated[str, argument("BEFORE", "A model.")],
    after: Annotated[str, argument("AFTER", "A model of the same groups, such as an update of the first.")],
    out: Annotated[str | None, out_file("A table of all groups.")] = None,
    coverage: Coverage = 0.9,
    force: Force = False,
    json: Json = False,
) -> None:
    """Which groups moved between two models, by how much, beyond noise."""
    from groupshift.cli.compare import compare as run

    run(before, after, out, coverage=coverage, force=force, as_json=json)


_command("audit model.gshift unlabeled.csv --budget 50 --out to_label.csv")(audit)


@_command("report model.gshift --out report.html")
def report(model: Model, out: Annotated[str, out_file("One HTML file.")], force: Force = False) -> None:
    """Everything about a model on one page that opens offline: answer, shares, clusters, tests."""
    from groupshift.cli.share_commands import report as run

    run(model, out, force=force)


_command("serve --folder jobs")(serve)


@_command("demo --data flights --out flights")
def demo(
    data: Annotated[
        str, typer.Option(metavar="survey|flights", help="An invented survey, or flights out of New York.")
    ] = "survey",
    out: Annotated[
        str | None, out_file("A new folder; by default groupshift-demo, then -2, …", "FOLDER")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare the methods on data with known truth, and write files to try every command on. A minute."""
    from groupshift.cli.demo import demo as run

    run(data, out, seed=seed, as_json=json)


@app.command(epilog="[bold]Example[/]  groupshift run groupshift.toml --force")
def run(
    settings: Annotated[
        str, argument("[FILE]", "A settings file, groupshift.toml by default.")
    ] = "groupshift.toml",
    force: Force = False,
) -> None:
    """Run a whole job that a settings file holds: fit, then predict, shares, explain and report, as far as it names them."""
    from groupshift.cli.job import run_job

    run_job(settings, force=force)


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
