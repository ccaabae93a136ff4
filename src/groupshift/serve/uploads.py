"""Uploads: streamed to a file in the job's folder, bounded in size, there when complete and never before."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from groupshift.serve.jobs import Refused

GIGA = 1024**3
# Room that is left to others on the disk.
SPARED = 256 * 1024**2


async def keep_upload(stream: AsyncIterator[bytes], target: Path, *, length: str | None, most: int) -> None:
    """Write a stream to a file, whole or not at all; refused where it is longer than `most` bytes or the disk is full."""
    room = min(most, shutil.disk_usage(target.parent).free - SPARED)
    if length is not None and length.isdecimal():
        _check_size(int(length), most, room)
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        written = 0
        with open(part, "xb") as file:
            async for piece in stream:
                written += len(piece)
                _check_size(written, most, room)
                file.write(piece)
        if not written:
            raise Refused(
                400, f"{target.name} is empty: it has no header and no rows. Check how it was made."
            )
        os.replace(part, target)
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
