"""Census tasks of the article (American Community Survey): Income, Employment and income-poverty ratio."""

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from groupshift.datasets import LabeledTable
from groupshift.datasets.containers import encode_ids

Column = Callable[[str], np.ndarray]
# Person records as pyarrow reads them, which has no types.
Records: TypeAlias = Any

# Census text for "not applicable"; some early files pad it.
NOT_APPLICABLE = ["", " ", "N.A.", "N.A.//", "NA", "bb", "bbb", "bbbb"]
TEXT = ("SERIALNO",)
PERSON_FILES = ("psam_p*.csv", "ss??p*.csv", "csv_p*.zip")
# State codes of the Census, by postal letters.
FIPS = {
    **{"AL": 1, "AK": 2, "AZ": 4, "AR": 5, "CA": 6, "CO": 8, "CT": 9, "DE": 10, "DC": 11, "FL": 12, "GA": 13},
    **{"HI": 15, "ID": 16, "IL": 17, "IN": 18, "IA": 19, "KS": 20, "KY": 21, "LA": 22, "ME": 23, "MD": 24},
    **{"MA": 25, "MI": 26, "MN": 27, "MS": 28, "MO": 29, "MT": 30, "NE": 31, "NV": 32, "NH": 33, "NJ": 34},
    **{"NM": 35, "NY": 36, "NC": 37, "ND": 38, "OH": 39, "OK": 40, "OR": 41, "PA": 42, "RI": 44, "SC": 45},
    **{"SD": 46, "TN": 47, "TX": 48, "UT": 49, "VT": 50, "VA": 51, "WA": 53, "WV": 54, "WI": 55, "WY": 56},
    "PR": 72,
}
# folktables downloads the states and Puerto Rico; it does not know the District of Columbia.
DOWNLOADABLE = tuple(state for state in FIPS if state != "DC")


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


def acs_task(name: str, source: str | Path, *, keep_unknown: bool = False) -> LabeledTable:
    """Read one of the article's Census tasks; states are the groups and households the examples.

    Parameters
    ----------
    name : {"income", "employment", "ipr"}
        Income above $50,000 of adults who work; employment; income below 250 % of the poverty line.
    source : path
        Person records: a Parquet file, the Census's CSV (zipped or not), or a folder of them.
    keep_unknown : bool
        Only for "ipr": keep rows whose poverty ratio is not known as negatives, as folktables and the article do.

    Returns
    -------
    LabeledTable
        A float32 matrix, NaN for not applicable. `feature_names` says what was used, `missing` what folktables uses and the
        source lacks, `stand_ins` what took its place. Income is not multiplied by ADJINC.
    """
    if name not in TASKS:
        raise ValueError(f"There is no ACS task {name!r}: choose one of {', '.join(TASKS)}.")
    task = TASKS[name]
    records = _read_records(Path(source), _wanted(task))
    _check_columns(records, task, name)
    used, missing, replaced = _choose_features(task, records, name)
    keep_all = name == "ipr" and keep_unknown
    rows = np.arange(len(records)) if keep_all else np.flatnonzero(task.keep(lambda c: _column(records, c)))
    if not len(rows):
        raise ValueError(
            f"None of {len(records)} rows belongs to the task {name!r}: see TASKS in {__name__}."
        )
    household = "HHID" if "HHID" in records.column_names else "SERIALNO"
    return LabeledTable(
        X=np.column_stack([_column(records, feature)[rows].astype(np.float32) for feature in used]),
        y=task.positive(lambda c: _column(records, c))[rows].astype(np.int64),
        groups=_state_letters(_column(records, "ST")[rows]),
        example_ids=encode_ids(records[household].to_numpy(), n_rows=len(records))[rows],
        feature_names=tuple(used),
        categorical=tuple(feature for feature in used if feature not in AMOUNTS),
        missing=missing,
        stand_ins=replaced,
        name=f"ACS {name}",
    )


def _wanted(task: Task) -> set[str]:
    names = {*task.features, *task.needs, "ST", "PWGTP", "HHID", "SERIALNO"}
    for name in tuple(names):
        names |= {*ALIASES.get(name, ()), *STAND_INS.get(name, ())}
    return {DERIVED.get(name, name) for name in names}


def _has(records: Records, name: str) -> bool:
    return any(n in records.column_names for n in (name, *ALIASES.get(name, ())))


def _column(records: Records, name: str) -> np.ndarray:
    """A column as floats, under whichever name the file has it; NaN for missing, and for text that is no number."""
    if name in DERIVED:
        return np.where(np.isnan(_column(records, DERIVED[name])), 0.0, 1.0)
    values = np.full(len(records), np.nan)
    for alias in (name, *ALIASES.get(name, ())):
        if alias in records.column_names:
            raw = records[alias].to_numpy()
            found = raw.astype(float) if raw.dtype.kind in "fiub" else np.array([_number(v) for v in raw])
            found = _recode(found, RELSHIPP_TO_RELP) if alias == "RELSHIPP" else found
            values = np.where(np.isnan(values), found, values)
    return values


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _recode(values: np.ndarray, table: dict[int, int]) -> np.ndarray:
    codes, index = np.unique(values, return_inverse=True)
    return np.array([table.get(code, np.nan) for code in codes.tolist()])[index]


