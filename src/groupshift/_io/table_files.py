"""Tables in files: CSV with any separator and encoding, Parquet and folders of it, Arrow, gzip (pyarrow)."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from groupshift._io.arrow import pa
from groupshift._io.csv_cells import Dialect, SourceError, dialect_of
from groupshift._io.files import kind_of
from groupshift._io.parquet import FileTable, file_table
from groupshift._rows.frames import some

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Source:
    """A table in a file: its columns are known, its rows are read when asked for.

    A folder of Parquet files is one table. `schema` holds the types of the columns; None for text files, whose
    cells are all read as text, as `dialect` says.
    """

    path: Path
    format: str
    columns: tuple[str, ...]
    n_rows: int | None = None
    schema: pa.Schema = None
    dialect: Dialect | None = None

    def describe(self) -> str:
        """How the file is read, in a few words."""
        if self.dialect is not None:
            return str(self.dialect)
        return "folder of Parquet" if self.path.is_dir() else self.format

    def type_of(self, column: str) -> pa.DataType:
        """The Arrow type that a column is read as."""
        return pa.string() if self.schema is None else self.schema.field(column).type

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Tables of some ten thousand rows, one after the other, with these columns in this order."""
        names = list(self.columns if columns is None else columns)
        known = set(self.columns)
        if missing := [name for name in names if name not in known]:
            raise SourceError(no_column(missing, self))
        with _reading(self):
            if self.dialect is not None:
                yield from self.dialect.cells(self.path, names)
            elif self.format == "Parquet":
                # Read like any population in files: a batch at a time, without whole column chunks ahead.
                yield from file_table(self.path, batch_rows=BATCH_ROWS).batches(names)
            else:
                yield from self._arrow(names)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The whole table."""
        names = list(self.columns if columns is None else columns)
        parts = list(self.batches(names))
        return (
            pa.concat_tables(parts) if parts else pa.table({n: pa.array([], self.type_of(n)) for n in names})
        )

    def _arrow(self, names: list[str]) -> Iterator[pa.Table]:
        with _arrow_reader(self.path) as reader:
            n_batches = getattr(reader, "num_record_batches", None)
            for batch in reader if n_batches is None else map(reader.get_batch, range(n_batches)):
                table = pa.Table.from_batches([batch]).select(names)
                # A file is trusted with its numbers only: an offset that points elsewhere would be followed.
                table.validate(full=True)
                for start in range(0, table.num_rows, BATCH_ROWS):
                    yield table.slice(start, BATCH_ROWS)


def open_source(path: str | PathLike[str]) -> Source:
    """Look at a file: what it is written in, and which columns it has."""
    path = Path(path)
    source = _open_folder(path) if path.is_dir() else _open_file(path)
    repeated = [name for name, count in Counter(source.columns).items() if count > 1]
    if repeated:
        raise SourceError(
            f"{path} has more than one column named {some(repeated, 5)}, so it is not clear which one is meant. "
            "Rename or remove the copies."
        )
    return source


def no_column(names: Sequence[str], source: Source) -> str:
    """The sentence about columns that a file does not have, with the likeliest typing slip."""
    from difflib import get_close_matches

    known = {column.lower(): column for column in source.columns}
    close = [known[m] for name in names for m in get_close_matches(name.lower(), list(known), n=1)]
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check the name."
    shown = ", ".join(map(repr, source.columns[:8])) + (" …" if len(source.columns) > 8 else "")
    return f"{source.path} has no column {', '.join(map(repr, names))}; it has {shown}. {hint}"


def data_files(folder: Path) -> list[Path]:
    """Files of a folder and its folders; names that begin with . or _ are marks of other programs."""
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name[0] not in "._"]


def is_parquet(path: Path) -> bool:
    return _head(path).startswith(b"PAR1")


def _head(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceError(
                f"{path} is no file but {kind_of(path)}. Write what it gives to a file, and pass that."
            )
        with open(path, "rb") as file:
            head = file.read(8)
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {path}. Check the name and the folder.") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    if not head:
        raise SourceError(f"{path} is empty: it has no header and no rows. Check how it was made.")
    return head


def _open_file(path: Path) -> Source:
    head = _head(path)
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise SourceError(
            f"{path} is an Excel workbook or a zip archive. Save the sheet as CSV, or unpack the archive, and pass "
            "that file."
        )
    if head.startswith(b"PAR1"):
        return _open_parquet(path)
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _open_arrow(path)
    dialect = dialect_of(path, zipped=head.startswith(b"\x1f\x8b"))
    return Source(path, "CSV", dialect.columns, dialect=dialect)


def _open_folder(path: Path) -> Source:
    """All Parquet files of a folder and its folders, as Spark and Dask write them, as one table."""
    files = data_files(path)
    if not files:
        raise SourceError(f"{path} is an empty folder. Pass a file, or a folder of Parquet files.")
    if other := [file for file in files if not is_parquet(file)]:
        raise SourceError(
            f"{path} is a folder, and {other[0].relative_to(path)} in it is no Parquet file. Pass one file (CSV, "
            "TSV, Parquet or Arrow), or a folder that holds Parquet files only."
        )
    with _opening(f"A file in the folder {path}"):
        table = file_table(path)
        _check_same_columns(path, table)
        schema = table.dataset.schema
        return Source(path, "Parquet", tuple(table.columns), table.dataset.count_rows(), schema)


def _check_same_columns(path: Path, table: FileTable) -> None:
    """Files of a folder must have the columns of the first one."""
    first, *others = table.dataset.get_fragments()
    for other in others:
        missing = set(first.physical_schema.names) - set(other.physical_schema.names)
        if missing:
            raise SourceError(
                f"{Path(other.path).name} in the folder {path} has no column {sorted(missing)[0]!r}, which "
                f"{Path(first.path).name} has. Pass files with the same columns."
            )


def _open_parquet(path: Path) -> Source:
    with _opening(f"{path} begins like Parquet but"), pa.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        return Source(path, "Parquet", tuple(schema.names), file.metadata.num_rows, schema)


def _open_arrow(path: Path) -> Source:
    with _opening(f"{path} begins like Arrow but"), _arrow_reader(path) as reader:
        return Source(path, "Arrow", tuple(reader.schema.names), schema=reader.schema)


def _arrow_reader(path: Path) -> pa.RecordBatchFileReader:
    mapped = pa.memory_map(str(path))
    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        return pa.ipc.open_stream(mapped)


@contextmanager
def _opening(what: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{what} cannot be read ({_first_line(error)}). It may have been cut short: copy it again."
        ) from error


@contextmanager
def _reading(source: Source) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, UnicodeError, EOFError, OSError) as error:
        reason = _first_line(error)
        if source.dialect is not None and "Expected" in reason and "columns, got" in reason:
            raise SourceError(
                f"{source.path} has a row with another number of cells than its header ({reason}). Check the quoting "
                f"of cells that hold a {source.dialect.separator!r}, or how the file was made."
            ) from error
        raise SourceError(
            f"{source.path} cannot be read to its end: {reason}. It may be damaged: copy or export it again."
        ) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    shown = lines[0] if lines else type(error).__name__
    return shown if len(shown) <= 200 else shown[:200] + "…"
