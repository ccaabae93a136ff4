"""Jobs: their files, what the user chose, how far the work has come, and the commands that do it.

Each is kept as `job.json` in a folder of its own, in a private folder that one page uses at a time. What the page shows is what
its processes run, in the folder of the job's files.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import shlex
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.cli.app import SELECTIONS, as_typed
from groupshift.cli.errors import InputError
from groupshift.tables.files import OutputError, table_format, write_whole

# What a column can be on the page; all but features are named in a command.
OF_ONE_COLUMN = ("target", "group", "weight", "example_id")
ROLES = ("feature", *OF_ONE_COLUMN, "exclude")
SLOTS = ("labeled", "population")
TASK_NAMES = ("look", "fit", "update", "predict.csv", "predict.xlsx")
MOST_COLUMNS = 20_000
MOST_KNOWN = 20_000
LONGEST = 10_000
UNREADABLE = "The page sent something that cannot be read. Load it again."
NOT_HERE = "There is no such job or task here. It may have been removed: go back to the first page."
# No file and no name of a file can hold these: NUL, and halves of a pair of UTF-16.
NO_TEXT = re.compile("[\0\ud800-\udfff]")


class Refused(Exception):
    """A request that is not answered; the sentence says why and what to do."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Settings:
    """What the user chose: roles of columns (those that were clicked), and what is known beside the files."""

    roles: Mapping[str, str] = field(default_factory=dict)
    positive: str | None = None
    selection: str = "unknown"
    known_overall: float | None = None
    known_shares: tuple[dict[str, Any], ...] = ()  # of groups: group, share, std_error (None if not known)

    def named(self, role: str) -> list[str]:
        """Columns of a role."""
        return [column for column, own in self.roles.items() if own == role]

    def one(self, role: str) -> str | None:
        return next(iter(self.named(role)), None)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Settings:
        """Settings as a browser sends them; what makes no sense is refused with a sentence."""
        try:
            roles = {
                checked_text(name): checked_text(own) for name, own in dict(found.get("roles") or {}).items()
            }
            known = list(found.get("known_shares") or ())
            if len(roles) > MOST_COLUMNS or len(known) > MOST_KNOWN:
                raise Refused(
                    413, "These are more columns or known shares than a page holds. Use the command line."
                )
            if unknown := set(roles.values()) - set(ROLES):
                raise Refused(400, f"{sorted(unknown)[0]!r} is no role. Choose one of {', '.join(ROLES)}.")
            if twice := [role for role in OF_ONE_COLUMN if list(roles.values()).count(role) > 1]:
                raise Refused(400, f"Two columns have the role {twice[0]}; one can.")
            if (selection := found.get("selection", "unknown")) not in SELECTIONS:
                raise Refused(400, f"Labels can be chosen in these ways: {', '.join(SELECTIONS)}.")
            if (positive := found.get("positive")) is not None:
                checked_text(positive)
            overall = _share(found.get("known_overall"), "The known overall rate")
            return cls(roles, positive, selection, overall, tuple(map(_known_share, known)))
        except (AttributeError, TypeError, ValueError) as error:
            raise Refused(400, UNREADABLE) from error


@dataclass(frozen=True)
class TaskState:
    """How far a task has come: waiting, running, done, failed or stopped; and a sentence where there is one to say."""

    status: str
    sentence: str = ""

    @property
    def is_open(self) -> bool:
        return self.status in ("waiting", "running")


@dataclass(frozen=True)
class Job:
    """One job, whose kind is its main task: "fit" or "update".

    `files` maps a slot to the name under which its file is kept; `tasks` a task to its state.
    """

    id: str
    kind: str
    created: str
    files: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = Settings()
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    parent: str | None = None

    def state(self, task: str) -> TaskState:
        return self.tasks.get(task, TaskState("new"))

    @property
    def is_done(self) -> bool:
        return self.state(self.kind).status == "done"

    @property
    def is_settled(self) -> bool:
        """Whether files and settings stay as they are: the model is made of them, or being made."""
        return self.is_done or self.state(self.kind).is_open

    @property
    def paths(self) -> list[str]:
        """Names of its files: labelled rows first."""
        return [self.files[slot] for slot in SLOTS if slot in self.files]

    @property
    def title(self) -> str:
        return " and ".join(self.paths) or "no files yet"

    def with_task(self, task: str, state: TaskState) -> Job:
        return replace(self, tasks={**self.tasks, task: state})

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Job:
        found = json.loads(text)
        settings = Settings.from_json(found.pop("settings"))
        tasks = {name: TaskState(**state) for name, state in found.pop("tasks").items()}
        return cls(**found, settings=settings, tasks=tasks)


