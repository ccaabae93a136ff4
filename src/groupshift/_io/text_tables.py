"""Tables in files: CSV with any separator and encoding, Parquet and folders of it, Arrow, gzip (pyarrow)."""

import codecs
import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from groupshift._io.files import need_pyarrow
from groupshift._io.parquet import FileTable, file_table

SEPARATORS = (",", ";", "\t", "|")
HEAD_BYTES = 1 << 18
CHUNK_BYTES = 1 << 22
# A block must hold a row, and rows of ten thousand columns are long.
BLOCK_BYTES = 1 << 22
BATCH_ROWS = 65_536


class SourceError(ValueError):
    """A file that cannot be read as a table; the message says what was found and what to do."""


@dataclass(frozen=True)
class Source:
    """A table in a file: its columns are known, its rows are read when asked for.

    A folder of Parquet files is one table. `schema` holds the types of the columns; None for text files, whose
    cells are all read as text.
    """

    path: Path
    format: str
    columns: tuple[str, ...]
    n_rows: int | None = None
    separator: str = ","
    encoding: str = "utf-8"
    zipped: bool = False
    raw_names: tuple[str, ...] = ()
    header_only: bool = False
    schema: Any = None

    def type_of(self, column: str) -> Any:
        """The Arrow type that a column is read as."""
        import pyarrow as pa

        return pa.string() if self.schema is None else self.schema.field(column).type

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Tables of some ten thousand rows, one after the other, with these columns in this order."""
        import pyarrow as pa

        names = list(self.columns if columns is None else columns)
        known = set(self.columns)
        missing = [name for name in names if name not in known]
        if missing:
            raise SourceError(no_column(missing, self))
        try:
            yield from {"csv": self._csv, "parquet": self._parquet, "arrow": self._arrow}[self.format](names)
        except (pa.ArrowException, UnicodeError, EOFError, OSError) as error:
            raise SourceError(_explained(error, self)) from error

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """The whole table."""
        import pyarrow as pa

        parts = list(self.batches(columns))
        return pa.concat_tables(parts) if parts else self._empty(columns)

    def describe(self) -> str:
        """How the file is read, in a few words."""
        kind = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow"}[self.format]
        if self.path.is_dir():
            return "folder of Parquet"
        if self.format != "csv":
            return kind
        separator = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}[self.separator]
        return f"{kind}, {separator}, {self.encoding.upper()}{', gzip' if self.zipped else ''}"

    def _empty(self, columns: Sequence[str] | None) -> Any:
        import pyarrow as pa

        names = list(self.columns if columns is None else columns)
        return pa.table({name: pa.array([], self.type_of(name)) for name in names})

    def _csv(self, names: list[str]) -> Iterator[Any]:
        """Every cell as text: what a column holds is decided on all its values, not on the first block."""
        import pyarrow as pa
        import pyarrow.csv

        raw = dict(zip(self.columns, self.raw_names, strict=True))
        wanted = [raw[name] for name in names]
        if self.header_only:
            return
        with pa.input_stream(str(self.path), compression="gzip" if self.zipped else None) as stream:
            reader = pa.csv.open_csv(
                stream,
                read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES, encoding=self.encoding),
                parse_options=pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types={name: pa.string() for name in wanted},
                    include_columns=wanted,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    yield pa.Table.from_batches([batch]).rename_columns(names)

    def _parquet(self, names: list[str]) -> Iterator[Any]:
        # Read like any population in files: a batch at a time, without whole column chunks ahead.
        return file_table(self.path, batch_rows=BATCH_ROWS).batches(names)

    def _arrow(self, names: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        with _arrow_reader(self.path) as reader:
            batches = (
                (reader.get_batch(i) for i in range(reader.num_record_batches))
                if hasattr(reader, "num_record_batches")
                else reader
            )
            for batch in batches:
                table = pa.Table.from_batches([batch]).select(names)
                for start in range(0, table.num_rows, BATCH_ROWS):
                    yield table.slice(start, BATCH_ROWS)


def open_source(path: str | Path) -> Source:
    """Look at a file: what it is written in, and which columns it has."""
    need_pyarrow("Reading files")
    path = Path(path)
    if path.is_dir():
        source = _open_folder(path)
        _check_names(source)
        return source
    head = _head(path)
    if head.startswith(b"PAR1"):
        source = _open_binary(path, "parquet")
    elif head.startswith(b"ARROW1") or head.startswith(b"\xff\xff\xff\xff"):
        source = _open_binary(path, "arrow")
    elif head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise SourceError(
            f"{path} is an Excel workbook or a zip archive. Save the sheet as CSV, or unpack the archive, "
            "and pass that file."
        )
    else:
        source = _open_text(path, zipped=head.startswith(b"\x1f\x8b"))
    _check_names(source)
    return source


def no_column(names: Sequence[str], source: Source) -> str:
    """The sentence about columns that a file does not have, with the likeliest typing slip."""
    from difflib import get_close_matches

    known = {column.lower(): column for column in source.columns}
    close = [known[m] for name in names for m in get_close_matches(name.lower(), list(known), n=1)]
    hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check the name."
    shown = ", ".join(map(repr, source.columns[:8])) + (" …" if len(source.columns) > 8 else "")
    return f"{source.path} has no column {', '.join(map(repr, names))}; it has {shown}. {hint}"


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            head = file.read(8)
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {path}. Check the name and the folder.") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    if not head:
        raise SourceError(f"{path} is empty: it has no header and no rows. Check how it was made.")
    return head


def _open_folder(path: Path) -> Source:
    """All Parquet files of a folder and its folders, as Spark and Dask write them, as one table."""
    import pyarrow as pa

    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name[0] not in "._"]
    if not files:
        raise SourceError(f"{path} is an empty folder. Pass a file, or a folder of Parquet files.")
    if other := [file for file in files if _head(file)[:4] != b"PAR1"]:
        raise SourceError(
            f"{path} is a folder, and {other[0].relative_to(path)} in it is no Parquet file. Pass one file (CSV, "
            "TSV, Parquet or Arrow), or a folder that holds Parquet files only."
        )
    try:
        table = file_table(path)
        _check_alike(path, table)
        return Source(
            path, "parquet", tuple(table.columns), table.dataset.count_rows(), schema=table.dataset.schema
        )
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"A file in the folder {path} cannot be read ({_first_line(error)}). It may have been cut short: copy "
            "it again."
        ) from error


def _check_alike(path: Path, table: FileTable) -> None:
    """Files of a folder must have the columns of the first one."""
    first, *others = table.dataset.get_fragments()
    for other in others:
        missing = set(first.physical_schema.names) - set(other.physical_schema.names)
        if missing:
            raise SourceError(
                f"{Path(other.path).name} in the folder {path} has no column {sorted(missing)[0]!r}, which "
                f"{Path(first.path).name} has. Pass files with the same columns."
            )


def _open_binary(path: Path, kind: str) -> Source:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        if kind == "parquet":
            with pa.parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
                return Source(path, kind, tuple(schema.names), file.metadata.num_rows, schema=schema)
        with _arrow_reader(path) as reader:
            return Source(path, kind, tuple(reader.schema.names), schema=reader.schema)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{path} begins like {kind.capitalize()} but cannot be read ({_first_line(error)}). It may have "
            "been cut short: "
            "copy it again."
        ) from error


def _arrow_reader(path: Path) -> Any:
    import pyarrow as pa

    mapped = pa.memory_map(str(path))
    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        return pa.ipc.open_stream(mapped)


def _open_text(path: Path, *, zipped: bool) -> Source:
    try:
        with _bytes(path, zipped) as file:
            encoding = _encoding(file)
        with _bytes(path, zipped) as file:
            head = file.read(HEAD_BYTES)
    except (EOFError, gzip.BadGzipFile) as error:
        raise SourceError(f"{path} is a damaged gzip file ({error}). Copy it again.") from error
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head).lstrip("\ufeff")
    if head.startswith(b"PAR1"):
        raise SourceError(f"{path} is Parquet inside gzip. Unpack it (gunzip) and pass the Parquet file.")
    if any(ord(character) < 32 and character not in "\t\r\n" for character in text[:1000]):
        raise SourceError(f"{path} is no text and no known table format. Pass CSV, TSV, Parquet or Arrow.")
    separator = _separator(text)
    names = next(csv.reader(io.StringIO(text), delimiter=separator), [])
    if not names:
        raise SourceError(f"{path} has no header. The first line must name the columns.")
    return Source(
        path,
        "csv",
        tuple(name.strip() for name in names),
        separator=separator,
        encoding=encoding,
        zipped=zipped,
        raw_names=tuple(names),
        # pyarrow takes a header without the end of its line for no header.
        header_only="\n" not in text and "\r" not in text and len(head) < HEAD_BYTES,
    )


def _bytes(path: Path, zipped: bool) -> IO[bytes]:
    return gzip.open(path, "rb") if zipped else open(path, "rb")  # type: ignore[return-value]


def _encoding(file: IO[bytes]) -> str:
    """The encoding of a text: by its mark, else UTF-8 if all of it is, else that of old programs."""
    chunk = file.read(CHUNK_BYTES)
    if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if chunk[1:200:2].count(0) > 0.4 * len(chunk[1:200:2]):
        return "utf-16-le"
    if chunk[0:200:2].count(0) > 0.4 * len(chunk[0:200:2]):
        return "utf-16-be"
    decoder, is_utf8, is_cp1252 = codecs.getincrementaldecoder("utf-8")(), True, True
    undefined = b"\x81\x8d\x8f\x90\x9d"
    while chunk and (is_utf8 or is_cp1252):
        following = file.read(CHUNK_BYTES)
        if is_utf8:
            try:
                decoder.decode(chunk, final=not following)
            except UnicodeDecodeError:
                is_utf8 = False
        is_cp1252 = is_cp1252 and not any(byte in chunk for byte in undefined)
        chunk = following
    return "utf-8" if is_utf8 else "cp1252" if is_cp1252 else "latin-1"


def _separator(text: str) -> str:
    """The separator that cuts the first lines into most columns, evenly."""
    lines = text.splitlines(keepends=True)[:50]
    lines = lines[:-1] if len(lines) > 1 and not lines[-1].endswith(("\n", "\r")) else lines

    def score(separator: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        if not widths or widths[0] < 2:
            return (0.0, 0)
        return (sum(width == widths[0] for width in widths) / len(widths), widths[0])

    return max(SEPARATORS, key=score)


def _check_names(source: Source) -> None:
    twice = [name for name, count in Counter(source.columns).items() if count > 1]
    if twice:
        shown = ", ".join(map(repr, twice[:5])) + (f" and {len(twice) - 5} more" if len(twice) > 5 else "")
        raise SourceError(
            f"{source.path} has more than one column named {shown}, so it is not clear which one is meant. "
            "Rename or remove "
            "the copies."
        )


def _explained(error: BaseException, source: Source) -> str:
    reason = _first_line(error)
    if "Expected" in reason and "columns, got" in reason:
        return (
            f"{source.path} has a row with another number of cells than its header ({reason}). Check the "
            "quoting of cells that "
            f"hold a {source.separator!r}, or how the file was made."
        )
    return f"{source.path} cannot be read to its end: {reason}. It may be damaged: copy or export it again."


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    shown = text[0] if text else type(error).__name__
    return shown if len(shown) <= 200 else shown[:200] + "…"
