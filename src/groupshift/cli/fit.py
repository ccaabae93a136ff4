"""`groupshift fit` and `groupshift update`: learn from files, keep the model in one."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from groupshift import streaming
from groupshift._explain.share_tables import overall_shares
from groupshift._explain.summary import Summary
from groupshift._explain.wording import percent
from groupshift._io.column_facts import plan_column
from groupshift._io.columns import convert, group_text
from groupshift._io.files import STANDARD_OUTPUT, check_output
from groupshift._io.table_files import Source, no_column, open_source
from groupshift.cli import prepared
from groupshift.cli.columns_read import FileSurveyor, check_groups, check_weights, survey_file
from groupshift.cli.errors import InputError
from groupshift.cli.groups import twice_spelled
from groupshift.cli.models import check_columns, load_model
from groupshift.cli.prepared import GROUP, WEIGHT, Column, Part, Prepared
from groupshift.cli.recipe import Recipe
from groupshift.cli.screen import Screen, bold, listed, print_json, this_command
from groupshift.cli.threads import suitable_threads
from groupshift.cli.training import Roles, Training, read_training

# Those that answer with shares and intervals; the others are for comparison and live in Python.
METHODS = ("groupshift", "published", "label_shift", "cluster_global", "global")


def fit(files: list[str], roles: Roles, out: str, *, method, known_shares, seed, force, as_json) -> None:
    if out == STANDARD_OUTPUT:
        raise InputError("A model is no text: name a file for it, such as --out model.gshift.")
    check_output(out, force=force)
    model = make_model(method, seed)
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
        suitable_threads(len(training.numbers)),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        training.fit(model, known)
    _say_warnings(screen, caught)
    if (spelled := twice_spelled(model.labeled_groups_.tolist(), model.groups_.tolist())) is not None:
        training.alarms.append(spelled)
        screen.alarm(spelled)
    _save(model, out, training.recipe.to_json(), force)
    if as_json:
        print_json(describe_fit(model, training, out))
        return
    _summarize(screen, model, training, out)


def update(model_path: str, data: str, out: str, *, group, weight, known_shares, force, as_json) -> None:
    check_output(out, force=force)
    screen = Screen(quiet=as_json)
    model, recipe, _ = load_model(model_path, group=group)
    source = open_source(data)
    check_columns(recipe, source, [weight] if weight else None)
    with screen.working(f"Reading {data}"):
        rows = survey_file(source, FileSurveyor((), group=recipe.group, weight=weight))
        check_groups(rows, source, recipe.group)
        check_weights(rows, source, weight)
        known = read_known_shares(known_shares, recipe.group) if known_shares else None
    before = set(model.groups_.tolist())
    with screen.working("Estimating shares"):
        streaming.update(
            model,
            new_rows(model, recipe, source, weight, rows.rows),
            group=_group_name(model, recipe),
            weight=weight and WEIGHT,
            known_shares=known,
        )
    _save(model, out, recipe.to_json(), force)
    now = set(model.groups_.tolist())
    if as_json:
        print_json(
            {
                "out": out,
                "rows": rows.rows,
                "groups": len(now),
                "new": sorted(now - before),
                "gone": sorted(before - now),
            }
        )
        return
    if gone := before - now:
        screen.note(f"Groups without rows in {data} count as unseen from now on: {listed(sorted(gone))}.")
    if new := now - before:
        screen.say(f"New groups: {listed(sorted(new))}.")
    screen.say(f"Shares of {len(now):,} groups learned again from {rows.rows:,} rows. Saved ", bold(out), ".")


def new_rows(model: Any, recipe: Recipe, source: Source, weight: str | None, n_rows: int) -> Prepared:
    """Rows of a file as a fitted model takes them."""
    columns = {plan.name: prepared.feature(plan) for plan in recipe.columns}
    if group := _group_name(model, recipe):
        columns[group] = Column(recipe.group, lambda table, first: recipe.groups(table, model.groups_))
    if weight is not None:
        columns[WEIGHT] = prepared.weight(weight)
    return Prepared([Part(source, columns)], n_rows)


def _group_name(model: Any, recipe: Recipe) -> str | None:
    return None if recipe.group is None else model.group or GROUP


def make_model(method: str, seed: int) -> Any:
    """An unfitted model by name; forests are given columns as numbers, since they take nothing else."""
    from groupshift import METHODS as ALL_METHODS

    method = method.replace("-", "_")
    if method not in METHODS:
        raise InputError(f"--method {method!r} is not known. Choose one of {', '.join(METHODS)}.")
    if method == "groupshift":
        return ALL_METHODS[method](random_state=seed)
    return ALL_METHODS[method](forest(), random_state=seed)


def forest(n_estimators: int = 500) -> Any:
    """The paper's forest, for tables with categories and missing values."""
    from sklearn.ensemble import RandomForestClassifier

    from groupshift._io.columns import TableClassifier

    return TableClassifier(RandomForestClassifier(n_estimators=n_estimators, max_depth=10, n_jobs=-1))


