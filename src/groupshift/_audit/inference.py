r"""What labels of an audit say: of the claims that were made, by betting, and of the shift that all groups have in common.

**Betting.** One bet after each label; wealth that grows large shows that the claim is wrong, whenever one looks.
Under the claim, a bet is fair: its expectation is 1 given what came before. A product of fair bets then exceeds 20 at any time
with probability at most 1 in 20 (Ville), so that one may look after every label, and stop or go on as one likes.

The claim on the share is about the population alone, and holds by the design of the sample: when labels come in the order of
a weighted draw without replacement, ``X_t = f_I / q_t(I) + Σ_{j<t} f_j`` has the population's total of f as its mean, with q_t
the chance of the row among those that are left (Waudby-Smith and Ramdas; Shekhar et al. for weighted draws). The claim on
probabilities is that each row is positive with the probability that was predicted; bets on it are likelihood ratios.

**The common shift.** A labelled row of group g is positive with log-odds ``z + c + d_g``: z as predicted, c common to all
groups, d_g the group's own
error. c is what nothing but such labels can settle, so its prior has three parts: labels of the fit were not chosen by the label
(c near 0); they were, and what scores of the population say of all groups is right; or anything else. c is one number: its
posterior is computed on a grid, the d_g integrated out by Gauss and Hermite's rule, without sampling.

Rows enter by the inverse of their inclusion probabilities, scaled so that together they count for as many rows as they are
worth. Where the model is wrong, the share that follows is still that of a design-based estimator.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._shifts.estimate import UNIDENTIFIED, Estimate

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
GRID = np.arange(-5.0, 5.0001, 0.05)
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
LOG_NODE_WEIGHTS = np.log(NODE_WEIGHTS / NODE_WEIGHTS.sum())
# How likely each part of the prior is, and how far "anything else" reaches: at one standard deviation, odds of 4.5.
NOT_BY_LABEL, AS_SCORES_SAY, ELSE = 0.25, 0.5, 0.25
WIDE = 1.5
# What scores say of all groups together, where it is right at all: its error, and the degrees of freedom of a Student
# distribution, since it may be wrong in ways that its standard error does not know of.
FACE_ERROR, TAILS = 0.3, 4.0
# A group's own shift is never known for sure: this variance moves no share by more than a thousandth.
LEAST_VARIANCE = 1e-4


def terms_of(
    residual: FloatArray, chance: FloatArray, low: float, high: float, *, earlier: bool = True
) -> Terms:
    """Terms of labels in the order of the draw.

    Parameters
    ----------
    residual : array of shape (…, n_labels)
        w̃ (y − p) of each: its part in the error of the overall share.
    chance : array that broadcasts against it
        s of each.
    low, high : float
        Bounds: residual / chance lies between −low and high, whatever the label.
    earlier : bool
        Whether a row that was drawn is out of the population, as it is in an audit.
    """
    drawn, left = np.cumsum(residual, -1) - residual, 1 - (np.cumsum(chance, -1) - chance)
    if not earlier:
        drawn, left = np.zeros_like(residual), np.ones_like(chance)
    left = np.maximum(left, chance)
    return drawn + residual / chance * left, drawn - low * left, drawn + high * left


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


def prior_of(estimate: Estimate, *, settled: bool) -> FloatArray:
    """What is thought of the common shift beyond the estimate's, as probabilities of the values of `GRID`.

    `settled`: by an earlier audit.
    """
    if settled or estimate.known_overall is not None:
        return normal_prior(float(np.mean(estimate.common_variance)) + estimate.unidentified)
    return open_prior(UNIDENTIFIED, float(estimate.face_value[0]))


def normal_prior(variance: float) -> FloatArray:
    mass = np.exp(-(GRID**2) / 2 / max(variance, 1e-4))
    found: FloatArray = mass / mass.sum()
    return found


def open_prior(variance: float, face_value: float | None) -> FloatArray:
    """From the variance of a common shift that nothing decides, and what scores say beyond what is used."""
    parts = [(NOT_BY_LABEL, normal_prior(variance)), (ELSE, normal_prior(WIDE**2))]
    if face_value is not None:
        by_scores = (1 + ((GRID - face_value) / FACE_ERROR) ** 2 / TAILS) ** (-(TAILS + 1) / 2)
        parts.append((AS_SCORES_SAY, by_scores / by_scores.sum()))
    mass = np.sum([weight * part for weight, part in parts], axis=0)
    found: FloatArray = mass / mass.sum()
    return found


def own_variance(estimate: Estimate) -> FloatArray:
    """Variance of what the shifts of one group have in common, beside what all groups have, (n_groups,)."""
    shared = np.minimum(estimate.shared_deviation**2, estimate.variance)
    lowest = shared.min(1, initial=np.inf) if shared.size else np.zeros(len(shared))
    return np.maximum(lowest - float(np.mean(estimate.common_variance)), LEAST_VARIANCE)


def mark_of(estimate: Estimate) -> bytes:
    """Eight bytes that other groups, shifts or rows would change; shifts to six digits, as any machine computes them."""
    digest = blake2b(repr(estimate.groups.tolist()).encode(), digest_size=8)
    for values in (estimate.shift, estimate.unseen_shift, estimate.row_weight):
        digest.update(np.char.mod("%.6e", values.ravel()).tobytes())
    return digest.digest()


@dataclass(frozen=True)
class LabeledSample:
    """Labelled rows of an audit: arrays of shape (n_labels,)."""

    log_odds: FloatArray  # as predicted before the audit
    y: IntArray
    group: IntArray  # numbers below `n_groups`; -1: of no group that the model knows
    weight: FloatArray  # of the row in the population over its inclusion probability, in any unit


@dataclass(frozen=True)
class AuditedShift:
    """The common shift given the labels, and the groups' own shifts around it."""

    mass: FloatArray  # (n_grid,): posterior probabilities of the values of GRID
    group_shift: FloatArray  # (n_groups,): mean of c + d_g
    group_variance: FloatArray  # (n_groups,): variance of c + d_g
    own_shift: FloatArray  # (n_groups,): mean of d_g
    own_variance: FloatArray  # (n_groups,): of d_g, given c

    @property
    def mean(self) -> float:
        return float(self.mass @ GRID)

    @property
    def variance(self) -> float:
        return float(self.mass @ GRID**2) - self.mean**2

    def quantile(self, level: float) -> float:
        return float(np.interp(level, np.cumsum(self.mass) - self.mass / 2, GRID))


