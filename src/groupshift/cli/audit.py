"""`groupshift audit`: which rows to label, and what their labels say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from pyarrow import csv

from groupshift import GroupShiftClassifier
from groupshift._audit.found import check_population, learn_from
from groupshift._audit.plan import (
    KEY,
    LABEL,
    REFUSED,
    ROW,
    AuditPlan,
    ScoredPopulation,
    check_auditable,
    plan_audit,
    read_labels,
    score_batches,
)
from groupshift._data.batches import Reader, Roles
from groupshift._diagnosis.sentences import audit_sentences, precision_lines
from groupshift._files.model_files import save
from groupshift.cli.classifiers_named import trusted_types
from groupshift.cli.errors import InputError, check_model_output
from groupshift.cli.fit import group_role, new_rows
from groupshift.cli.prepared import WEIGHT
from groupshift.cli.recipe import Recipe, columns_to_read, load_model
from groupshift.cli.screen import Screen, bold, print_json, this_command
from groupshift.tables.columns import as_text
from groupshift.tables.csv_cells import HEAD_MARK, MISSING
from groupshift.tables.files import SEPARATORS, STANDARD_OUTPUT, check_output, table_format, whole_file
from groupshift.tables.sources import Source, no_column, open_source

ORDER = "order"


def audit(
    model_path: str,
    data: str | None,
    out: str | None,
    *,
    labels: str | None,
    budget: int,
    keep: Sequence[str],
    seed: int,
    **options: Any,
) -> None:
    """The half of an audit that the options ask for: which rows to label, or what their labels say."""
    if labels is not None:
        learn(model_path, labels, data, out, **options)
    elif data is not None:
        plan(model_path, data, out, keep, budget=budget, seed=seed, **options)
    else:
        raise typer.BadParameter("Pass POPULATION to plan an audit, or --labels FILE to learn from one.")


def plan(
    model_path: str,
    data: str,
    out: str | None,
    keep: Sequence[str],
    *,
    budget: int,
    group: str | None,
    weight: str | None,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    if out is not None:
        check_output(out, force=force)
        _check_text(out)
    screen = Screen(data_to=out, quiet=as_json)
    model, recipe, _ = load_model(model_path, group=group)
    check_auditable(model)
    source = recipe.open(data)
    keep = list(keep or source.columns)
    _check_kept(keep, source)
    with screen.working(f"Reading {data}"):
        found = plan_audit(model, _scored(model, recipe, source, weight), budget=budget, seed=seed)
    screen.note(*found.notes)
    if out is not None:
        table = _to_label(found, source, keep)
        _write(table, _head(found, recipe, model_path, out), out, force=force)
    if as_json:
        rows, spares = found.rows.tolist(), found.spares.tolist()
        bought = {name: values.tolist() for name, values in found.precision.items()}
        print_json({"out": out, "rows": rows, "spares": spares, "precision": bought, "notes": found.notes})
        return
    screen.say("How precise labels would be:")
    screen.table(
        {"labels": "right", "width of the 90 % interval": "right", "smallest error found out": "right"},
        precision_lines(found.precision),
    )
    screen.say(
        "The width is that of the overall share's interval after the audit; the error is one of the overall share that is found "
        "out four times in five."
    )
    if out is not None:
        screen.say(
            f"Wrote {len(found.rows)} rows to label and {len(found.spares)} spare ones to ",
            bold(out),
            f". Fill in the column {LABEL!r}, then:\n  {this_command()} {_next(model_path, out)}",
        )


def learn(
    model_path: str,
    labels: str,
    data: str | None,
    out: str | None,
    *,
    group: str | None,
    weight: str | None,
    force: bool,
    as_json: bool,
) -> None:
    if out is not None:
        check_model_output(out, force=force)
    screen = Screen(quiet=as_json)
    model, recipe, manifest = load_model(model_path, group=group)
    check_auditable(model)
    source = open_source(labels)
    if missing := [name for name in (LABEL, KEY) if name not in source.columns]:
        raise InputError(
            f"{no_column(missing, source)} Pass the file that `groupshift audit` wrote, labels filled in."
        )
    answers = read_labels(_labels(source, recipe, model), model.classes_, model.unlabeled_value)
    if data is not None:
        with screen.working(f"Reading {data}"):
            check_population(answers, _scored(model, recipe, recipe.open(data), weight))
    learn_from(model, answers)
    if out is not None:
        save(model, out, overwrite=force, table=manifest.get("table"), trusted=trusted_types())
    found = model.audit_
    assert found is not None
    if as_json:
        print_json({"out": out, **described(model)})
        return
    for sentence in audit_sentences(found, model.overall_share().share):
        screen.sentence(sentence)
    if out is not None:
        screen.say("Saved ", bold(out), f". Next:\n  {this_command()} report {out} --out report.html")
    else:
        screen.say("Nothing was saved: name a new model with --out to keep what was learned.")


def described(model: GroupShiftClassifier) -> dict[str, object]:
    """What an audit found, for another program."""
    found = model.audit_
    assert found is not None
    verdicts = found.verdicts
    return {
        "labels": found.labels,
        "missing": found.missing,
        "claimed_share": found.claimed_share,
        "share": model.overall_share().share,
        "interval": found.posterior.interval(0.9),
        "design_share": found.design.share,
        "design_interval": found.design.interval(0.9),
        "share_is_wrong": verdicts.share_is_wrong,
        "share_money": verdicts.share_money.tolist(),
        "possible_shares": [verdicts.low[-1], verdicts.high[-1]],
        "is_miscalibrated": verdicts.is_miscalibrated,
        "calibration_money": verdicts.calibration_money.tolist(),
        "common_shift": found.common.mean,
        "sentences": list(audit_sentences(found, model.overall_share().share)),
    }


def _scored(
    model: GroupShiftClassifier, recipe: Recipe, source: Source, weight: str | None
) -> ScoredPopulation:
    columns_to_read(recipe, source, [weight] if weight else [])
    recipe, _ = recipe.for_file(source, anyway=False)
    rows = new_rows(model, recipe, source, weight)
    roles = Roles(tuple(recipe.names), group_role(model, recipe), weight=weight and WEIGHT)
    return score_batches(model, Reader(model.schema_, roles, model.groups_), rows.batches())


def _check_text(out: str) -> None:
    if table_format(out) not in SEPARATORS or out.lower().endswith(".gz"):
        raise InputError(
            f"Rows to label are filled in by people, and {out} opens in no spreadsheet. Name it .csv or .tsv."
        )


def _check_kept(keep: list[str], source: Source) -> None:
    if missing := [name for name in keep if name not in source.columns]:
        raise InputError(no_column(missing, source))
    if clash := [name for name in keep if name in (ORDER, ROW, LABEL, KEY)]:
        raise InputError(
            f"{source.path} has a column {clash[0]!r}, and so has the file of rows to label. Name the columns to show with "
            "--keep, or rename it."
        )


def _to_label(found: AuditPlan, source: Source, keep: list[str]) -> pa.Table:
    """The rows to label as they stand in the file, in the order in which they are asked for."""
    columns, asked = found.columns(), found.sampled.row
    parts, numbers, first = [], [], 0
    for batch in source.batches(keep):
        here = np.flatnonzero((asked >= first) & (asked < first + batch.num_rows))
        parts.append(batch.take(asked[here] - first))
        numbers.append(here)
        first += batch.num_rows
    table = pa.concat_tables(parts).take(np.argsort(np.concatenate(numbers)))
    n, spare = len(found.rows), len(found.spares)
    order = [*map(str, range(1, n + 1)), *(f"spare {i}" for i in range(1, spare + 1))]
    shown = {ORDER: pa.array(order), ROW: pa.array(columns[ROW])}
    shown |= {name: table[name] for name in keep}
    shown |= {LABEL: pa.nulls(len(order), pa.string()), KEY: pa.array(columns[KEY], pa.string())}
    return pa.table(shown)


def _head(found: AuditPlan, recipe: Recipe, model_path: str, out: str) -> list[str]:
    """What to do with the file, for whoever opens it. No line has a comma: a spreadsheet would cut it into cells."""
    return [
        f"{HEAD_MARK} audit: {len(found.rows)} rows to label and {len(found.spares)} spare rows",
        f"# 1. Fill in the column {LABEL} from the top: {recipe.positive} or {recipe.negative}.",
        "# 2. A row that cannot be labelled: write refused. Then label one spare row more from their top.",
        f"# 3. Leave the columns {ROW} and {KEY} as they are. Look up rows as you like but do not skip or choose any.",
        f"# 4. With some labels or all of them: groupshift {_next(model_path, out)}",
    ]


def _next(model_path: str, out: str) -> str:
    labels = "LABELED.csv" if out == STANDARD_OUTPUT else out
    return f"audit {model_path} --labels {labels} --out audited.gshift"


def _write(table: pa.Table, head: list[str], out: str, *, force: bool) -> None:
    separator = SEPARATORS[table_format(out)]
    with whole_file(out, force=force) as file:
        file.write("".join(f"{line.replace(separator, ' ')}\n" for line in head).encode())
        csv.write_csv(table, file, csv.WriteOptions(delimiter=separator, quoting_style="needed"))


def _labels(source: Source, recipe: Recipe, model: GroupShiftClassifier) -> dict[str, np.ndarray]:
    """Labels as the model's classes; None where there is none."""
    names = [name for name in (ROW, LABEL, KEY) if name in source.columns]
    table = source.read(names)
    negative, positive = model.classes_.tolist()
    texts = (recipe.negative, recipe.positive) if recipe.target else (str(negative), str(positive))
    missing = tuple(value for value in MISSING if value not in texts)
    written = as_text(table[LABEL], missing=missing).to_pylist()
    label = [_class(text, texts, model.classes_.tolist()) for text in written]
    columns = {name: np.array(as_text(table[name]).to_pylist(), object) for name in names}
    return columns | {LABEL: np.array(label, object)}


def _class(text: str | None, texts: tuple[str, str], classes: list[object]) -> object:
    """The class that a label names, whatever the case of its letters and the form of its number."""
    if text is None:
        return None
    for name, value in zip(texts, classes, strict=True):
        if _same(text, name):
            return value
    if text.casefold() in REFUSED:
        return None
    if texts[0] == f"not {texts[1]}":  # many values that are not the positive one
        return classes[0]
    raise InputError(
        f"A label is {text!r}, which is neither {texts[1]!r} nor {texts[0]!r}. Write one of these; where a row cannot be "
        "labelled, 'refused' or nothing."
    )


def _same(text: str, name: str) -> bool:
    try:
        return float(text.replace(",", ".")) == float(name)
    except ValueError:
        return text.casefold() == name.casefold()
