"""What people see: notes and progress on standard error, answers on standard output."""

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from groupshift._data import progress
from groupshift.tables.files import STANDARD_OUTPUT, STEERING, OutputError, check_output, spelt, table_format

# Told what a screen would show: the kind of it ("error", "alarm", "note", "say", "step"), and the text.
Listener = Callable[[str, str], None]
_heard_by: ContextVar[Listener | None] = ContextVar("groupshift_heard_by", default=None)

# Words of notes that are shown beside an answer; what goes beyond them is counted, and shown with --details.
NOTE_WORDS = 40
# Text as it is, or text and its style.
Part = str | tuple[str, str]


def bold(text: object) -> tuple[str, str]:
    return str(text), "bold"


def plain_text(*parts: Part) -> Text:
    r"""Parts as rich prints them: brackets and colons mean nothing, and what would steer a terminal is spelt out.

    >>> plain_text("Saved ", bold("[/b]"), " :heart: \x1b[31m").plain
    'Saved [/b] :heart: \\x1b[31m'
    """
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((spelt(text), style) for text, style in pairs))


class Screen:
    """Where a command answers: both streams, and the file that its output goes to, if any.

    Standard output is kept free where it is where data goes: answers are then shown beside notes. Names come from files, and
    may hold what rich takes for markup: nothing that is printed here is read as such.
    """

    def __init__(
        self, to: str | None = None, *, force: bool = False, as_json: bool = False, details: bool = False
    ):
        self.err = Console(stderr=True, highlight=False)
        self.out = self.err if to == STANDARD_OUTPUT else Console(highlight=False)
        self.to, self.force, self.quiet, self.details = to, force, as_json, details
        self._words = 0

    def check_table(self, inputs: Sequence[str] = (), coverage: float = 0.9) -> None:
        """Refuse options that cannot be answered, before any work is done."""
        if not 0 < coverage < 1:
            raise OutputError(f"--coverage {coverage} is not a probability. Pass a number such as 0.9.")
        if self.quiet and self.to == STANDARD_OUTPUT:
            raise OutputError("--json and --out - both want standard output. Name a file for one of them.")
        if self.to is not None:
            check_output(self.to, force=self.force, inputs=inputs)
            table_format(self.to)

    def check_model(self, out: str | None, inputs: Sequence[str] = ()) -> None:
        """The same for a model, which is never written among text."""
        if out == STANDARD_OUTPUT:
            raise OutputError("A model is not text: name a file for it, such as --out model.gshift.")
        if out is not None:
            check_output(out, force=self.force, inputs=inputs)

    @staticmethod
    @contextmanager
    def heard_by(listener: Listener) -> Iterator[None]:
        """Commands in this block are shown nowhere: what they say goes to `listener`."""
        token = _heard_by.set(listener)
        try:
            yield
        finally:
            _heard_by.reset(token)

    def error(self, message: str) -> None:
        self._paragraph("error", ("Error:", "bold red"), message)

    def note(self, *messages: str, kind: str = "note", label: Part = ("Note:", "yellow")) -> None:
        """Short ones and the first one; the others are counted, unless details are wanted."""
        left = 0
        for message in () if self.quiet else messages:
            words = len(message.split())
            is_shown = self.details or _heard_by.get() is not None or not self._words
            if is_shown or self._words + words <= NOTE_WORDS:
                self._words += words
                self._paragraph(kind, label, message)
            else:
                left += 1
        if left:
            self._paragraph("note", ("Note:", "yellow"), f"{left} more with --details.")

    def alarm(self, *messages: str) -> None:
        """Notes that nobody should miss: what follows is likely not what was meant."""
        self.note(*messages, kind="alarm", label=("Look at this first:", "bold red"))

    def say(self, *parts: Part) -> None:
        """A line or paragraph of the answer."""
        if self.quiet:
            return
        if (listener := _heard_by.get()) is not None:
            listener("say", plain_text(*parts).plain)
        else:
            self.out.print(plain_text(*parts), soft_wrap=not self.out.is_terminal)

    def sentence(self, message: str) -> None:
        """A sentence of the answer as a list item, folded under itself."""
        if not self.quiet:
            width = min(self.out.width, 110)
            text = textwrap.fill(
                message, width, initial_indent="  • ", subsequent_indent="    ", break_long_words=False
            )
            self.out.print(plain_text(text), soft_wrap=True)

    def table(self, headings: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
        """A plain table; columns whose heading begins with > stand to the right. Who listens is told no tables."""
        if self.quiet or _heard_by.get() is not None:
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for heading in headings:
            justify: JustifyMethod = "right" if heading.startswith(">") else "left"
            table.add_column(heading.removeprefix(">"), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*map(plain_text, row))
        if self.out.is_terminal:
            self.out.print(table)
        else:
            # A pipe has no width: cells are never folded.
            Console(file=self.out.file, width=160, highlight=False).print(table)

    @contextmanager
    def working(self, step: str) -> Iterator[None]:
        """A moving line on a terminal that names the step under way; nothing elsewhere, but to whoever listens."""
        if (listener := _heard_by.get()) is not None and not self.quiet:
            with progress.listen(lambda text: listener("step", text)), progress.steps():
                progress.begin(step)
                yield
            return
        if self.quiet or not self.err.is_terminal:
            yield
            return
        with (
            self.err.status(plain_text(f"{step} …")) as status,
            progress.listen(lambda text: status.update(plain_text(f"{text} …"))),
            progress.steps(),
        ):
            progress.begin(step)
            yield

    def _paragraph(self, kind: str, label: Part, message: str) -> None:
        message = " ".join(message.split())
        if (listener := _heard_by.get()) is not None:
            listener(kind, message)
        else:
            self.err.print(plain_text(label, " ", message), soft_wrap=not self.err.is_terminal)


def print_json(answer: object) -> None:
    """An answer for another program."""
    text = json.dumps(answer, indent=2, ensure_ascii=False, default=_plain, allow_nan=False)
    # JSON leaves some characters as they are that steer a terminal; it has its own way to spell them.
    sys.stdout.write(
        STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}" if found[0] != "\n" else "\n", text) + "\n"
    )


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def this_command() -> str:
    """How to call the command again: by its name where the shell finds it, else by the path that was used."""
    used = Path(sys.argv[0])
    if used.name == "__main__.py" and used.parent.name == "cli":
        return f"{shlex.quote(sys.executable)} -m groupshift.cli"
    if used.stem != "groupshift" or not used.is_file():
        return "groupshift"
    found = shutil.which("groupshift")
    return "groupshift" if found and used.samefile(found) else shlex.quote(sys.argv[0])


def listed(names: Iterable[object], most: int = 6) -> str:
    """A few names, and how many more.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
