"""The commands and their help: what can be typed, and what a settings file holds of it.

The work is done by the function that each command names.
"""

import csv
import io
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import groupshift
from groupshift.cli.errors import InputError
from groupshift.cli.screen import Screen, bold

EXAMPLES = """
[bold]From two files to a report[/]

  groupshift check   labeled.csv unlabeled.parquet --target y --group state

  groupshift fit     labeled.csv unlabeled.parquet --target y --group state --out model.gshift

  groupshift predict model.gshift new.parquet --out predictions.csv --keep person_id

  groupshift shares  model.gshift --out shares.csv

  groupshift audit   model.gshift unlabeled.parquet --budget 50 --out to_label.csv

  groupshift report  model.gshift --out report.html

[bold]Files[/]  CSV, TSV (any separator and encoding), JSON lines, Parquet, Arrow, Excel (book.xlsx::SHEET), Stata, SPSS,
SAS; text may be packed (.gz, .bz2, .xz). A folder, or a quoted name with *, stands for all its files. - is standard
input. A database query is people.db::TABLE, 'people.db::select …' (SQLite, DuckDB), or 'postgresql://…::select …' (any
SQLAlchemy URL). Unlabeled rows are read in batches and may be larger than memory. One file with an empty target where
the label is unknown works as well as two. The ending of an output's name is its format (.csv, .parquet, .xlsx, .dta,
.sav, .jsonl, .arrow); - is standard output. Outputs are written whole or not at all, and replace a file only with --force.

[bold]Columns[/]  Every column except target, group, weight and id is a feature: numbers (also written as text),
dates, categories, with missing values. Columns that look like ids are left out, with a note.

[bold]Exit codes[/]  0 success · 2 wrong usage, bad input or an output that cannot be written · 1 an internal error
(run again with --debug for a traceback) · 130 stopped with Ctrl-C.

No files at hand? groupshift demo. Prefer a page in the browser? groupshift serve
"""
# How labels were chosen within a group: what --selection takes, and what the model calls it.
SELECTIONS = ("unknown", "random", "by_label")
# Options that name columns, with commas between them.
NAME_COLUMNS = ("features", "exclude", "keep")
# Those that take a list written like that; a function's argument cannot be called "class".
LISTS = (*NAME_COLUMNS, "class_")


def split_names(names: list[str] | None) -> tuple[str, ...]:
    """Names from options given once with commas, or several times; one that holds a comma stands in double quotes.

    >>> split_names(["a, b", '"Age, in years"'])
    ('a', 'b', 'Age, in years')
    """
    # A name may span lines inside its quotes: the reader is given the text whole.
    lines = (
        line
        for name in names or []
        for line in csv.reader(io.StringIO(name, newline=""), skipinitialspace=True)
    )
    return tuple(part.strip() for line in lines for part in line if part.strip())


def as_typed(option: str, value: str | Sequence[str]) -> list[str]:
    """An option and its value, or its list of values, as one would type them.

    >>> as_typed("positive", "-1"), as_typed("keep", ["a", "Age, in years"])
    (['--positive=-1'], ['--keep', 'a,"Age, in years"'])
    """
    if not isinstance(value, str):
        text = io.StringIO()
        # The ends of lines are quoted where they are in a name.
        csv.writer(text, lineterminator="\r\n").writerow(value)
        value = (
            text.getvalue().removesuffix("\r\n") if option in (*NAME_COLUMNS, "class") else ",".join(value)
        )
    # A value that begins with a dash would be taken for an option.
    return [f"--{option}={value}"] if value.startswith("-") else [f"--{option}", value]


def argument(name: str, help: str) -> object:
    return typer.Argument(metavar=name, show_default=False, help=help)


def option(metavar: str, help: str) -> object:
    return typer.Option(metavar=metavar, help=help)


def advanced(metavar: str, help: str) -> object:
    return typer.Option(metavar=metavar, help=help, rich_help_panel="Advanced")


def flag(name: str, help: str) -> object:
    return typer.Option(name, help=help)


def out_file(help: str, metavar: str = "FILE") -> object:
    return typer.Option("--out", "-o", metavar=metavar, help=help)


LABELED = "Labeled rows, then unlabeled rows in one or more files; or one file with both. See Files below."
GROUPS = "Group of each row: state, hospital, gene …; several columns together make smaller groups."
POSITIVE = (
    "What counts as positive: a value, several (a,b), a limit ('>=8') or a range (8..10); all else is not."
)
CLASSES = "Values such as none or NA that are classes of the target, although they look like a missing label."
KNOWN_SHARES = "Known rates of groups: columns group, share and, if known, std_error (empty: exact)."
KNOWN_OVERALL = "Known rate of all unlabeled rows, exact or with its standard error; of several classes: red=0.5,blue=0.2."
SELECTION = "How labels were chosen within a group: random (a random sample), by-label (the label decided) or unknown."

