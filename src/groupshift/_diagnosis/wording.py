"""Numbers in sentences, text in lines of a screen, and pieces of HTML for notebooks."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import fill

from groupshift._math.arrays import Table

# A narrow space that does not break: "34.2 %" stays in one piece.
THIN = "\u202f"
DASH = "\u2013"
# A line may break after a dash, unless this follows.
JOINER = "\u2060"
WIDTH = 88
# Lines of a table in a notebook, which is no place for thousands.
MAX_LINES = 100
STYLE = (
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em 1em;margin:.3em 0;max-width:46em;"
    "line-height:1.4;font-family:system-ui,sans-serif;font-size:.95em"
)
# Shape and word carry the verdict; the color only repeats it.
MARK = {"yes": "✔", "little": "✔", "perhaps": "?", "no": "-", "harmful": "✘", "unknown": "?"}


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage; a dash where it is not known.

    >>> percent(0.3417), percent(0.5, 0), percent(None)
    ('34.2 %', '50 %', '-')
    """
    return "-" if share is None or not math.isfinite(share) else f"{100 * share:.{digits}f} %"


def percent_range(low: float, high: float) -> str:
    """An interval of shares.

    >>> percent_range(0.291, 0.402)
    '29.1 to 40.2 %'
    """
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def plural(number: int, noun: str) -> str:
    """A count and what is counted.

    >>> plural(1, "group"), plural(2000, "group")
    ('1 group', '2,000 groups')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def first_of(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many more there are.

    >>> first_of(["a", "b"]), first_of(list("abcde"))
    ('a, b', 'a, b, c and 2 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def short(name: str, most: int = 24) -> str:
    """A name that fits a line.

    >>> short("Rhode Island and Providence Plantations")
    'Rhode Island and Provid…'
    """
    return name if len(name) <= most else name[: most - 1] + "…"


def tidy(sentence: str) -> str:
    """A sentence whose numbers stay in one piece: units and errors do not fall to the next line.

    >>> tidy("10.6 % ± 1.4%")
    '10.6\u202f%\xa0±\xa01.4\u202f%'
    """
    joined = re.sub(rf"(?<=\d){DASH}(?=\d)", f"{DASH}{JOINER}", sentence)
    return re.sub(r"(?<=\d) ?%", f"{THIN}%", joined).replace(" ± ", "\u00a0±\u00a0")


def folded(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> str:
    """Text in lines of a screen; a number keeps its unit on its line."""
    whole = text.replace(" %", "\u00a0%")
    return fill(whole, width, initial_indent=first, subsequent_indent=rest).replace("\u00a0", " ")


def bullets(sentences: Iterable[str]) -> str:
    return "\n".join(folded(sentence, "  - ", "    ") for sentence in sentences)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """A table as text: names to the left, numbers to the right."""
    cells = [(short(line[0]), *line[1:]) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = []
    for name, *numbers in cells:
        right = (f"  {number:>{width}}" for number, width in zip(numbers, widths[1:], strict=True))
        shown.append(f"{name:<{widths[0]}}{''.join(right)}".rstrip())
    return "\n".join(shown)


def titled(title: str, content: str) -> str:
    """A box with a title in bold."""
    head = f"<div style='margin-bottom:.4em'><strong>{escape(title)}</strong></div>"
    return f"<div style='{STYLE}'>{head}{content}</div>"


def details(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def listed(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<ul style='margin:.2em 0 .4em 1.2em;padding:0'>{items}</ul>"


def rows_of(table: Table) -> list[tuple[object, ...]]:
    return list(zip(*(column[: MAX_LINES + 1].tolist() for column in table.values()), strict=True))


def table_html(headings: Mapping[str, object] | Iterable[str], lines: Sequence[Sequence[object]]) -> str:
    """A table whose first column names its lines; the others hold numbers. Only its first lines are shown."""

    def cell(column: int, value: object) -> str:
        shown = "all" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<td style='text-align:{'right' if column else 'left'}'>{escape(shown)}</td>"

    head = "".join(f"<th>{escape(str(heading))}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(cell(i, value) for i, value in enumerate(line))}</tr>" for line in lines[:MAX_LINES]
    )
    rest = "<div>… and more lines</div>" if len(lines) > MAX_LINES else ""
    return f"<table style='margin:.4em 0'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