def read_known_shares(path: str, group: str | None) -> dict[str, Any]:
    """Rates by group from a table: group, share, and (if there) its standard error."""
    source = open_source(path)
    name = group if group in source.columns else source.columns[0]
    share = next(
        (c for c in source.columns if c.lower() in ("share", "rate", "positive", "probability")), None
    )
    if share is None:
        raise InputError(
            f"{no_column(['share'], source)} A file of known shares has the columns {name!r}, 'share' and, "
            "if known, 'std_error'."
        )
    error = next(
        (c for c in source.columns if c.lower() in ("std_error", "se", "standard_error", "stderr")), None
    )
    table = source.read([c for c in (name, share, error) if c is not None])
    groups = group_text(table[name]).to_pylist()
    values = [_numbers(table[c], c, path) for c in (share, error) if c is not None]
    if np.any(values[0] > 1) or np.any(values[0] < 0):
        raise InputError(
            f"{path} has shares outside 0 and 1 (the largest is {values[0].max():g}). Write 12 % as 0.12."
        )
    return {
        g: tuple(map(float, v)) if error else float(v[0])
        for g, v in zip(groups, zip(*values, strict=True), strict=True)
    }


def _numbers(column: Any, name: str, path: str) -> np.ndarray:
    numbers = convert(column, plan_column(name, column))[0]
    if numbers.null_count:
        raise InputError(
            f"{numbers.null_count} lines of {path} have no {name!r}. Fill them in, or leave these groups out."
        )
    return numbers.to_numpy().astype(float)


def _save(model: Any, out: str, table: dict[str, Any], force: bool) -> None:
    from groupshift._io.model_files import save

    save(model, out, overwrite=force, table=table)


def _say_warnings(screen: Screen, caught: list[warnings.WarningMessage]) -> None:
    for warning in caught:
        if issubclass(warning.category, UserWarning) and "feature names" not in str(warning.message):
            screen.note(str(warning.message))


def describe_fit(model: Any, training: Training, out: str) -> dict[str, Any]:
    """The fit, for another program."""
    labeled, population = overall_shares(model)
    return {
        "out": out,
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        "labeled_share": labeled,
        "population_share": None if np.isnan(population) else population,
        "features": [plan.to_json() for plan in training.recipe.columns],
        "left_out": [plan.to_json() for plan in training.plans if not plan.used],
        "labeled_groups": len(model.labeled_groups_),
        "groups": len(model.groups_),
        "clusters": model.n_clusters_,
        "trust": model.trust_,
        "notes": [*training.alarms, *training.notes, *model.notes_],
    }


def _summarize(screen: Screen, model: Any, training: Training, out: str) -> None:
    summary = Summary.of(model)
    for paragraph in summary.paragraphs("Fitted on"):
        screen.say(paragraph + "\n")
    # With shifts, the table of shares begins with all groups together.
    if not summary.shares:
        screen.say(f"Share of positives: {_overall(summary)}.\n")
    size, command = Path(out).stat().st_size / 1024, this_command()
    screen.say(
        f"Positive is {training.target.positive!r} in {training.recipe.target!r}. Saved ",
        bold(out),
        f" ({size:,.0f} kB). Next:\n"
        + "\n".join(f"  {command} {rest}" for rest in _next_commands(model, out)),
    )


def _overall(summary: Summary) -> str:
    labeled = f"{percent(summary.labeled_share)} among labelled rows"
    if np.isnan(summary.population_share):
        return labeled
    return f"{labeled}, {percent(summary.population_share)} in the population, as estimated"


def _next_commands(model: Any, out: str) -> list[str]:
    """What works on this model; without unlabelled rows it has no shares to show, but can be given some."""
    shares = f"shares {out} --out shares.csv"
    update = f"update {out} UNLABELED --out updated.gshift"
    return [
        f"predict {out} NEW --out predictions.csv",
        shares if len(model.groups_) else update,
        f"report {out} --out report.html",
    ]
