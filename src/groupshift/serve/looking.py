"""A look at the files: columns with their first values, what is likely to be what, and what looks wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from groupshift._diagnosis.wording import percent, short
from groupshift.cli.check import ColumnFacts, composition, look
from groupshift.cli.errors import InputError, for_user
from groupshift.cli.groups import likely_group, twice_spelled
from groupshift.cli.screen import Screen
from groupshift.cli.target import means_no_label
from groupshift.cli.training import WHY_LEFT_OUT, Roles, read_training
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
    shared = set.intersection(*(set(head.source.columns) for head in heads))
    usual = {
        name: "feature" if name in shared and plan.used else "exclude"
        for name, plan in heads[0].plans.items()
    }
    found: dict[str, object] = {"guess": dict(settings.roles), "alarms": [], "notes": [], "groups": []}
    facts: dict[str, ColumnFacts] = {}
    target = settings.one("target")
    values = list(heads[0].counts(target)) if target in heads[0].source.columns else []
    if target is None:
        found["alarms"] = ["Which column holds the known labels? Click “target” in its line."]
    else:
        features, excluded = feature_lists(settings, usual)
        group, weight, example_id = (settings.one(role) for role in ("group", "weight", "example_id"))
        roles = Roles(target, group, weight, example_id, tuple(features), tuple(excluded), settings.positive)
        try:
            with screen.working("Reading all rows"):
                training = read_training(job.paths, roles)
            with screen.working("Looking at the columns"):
                columns, groups = look(training)
        except Exception as error:
            if (sentence := for_user(error)) is None:
                raise
            found["alarms"] = [sentence]
        else:
            facts = {fact.name: fact for fact in columns}
            # All rows may show what the first rows did not: that a column is no feature.
            usual |= {
                plan.name: "exclude" for plan in training.plans if not plan.used and plan.name not in features
            }
            read = training.target
            values = list(read.several or (read.positive, *read.negatives))
            of_two = (
                f"{percent(training.shares[read.positive])} of them “{read.positive}”"
                if not read.several
                else ""
            )
            spelled = twice_spelled(*map(sorted, groups))
            found |= {
                "alarms": [*training.alarms, *([spelled] if spelled else [])],
                "notes": training.notes,
                "groups": sorted(groups[0] | groups[1])[:MOST_OFFERED],
                "labeled_rows": len(training.numbers),
                "unlabeled_rows": training.n_unlabeled,
                "composition": of_two or composition(training),
                # Of several classes none is the positive one.
                "positive": "" if read.several else read.positive,
                "file_rows": training.n_rows,
            }
    names = dict.fromkeys(name for head in heads for name in head.source.columns)
    return {
        **found,
        "files": [
            {"name": str(s.path), "format": s.describe(), "columns": len(s.columns)}
            for s in (head.source for head in heads)
        ],
        "values": values[:MOST_OFFERED],
        "columns": [_column(heads, name, usual, facts.get(name)) for name in names],
    }


def guessed(heads: list[Head]) -> Settings:
    """Target and groups by the look of the columns, for the user to change."""
    target, first = _likely_target(heads), heads[0]
    shared = [name for name in first.source.columns if all(name in head.source.columns for head in heads)]
    group = likely_group([first.plans[name] for name in shared if name != target], first.surveys)
    roles = {target: "target"} if target is not None else {}
    return Settings(roles | ({group[0]: "group"} if group is not None else {}))


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
