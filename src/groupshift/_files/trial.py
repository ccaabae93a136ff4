"""A model of a file is tried in a process of its own: what kills a process costs an error, and not the caller.

Python starts the process once, at the first file that this process did not write itself; it waits for further files until its
caller ends. Files travel through a pipe, so that what was tried is what is loaded.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import select
import struct
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import IO, Any

import narwhals as nw
import numpy as np

from groupshift._files.sound import UnsoundError

# Seconds that a file may take, and more for each megabyte.
LEAST_SECONDS, SECONDS_PER_MB = 60.0, 2.0
THE_FILE = "the file"
# Files that need no trial: this process wrote them, or has tried them.
_known: set[bytes] = set()
_lock = threading.Lock()
_process: subprocess.Popen[bytes] | None = None


def is_known(data: bytes) -> bool:
    return hashlib.sha256(data).digest() in _known


def remember(data: bytes) -> None:
    """Files of these bytes need no trial in this process."""
    _known.add(hashlib.sha256(data).digest())


def tried(data: bytes) -> str | None:
    """What is wrong with a model file, found out in another process; None if nothing is."""
    global _process
    with _lock:
        if _process is None or _process.poll() is not None:
            _process = _started()
        own = _process
        assert own.stdin is not None
        assert own.stdout is not None
        try:
            own.stdin.write(struct.pack("<Q", len(data)) + data)
            own.stdin.flush()
            limit = LEAST_SECONDS + SECONDS_PER_MB * len(data) / 1e6
            line = own.stdout.readline() if _answers(own.stdout, limit) else None
        except BrokenPipeError:
            line = b""
        if line:
            problem: str | None = json.loads(line)
        else:
            own.kill()
            code = own.wait()
            how = f"took more than {limit:.0f} seconds" if line is None else f"ended its process ({code})"
            problem = refusal(f"what was asked of it {how}")
        if problem is None:
            remember(data)
        return problem


def refusal(why: str) -> str:
    """What is said of `THE_FILE`."""
    return f"{THE_FILE} is refused: {why}. No fit ends in such a model: fit it again."


def _started() -> subprocess.Popen[bytes]:
    # Whoever imported this package from a folder of its own finds it there again; warnings are for the caller.
    own = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-c", "from groupshift._files.trial import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **own},
    )


@atexit.register
def _stop() -> None:
    if _process is not None:
        _process.kill()
        _process.communicate()


def _forget() -> None:
    """A copy of this process has no trial of its own yet."""
    global _process
    _process = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _answers(pipe: IO[bytes], seconds: float) -> bool:
    """Whether there is something to read in time; where pipes cannot be watched, whatever time it takes."""
    return os.name == "nt" or bool(select.select([pipe], [], [], seconds)[0])


def try_model(model: Any) -> None:
    """Ask a model for all that it can say: parts that do not fit together show it here and not at the first batch."""
    table, is_exact = _example(model)
    groups = None
    if model.schema_.has_groups:
        known = getattr(model, "groups_", ())
        groups = np.asarray(
            [*known[:1], *known[-1:]] if len(known) else [0, 0], getattr(known, "dtype", None)
        )
    try:
        answer = model.predict_proba(table, groups=groups)
    except (ValueError, TypeError, KeyError):
        if is_exact:
            raise
    else:
        if np.shape(answer) != (2, len(model.classes_)) or not np.isfinite(answer).all():
            raise UnsoundError("it has no answer to a row")
    if hasattr(model, "diagnose"):
        model.group_shares()
        model.diagnose()
        model.summary()
        model._repr_html_()
        # Where nothing makes reports, none can be asked for.
        if find_spec("jinja2") is not None:
            from groupshift._diagnosis.report.page import render_report

            render_report(model)


def _example(model: Any) -> tuple[Any, bool]:
    """Two rows like those of the fit, and whether columns hold values of the types that they had."""
    encoder, schema = model.encoder_, model.schema_
    learned = getattr(model, "learned_", None)
    typical = np.zeros(len(encoder.names_)) if learned is None else learned.typical
    if schema.library is None:
        return np.repeat(typical[None].astype(float), 2, axis=0), True
    columns: dict[str, list[object]] = {}
    for name, kind, known, value in zip(
        encoder.names_, encoder.kinds_, encoder.categories_, typical, strict=True
    ):
        one: object = float(value)
        if kind == "category":
            one = known[int(value)] if 0 <= value < len(known) else "other"
        elif kind == "boolean":
            one = bool(value)
        elif kind == "date":
            one = (np.datetime64("1970-01-01T00:00:00") + np.timedelta64(int(value * 86400), "s")).item()
        columns[name] = [one, one]
    return nw.from_dict(columns, backend=schema.library).to_native(), schema.takes_matrix


def serve() -> None:
    """Try files from the standard input, until it ends."""
    from groupshift._files.model_files import ModelFileError, made

    # What a model prints is no answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    while head := sys.stdin.buffer.read(8):
        data = sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
        problem = None
        try:
            try_model(made(data, THE_FILE))
        except ModelFileError as error:
            problem = str(error)
        except Exception as error:
            is_ours = isinstance(error, UnsoundError)
            problem = refusal(str(error) if is_ours else f"{type(error).__name__}: {error}")
        answers.write(json.dumps(problem).encode() + b"\n")
        answers.flush()
