"""Numbers in sentences: one way to write a share, and one to write a count."""

import math


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
