"""What may be wrong with groups: none named though a column looks like one, one row each, or two spellings of one."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from groupshift.cli.columns_read import FileSurvey
from groupshift.tables.column_facts import ColumnSurvey, Distinct
from groupshift.tables.columns import ColumnPlan

# Names that people give to columns of groups, alone or as a part ("home_state", "hospital id").
# fmt: off
USUAL_NAMES = frozenset((
    "group", "state", "region", "country", "county", "province", "district", "city",
    "town", "tract", "zip", "postcode", "hospital", "clinic", "ward", "school",
    "store", "shop", "branch", "site", "station", "airport", "origin", "dest",
    "destination", "department", "team", "market", "centre", "center",
))
# fmt: on
# A category of another name counts as groups from so many values on, each with so many rows on average.
MANY_VALUES, ROWS_EACH = 10, 10
# What a usual name needs besides: "state" with two values is on or off.
FEWEST_VALUES = 3
# Groups by rows. With less than one and a half rows each, most of them must have one.
MOSTLY_ONE_ROW = 2 / 3
NONE_IN_COMMON = "No value of"


def about_groups(
    group: str | None,
    found: Distinct,
    plans: Iterable[ColumnPlan],
    columns: Mapping[str, ColumnSurvey],
) -> list[str]:
    """Sentences about groups that were not named though a column looks like one, or that are rows, such as people."""
    likely = likely_group(plans, columns)
    if group is None:
        if likely is None:
            return []
        name, count = likely
        return [
            "No --group is named, so all rows count as one group, and nothing is learned about groups. "
            f"{name!r} ({count:,} values) looks like one: if it is, add --group {_typed(name)}."
        ]
    if found.share <= MOSTLY_ONE_ROW:
        return []
    about = "about " if found.level else ""
    coarser = (
        f"such as --group {_typed(likely[0])}" if likely else "such as the place or the period of each row"
    )
    return [
        f"Most groups are single rows: {group!r} has {about}{found.count:,} groups, {1 / found.share:.1f} rows each, "
        f"and a group of one row learns nothing of its own. Name a coarser column, {coarser}; if {group!r} marks "
        "copies of one example, name it with --example-id."
    ]


def told_first(alarms: Sequence[str], spelled: str) -> list[str]:
    """Alarms with the one about spellings in front: it says why files have no group in common, if they have none."""
    return [spelled, *(alarm for alarm in alarms if not alarm.startswith(NONE_IN_COMMON))]


def none_in_common(group: str | None, surveys: Sequence[FileSurvey]) -> list[str]:
    """A sentence where labelled and unlabelled rows come from two files that have no group in common."""
    if group is None or len(surveys) < 2:
        return []
    labeled, unlabeled = (survey.groups for survey in surveys)
    if labeled.level or unlabeled.level or np.isin(labeled.keys, unlabeled.keys).any():
        return []
    return [
        f"{NONE_IN_COMMON} {group!r} is in both files, so that no group has labelled and unlabelled rows. If that is not meant, "
        "look at how the two files write it."
    ]


def likely_group(plans: Iterable[ColumnPlan], columns: Mapping[str, ColumnSurvey]) -> tuple[str, int] | None:
    """The column that looks most like groups, and the number of its values."""
    found = [
        (_has_usual_name(plan.name), columns[plan.name].distinct.count, plan.name)
        for plan in plans
        if _may_be_group(plan, columns[plan.name])
    ]
    if not found:
        return None
    _, count, name = max(found)
    return name, count


def _typed(name: str) -> str:
    """A name as it is typed in a shell."""
    return f"'{name}'" if re.search(r"\s", name) else name


def twice_spelled(labeled: Iterable[str], unlabeled: Iterable[str]) -> str | None:
    """A sentence about groups whose names differ in capitals or spaces only, which makes two of one.

    >>> twice_spelled(["Oslo", "Bergen"], ["OSLO", "Bergen"]).split(":")[0]
    '1 group is spelled in several ways, which count as different groups'
    """
    spellings: dict[str, dict[str, None]] = {}
    for name in map(str, [*labeled, *unlabeled]):
        spellings.setdefault(" ".join(name.casefold().split()), {})[name] = None
    several = [list(names) for _, names in sorted(spellings.items()) if len(names) > 1]
    if not several:
        return None
    shown = ", ".join(" and ".join(map(repr, names)) for names in several[:3])
    more = f", and {len(several) - 3:,} more" if len(several) > 3 else ""
    count = "1 group is" if len(several) == 1 else f"{len(several):,} groups are"
    return (
        f"{count} spelled in several ways, which count as different groups: {shown}{more}. Spell them alike "
        "in all files."
    )


def _has_usual_name(name: str) -> bool:
    return not USUAL_NAMES.isdisjoint(re.split(r"[\W_]+", name.lower()))


def _may_be_group(plan: ColumnPlan, survey: ColumnSurvey) -> bool:
    count, rows = survey.distinct.count, survey.values
    if _has_usual_name(plan.name):
        return plan.kind in ("category", "number") and count >= FEWEST_VALUES and rows >= ROWS_EACH * count
    return plan.kind == "category" and count >= MANY_VALUES and rows >= ROWS_EACH * count
