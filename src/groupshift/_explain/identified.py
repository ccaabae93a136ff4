"""A sentence about features that tell which group a row is of."""

import re
from collections.abc import Iterable


def identified(names: Iterable[str]) -> str | None:
    """What is wrong with features that identify the group, and what to type; None where there are none.

    >>> identified(["lat", "lon"]).split(": ")[0]
    "'lat' and 'lon' tell which group a row is of"
    """
    names = list(names)
    if not names:
        return None
    *first, last = map(repr, names)
    listed, verb = (f"{', '.join(first)} and {last}", "tell") if first else (last, "tells")
    typed = ",".join(names)
    typed = f'"{typed}"' if re.search(r"[\s'&;$()<>|*?]", typed) else typed
    it = "them" if first else "it"
    return (
        f"{listed} {verb} which group a row is of: a classifier that sees {it} learns the labelled groups by heart, and what "
        f"hidden labels say of other groups (gain, intervals) is then too good to be true. Leave {it} out (--exclude {typed}) "
        "and compare."
    )