Files = Annotated[list[str], argument("LABELED [UNLABELED …]", LABELED)]
Model = Annotated[str, argument("MODEL", "A model that `groupshift fit` saved.")]
Data = Annotated[str, argument("DATA", "A file with the columns of the model.")]
Target = Annotated[str, option("COLUMN", "Column with the known labels.")]
Group = Annotated[str | None, option("COLUMN[,COLUMN]", GROUPS)]
MissingGroup = Annotated[
    str, advanced("HOW", "Rows without a group: error, drop, or own (a group of their own).")
]
GroupHere = Annotated[str | None, option("COLUMN", "Column with the groups, if it has another name here.")]
Weight = Annotated[str | None, option("COLUMN", "Column with row weights.")]
ExampleId = Annotated[
    str | None,
    option("COLUMN", "Column that is equal for copies of one example or members of one household."),
]
Positive = Annotated[str | None, option("VALUE", POSITIVE)]
Classes = Annotated[list[str] | None, typer.Option("--class", metavar="A,B", help=CLASSES)]
Features = Annotated[list[str] | None, option("A,B", "Use these columns only.")]
Exclude = Annotated[list[str] | None, option("A,B", "Leave these columns out.")]
Keep = Annotated[list[str] | None, option("A,B", "Columns of DATA to keep beside the answer; all for all.")]
KnownShares = Annotated[str | None, option("FILE", KNOWN_SHARES)]
KnownOverall = Annotated[str | None, option("P[,SE]", KNOWN_OVERALL)]
Selection = Annotated[str | None, option("random|by-label|unknown", SELECTION)]
Seed = Annotated[int, typer.Option(help="The same seed, files and versions give the same answer.")]
Force = Annotated[bool, flag("--force", "Replace an existing output.")]
Anyway = Annotated[
    bool, flag("--anyway", "Continue although columns differ in kind or size from those of fit.")
]
EscapeFormulas = Annotated[
    bool, flag("--escape-formulas", "Put an apostrophe before CSV cells that a spreadsheet would run.")
]
Json = Annotated[bool, flag("--json", "Answer in JSON on standard output.")]
Details = Annotated[bool, flag("--details", "Show everything, not only what matters most.")]
Coverage = Annotated[float, option("P", "Probability that an interval holds the truth.")]

app = typer.Typer(
    name="groupshift",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Estimate class rates and calibrated probabilities per group from biased labels and unlabeled data.",
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
    debug: Annotated[bool, flag("--debug", "Show a traceback when something fails; works anywhere.")] = False,
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
    selection: Selection = None,
    quick: Annotated[bool, flag("--quick", "Look at the columns only; skip the trial.")] = False,
    seed: Seed = 0,
    details: Details = False,
    as_json: Json = False,
    missing_group: MissingGroup = "error",
) -> None:
    """Look at the files, and try the method on some rows: is it worth it? Changes nothing."""


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
    positive: Positive = None,
    class_: Classes = None,
    selection: Selection = None,
    known_shares: KnownShares = None,
    known_overall: KnownOverall = None,
    seed: Seed = 0,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
    missing_group: MissingGroup = "error",
    method: Annotated[
        str, advanced("NAME", "groupshift, published (the paper's), label_shift, cluster_global or global.")
    ] = "groupshift",
    classifier: Annotated[
        str | None,
        advanced("NAME", "forest, logistic or lightgbm; default: boosted trees and a linear model."),
    ] = None,
    partition: Annotated[
        str | None, advanced("HOW", "Clusters: validated, silhouette, or their number.")
    ] = None,
    calibration: Annotated[str | None, advanced("HOW", "crossfit or holdout.")] = None,
    shares: Annotated[
        str | None, advanced("HOW", "mlls, em, bbse-hard, bbse-soft, or none (no shift).")
    ] = None,
    shrinkage: Annotated[str | None, advanced("HOW", "hierarchical, none or small_cells.")] = None,
    per_cluster: Annotated[bool | None, advanced("", "One classifier per cluster, or one for all.")] = None,
    labeled_prior: Annotated[str | None, advanced("HOW", "posterior or share.")] = None,
    jobs: Annotated[int | None, advanced("N", "Threads; default: all cores.")] = None,
) -> None:
    """Learn from labeled and unlabeled rows, and save the model."""


