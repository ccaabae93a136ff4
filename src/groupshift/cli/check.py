"""`groupshift check`: what is in the files, and is the method worth it?"""

import warnings
from typing import Any

from groupshift._explain.summary import Summary
from groupshift._explain.wording import percent
from groupshift.cli.column_notes import ColumnFacts, Groups, look
from groupshift.cli.groups import twice_spelled
from groupshift.cli.screen import Screen, bold, listed, print_json
from groupshift.cli.threads import suitable_threads
from groupshift.cli.training import Roles, Training, read_training
from groupshift.streaming import LABELED_TRIED

# Columns that fit a screen; those with a remark come first.
MOST_COLUMNS = 25


def check(files: list[str], roles: Roles, *, quick: bool, seed: int, as_json: bool) -> None:
    screen = Screen(quiet=as_json)
    with screen.working("Reading"):
        training = read_training(files, roles)
        facts, groups = look(training)
        if (spelled := twice_spelled(*map(sorted, groups))) is not None:
            training.alarms.append(spelled)
    found: dict[str, Any] = describe(training, facts, groups)
    if not as_json:
        for alarm in training.alarms:
            screen.alarm(alarm)
        _show_rows(screen, training, found, spelled=spelled is not None)
        _show_columns(screen, facts, two_sides=bool(training.n_unlabeled))
        for note in training.notes:
            screen.note(note)
    if not quick:
        found["diagnosis"] = diagnosis(screen, training, seed)
    if as_json:
        print_json(found)
    elif not quick:
        screen.say("\n", bold("Is it worth it?"))
        _show_diagnosis(screen, found["diagnosis"])


def describe(training: Training, facts: list[ColumnFacts], groups: Groups) -> dict[str, Any]:
    """Everything that check says but the diagnosis, for another program."""
    found: dict[str, Any] = {
        "files": [
            {"path": str(source.path), "format": source.describe(), "rows": n, "columns": len(source.columns)}
            for source, n in zip(training.sources, training.n_rows, strict=True)
        ],
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        "positive": training.target.positive,
        "negative": training.target.negative,
        "labeled_share": float(training.y.mean()),
        "columns": [fact.to_json() for fact in facts],
        "notes": [*training.alarms, *training.notes],
    }
    if training.recipe.group is not None:
        labeled, unlabeled = groups
        found["groups"] = {
            "column": training.recipe.group,
            "labeled": len(labeled),
            "unlabeled": len(unlabeled),
            "both": len(labeled & unlabeled),
            "only_labeled": sorted(labeled - unlabeled),
            "only_unlabeled": sorted(unlabeled - labeled),
        }
    return found


def diagnosis(screen: Screen, training: Training, seed: int) -> dict[str, Any]:
    """Fit a part of the rows with modest settings, and ask the model what it thinks of itself."""
    from groupshift import GroupShiftClassifier

    model = GroupShiftClassifier(refine=0, random_state=seed)
    with (
        screen.working("Trying the method on a part of the rows"),
        suitable_threads(LABELED_TRIED),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        model = training.fit_sample(model)
        summary = Summary.of(model)
    found = summary.diagnosis
    return {
        "worth": found.worth,
        "holds": found.holds,
        "rows_tried": int(model.labeled_rows_.sum() + model.rows_.sum()),
        "main_sentences": [*training.alarms, *summary.main_sentences],
        "sentences": [*training.alarms, *found.sentences],
    }


def _show_rows(screen: Screen, training: Training, found: dict[str, Any], *, spelled: bool) -> None:
    lines = [[f["path"], f["format"], f"{f['rows']:,}", f"{f['columns']:,}"] for f in found["files"]]
    screen.table({"file": "left", "read as": "left", "rows": "right", "columns": "right"}, lines)
    screen.say()
    screen.say(
        bold("Target"),
        f"  {training.recipe.target}: {found['labeled_rows']:,} labelled rows, "
        f"{percent(found['labeled_share'])} of them {found['positive']!r}; {found['unlabeled_rows']:,} "
        "unlabelled rows.",
    )
    groups = found.get("groups")
    if groups is None:
        screen.say(bold("Groups"), "  none named (--group): all rows count as one group.")
        return
    screen.say(
        bold("Groups"),
        f"  {groups['column']}: {groups['labeled']:,} with labelled rows, "
        f"{groups['unlabeled']:,} with "
        f"unlabelled rows, {groups['both']:,} with both.",
    )
    if groups["only_labeled"]:
        screen.note(
            f"Groups without unlabelled rows, whose shares stay unknown: {listed(groups['only_labeled'])}."
        )
    if groups["unlabeled"] and not groups["both"] and not spelled:
        screen.note(
            "No group is on both sides. If that is not meant, look for different spellings: "
            f"{listed(groups['only_labeled'], 3)} against {listed(groups['only_unlabeled'], 3)}."
        )


def _show_diagnosis(screen: Screen, found: dict[str, Any]) -> None:
    """The sentences that an answer cannot do without; a screen holds no more."""
    screen.say(
        f"A quick trial on {found['rows_tried']:,} rows, without training on unlabelled ones; `fit` may differ."
    )
    for sentence in found["main_sentences"]:
        screen.sentence(sentence)
    more = len(set(found["sentences"]) - set(found["main_sentences"]))
    if more:
        screen.say(f"    {more} more findings with --json, and in the report of a fitted model.")


def _missing(share: float) -> str:
    return "" if not share else "< 1 %" if share < 0.01 else percent(share, 0)


def _show_columns(screen: Screen, facts: list[ColumnFacts], *, two_sides: bool) -> None:
    order = (
        sorted(facts, key=lambda fact: not fact.remark)[:MOST_COLUMNS] if len(facts) > MOST_COLUMNS else facts
    )
    headings = {"column": "left", "kind": "left", "missing, labelled": "right"}
    headings |= {"unlabelled": "right"} if two_sides else {}
    headings |= {"values": "left", "remark": "left"}
    lines = []
    for fact in order:
        missing = [_missing(share) for share in (fact.missing_labeled, fact.missing_unlabeled)]
        lines.append([fact.name, fact.kind, *missing[: 1 + two_sides], fact.values, fact.remark])
    screen.say()
    screen.table(headings, lines)
    if len(order) < len(facts):
        kinds = {kind: sum(f.kind == kind for f in facts) for kind in dict.fromkeys(f.kind for f in facts)}
        shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        screen.say(
            f"… and {len(facts) - len(order):,} more columns, without remarks or less remarkable. In all: "
            f"{shown}."
        )
