"""CSV as text: the one place that says which separator and encoding a file has, and which cells hold nothing."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from groupshift.tables.arrow import SourceError, pa
from groupshift.tables.files import DAMAGED, unpacked

# What pandas takes for missing in a CSV file, and three marks that statistical programs write.
# fmt: off
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null", ".", "?", "-",
)
# fmt: on
# "NA" is a group (Namibia), and may be a class: of such columns only an empty cell is missing for sure.
MISSING_GROUP = ("",)
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
# Bytes that Windows' encoding does not define.
NOT_CP1252 = b"\x81\x8d\x8f\x90\x9d"
# What the first line of a file begins with that has lines for people above its header.
HEAD_MARK = "# groupshift"
HEAD_BYTES, MAX_HEADER_BYTES = 1 << 18, 1 << 26
CHUNK_BYTES = 1 << 22
# A block must hold a row, and rows of ten thousand columns are long. What is asked of a column of a block takes as long
# for one row as for a thousand: a block has about two thousand rows, or more.
BLOCK_BYTES, BLOCK_BYTES_A_COLUMN = 1 << 22, 1 << 14


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written; `header` has the names of its columns as they stand there."""

    header: tuple[str, ...]
    separator: str
    encoding: str
    packing: str | None
    has_rows: bool
    lines_above: int = 0  # lines for people above the header

    def __str__(self) -> str:
        packed = f", {self.packing}" if self.packing else ""
        return f"CSV, {SEPARATORS[self.separator]}, {self.encoding.upper()}{packed}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.header)

    def cells(self, path: Path, names: Sequence[str]) -> Iterator[pa.Table]:
        """Every cell as text: what a column holds is decided on all its values, not on the first block."""
        if not self.has_rows:
            return
        written = dict(zip(self.columns, self.header, strict=True))
        wanted = [written[name] for name in names]
        block_bytes = max(BLOCK_BYTES, BLOCK_BYTES_A_COLUMN * len(self.header))
        with unpacked(path, self.packing) as file, pa.PythonFile(file, "r") as stream:
            reader = pa.csv.open_csv(
                stream,
                read_options=pa.csv.ReadOptions(
                    block_size=block_bytes, encoding=self.encoding, skip_rows=self.lines_above
                ),
                # An empty line of a single column is a row whose cell is empty.
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.separator, newlines_in_values=True, ignore_empty_lines=len(self.header) > 1
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()),
                    include_columns=wanted,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    yield pa.Table.from_batches([batch]).rename_columns(list(names))


def dialect_of(path: Path, packing: str | None = None) -> Dialect:
    """Look at a text file: how it is written, and which columns it has."""
    try:
        with unpacked(path, packing) as file:
            encoding = _encoding(file, path)
        with unpacked(path, packing) as file:
            head = _head_lines(file)
    except (*DAMAGED, OSError) as error:
        if packing is None:
            raise
        raise SourceError(f"{path} is a damaged {packing} file ({error}). Copy it again.") from error
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head).lstrip("\ufeff")
    if head.startswith(b"PAR1"):
        raise SourceError(f"{path} is Parquet inside {packing}. Unpack it and pass the Parquet file.")
    if any(ord(character) < 32 and character not in "\t\r\n" for character in text[:1000]):
        raise SourceError(f"{path} is no text and no known table format. Pass CSV, TSV, Parquet or Arrow.")
    lines_above = _lines_above(text)
    text = "".join(text.splitlines(keepends=True)[lines_above:]) if lines_above else text
    separator = _separator(text)
    header = _rows(text, separator, 1)
    if not header or not header[0]:
        raise SourceError(f"{path} has no header. The first line must name the columns.")
    # pyarrow takes a header without the end of its line for no header.
    has_rows = "\n" in text or "\r" in text
    return Dialect(tuple(header[0]), separator, encoding, packing, has_rows, lines_above)


def _lines_above(text: str) -> int:
    """Lines for people that we wrote above the header; a spreadsheet may have quoted them.

    Only ours are left out: a header of others may begin with # too.
    """
    if not text.lstrip('"').startswith(HEAD_MARK):
        return 0
    is_above = [line.lstrip('"').startswith("#") for line in text.splitlines()]
    return is_above.index(False) if False in is_above else len(is_above)


def _head_lines(file: IO[bytes]) -> bytes:
    """The first bytes of a text, with its first line whole: a header of many columns is long."""
    head = file.read(HEAD_BYTES)
    while len(head) < MAX_HEADER_BYTES and not any(end in head[:-2] for end in (b"\n", b"\r")):
        more = file.read(HEAD_BYTES)
        head += more
        if not more:
            break
    return head


def _rows(text: str, separator: str, most: int) -> list[list[str]]:
    """The first rows of a text, cut by the separator; none where it is not the one that cuts them."""
    # Line ends of all systems, as they are.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return list(islice(reader, most))
    except csv.Error:
        return []


def _encoding(file: IO[bytes], path: Path) -> str:
    """The encoding of a text: by its mark, else UTF-8 if all of it is, else that of old programs.

    A text that is UTF-8 but for some bytes is refused: read as another encoding, every name in it would be another one.
    """
    chunk = file.read(CHUNK_BYTES)
    if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for name, bytes_of_zero in (("utf-16-le", chunk[1:200:2]), ("utf-16-be", chunk[0:200:2])):
        if bytes_of_zero.count(0) > 0.4 * len(bytes_of_zero):
            return name
    # What is no UTF-8 comes out as a character that no text has: U+DC00 and the byte.
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    n_good = n_bad = n_lines = first_line = 0
    is_cp1252 = True
    while chunk:
        following = file.read(CHUNK_BYTES)
        text = decoder.decode(chunk, final=not following)
        if not text.isascii():
            codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
            bad = np.flatnonzero((codes >= 0xDC80) & (codes <= 0xDCFF))
            n_good += int((codes > 0x7F).sum()) - len(bad)
            if len(bad) and not n_bad:
                first_line = n_lines + text.count("\n", 0, int(bad[0])) + 1
            n_bad += len(bad)
        n_lines += text.count("\n")
        is_cp1252 = is_cp1252 and not any(byte in chunk for byte in NOT_CP1252)
        chunk = following
    if n_good > n_bad > 0:
        raise SourceError(
            f"{path} is UTF-8 but for {n_bad:,} bytes, the first of them in line {first_line:,}. Mend these cells, or write "
            "the whole file in one encoding, such as UTF-8."
        )
    return "utf-8" if not n_bad else "cp1252" if is_cp1252 else "latin-1"


def _separator(text: str) -> str:
    """The separator that cuts the first lines into most columns, evenly."""
    whole = max(text.rfind("\n"), text.rfind("\r")) + 1
    lines = text[:whole] if whole and len(text) >= HEAD_BYTES // 4 else text

    def score(separator: str) -> tuple[float, int]:
        widths = [len(row) for row in _rows(lines, separator, 50) if row]
        if not widths or widths[0] < 2:
            return (0.0, 0)
        return (sum(width == widths[0] for width in widths) / len(widths), widths[0])

    return max(SEPARATORS, key=score)
