"""One task at a time, each in a process of its own: what happens to it is a state and a sentence of its job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from groupshift.serve.jobs import Job, JobsFolder, Refused, Settings, TaskState

STOPPED = TaskState("stopped", "Stopped. The files are kept: change what you like, and start it again.")
LOST = (
    "The process that did this work came to an unexpected end ({how}). The page and your files are as they were: start "
    "it again. If it happens again, other programs may need the memory, or the files are too large for this machine."
)
# A job and a task of it.
Ticket = tuple[str, str]


class WorkQueue:
    """Tasks that wait, and the one that runs. Everything here happens in the page's event loop."""

    def __init__(self, folder: JobsFolder):
        self.folder = folder
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._stopped = False
        self._wake = asyncio.Event()

    def put(self, job: Job, task: str) -> Job:
        """Queue a task; one that waits or runs already is not queued twice."""
        if job.state(task).is_open:
            raise Refused(409, "This is under way already. Wait for it, or stop it first.")
        return self.renew(job, task)

    def renew(self, job: Job, task: str) -> Job:
        """Queue a task whose settings have changed; where it runs already, it begins again."""
        ticket = job.id, task
        why = ""
        if self._running == ticket:
            self._end_running()
        elif self._running is not None:
            other = self.folder.get(self._running[0]).title
            why = f"Waits: the work on {other} comes first, and there is one at a time. It begins by itself."
        if ticket not in self._waiting:
            self._waiting.append(ticket)
        self._wake.set()
        return self.folder.keep(job.with_task(task, TaskState("waiting", why)))

    def stop(self, job: Job) -> Job:
        """End what a job has waiting or running; outputs are whole or not there."""
        self._waiting = deque(ticket for ticket in self._waiting if ticket[0] != job.id)
        if self.works_on(job.id):
            self._end_running()
        waiting = {task: STOPPED for task, state in job.tasks.items() if state.status == "waiting"}
        return self.folder.keep(replace(job, tasks={**job.tasks, **waiting}))

    def works_on(self, job_id: str) -> bool:
        return self._running is not None and self._running[0] == job_id

    async def run(self) -> None:
        """Work off the queue until cancelled; then what runs is ended too."""
        try:
            while True:
                await self._wake.wait()
                while self._waiting:
                    self._running = self._waiting.popleft()
                    await self._work(self._running)
                    self._running = None
                self._wake.clear()
        finally:
            self._kill()

    async def _work(self, ticket: Ticket) -> None:
        self._stopped = False
        home, task = self.folder.home(ticket[0]), ticket[1]
        try:
            self._set(ticket, TaskState("running"))
            with open(home / f"{task}.log", "wb") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "groupshift.serve.job_process", str(home), task),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    # No module is ever imported from the folder of the uploads.
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                    start_new_session=True,
                )
            if self._stopped:
                self._kill()
            code = await self._process.wait()
            self._process = None
            if ticket not in self._waiting:
                self._set(ticket, STOPPED if self._stopped else outcome(code, home / f"{task}.jsonl"))
        except (Refused, OSError, ValueError) as error:
            # The job was removed meanwhile, or its folder is full: others go on.
            with suppress(Refused, OSError, ValueError):
                self._set(ticket, TaskState("failed", LOST.format(how=type(error).__name__)))

    def _set(self, ticket: Ticket, state: TaskState) -> None:
        job = self.folder.get(ticket[0]).with_task(ticket[1], state)
        look = self.folder.home(job.id) / "look.json"
        if ticket[1] == "look" and state.status == "done" and not job.settings.roles:
            guess = json.loads(look.read_text(encoding="utf-8"))["guess"]
            # A column whose name no page can send back is left to the user to rename.
            with suppress(Refused):
                job = replace(job, settings=Settings.from_json({"roles": guess}))
        self.folder.keep(job)

    def _end_running(self) -> None:
        self._stopped = True
        self._kill()

    def _kill(self) -> None:
        """End the process and whatever it started."""
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def outcome(code: int, events: Path) -> TaskState:
    """The state that an exit code and the last words of a process make."""
    if code == 0:
        return TaskState("done")
    if said := [event["text"] for event in read_events(events) if event["kind"] == "error"]:
        return TaskState("failed", said[-1])
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    if code == -9:
        how += ", as when memory runs out"
    return TaskState("failed", LOST.format(how=how))


def read_events(path: Path) -> list[dict[str, str]]:
    """What a process has said so far; a line that is not complete yet is left for the next time."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]
