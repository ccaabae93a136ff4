"""`groupshift fit` and `groupshift update`: learn from files, keep the model in one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift import METHODS as ALL_METHODS
from groupshift import GroupShiftClassifier, streaming
from groupshift._explain.class_model import ClassModel
from groupshift._explain.class_share_tables import overall_class_shares
from groupshift._explain.share_tables import overall_shares
from groupshift._explain.summary import Summary
from groupshift._explain.wording import percent
from groupshift._io.column_facts import plan_column
from groupshift._io.columns import TableClassifier, convert, group_text
from groupshift._io.files import STANDARD_OUTPUT, check_output
from groupshift._io.model_files import save
from groupshift._io.table_files import Source, no_column, open_source
from groupshift.cli import prepared
from groupshift.cli.columns_read import FileSurveyor, survey_file
from groupshift.cli.errors import InputError
from groupshift.cli.groups import twice_spelled
from groupshift.cli.prepared import GROUP, WEIGHT, Column, Part, Prepared
from groupshift.cli.recipe import Recipe, columns_to_read, load_model
from groupshift.cli.screen import Screen, bold, listed, print_json, this_command
from groupshift.cli.training import KnownShares, Roles, Training, read_training

# Those that answer with shares and intervals; the others are for comparison and live in Python.
METHODS = ("groupshift", "published", "label_shift", "cluster_global", "global")
# How labels were chosen within a group.
SELECTIONS = ("unknown", "random", "by_label")
# What people call the columns of known shares.
SHARE_NAMES = ("share", "rate", "positive", "probability")
ERROR_NAMES = ("std_error", "se", "standard_error", "stderr")


def fit(
    files: list[str],
    roles: Roles,
    out: str,
    *,
    method: str,
    labels_chosen: str = "unknown",
    known_shares: str | None,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    if out == STANDARD_OUTPUT:
        raise InputError("A model is no text: name a file for it, such as --out model.gshift.")
    check_output(out, force=force)
    model = make_model(method, seed).set_params(selection=_selection(labels_chosen))
    screen = Screen(quiet=as_json)
    with screen.working("Reading"):
        training = read_training(files, roles)
        known = read_known_shares(known_shares, training.recipe.group) if known_shares else None
    for alarm in training.alarms:
        screen.alarm(alarm)
    for note in training.notes:
        screen.note(note)
    with (
        screen.working("Fitting"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        training.fit(model, known)
    _say_warnings(screen, caught)
    if (spelled := twice_spelled(model.labeled_groups_.tolist(), model.groups_.tolist())) is not None:
        training.alarms.append(spelled)
        screen.alarm(spelled)
    save(model, out, overwrite=force, table=training.recipe.to_json())
    if as_json:
        print_json(describe_fit(model, training, out))
    else:
        _summarize(screen, model, training, out)


def update(
    model_path: str,
    data: str,
    out: str,
    *,
    group: str | None,
    weight: str | None,
    known_shares: str | None,
    force: bool,
    as_json: bool,
) -> None:
    check_output(out, force=force)
    screen = Screen(quiet=as_json)
    model, recipe, _ = load_model(model_path, group=group)
    source = open_source(data)
    columns_to_read(recipe, source, [weight] if weight else [])
    with screen.working(f"Reading {data}"):
        survey = survey_file(source, FileSurveyor((), group=recipe.group, weight=weight))
        survey.check(source, recipe.group, weight)
        known = read_known_shares(known_shares, recipe.group) if known_shares else None
    before = set(model.groups_.tolist())
    with screen.working("Estimating shares"):
        streaming.update(
            model,
            new_rows(model, recipe, source, weight, survey.rows),
            group=_group_name(model, recipe),
            weight=weight and WEIGHT,
            known_shares=known,
        )
    save(model, out, overwrite=force, table=recipe.to_json())
    after = set(model.groups_.tolist())
    new, without_rows = sorted(after - before), sorted(before - after)
    if as_json:
        print_json({"out": out, "rows": survey.rows, "groups": len(after), "new": new, "gone": without_rows})
        return
    if without_rows:
        screen.note(f"Groups without rows in {data} count as unseen from now on: {listed(without_rows)}.")
    if new:
        screen.say(f"New groups: {listed(new)}.")
    screen.say(
        f"Shares of {len(after):,} groups learned again from {survey.rows:,} rows. Saved ", bold(out), "."
    )


def new_rows(
    model: GroupShiftClassifier, recipe: Recipe, source: Source, weight: str | None, n_rows: int
) -> Prepared:
    """Rows of a file as a fitted model takes them."""
    columns = {plan.name: prepared.feature(plan) for plan in recipe.columns}
    if group := _group_name(model, recipe):
        columns[group] = Column(recipe.group, lambda table, first: recipe.groups(table, model.groups_))
    if weight is not None:
        columns[WEIGHT] = prepared.weight(weight)
    return Prepared([Part(source, columns)], n_rows)


def _group_name(model: GroupShiftClassifier, recipe: Recipe) -> str | None:
    return None if recipe.group is None else model.group or GROUP


def make_model(method: str, seed: int) -> GroupShiftClassifier:
    """An unfitted model by name; forests are given columns as numbers, since they take nothing else."""
    method = method.replace("-", "_")
    if method not in METHODS:
        raise InputError(f"--method {method!r} is not known. Choose one of {', '.join(METHODS)}.")
    estimator = None if method == "groupshift" else forest()
    model: GroupShiftClassifier = ALL_METHODS[method](estimator, random_state=seed)
    return model


def _selection(labels_chosen: str) -> str:
    """The setting of a model that --labels-chosen names."""
    selection = labels_chosen.replace("-", "_")
    if selection not in SELECTIONS:
        raise InputError(
            f"--labels-chosen {labels_chosen!r} is not known. Choose one of {', '.join(SELECTIONS)}."
        )
    return selection


def forest(n_estimators: int = 500) -> TableClassifier:
    """The paper's forest, for tables with categories and missing values."""
    from sklearn.ensemble import RandomForestClassifier

    return TableClassifier(RandomForestClassifier(n_estimators=n_estimators, max_depth=10, n_jobs=-1))


