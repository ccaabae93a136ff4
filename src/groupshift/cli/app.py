"""The commands and their help: what can be typed. The work is done by the function that each one names."""

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Annotated, Any

import typer

import groupshift
from groupshift.cli.options import (
    EXAMPLES,
    LISTS,
    Anyway,
    Classes,
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
    option,
    out_file,
    split_names,
)

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


def _command(work: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that is typed as a function's arguments say, and done by `work` with the same arguments.

    What does the work is imported when it is called: help should not wait for it.
    """
    module, _, name = f"groupshift.{work}".rpartition(".")

    def register(typed: Callable[..., None]) -> Callable[..., None]:
        @app.command(epilog=f"[bold]Example[/]  groupshift {example}")
        @wraps(typed)
        def call(**options: Any) -> None:
            named = {option: split_names(options[option]) for option in LISTS if option in options}
            getattr(import_module(module), name)(**options | named)

        return call

    return register


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


@_command("cli.check.check", "check labeled.csv unlabeled.csv --target ill --group hospital")
def check(
    files: Files,
    target: Target,
    group: Group = None,
    features: Features = None,
    exclude: Exclude = None,
    weight: Weight = None,
    example_id: ExampleId = None,
    positive: Positive = None,
    class_: Classes = None,
    missing_group: MissingGroup = "error",
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at the columns only; do not ask whether it is worth it.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Look at the files: rows, groups, columns, and whether the method is worth it. Changes nothing."""


@_command("cli.fit.fit", "fit labeled.csv unlabeled.csv --target y --group state -o m.gshift")
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
    class_: Classes = None,
    missing_group: MissingGroup = "error",
    labels_chosen: Annotated[
        str,
        option(
            "HOW", "How labels were chosen within a group: unknown, random (a random sample), or by_label."
        ),
    ] = "unknown",
    method: Annotated[
        str,
        option("NAME", "groupshift, published (the paper's), label_shift, cluster_global or global."),
    ] = "groupshift",
    classifier: Annotated[
        str | None,
        option("NAME", "boosted (the default), forest, logistic or lightgbm."),
    ] = None,
    jobs: Annotated[
        int | None,
        option("N", "Threads at once; by default all cores."),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn from labelled and unlabelled rows, and save the model."""


@_command("cli.predict.predict", "predict m.gshift new.parquet --out p.parquet --keep person_id,state")
def predict(
    model_path: Model,
    data: Data,
    out: Annotated[str, out_file("Predictions, in the order of DATA.")],
    keep: Annotated[
        list[str] | None,
        option("A,B", "Columns of DATA to keep beside the predictions; all for all."),
    ] = None,
    group: GroupHere = None,
    coverage: Coverage = 0.9,
    anyway: Anyway = False,
    escape_formulas: EscapeFormulas = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add a probability with its interval to every row of a file; the file may be larger than memory.

    Columns: probability (of the positive class), low and high (what is not known about the group's share),
    cluster, and pooled (true where the answer leans on other groups because the row's own has few rows or
    none).
    """


@_command("cli.share_commands.shares", "shares model.gshift --out shares.csv")
def shares(
    model_path: Model,
    out: Annotated[str | None, out_file("A table; without it, shares are shown.")] = None,
    by: Annotated[
        str,
        option(
            "group|cell|overall|COLUMN",
            "One line a group, one a group and cluster, one for all, or one a value of a column that makes groups.",
        ),
    ] = "group",
    coverage: Coverage = 0.9,
    escape_formulas: EscapeFormulas = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Share of positives in the population of every group, with its interval: the small-area table."""


@_command("cli.fit.update", "update model.gshift june.parquet --out june.gshift")
def update(
    model_path: Model,
    data: Annotated[str, argument("UNLABELED", "New unlabelled rows.")],
    out: Annotated[str, out_file("The new model.")],
    group: GroupHere = None,
    weight: Weight = None,
    known_shares: KnownShares = None,
    known_overall: KnownOverall = None,
    anyway: Anyway = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn the shares of the groups again from new unlabelled rows; the rest of the model is kept."""


@_command("cli.explain.explain", "explain model.gshift new.csv --out parts.csv")
def explain(
    model_path: Model,
    data: Annotated[str | None, argument("[DATA]", "Rows to explain one by one, with --out.")] = None,
    out: Annotated[
        str | None, out_file("For each row: what features say, what the group adds, and both.")
    ] = None,
    keep: Annotated[list[str] | None, option("A,B", "Columns of DATA to keep beside; all for all.")] = None,
    anyway: Anyway = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """What drives the predictions: features by how much hidden labels need them, and the group's part of each row.

    Columns of --out: plain_probability (what the row's features say alone), shift (log-odds that its group
    adds) and probability (what both make of it).
    """


@_command("cli.compare.compare", "compare may.gshift june.gshift")
def compare(
    before: Annotated[str, argument("BEFORE", "A model.")],
    after: Annotated[str, argument("AFTER", "A model of the same groups, such as an update of the first.")],
    out: Annotated[str | None, out_file("A table of all groups.")] = None,
    coverage: Coverage = 0.9,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Which groups moved between two models, by how much, beyond noise."""


@_command("cli.audit.audit", "audit model.gshift unlabeled.csv --budget 50 --out to_label.csv")
def audit(
    model_path: Model,
    data: Annotated[
        str | None,
        argument("[POPULATION]", "The unlabelled rows; with --labels, to check that they have not changed."),
    ] = None,
    out: Annotated[
        str | None, out_file("Rows to label, such as to_label.csv; with --labels, the new model.")
    ] = None,
    budget: Annotated[int, option("N", "Labels that can be had.")] = 50,
    labels: Annotated[str | None, option("FILE", "The file of rows to label, its labels filled in.")] = None,
    keep: Annotated[
        list[str] | None,
        option("A,B", "Columns of POPULATION to show beside the label; by default all."),
    ] = None,
    group: GroupHere = None,
    weight: Weight = None,
    seed: Annotated[int, typer.Option(help="The same seed, model and file give the same rows.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Which rows to label, so that a few labels say most of what the model cannot know; and what they say.

    First with POPULATION: writes a file of rows to label, and shows what 25, 50, 100 and 200 labels would
    buy. Then with --labels, as often as you like while labels come in: verdicts, the overall share, and a
    new model that has learned from them.
    """


@_command("cli.share_commands.report", "report model.gshift --out report.html")
def report(model_path: Model, out: Annotated[str, out_file("One HTML file.")], force: Force = False) -> None:
    """Everything about a model on one page that opens offline: answer, shares, clusters, tests."""


@_command("serve.start.serve", "serve --folder jobs")
def serve(
    folder: Annotated[
        str | None,
        option("FOLDER", "Where files and jobs are kept; by default a temporary folder, removed at the end."),
    ] = None,
    port: Annotated[int, option("N", "Port of this machine; 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    max_upload: Annotated[float, option("GB", "Largest file that the page takes.")] = 4.0,
) -> None:
    """Open a page in the browser to drop files into: columns, fit, shares, updates. For this machine only."""


@_command("cli.demo.demo", "demo --data flights --out flights")
def demo(
    data: Annotated[
        str, option("survey|flights", "An invented survey, or flights out of New York.")
    ] = "survey",
    out: Annotated[
        str | None, out_file("A new folder; by default groupshift-demo, then -2, …", "FOLDER")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare the methods on data with known truth, and write files to try every command on. A minute."""


@_command("cli.job.run_job", "run groupshift.toml --force")
def run(
    path: Annotated[
        str, argument("[FILE]", "A settings file, groupshift.toml by default.")
    ] = "groupshift.toml",
    force: Force = False,
) -> None:
    """Run a whole job that a settings file holds: fit, then predict, shares, explain and report, as far as it names them."""
