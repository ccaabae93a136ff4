"""Arguments and options that several commands have, with their help."""

from typing import Annotated

import typer


def argument(name: str, help: str) -> object:
    return typer.Argument(metavar=name, show_default=False, help=help)


def column(help: str) -> object:
    return typer.Option(metavar="COLUMN", show_default=False, help=help)


def out_file(help: str, metavar: str = "FILE") -> object:
    return typer.Option("--out", "-o", metavar=metavar, show_default=False, help=help)


Files = Annotated[
    list[str],
    argument(
        "LABELED [UNLABELED …]",
        "Labelled rows, then unlabelled rows in one file or several; or one file with both. See Files below.",
    ),
]
Model = Annotated[str, argument("MODEL", "A model that `groupshift fit` saved.")]
Data = Annotated[str, argument("DATA", "A file with the columns of the model.")]
Target = Annotated[str, column("Column of the known labels; two values.")]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN[,COLUMN]",
        show_default=False,
        help="Column of the groups: state, hospital, gene …; several columns together make smaller groups.",
    ),
]
MissingGroup = Annotated[
    str,
    typer.Option(
        metavar="HOW", help="Rows without a group: error, drop (leave them out), or own (a group of theirs)."
    ),
]
GroupHere = Annotated[str | None, column("Column of the groups, if it has another name here.")]
Weight = Annotated[str | None, column("Column of row weights.")]
ExampleId = Annotated[
    str | None, column("Column that is equal for copies of one example, or members of one household.")
]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE",
        help="What counts as positive, against all others: a value, several (a,b), a limit ('>=8') or a range (8..10).",
    ),
]
Features = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Use these columns only.")]
Exclude = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Leave these columns out.")]
KnownShares = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Rates of groups known from elsewhere: group, share and, where known, std_error (empty: exact).",
    ),
]
KnownOverall = Annotated[
    str | None,
    typer.Option(
        metavar="P[,SE]",
        help="Known rate of all unlabelled rows together, alone (exact) or with its standard error.",
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed, files and versions give the same model.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Anyway = Annotated[
    bool,
    typer.Option("--anyway", help="Go on though columns are of another kind or size than those of fit."),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]
Coverage = Annotated[float, typer.Option(metavar="P", help="Probability that an interval holds the truth.")]
