"""Where tables are and what they are written in: files, folders, patterns of names, standard input, queries to databases.

`open_source` is the one way in. Whatever a place is, what comes out is a `Source`: columns that are known, and rows in batches.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from os import PathLike
from pathlib import Path
from urllib.parse import unquote

from groupshift._data.frames import some
from groupshift.tables.arrow import SourceError, pa, parquet_table
from groupshift.tables.csv_cells import Dialect, dialect_of
from groupshift.tables.databases import (
    database_of,
    duckdb_table,
    file_of,
    is_url,
    split_url,
    sqlite_tables,
    url_tables,
    without_password,
)
from groupshift.tables.files import DAMAGED, kind_of, packing_of, unpacked
from groupshift.tables.other_programs import (
    is_json,
    is_workbook,
    json_tables,
    program_of,
    sheet_tables,
    statistics_tables,
)
from groupshift.tables.snapshots import FULL, Snapshot, common_type, in_types, room_for_copies

BATCH_ROWS = 65_536
# As many first bytes as any format needs to be told.
HEAD_BYTES = 64


# What gives the rows of some columns, table by table, as often as it is asked.
Rows = Callable[[Sequence[str]], Iterator[pa.Table]]


@dataclass(frozen=True)
class Source:
    """A table in a file: its columns are known, its rows are read when asked for.

    A folder of Parquet files is one table. `schema` holds the types of the columns; None for text files, whose
    cells are all read as text, as `dialect` says.
    """

    path: Path
    format: str
    columns: tuple[str, ...]
    rows: Rows
    n_rows: int | None = None
    schema: pa.Schema = None
    dialect: Dialect | None = None

    @property
    def separator(self) -> str | None:
        """What stands between the cells of a text file."""
        return None if self.dialect is None else self.dialect.separator

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
            yield from self.rows(names)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The whole table."""
        names = list(self.columns if columns is None else columns)
        parts = list(self.batches(names))
        return (
            pa.concat_tables(parts) if parts else pa.table({n: pa.array([], self.type_of(n)) for n in names})
        )


def no_column(names: Sequence[str], source: Source) -> str:
    """The sentence about columns that a file does not have, with the likeliest typing slip."""
    from difflib import get_close_matches

    known = {column.lower(): column for column in source.columns}
    close = [known[m] for name in names for m in get_close_matches(name.lower(), list(known), n=1)]
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check the name."
    shown = ", ".join(map(repr, source.columns[:8])) + (" …" if len(source.columns) > 8 else "")
    return f"{source.path} has no column {', '.join(map(repr, names))}; it has {shown}. {hint}"


def is_parquet(path: Path) -> bool:
    return _head(path).startswith(b"PAR1")


