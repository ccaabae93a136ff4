"""JSON: an object a line, or one list of objects; keys are columns."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO

from groupshift.tables.arrow import SourceError, pa
from groupshift.tables.packed import unpacked
from groupshift.tables.snapshots import tables_of_rows

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
