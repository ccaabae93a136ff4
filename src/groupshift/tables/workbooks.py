"""Excel workbooks: a sheet whose first filled row names the columns (openpyxl)."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from groupshift._data.extras import need
from groupshift.tables.arrow import SourceError, pa
from groupshift.tables.packed import check_sizes
from groupshift.tables.snapshots import tables_of_rows

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
