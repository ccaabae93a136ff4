"""The folder of the jobs: private, used by one page at a time, with names that no upload chooses."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from groupshift.cli.errors import InputError
from groupshift.serve.jobs import NOT_HERE, SLOTS, TASK_NAMES, Job, Refused, Settings, TaskState
from groupshift.tables.files import write_whole

JOB_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
# What a job writes beside the files that it was given.
MODEL, BEFORE, REPORT, KNOWN = "model.gshift", "before.gshift", "report.html", "known_shares.csv"
OUTPUTS = (
    *(MODEL, BEFORE, REPORT, KNOWN),
    *(f"{table}{ending}" for table in ("shares", "predictions") for ending in (".csv", ".xlsx")),
)
LONGEST_NAME = 80
LOCK = ".groupshift-serve"
SPOILT = "The record of this job is damaged, or names files that are not its own. Start the job again from its files."
ELSEWHERE = "Name a folder of your own, or leave --folder out."


class JobsFolder:
    """Jobs by their id. Only the page's process writes `job.json`; workers write beside it."""

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    def opened(cls, path: Path) -> JobsFolder:
        """A folder that is there or made; refused where another user could change it, or another page uses it."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for above in path.parents:
            # Who can write there can put another folder in this one's place.
            if above.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                raise InputError(
                    f"Everybody can write to {above}, and so could replace your jobs. {ELSEWHERE}"
                )
        _check_own(path)
        jobs = [home for home in path.iterdir() if JOB_ID.fullmatch(home.name) or home.name == LOCK]
        for found in jobs:
            _check_own(found)
            for inside in found.rglob("*"):
                _check_own(inside)
        _lock(path)
        folder = cls(path)
        folder._end_what_was_open()
        return folder

    def new(self, kind: str, parent: str | None = None) -> Job:
        now = time.strftime("%Y%m%d-%H%M%S")
        job = Job(f"{now}-{secrets.token_hex(4)}", kind, time.strftime("%Y-%m-%d %H:%M"), parent=parent)
        self.home(job.id).mkdir(mode=0o700)
        self.files(job.id).mkdir(mode=0o700)
        return self.keep(job)

    def keep(self, job: Job) -> Job:
        write_whole(self.home(job.id) / "job.json", job.to_json(), force=True)
        return job

    def get(self, job_id: str) -> Job:
        """A job by its record, which may come from elsewhere: refused where it names what is not the job's own."""
        if JOB_ID.fullmatch(job_id) is None or not (self.home(job_id) / "job.json").is_file():
            raise Refused(404, NOT_HERE)
        try:
            job = Job.from_json((self.home(job_id) / "job.json").read_text(encoding="utf-8"))
            names = [safe_name(name) for name in job.files.values()]
            is_own = (
                (job.id == job_id and job.kind in ("fit", "update") and job.tasks.keys() <= set(TASK_NAMES))
                and (job.files.keys() <= set(SLOTS) and names == list(job.files.values()))
                and (job.parent is None or JOB_ID.fullmatch(job.parent) is not None)
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError, Refused) as error:
            raise Refused(409, SPOILT) from error
        if not is_own:
            raise Refused(409, SPOILT)
        return job

    def all(self) -> list[Job]:
        """Jobs, newest first; what cannot be read is no job."""
        found = []
        for home in sorted(self.path.iterdir(), reverse=True):
            if JOB_ID.fullmatch(home.name):
                with suppress(OSError, Refused):
                    found.append(self.get(home.name))
        return found

    def remove(self, job_id: str) -> None:
        shutil.rmtree(self.home(self.get(job_id).id))

    def home(self, job_id: str) -> Path:
        return self.path / job_id

    def files(self, job_id: str) -> Path:
        """Where a job's commands run: its files and what is made of them."""
        return self.home(job_id) / "files"

    def again(self, job: Job) -> Job:
        """A new job with the same files and settings; the old one is kept as it is."""
        copy = self.new(job.kind, job.parent)
        for name in [*job.paths, *([BEFORE] if job.kind == "update" else [])]:
            link(self.files(job.id) / name, self.files(copy.id) / name)
        look = self.home(job.id) / "look.json"
        tasks = {}
        if look.exists():
            link(look, self.home(copy.id) / look.name)
            tasks = {"look": TaskState("done")}
        return self.keep(replace(copy, files=job.files, settings=job.settings, tasks=tasks))

    def update_of(self, job: Job) -> Job:
        """A new job that will update the model of another."""
        if not (self.files(job.id) / MODEL).is_file():
            raise Refused(409, "This job has no model yet. Fit one first, then update it.")
        copy = self.new("update", job.id)
        link(self.files(job.id) / MODEL, self.files(copy.id) / BEFORE)
        return self.keep(replace(copy, settings=Settings(job.settings.roles)))

    def _end_what_was_open(self) -> None:
        """Work of an earlier page ended with it."""
        closed = TaskState(
            "stopped", "The page was closed while this was under way. Its files are here: start it again."
        )
        for job in self.all():
            if is_open := [task for task, state in job.tasks.items() if state.is_open]:
                self.keep(replace(job, tasks={**job.tasks, **dict.fromkeys(is_open, closed)}))


def safe_name(name: str, taken: tuple[str, ...] = ()) -> str:
    """A name for an upload: its own, less what could be a path, an option or markup, and taken by no other file.

    >>> safe_name("../../etc/passwd"), safe_name("-o <b>.csv"), safe_name("shares.csv")
    ('passwd', '_o _b_.csv', 'shares-2.csv')
    """
    base = re.split(r"[/\\\\]", name)[-1]
    base = re.sub(r"[^\w. ()+=@,-]", "_", base).strip()
    base = re.sub(r"^[.-]+", "_", base) or "file"
    stem, dot, ending = base.rpartition(".")
    stem, ending = (stem, ending) if dot else (base, "")
    stem, ending = stem[: LONGEST_NAME - 20], dot + ending[:10]
    used = {other.lower() for other in (*taken, *OUTPUTS)}
    found, number = stem + ending, 1
    while found.lower() in used:
        number += 1
        found = f"{stem}-{number}{ending}"
    return found


def link(source: Path, target: Path) -> None:
    """The same file under a second name, without a copy where the system allows it; jobs never change a file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _check_own(path: Path) -> None:
    """Refuse what another user could change, or what may lead out of the folder."""
    found = path.lstat()
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise InputError(f"{path} is a link or a device, and no job makes one. Remove it. {ELSEWHERE}")
    others = stat.S_IWGRP | stat.S_IWOTH
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & others):
        raise InputError(
            f"Others can write to {path}, and so could change your jobs. Take that from them (chmod -R go-w). {ELSEWHERE}"
        )


def _lock(path: Path) -> None:
    """Held while the process lives; two pages would overwrite each other's jobs."""
    try:
        import fcntl
    except ImportError:  # Windows has no such lock
        return
    descriptor = os.open(path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InputError(
            f"Another `groupshift serve` uses the folder {path}. Use its page, or name another --folder."
        ) from error
