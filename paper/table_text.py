"""How tables are written: numbers with their intervals and signs, names of data sets, and the table itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paper.results import Mean

# A typographic minus, and a dash where there is nothing to show.
MINUS, NOTHING = "\u2212", "\u2013"
TITLES = {
    "income": "Income",
    "employment": "Employment",
    "ipr": "IPR",
    "amazon": "Reviews",
    "synthetic": "Synthetic",
}


@dataclass(frozen=True)
class Table:
    """A table to be read: text in rows, the first cell of each being its name."""

    title: str
    note: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]


def relative(value: float) -> str:
    """A difference that is already in percent.

    >>> relative(15.04), relative(-0.04)
    ('+15.0', '0.0')
    """
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", MINUS)


def place_title(data: str, setting: str) -> str:
    """A data set in its setting, as a heading.

    >>> place_title("ipr", "natural")
    'IPR, natural shift'
    """
    word = "natural shift" if setting == "natural" else f"setting {setting}"
    return f"{TITLES.get(data, data)}, {word}"


def share(value: Mean | float | None) -> str:
    """Three digits, as the article has them, with the interval where there is one.

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
