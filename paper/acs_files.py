"""Where Census person records come from: Parquet, CSV, zipped CSV, folders, frames, or a download."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrame

from groupshift._io.extras import need
from groupshift.datasets.containers import is_frame

if TYPE_CHECKING:
    import pyarrow

# Person records: a frame, a file, a folder, or several of these.
Source: TypeAlias = "IntoDataFrame | str | Path | Sequence[str | Path]"

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


class Columns:
    """Some columns of a table, read as arrays one at a time, so that only one is ever held as floats."""

    def __init__(self, table: IntoDataFrame) -> None:
        self._table = nw.from_native(table, eager_only=True)
        self.names = tuple(self._table.columns)

    def __len__(self) -> int:
        return len(self._table)

    def raw(self, name: str) -> np.ndarray:
        """The column as it is."""
        return np.asarray(self._table[name].to_numpy())

    def numbers(self, name: str) -> np.ndarray:
        """The column as floats, NaN for missing; text that is no number counts as missing."""
        values = self.raw(name)
        if values.dtype.kind in "fiub":
            return values.astype(np.float64)
        return np.array([_number(v) for v in values.tolist()])


def open_source(source: Source, *, wanted: Sequence[str]) -> Columns:
    """Open a frame, a file, a folder or several files, and read only the wanted columns that are there."""
    if is_frame(source):
        frame = nw.from_native(source, eager_only=True)
        return Columns(frame.select([c for c in frame.columns if c in wanted]).to_native())
    several = cast("str | Path | Sequence[str | Path]", source)
    paths = [Path(p) for p in ([several] if isinstance(several, str | Path) else several)]
    pyarrow = need("pyarrow", extra="files", what="Reading ACS files")
    tables = [_read_file(file, wanted) for path in paths for file in _files(path)]
    # Vintages differ in their columns; a column that one file lacks is missing in its rows.
    return Columns(pyarrow.concat_tables(tables, promote_options="permissive"))


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
    wants = (
        f"{len(absent)} ACS files are not there, the first of them {file}. It is in {url}: "
        f"unzip it into {folder}, or pass source= with a Parquet or CSV file of ACS person records."
    )
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


def person_files(folder: Path) -> list[Path]:
    """Files of person records in a folder, by their Census names."""
    return sorted(file for pattern in PERSON_FILES for file in folder.glob(pattern))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted({*path.glob("*.parquet"), *person_files(path)})
        if not found:
            expected = ", ".join(("*.parquet", *PERSON_FILES))
            raise FileNotFoundError(f"The folder {path} holds no ACS person files: expected {expected}.")
        return found
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}. Expected ACS person records: Parquet, CSV or zipped CSV, such as "
            f"psam_p01.csv from https://www2.census.gov/programs-surveys/acs/data/pums/. "
            f"Pass source=None to download."
        )
    return [path]


def _read_file(path: Path, wanted: Sequence[str]) -> pyarrow.Table:
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


def _read_csv(data: IO[bytes], wanted: Sequence[str]) -> pyarrow.Table:
    import pyarrow
    from pyarrow import csv

    header = data.readline().decode("utf-8-sig")
    names = [name.strip().strip('"') for name in header.strip().split(",")]
    chosen = [c for c in names if c in wanted]
    types = {c: pyarrow.string() if c in TEXT else pyarrow.float32() for c in chosen}
    convert = csv.ConvertOptions(include_columns=chosen, column_types=types, null_values=NOT_APPLICABLE)
    return csv.read_csv(data, read_options=csv.ReadOptions(column_names=names), convert_options=convert)


def _number(value: object) -> float:
    try:
        return float(str(value))
    except (TypeError, ValueError):
        return float("nan")
