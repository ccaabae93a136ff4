"""Files packed with gzip, bzip2 or xz: told by their first bytes when read, by the end of their name when written."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

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