def read_known_shares(path: str, group: str | None) -> KnownShares:
    """Rates by group from a table: group, (with more than two classes) class, share, and (if there) its standard error."""
    source = open_source(path)
    name = group if group in source.columns else source.columns[0]
    share, error = (
        next((column for column in source.columns if column.lower() in names), None)
        for names in (SHARE_NAMES, ERROR_NAMES)
    )
    if share is None:
        raise InputError(
            f"{no_column(['share'], source)} A file of known shares has the columns {name!r}, 'share' and, if known, "
            "'std_error'."
        )
    of_class = next((column for column in source.columns if column.lower() == "class"), None)
    table = source.read([column for column in (name, of_class, share, error) if column is not None])
    groups = group_text(table[name]).to_pylist()
    shares = _numbers(table[share], share, path)
    if np.any((shares > 1) | (shares < 0)):
        raise InputError(
            f"{path} has shares outside 0 and 1 (the largest is {shares.max():g}). Write 12 % as 0.12."
        )
    values = shares.tolist()
    if error is not None:
        values = list(zip(values, _numbers(table[error], error, path).tolist(), strict=True))
    if of_class is None:
        return dict(zip(groups, values, strict=True))
    known: dict[str, dict[str, float | tuple[float, float]]] = {}
    for group_name, class_name, value in zip(
        groups, group_text(table[of_class]).to_pylist(), values, strict=True
    ):
        known.setdefault(group_name, {})[class_name] = value
    return known


def _numbers(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.float64]:
    numbers, _ = convert(column, plan_column(name, column))
    if numbers.null_count:
        raise InputError(
            f"{numbers.null_count} lines of {path} have no {name!r}. Fill them in, or leave these groups out."
        )
    return np.asarray(numbers, float)


def _say_warnings(screen: Screen, caught: list[warnings.WarningMessage]) -> None:
    for warning in caught:
        if issubclass(warning.category, UserWarning) and "feature names" not in str(warning.message):
            screen.note(str(warning.message))


def describe_fit(model: GroupShiftClassifier, training: Training, out: str) -> dict[str, object]:
    """The fit, for another program."""
    return {
        "out": out,
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        **_shares(model),
        "features": [plan.to_json() for plan in training.recipe.columns],
        "left_out": [plan.to_json() for plan in training.plans if not plan.used],
        "labeled_groups": len(model.labeled_groups_),
        "groups": len(model.groups_),
        "clusters": model.n_clusters_,
        "trust": model.trust_,
        "notes": [*training.alarms, *training.notes, *model.notes_],
    }


def _shares(model: GroupShiftClassifier) -> dict[str, object]:
    """Shares among labelled rows and in the population: of positives, or of each class."""
    if not model.is_multiclass_:
        labeled, population = overall_shares(model)
        return {"labeled_share": labeled, "population_share": None if np.isnan(population) else population}
    names = [str(name) for name in model.classes_.tolist()]
    both = overall_class_shares(cast("ClassModel", model))
    before, after = (dict(zip(names, shares.tolist(), strict=True)) for shares in both)
    has_shares = not np.isnan(both[1]).any()
    return {"labeled_shares": before, "population_shares": after if has_shares else None}


def _summarize(screen: Screen, model: GroupShiftClassifier, training: Training, out: str) -> None:
    summary = Summary.of(model)
    for paragraph in summary.paragraphs("Fitted on"):
        screen.say(paragraph + "\n")
    # With shifts, the table of shares begins with all groups together.
    if not summary.shares and not model.is_multiclass_:
        screen.say(f"Share of positives: {_overall(summary)}.\n")
    # Without unlabelled rows a model has no shares to show, but can be given some.
    shares = f"shares {out} --out shares.csv"
    update = f"update {out} UNLABELED --out updated.gshift"
    commands = (
        f"predict {out} NEW --out predictions.csv",
        shares if len(model.groups_) else update,
        f"report {out} --out report.html",
    )
    screen.say(
        "Saved "
        if training.target.classes
        else f"Positive is {training.target.positive!r} in {training.recipe.target!r}. Saved ",
        bold(out),
        f" ({Path(out).stat().st_size / 1024:,.0f} kB). Next:\n",
        "\n".join(f"  {this_command()} {command}" for command in commands),
    )


def _overall(summary: Summary) -> str:
    labeled = f"{percent(summary.labeled_share)} among labelled rows"
    if np.isnan(summary.population_share):
        return labeled
    return f"{labeled}, {percent(summary.population_share)} in the population, as estimated"
