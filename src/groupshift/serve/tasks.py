"""What a job's process does: look at files, fit, update, predict. Work is done by the commands that the page shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.findings import common_values, what_settles_it
from groupshift._diagnosis.report.facts import Facts, Names
from groupshift._diagnosis.report.formats import rounded, texts
from groupshift._diagnosis.report.page import policy
from groupshift._diagnosis.sentences import STATEMENTS
from groupshift._diagnosis.share_tables import overall_share, shares_by, shares_if_selected
from groupshift._diagnosis.summary import Summary
from groupshift._math.arrays import FloatArray
from groupshift.cli.errors import OK, run
from groupshift.cli.recipe import load_model
from groupshift.cli.screen import Screen
from groupshift.cli.shares import change_table, show_changes
from groupshift.serve.jobs import (
    BEFORE,
    ENDINGS,
    MODEL,
    Job,
    answer_arguments,
    main_arguments,
    predict_arguments,
    usual_roles,
)
from groupshift.serve.looking import look_at
from groupshift.tables.files import write_whole

# How much likelier positives are to be labelled, in what the page draws beside the shares.
LIKELIER = 2.0
COVERAGE = 0.9


def look(job: Job, home: Path) -> int:
    """What is in the files, as the roles that were chosen have it."""
    _write(home / "look.json", look_at(job))
    return OK


def learn(job: Job, home: Path) -> int:
    """Fit or update, then shares and report, then what the page shows."""
    if (code := run(main_arguments(job, usual_roles(home)))) != OK:
        return code
    with Screen().working("Summing up"):
        model, recipe, _ = load_model(MODEL)
        for arguments in answer_arguments():
            # A model without unlabelled rows knows no shares.
            if len(model.groups_) or arguments[0] != "shares":
                run(arguments)
        moved = None
        if job.kind == "update" and len((before := load_model(BEFORE)[0]).groups_):
            moved = change_table(before, model, coverage=COVERAGE)
        _write(home / "shares.json", share_columns(model, moved))
        names = Names(recipe.target, recipe.positive, recipe.group)
        _write(home / "answer.json", {**answers(model, moved, names), "report_policy": policy()})
    return OK


def answers(model: GroupShiftClassifier, moved: pa.Table | None, names: Names) -> dict[str, object]:
    """The first screen of an answer: numbers, sentences, and what moved since the model before."""
    summary = Summary.of(model)
    facts, code, common = Facts.of(model, summary.diagnosis, names), what_settles_it(model), None
    if not model.is_multiclass_ and code not in ("audit", "rate"):
        common = STATEMENTS[f"common_{code}"](common_values(model))
    heard: list[str] = []
    if moved is not None:
        with Screen.heard_by(lambda kind, text: heard.append(text)):
            show_changes(Screen(), moved, COVERAGE)
    return {
        "title": facts.title(),
        "has_classes": model.is_multiclass_,
        "tiles": facts.tiles(),
        "worth": summary.diagnosis.worth,
        "verdict": summary.diagnosis.verdict,
        "gain": summary.diagnosis.gain[:1],
        "cautions": [*summary.diagnosis.assumption[:1], *summary.diagnosis.caution[:4]],
        "common": common,
        "n_groups": len(model.groups_),
        "moved": heard,
    }


def share_columns(model: GroupShiftClassifier, moved: pa.Table | None) -> dict[str, object]:
    """Shares of the groups as columns, beside what they were before an update and what selection would make of them."""
    if not len(model.groups_):
        return {"group": []}
    if model.is_multiclass_:
        return _class_columns(model)
    overall_if, share_if = (found[..., 0] for found in shares_if_selected(model, LIKELIER))
    table, whole = (shares_by(model, by, COVERAGE) for by in ("group", "overall"))
    columns = {name: table[name] for name in ("rows", "share", "low", "high")}
    columns |= {"labeled": table["labeled_share"], "if_likelier": share_if}
    overall = {**overall_share(model, COVERAGE)._asdict(), "if_likelier": float(overall_if)}
    overall |= {"rows": float(model.rows_.sum()), "labeled": float(whole["labeled_share"][0])}
    if moved is not None:
        of_all, *groups = moved.select(["group", "before", "change"]).to_pylist()
        by_name = {row["group"]: row for row in groups}
        own = [by_name[name] for name in texts(table["group"])]
        for name in ("before", "change"):
            columns[name] = np.array([row[name] for row in own], float)
            overall[name] = of_all[name]
    return {"group": texts(table["group"]), **_rounded(columns, overall)}


def _class_columns(model: GroupShiftClassifier) -> dict[str, object]:
    """The same for several classes, each of which has a column of shares."""
    table, overall = (shares_by(model, by, COVERAGE) for by in ("group", "overall"))
    share, rows = (table[name].reshape(-1, len(model.classes_)) for name in ("share", "rows"))
    columns = {"rows": rows[:, 0], **{f"class {c}": column for c, column in enumerate(share.T)}}
    whole = {"rows": rows[:, 0].sum(), **{f"class {c}": value for c, value in enumerate(overall["share"])}}
    names = {"group": texts(model.groups_), "classes": texts(model.classes_)}
    return {**names, **_rounded(columns, whole)}


def _rounded(columns: Mapping[str, FloatArray], overall: Mapping[str, float]) -> dict[str, object]:
    """Columns of groups, and the numbers of all rows together, as the page reads them."""
    return {
        **{name: rounded(np.asarray(values, float)) for name, values in columns.items()},
        "overall": {name: rounded(np.array([value], float))[0] for name, value in overall.items()},
    }


def _write(path: Path, found: object) -> None:
    write_whole(path, json.dumps(found, ensure_ascii=False, allow_nan=False), force=True)


TASKS: dict[str, Callable[[Job, Path], int]] = {
    "look": look,
    "fit": learn,
    "update": learn,
    **{f"predict{e}": lambda job, home, e=e: run(predict_arguments(job, e)) for e in ENDINGS},  # type: ignore[misc]
}
