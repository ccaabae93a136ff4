"""The target column: which value is the positive one, and which rows have none."""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from groupshift.cli.errors import InputError
from groupshift.cli.screen import listed
from groupshift.tables.columns import as_text
from groupshift.tables.csv_cells import MISSING

# Positive second, as sorting would have it or not.
# fmt: off
USUAL_PAIRS = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos"), ("negative", "positive"),
    ("absent", "present"), ("alive", "dead"), ("control", "case"),
)
# fmt: on
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
# More different numbers than this are no classes but a measurement.
MOST_CLASSES = 10
# More different words than this are names or answers in free text.
MOST_NAMES = 100
# What people write where they have no label, in small letters and without marks ("N/A?" is "n a").
# fmt: off
NO_LABEL = frozenset((
    "unknown", "not known", "unk", "na", "n a", "nan", "none", "null", "nil", "missing", "blank", "empty",
    "not available", "not applicable", "not stated", "not recorded", "not determined", "undetermined",
    "unspecified", "unlabeled", "no label", "no answer", "don t know", "dont know", "tbd",
))
# fmt: on
HOW_TO_LEAVE_OUT = "leave its cells empty or write NA, and their rows count as unlabeled"


@dataclass
class Target:
    """What the values of the target column stand for; all others are no labels."""

    positive: str
    negatives: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    positives: tuple[str, ...] = ()  # values that `positive` names; itself where there are none
    several: tuple[str, ...] = ()  # classes, where there are more than two
    kept: frozenset[str] = frozenset()  # values that are classes though they look like a missing label

    @property
    def negative(self) -> str:
        return self.negatives[0] if len(self.negatives) == 1 else f"not {self.positive}"

    @property
    def classes(self) -> NDArray[np.generic]:
        """Both classes by their names, whole numbers as such; the positive one second. With more than two, those.

        >>> Target("yes", ("no",)).classes.tolist(), Target("1", ("0",)).classes.tolist()
        (['no', 'yes'], [0, 1])
        """
        if self.several:
            return np.array(self.several)
        names = [self.negative, self.positive]
        whole = all(re.fullmatch(r"-?[1-9]\d{0,8}|0", name) for name in names)
        return np.array([int(name) for name in names] if whole else names)

    def labels(self, column: pa.ChunkedArray) -> NDArray[np.generic]:
        """Labels as 1, 0 and -1 (unlabeled), or as names of classes: what is missing, or stands for no class, is no label.

        >>> import pyarrow as pa
        >>> Target("yes", ("no",)).labels(pa.chunked_array([["yes", "no", None]])).tolist()
        [1, 0, -1]
        """
        text = as_text(column, missing=tuple(value for value in MISSING if value not in self.kept))
        if self.several:
            is_class = pc.is_in(text, value_set=pa.array(self.several))
            return np.asarray(pc.if_else(is_class, text, None).to_pylist(), object)
        positives = self.positives or (self.positive,)
        code = pc.index_in(text, value_set=pa.array([*positives, *self.negatives]))
        number = np.asarray(pc.fill_null(code, -1))
        return np.select([number < 0, number < len(positives)], [-1, 1], 0)


def read_target(
    counts: Mapping[str, int], name: str, positive: str | None, path: str, classes: Sequence[str] = ()
) -> Target:
    """What the values of a column stand for, from how often each occurs; missing ones are unlabeled rows.

    `classes` are classes though they look like a missing label; so is the value that is positive.

    >>> read_target({"no": 5, "yes": 3}, "ill", None, "a.csv").positive
    'yes'
    >>> read_target({"EU": 5, "NA": 3}, "market", None, "a.csv", ["NA"]).positive
    'NA'
    """
    counts = dict(counts)
    if absent := [value for value in classes if value not in counts]:
        raise InputError(f"--class {absent[0]!r} is no value of {name!r}, whose values are {_shown(counts)}.")
    kept = frozenset(classes) | ({positive, *positive.split(",")} & set(counts) if positive else set())
    notes = _without_label(counts, name, kept)
    if set(counts) == {"-1", "0", "1"} and "-1" not in kept:
        notes.append(f"-1 in {name!r} marks unlabeled rows.")
        counts.pop("-1")
    if not counts:
        raise InputError(f"No row of {path} has a {name!r}. Name the column that holds the known labels.")
    if positive is None and len(counts) > 2:
        return _several(counts, name, notes, kept)
    if positive is None:
        positive = _positive(counts, name, notes)
    positives = (positive,) if positive in counts else _values_of(positive, counts, name, notes)
    negatives = tuple(value for value in counts if value not in set(positives))
    if not negatives:
        raise InputError(
            f"All labeled rows of {path} have the same {name!r}, {positive!r}; two classes are needed. Add "
            "rows of the other class."
        )
    alarms = [
        f"{value!r} in {name!r} counts as a label, a {'positive' if value in positives else 'negative'} one, in "
        f"{count:,} rows. If it means that the label is not known, {HOW_TO_LEAVE_OUT}; if it is a class, "
        f"--class {shlex.quote(value)} keeps it."
        for value, count in counts.items()
        if means_no_label(value) and value not in kept
    ]
    return Target(positive, negatives, notes, alarms, positives, kept=kept)


