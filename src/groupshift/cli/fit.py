"""`groupshift fit` and `groupshift update`: learn from files and from known rates, keep the model in one file."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from groupshift import METHODS as ALL_METHODS
from groupshift import GroupShiftClassifier, save, share_changes, streaming
from groupshift._diagnosis.wording import percent, plural, short
from groupshift.cli.app import SELECTIONS
from groupshift.cli.errors import InputError, check_choice
from groupshift.cli.groups import told_first, twice_spelled
from groupshift.cli.recipe import (
    ALLOWED,
    LIGHTGBM_TYPES,
    classifier_named,
    load_model,
    new_rows,
    trusted_types,
)
from groupshift.cli.screen import Screen, bold, listed, print_json, this_command
from groupshift.cli.shares import change_table, show_changes, table_of
from groupshift.cli.training import Roles, Training, read_training
from groupshift.pipeline import LEFT_OUT
from groupshift.tables.column_facts import plan_column
from groupshift.tables.columns import ColumnPlan, convert, group_text
from groupshift.tables.sources import no_column, open_source

# Those that answer with shares and intervals; the others are for comparison and live in Python.
METHODS = ("groupshift", "published", "label_shift", "cluster_global", "global")
# The answers to how labels were chosen, in words.
IN_WORDS = {"random": "at random", "by_label": "because of the label", "unknown": "not known (used here)"}
QUESTION = "How were rows chosen for labels?"
# Groups that are named beside each answer, and the smallest change that is one.
MOST_MOVED, LEAST_MOVED = 2, 0.001
# Letters of their names.
MOST_LETTERS = 16
# A rate, or the rate and its standard error.
KnownShare = float | tuple[float, float]
# What people call the columns of known shares.
SHARE_NAMES = ("share", "rate", "positive", "probability")
ERROR_NAMES = ("std_error", "se", "standard_error", "stderr")
# Settings for research that are passed on as they are.
RESEARCH = ("calibration", "shares", "shrinkage", "per_cluster", "labeled_prior")


def fit(
    files: list[str],
    out: str,
    *,
    method: str,
    classifier: str | None,
    partition: str | None,
    jobs: int | None,
    selection: str | None,
    known_shares: str | None,
    known_overall: str | None,
    seed: int,
    force: bool,
    as_json: bool,
    details: bool,
    **others: Any,
) -> None:
    screen = Screen(force=force, as_json=as_json, details=details)
    screen.check_model(out, [*files, *([known_shares] if known_shares else [])])
    research = {name: others.pop(name) for name in RESEARCH}
    model = make_model(method, seed, classifier)
    if partition is not None:
        model.set_params(partition=int(partition) if partition.isdigit() else partition)
    model.set_params(**{name: value for name, value in research.items() if value is not None}, n_jobs=jobs)
    if research["shares"] == "none":
        model.set_params(shares=None)
    model.set_params(selection=ask_selection(selection, screen))
    with screen.working("Reading"):
        training = read_training(files, Roles(**others))
        known = read_known_rates(known_shares, known_overall, training.recipe.group)
    screen.alarm(*training.alarms)
    with screen.working("Fitting"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        training.fit(model, **known)
    warned = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    notes = [*training.notes, *(message for message in warned if "feature names" not in message)]
    notes += [note for note in model.notes_ if note.startswith(LEFT_OUT)]
    if (spelled := twice_spelled(model.labeled_groups_.tolist(), model.groups_.tolist())) is not None:
        training.alarms = told_first(training.alarms, spelled)
        screen.alarm(spelled)
    is_lightgbm = classifier == "lightgbm"
    if is_lightgbm:
        notes.insert(0, f"Set the environment variable {ALLOWED}=lightgbm wherever this model is read.")
    screen.note(*notes)
    trusted = LIGHTGBM_TYPES if is_lightgbm else ()
    save(model, out, overwrite=force, table=training.recipe.to_json(), trusted=trusted)
    answers = selections(model, **known)
    if as_json:
        print_json(_described(model, training) | {"out": out, "selections": answers})
        return
    summary = model.summary(details=details)
    answer, _, caution = summary.partition("\nCaution: ")
    is_said = repeats(summary, answers) or " ".join(caution.split()) in training.alarms
    screen.say(answer if is_said else summary)
    show_selections(screen, answers)
    # Without unlabeled rows a model has no shares to show, but can be given some.
    shares, update = f"shares {out} --out shares.csv", f"update {out} UNLABELED --out updated.gshift"
    commands = [shares if len(model.groups_) else update]
    if details:
        commands += [f"predict {out} NEW --out predictions.csv", f"report {out} --out report.html"]
    positive = "" if training.target.several else f" (positive: {training.target.positive!r})"
    screen.say(
        "Saved ", bold(out), f"{positive}. Next: ", "\n  ".join(f"{this_command()} {c}" for c in commands)
    )


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
    details: bool,
) -> None:
    screen = Screen(force=force, as_json=as_json, details=details)
    # A model may be replaced by its update; the data may not.
    screen.check_model(out, [data, *([known_shares] if known_shares else [])])
    model, recipe, _ = load_model(model_path, group=group)
    source = recipe.open(data, every_row=False)
    here, notes = recipe.for_file(source, [weight] if weight else [], anyway=anyway)
    with screen.working(f"Reading {data}"):
        rows, roles = new_rows(model, here, source, weight)
        known = read_known_rates(known_shares, known_overall, recipe.group)
    before = copy(model)
    with screen.working("Estimating shares"):
        streaming.update(model, rows, **roles, **known)
    save(model, out, overwrite=force, table=recipe.to_json(), trusted=trusted_types())
    old, now = set(before.groups_.tolist()), set(model.groups_.tolist())
    new, gone = sorted(now - old), sorted(old - now)
    changes = change_table(before, model, coverage=0.9) if old else None
    if as_json:
        found = {"out": out, "rows": rows.n_rows, "groups": len(now), "new": new, "gone": gone}
        print_json(found | {"changes": [] if changes is None else changes.to_pylist()})
        return
    if gone:
        notes.insert(
            0, f"{data} has no rows of {listed(gone)}: the shares of these groups are unknown from now on."
        )
    screen.note(*notes)
    if new:
        screen.say(f"New groups: {listed(new)}.")
    if changes is not None:
        show_changes(screen, changes, 0.9)
    screen.say(
        f"Estimated {plural(len(now), 'share')} again from {plural(rows.n_rows, 'row')}. Saved ",
        bold(out),
        ".",
    )


def make_model(method: str, seed: int, classifier: str | None = None) -> GroupShiftClassifier:
    """An unfitted model by name.

    All methods have the classifier and the calibration of the default, so that only the method differs; the paper's own
    configuration has the paper's, unless another classifier is asked for.
    """
    method = method.replace("-", "_")
    check_choice("--method", method, METHODS)
    if method == "published":
        return GroupShiftClassifier.published(classifier_named(classifier or "forest"), random_state=seed)
    model: GroupShiftClassifier = ALL_METHODS[method](random_state=seed)
    model.set_params(estimator=classifier_named(classifier or "boosted"), calibration="crossfit")
    return model


def ask_selection(selection: str | None, screen: Screen) -> str:
    """How labels were chosen, as a model calls it: what --selection says, or a person at a terminal answers."""
    if selection is None and sys.stdin.isatty() and screen.out.is_terminal and not screen.quiet:
        screen.say(
            QUESTION, "\n  1  as a random sample\n  2  because of what the label is\n  3  I do not know"
        )
        selection = {"1": "random", "2": "by_label"}.get(typer.prompt("Answer", default="3"), "unknown")
    selection = (selection or "unknown").replace("_", "-")
    check_choice("--selection", selection, [name.replace("_", "-") for name in SELECTIONS])
    return selection.replace("-", "_")


def selections(model: GroupShiftClassifier, **known: Any) -> list[dict[str, Any]]:
    """The answer under each way in which labels may have been chosen, where nobody said which; nothing is trained again.

    Overall shares by class, the expected gain over a plain classifier in log loss, and the groups whose shares differ most from
    those that the model gives.
    """
    if model.selection != "unknown" or not len(model.groups_) or not np.any(model.shift_):
        return []
    found = []
    for selection in IN_WORDS:
        other = model if selection == "unknown" else model.assuming(selection, **known)
        whole = table_of(other.group_shares(by="overall")).to_pylist()
        changes = [
            row for row in table_of(share_changes(model, other)).to_pylist() if row["change"] is not None
        ]
        moved = sorted(changes, key=lambda row: -abs(row["change"]))[:MOST_MOVED]
        found.append(
            {
                "selection": selection,
                "shares": {str(row.get("class", model.classes_[-1])): row["share"] for row in whole},
                "expected_gain": other.diagnose().overview.get("expected_loss_gain"),
                "moved": [row for row in moved if model.has_groups_ and abs(row["change"]) >= LEAST_MOVED],
            }
        )
    return found


def repeats(sentence: str, answers: list[dict[str, Any]]) -> bool:
    """Whether a caution says in words what the answers beside it say in numbers."""
    said = " ".join(sentence.split())
    return bool(answers) and ("over-represented" in said or "likely to be labeled" in said)


def show_selections(screen: Screen, answers: list[dict[str, Any]]) -> None:
    """The question that matters most, and the answer under each way to answer it."""
    if not answers:
        return
    lines = []
    for answer in answers:
        shares = answer["shares"]
        names = sorted(shares, key=lambda name: -shares[name])[:2]
        whole = [f"{name} " * (len(shares) > 1) + percent(shares[name]) for name in names]
        moved = []
        for row in answer["moved"][: 1 if len(shares) > 1 else MOST_MOVED]:
            name = " ".join(short(str(row[part]), MOST_LETTERS) for part in ("group", "class") if part in row)
            moved.append(f"{name} {100 * row['change']:+.1f}")
        gain = "" if answer["expected_gain"] is None else f"{round(answer['expected_gain'], 4) + 0.0:.4f}"
        lines.append([IN_WORDS[answer["selection"]], ", ".join(whole), gain, ", ".join(moved)])
    screen.say(f"{QUESTION} (--selection random, by-label or unknown)")
    screen.table(("", ">overall share", ">expected gain", "moves most"), lines)


def _described(model: GroupShiftClassifier, training: Training) -> dict[str, object]:
    """The fit, for another program."""
    found = model.diagnose()
    whole = table_of(model.group_shares(by="overall")).to_pylist()
    if model.is_multiclass_:
        shares: dict[str, object] = {"labeled_shares": {row["class"]: row["labeled_share"] for row in whole}}
        is_known = all(row["share"] is not None for row in whole)
        shares["population_shares"] = {row["class"]: row["share"] for row in whole} if is_known else None
    else:
        (row,) = whole
        shares = {"labeled_share": row["labeled_share"], "population_share": row["share"]}
        shares["population_interval"] = None if row["share"] is None else [row["low"], row["high"]]
    return {
        "seed": model.random_state,
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        **shares,
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


def read_known_rates(path: str | None, overall: str | None, group: str | None) -> dict[str, Any]:
    """What --known-shares and --known-overall say, as `fit` and `update` of a model take it."""
    return {
        "known_shares": None if path is None else _shares_in(path, group),
        "known_overall": None if overall is None else overall_rate(overall),
    }


def overall_rate(text: str) -> KnownShare | Mapping[str, KnownShare]:
    """A rate as it is typed, alone or with its standard error after a comma; of several classes, each with its name.

    >>> overall_rate("0.12"), overall_rate("0.12,0.01")
    (0.12, (0.12, 0.01))
    >>> overall_rate("red=0.5,0.01,blue=0.2")
    {'red': (0.5, 0.01), 'blue': 0.2}
    """
    numbers: dict[str, list[float]] = {}
    name = ""
    try:
        for part in re.split(r"\s*[,;±]\s*", text.strip()):
            # A number without a name belongs to the class before it.
            name, number = (side.strip() for side in part.rsplit("=", 1)) if "=" in part else (name, part)
            numbers.setdefault(name, []).append(float(number))
    except ValueError:
        numbers = {"": [-1.0]}
    is_named = "" not in numbers
    are_rates = all(
        len(found) <= 2 and 0 <= found[0] <= 1 and all(0 <= error < np.inf for error in found[1:])
        for found in numbers.values()
    )
    if not (is_named or len(numbers) == 1) or not are_rates:
        raise InputError(
            f"--known-overall {text!r} is not a rate. Write a share between 0 and 1, such as 0.12, or a share and its "
            "standard error, such as 0.12,0.01; of more than two classes, each with its name: red=0.5,blue=0.2."
        )
    rates: dict[str, KnownShare] = {
        name: (found[0], found[1]) if len(found) == 2 else found[0] for name, found in numbers.items()
    }
    return rates if is_named else rates[""]


def _shares_in(path: str, group: str | None) -> Mapping[str, KnownShare | Mapping[str, KnownShare]]:
    """Rates by group from a table: group, share, and (if there) its standard error; an empty one means that it is exact.

    With more than two classes a column names the class.
    """
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
    classes = [None] * len(groups) if of_class is None else group_text(table[of_class]).to_pylist()
    lines = list(zip(groups, classes, strict=True))
    if twice := [line for line, count in Counter(lines).items() if count > 1]:
        named = ", ".join(str(part) for part in twice[0] if part is not None)
        raise InputError(f"{path} has several rates of {named!r}. Keep one line for each group.")
    shares = _numbers(table[share], share, path)
    if np.isnan(shares).any():
        raise InputError(
            f"{np.isnan(shares).sum()} lines of {path} have no {share!r}. Fill them in, or leave these groups out."
        )
    if np.any((shares > 1) | (shares < 0)):
        raise InputError(
            f"{path} has shares outside 0 and 1 (the largest is {shares.max():g}). Write 12 % as 0.12."
        )
    values: list[KnownShare] = shares.tolist()
    if error is not None:
        errors = np.nan_to_num(_numbers(table[error], error, path), nan=0.0)
        if np.any(errors < 0):
            raise InputError(
                f"{path} has negative standard errors ({error!r}). Empty those that are not known."
            )
        values = list(zip(shares.tolist(), errors.tolist(), strict=True))
    if of_class is None:
        return dict(zip(groups, values, strict=True))
    found: dict[str, dict[str, KnownShare]] = {}
    for (name, one_class), value in zip(lines, values, strict=True):
        found.setdefault(name, {})[one_class] = value
    return found


def _numbers(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.float64]:
    """Numbers of a column; NaN in empty cells. Text that is not a number is refused."""
    numbers, lost = convert(column, ColumnPlan(name, "number", decimal=plan_column(name, column).decimal))
    if lost:
        raise InputError(f"{lost} values of {name!r} in {path} are not numbers. Correct or empty them.")
    return np.asarray(numbers.to_numpy(), float)
