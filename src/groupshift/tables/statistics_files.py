"""Files of statistical programs: Stata, SPSS and SAS (pyreadstat)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from groupshift._data.extras import need
from groupshift.tables.arrow import SourceError, pa, pc
from groupshift.tables.snapshots import CHUNK_ROWS, column_of

READERS = {"Stata": "read_dta", "SPSS": "read_sav", "SAS": "read_sas7bdat", "SAS transport": "read_xport"}
WRITERS = {"dta": "write_dta", "sav": "write_sav"}
# Older versions of Stata begin with the number of the version and the order of bytes.
OLD_STATA = tuple(bytes((version, order)) for version in range(0x69, 0x74) for order in (1, 2))
SAS_MARK = bytes(12) + b"\xc2\xea\x81\x60"


def program_of(head: bytes) -> str | None:
    """Which program wrote a file, by its first bytes.

    >>> program_of(b"<stata_dta>"), program_of(b"$FL2@(#)"), program_of(b"a,b")
    ('Stata', 'SPSS', None)
    """
    marks = {
        "Stata": (b"<stata_dta>", *OLD_STATA),
        "SPSS": (b"$FL2", b"$FL3"),
        "SAS": (SAS_MARK,),
        "SAS transport": (b"HEADER RECORD*******LIB",),
    }
    return next((name for name, starts in marks.items() if head.startswith(starts)), None)


def statistics_tables(path: Path, program: str) -> Iterator[pa.Table]:
    """The rows of a file; a column whose every code has a label is read as its labels, others as they are."""
    read = getattr(need("pyreadstat"), READERS[program])
    labels = None
    for start in _starts(read, path):
        columns, about = _read(read, path, start)
        if labels is None:
            # Codes without a label in later rows stay as they are, as text.
            labels = {name: codes for name, codes in about.variable_value_labels.items() if codes}
            labels = {name: codes for name, codes in labels.items() if _all_labelled(read, path, name, codes)}
        yield pa.table({name: _values(column, labels.get(name)) for name, column in columns.items()})


def _starts(read: Any, path: Path) -> Iterator[int]:
    """Where the parts begin that are read at a time; one part where the number of rows is not in the file."""
    _, about = _read(read, path, 0, metadataonly=True)
    yield from range(0, max(about.number_rows or 1, 1), CHUNK_ROWS if about.number_rows else 1)


def _read(read: Any, path: Path, start: int, **options: Any) -> tuple[Mapping[str, Any], Any]:
    if not options.get("metadataonly"):
        options |= {"row_offset": start, "row_limit": CHUNK_ROWS}
    try:
        columns, about = read(str(path), output_format="dict", **options)
        if about.number_rows is None and not options.get("metadataonly"):
            columns, about = read(str(path), output_format="dict")
    except Exception as error:
        raise SourceError(
            f"{path} cannot be read ({str(error).splitlines()[0]}). It may be damaged or of a version that pyreadstat "
            "does not know: export it again, or as CSV."
        ) from error
    return columns, about


def _all_labelled(read: Any, path: Path, name: str, codes: Mapping[object, str]) -> bool:
    columns, _ = read(str(path), output_format="dict", usecols=[name])
    return all(value in codes for value in pc.unique(_values(columns[name]).drop_null()).to_pylist())


def _values(column: Any, codes: Mapping[object, str] | None = None) -> pa.Array:
    values = [
        None if isinstance(value, float) and value != value else value
        for value in np.asarray(column).tolist()
    ]
    if codes is not None:
        return pa.array([codes.get(value) for value in values], pa.string())
    array = column_of(values)
    # These programs have one kind of number: whole ones are whole numbers.
    if pa.types.is_floating(array.type) and pc.all(pc.equal(array, pc.floor(array)), min_count=0).as_py():
        return pc.cast(array, pa.int64(), safe=False)
    return array


class StatisticsWriter:
    """Writes a table as a file of Stata ("dta") or SPSS ("sav"), whole when it is closed."""

    def __init__(self, file: IO[bytes], kind: str):
        self._file, self._kind = file, kind
        self._parts: list[pa.Table] = []

    def write_table(self, table: pa.Table) -> None:
        self._parts.append(table)

    def close(self) -> None:
        from importlib import import_module

        table = pa.concat_tables(self._parts)
        frame = import_module("pandas").DataFrame({name: _plain(table[name]) for name in table.column_names})
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / f"table.{self._kind}"
            getattr(need("pyreadstat"), WRITERS[self._kind])(frame, str(place))
            self._file.write(place.read_bytes())


def _plain(column: pa.ChunkedArray) -> object:
    """A column as these programs know it: numbers, and text that is empty where missing."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int64())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array(pc.fill_null(column, "").to_pylist(), object)
    return column.to_pandas()
