"""How tables are written: numbers with their intervals and signs, names of data sets, and the table itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from paper.results import Mean

# A typographic minus, and a dash where there is nothing to show.
MINUS, NOTHING = "\u2212", "\u2013"
TITLES = {
    "income": "Income",
    "employment": "Employment",
    "ipr": "IPR",
    "amazon": "Amazon",
    "synthetic": "Synthetic",
    "carriers": "Flights by carrier",
    "destinations": "Flights by destination",
}


# The numbers behind a line, by name.
Record = dict[str, str | float | None]


@dataclass(frozen=True)
class Table:
    """A table to be read: `body` holds text, a row per method; `records` hold the numbers behind it."""

    name: str
    title: str
    note: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    records: Sequence[Record] = field(default_factory=list)


def relative(value: float) -> str:
    """A difference that is already in percent.

    >>> relative(15.04)
    '+15.0 %'
    """
    return f"{value:+.1f} %".replace("-", MINUS)


def place_title(data: str, setting: str) -> str:
    """A data set in its setting, as a heading.

    >>> place_title("ipr", "natural")
    'IPR, natural shift'
    """
    word = "natural shift" if setting == "natural" else f"setting {setting}"
    return f"{TITLES.get(data, data)}, {word}"


def share(value: Mean | float | None) -> str:
    """Three digits, as the paper has them, with the interval where there is one.

    >>> share(Mean(0.8764, 0.0021, 5)), share(0.88), share(None)
    ('.876 ± .002', '.880', '')
    """
    return "" if value is None else _short(value, "", 3)


def signed(value: Mean | float, digits: int = 3) -> str:
    """A difference with its sign.

    >>> signed(-0.0123), signed(Mean(0.01, 0.002, 5)), signed(-0.00004, 4)
    ('−.012', '+.010 ± .002', '.0000')
    """
    return _short(value, "+", digits)


def _short(value: Mean | float, sign: str, digits: int) -> str:
    """A number without the zero before its point, its interval behind it; nothing has no sign."""
    number, half = (value.value, value.half) if isinstance(value, Mean) else (value, math.nan)
    if math.isnan(number):
        return NOTHING
    texts = [f"{number:{sign}.{digits}f}"] + ([] if math.isnan(half) else [f"{half:.{digits}f}"])
    main, *interval = (text.replace("0.", ".", 1).replace("-", MINUS) for text in texts)
    zero = "." + "0" * digits
    return " ± ".join([zero if main[1:] == zero else main, *interval])


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(90), duration(8000), duration(400_000)
    ('2 minutes', '2.2 hours', '4.6 days')
    """
    for size, name in ((86_400, "days"), (3600, "hours")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
