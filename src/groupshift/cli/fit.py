"""`groupshift fit` and `groupshift update`: learn from files, keep the model in one."""

from __future__ import annotations

import warnings
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from groupshift import METHODS as ALL_METHODS
from groupshift import GroupShiftClassifier, streaming
from groupshift._diagnosis.share_tables import shares_by
from groupshift._diagnosis.summary import Summary
from groupshift._files.model_files import save
from groupshift.cli import prepared
from groupshift.cli.classifiers_named import ALLOWED, LIGHTGBM_TYPES, classifier_named, trusted_types
from groupshift.cli.columns_read import FileSurveyor, survey_file
from groupshift.cli.compare import change_table, show_changes
from groupshift.cli.errors import InputError, check_model_output
from groupshift.cli.groups import told_first, twice_spelled
from groupshift.cli.known_rates import read_known_rates
from groupshift.cli.options import SELECTIONS
from groupshift.cli.prepared import GROUP, WEIGHT, Column, Part, Prepared
from groupshift.cli.recipe import Recipe, columns_to_read, load_model
from groupshift.cli.screen import Screen, bold, listed, print_json, this_command
from groupshift.cli.training import Roles, Training, read_training
from groupshift.pipeline import LEFT_OUT
from groupshift.tables.sources import Source

# Those that answer with shares and intervals; the others are for comparison and live in Python.
METHODS = ("groupshift", "published", "label_shift", "cluster_global", "global")


