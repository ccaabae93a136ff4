"""`groupshift audit`: which rows to label, and what their labels show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import typer
from pyarrow import csv

from groupshift import AuditPlan, GroupShiftClassifier, save, streaming
from groupshift._audit.found import check_population, learn_from
from groupshift._audit.plan import (
    KEY,
    LABEL,
    REFUSED,
    ROW,
    ReturnedLabels,
    check_auditable,
    read_labels,
    score_batches,
)
from groupshift._data.batches import Reader, Roles
from groupshift._diagnosis.sentences import audit_sentences, precision_lines
from groupshift.cli.errors import InputError
from groupshift.cli.recipe import Recipe, load_model, new_rows, trusted_types
from groupshift.cli.screen import Screen, bold, print_json, this_command
from groupshift.tables.columns import as_text
from groupshift.tables.csv_cells import HEAD_MARK, MISSING
from groupshift.tables.files import SEPARATORS, STANDARD_OUTPUT, check_output, table_format, whole_file
from groupshift.tables.sources import Source, no_column, open_source

ORDER = "order"
# Where the estimates of the overall share stand among the sentences: they are the answer, and come first.
ESTIMATES = 2


def audit(
    model_path: str,
    data: str | None,
    out: str | None,
    *,
    labels: str | None,
    budget: int,
    keep: Sequence[str],
    seed: int,
    group: str | None,
    weight: str | None,
    **how: bool,
) -> None:
    """The half of an audit that the options ask for: which rows to label, or what their labels show."""
    screen = Screen(out if labels is None else None, **how)
    if labels is not None:
        screen.check_model(out)
    elif data is None:
        raise typer.BadParameter("Pass POPULATION to plan an audit, or --labels FILE to learn from one.")
    elif out is not None:
        check_output(out, force=screen.force)
        if table_format(out) not in SEPARATORS or out.lower().endswith(".gz"):
            raise InputError(
                f"People fill in the rows to label, and {out} opens in no spreadsheet. Name it .csv or .tsv."
            )
    model, recipe, manifest = load_model(model_path, group=group)
    check_auditable(model)
    answers = None if labels is None else _answers(labels, recipe, model)
    if data is not None:
        source = recipe.open(data)
        if clash := [name for name in keep or source.columns if name in (ORDER, ROW, LABEL, KEY)]:
            raise InputError(
                f"{source.path} has a column {clash[0]!r}, and so has the file of rows to label. Name the columns to show "
                "with --keep, or rename it."
            )
        here, _ = recipe.for_file(source, [*keep, *([weight] if weight else [])])
        with screen.working(f"Reading {data}"):
            rows, roles = new_rows(model, here, source, weight)
            if answers is None:
                plan = streaming.audit(model, rows, budget=budget, seed=seed, **roles)
                _write_plan(screen, plan, recipe, source, keep, model_path)
                return
            reader = Reader(model.schema_, Roles(tuple(here.names), **roles), model.groups_)
            check_population(answers, score_batches(model, reader, rows.batches()))
    assert answers is not None
    learn_from(model, answers)
    if out is not None:
        save(model, out, overwrite=screen.force, table=manifest.get("table"), trusted=trusted_types())
    _show_found(screen, model, out)


def _write_plan(
    screen: Screen, plan: AuditPlan, recipe: Recipe, source: Source, keep: Sequence[str], model_path: str
) -> None:
    out, n, spare = screen.to, len(plan.rows), len(plan.spares)
    labels = "LABELED.csv" if out in (None, STANDARD_OUTPUT) else out
    following = f"audit {model_path} --labels {labels} --out audited.gshift"
    screen.note(*plan.notes)
    if out is not None:
        # No line has a comma: a spreadsheet would cut it into cells.
        head = [
            f"{HEAD_MARK} audit: {n} rows to label and {spare} spare rows",
            f"# 1. Fill in the column {LABEL} from the top: {recipe.positive} or {recipe.negative}.",
            "# 2. If a row cannot be labeled: write refused. Then label one more spare row from their top.",
            f"# 3. Do not change the columns {ROW} and {KEY}. Look up rows as you like but do not skip or choose any.",
            f"# 4. With some labels or all of them: groupshift {following}",
        ]
        separator = SEPARATORS[table_format(out)]
        with whole_file(out, force=screen.force) as file:
            file.write("".join(f"{line.replace(separator, ' ')}\n" for line in head).encode())
            options = csv.WriteOptions(delimiter=separator, quoting_style="needed")
            csv.write_csv(_to_label(plan, source, list(keep or source.columns)), file, options)
    if screen.quiet:
        bought = {name: values.tolist() for name, values in plan.precision.items()}
        asked = {"rows": plan.rows.tolist(), "spares": plan.spares.tolist()}
        print_json({"out": out, **asked, "precision": bought, "notes": plan.notes})
        return
    screen.say("How precise labels would be:")
    headings = (">labels", ">width of the 90 % interval", ">smallest error found")
    screen.table(headings, precision_lines(plan.precision))
    screen.say("Both are about the overall share; an error of that size is found in four of five audits.")
    if out is not None:
        screen.say(f"Wrote {n} rows to label and {spare} spare ones to ", bold(out), ".")
        screen.say(f"Fill in the column {LABEL!r}, then:\n  {this_command()} {following}")


def _to_label(found: AuditPlan, source: Source, keep: list[str]) -> pa.Table:
    """The rows to label as they are in the file, in the order in which they are asked for."""
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


def _show_found(screen: Screen, model: GroupShiftClassifier, out: str | None) -> None:
    found = model.audit_
    assert found is not None
    sentences = list(audit_sentences(found, model.overall_share().share))
    if screen.quiet:
        verdicts = found.verdicts
        print_json(
            {
                "out": out,
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
                "sentences": sentences,
            }
        )
        return
    estimates = sentences.pop(ESTIMATES)
    for sentence in [estimates, *(sentences if screen.details else sentences[:1])]:
        screen.sentence(sentence)
    if found.missing and not screen.details:
        screen.sentence(sentences[-1])
    if out is not None:
        screen.say("Saved ", bold(out), f". Next:\n  {this_command()} report {out} --out report.html")
    else:
        screen.say("Nothing was saved: name a new model with --out to keep what was learned.")


def _answers(path: str, recipe: Recipe, model: GroupShiftClassifier) -> ReturnedLabels:
    """The labels of a file as the model's classes; None where there is none."""
    source = open_source(path)
    if missing := [name for name in (LABEL, KEY) if name not in source.columns]:
        raise InputError(
            f"{no_column(missing, source)} Pass the file that `groupshift audit` wrote, labels filled in."
        )
    table = source.read([name for name in (ROW, LABEL, KEY) if name in source.columns])
    classes = model.classes_.tolist()
    texts = (recipe.negative, recipe.positive) if recipe.target else tuple(map(str, classes))
    written = as_text(
        table[LABEL], missing=tuple(value for value in MISSING if value not in texts)
    ).to_pylist()
    columns = {name: np.array(as_text(table[name]).to_pylist(), object) for name in table.column_names}
    columns[LABEL] = np.array([_class(text, texts, classes) for text in written], object)
    return read_labels(columns, model.classes_, model.unlabeled_value)


def _class(text: str | None, texts: tuple[str, ...], classes: list[object]) -> object:
    """The class that a label names, whatever the case of its letters and the form of its number."""
    if text is None:
        return None
    for name, value in zip(texts, classes, strict=True):
        try:
            is_same = float(text.replace(",", ".")) == float(name)
        except ValueError:
            is_same = text.casefold() == name.casefold()
        if is_same:
            return value
    if text.casefold() in REFUSED:
        return None
    if texts[0] == f"not {texts[1]}":  # many values that are not the positive one
        return classes[0]
    raise InputError(
        f"A label is {text!r}, which is neither {texts[1]!r} nor {texts[0]!r}. Write one of these; where a row cannot be "
        "labeled, 'refused' or nothing."
    )
