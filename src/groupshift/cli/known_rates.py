"""Rates known from elsewhere, as commands are given them: a file of groups' rates, and the rate of all rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift.cli.errors import InputError
from groupshift.tables.column_facts import plan_column
from groupshift.tables.columns import ColumnPlan, convert, group_text
from groupshift.tables.sources import no_column, open_source

# A rate, or the rate and its standard error.
KnownShare = float | tuple[float, float]
# What people call the columns of known shares.
SHARE_NAMES = ("share", "rate", "positive", "probability")
ERROR_NAMES = ("std_error", "se", "standard_error", "stderr")


class KnownRates(NamedTuple):
    """Rates of groups and of the whole population, as `fit` and `update` take them."""

    known_shares: Mapping[str, KnownShare | Mapping[str, KnownShare]] | None = None
    known_overall: KnownShare | Mapping[str, KnownShare] | None = None


NOTHING_KNOWN = KnownRates()


def read_known_rates(path: str | None, overall: str | None, group: str | None) -> KnownRates:
    """What --known-shares and --known-overall say."""
    shares = None if path is None else _shares_in(path, group)
    return KnownRates(shares, None if overall is None else overall_rate(overall))


def overall_rate(text: str) -> KnownShare | Mapping[str, KnownShare]:
    """A rate as it is typed, alone or with its standard error after a comma; of several classes, each with its name.

    >>> overall_rate("0.12"), overall_rate("0.12,0.01")
    (0.12, (0.12, 0.01))
    >>> overall_rate("red=0.5,0.01,blue=0.2")
    {'red': (0.5, 0.01), 'blue': 0.2}
    """
    numbers: dict[str, list[float]] = {}
    name = ""
    try:
        for part in re.split(r"\s*[,;±]\s*", text.strip()):
            # A number without a name belongs to the class before it.
            name, number = (side.strip() for side in part.rsplit("=", 1)) if "=" in part else (name, part)
            numbers.setdefault(name, []).append(float(number))
    except ValueError:
        numbers = {"": []}
    is_named = "" not in numbers
    if not (is_named or len(numbers) == 1) or not all(map(_is_rate, numbers.values())):
        raise InputError(
            f"--known-overall {text!r} is no rate. Write a share between 0 and 1, such as 0.12, or a share and its "
            "standard error, such as 0.12,0.01; of more than two classes, each with its name: red=0.5,blue=0.2."
        )
    rates: dict[str, KnownShare] = {
        name: (found[0], found[1]) if len(found) == 2 else found[0] for name, found in numbers.items()
    }
    return rates if is_named else rates[""]


def _is_rate(numbers: Sequence[float]) -> bool:
    """Whether these are a share and, perhaps, its standard error."""
    return (
        1 <= len(numbers) <= 2 and 0 <= numbers[0] <= 1 and all(0 <= error < np.inf for error in numbers[1:])
    )


def _shares_in(path: str, group: str | None) -> Mapping[str, KnownShare | Mapping[str, KnownShare]]:
    """Rates by group from a table: group, share, and (if there) its standard error; an empty one means that it is exact.

    With more than two classes a column names the class.
    """
    source = open_source(path)
    name = group if group in source.columns else source.columns[0]
    share, error = (
        next((column for column in source.columns if column.lower() in names), None)
        for names in (SHARE_NAMES, ERROR_NAMES)
    )
    if share is None:
        raise InputError(
            f"{no_column(['share'], source)} A file of known shares has the columns {name!r}, 'share' and, if known, "
            "'std_error'."
        )
    of_class = next((column for column in source.columns if column.lower() == "class"), None)
    table = source.read([column for column in (name, of_class, share, error) if column is not None])
    groups = group_text(table[name]).to_pylist()
    classes = [None] * len(groups) if of_class is None else group_text(table[of_class]).to_pylist()
    lines = list(zip(groups, classes, strict=True))
    if twice := [line for line, count in Counter(lines).items() if count > 1]:
        named = twice[0][0] if of_class is None else f"{twice[0][0]}, {twice[0][1]}"
        raise InputError(f"{path} has several rates of {named!r}. Keep one line for each group.")
    shares = _numbers(table[share], share, path)
    if np.isnan(shares).any():
        raise InputError(
            f"{np.isnan(shares).sum()} lines of {path} have no {share!r}. Fill them in, or leave these groups out."
        )
    if np.any((shares > 1) | (shares < 0)):
        raise InputError(
            f"{path} has shares outside 0 and 1 (the largest is {shares.max():g}). Write 12 % as 0.12."
        )
    if error is None:
        return _by_group(lines, shares.tolist())
    errors = np.nan_to_num(_numbers(table[error], error, path), nan=0.0)
    if np.any(errors < 0):
        raise InputError(f"{path} has negative standard errors ({error!r}). Empty those that are not known.")
    return _by_group(lines, list(zip(shares.tolist(), errors.tolist(), strict=True)))


def _by_group(
    lines: list[tuple[str, str | None]], values: Sequence[KnownShare]
) -> Mapping[str, KnownShare | Mapping[str, KnownShare]]:
    """Rates of groups, or of their classes where lines name them."""
    found: dict[str, KnownShare | Mapping[str, KnownShare]] = {}
    for (group, name), value in zip(lines, values, strict=True):
        known = found.get(group, {})
        found[group] = (
            value if name is None else {**(known if isinstance(known, Mapping) else {}), name: value}
        )
    return found


def _numbers(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.float64]:
    """Numbers of a column; NaN in empty cells. Text that is no number is refused."""
    numbers, lost = convert(column, ColumnPlan(name, "number", decimal=plan_column(name, column).decimal))
    if lost:
        raise InputError(f"{lost} values of {name!r} in {path} are no numbers. Correct or empty them.")
    return np.asarray(numbers.to_numpy(), float)
