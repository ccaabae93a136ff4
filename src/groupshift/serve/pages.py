"""What the page shows of a job, as values, and the templates that they fill; sentences say what is clicked, not what is typed."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from groupshift._diagnosis.wording import tidy
from groupshift.serve import jobs as command_lines
from groupshift.serve.jobs import ENDINGS, MODEL, REPORT, ROLES, Job, JobsFolder, Refused
from groupshift.serve.work_queue import read_events

# What an option is called on the page.
CLICKED = {
    "exclude": "leave out",
    "features": "feature",
    "group": "group",
    "target": "target",
    "weight": "weight",
    "example-id": "same example",
    "positive": "positive value",
    "class": "class",
    "known-shares": "known shares",
    "known-overall": "known overall rate",
    "selection": "how rows were chosen for labels",
}
NAMED = "|".join(CLICKED)
# What the command line asks to type for a column that the sentence names, and what the page asks to click for it.
ASKED = (
    (re.compile(r"leave it out with --exclude"), "click “leave out”"),
    (re.compile(r"\(--exclude [^)]*\)"), "(click “leave out”)"),
    (re.compile(r"Name it in --features"), "Click “feature” in its line"),
    # The page has nothing to click for it.
    (re.compile(r"--class ('[^']*'|\S+) keeps it"), "a fit on the command line can keep it"),
)
# "add --group state" names the column that the sentence is about already.
WITH_VALUE = re.compile(rf"\badd --({NAMED}) ('[^']*'|\S+?)(?=[.,;]?(\s|$))")
ALONE = re.compile(rf"--({NAMED})\b( VALUE)?")


def on_page(sentence: str) -> str:
    """A sentence as the page says it.

    >>> on_page("'state' looks like one: if it is, add --group state. Or leave it out with --exclude?")
    "'state' looks like one: if it is, give it the role “group”. Or click “leave out”?"
    """
    for typed, clicked in ASKED:
        sentence = typed.sub(clicked, sentence)
    given = WITH_VALUE.sub(lambda found: f"give it the role “{CLICKED[found[1]]}”", sentence)
    return ALONE.sub(lambda found: f"“{CLICKED[found[1]]}”", given)


def without_paths(sentence: str, *folders: Path) -> str:
    """A sentence in which no folder of this machine is named, whatever wrote it.

    >>> without_paths("No such file: '/home/ann/jobs/1/a.csv'", Path("/home/ann/jobs/1"))
    "No such file: 'a.csv'"
    """
    for folder in sorted(map(str, folders), key=len, reverse=True):
        if len(folder) > 1:
            sentence = sentence.replace(f"{folder}/", "").replace(folder, "…")
    return sentence


# What can be taken away, and what it is.
DOWNLOADS = {
    "shares.csv": "Shares (CSV)",
    "shares.xlsx": "Shares (Excel)",
    MODEL: "Model file",
    "predictions.csv": "Predictions (CSV)",
    "predictions.xlsx": "Predictions (Excel)",
}
ROLE_NAMES = dict(
    zip(ROLES, ("feature", "target", "group", "weight", "same example", "leave out"), strict=True)
)
COUNTED = re.compile(r": ([\d,]+) of ([\d,]+) ")


class JobView:
    """A job and its folder, as the pages ask for them."""

    def __init__(self, folder: JobsFolder, job: Job):
        self.folder, self.job = folder, job
        self.home, self.files = folder.home(job.id), folder.files(job.id)

    @property
    def open_task(self) -> str | None:
        return next((task for task, state in self.job.tasks.items() if state.is_open), None)

    @property
    def screen(self) -> str:
        """Which page the job has come to."""
        if self.job.is_done:
            return "answer"
        if self.job.is_settled:
            return "progress"
        # The first look ends with roles that are guessed; before that there is nothing to change.
        if self.job.state("look").is_open and not self.job.settings.roles:
            return "progress"
        return "columns" if self.job.kind == "fit" and (self.home / "look.json").is_file() else "files"

    @property
    def trouble(self) -> str:
        """What went wrong with the task that the screen waits for."""
        for state in map(self.job.state, (self.job.kind, "look")):
            if state.status in ("failed", "stopped"):
                return self.said(state.sentence)
        return ""

    @property
    def commands(self) -> str:
        """The command line that does the same."""
        try:
            main = command_lines.main_arguments(self.job, command_lines.usual_roles(self.home))
        except Refused:
            return ""
        return command_lines.shown([main, *command_lines.answer_arguments()])

    @property
    def downloads(self) -> dict[str, str]:
        return {name: words for name, words in DOWNLOADS.items() if (self.files / name).is_file()}

    @property
    def to_predict(self) -> list[str]:
        """Endings of predictions that are not made yet."""
        made = [ending for ending in ENDINGS if (self.files / f"predictions{ending}").is_file()]
        return [ending for ending in ENDINGS if ending not in made and command_lines.writes(ending)]

    @property
    def answer(self) -> dict[str, Any]:
        found = self.read("answer.json")
        found["cautions"] = [on_page(sentence) for sentence in found["cautions"]]
        return found

    @property
    def has_report(self) -> bool:
        return (self.files / REPORT).is_file()

    def heard(self, task: str, *kinds: str) -> list[str]:
        """What the task's process said, of some kinds."""
        events = read_events(self.home / f"{task}.jsonl")
        return [self.said(event["text"]) for event in events if event["kind"] in kinds]

    def said(self, sentence: str) -> str:
        """A sentence of the command line, as the page says it."""
        folders = (self.files, self.home, self.folder.path, Path.home(), Path(tempfile.gettempdir()))
        return on_page(without_paths(sentence, *folders, Path(sys.prefix)))

    def progress(self, task: str) -> dict[str, object]:
        """Where a task stands: its steps so far, and how much is done of the last."""
        state = self.job.state(task)
        steps: dict[str, str] = {}
        for text in self.heard(task, "step") if state.status != "waiting" else []:
            steps[text.partition(": ")[0]] = text
        last = next(reversed(steps.values()), "")
        counted = COUNTED.search(last)
        done, of = (int(number.replace(",", "")) for number in counted.groups()) if counted else (0, 0)
        return {
            "task": task,
            "status": state.status,
            "sentence": self.said(state.sentence),
            "steps": list(steps),
            "last": last,
            "share": done / of if of else None,
        }

    def columns(self) -> dict[str, object]:
        """What the last look found, and what the user has chosen since."""
        found = self.read("look.json")
        for kind in ("alarms", "notes"):
            found[kind] = [self.said(sentence) for sentence in found[kind]]
        for column in found["columns"]:
            column["remark"] = on_page(column["remark"])
        settings = json.loads(self.job.to_json())["settings"]
        return {**found, "settings": settings, "roles": ROLE_NAMES, "command": self.commands}

    def read(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.home / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise Refused(404, "This is not there yet. Load the page again.") from error
        return found


@cache
def templates() -> jinja2.Environment:
    """Every value is escaped on its way into a page; a misspelt one fails."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("groupshift.serve", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tidy"] = tidy
    return environment
