"""A job: its files, what the user chose, and how far its work has come; kept as `job.json` in a folder of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from groupshift.cli.app import SELECTIONS

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
class KnownShare:
    """The rate of a group that is known from elsewhere, and its standard error if that is known too."""

    group: str
    share: float
    std_error: float | None = None


@dataclass(frozen=True)
class Settings:
    """What the user chose: roles of columns (those that were clicked), and what is known beside the files."""

    roles: Mapping[str, str] = field(default_factory=dict)
    positive: str | None = None
    labels_chosen: str = "unknown"
    known_overall: float | None = None
    known_shares: tuple[KnownShare, ...] = ()

    def named(self, role: str) -> list[str]:
        """Columns of a role."""
        return [column for column, own in self.roles.items() if own == role]

    def one(self, role: str) -> str | None:
        return next(iter(self.named(role)), None)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Settings:
        """Settings as a browser sends them; what makes no sense is refused with a sentence."""
        try:
            return cls._checked(found)
        except (AttributeError, TypeError, ValueError) as error:
            raise Refused(400, UNREADABLE) from error

    @classmethod
    def _checked(cls, found: Mapping[str, Any]) -> Settings:
        roles = {
            checked_text(column): checked_text(role)
            for column, role in dict(found.get("roles") or {}).items()
        }
        if unknown := set(roles.values()) - set(ROLES):
            raise Refused(400, f"{sorted(unknown)[0]!r} is no role. Choose one of {', '.join(ROLES)}.")
        for role in OF_ONE_COLUMN:
            if list(roles.values()).count(role) > 1:
                raise Refused(400, f"Two columns have the role {role}; one can.")
        known = list(found.get("known_shares") or ())
        if len(roles) > MOST_COLUMNS or len(known) > MOST_KNOWN:
            raise Refused(
                413, "These are more columns or known shares than a page holds. Use the command line."
            )
        if (chosen := found.get("labels_chosen", "unknown")) not in SELECTIONS:
            raise Refused(400, f"Labels can be chosen in these ways: {', '.join(SELECTIONS)}.")
        positive = found.get("positive")
        return cls(
            roles,
            None if positive is None else checked_text(positive),
            chosen,
            _share(found.get("known_overall"), "The known overall rate"),
            tuple(_known_share(line) for line in known),
        )


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


def _known_share(line: Mapping[str, Any]) -> KnownShare:
    group = checked_text(line.get("group"))
    share = _share(line.get("share"), f"The known share of {group!r}")
    if share is None:
        raise Refused(400, f"The known share of {group!r} is missing. Fill it in, or remove the line.")
    return KnownShare(group, share, _share(line.get("std_error"), f"The standard error of {group!r}"))