def _choose_features(
    task: Task, records: Records, name: str
) -> tuple[list[str], tuple[str, ...], dict[str, tuple[str, ...]]]:
    used = [f for f in task.features if _has(records, f)]
    missing = tuple(f for f in task.features if f not in used)
    table = INCOME_STAND_INS if name == "income" else STAND_INS
    there, replaced = set(records.column_names), {}
    for feature in missing:
        new = tuple(c for c in table.get(feature, ()) if DERIVED.get(c, c) in there and c not in used)
        if new:
            replaced[feature] = new
            used += new
    return used, missing, replaced


def _state_letters(fips: np.ndarray) -> np.ndarray:
    codes, index = np.unique(fips.astype(int), return_inverse=True)
    letters = {code: state for state, code in FIPS.items()}
    return np.array([letters.get(code, str(code)) for code in codes.tolist()])[index]


def _check_columns(records: Records, task: Task, name: str) -> None:
    absent = [c for c in (*task.needs, "ST") if not _has(records, c)]
    if not {"HHID", "SERIALNO"} & set(records.column_names):
        absent.append("SERIALNO (or HHID)")
    if absent:
        raise ValueError(
            f"The source lacks {', '.join(absent)}, which the task {name!r} needs. Expected ACS person "
            f"records (psam_p*.csv or ss??p*.csv), not housing records, with their Census column names."
        )


def person_files(folder: Path) -> list[Path]:
    """Files of person records in a folder, by their Census names."""
    return sorted(file for pattern in PERSON_FILES for file in folder.glob(pattern))


def _read_records(path: Path, wanted: set[str]) -> Records:
    """The wanted columns that are there."""
    import pyarrow

    files = sorted({*path.glob("*.parquet"), *person_files(path)}) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise FileNotFoundError(
            f"There are no person records at {path}. Expected {', '.join(('*.parquet', *PERSON_FILES))}, such as "
            f"psam_p01.csv from https://www2.census.gov/programs-surveys/acs/data/pums/, or `python -m paper fetch`."
        )
    # Vintages differ in their columns; a column that one file lacks is missing in its rows.
    return pyarrow.concat_tables([_read_file(file, wanted) for file in files], promote_options="permissive")


def _read_file(path: Path, wanted: set[str]) -> Records:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(path)
        return file.read(columns=[c for c in file.schema_arrow.names if c in wanted])
    import pyarrow

    parts = [_read_csv(data, wanted) for data in _csv_streams(path)]
    return pyarrow.concat_tables(parts, promote_options="permissive")


def _csv_streams(path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".zip":
        with path.open("rb") as data:
            yield data
        return
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.namelist() if m.lower().endswith(".csv")]
        if not members:
            raise ValueError(f"{path} holds {archive.namelist()[:3]}, expected a CSV file of person records.")
        for member in members:
            with archive.open(member) as data:
                yield data


def _read_csv(data: IO[bytes], wanted: set[str]) -> Records:
    import pyarrow
    from pyarrow import csv

    header = data.readline().decode("utf-8-sig")
    names = [name.strip().strip('"') for name in header.strip().split(",")]
    chosen = [c for c in names if c in wanted]
    types = {c: pyarrow.string() if c in TEXT else pyarrow.float32() for c in chosen}
    convert = csv.ConvertOptions(include_columns=chosen, column_types=types, null_values=NOT_APPLICABLE)
    return csv.read_csv(data, read_options=csv.ReadOptions(column_names=names), convert_options=convert)


def download_persons(*, year: int, horizon: str, states: Sequence[str] | None, data_dir: Path) -> list[Path]:
    """Person files of the states, named and placed as folktables does, downloaded where absent."""
    if horizon not in ("1-Year", "5-Year") or year < 2014:
        raise ValueError(
            f'Found year={year}, horizon={horizon!r}; expected 2014 or later, "1-Year" or "5-Year".'
        )
    states = DOWNLOADABLE if states is None else states
    unknown = [s for s in states if s not in DOWNLOADABLE]
    if unknown:
        raise ValueError(f"Unknown states {unknown}: expected postal letters such as 'AL', 'NY', 'PR'.")
    folder = data_dir / str(year) / horizon
    files = {state: folder / _file_name(state, year) for state in states}
    absent = {state: file for state, file in files.items() if not file.is_file()}
    if absent:
        _download(absent, folder=folder, year=year, horizon=horizon)
    return list(files.values())


def _download(absent: dict[str, Path], *, folder: Path, year: int, horizon: str) -> None:
    state, file = next(iter(absent.items()))
    url = f"https://www2.census.gov/programs-surveys/acs/data/pums/{year}/{horizon}/csv_p{state.lower()}.zip"
    wants = f"{len(absent)} ACS files are not there, the first of them {file}. It is in {url}: unzip it into {folder}."
    try:
        from folktables.load_acs import initialize_and_download
    except ImportError as error:
        raise ImportError(f"{wants} Or pip install folktables, which downloads it.") from error
    folder.mkdir(parents=True, exist_ok=True)
    for state, file in absent.items():
        # folktables prints, and swallows errors: whether the file is there is the only answer to trust.
        with contextlib.redirect_stdout(io.StringIO()) as said:
            initialize_and_download(str(folder), state, str(year), horizon, "person", download=True)
        if not file.is_file():
            raise FileNotFoundError(f"{wants} Its download failed: {said.getvalue().strip()}")


def _file_name(state: str, year: int) -> str:
    if year >= 2017:
        return f"psam_p{FIPS[state]:02d}.csv"
    return f"ss{year % 100}p{state.lower()}.csv"