def checked_text(value: object) -> str:
    """A text of a request that can be written to a file."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise Refused(400, "A name was expected, and something else came. Load the page again.")
    if NO_TEXT.search(value):
        raise Refused(
            400, "A name holds a character that no file can hold. Rename it, and load the page again."
        )
    return value


def _share(value: object, what: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise Refused(400, f"{what} must lie between 0 and 100 %.")
    return float(value)


def _known_share(line: Mapping[str, Any]) -> dict[str, Any]:
    group = checked_text(line.get("group"))
    share = _share(line.get("share"), f"The known share of {group!r}")
    if share is None:
        raise Refused(400, f"The known share of {group!r} is missing. Fill it in, or remove the line.")
    error = _share(line.get("std_error"), f"The standard error of {group!r}")
    return {"group": group, "share": share, "std_error": error}


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
        for home in path.iterdir():
            if JOB_ID.fullmatch(home.name) or home.name == LOCK:
                for found in (home, *home.rglob("*")):
                    _check_own(found)
        _lock(path)
        folder = cls(path)
        # Work of an earlier page ended with it.
        closed = TaskState(
            "stopped", "The page was closed while this was under way. Its files are here: start it again."
        )
        for job in folder.all():
            if is_open := [task for task, state in job.tasks.items() if state.is_open]:
                folder.keep(replace(job, tasks={**job.tasks, **dict.fromkeys(is_open, closed)}))
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
        copy = replace(copy, files=job.files, settings=job.settings)
        if (look := self.home(job.id) / "look.json").exists():
            link(look, self.home(copy.id) / look.name)
            copy = copy.with_task("look", TaskState("done"))
        return self.keep(copy)

    def update_of(self, job: Job) -> Job:
        """A new job that will update the model of another."""
        if not (self.files(job.id) / MODEL).is_file():
            raise Refused(409, "This job has no model yet. Fit one first, then update it.")
        copy = self.new("update", job.id)
        link(self.files(job.id) / MODEL, self.files(copy.id) / BEFORE)
        return self.keep(replace(copy, settings=Settings(job.settings.roles)))


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


# Columns of a file as a look at it found them: the role that each has if nobody says otherwise.
UsualRoles = Mapping[str, str]
# What is taken away is opened in a spreadsheet, where a group called "=…" would be a formula.
FOR_SPREADSHEETS = {".csv": ["--escape-formulas"], ".xlsx": []}
ENDINGS = tuple(FOR_SPREADSHEETS)


def writes(ending: str) -> bool:
    """Whether tables can be written to files of this ending."""
    try:
        return bool(table_format(f"table{ending}"))
    except (OutputError, ImportError):
        return False


def main_arguments(job: Job, usual: UsualRoles) -> list[str]:
    """The command that makes the job's model of its files and settings; features only where one would be left out."""
    settings, options = job.settings, []
    if job.kind == "update":
        if (weight := settings.one("weight")) is not None:
            options = as_typed("weight", weight)
        return ["update", BEFORE, *job.paths, *options, "--out", MODEL]
    if settings.one("target") is None:
        raise Refused(409, "No column is the target yet. Click “target” in the line of the known labels.")
    for role in OF_ONE_COLUMN:
        if (column := settings.one(role)) is not None:
            options += as_typed(role.replace("_", "-"), column)
    for option, columns in zip(("features", "exclude"), feature_lists(settings, usual), strict=True):
        options += as_typed(option, columns) if columns else []
    if settings.positive is not None:
        options += as_typed("positive", settings.positive)
    if settings.selection != "unknown":
        options += ["--selection", settings.selection.replace("_", "-")]
    if settings.known_overall is not None:
        options += ["--known-overall", f"{settings.known_overall:.12g}"]
    if settings.known_shares:
        options += ["--known-shares", KNOWN]
    return ["fit", *job.paths, *options, "--out", MODEL]


def usual_roles(home: Path) -> dict[str, str]:
    """The roles that columns have if nobody says otherwise, as the last look found them."""
    if not (path := home / "look.json").exists():
        return {}
    columns = json.loads(path.read_text(encoding="utf-8"))["columns"]
    return {column["name"]: column["usual"] for column in columns}


def feature_lists(settings: Settings, usual: UsualRoles) -> tuple[list[str], list[str]]:
    """What to name as features and as left out: as little as says what the user clicked."""
    roles = {**usual, **settings.roles}
    if any(usual.get(column) == "exclude" for column in settings.named("feature")):
        return [column for column, role in roles.items() if role == "feature"], []
    return [], [column for column in settings.named("exclude") if usual.get(column) != "exclude"]


def answer_arguments() -> list[list[str]]:
    """The commands that follow it: shares as tables, and the report."""
    options = {ending: FOR_SPREADSHEETS[ending] for ending in ENDINGS if writes(ending)}
    tables = [["shares", MODEL, *own, "--out", f"shares{ending}"] for ending, own in options.items()]
    return [*tables, ["report", MODEL, "--out", REPORT]]


def predict_arguments(job: Job, ending: str) -> list[str]:
    """Predictions of the rows that the shares are of, beside all columns of their file."""
    options = ["--keep", "all", *FOR_SPREADSHEETS[ending]]
    return ["predict", MODEL, job.paths[-1], *options, "--out", f"predictions{ending}"]


def shown(commands: Sequence[Sequence[str]]) -> str:
    """Commands as they are typed in a shell, a line each."""
    return "\n".join(shlex.join(["groupshift", *arguments]) for arguments in commands)


def known_shares_file(settings: Settings) -> str:
    """The table that --known-shares reads."""
    text = io.StringIO()
    # A column without a single number would be one of missing values.
    has_errors = any(line["std_error"] is not None for line in settings.known_shares)
    names = ["group", "share", *(["std_error"] if has_errors else [])]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([names, *([line[name] or 0.0 for name in names] for line in settings.known_shares)])
    return text.getvalue()
