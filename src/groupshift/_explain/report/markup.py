"""Pieces of HTML: escaped text, tables, and numbers as a reader expects them."""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

# A narrow space that does not break: "34.2 %" stays in one piece.
THIN = "\u202f"
MINUS = "\u2212"
DASH = "\u2013"
# A line may break after a dash, unless this follows.
JOINER = "\u2060"
NOTHING = DASH


class Markup(str):
    """Text that is HTML already; everything else is escaped on its way into the page."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """`value` as HTML that shows it, whatever it contains.

    >>> text("<b>Oslo & co</b>")
    '&lt;b&gt;Oslo &amp; co&lt;/b&gt;'
    """
    if isinstance(value, Markup):
        return value
    # A lone surrogate, which Python's strings may hold, has no place in a file.
    return Markup(html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True))


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """One element; `class_` is written as class, underscores as hyphens, None and False are left out.

    >>> tag("p", "1 < 2", class_="note", aria_label='"x"')
    '<p class="note" aria-label="&quot;x&quot;">1 &lt; 2</p>'
    """
    shown = {
        k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None and v is not False
    }
    written = "".join(f" {k}" if v is True else f' {k}="{text(v)}"' for k, v in shown.items())
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[Any], separator: str = "") -> Markup:
    return Markup(separator.join(text(child) for child in children if child is not None))


def paragraphs(sentences: Iterable[str]) -> Markup:
    return join(tag("p", tidy(sentence)) for sentence in sentences)


def bullets(sentences: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", tidy(sentence)) for sentence in sentences))


def tidy(sentence: str) -> str:
    """A sentence whose numbers stay in one piece: units and errors do not fall to the next line.

    >>> tidy("10.6 % ± 1.4%")
    '10.6\u202f%\xa0±\xa01.4\u202f%'
    """
    joined = re.sub(rf"(?<=\d){DASH}(?=\d)", f"{DASH}{JOINER}", sentence)
    return re.sub(r"(?<=\d) ?%", f"{THIN}%", joined).replace(" ± ", "\u00a0±\u00a0")


def table(
    columns: Mapping[str, Sequence[Any]], *, caption: str, words: Sequence[str] = (), marked: Any = None
) -> Markup:
    """A table whose first column names its rows; the others hold numbers, but for those in `words`.

    End tags of cells and rows are optional in HTML, and numbers need no class: a third of the size is saved.
    """
    names = list(columns)
    looks = [' class="w"' if name in words else "" for name in names]
    head = "".join(f'<th scope="col"{look}>{text(name)}' for name, look in zip(names, looks, strict=True))
    marked = [False] * len(columns[names[0]]) if marked is None else marked
    lines = []
    for mark, first, *rest in zip(marked, *columns.values(), strict=True):
        cells = "".join(f"<td{look}>{text(value)}" for look, value in zip(looks[1:], rest, strict=True))
        lines.append(f"<tr{' class=marked' if mark else ''}><th scope=row>{text(first)}{cells}")
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table>'
        f"<caption>{text(caption)}</caption><thead><tr>{head}</thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def definitions(pairs: Mapping[str, Any]) -> Markup:
    """A list of names and values."""
    inside = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items())
    return tag("dl", *inside, class_="facts")


def behind_details(summary: str, *content: Any, open_: bool = False) -> Markup:
    """Content that opens on demand; `open_` is for readers without JavaScript, which closes it."""
    return tag("details", tag("summary", summary), *content, open=open_, class_="numbers")


def fixed(value: float, digits: int) -> str:
    """A number with so many decimals, halves away from zero: as the page's script writes it, to the last digit.

    >>> fixed(31.25, 1), f"{31.25:.1f}"
    ('31.3', '31.2')
    """
    return str(Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage, with a digit more where it is tiny.

    >>> percent(0.3417), percent(0.0021), percent(float("nan"))
    ('34.2\u202f%', '0.21\u202f%', '–')
    """
    if not np.isfinite(share):
        return NOTHING
    digits = 2 if 0 < min(share, 1 - share) < 0.01 else digits
    return f"{fixed(100 * float(share), digits)}{THIN}%"


def percent_range(low: float, high: float) -> str:
    """An interval of shares.

    >>> percent_range(0.291, 0.402)
    '29.1–40.2\u202f%'
    """
    if not (np.isfinite(low) and np.isfinite(high)):
        return NOTHING
    return f"{percent(low).removesuffix(f'{THIN}%')}{DASH}{percent(high)}"


def points(difference: float) -> str:
    """A difference of two shares.

    >>> points(0.034)
    '3.4 points'
    """
    return f"{100 * difference:.1f} points" if np.isfinite(difference) else NOTHING


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign, a true minus, and no "−0.00".

    >>> signed(0.5), signed(-1.25), signed(-0.0001)
    ('+0.50', '−1.25', '0.00')
    """
    if not np.isfinite(value):
        return NOTHING
    size = fixed(abs(value), digits)
    return size if float(size) == 0 else f"{'+' if value > 0 else MINUS}{size}"


def count(number: float) -> str:
    """
    >>> count(50000)
    '50,000'
    """
    return f"{round(float(number)):,}"


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "group"), plural(2000, "group")
    ('1 group', '2,000 groups')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def json_block(data: Any, identifier: str) -> Markup:
    """Data for the page's script. No character in it can end the block or start a tag.

    >>> json_block({"name": "</script>"}, "d")
    '<script type="application/json" id="d">{"name":"\\\\u003c/script\\\\u003e"}</script>'
    """
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{text(identifier)}">{written}</script>')


def rounded(values: Any, digits: int = 6) -> list:
    """Numbers for JSON: few digits (0: whole numbers), None where there is no number."""
    flat = np.asarray(values, float).ravel()
    return [None if not np.isfinite(v) else round(v, digits or None) for v in flat.tolist()]
