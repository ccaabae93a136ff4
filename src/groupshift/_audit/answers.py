"""Labels that came back, checked against the tickets of the rows that were asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groupshift._audit.plan import LABEL, ROW, TICKET
from groupshift._audit.race import inclusion
from groupshift._audit.tickets import Asked, Design, asked_from, finished, read_ticket
from groupshift._data.checks import check_labels
from groupshift._data.frames import Features, as_column, as_frame, is_missing_value, some
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray

# What people write where a row could not be labelled; anything else that is no class is an error.
REFUSED = ("", "refused", "missing", "unknown", "na", "n/a", "none", "nan", "?", "-")


@dataclass(frozen=True)
class Answers:
    """Labels of asked rows in the order of the draw, up to the last one that has a label.

    A row without a label that stands before one with a label was refused, or is missing; those that come after the last label
    were not asked yet.
    """

    design: Design
    asked: Asked  # those up to the last label
    y: IntArray  # 0, 1, or -1: missing
    threshold: float  # when the first row that was not asked finishes
    n_asked: int  # rows up to the last label, those included whose lines are gone

    @property
    def has_label(self) -> BoolArray:
        return self.y >= 0

    @property
    def n_labels(self) -> int:
        return int(self.has_label.sum())

    @property
    def n_missing(self) -> int:
        """Rows without a label: refused among those before the last label, or planned and not done."""
        return max(self.n_asked, self.design.budget) - self.n_labels

    @property
    def inclusion(self) -> FloatArray:
        return inclusion(self.asked.chance, self.threshold)


def read_answers(labels: Features, classes: ValueArray, unlabeled_value: object) -> Answers:
    """What a table of labels says; every way in which it can be wrong has its sentence."""
    columns = _columns(labels)
    label, ticket = columns[LABEL], columns[TICKET]
    names = set(classes.tolist())
    has_label = np.array([value in names or not _is_none(value, unlabeled_value) for value in label.tolist()])
    found = [None if is_missing_value(t) else read_ticket(str(t).strip()) for t in ticket.tolist()]
    _check_asked(found, has_label, columns.get(ROW))
    own = [i for i, ticket_found in enumerate(found) if ticket_found is not None]
    if not has_label[own].any():
        raise ValueError(
            f"None of {len(label)} rows has a label. Fill in the column {LABEL!r}, with {some(classes.tolist())}, and pass the "
            "table again."
        )
    design = _one_design([found[i][0] for i in own])  # type: ignore[index]  # None was left out
    asked = asked_from([found[i][1] for i in own])  # type: ignore[index]
    _check_places(asked, columns.get(ROW), own)
    y = np.full(len(own), -1, np.int64)
    told = np.flatnonzero(has_label[own])
    values = np.array(label[np.array(own)[told]].tolist())
    y[told] = check_labels(_like(values, classes), unlabeled_value, len(told), classes)[0]
    return _in_order(design, asked, y)


def _like(values: ValueArray, classes: ValueArray) -> ValueArray:
    """Labels as classes are written: tables with empty cells turn whole numbers into 1.0, or into text."""
    if classes.dtype.kind in "biuf" and values.dtype.kind in "US":
        try:
            return values.astype(float)
        except ValueError:
            return values
    return values


def _is_none(value: object, unlabeled_value: object) -> bool:
    if is_missing_value(value) or (isinstance(value, str) and value.strip().casefold() in REFUSED):
        return True
    return bool(value == unlabeled_value)


def _columns(labels: Features) -> dict[str, ValueArray]:
    table = labels if isinstance(labels, dict) else as_frame(labels)
    if table is None:
        raise TypeError(
            f"labels is a {type(labels).__name__}. Pass the table that plan.labeled(...) makes, or the file of rows to label, "
            "read as a frame."
        )
    names = list(table) if isinstance(table, dict) else table.columns
    if missing := [name for name in (LABEL, TICKET) if name not in names]:
        raise ValueError(
            f"The table of labels has no column {missing[0]!r}; it has {some(names)}. Keep the columns of the file that `audit` "
            "wrote."
        )
    kept = [name for name in (ROW, LABEL, TICKET) if name in names]
    return {name: as_column(table[name]) for name in kept}


def _check_asked(found: Sequence[object], has_label: BoolArray, row: ValueArray | None) -> None:
    strange = [i for i, ticket in enumerate(found) if ticket is None and has_label[i]]
    if strange:
        where = f"line {strange[0] + 1}" if row is None else f"row {row[strange[0]]}"
        raise ValueError(
            f"{len(strange)} labels are of rows that were not asked for (the first is {where}): they have no ticket, or one that "
            "was altered. Rows that one chooses oneself say nothing certain of the others: take these lines out."
        )
    if all(ticket is None for ticket in found):
        raise ValueError(
            "No line has a ticket of an audit. Pass the file that `audit` wrote, with its labels filled in."
        )


def _one_design(packed: list[bytes]) -> Design:
    if len(set(packed)) > 1:
        raise ValueError(
            f"The labels belong to {len(set(packed))} different audits. Pass those of one audit at a time."
        )
    return Design.unpacked(packed[0])


def _check_places(asked: Asked, row: ValueArray | None, own: list[int]) -> None:
    """Whether the row number beside each ticket is the ticket's: in a spreadsheet, a column can be sorted alone."""
    if row is None:
        return
    for written, of_ticket in zip(row[np.array(own)].tolist(), asked.row.tolist(), strict=True):
        try:
            is_same = is_missing_value(written) or int(float(str(written))) == of_ticket
        except ValueError:
            is_same = False
        if not is_same:
            raise ValueError(
                f"The line of row {written} has the ticket of row {of_ticket}: cells were moved apart. Sort whole lines, or fill "
                "the labels into the file as it was written."
            )


def _in_order(design: Design, asked: Asked, y: IntArray) -> Answers:
    """Each row once, in the order of the draw, up to the last label."""
    first: dict[int, int] = {}
    for i, row in enumerate(asked.row.tolist()):
        before = first.setdefault(row, i)
        if y[before] >= 0 and y[i] >= 0 and y[before] != y[i]:
            raise ValueError(
                f"Row {row} is labelled twice, with different answers. Decide which one is right, and take the other line out."
            )
        y[before] = max(y[before], y[i])
    once = np.array(sorted(first.values(), key=lambda i: asked.place[i]))
    asked, y = asked.take(once), y[once]
    last = int(np.flatnonzero(y >= 0)[-1])
    place, times = asked.place, finished(asked, design)
    if last + 1 < len(times) and place[last + 1] == place[last] + 1:
        threshold = float(times[last + 1])
    else:
        # Its line is gone, or it is the first that no table has: the mean time until the next row finishes stands in for it.
        following = float(times[last] + 1 / max(1 - asked.chance[: last + 1].sum(), 1e-12))
        threshold = design.threshold if last + 1 == len(times) and _is_whole(design, asked) else following
    return Answers(design, asked.take(np.arange(last + 1)), y[: last + 1], threshold, int(place[last]) + 1)


def _is_whole(design: Design, asked: Asked) -> bool:
    """Whether the table has every line that it was written with."""
    return len(asked) == design.n_listed
