"""What may be wrong with groups: none named, one row each, two spellings of one, or features that give them away."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupshift._data.keys import uniform_keys
from groupshift._diagnosis.features import MAX_ROWS, identifying_features
from groupshift._diagnosis.sentences import identified
from groupshift._diagnosis.wording import plural
from groupshift._math.arrays import FloatArray, IntArray
from groupshift.cli.prepared import EXAMPLE, GROUP, FileSurvey, Prepared, as_floats, unlabeled
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
    group: str | None, found: Distinct, plans: Iterable[ColumnPlan], columns: Mapping[str, ColumnSurvey]
) -> list[str]:
    """Sentences about groups that were not named though a column looks like one, or that are rows, such as people."""
    likely = likely_group(plans, columns)
    if group is None:
        if likely is None:
            return []
        name, count = likely
        return [
            f"No --group is named, so all rows count as one group. {name!r} ({count:,} values) looks like the group: "
            f"if it is, add --group {shlex.quote(name)}."
        ]
    if found.share <= MOSTLY_ONE_ROW:
        return []
    about = "about " if found.level else ""
    coarser = f"--group {shlex.quote(likely[0])}" if likely else "the place or the period of each row"
    return [
        f"Most groups are single rows: {group!r} has {about}{found.count:,} groups, {1 / found.share:.1f} rows each. One row "
        f"teaches nothing about its group. Name a coarser column, such as {coarser}; if {group!r} marks copies of one example, "
        "name it with --example-id."
    ]


def told_first(alarms: Sequence[str], spelled: str) -> list[str]:
    """Alarms with the one about spellings in front: it says why files have no group in common, if they have none."""
    return [spelled, *(alarm for alarm in alarms if not alarm.startswith(NONE_IN_COMMON))]


def none_in_common(group: str | None, surveys: Sequence[FileSurvey]) -> list[str]:
    """A sentence where labeled and unlabeled rows come from two files that have no group in common."""
    if group is None or len(surveys) < 2:
        return []
    labeled, unlabeled = (survey.groups for survey in surveys)
    if labeled.level or unlabeled.level or np.isin(labeled.keys, unlabeled.keys).any():
        return []
    return [
        f"{NONE_IN_COMMON} {group!r} is in both files, so no group has labeled and unlabeled rows. If you did not expect this, "
        "check how the two files write it."
    ]


def likely_group(plans: Iterable[ColumnPlan], columns: Mapping[str, ColumnSurvey]) -> tuple[str, int] | None:
    """The column that looks most like groups, and the number of its values."""
    found = []
    for plan in plans:
        count, rows = columns[plan.name].distinct.count, columns[plan.name].values
        is_usual = not USUAL_NAMES.isdisjoint(re.split(r"[\W_]+", plan.name.lower()))
        is_kind = plan.kind == "category" or (is_usual and plan.kind == "number")
        if is_kind and count >= (FEWEST_VALUES if is_usual else MANY_VALUES) and rows >= ROWS_EACH * count:
            found.append((is_usual, count, plan.name))
    if not found:
        return None
    _, count, name = max(found)
    return name, count


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
    count = f"{plural(len(several), 'group')} {'is' if len(several) == 1 else 'are'}"
    return f"{count} spelled in several ways, which count as different groups: {shown}{more}. Spell them alike in all files."


def about_identifying(
    labeled: pa.Table, population: Prepared | None, plans: Sequence[ColumnPlan]
) -> list[str]:
    """A sentence about features that identify the group, by rows of both samples."""
    if GROUP not in labeled.column_names or not plans:
        return []
    names = [plan.name for plan in plans]
    wanted = [*names, GROUP, *([EXAMPLE] if EXAMPLE in labeled.column_names else [])]
    # The first batch will do: what tells groups apart does so in any rows.
    tables = [labeled, *([unlabeled(next(iter(population.batches())))] if population is not None else [])]
    few = [
        table
        if table.num_rows <= MAX_ROWS
        else table.take(np.argsort(uniform_keys(np.arange(table.num_rows, dtype=np.uint64), 0))[:MAX_ROWS])
        for table in (table.select(wanted) for table in tables)
    ]
    table = pa.concat_tables(few, promote_options="permissive").combine_chunks()
    key = _codes(table[EXAMPLE]) if EXAMPLE in wanted else np.arange(table.num_rows)
    found = identifying_features(
        np.column_stack([_values(table[plan.name], plan.kind) for plan in plans]),
        _codes(table[GROUP]),
        key.astype(np.uint64),
        names=names,
        is_category=np.array([plan.kind == "category" for plan in plans]),
    )
    sentence = identified(found)
    return [] if sentence is None else [sentence]


def _codes(column: pa.ChunkedArray) -> IntArray:
    """A number for each different text; missing ones are alike."""
    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    codes: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _values(column: pa.ChunkedArray, kind: str) -> FloatArray:
    if kind == "category":
        return _codes(column).astype(float)
    return np.asarray(as_floats(column, kind).to_numpy(), float)
