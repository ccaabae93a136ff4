"""`groupshift check`: what is in the files, and is the method worth it?"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import JustifyMethod

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.summary import Summary
from groupshift._diagnosis.wording import percent
from groupshift.cli.column_notes import ColumnFacts, Groups, look
from groupshift.cli.groups import told_first, twice_spelled
from groupshift.cli.screen import Screen, bold, listed, print_json
from groupshift.cli.training import Roles, Training, read_training

# Columns that fit a screen; those with a remark come first.
MOST_COLUMNS = 25


@dataclass(frozen=True)
class Trial:
    """What a model of a part of the rows thinks of itself; the main sentences fit a screen."""

    worth: str
    holds: str
    rows_tried: int
    main_sentences: list[str]
    sentences: list[str]


def check(files: list[str], *, quick: bool, seed: int, as_json: bool, **roles: Any) -> None:
    screen = Screen(quiet=as_json)
    with screen.working("Reading"):
        training = read_training(files, Roles(**roles))
        facts, groups = look(training)
        if (spelled := twice_spelled(*map(sorted, groups))) is not None:
            training.alarms = told_first(training.alarms, spelled)
    screen.alarm(*training.alarms)
    _show_rows(screen, training, groups, spelled=spelled is not None)
    _show_columns(screen, facts, two_sides=bool(training.n_unlabeled))
    screen.note(*training.notes)
    trial = None if quick else try_method(screen, training, seed)
    if trial is not None:
        _show_trial(screen, trial)
    if as_json:
        diagnosis = {} if trial is None else {"diagnosis": asdict(trial)}
        print_json(describe(training, facts, groups) | diagnosis)


def describe(training: Training, facts: list[ColumnFacts], groups: Groups) -> dict[str, object]:
    """Everything that check says but the trial, for another program."""
    labeled, unlabeled = groups
    about_groups = {
        "column": training.recipe.group,
        "labeled": len(labeled),
        "unlabeled": len(unlabeled),
        "both": len(labeled & unlabeled),
        "only_labeled": sorted(labeled - unlabeled),
        "only_unlabeled": sorted(unlabeled - labeled),
    }
    return {
        "files": [
            {"path": str(source.path), "format": source.describe(), "rows": n, "columns": len(source.columns)}
            for source, n in zip(training.sources, training.n_rows, strict=True)
        ],
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        **_target(training),
        "columns": [asdict(fact) for fact in facts],
        "notes": [*training.alarms, *training.notes],
        **({} if training.recipe.group is None else {"groups": about_groups}),
    }


def _target(training: Training) -> dict[str, object]:
    """What the target's values stand for, and their shares among labelled rows."""
    target, shares = training.target, training.shares
    if target.several:
        return {"classes": list(target.several), "labeled_shares": shares}
    return {
        "positive": target.positive,
        "negative": target.negative,
        "labeled_share": shares[target.positive],
    }


def composition(training: Training, most: int = 4) -> str:
    """Shares of the classes among labelled rows, in words."""
    shares = sorted(training.shares.items(), key=lambda item: -item[1])
    named = [f"{percent(share)} of them {name!r}" for name, share in shares[:most]]
    return ", ".join(named) + (f" and {len(shares) - most} more classes" if len(shares) > most else "")


def try_method(screen: Screen, training: Training, seed: int) -> Trial:
    """Fit a part of the rows with modest settings, and ask the model what it thinks of itself."""
    model = GroupShiftClassifier(random_state=seed)
    with (
        screen.working("Trying the method on a part of the rows"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        model = training.fit_sample(model)
        summary = Summary.of(model)
    found = summary.diagnosis
    return Trial(
        found.worth,
        found.holds,
        int(model.labeled_rows_.sum() + model.rows_.sum()),
        [*dict.fromkeys([*training.alarms, found.verdict, *found.assumption[:1], summary.main_caution])],
        [*dict.fromkeys([*training.alarms, *found.sentences])],
    )


def _show_rows(screen: Screen, training: Training, groups: Groups, *, spelled: bool) -> None:
    lines = [
        [str(source.path), source.describe(), f"{n:,}", f"{len(source.columns):,}"]
        for source, n in zip(training.sources, training.n_rows, strict=True)
    ]
    screen.table({"file": "left", "read as": "left", "rows": "right", "columns": "right"}, lines)
    screen.say()
    recipe = training.recipe
    screen.say(
        bold("Target"),
        f"  {recipe.target}: {len(training.numbers):,} labelled rows, {composition(training)}; "
        f"{training.n_unlabeled:,} unlabelled rows.",
    )
    if recipe.group is None:
        screen.say(bold("Groups"), "  none named (--group): all rows count as one group.")
        return
    labeled, unlabeled = groups
    screen.say(
        bold("Groups"),
        f"  {recipe.group}: {len(labeled):,} with labelled rows, {len(unlabeled):,} with unlabelled rows, "
        f"{len(labeled & unlabeled):,} with both.",
    )
    if only_labeled := sorted(labeled - unlabeled):
        screen.note(f"Groups without unlabelled rows, whose shares stay unknown: {listed(only_labeled)}.")
    if unlabeled and not labeled & unlabeled and not spelled:
        screen.note(
            "No group is on both sides. If that is not meant, look for different spellings: "
            f"{listed(only_labeled, 3)} against {listed(sorted(unlabeled), 3)}."
        )


def _show_trial(screen: Screen, trial: Trial) -> None:
    """The sentences that an answer cannot do without; a screen holds no more."""
    screen.say("\n", bold("Is it worth it?"))
    screen.say(
        f"A quick trial on {trial.rows_tried:,} rows, without training on unlabelled ones; `fit` may differ."
    )
    for sentence in trial.main_sentences:
        screen.sentence(sentence)
    if more := len(set(trial.sentences) - set(trial.main_sentences)):
        screen.say(f"    {more} more findings with --json, and in the report of a fitted model.")


def _missing(share: float) -> str:
    return "" if not share else "< 1 %" if share < 0.01 else percent(share, 0)


def _show_columns(screen: Screen, facts: list[ColumnFacts], *, two_sides: bool) -> None:
    shown = facts
    if len(facts) > MOST_COLUMNS:
        shown = sorted(facts, key=lambda fact: not fact.remark)[:MOST_COLUMNS]
    headings: dict[str, JustifyMethod] = {"column": "left", "kind": "left", "missing, labelled": "right"}
    headings |= {"unlabelled": "right"} if two_sides else {}
    headings |= {"values": "left", "remark": "left"}
    lines = []
    for fact in shown:
        missing = [_missing(share) for share in (fact.missing_labeled, fact.missing_unlabeled)]
        lines.append([fact.name, fact.kind, *missing[: 1 + two_sides], fact.values, fact.remark])
    screen.say()
    screen.table(headings, lines)
    if more := len(facts) - len(shown):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(f.kind for f in facts).items())
        screen.say(f"… and {more:,} more columns, without remarks or less remarkable. In all: {kinds}.")
