"""The process that does a job's work: `python -P -m groupshift.serve.job_process FOLDER TASK`.

What it has to say goes to `TASK.jsonl` in the job's folder, a line each; what it found to JSON files beside it. It ends
when the page's process does, whose end of the pipe on standard input closes then.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

# Seconds between two lines about one step: nobody reads faster.
BETWEEN_LINES = 0.4


def said_to(file: TextIO) -> Callable[[str, str], None]:
    """What writes what is said, a line of JSON each: its kind, and the text."""
    step, last = "", 0.0

    def say(kind: str, text: str) -> None:
        nonlocal step, last
        if kind == "step":
            name, now = text.partition(":")[0], time.monotonic()
            if name == step and now - last < BETWEEN_LINES:
                return
            step, last = name, now
        file.write(json.dumps({"kind": kind, "text": text}) + "\n")
        file.flush()

    return say


def main(home: Path, task: str) -> int:
    """The exit code of the task: 0, 2 for what the user can put right, 1 for a fault of ours."""
    threading.Thread(target=_end_with_the_page, daemon=True).start()
    with open(home / f"{task}.jsonl", "w", encoding="utf-8") as file:
        say = said_to(file)
        say("step", "Starting")
        # Late, since it takes seconds: the page can say already that something happens. What is read stays: to look for garbage
        # among it took a tenth of the time.
        gc.disable()
        from groupshift.cli.errors import guarded
        from groupshift.cli.screen import Screen
        from groupshift.serve.jobs import JobsFolder
        from groupshift.serve.tasks import TASKS

        gc.enable()

        job = JobsFolder(home.parent).get(home.name)
        # Names in commands, and so in sentences, are those of the files alone.
        os.chdir(home / "files")
        with Screen.heard_by(say):
            return guarded(lambda: TASKS[task](job, home))


def _end_with_the_page() -> None:
    # Not through sys.stdin, whose lock would be held when Python ends.
    while os.read(0, 1):
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
