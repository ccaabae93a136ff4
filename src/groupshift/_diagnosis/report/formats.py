"""Numbers as the page shows them."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from groupshift._diagnosis.wording import DASH, THIN
from groupshift._math.arrays import ValueArray

MINUS = "\u2212"
NOTHING = DASH


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


def decimals(value: float, digits: int = 3) -> str:
    """A number with so many decimals, a dash where there is none."""
    return f"{value:.{digits}f}" if np.isfinite(value) else NOTHING


def count(number: float) -> str:
    """
    >>> count(50000)
    '50,000'
    """
    return f"{round(float(number)):,}"


def texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]


def rounded(values: ValueArray, digits: int = 6) -> list[float | None]:
    """Numbers for JSON: few digits (0: whole numbers), None where there is no number."""
    flat = np.asarray(values, float).ravel()
    return [None if not np.isfinite(v) else round(v, digits or None) for v in flat.tolist()]
