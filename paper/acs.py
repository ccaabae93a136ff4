"""Census tasks of the paper (American Community Survey): Income, Employment and income-poverty ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from groupshift.datasets.containers import Seed, assemble
from groupshift.datasets.examples import encode_ids, some_examples
from groupshift.datasets.sample import LabeledTable
from paper.acs_files import FIPS, Columns, Source, download_persons, open_source

Column = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class Task:
    """Features as folktables lists them, the columns that filter and target read, and both as functions."""

    features: tuple[str, ...]
    needs: tuple[str, ...]
    keep: Callable[[Column], np.ndarray]
    positive: Callable[[Column], np.ndarray]


def _adults_with_income(column: Column) -> np.ndarray:
    return (column("AGEP") > 16) & (column("PINCP") > 100) & (column("WKHP") > 0) & (column("PWGTP") >= 1)


TASKS = {
    "income": Task(
        features=("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P"),
        needs=("AGEP", "PINCP", "WKHP", "PWGTP"),
        keep=_adults_with_income,
        positive=lambda column: column("PINCP") > 50_000,
    ),
    "employment": Task(
        features=(
            *("AGEP", "SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY"),
            *("DEAR", "DEYE", "DREM", "SEX", "RAC1P"),
        ),
        needs=("ESR",),
        keep=lambda column: np.ones(len(column("ESR")), dtype=bool),
        positive=lambda column: column("ESR") == 1,
    ),
    "ipr": Task(
        features=(
            *("AGEP", "SCHL", "MAR", "SEX", "DIS", "ESP", "MIG", "CIT", "MIL", "ANC", "NATIVITY"),
            *("RELP", "DEAR", "DEYE", "DREM", "RAC1P", "GCL", "ESR", "OCCP", "WKHP"),
        ),
        needs=("POVPIP",),
        keep=lambda column: ~np.isnan(column("POVPIP")),
        positive=lambda column: column("POVPIP") < 250,
    ),
}

# Amounts and ordered scales; every other feature is a code whose order means nothing. SCHL rises with
# schooling.
AMOUNTS = ("AGEP", "SCHL", "WKHP", "SPORDER")

# The same question under another name. Five-year files that straddle a change of codes split a column by
# vintage.
ALIASES = {
    "RELP": ("RELSHIPP",),
    "ST": ("STATE",),
    "OCCP": ("OCCP12", "OCCP10"),
    "POBP": ("POBP12", "POBP05"),
}

# What stands in for a feature that a file lacks. ESP, ANC and GCL have no stand-in.
STAND_INS = {"POBP": ("NATIVITY",), "RELP": ("HHT", "SPORDER"), "MIG": ("MIGSP_KNOWN",)}
# Where somebody lived a year ago is recorded for movers only: that it is known is the news.
DERIVED = {"MIGSP_KNOWN": "MIGSP"}
# For Income HHT alone, as the notes on the 2024 file say.
INCOME_STAND_INS = {**STAND_INS, "RELP": ("HHT",)}

# RELSHIPP (from 2019) in the codes of RELP (to 2018): spouses and partners of either sex are no longer told
# apart.
RELSHIPP_TO_RELP = {
    **{20: 0, 21: 1, 22: 13, 23: 1, 24: 13, 25: 2, 26: 3, 27: 4, 28: 5, 29: 6, 30: 7, 31: 8, 32: 9, 33: 10},
    **{34: 12, 35: 14, 36: 15, 37: 16, 38: 17},
}


def acs_task(
    name: str,
    source: Source | None = None,
    *,
    max_rows: int | None = None,
    as_frame: bool = False,
    stand_ins: bool = True,
    keep_unknown: bool = False,
    year: int = 2018,
    horizon: str = "5-Year",
    states: Sequence[str] | None = None,
    data_dir: str | Path = "data",
    random_state: Seed = None,
) -> LabeledTable:
    """Read one of the paper's Census tasks; states are the groups and households the examples.

    Parameters
    ----------
    name : {"income", "employment", "ipr"}
        Income above $50,000 of adults who work; employment; income below 250 % of the poverty line.
    source : path, list of paths, frame, or None
        Person records: a Parquet file, the Census's CSV (zipped or not), a folder of them, several files,
        or a frame. None downloads what `year`, `horizon`, `states` and `data_dir` describe, with
        folktables, unless it is there.
    max_rows : int, optional
        Keep a random choice of whole households with at most this many rows of the task.
    as_frame : bool
        A pandas frame with categories for codes, instead of a float32 matrix. Not applicable is NaN in both.
    stand_ins : bool
        Where the source lacks a feature, use the columns of `STAND_INS` that it has.
    keep_unknown : bool
        Only for "ipr": keep rows whose poverty ratio is not known as negatives, as folktables and the paper
        do.

    Returns
    -------
    LabeledTable
        `feature_names` says what was used, `missing` what folktables uses and the source lacks, `stand_ins`
        what took its place. `sample_weight` is the Census person weight PWGTP where there is one. Income is
        not multiplied by ADJINC.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"ST": [1, 1, 2], "SERIALNO": ["a", "a", "b"], "AGEP": [40, 38, 70],
    ...                        "SEX": [1, 2, 2], "ESR": [1, 6, 1]})
    >>> task = acs_task("employment", people)
    >>> task.groups, task.y, task.example_ids
    (array(['AL', 'AL', 'AK'], dtype='<U2'), array([1, 0, 1]), array([0, 0, 1]))
    >>> task.feature_names
    ('AGEP', 'SEX')
    """
    key = name.lower()
    if key not in TASKS:
        raise ValueError(f"There is no ACS task {name!r}: choose one of {', '.join(TASKS)}.")
    task = TASKS[key]
    rng = np.random.default_rng(random_state)
    if source is None:
        source = download_persons(year=year, horizon=horizon, states=states, data_dir=Path(data_dir))
    columns = open_source(source, wanted=_wanted(task))
    _check_columns(columns, task, key)
    used, missing, replaced = _choose_features(task, columns, stand_ins=stand_ins, key=key)

    keep_all = key == "ipr" and keep_unknown
    kept = np.arange(len(columns)) if keep_all else np.flatnonzero(task.keep(lambda c: _read(columns, c)))
    if not len(kept):
        raise ValueError(
            f"None of {len(columns)} rows belongs to the task {key!r}: see the filter in {__name__}.TASKS."
        )
    household = _household(columns)[kept]
    chosen = some_examples(household, max_rows=max_rows, rng=rng)
    rows = kept[chosen]
    categorical = tuple(f for f in used if f not in AMOUNTS)
    features = {f: _read(columns, f)[rows].astype(np.float32) for f in used}
    return LabeledTable(
        X=assemble(features, categorical=categorical, as_frame=as_frame, extra="statistics"),
        y=task.positive(lambda c: _read(columns, c))[rows].astype(np.int64),
        groups=_state_letters(_read(columns, "ST")[rows]),
        example_ids=household[chosen],
        sample_weight=_read(columns, "PWGTP")[rows] if _has(columns, "PWGTP") else None,
        feature_names=tuple(used),
        categorical=categorical,
        missing=missing,
        stand_ins=replaced,
        name=f"ACS {key}",
    )


def _wanted(task: Task) -> tuple[str, ...]:
    names = {*task.features, *task.needs, "ST", "PWGTP", "HHID", "SERIALNO"}
    for name in tuple(names):
        names |= {*ALIASES.get(name, ()), *STAND_INS.get(name, ())}
    return tuple(sorted({DERIVED.get(name, name) for name in names}))


def _has(columns: Columns, name: str) -> bool:
    return any(n in columns.names for n in (name, *ALIASES.get(name, ())))


def _read(columns: Columns, name: str) -> np.ndarray:
    """A column as floats, under whichever name the file has it."""
    if name in DERIVED:
        return np.where(np.isnan(columns.numbers(DERIVED[name])), 0.0, 1.0)
    values = None
    for alias in (name, *ALIASES.get(name, ())):
        if alias in columns.names:
            found = columns.numbers(alias)
            found = _recode(found, RELSHIPP_TO_RELP) if alias == "RELSHIPP" else found
            values = found if values is None else np.where(np.isnan(values), found, values)
    assert values is not None, name
    return values


def _recode(values: np.ndarray, table: dict[int, int]) -> np.ndarray:
    codes, index = np.unique(values, return_inverse=True)
    return np.array([table.get(code, np.nan) for code in codes.tolist()])[index]


def _choose_features(
    task: Task, columns: Columns, *, stand_ins: bool, key: str
) -> tuple[list[str], tuple[str, ...], dict[str, tuple[str, ...]]]:
    used = [f for f in task.features if _has(columns, f)]
    missing = tuple(f for f in task.features if f not in used)
    table = INCOME_STAND_INS if key == "income" else STAND_INS
    replaced = {}
    for feature in missing if stand_ins else ():
        new = tuple(c for c in table.get(feature, ()) if DERIVED.get(c, c) in columns.names and c not in used)
        if new:
            replaced[feature] = new
            used += new
    return used, missing, replaced


def _household(columns: Columns) -> np.ndarray:
    name = "HHID" if "HHID" in columns.names else "SERIALNO"
    return encode_ids(columns.raw(name), n_rows=len(columns))


def _state_letters(fips: np.ndarray) -> np.ndarray:
    codes, index = np.unique(fips.astype(int), return_inverse=True)
    letters = {code: state for state, code in FIPS.items()}
    return np.array([letters.get(code, str(code)) for code in codes.tolist()])[index]


def _check_columns(columns: Columns, task: Task, key: str) -> None:
    absent = [c for c in (*task.needs, "ST") if not _has(columns, c)]
    if not {"HHID", "SERIALNO"} & set(columns.names):
        absent.append("SERIALNO (or HHID)")
    if absent:
        raise ValueError(
            f"The source lacks {', '.join(absent)}, which the task {key!r} needs. Expected ACS person "
            f"records (psam_p*.csv or ss??p*.csv), not housing records, with their Census column names."
        )
