"""Files written whole or not at all, and tables written in batches, in the format that a name asks for."""

from __future__ import annotations

import bz2
import errno
import glob
import gzip
import io
import lzma
import os
import re
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from groupshift._data.extras import check_extra
from groupshift.tables.arrow import pa, pc

if TYPE_CHECKING:
    from typing_extensions import Buffer


MARKS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}
# What an archive may unpack to: that many times its size, and as many bytes more.
MOST_RATIO, MOST_MORE = 100, 100_000_000
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


def packing_of(head: bytes) -> str | None:
    """How a file is packed, by its first bytes.

    >>> packing_of(b"BZh91AY"), packing_of(b"a,b")
    ('bzip2', None)
    """
    return next((name for mark, name in MARKS.items() if head.startswith(mark)), None)


def unpacked(path: Path, packing: str | None) -> IO[bytes]:
    """A file to read, unpacked on the way."""
    openers: dict[str | None, Callable[..., object]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
    return cast(IO[bytes], openers.get(packing, open)(path, "rb"))


def split_name(name: str) -> tuple[str, str | None]:
    """A file name without the ending that says how it is packed, and the packing.

    >>> split_name("shares.csv.xz"), split_name("shares.csv")
    (('shares.csv', 'xz'), ('shares.csv', None))
    """
    for ending, packing in ENDINGS.items():
        if name.lower().endswith(ending):
            return name[: -len(ending)], packing
    return name, None


def packed(file: IO[bytes], packing: str) -> IO[bytes]:
    """A file to write, packed on the way; the same content gives the same bytes."""
    if packing == "gzip":
        # No name and no time inside.
        return cast(IO[bytes], gzip.GzipFile("", "wb", fileobj=file, mtime=0))
    return cast(IO[bytes], bz2.open(file, "wb") if packing == "bzip2" else lzma.open(file, "wb"))


def check_sizes(archive: zipfile.ZipFile, n_bytes: int) -> None:
    """Refuse an archive that unpacks to far more than it holds, before anything is unpacked."""
    unpacked_bytes = sum(entry.file_size for entry in archive.infolist())
    if unpacked_bytes > MOST_RATIO * n_bytes + MOST_MORE:
        raise zipfile.BadZipFile(f"{n_bytes} bytes would unpack to {unpacked_bytes}")


# What a spreadsheet takes for a formula where a cell begins with it, unless the cell is a number.
FORMULA, NUMBER = r"^[=+\-@\t\r]", r"^[+-]?[\d.,]+([eE][+-]?\d+)?%?$"


def without_formulas(table: pa.Table) -> pa.Table:
    """A table whose texts no spreadsheet takes for formulas: an apostrophe stands before them.

    >>> import pyarrow as pa
    >>> without_formulas(pa.table({"g": ["=1+1", "-5", "a"]}))["g"].to_pylist()
    ["'=1+1", '-5', 'a']
    """

    def escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
        is_formula = pc.match_substring_regex(texts, FORMULA)
        is_formula = pc.and_not(is_formula, pc.match_substring_regex(texts, NUMBER))
        return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)

    names = escaped(pa.chunked_array([pa.array(table.column_names, pa.string())])).to_pylist()
    texts = (pa.types.is_string, pa.types.is_large_string)
    columns = [escaped(c) if any(is_text(c.type) for is_text in texts) else c for c in table.columns]
    return pa.table(columns, names=names)


STANDARD_OUTPUT = "-"
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SEPARATORS = {"csv": ",", "tsv": "\t"}
# By the ends of names that ask for them.
# fmt: off
FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".xlsx": "xlsx", ".dta": "dta", ".sav": "sav",
}
# fmt: on
# What text can be is packed too; the other formats pack what they hold themselves.
TEXTS = (*SEPARATORS, "jsonl")
# Packages of extras that write a format.
WRITTEN_BY = {"xlsx": ("openpyxl",), "dta": ("pyreadstat", "pandas"), "sav": ("pyreadstat", "pandas")}
PAGE_ENDINGS = (".html", ".htm")
AnyPath = str | os.PathLike[str]


class OutputError(OSError):
    """An output that cannot be written; the message says why and what to do."""