def fit(
    files: list[str],
    out: str,
    *,
    method: str,
    classifier: str | None,
    jobs: int | None,
    labels_chosen: str,
    known_shares: str | None,
    known_overall: str | None,
    seed: int,
    force: bool,
    as_json: bool,
    **roles: Any,
) -> None:
    check_model_output(out, force=force, inputs=[*files, *([known_shares] if known_shares else [])])
    model = make_model(method, seed, classifier).set_params(selection=_selection(labels_chosen), n_jobs=jobs)
    screen = Screen(quiet=as_json)
    with screen.working("Reading"):
        training = read_training(files, Roles(**roles))
        known = read_known_rates(known_shares, known_overall, training.recipe.group)
    screen.alarm(*training.alarms)
    screen.note(*training.notes)
    with (
        screen.working("Fitting"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        training.fit(model, known)
    screen.note(*_warned_of(caught), *(note for note in model.notes_ if note.startswith(LEFT_OUT)))
    if (spelled := twice_spelled(model.labeled_groups_.tolist(), model.groups_.tolist())) is not None:
        training.alarms = told_first(training.alarms, spelled)
        screen.alarm(spelled)
    lightgbm = classifier == "lightgbm"
    if lightgbm and not as_json:
        screen.note(f"Set the environment variable {ALLOWED}=lightgbm where this model is to be read.")
    trusted = LIGHTGBM_TYPES if lightgbm else ()
    save(model, out, overwrite=force, table=training.recipe.to_json(), trusted=trusted)
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
    known_overall: str | None,
    anyway: bool,
    force: bool,
    as_json: bool,
) -> None:
    # A model may be replaced by its update; the data may not.
    check_model_output(out, force=force, inputs=[data, *([known_shares] if known_shares else [])])
    screen = Screen(quiet=as_json)
    model, recipe, _ = load_model(model_path, group=group)
    source = recipe.open(data, every_row=False)
    columns_to_read(recipe, source, [weight] if weight else [])
    here, notes = recipe.for_file(source, anyway=anyway)
    screen.note(*notes)
    with screen.working(f"Reading {data}"):
        rows = new_rows(model, here, source, weight)
        known = read_known_rates(known_shares, known_overall, recipe.group)
    before, shares_before = set(model.groups_.tolist()), copy(model)
    with screen.working("Estimating shares"):
        streaming.update(
            model,
            rows,
            group=group_role(model, recipe),
            weight=weight and WEIGHT,
            **known._asdict(),
        )
    save(model, out, overwrite=force, table=recipe.to_json(), trusted=trusted_types())
    after = set(model.groups_.tolist())
    new, without_rows = sorted(after - before), sorted(before - after)
    changes = change_table(shares_before, model, coverage=0.9) if before else None
    if as_json:
        about = {"out": out, "rows": rows.n_rows, "groups": len(after), "new": new, "gone": without_rows}
        print_json(about | {"changes": [] if changes is None else changes.to_pylist()})
        return
    if without_rows:
        screen.note(f"Groups without rows in {data} count as unseen from now on: {listed(without_rows)}.")
    if new:
        screen.say(f"New groups: {listed(new)}.")
    if changes is not None:
        show_changes(screen, changes, 0.9)
    screen.say(
        f"Shares of {len(after):,} groups learned again from {rows.n_rows:,} rows. Saved ", bold(out), "."
    )


def new_rows(model: GroupShiftClassifier, recipe: Recipe, source: Source, weight: str | None) -> Prepared:
    """Rows of a file as a fitted model takes them; each has a group, and a weight where these are named."""
    survey = survey_file(source, FileSurveyor((), group=recipe.group, weight=weight))
    survey.check(source, recipe.group, weight)
    columns = {plan.name: prepared.feature(plan) for plan in recipe.columns}
    if group := group_role(model, recipe):
        columns[group] = Column(recipe.group, lambda table, first: recipe.groups(table, model.groups_))
    if weight is not None:
        columns[WEIGHT] = prepared.weight(weight)
    return Prepared([Part(source, columns)], survey.rows)


def group_role(model: GroupShiftClassifier, recipe: Recipe) -> str | None:
    return None if recipe.group is None else model.group or GROUP


def make_model(method: str, seed: int, classifier: str | None = None) -> GroupShiftClassifier:
    """An unfitted model by name.

    All methods have the classifier and the calibration of the default, so that only the method differs; the paper's own
    configuration has the paper's, unless another classifier is asked for.
    """
    method = method.replace("-", "_")
    if method not in METHODS:
        raise InputError(f"--method {method!r} is not known. Choose one of {', '.join(METHODS)}.")
    if method == "published":
        return GroupShiftClassifier.published(classifier_named(classifier or "forest"), random_state=seed)
    model: GroupShiftClassifier = ALL_METHODS[method](random_state=seed)
    named = None if classifier is None else classifier_named(classifier)
    model.set_params(estimator=named, calibration="crossfit")
    return model


def _selection(labels_chosen: str) -> str:
    """The setting of a model that --labels-chosen names."""
    selection = labels_chosen.replace("-", "_")
    if selection not in SELECTIONS:
        raise InputError(
            f"--labels-chosen {labels_chosen!r} is not known. Choose one of {', '.join(SELECTIONS)}."
        )
    return selection


def _warned_of(caught: list[warnings.WarningMessage]) -> list[str]:
    found = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    return [message for message in found if "feature names" not in message]


def describe_fit(model: GroupShiftClassifier, training: Training, out: str) -> dict[str, object]:
    """The fit, for another program."""
    found = model.diagnose()
    return {
        "out": out,
        "seed": model.random_state,
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        **_shares(model),
        "features": [plan.to_json() for plan in training.recipe.columns],
        "left_out": [plan.to_json() for plan in training.plans if not plan.used],
        "labeled_groups": len(model.labeled_groups_),
        "groups": len(model.groups_),
        "clusters": model.n_clusters_,
        "random_labels": model.random_labels_ if np.isfinite(model.random_labels_) else None,
        "notes": [*training.alarms, *training.notes, *model.notes_],
        "worth": found.worth,
        "holds": found.holds,
        "verdict": found.verdict,
        "gain": found.gain,
        "assumption": found.assumption,
        "cautions": found.caution,
    }


def _shares(model: GroupShiftClassifier) -> dict[str, object]:
    """Shares among labelled rows and in the population: of positives, or of each class."""
    whole = shares_by(model, "overall", 0.9)
    if not model.is_multiclass_:
        labeled, population = float(whole["labeled_share"][0]), model.overall_share()
        is_known = not np.isnan(population.share)
        return {
            "labeled_share": labeled,
            "population_share": population.share if is_known else None,
            "population_interval": [population.low, population.high] if is_known else None,
        }
    names = [str(name) for name in model.classes_.tolist()]
    both = whole["labeled_share"], whole["share"]
    before, after = (dict(zip(names, shares.tolist(), strict=True)) for shares in both)
    has_shares = not np.isnan(both[1]).any()
    return {"labeled_shares": before, "population_shares": after if has_shares else None}


def _summarize(screen: Screen, model: GroupShiftClassifier, training: Training, out: str) -> None:
    summary = Summary.of(model)
    for paragraph in summary.short_paragraphs("Fitted on"):
        screen.say(paragraph + "\n")
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
        if training.target.several
        else f"Positive is {training.target.positive!r} in {training.recipe.target!r}. Saved ",
        bold(out),
        f" ({Path(out).stat().st_size / 1024:,.0f} kB). Next:\n",
        "\n".join(f"  {this_command()} {command}" for command in commands),
    )
