"""Table files that were damaged, by accident or by intent, and a command to meet each of them."""

import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

OF_LINES = ("csv", "tsv", "jsonl")
# Half of the attempts are of the formats that most people have.
ENDINGS = (*("csv", "tsv", "parquet", "arrow", "csv.gz") * 2, "jsonl", "csv.bz2", "csv.xz")
ENDINGS = (*ENDINGS, "xlsx", "dta", "sav", "xpt", "db", "duckdb")
JUNK = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
    b'"',
    b"'",
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"NaN",
    b"inf",
    b"-inf",
    b"1e999",
    b"1e308",
    b"99999999999999999999999",
    b"=cmd|' /C calc'!A0",
    "é".encode("latin-1"),
    "é".encode(),
    "\u202e".encode(),
    b"PK\x03\x04",
    b"PAR1",
    b"ARROW1",
    b"a" * 200_000,
    b"," * 3_000,
)


def _text(data: bytes) -> list[bytes]:
    return data.split(b"\n")


def flip(rng: np.random.Generator, data: bytes) -> bytes:
    """A few bits turned."""
    damaged = bytearray(data)
    for at in rng.integers(0, len(damaged), int(rng.integers(1, 6))):
        damaged[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(damaged)


def cut(rng: np.random.Generator, data: bytes) -> bytes:
    start, stop = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    return [data[:start], data[start:], data[:start] + data[stop:]][int(rng.integers(0, 3))]


def insert(rng: np.random.Generator, data: bytes) -> bytes:
    at = int(rng.integers(0, len(data) + 1))
    return data[:at] + JUNK[int(rng.integers(0, len(JUNK)))] * int(rng.integers(1, 4)) + data[at:]


def overwrite(rng: np.random.Generator, data: bytes) -> bytes:
    at = int(rng.integers(0, len(data)))
    junk = JUNK[int(rng.integers(0, len(JUNK)))][:64]
    return data[:at] + junk + data[at + len(junk) :]


def in_lines(rng: np.random.Generator, data: bytes) -> bytes:
    """Lines lost, repeated, emptied or exchanged."""
    lines = _text(data)
    at, other = (int(i) for i in rng.integers(0, len(lines), 2))
    how = int(rng.integers(0, 5))
    if how == 0:
        del lines[at]
    elif how == 1:
        lines[at:at] = [lines[other]] * int(rng.integers(1, 5))
    elif how == 2:
        lines[at] = b""
    elif how == 3:
        lines[0], lines[at] = lines[at], lines[0]
    else:
        lines[at] += b"," * int(rng.integers(1, 4))
    return b"\n".join(lines)


def in_cells(rng: np.random.Generator, data: bytes) -> bytes:
    """A whole column, or the cells of some rows, replaced."""
    separator = b"\t" if b"\t" in data[:60] else b","
    rows = [line.split(separator) for line in _text(data)]
    column, junk = int(rng.integers(0, len(rows[0]))), JUNK[int(rng.integers(0, len(JUNK) - 2))]
    is_hit = rng.random(len(rows)) < rng.choice([0.01, 0.2, 1.0])
    for row, hit in zip(rows[1:], is_hit[1:], strict=True):
        if hit and column < len(row):
            row[column] = junk if rng.random() < 0.7 else b""
    return b"\n".join(separator.join(row) for row in rows)


def recoded(rng: np.random.Generator, data: bytes) -> bytes:
    """Another encoding, another line end, another separator."""
    text = data.decode(errors="replace")
    how = int(rng.integers(0, 6))
    if how < 3:
        return text.encode(["utf-16", "cp1252", "utf-8-sig"][how], errors="replace")
    if how < 5:
        return text.replace("\n", ["\r", "\r\n"][how - 3]).encode()
    return text.replace(",", ";").replace(".", ",").encode()


def nothing(rng: np.random.Generator, data: bytes) -> bytes:
    first = _text(data)[0]
    return [b"", b"\n", first, first + b"\n", b"\x00" * 100, rng.bytes(500)][int(rng.integers(0, 6))]


ANY = (flip, flip, cut, insert, overwrite)
OF_TEXT = (*ANY, in_lines, in_cells, in_cells, recoded, nothing)


def reads_another_file(path: Path) -> None:
    """A DuckDB file whose view is the content of a file of this machine."""
    import duckdb

    with duckdb.connect(path) as database:
        database.execute(
            "create view people as select content as y, 'a' as g from read_text('/etc/hostname')"
        )


def never_ends(path: Path) -> None:
    """A SQLite file of 8 KB with a view that never ends."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "create view people as with recursive r(n) as (select 1 union all select n + 1 from r) "
            "select n as y, hex(randomblob(100)) as g from r"
        )


def many_rows(path: Path) -> None:
    """A workbook of 160 KB with two million rows."""
    _workbook(path, b"<row><c><v>1</v></c></row>" * 2_000_000)


def one_row_far_below(path: Path) -> None:
    _workbook(path, b'<row r="1"><c><v>1</v></c></row><row r="999999999"><c><v>1</v></c></row>')


def many_blanks(path: Path) -> None:
    """A workbook of a cell of 200 MB."""
    _workbook(path, b"<row><c><v>" + b" " * 200_000_000 + b"1</v></c></row>")


def _workbook(path: Path, rows: bytes) -> None:
    space = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b'<workbook xmlns="' + space + b'"/>')
        sheet = b'<worksheet xmlns="' + space + b'"><sheetData>' + rows + b"</sheetData></worksheet>"
        archive.writestr("xl/worksheets/sheet1.xml", sheet)


# Files that no accident makes.
BUILT: tuple[Callable[[Path], None], ...] = (
    reads_another_file, never_ends, many_rows, one_row_far_below, many_blanks,
)  # fmt: skip


def hostile_file(rng: np.random.Generator, world: Path, folder: Path) -> tuple[Path, list[str]]:
    """A damaged file, one that was built to do harm, and the command that it is given to."""
    if rng.random() < 0.05:
        # Whatever it is, it is called a table.
        path = folder / f"hostile.{ENDINGS[int(rng.integers(0, len(ENDINGS)))]}"
        path.unlink(missing_ok=True)
        BUILT[int(rng.integers(0, len(BUILT)))](path)
        return path, _command(rng, str(path), world, folder)
    ending = ENDINGS[int(rng.integers(0, len(ENDINGS)))]
    data = (world / f"t.{ending}").read_bytes()
    ways = OF_TEXT if ending in OF_LINES else ANY
    for _ in range(int(rng.integers(1, 4))):
        if data:
            data = ways[int(rng.integers(0, len(ways)))](rng, data)
    path = folder / f"hostile.{ending}"
    path.write_bytes(data)
    return path, _command(rng, str(path), world, folder)


def _command(rng: np.random.Generator, path: str, world: Path, folder: Path) -> list[str]:
    model, out = f"{world}/{rng.choice(['boosted', 'forest'])}.gshift", ["--out", f"{folder}/out.csv"]
    how = int(rng.integers(0, 10))
    if how < 4:
        weight = ["--weight", "w"] if how == 0 else []
        return ["check", path, "--target", "y", "--group", "g", "--quick", *weight]
    if how < 8:
        return ["predict", model, path, "--group", "g", *out]
    if how == 8:
        return ["update", model, path, "--group", "g", "--out", f"{folder}/out.gshift"]
    # Columns of two answers, and of four.
    target = str(rng.choice(["y", "town"]))
    return ["fit", path, "--target", target, "--group", "g", "--out", f"{folder}/out.gshift"]