def check_output(path: AnyPath, *, force: bool = False, inputs: Sequence[AnyPath] = ()) -> None:
    """Refuse an output that could not be written, or would replace what it is made of, before any work is done for it.

    >>> check_output("-")
    >>> try:
    ...     check_output("/no/such/folder/out.csv")
    ... except OutputError as error:
    ...     str(error)
    'Cannot write /no/such/folder/out.csv: the folder /no/such/folder does not exist. Create it, or name
    another place.'
    """
    if _is_stream(path):
        return
    target = Path(path)
    folder = target.parent
    for read in map(Path, inputs):
        if target.exists() and read.exists() and target.samefile(read):
            raise OutputError(f"{target} is read to make the output, and would be lost. Name another file.")
        if read.is_dir() and read.resolve() in target.resolve().parents:
            raise OutputError(
                f"{target} would lie among the files of {read} that are read. Name another place."
            )
    if target.is_dir():
        raise OutputError(f"Cannot write {target}: it is a folder. Name a file in it.")
    if target.exists() and not force:
        raise OutputError(
            f"{target} exists already and is left as it is. Name another file, or pass --force to replace it (in Python, "
            "overwrite=True or force=True)."
        )
    if not folder.is_dir():
        problem = "is no folder" if folder.exists() else "does not exist"
        raise OutputError(
            f"Cannot write {target}: the folder {folder} {problem}. Create it, or name another place."
        )
    if not os.access(folder, os.W_OK):
        raise OutputError(
            f"Cannot write {target}: the folder {folder} is not writable for you. Name another place."
        )


@contextmanager
def whole_file(path: AnyPath, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which appears under its name when the block ends well, and never otherwise.

    Where the system allows it (Linux), the file has no name at all until it is complete, so that even a
    killed process leaves nothing behind. "-" is standard output; a device or pipe is written to as it is.
    """
    check_output(path, force=force)
    try:
        if str(path) == STANDARD_OUTPUT:
            yield cast(IO[bytes], Spelt(sys.stdout.buffer)) if sys.stdout.isatty() else sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif _is_device(path):
            with open(path, "wb") as file:
                yield file
        else:
            file_of = _unnamed_file if _has_unnamed_files() else _hidden_file
            with file_of(Path(path), force) as file:
                yield file
    except OSError as error:
        raise _explained(error, path) from error


class Spelt(io.RawIOBase):
    """Text for a terminal: what would steer it is spelt out."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        text = bytes(data).decode(errors="replace")
        self._file.write(spelt(text, keep="\n\r\t").encode())
        return len(bytes(data))

    def flush(self) -> None:
        self._file.flush()


def spelt(text: str, keep: str = "\n") -> str:
    r"""Text in which characters that steer a terminal, or turn the direction of reading, are written as their codes.

    >>> spelt("\x1b[31mred")
    '\\x1b[31mred'
    """
    return STEERING.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def write_whole(path: AnyPath, content: str | bytes, *, force: bool = False) -> None:
    """Write text (as UTF-8) or bytes to a file, whole or not at all."""
    with whole_file(path, force=force) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def table_format(path: AnyPath) -> str:
    """What a file name asks for, such as "csv" or "parquet"; standard output and devices are CSV.

    A format whose package is not installed is refused.

    >>> table_format("shares.csv.gz"), table_format("p.parquet"), table_format("-")
    ('csv', 'parquet', 'csv')
    """
    if _is_stream(path):
        return "csv"
    name, packing = split_name(Path(path).name)
    found = FORMATS.get(Path(name).suffix.lower())
    if found is None or (packing is not None and found not in TEXTS):
        raise OutputError(
            f"Cannot tell what kind of file {path} should be. End its name in .csv, .tsv, .jsonl (also with .gz, .bz2 or "
            ".xz), .parquet, .arrow, .xlsx, .dta or .sav."
        )
    for package in WRITTEN_BY.get(found, ()):
        check_extra(package)
    return found


def check_page_name(path: AnyPath) -> None:
    """Refuse a name under which nobody would look for an HTML page; standard output and devices have none.

    >>> check_page_name("report.html")
    >>> try:
    ...     check_page_name("report.pdf")
    ... except OutputError as error:
    ...     str(error)
    'A report is one HTML page, and report.pdf is no name for one. End it in .html; a browser prints it as
    PDF.'
    """
    if _is_stream(path):
        return
    if Path(path).suffix.lower() not in PAGE_ENDINGS:
        raise OutputError(
            f"A report is one HTML page, and {path} is no name for one. End it in .html; a browser prints it "
            "as PDF."
        )


class TableWriter:
    """Writes tables of one schema below each other; used through `write_batches` and `write_table`."""

    def __init__(self, file: IO[bytes], path: AnyPath, opened: ExitStack, escape_formulas: bool = False):
        self.n_rows = 0
        self._escape_formulas = escape_formulas
        self._file, self._opened, self._path = file, opened, path
        self._format = table_format(path)
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        if self._escape_formulas and self._format in SEPARATORS:
            table = without_formulas(table)
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)
        self.n_rows += table.num_rows

    def _open(self, schema: pa.Schema) -> Any:
        file = self._file
        packing = split_name(Path(self._path).name)[1]
        if packing is not None:
            file = self._opened.enter_context(packed(file, packing))
        if self._format == "parquet":
            # Closed also after an error, while the file is open: one that is left alone writes its end later.
            return self._opened.enter_context(closing(pa.parquet.ParquetWriter(file, schema)))
        if self._format == "arrow":
            return self._opened.enter_context(closing(pa.ipc.new_file(file, schema)))
        if self._format == "jsonl":
            from groupshift.tables.other_programs import JsonLinesWriter

            return JsonLinesWriter(file)
        if self._format in SEPARATORS:
            options = pa.csv.WriteOptions(delimiter=SEPARATORS[self._format], quoting_style="needed")
            return self._opened.enter_context(closing(pa.csv.CSVWriter(file, schema, write_options=options)))
        # Loaded where they are used: they bring scikit-learn, and generators of data do without.
        from groupshift.tables.other_programs import SheetWriter, StatisticsWriter

        # These write all at once, and only what is complete.
        is_sheet = self._format == "xlsx"
        whole = SheetWriter(file, schema.names) if is_sheet else StatisticsWriter(file, self._format)
        self._opened.callback(self._finish, whole)
        return whole

    def _finish(self, whole: Any) -> None:
        try:
            whole.close()
        except OSError:
            raise
        # Of the package that writes the format, about names or values that it does not know.
        except Exception as error:
            reason = str(error).strip().rstrip(".")
            raise OutputError(
                f"Cannot write {self._path}: {reason}. Rename what it names, or write .csv or .parquet."
            ) from error


