"""The commands of a job. What the page shows is what its processes run, in the folder of the job's files."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from groupshift.cli.app import as_typed
from groupshift.serve.jobs import OF_ONE_COLUMN, Job, Refused, Settings
from groupshift.serve.jobs_folder import BEFORE, KNOWN, MODEL, REPORT
from groupshift.tables.files import OutputError, table_format

# Columns of a file as a look at it found them: the role that each has if nobody says otherwise.
UsualRoles = Mapping[str, str]
# What is taken away is opened in a spreadsheet, where a group called "=…" would be a formula.
FOR_SPREADSHEETS = {".csv": ["--escape-formulas"], ".xlsx": []}
ENDINGS = tuple(FOR_SPREADSHEETS)


def writes(ending: str) -> bool:
    """Whether tables can be written to files of this ending."""
    try:
        return bool(table_format(f"table{ending}"))
    except (OutputError, ImportError):
        return False


def fit_arguments(job: Job, usual: UsualRoles) -> list[str]:
    """`groupshift fit` with the job's files and settings."""
    settings = job.settings
    if settings.one("target") is None:
        raise Refused(409, "No column is the target yet. Click “target” in the line of the known labels.")
    arguments = ["fit", *job.paths, *role_arguments(settings, usual)]
    if settings.labels_chosen != "unknown":
        arguments += ["--selection", settings.labels_chosen.replace("_", "-")]
    if settings.known_overall is not None:
        arguments += ["--known-overall", f"{settings.known_overall:.12g}"]
    if settings.known_shares:
        arguments += ["--known-shares", KNOWN]
    return [*arguments, "--out", MODEL]


def role_arguments(settings: Settings, usual: UsualRoles) -> list[str]:
    """The options that name columns; features only where one is wanted that would be left out."""
    found = []
    for role in OF_ONE_COLUMN:
        if (column := settings.one(role)) is not None:
            found += as_typed(role.replace("_", "-"), column)
    features, excluded = feature_lists(settings, usual)
    for option, columns in (("features", features), ("exclude", excluded)):
        if columns:
            found += as_typed(option, columns)
    return found + (as_typed("positive", settings.positive) if settings.positive is not None else [])


def usual_roles(home: Path) -> dict[str, str]:
    """The roles that columns have if nobody says otherwise, as the last look found them."""
    path = home / "look.json"
    if not path.exists():
        return {}
    return {
        column["name"]: column["usual"] for column in json.loads(path.read_text(encoding="utf-8"))["columns"]
    }


def feature_lists(settings: Settings, usual: UsualRoles) -> tuple[list[str], list[str]]:
    """What to name as features and as left out: as little as says what the user clicked."""
    roles = {**usual, **settings.roles}
    if any(usual.get(column) == "exclude" for column in settings.named("feature")):
        return [column for column, role in roles.items() if role == "feature"], []
    return [], [column for column in settings.named("exclude") if usual.get(column) != "exclude"]


def update_arguments(job: Job) -> list[str]:
    weight = job.settings.one("weight")
    return ["update", BEFORE, *job.paths, *(as_typed("weight", weight) if weight else []), "--out", MODEL]


def main_arguments(job: Job, usual: UsualRoles) -> list[str]:
    """The command that makes the job's model."""
    return update_arguments(job) if job.kind == "update" else fit_arguments(job, usual)


def answer_arguments() -> list[list[str]]:
    """The commands that follow it: shares as tables, and the report."""
    tables = [
        ["shares", MODEL, *FOR_SPREADSHEETS[ending], "--out", f"shares{ending}"]
        for ending in ENDINGS
        if writes(ending)
    ]
    return [*tables, ["report", MODEL, "--out", REPORT]]


def predict_arguments(job: Job, ending: str) -> list[str]:
    """Predictions of the rows that the shares are of, beside all columns of their file."""
    options = ["--keep", "all", *FOR_SPREADSHEETS[ending]]
    return ["predict", MODEL, job.paths[-1], *options, "--out", f"predictions{ending}"]


def shown(commands: Sequence[Sequence[str]]) -> str:
    """Commands as they are typed in a shell, a line each."""
    return "\n".join(shlex.join(["groupshift", *arguments]) for arguments in commands)


def known_shares_file(settings: Settings) -> str:
    """The table that --known-shares reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # A column without a single number would be one of missing values.
    has_errors = any(line.std_error is not None for line in settings.known_shares)
    writer.writerow(["group", "share", *(["std_error"] if has_errors else [])])
    for line in settings.known_shares:
        error = [0.0 if line.std_error is None else line.std_error] if has_errors else []
        writer.writerow([line.group, line.share, *error])
    return text.getvalue()
