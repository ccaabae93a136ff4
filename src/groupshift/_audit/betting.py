r"""Tests by betting, one bet after each label: wealth that grows large shows that the claim is wrong, whenever one looks.

Under the claim, a bet is fair: its expectation is 1 given what came before. A product of fair bets then exceeds 20 at any time
with probability at most 1 in 20 (Ville), so that one may look after every label, and stop or go on as one likes.

The claim on the share is about the population alone, and holds by the design of the sample: when labels come in the order of
a weighted draw without replacement, ``X_t = f_I / q_t(I) + Σ_{j<t} f_j`` has the population's total of f as its mean, with q_t
the chance of the row among those that are left (Waudby-Smith and Ramdas; Shekhar et al. for weighted draws). The claim on
probabilities is that each row is positive with the probability that was predicted; bets on it are likelihood ratios.
"""

from typing import TypeAlias

import numpy as np
from scipy.special import log_expit

from groupshift._audit.sampling import Design
from groupshift._math.arrays import FloatArray, IntArray

# A claim is called wrong where wealth is 1 / LEVEL: one right claim in twenty ever gets there.
LEVEL = 0.05
# Stakes around the one that is best for the planned number of labels, all played at once.
STAKES = np.array([0.7, 1.0, 1.4])
# Part of the wealth that is at most lost with one label.
MOST_LOST = 0.95
# Alternatives to calibrated probabilities: other levels, and scores that are too bold or too shy.
LEVELS = np.linspace(-2.0, 2.0, 17)
SLOPES = np.array([0.5, 0.75, 1.0, 1.33, 2.0])
# Values whose conditional mean is the error of the overall share, and how far down and up each could have been: (…, n_labels).
Terms: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


def terms_of(residual: FloatArray, chance: FloatArray, design: Design, *, earlier: bool = True) -> Terms:
    """Terms of labels in the order of the draw.

    Parameters
    ----------
    residual : array of shape (…, n_labels)
        w̃ (y − p) of each: its part in the error of the overall share.
    chance : array that broadcasts against it
        s of each.
    design : Design
        Bounds of the terms.
    earlier : bool
        Whether a row that was drawn is out of the population, as it is in an audit.
    """
    drawn, left = np.cumsum(residual, -1) - residual, 1 - (np.cumsum(chance, -1) - chance)
    if not earlier:
        drawn, left = np.zeros_like(residual), np.ones_like(chance)
    left = np.maximum(left, chance)
    return drawn + residual / chance * left, drawn - design.low * left, drawn + design.high * left


def wealth(terms: Terms, error: FloatArray, *, spread: float, planned: int) -> FloatArray:
    """Wealth after each label from bets that the share is off by something else than `error`, (…, n_labels).

    `error` broadcasts against the terms without their last axis.
    """
    best = np.sqrt(2 * np.log(2 / LEVEL) / max(planned, 1)) / spread
    stake = np.concatenate([-STAKES[::-1], STAKES])[:, None] * best
    centre = np.asarray(error, float)[..., None, None]
    value, low, high = (v[..., None, :] - centre for v in terms)
    # No bet may lose more than is there: an error beyond what a label can show is not bet on on that side.
    down, up = MOST_LOST / np.maximum(-low, 1e-300), MOST_LOST / np.maximum(high, 1e-300)
    placed = np.clip(stake, -np.where(high > 0, up, np.inf), np.where(low < 0, down, np.inf))
    found: FloatArray = np.exp(np.cumsum(np.log1p(placed * value), -1)).mean(-2)
    return found


def sequence(
    terms: Terms, errors: FloatArray, *, spread: float, planned: int
) -> tuple[FloatArray, FloatArray]:
    """Confidence sequence: lowest and highest of the `errors` that no bet so far has shown to be wrong, after each label."""
    parts = [
        wealth(terms, errors[i : i + 50], spread=spread, planned=planned) for i in range(0, len(errors), 50)
    ]
    best = np.maximum.accumulate(np.concatenate(parts), -1)
    open_ = best < 1 / LEVEL
    # Where every value is shown to be wrong, the claim that the sample is what it should be is: keep the best one.
    open_[best.argmin(0), np.arange(best.shape[1])] = True
    return errors[open_.argmax(0)], errors[len(errors) - 1 - open_[::-1].argmax(0)]


def calibration_wealth(log_odds: FloatArray, y: IntArray) -> FloatArray:
    """Wealth after each label from bets that probabilities are too high, too low, too bold or too shy.

    >>> calibration_wealth(np.zeros(1), np.array([1])).round(6).tolist()
    [1.0]
    """
    sign = np.where(y == 1, 1.0, -1.0)
    eta = SLOPES[:, None, None] * log_odds + LEVELS[:, None]
    ratio = np.cumsum(log_expit(sign * eta) - log_expit(sign * log_odds), -1)
    likely = np.exp(-(LEVELS**2) / 2)
    found: FloatArray = np.exp(ratio).mean(0).T @ (likely / likely.sum())
    return found
