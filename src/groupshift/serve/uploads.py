"""Uploads: streamed to a hidden file in the job's folder, bounded in size and time, and named when they are complete."""

from __future__ import annotations

import errno
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.requests import Request

from groupshift.serve.connections import in_time
from groupshift.serve.jobs import Refused

GIGA = 1024**3
# Room that is left to others on the disk.
SPARED = 256 * 1024**2


@asynccontextmanager
async def received(request: Request, folder: Path, *, most: int) -> AsyncIterator[Path]:
    """The body as a file, gone when the block ends unless it is renamed; refused above `most` bytes or on a full disk."""
    room = min(most, shutil.disk_usage(folder).free - SPARED)
    _check_size(int(request.headers.get("content-length", 0)), most, room)
    part = folder / f".{secrets.token_hex(8)}.part"
    try:
        written = 0
        with open(part, "xb") as file:
            async with in_time(request, most):
                async for piece in request.stream():
                    written += len(piece)
                    _check_size(written, most, room)
                    file.write(piece)
        if not written:
            raise Refused(400, "The file is empty: it has no header and no rows. Check how it was made.")
        yield part
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room() from error
        raise
    finally:
        part.unlink(missing_ok=True)


def _check_size(size: int, most: int, room: int) -> None:
    if size > most:
        raise Refused(
            413,
            f"The file is larger than {most / GIGA:g} GB, the most that this page takes. Start `groupshift serve` with a "
            "larger --max-upload, or use the command line, which reads files where they are.",
        )
    if size > room:
        raise _no_room()


def _no_room() -> Refused:
    return Refused(
        507, "The disk has no room for this file. Free some, or name another --folder at the start."
    )