def effective_weights(rows: LabeledSample) -> FloatArray:
    """Weights that count rows for what they are worth: the information of a weighted likelihood is then its own (sandwich).

    >>> rows = LabeledSample(np.zeros(2), np.array([0, 1]), np.zeros(2, int), np.array([3.0, 3.0]))
    >>> effective_weights(rows).tolist()
    [1.0, 1.0]
    """
    a = rows.weight / rows.weight.mean() if len(rows.weight) else rows.weight
    q = expit(rows.log_odds + helper_shift(rows))
    scaled: FloatArray = a * (a * q * (1 - q)).sum() / max((a**2 * q * (1 - q)).sum(), 1e-300)
    return scaled


def helper_shift(rows: LabeledSample) -> float:
    """The shift at which weighted predictions and labels agree, held back by one label's worth of information."""
    if not len(rows.y):
        return 0.0
    a, c = rows.weight / rows.weight.mean(), 0.0
    for _ in range(30):
        q = expit(rows.log_odds + c)
        step = float(np.clip(((a * (rows.y - q)).sum() - 0.25 * c) / ((a * q * (1 - q)).sum() + 0.25), -1, 1))
        c += step
        if abs(step) < 1e-9:
            break
    return c


def learn_common_shift(
    rows: LabeledSample, prior: FloatArray, *, own_variance: FloatArray, is_fixed: BoolArray | None = None
) -> AuditedShift:
    """The posterior of c and of all c + d_g.

    Parameters
    ----------
    rows : LabeledSample
    prior : array of shape (n_grid,)
        Probabilities of the values of GRID.
    own_variance : array of shape (n_groups,)
        Variance of d_g.
    is_fixed : array of shape (n_groups,), optional
        Groups whose share is known: no common shift is theirs.
    """
    n_groups = len(own_variance)
    reached, at = np.unique(rows.group, return_inverse=True)
    fixed = np.zeros(n_groups, bool) if is_fixed is None else is_fixed
    # A row of a group that the model does not know (-1, the last entry) is of a group like the others.
    spread = np.sqrt(np.append(own_variance, own_variance.mean() if n_groups else 0.0)[reached])
    moves = np.where(np.append(fixed, False)[reached], 0.0, 1.0)
    # Groups that all shift alike need no rule of integration.
    nodes, log_weights = (NODES, LOG_NODE_WEIGHTS) if spread.any() else (np.zeros(1), np.zeros(1))
    # Weighted log-likelihood of each group's labels for every c and every own shift, (n_reached, n_grid, n_nodes).
    own = spread[:, None] * nodes
    eta = rows.log_odds[:, None, None] + moves[at, None, None] * GRID[:, None] + own[at, None, :]
    each = effective_weights(rows)[:, None, None] * (rows.y[:, None, None] * eta - np.logaddexp(0, eta))
    is_own = (np.arange(len(reached))[:, None] == at).astype(float)
    likelihood = np.tensordot(is_own, each, 1) + log_weights
    by_group = logsumexp(likelihood, axis=2)
    log_mass = by_group.sum(0) + np.log(prior + 1e-300)
    mass = np.exp(log_mass - logsumexp(log_mass))
    node = np.exp(likelihood - by_group[..., None])
    mean_own = spread[:, None] * (node @ nodes)  # E[d | c]
    inner = spread[:, None] ** 2 * (node @ nodes**2) - mean_own**2
    mean = float(mass @ GRID)
    shift = np.where(fixed, 0.0, mean)
    variance = np.where(fixed, 0.0, mass @ GRID**2 - mean**2) + own_variance
    own_shift, given = np.zeros(n_groups), own_variance.copy()
    known = reached >= 0
    here, total = reached[known], moves[known, None] * GRID + mean_own[known]
    shift[here] = total @ mass
    variance[here] = (total**2 + inner[known]) @ mass - shift[here] ** 2
    own_shift[here], given[here] = mean_own[known] @ mass, inner[known] @ mass
    return AuditedShift(mass, shift, variance, own_shift, given)