@contextmanager
def write_batches(
    path: AnyPath, *, force: bool = False, escape_formulas: bool = False
) -> Iterator[TableWriter]:
    """A writer of tables to one file, which appears when the block ends well."""
    table_format(path)
    with whole_file(path, force=force) as file, ExitStack() as opened:
        yield TableWriter(file, path, opened, escape_formulas)


def write_table(
    table: pa.Table, path: AnyPath, *, force: bool = False, escape_formulas: bool = False
) -> None:
    """Write one Arrow table."""
    with write_batches(path, force=force, escape_formulas=escape_formulas) as writer:
        writer.write(table)


def kind_of(path: AnyPath) -> str:
    """What lies under a name, for a sentence about it."""
    mode = os.stat(path).st_mode
    kinds = {
        stat.S_ISREG: "a file",
        stat.S_ISDIR: "a folder",
        stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((kind for is_one, kind in kinds.items() if is_one(mode)), "a device")


def _is_stream(path: AnyPath) -> bool:
    """Whether a path is standard output or a device, of which nothing is asked."""
    return str(path) == STANDARD_OUTPUT or _is_device(path)


def _is_device(path: AnyPath) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _has_unnamed_files() -> bool:
    return hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")


@contextmanager
def _unnamed_file(target: Path, force: bool) -> Iterator[IO[bytes]]:
    try:
        descriptor = os.open(target.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError as error:
        # Some network file systems have no unnamed files.
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
        with _hidden_file(target, force) as file:
            yield file
        return
    with os.fdopen(descriptor, "w+b") as file:
        yield file
        file.flush()
        os.fsync(descriptor)
        _name(descriptor, target, force)


def _name(descriptor: int, target: Path, force: bool) -> None:
    """Give a complete file its name. A link never replaces a file, even one that came up meanwhile."""
    name = f".{target.name}.{os.getpid()}.new" if force else target.name
    folder = os.open(target.parent, os.O_DIRECTORY)
    clean(target.parent, target.name)
    try:
        # Only with a folder's descriptor does Python make the system call that follows the link in /proc.
        os.link(
            f"/proc/self/fd/{descriptor}", name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True
        )
        if force:
            _replace(name, target.name, folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def _replace(name: str, target: str, folder: int) -> None:
    try:
        os.replace(name, target, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise


def clean(folder: Path, name: str = "*") -> None:
    """Remove what processes that are gone left of outputs: files called .NAME.PROCESS.new, and nothing else."""
    for left in folder.glob(f".{glob.escape(name) if name != '*' else name}.*.new"):
        found = re.fullmatch(r"\..*?\.(\d+)(\.\w+)?\.new", left.name, re.DOTALL)
        if found and not _is_alive(int(found[1])):
            left.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


@contextmanager
def _hidden_file(target: Path, force: bool) -> Iterator[IO[bytes]]:
    clean(target.parent, target.name)
    descriptor, name = tempfile.mkstemp(
        prefix=f".{target.name}.{os.getpid()}.", suffix=".new", dir=target.parent
    )
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        if not force:
            check_output(target)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _explained(error: OSError, path: AnyPath) -> OSError:
    if isinstance(error, (OutputError, BrokenPipeError)) or error.errno is None:
        return error
    shown = "standard output" if str(path) == STANDARD_OUTPUT else str(path)
    if error.errno == errno.EEXIST:
        reason = "it came into being while this ran, and is left as it is. Name another file, or pass --force"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        reason = f"no room is left for it ({os.strerror(error.errno)}). Free some, or name another place"
    else:
        reason = f"{os.strerror(error.errno)}. Name another place"
    return OutputError(f"Cannot write {shown}: {reason}. Nothing was written there.")
