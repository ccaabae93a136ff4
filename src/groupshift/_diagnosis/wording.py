"""Numbers in sentences: one way to write a share, one to write a count, and lines that break between them."""

import math
import re
from collections.abc import Sequence

# A narrow space that does not break: "34.2 %" stays in one piece.
THIN = "\u202f"
DASH = "\u2013"
# A line may break after a dash, unless this follows.
JOINER = "\u2060"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage; a dash where it is not known.

    >>> percent(0.3417), percent(0.5, 0), percent(None)
    ('34.2 %', '50 %', '-')
    """
    return "-" if share is None or not math.isfinite(share) else f"{100 * share:.{digits}f} %"


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
