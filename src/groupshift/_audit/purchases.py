"""What so many labels would buy, found out by trying it on labels drawn from the model itself."""

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit

from groupshift._audit.betting import LEVEL, Bounds, Steps, wealth
from groupshift._audit.census import Census
from groupshift._audit.common_shift import GRID, AuditRows, CommonPrior, learn_common_shift
from groupshift._audit.tickets import CURVE, Design
from groupshift._math.arrays import FloatArray, ValueArray

LABELS = (25, 50, 100, 200)
# Audits that are tried for each number of labels: widths and errors to about a tenth.
TRIED_WIDTHS, TRIED_ERRORS = 20, 100
POWER = 0.8
COVERAGE = 0.9


class ShareCurve:
    """Overall share as a function of the common shift: a smooth curve in log-odds through the shares at CURVE."""

    def __init__(self, shares: FloatArray):
        self.spline = CubicSpline(CURVE, logit(np.clip(shares, 1e-12, 1 - 1e-12)))

    def __call__(self, shift: FloatArray | float) -> FloatArray:
        share: FloatArray = expit(self.spline(np.clip(shift, CURVE[0], CURVE[-1])))
        return share

    def shift_to(self, share: float) -> float:
        """The common shift at which the overall share is this; the nearest there is, beyond what shifts reach."""
        return float(np.interp(share, self(GRID), GRID))


def purchases(
    census: Census, chance: FloatArray, design: Design, prior: CommonPrior, rng: np.random.Generator
) -> dict[str, ValueArray]:
    """A table: labels, width of the overall share's interval, smallest error of the share found out four times in five."""
    share = ShareCurve(design.curve)
    lines = [
        (
            n,
            _width(census, chance, share, n, prior, rng),
            _smallest_error(census, chance, share, n, design.bounds, rng),
        )
        for n in LABELS
        if n < len(census)
    ]
    labels, width, error = np.array(lines).reshape(-1, 3).T
    return {"labels": labels.astype(np.int64), "width": width, "smallest_error": error}


def _width(
    census: Census,
    chance: FloatArray,
    share: ShareCurve,
    n: int,
    prior: CommonPrior,
    rng: np.random.Generator,
) -> float:
    """Expected width of the interval after an audit; a common shift is drawn from what is thought of it now."""
    widths, part = [], census.part
    for shift in rng.choice(GRID, TRIED_WIDTHS, p=prior.mass):
        drawn = rng.choice(len(chance), n, p=chance)
        z = census.log_odds[drawn]
        y = (rng.random(n) < expit(z + shift)).astype(np.int64)
        rows = AuditRows(z, y, np.full(n, -1), part[drawn] / chance[drawn])
        found = learn_common_shift(rows, prior, own_variance=np.zeros(0))
        low, high = (found.quantile(level) for level in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
        widths.append(float(share(high) - share(low)))
    return float(np.mean(widths))


def _smallest_error(
    census: Census, chance: FloatArray, share: ShareCurve, n: int, bounds: Bounds, rng: np.random.Generator
) -> float:
    """The error of the overall share, up or down, that bets on so many labels find out with probability 0.8."""
    drawn = rng.choice(len(chance), (TRIED_ERRORS, n), p=chance)
    uniform, z = rng.random(drawn.shape), census.log_odds[drawn]
    part, claimed = census.part[drawn], float(share(0.0))

    def power(error: float) -> float:
        found = []
        for truth in (claimed - error, claimed + error):
            if 0 < truth < 1:
                y = uniform < expit(z + share.shift_to(truth))
                residual = part * (y - expit(z))
                # Rows come again hardly ever: each draw is from all of them.
                terms = residual / chance[drawn]
                steps = Steps(terms, np.full_like(terms, -bounds.low), np.full_like(terms, bounds.high))
                money = wealth(steps, np.zeros(len(terms)), spread=bounds.spread, planned=n)
                found.append((money.max(-1) >= 1 / LEVEL).mean())
        return float(np.mean(found))

    low, high = 0.0, max(claimed, 1 - claimed)
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < POWER else (low, middle)
    return high