def _without_label(counts: dict[str, int], name: str, kept: frozenset[str]) -> list[str]:
    """Leave out what stands for a missing label, and say so where it could be a name."""
    found = {value: counts.pop(value) for value in MISSING if value in counts and value not in kept}
    return [
        f"{value!r} in {name!r} means that the label is not known: {count:,} rows count as unlabeled. If it is a class, "
        f"--class {value} keeps it."
        for value, count in found.items()
        if value.isalpha() and value.casefold() != "nan"
    ]


def _values_of(positive: str, counts: dict[str, int], name: str, notes: list[str]) -> tuple[str, ...]:
    """The values that a limit, a range or a list names; of numbers, what is none loses its label."""
    is_meant = condition(positive)
    if is_meant is None:
        listed_values = [part.strip() for part in positive.split(",")]
        if len(listed_values) > 1 and set(listed_values) <= set(counts):
            return tuple(listed_values)
        raise InputError(
            f"--positive {positive!r} is no value of {name!r}, whose values are {_shown(counts)}."
        )
    words = [value for value in counts if not _is_number(value)]
    if other := [value for value in words if not means_no_label(value)]:
        raise InputError(
            f"--positive {positive!r} is about numbers, and {name!r} holds {other[0]!r}. Empty such cells, or name values."
        )
    if words:
        notes.append(
            f"{listed(words)} in {name!r} is no number: its {sum(map(counts.pop, words)):,} rows have no label."
        )
    found = tuple(value for value in counts if is_meant(float(value)))
    if not found:
        raise InputError(
            f"--positive {positive!r} holds for no value of {name!r}, whose values are {_shown(counts)}."
        )
    return found


def condition(text: str) -> Callable[[float], bool] | None:
    """What a limit (">=8") or a range ("8..10", ends included) asks of a number; None of other texts.

    >>> [condition(text)(8) for text in (">=8", "> 8", "<8.5", "5..8")], condition("yes")
    ([True, False, True, True], None)
    """
    number = r"\s*(-?\d+(?:\.\d+)?)\s*"
    if found := re.fullmatch(rf"\s*(>=|<=|>|<){number}", text):
        compare, limit = COMPARISONS[found[1]], float(found[2])
        return lambda value: compare(value, limit)
    if found := re.fullmatch(rf"{number}\.\.{number}", text):
        low, high = float(found[1]), float(found[2])
        return lambda value: low <= value <= high
    return None


def means_no_label(value: str) -> bool:
    """Whether a value looks like a word for a label that is not known.

    >>> [means_no_label(value) for value in ("Not known", "n/a?", "??", "no", "-1", "+")]
    [True, True, True, False, False, False]
    """
    words = re.sub(r"[\W_]+", " ", value).strip().casefold()
    return words in NO_LABEL or re.fullmatch(r"[?.\-_/ ]+", value) is not None


def _several(counts: dict[str, int], name: str, notes: list[str], kept: frozenset[str]) -> Target:
    """More than two values: each is a class, unless they look like something else."""
    are_numbers = all(map(_is_number, counts))
    values = _sorted(counts)
    limit = values[3 * len(values) // 4]
    if len(counts) > MOST_CLASSES and are_numbers:
        raise InputError(
            f"The target {name!r} looks like a number: it has {len(counts):,} different values, from {values[0]} to "
            f'{values[-1]}. Say with --positive ">={limit}" which values are positive; or, if each value is a class, '
            f"write it as text (class {values[0]}, …); or name another --target."
        )
    unknown = [value for value in counts if means_no_label(value) and value not in kept]
    if unknown:
        raise InputError(
            f"The target {name!r} has {len(counts):,} values ({_shown(counts)}). {listed(unknown)} probably means that the label "
            f"is not known: {HOW_TO_LEAVE_OUT}. If it is a class, keep it with --class {','.join(map(shlex.quote, unknown))}. Or "
            "compare one value with all others by --positive VALUE, or name another --target."
        )
    if len(counts) > MOST_NAMES:
        raise InputError(
            f"The target {name!r} has {len(counts):,} different values ({_shown(counts)}), more than the {MOST_NAMES} classes "
            "that a model is made for. Join them into fewer, or name another --target."
        )
    how = f'--positive ">={limit}" or --positive {limit}' if are_numbers else "--positive VALUE"
    notes.append(
        f"{name!r} has {len(counts)} values, each of which is a class ({_shown(counts, 3)}). Use {how} for one against all "
        "others; leave cells empty where the label is not known."
    )
    return Target(values[-1], tuple(values[:-1]), notes, several=tuple(sorted(values)), kept=kept)


def _positive(counts: dict[str, int], name: str, notes: list[str]) -> str:
    low, *rest = _sorted(counts)
    if not rest:
        return low
    for pair in USUAL_PAIRS:
        if {low.lower(), rest[0].lower()} == set(pair):
            return next(value for value in counts if value.lower() == pair[1])
    if not all(_is_number(value) for value in counts):
        notes.append(
            f"{rest[0]!r} counts as positive in {name!r}. For the other way round: --positive {low!r}."
        )
    return rest[0]


def _sorted(values: Iterable[str]) -> list[str]:
    """Numbers by their size, then words."""
    return sorted(values, key=lambda v: (0, float(v), "") if _is_number(v) else (1, 0.0, v))


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _shown(counts: dict[str, int], most: int = 5) -> str:
    common = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{value!r} {count:,} times" for value, count in common[:most])
    return shown + (" …" if len(counts) > most else "")
