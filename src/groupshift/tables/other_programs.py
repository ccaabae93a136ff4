"""Tables of other programs, which are read whole: JSON, Excel workbooks, and files of Stata, SPSS and SAS."""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from groupshift._data.extras import need
from groupshift.tables.arrow import SourceError, pa, pc
from groupshift.tables.files import check_sizes, unpacked
from groupshift.tables.snapshots import CHUNK_ROWS, column_of, tables_of_rows

# Keys that come up after this many rows are not looked for: a table has its columns from the start.
HEAD_ROWS = 1_000


def is_json(text: bytes) -> bool:
    """Whether a text begins like objects in JSON.

    >>> is_json(b' {"a": 1}'), is_json(b'[{"a": 1}]'), is_json(b"a,b")
    (True, True, False)
    """
    start = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith((b'{"', b"{}")) or (start[:1] == b"[" and start[1:].lstrip()[:1] == b"{")


def json_tables(path: Path, packing: str | None) -> Iterator[pa.Table]:
    """The objects of a file as rows; what is a list or an object itself stays text."""
    objects = _objects(path, packing)
    head = list(islice(objects, HEAD_ROWS))
    names = list(dict.fromkeys(key for row in head for key in row))
    if not names:
        raise SourceError(
            f"{path} holds no object with keys, which would be its columns. Check how it was made."
        )

    def rows() -> Iterator[list[object]]:
        for row in chain(head, objects):
            if new := row.keys() - set(names):
                raise SourceError(
                    f"{path} has the key {sorted(new)[0]!r} in a late row but in none of the first {HEAD_ROWS:,}. "
                    "Write every key in the first row, with null where it has no value."
                )
            yield [_flat(row.get(name)) for name in names]

    yield from tables_of_rows(names, rows())


def _objects(path: Path, packing: str | None) -> Iterator[dict[str, object]]:
    with unpacked(path, packing) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig")
        whole = text.read(1).lstrip()
        while whole == "" and (more := text.read(1)):
            whole = more.strip()
        text.seek(0)
        found = enumerate(json.load(text), 1) if whole == "[" else _lines(text, path)
        for number, row in found:
            if not isinstance(row, dict):
                raise SourceError(
                    f"{path} has a {type(row).__name__} where row {number:,} should be an object."
                )
            yield row


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except ValueError as error:
            raise SourceError(
                f"{path} is JSON, but line {number:,} is no object of its own ({error}). Write one object a line."
            ) from error


def _flat(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


class JsonLinesWriter:
    """Writes tables as an object a line."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def write_table(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            whole = {name: None if value != value else value for name, value in row.items()}
            self._file.write(json.dumps(whole, ensure_ascii=False, default=str).encode() + b"\n")

    def close(self) -> None:
        pass


# What a sheet can hold, by Excel's own limits.
MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
Row = tuple[object, ...]


def is_workbook(path: Path) -> bool:
    """Whether a zip archive is a workbook that can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            is_one = "xl/workbook.xml" in archive.namelist()
            if is_one:
                _check_sizes(archive, path)
            return is_one
    except (zipfile.BadZipFile, OSError):
        return False


def _check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse sheets that no Excel writes before they are unpacked and read, which takes a minute for a million rows."""
    try:
        check_sizes(archive, path.stat().st_size)
    except zipfile.BadZipFile as error:
        raise SourceError(f"{path} is no workbook that Excel wrote: {error}. Export it as CSV.") from error
    for entry in archive.infolist():
        if not entry.filename.startswith("xl/worksheets/"):
            continue
        n_rows, before = 0, b""
        with archive.open(entry) as sheet:
            while chunk := sheet.read(1 << 20):
                # Numbers of rows may be left out, and rows between two numbers: what is counted is the larger.
                text = before + chunk
                n_rows += chunk.count(b"<row") + (before[-3:] + chunk[:3]).count(b"<row")
                named = max((int(number) for number in re.findall(rb'<row r="(\d{1,18})"', text)), default=0)
                if max(n_rows, named) > MOST_ROWS:
                    raise SourceError(
                        f"{path} has a sheet of more than {MOST_ROWS:,} rows, the most that Excel knows. Export it as CSV."
                    )
                before = text[-40:]


def sheet_tables(path: Path, sheet: str | None) -> Iterator[pa.Table]:
    """The rows of a sheet, the first one by default; formulas as the values that they last had."""
    book = need("openpyxl").load_workbook(path, read_only=True, data_only=True)
    try:
        rows = (row for row in _sheet(book, path, sheet).iter_rows(values_only=True) if not _is_empty(row))
        header = _header(next(rows, ()), path)
        yield from tables_of_rows(list(header.values()), (_cells(row, header) for row in rows))
    finally:
        book.close()


def _sheet(book: Any, path: Path, name: str | None) -> Any:
    if name is None:
        # Notes and pictures are often sheets too: the first one with cells is meant.
        filled = (
            sheet
            for sheet in book.worksheets
            if any(not _is_empty(r) for r in sheet.iter_rows(values_only=True))
        )
        return next(filled, book.worksheets[0])
    if name not in book.sheetnames:
        raise SourceError(
            f"{path} has no sheet {name!r}; its sheets are {', '.join(map(repr, book.sheetnames))}. Name one of them "
            f"as {path.name}::{book.sheetnames[0]}."
        )
    return book[name]


def _header(row: Row, path: Path) -> dict[int, str]:
    """Names of columns by their place; columns without a name at the end of a sheet are none."""
    names = {
        place: str(cell).strip() for place, cell in enumerate(row) if cell is not None and str(cell).strip()
    }
    if not names:
        raise SourceError(f"{path} has no filled cell in its sheet. The first row must name the columns.")
    return names


def _cells(row: Row, header: dict[int, str]) -> Row:
    return tuple(row[place] if place < len(row) else None for place in header)


def _is_empty(row: Row) -> bool:
    return all(cell is None for cell in row)


class SheetWriter:
    """Writes tables below each other to one sheet; text stays text, also where it begins like a formula."""

    def __init__(self, file: IO[bytes], names: Sequence[str]):
        self._file = file
        self._book = need("openpyxl").Workbook(write_only=True)
        self._sheet = self._book.create_sheet("groupshift")
        self._rows = 0
        if len(names) > MOST_COLUMNS:
            raise ValueError(
                f"An Excel sheet holds {MOST_COLUMNS:,} columns, not {len(names):,}. Write .csv instead."
            )
        self._append(names)

    def write_table(self, table: pa.Table) -> None:
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            self._append(row)

    def close(self) -> None:
        self._book.save(self._file)

    def _append(self, row: Sequence[object]) -> None:
        self._rows += 1
        if self._rows > MOST_ROWS:
            raise ValueError(f"An Excel sheet holds {MOST_ROWS:,} rows. Write .csv or .parquet instead.")
        self._sheet.append([self._cell(value) for value in row])

    def _cell(self, value: object) -> object:
        from openpyxl.cell import WriteOnlyCell

        if isinstance(value, float) and value != value:
            return None
        if not isinstance(value, str) or not value.startswith("="):
            return value
        cell = WriteOnlyCell(self._sheet, value)
        cell.data_type = "s"
        return cell


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