@_command("cli.predict.predict", "predict m.gshift new.parquet --out p.parquet --keep person_id,state")
def predict(
    model_path: Model,
    data: Data,
    out: Annotated[str, out_file("Predictions, in the order of DATA.")],
    keep: Keep = None,
    group: GroupHere = None,
    coverage: Coverage = 0.9,
    anyway: Anyway = False,
    escape_formulas: EscapeFormulas = False,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Add a probability with an interval to every row of a file; the file may be larger than memory.

    Columns: probability (of the positive class), low and high (uncertainty about the group's share), cluster,
    and pooled (true where the row's own group has few rows or none, so the answer depends on other groups).
    """


@_command("cli.shares.shares", "shares model.gshift --out shares.csv")
def shares(
    model_path: Model,
    out: Annotated[str | None, out_file("A table; without it, shares are shown.")] = None,
    by: Annotated[
        str,
        option(
            "group|cell|overall|COLUMN", "One line per group, per group and cluster, in all, or per value."
        ),
    ] = "group",
    coverage: Coverage = 0.9,
    escape_formulas: EscapeFormulas = False,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Share of positives in the population of every group, with an interval."""


@_command("cli.fit.update", "update model.gshift june.parquet --out june.gshift")
def update(
    model_path: Model,
    data: Annotated[str, argument("UNLABELED", "New unlabeled rows.")],
    out: Annotated[str, out_file("The new model.")],
    group: GroupHere = None,
    weight: Weight = None,
    known_shares: KnownShares = None,
    known_overall: KnownOverall = None,
    anyway: Anyway = False,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Estimate the shares again from new unlabeled rows; the classifier stays as it is."""


@_command("cli.predict.explain", "explain model.gshift new.csv --out parts.csv")
def explain(
    model_path: Model,
    data: Annotated[str | None, argument("[DATA]", "Rows to explain one by one, with --out.")] = None,
    out: Annotated[
        str | None, out_file("For each row: the classifier's probability, its group's shift, and the result.")
    ] = None,
    keep: Keep = None,
    anyway: Anyway = False,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Show feature importance, and how much each row's group changes its prediction.

    Columns of --out: plain_probability (from the row's features), shift (log-odds that its group adds) and
    probability (the two together).
    """


@_command("cli.shares.compare", "compare may.gshift june.gshift")
def compare(
    before: Annotated[str, argument("BEFORE", "A model.")],
    after: Annotated[str, argument("AFTER", "A model of the same groups, such as an update of the first.")],
    out: Annotated[str | None, out_file("A table of all groups.")] = None,
    coverage: Coverage = 0.9,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Show which groups changed between two models by more than noise."""


@_command("cli.audit.audit", "audit model.gshift unlabeled.csv --budget 50 --out to_label.csv")
def audit(
    model_path: Model,
    data: Annotated[
        str | None,
        argument("[POPULATION]", "The unlabeled rows; with --labels, to check that they are the same."),
    ] = None,
    out: Annotated[
        str | None, out_file("Rows to label, such as to_label.csv; with --labels, the new model.")
    ] = None,
    budget: Annotated[int, option("N", "How many rows you can label.")] = 50,
    labels: Annotated[str | None, option("FILE", "The file of rows to label, with labels filled in.")] = None,
    keep: Annotated[
        list[str] | None, option("A,B", "Columns to show beside the label; default: all of POPULATION.")
    ] = None,
    group: GroupHere = None,
    weight: Weight = None,
    seed: Seed = 0,
    force: Force = False,
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Choose a few rows to label, and learn from their labels what the data alone cannot show.

    First with POPULATION: writes a file of rows to label, and shows what 25, 50, 100 and 200 labels would
    buy. Then with --labels, as often as you like while labels come in: the corrected share and a new model.
    """


@_command("cli.shares.report", "report model.gshift --out report.html")
def report(model_path: Model, out: Annotated[str, out_file("One HTML file.")], force: Force = False) -> None:
    """Write everything about a model on one page that opens offline: answer, shares, clusters, tests."""


@_command("serve.start.serve", "serve --folder jobs")
def serve(
    folder: Annotated[
        str | None,
        option("FOLDER", "Where files and jobs are kept; default: a temporary folder, removed at the end."),
    ] = None,
    port: Annotated[int, option("N", "Port of this machine; 0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    max_upload: Annotated[float, option("GB", "Largest file that the page takes.")] = 4.0,
) -> None:
    """Open a page in the browser to drop files into: columns, fit, shares, updates. For this machine only."""


@_command("cli.demo.demo", "demo --data flights --out flights")
def demo(
    data: Annotated[
        str, option("survey|flights", "A made-up survey, or flights out of New York.")
    ] = "survey",
    out: Annotated[
        str | None, out_file("A new folder; default: groupshift-demo, then -2, …", "FOLDER")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare the methods on data with known truth, and write files to try every command on. Takes a minute."""


@_command("cli.app.run_job", "run groupshift.toml --force")
def run(
    path: Annotated[
        str, argument("[FILE]", "A settings file, groupshift.toml by default.")
    ] = "groupshift.toml",
    force: Force = False,
) -> None:
    """Run the job in a settings file: fit, then predict, shares, explain and report, for each section it has."""


# Sections of a settings file in the order in which they run, and what in them is not an option but an argument.
SECTIONS = {
    "fit": ("labeled", "unlabeled"),
    "predict": ("data",),
    "shares": (),
    "explain": ("data",),
    "report": (),
}
SETTINGS = """[fit]
labeled = "labeled.csv"
unlabeled = "unlabeled.parquet"
target = "ill"
group = "hospital"
out = "model.gshift"

[shares]
out = "shares.csv"
"""


def run_job(path: str, *, force: bool) -> None:
    """Run the commands of a settings file; names of files in it are seen from its folder."""
    try:
        # A file of settings is short; more is something else.
        with open(path, "rb") as file:
            settings = tomllib.loads(file.read(1_000_000).decode())
    except FileNotFoundError as error:
        raise InputError(f"There is no settings file {path}. Write one, such as:\n{SETTINGS}") from error
    except OSError as error:
        raise InputError(f"Cannot read the settings file {path}: {error.strerror}. Name another.") from error
    except (ValueError, RecursionError) as error:
        # Python reads no numbers of so many digits, and says what is meant for programmers.
        own = {
            RecursionError: "its lists are nested too deeply",
            ValueError: "a number in it has thousands of digits",
        }
        raise InputError(f"{path} is not a settings file in TOML: {own.get(type(error), error)}.") from error
    if isinstance(fit := settings.get("fit"), dict):
        # A job waits for nobody: what it does not say about selection is not asked either.
        fit.setdefault("selection", "unknown")
    commands = job_commands(settings, force=force)
    with chdir(Path(path).absolute().parent):
        for command in commands:
            Screen().say(bold(f"groupshift {command[0]}"))
            parsed_app()(command, prog_name="groupshift", standalone_mode=False)


def job_commands(settings: Mapping[str, object], *, force: bool = False) -> list[list[str]]:
    """What one would type, command by command.

    >>> job_commands({"fit": {"labeled": "a.csv", "target": "y", "out": "m.gshift"}, "shares": {"out": "s.csv"}})
    [['fit', 'a.csv', '--target', 'y', '--out', 'm.gshift'], ['shares', 'm.gshift', '--out', 's.csv']]
    """
    for name, section in settings.items():
        if name not in SECTIONS:
            raise InputError(
                f"A settings file has no section [{name}]. Its sections are {', '.join(SECTIONS)}."
            )
        if not isinstance(section, Mapping):
            raise InputError(f"{name} in a settings file is a section: write [{name}] on a line of its own.")
    sections: dict[str, Mapping[str, object]] = dict(settings)  # type: ignore[arg-type]  # as just checked
    fit = sections.get("fit", {})
    if not {"labeled", "target", "out"} <= fit.keys() or not isinstance(fit["out"], str):
        raise InputError(
            f"A settings file needs a section [fit] with labeled, target and out, such as:\n{SETTINGS}"
        )
    commands = []
    for name, places in SECTIONS.items():
        section = sections.get(name)
        if section is None:
            continue
        command = [name] if name == "fit" else [name, str(fit["out"])]
        command += [text for place in places if place in section for text in _texts(place, section[place])]
        for key, value in section.items():
            option = key.replace("_", "-")
            if isinstance(value, bool):
                command += [f"--{option}"] if value else []
            elif key not in places:
                command += as_typed(
                    option, _texts(key, value) if isinstance(value, list) else _texts(key, value)[0]
                )
        commands.append([*command, *(["--force"] if force else [])])
    return commands


def _texts(key: str, value: object) -> list[str]:
    """A value, or those of a list, as text."""
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, (str, int, float)) for one in values):
        raise InputError(f"{key} in a settings file is a text, a number, or a list of these.")
    return [str(one) for one in values]
