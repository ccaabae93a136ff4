"""What stands below the first help, and arguments and options that several commands have, with theirs."""

import csv
import io
from collections.abc import Sequence
from typing import Annotated

import typer

EXAMPLES = """
[bold]From two files to a report[/]

  groupshift check   labeled.csv unlabeled.parquet --target y --group state

  groupshift fit     labeled.csv unlabeled.parquet --target y --group state --out model.gshift

  groupshift predict model.gshift new.parquet --out predictions.csv --keep person_id

  groupshift shares  model.gshift --out shares.csv

  groupshift audit   model.gshift unlabeled.parquet --budget 50 --out to_label.csv

  groupshift report  model.gshift --out report.html

[bold]Files[/]  CSV, TSV (any separator and encoding), JSON lines, Parquet, Arrow, Excel (book.xlsx::SHEET), Stata, SPSS,
SAS; text may be packed (.gz, .bz2, .xz). A folder, or a name with * in quotes, is all its files below each other. - is
standard input. A query to a database is people.db::TABLE, 'people.db::select …' (SQLite, DuckDB), or
'postgresql://…::select …' (any SQLAlchemy URL). Unlabelled rows are read in batches and may be larger than memory.
One file with an empty target where the label is unknown works as well as two. Outputs go by the ending of their name
(.csv, .parquet, .xlsx, .dta, .sav, .jsonl, .arrow); - is standard output. They are written whole or not at all, and
never over an existing file without --force.

[bold]Columns[/]  Every column but target, group, weight and id is a feature: numbers (also written as text),
dates, categories, missing values as they are. Columns that look like ids are left out, with a note.

[bold]Exit codes[/]  0 all went well · 2 wrong usage, bad input or an output that cannot be written · 1 a
fault of ours (run again with --debug for a traceback) · 130 stopped with Ctrl-C.

No files at hand? groupshift demo. Rather click than type? groupshift serve
"""


def argument(name: str, help: str) -> object:
    return typer.Argument(metavar=name, show_default=False, help=help)


def option(metavar: str, help: str) -> object:
    return typer.Option(metavar=metavar, help=help)


def out_file(help: str, metavar: str = "FILE") -> object:
    return typer.Option("--out", "-o", metavar=metavar, help=help)


# How labels were chosen within a group.
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
    parts = (part for name in csv.reader(names or [], skipinitialspace=True) for part in name)
    return tuple(part.strip() for part in parts if part.strip())


def as_typed(option: str, value: str | Sequence[str]) -> list[str]:
    """An option and its value, or its list of values, as one would type them.

    >>> as_typed("positive", "-1"), as_typed("keep", ["a", "Age, in years"])
    (['--positive=-1'], ['--keep', 'a,"Age, in years"'])
    """
    if not isinstance(value, str):
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(value)
        value = text.getvalue() if option in (*NAME_COLUMNS, "class") else ",".join(value)
    # A value that begins with a dash would be taken for an option.
    return [f"--{option}={value}"] if value.startswith("-") else [f"--{option}", value]


Files = Annotated[
    list[str],
    argument(
        "LABELED [UNLABELED …]",
        "Labelled rows, then unlabelled rows in one file or several; or one file with both. See Files below.",
    ),
]
Model = Annotated[str, argument("MODEL", "A model that `groupshift fit` saved.")]
Data = Annotated[str, argument("DATA", "A file with the columns of the model.")]
Target = Annotated[str, option("COLUMN", "Column of the known labels; two values.")]
Group = Annotated[
    str | None,
    option(
        "COLUMN[,COLUMN]",
        "Column of the groups: state, hospital, gene …; several columns together make smaller groups.",
    ),
]
MissingGroup = Annotated[
    str,
    option("HOW", "Rows without a group: error, drop (leave them out), or own (a group of theirs)."),
]
GroupHere = Annotated[str | None, option("COLUMN", "Column of the groups, if it has another name here.")]
Weight = Annotated[str | None, option("COLUMN", "Column of row weights.")]
ExampleId = Annotated[
    str | None,
    option("COLUMN", "Column that is equal for copies of one example, or members of one household."),
]
Positive = Annotated[
    str | None,
    option(
        "VALUE",
        "What counts as positive, against all others: a value, several (a,b), a limit ('>=8') or a range (8..10).",
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        metavar="A,B",
        help="Classes of the target that are called like a missing label, such as none or NA: they are kept.",
    ),
]
Features = Annotated[list[str] | None, option("A,B", "Use these columns only.")]
Exclude = Annotated[list[str] | None, option("A,B", "Leave these columns out.")]
KnownShares = Annotated[
    str | None,
    option(
        "FILE",
        "Rates of groups known from elsewhere: group, share and, where known, std_error (empty: exact).",
    ),
]
KnownOverall = Annotated[
    str | None,
    option(
        "P[,SE]",
        "Known rate of all unlabelled rows together, alone (exact) or with its standard error; of more than two classes, "
        "each with its name (red=0.5,blue=0.2).",
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed, files and versions give the same model.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Anyway = Annotated[
    bool,
    typer.Option("--anyway", help="Go on though columns are of another kind or size than those of fit."),
]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="Put an apostrophe before CSV cells that a spreadsheet would take for formulas.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
Coverage = Annotated[float, option("P", "Probability that an interval holds the truth.")]
