"""Start and end of the page: a socket of this machine, a token, a private folder, a browser."""

from __future__ import annotations

import html
import os
import secrets
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from groupshift.cli.errors import InputError
from groupshift.cli.screen import Screen, bold
from groupshift.serve.guard import GIGA

LOOPBACK = "127.0.0.1"
OPENER = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">groupshift</a>'


def serve(folder: str | None, port: int, browser: bool, max_upload: float) -> None:
    try:
        import uvicorn

        from groupshift.serve.guard import Connection
        from groupshift.serve.jobs import JobsFolder
        from groupshift.serve.web import make_app
    except ImportError as error:
        raise InputError(
            f'The page needs {error.name}. Install it with: pip install "groupshift[serve]"'
        ) from error
    if max_upload <= 0:
        raise InputError(f"--max-upload {max_upload:g} lets no file in. Pass a size in GB, such as 4.")
    # What is written from here on is for this user alone.
    os.umask(0o077)
    # Ends like Ctrl-C: whoever stops the page by its process number leaves no temporary folder either.
    signal.signal(signal.SIGTERM, _interrupt)
    screen = Screen()
    token = secrets.token_urlsafe(32)
    with _socket(port) as listening, _folder(folder) as home, tempfile.TemporaryDirectory() as private:
        number = listening.getsockname()[1]
        address = f"http://{LOOPBACK}:{number}/{token}/"
        jobs = JobsFolder.opened(home)
        app = make_app(jobs, token=token, port=number, most_upload=int(max_upload * GIGA))
        screen.say("The page is at ", bold(address))
        screen.say("The address is the key to it: it works on this machine alone, and is for nobody else.")
        kept = (
            f"Jobs are kept in {home}."
            if folder
            else "Jobs are kept until you end this (--folder keeps them)."
        )
        screen.say(f"{kept} End with Ctrl-C.")
        if browser:
            _open(address, Path(private))
        settings = uvicorn.Config(
            app,
            http=Connection,
            log_level="error",  # anybody on this machine can send what is worth a warning
            access_log=False,  # addresses hold the token
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=1,
        )
        try:
            uvicorn.Server(settings).run(sockets=[listening])
        except KeyboardInterrupt:
            screen.say("Closed.")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _socket(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        # Who follows the address at once waits a moment, and is not refused.
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"Port {port} is not free. Name another with --port, or leave it out for a free one."
        ) from error
    return listening


@contextmanager
def _folder(named: str | None) -> Iterator[Path]:
    """The folder that the user named, or a temporary one that is removed at the end."""
    if named is not None:
        yield Path(named).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="groupshift-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def _open(address: str, private: Path) -> None:
    """Open the browser by a file that only this user can read: everybody can see the arguments of a process."""
    opener = private / "groupshift.html"
    opener.write_text(OPENER.format(html.escape(address)), encoding="utf-8")
    webbrowser.open(opener.as_uri())