def _head(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceError(
                f"{path} is no file but {kind_of(path)}. Write what it gives to a file, and pass that."
            )
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {path}. Check the name and the folder.") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    if not head:
        raise SourceError(f"{path} is empty: it has no header and no rows. Check how it was made.")
    return head


def open_file(path: Path, part: str | None = None, *, shown: Path | None = None) -> Source:
    """Look at a file: what it is written in, and which columns it has.

    `part` is the sheet of a workbook, or the query to a database; `shown` what messages call the file.
    """
    head, name = _head(path), shown or path
    program, database, packing = program_of(head), database_of(head), packing_of(head)
    if head.startswith(b"PK\x03\x04") and is_workbook(path):
        return snapshot_source(name, "Excel", sheet_tables(path, part))
    if database is not None:
        return open_database(path, database, part)
    if part is not None:
        raise SourceError(f"{path} is no workbook and no database, so that it has no part {part!r}.")
    if program is not None:
        return snapshot_source(name, program, statistics_tables(path, program))
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise SourceError(
            f"{path} is an old Excel workbook or a zip archive. Save the workbook as .xlsx or CSV, or unpack the "
            "archive, and pass that file."
        )
    if head.startswith(b"PAR1"):
        return _open_parquet(path)
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _open_arrow(path)
    if is_json(_unpacked_head(path, packing)):
        return snapshot_source(name, "JSON lines", json_tables(path, packing))
    dialect = dialect_of(path, packing)
    return Source(path, "CSV", dialect.columns, partial(dialect.cells, path), dialect=dialect)


def open_database(path: Path, database: str, query: str | None) -> Source:
    """A table of a database in a file, or the rows of a query to it."""
    if database == "SQLite":
        return snapshot_source(path, database, sqlite_tables(path, query))
    table = duckdb_table(path, query)
    return Source(path, database, tuple(table.columns), table.batches, schema=table.schema)


def snapshot_source(shown: Path, kind: str, tables: Iterator[pa.Table]) -> Source:
    """Rows that are read once and kept: of a sheet, of a statistical program's file, of a query."""
    kept = Snapshot.of(_read_by_others(shown, kind, tables), shown)
    return Source(shown, kind, tuple(kept.schema.names), kept.batches, kept.n_rows, kept.schema)


def _read_by_others(shown: Path, kind: str, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables that another library reads, whatever it raises at a damaged file said in one way."""
    try:
        yield from tables
    except (SourceError, ImportError, MemoryError):
        raise
    except Exception as error:
        if getattr(error, "errno", None) in FULL:
            raise
        raise SourceError(
            f"{shown} begins like a file of {kind} but cannot be read ({_first_line(error)}). It may be damaged: copy or "
            "export it again, or export it as CSV."
        ) from error


def _unpacked_head(path: Path, packing: str | None) -> bytes:
    try:
        with unpacked(path, packing) as file:
            return file.read(HEAD_BYTES)
    except (*DAMAGED, OSError):
        # Said by whoever reads the file as text.
        return b""


def open_parquet_folder(path: Path) -> Source:
    """All Parquet files of a folder and its folders, as Spark and Dask write them, as one table."""
    with _opening(f"A file in the folder {path}"):
        table = parquet_table(path, BATCH_ROWS)
        first, *others = table.source.get_fragments()
        for other in others:
            missing = set(first.physical_schema.names) - set(other.physical_schema.names)
            if missing:
                raise SourceError(
                    f"{Path(other.path).name} in the folder {path} has no column {sorted(missing)[0]!r}, which "
                    f"{Path(first.path).name} has. Pass files with the same columns."
                )
        n_rows = table.source.count_rows()
        return Source(path, "Parquet", tuple(table.columns), table.batches, n_rows, table.schema)


def _open_parquet(path: Path) -> Source:
    with _opening(f"{path} begins like Parquet but"), pa.parquet.ParquetFile(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows

    def rows(names: Sequence[str]) -> Iterator[pa.Table]:
        # Read like any population in files: a batch at a time, without whole column chunks ahead.
        yield from parquet_table(path, BATCH_ROWS).batches(names)

    return Source(path, "Parquet", tuple(schema.names), rows, n_rows, schema)


def _open_arrow(path: Path) -> Source:
    def rows(names: Sequence[str]) -> Iterator[pa.Table]:
        with _arrow_reader(path) as reader:
            n_batches = getattr(reader, "num_record_batches", None)
            for batch in reader if n_batches is None else map(reader.get_batch, range(n_batches)):
                table = pa.Table.from_batches([batch]).select(names)
                # A file is trusted with its numbers only: an offset that points elsewhere would be followed.
                table.validate(full=True)
                for start in range(0, table.num_rows, BATCH_ROWS):
                    yield table.slice(start, BATCH_ROWS)

    with _opening(f"{path} begins like Arrow but"), _arrow_reader(path) as reader:
        return Source(path, "Arrow", tuple(reader.schema.names), rows, schema=reader.schema)


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
    except (pa.ArrowException, OSError, UnicodeError) as error:
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


STANDARD_INPUT = "-"
# Between a file and what is meant in it: book.xlsx::Sheet2, people.db::select …
PART = "::"
Place = str | PathLike[str] | Sequence[str | PathLike[str]]


def open_source(place: Place) -> Source:
    """Look at a place: what its tables are written in, and which columns they have."""
    if not isinstance(place, (str, PathLike)):
        return _stacked([open_source(one) for one in place])
    source = _open(str(place))
    repeated = [name for name, count in Counter(source.columns).items() if count > 1]
    if repeated:
        raise SourceError(
            f"{source.path} has more than one column named {some(repeated, 5)}, so it is not clear which one is "
            "meant. Rename or remove the copies."
        )
    return source


def data_files(folder: Path) -> list[Path]:
    """Files of a folder and its folders; names that begin with . or _ are marks of other programs."""
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name[0] not in "._"]


def open_within(file: Path, root: Path) -> Source:
    """A file of a folder; the names of folders between them (``name=value``) are columns."""
    source = open_file(file)
    folders = (folder.partition("=") for folder in file.relative_to(root).parts[:-1])
    known = {name: unquote(value) for name, is_pair, value in folders if is_pair}
    if not known:
        return source
    inside = [name for name in source.columns if name not in known]

    def rows(names: Sequence[str]) -> Iterator[pa.Table]:
        for table in source.rows([name for name in inside if name in names] or inside[:1]):
            own = {name: pa.repeat(value, len(table)) for name, value in known.items()}
            yield pa.table({name: own[name] if name in own else table[name] for name in names})

    fields = [(name, source.type_of(name)) for name in inside] + [(name, pa.string()) for name in known]
    schema = None if source.schema is None else pa.schema(fields)
    return replace(source, columns=(*source.columns, *known), rows=rows, schema=schema)


def _open(place: str) -> Source:
    if place == STANDARD_INPUT:
        return _standard_input()
    path, part = Path(place), None
    if is_url(place):
        url, query = split_url(place)
        if (file := file_of(url)) is not None:
            return open_database(file, "SQLite" if url.startswith("sqlite") else "DuckDB", query)
        # Kept, since a database changes while it is read: every pass over the rows must see the same.
        return snapshot_source(Path(without_password(url)), "database", url_tables(url, query))
    if not path.exists() and PART in place:
        before, _, part = place.partition(PART)
        path = Path(before)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists() and glob.has_magic(place) and (found := sorted(glob.glob(place, recursive=True))):
        return _stacked([open_source(file) for file in found])
    return open_file(path, part)


def _open_folder(path: Path) -> Source:
    files = data_files(path)
    if not files:
        raise SourceError(
            f"{path} is an empty folder. Pass a file, or a folder of files with the same columns."
        )
    other = [file for file in files if not is_parquet(file)]
    if not other:
        return open_parquet_folder(path)
    if len(other) < len(files):
        raise SourceError(
            f"{path} is a folder, and {other[0].relative_to(path)} in it is no Parquet file, as others are. Pass one "
            "file, or a folder of files of one kind."
        )
    return replace(_stacked([open_within(file, path) for file in files]), path=path)


def _stacked(parts: list[Source]) -> Source:
    """Several sources with the same columns as one, in the order given."""
    if len(parts) == 1:
        return parts[0]
    first, *others = parts
    for other in others:
        if missing := [name for name in first.columns if name not in other.columns]:
            raise SourceError(
                f"{other.path} has no column {missing[0]!r}, which {first.path} has. Pass files with the same columns."
            )
    types = ([part.type_of(name) for part in parts] for name in first.columns)
    schema = pa.schema(list(zip(first.columns, (reduce(common_type, found) for found in types), strict=True)))

    def rows(names: Sequence[str]) -> Iterator[pa.Table]:
        for part in parts:
            yield from (in_types(table, schema) for table in part.batches(names))

    counts = [part.n_rows for part in parts]
    n_rows = None if None in counts else sum(count for count in counts if count is not None)
    kinds = ", ".join(dict.fromkeys(part.describe() for part in parts))
    shown = Path(f"{first.path} and {len(others)} more")
    return Source(shown, f"{len(parts)} files: {kinds}", first.columns, rows, n_rows, schema)


def _standard_input() -> Source:
    """Standard input is kept in a file: a fit reads its rows several times."""
    with tempfile.TemporaryDirectory(prefix="groupshift-") as folder:
        place = Path(folder) / "input"
        with room_for_copies(), open(place, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not place.stat().st_size:
            raise SourceError(
                "Standard input is empty: it has no header and no rows. It can be read once only."
            )
        shown = Path("standard input")
        source = open_file(place, shown=shown)
        # What was read whole, or is open, does without the file.
        is_read_from_it = source.dialect is not None or source.format in ("Parquet", "Arrow")
        return snapshot_source(shown, source.describe(), source.batches()) if is_read_from_it else source
