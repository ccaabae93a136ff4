"""A look at the files: columns with their first values, what is likely to be what, and what looks wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from groupshift._diagnosis.wording import percent, short
from groupshift.cli.check import composition
from groupshift.cli.column_notes import ColumnFacts, look
from groupshift.cli.errors import InputError, for_user
from groupshift.cli.groups import likely_group, twice_spelled
from groupshift.cli.screen import Screen
from groupshift.cli.target import means_no_label
from groupshift.cli.training import WHY_LEFT_OUT, Roles, Training, read_training
from groupshift.serve.jobs import Job, Settings, feature_lists
from groupshift.tables.column_facts import ColumnSurvey, counts_of_texts, kind_of_type, plan_of, survey_column
from groupshift.tables.columns import ColumnPlan, as_text
from groupshift.tables.sources import Source, open_source

# Values of a column that are shown, and how much of each.
FIRST_VALUES, SHORT = 4, 30
# Values of the target, and groups, that are offered to choose from.
MOST_OFFERED = 500
# How dates are written, in letters that people know.
LETTERS = {"%d": "DD", "%m": "MM", "%Y": "YYYY", "%H": "hh", "%M": "mm", "%S": "ss"}


@dataclass(frozen=True)
class Head:
    """The first rows of a file, and what they say of each column."""

    source: Source
    rows: pa.Table
    surveys: dict[str, ColumnSurvey]
    plans: dict[str, ColumnPlan]

    @classmethod
    def of(cls, path: str) -> Head:
        source = open_source(path)
        rows = next(iter(source.batches()), None)
        if rows is None or not rows.num_rows:
            raise InputError(f"{path} has a header but no rows. Check how it was made.")
        surveys = {name: survey_column(rows[name]) for name in source.columns}
        return cls(source, rows, surveys, {name: plan_of(name, found) for name, found in surveys.items()})

    def values(self, name: str) -> list[str]:
        """The first values of a column, as text; an empty one is missing."""
        column = self.rows[name].slice(0, FIRST_VALUES)
        if kind_of_type(column.type) == "nested":
            return [short(str(value), SHORT) for value in column.to_pylist()]
        return [short(text or "", SHORT) for text in as_text(column).to_pylist()]

    def counts(self, name: str) -> dict[str, int]:
        """How often each value occurs in the first rows."""
        if kind_of_type(self.rows[name].type) == "nested":
            return {}
        return counts_of_texts(as_text(self.rows[name]))


def look_at(job: Job) -> dict[str, object]:
    """Everything that the page says about the files; a target and groups are guessed where none were clicked."""
    screen = Screen()
    with screen.working("Opening the files"):
        heads = [Head.of(path) for path in job.paths]
    settings = job.settings if job.settings.roles else guessed(heads)
    usual = {name: _usual(heads, name) for name in heads[0].source.columns}
    found: dict[str, object] = {"guess": dict(settings.roles), "alarms": [], "notes": [], "groups": []}
    facts: dict[str, ColumnFacts] = {}
    target = settings.one("target")
    values = list(heads[0].counts(target)) if target in heads[0].source.columns else []
    if target is None:
        found["alarms"] = ["Which column holds the known labels? Click “target” in its line."]
    else:
        try:
            training = _read(screen, job, settings, usual)
            columns, groups = _look(screen, training)
        except Exception as error:
            if (sentence := for_user(error)) is None:
                raise
            found["alarms"] = [sentence]
        else:
            facts = {fact.name: fact for fact in columns}
            usual |= _left_out(training, settings)
            target_read = training.target
            values = list(target_read.several or (target_read.positive, *target_read.negatives))
            found |= {"alarms": training.alarms, "notes": training.notes}
            found |= {"groups": groups[:MOST_OFFERED], **_sizes(training)}
    return {
        **found,
        "files": [_file(head) for head in heads],
        "values": values[:MOST_OFFERED],
        "columns": [_column(heads, name, usual, facts.get(name)) for name in _names(heads)],
    }


def _read(screen: Screen, job: Job, settings: Settings, usual: Mapping[str, str]) -> Training:
    features, excluded = feature_lists(settings, usual)
    roles = Roles(
        target=settings.one("target") or "",
        group=settings.one("group"),
        weight=settings.one("weight"),
        example_id=settings.one("example_id"),
        features=tuple(features),
        exclude=tuple(excluded),
        positive=settings.positive,
    )
    with screen.working("Reading all rows"):
        return read_training(job.paths, roles)


def _look(screen: Screen, training: Training) -> tuple[list[ColumnFacts], list[str]]:
    with screen.working("Looking at the columns"):
        facts, groups = look(training)
    if (spelled := twice_spelled(*map(sorted, groups))) is not None:
        training.alarms.append(spelled)
    return facts, sorted(groups[0] | groups[1])


def guessed(heads: list[Head]) -> Settings:
    """Target and groups by the look of the columns, for the user to change."""
    roles = {}
    if (target := _likely_target(heads)) is not None:
        roles[target] = "target"
    first = heads[0]
    shared = [name for name in first.source.columns if all(name in head.source.columns for head in heads)]
    plans = [first.plans[name] for name in shared if name != target]
    if (group := likely_group(plans, first.surveys)) is not None:
        roles[group[0]] = "group"
    return Settings(roles)


def _likely_target(heads: list[Head]) -> str | None:
    """A column of two values that only the labelled file has; in one file, one of two values with gaps."""
    first, *others = heads
    found = []
    for name in first.source.columns:
        known = [value for value in first.counts(name) if not means_no_label(value) and value != "-1"]
        if len(known) == 2 and not any(name in head.source.columns for head in others):
            found.append((first.surveys[name].values == first.surveys[name].rows, name))
    # In one file, labels are what is missing somewhere.
    found = [(is_full, name) for is_full, name in found if others or not is_full] or found
    return found[-1][1] if len(found) == 1 or (found and others) else None


def _left_out(training: Training, settings: Settings) -> dict[str, str]:
    """Columns that all rows show to be no features, though their first rows did not."""
    wanted = settings.named("feature")
    return {plan.name: "exclude" for plan in training.plans if not plan.used and plan.name not in wanted}


def _usual(heads: list[Head], name: str) -> str:
    is_shared = all(name in head.source.columns for head in heads)
    return "feature" if is_shared and heads[0].plans[name].used else "exclude"


def _names(heads: list[Head]) -> list[str]:
    return list(dict.fromkeys(name for head in heads for name in head.source.columns))


def _sizes(training: Training) -> dict[str, object]:
    """Numbers of rows, and what labelled rows are made of, in words; of several classes none is the positive one."""
    target = training.target
    of_two = f"{percent(training.shares[target.positive])} of them “{target.positive}”"
    return {
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        "composition": composition(training) if target.several else of_two,
        "positive": "" if target.several else target.positive,
        "file_rows": training.n_rows,
    }


def _file(head: Head) -> dict[str, object]:
    source = head.source
    return {"name": str(source.path), "format": source.describe(), "columns": len(source.columns)}


def _column(
    heads: list[Head], name: str, usual: Mapping[str, str], fact: ColumnFacts | None
) -> dict[str, object]:
    here = [head for head in heads if name in head.source.columns]
    plan, values = here[0].plans[name], here[0].values(name)
    found: dict[str, object] = {
        "name": name,
        "kind": plan.kind if plan.used else "text",
        "written": _written(plan),
        "first": values,
        "missing": [],
        "described": "",
        "remark": "" if plan.used else WHY_LEFT_OUT[plan.kind],
        "usual": usual.get(name, "exclude"),
        "where": "" if len(here) == len(heads) else f"only in {here[0].source.path}",
    }
    if fact is not None:
        found |= {"described": fact.values, "remark": fact.remark}
        found["missing"] = [fact.missing_labeled, fact.missing_unlabeled]
        found["kind"] = found["kind"] if fact.kind == "left out" else fact.kind
    return found


def _written(plan: ColumnPlan) -> str:
    """What is special about how a column is written.

    >>> _written(ColumnPlan("born", "date", format="%d.%m.%Y")), _written(ColumnPlan("km", "number", decimal=","))
    ('DD.MM.YYYY', 'decimal comma')
    """
    if plan.kind == "number" and plan.decimal == ",":
        return "decimal comma"
    return re.sub("%[dmYHMS]", lambda found: LETTERS[found[0]], plan.format or "")
