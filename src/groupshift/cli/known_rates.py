"""Rates known from elsewhere, as commands are given them: a file of groups' rates, and the rate of all rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift._io.column_facts import plan_column
from groupshift._io.columns import ColumnPlan, convert, group_text
from groupshift._io.places import open_source
from groupshift._io.table_files import no_column
from groupshift.cli.errors import InputError

# A rate, or the rate and its standard error.
KnownShare = float | tuple[float, float]
# What people call the columns of known shares.
SHARE_NAMES = ("share", "rate", "positive", "probability")
ERROR_NAMES = ("std_error", "se", "standard_error", "stderr")


@dataclass(frozen=True)
class KnownRates:
    """Rates of groups and of the whole population, as `fit` and `update` take them."""

    known_shares: Mapping[str, KnownShare] | None = None
    known_overall: KnownShare | None = None


NOTHING_KNOWN = KnownRates()


def read_known_rates(path: str | None, overall: str | None, group: str | None) -> KnownRates:
    """What --known-shares and --known-overall say."""
    shares = None if path is None else _shares_in(path, group)
    return KnownRates(shares, None if overall is None else overall_rate(overall))


def overall_rate(text: str) -> KnownShare:
    """A rate as it is typed, alone or with its standard error after a comma.

    >>> overall_rate("0.12"), overall_rate("0.12,0.01")
    (0.12, (0.12, 0.01))
    """
    try:
        share, *error = map(float, re.split(r"\s*[,;±]\s*", text.strip()))
        is_rate = 0 <= share <= 1 and len(error) <= 1 and all(0 <= e < np.inf for e in error)
    except ValueError:
        is_rate = False
    if not is_rate:
        raise InputError(
            f"--known-overall {text!r} is no rate. Write a share between 0 and 1, such as 0.12, or a share and its "
            "standard error, such as 0.12,0.01."
        )
    return (share, error[0]) if error else share


def _shares_in(path: str, group: str | None) -> Mapping[str, KnownShare]:
    """Rates by group from a table: group, share, and (if there) its standard error; an empty one means that it is exact."""
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
    table = source.read([column for column in (name, share, error) if column is not None])
    groups = group_text(table[name]).to_pylist()
    if twice := [g for g in dict.fromkeys(groups) if groups.count(g) > 1]:
        raise InputError(f"{path} has several rates of {twice[0]!r}. Keep one line for each group.")
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
        return dict(zip(groups, shares.tolist(), strict=True))
    errors = np.nan_to_num(_numbers(table[error], error, path), nan=0.0)
    if np.any(errors < 0):
        raise InputError(f"{path} has negative standard errors ({error!r}). Empty those that are not known.")
    return dict(zip(groups, zip(shares.tolist(), errors.tolist(), strict=True), strict=True))


def _numbers(column: pa.ChunkedArray, name: str, path: str) -> NDArray[np.float64]:
    """Numbers of a column; NaN in empty cells. Text that is no number is refused."""
    numbers, lost = convert(column, ColumnPlan(name, "number", decimal=plan_column(name, column).decimal))
    if lost:
        raise InputError(f"{lost} values of {name!r} in {path} are no numbers. Correct or empty them.")
    return np.asarray(numbers.to_numpy(), float)
