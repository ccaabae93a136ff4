r"""What a few labels say of the shift that all groups have in common, and of the groups' own.

A labelled row of group g is positive with log-odds ``z + c + d_g``: z as predicted, c common to all groups, d_g the group's own
error. c is what nothing but such labels can settle, so its prior has three parts: labels of the fit were not chosen by the label
(c near 0); they were, and what scores of the population say of all groups is right; or anything else. c is one number: its
posterior is computed on a grid, the d_g integrated out by Gauss and Hermite's rule, without sampling.

Rows enter by the inverse of their inclusion probabilities, scaled so that together they count for as many rows as they are
worth. Where the model is wrong, the share that follows is still that of a design-based estimator.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logsumexp

from groupshift._math.arrays import BoolArray, FloatArray, IntArray

GRID = np.arange(-5.0, 5.0001, 0.05)
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
LOG_NODE_WEIGHTS = np.log(NODE_WEIGHTS / NODE_WEIGHTS.sum())
# How likely each part of the prior is, and how far "anything else" reaches: at one standard deviation, odds of 4.5.
NOT_BY_LABEL, AS_SCORES_SAY, ELSE = 0.25, 0.5, 0.25
WIDE = 1.5
# Degrees of freedom: what scores say may be wrong in ways that its standard error does not know of.
TAILS = 4.0


@dataclass(frozen=True)
class CommonPrior:
    """What is thought of the common shift before any audit, as probabilities of the values of `GRID`."""

    mass: FloatArray

    @classmethod
    def of(cls, variance: float, said: float | None, error: float) -> Self:
        """From the variance of a common shift that nothing decides, and what scores say beyond what is used, with its error."""
        parts = [(NOT_BY_LABEL, _normal(np.sqrt(variance))), (ELSE, _normal(WIDE))]
        if said is not None and np.isfinite(error):
            ratio = (GRID - said) / error
            parts.append((AS_SCORES_SAY, (1 + ratio**2 / TAILS) ** (-(TAILS + 1) / 2)))
        mass = sum(weight * part / part.sum() for weight, part in parts)
        return cls(mass / mass.sum())

    @classmethod
    def normal(cls, variance: float) -> Self:
        """Of a common shift that an audit has settled before."""
        mass = _normal(np.sqrt(max(variance, 1e-4)))
        return cls(mass / mass.sum())


def _normal(deviation: float) -> FloatArray:
    return np.exp(-((GRID / deviation) ** 2) / 2)


@dataclass(frozen=True)
class AuditRows:
    """Audited rows: arrays of shape (n_labels,)."""

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


def effective_weights(rows: AuditRows) -> FloatArray:
    """Weights that count rows for what they are worth: the information of a weighted likelihood is then its own (sandwich).

    >>> rows = AuditRows(np.zeros(2), np.array([0, 1]), np.zeros(2, int), np.array([3.0, 3.0]))
    >>> effective_weights(rows).tolist()
    [1.0, 1.0]
    """
    a = rows.weight / rows.weight.mean() if len(rows.weight) else rows.weight
    v = _doubt(rows.log_odds + helper_shift(rows))
    factor = (a * v).sum() / max((a**2 * v).sum(), 1e-300)
    scaled: FloatArray = a * factor
    return scaled


def helper_shift(rows: AuditRows) -> float:
    """The shift at which weighted predictions and labels agree, held back by one label's worth of doubt."""
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
    rows: AuditRows, prior: CommonPrior, *, own_variance: FloatArray, is_fixed: BoolArray | None = None
) -> AuditedShift:
    """The posterior of c and of all c + d_g.

    Parameters
    ----------
    rows : AuditRows
    prior : CommonPrior
    own_variance : array of shape (n_groups,)
        Variance of d_g.
    is_fixed : array of shape (n_groups,), optional
        Groups whose share is known: no common shift is theirs.
    """
    n_groups = len(own_variance)
    asked, at = np.unique(rows.group, return_inverse=True)
    fixed = np.zeros(n_groups, bool) if is_fixed is None else is_fixed
    # A row of a group that the model does not know (-1, the last entry) is of a group like the others.
    spread = np.sqrt(np.append(own_variance, own_variance.mean() if n_groups else 0.0)[asked])
    moves = np.where(np.append(fixed, False)[asked], 0.0, 1.0)
    # Groups that all shift alike need no rule of integration.
    nodes, log_weights = (NODES, LOG_NODE_WEIGHTS) if spread.any() else (np.zeros(1), np.zeros(1))
    likelihood = _by_group(rows, at, spread[:, None] * nodes, moves) + log_weights
    by_group = logsumexp(likelihood, axis=2)
    log_mass = by_group.sum(0) + np.log(prior.mass + 1e-300)
    mass = np.exp(log_mass - logsumexp(log_mass))
    node = np.exp(likelihood - by_group[..., None])  # (n_asked, n_grid, n_nodes)
    own = spread[:, None] * (node @ nodes)  # E[d | c]
    inner = spread[:, None] ** 2 * (node @ nodes**2) - own**2
    mean = float(mass @ GRID)
    shift = np.where(fixed, 0.0, mean)
    variance = np.where(fixed, 0.0, mass @ GRID**2 - mean**2) + own_variance
    own_shift, given = np.zeros(n_groups), own_variance.copy()
    known = asked >= 0
    here, total = asked[known], moves[known, None] * GRID + own[known]
    shift[here] = total @ mass
    variance[here] = (total**2 + inner[known]) @ mass - shift[here] ** 2
    own_shift[here], given[here] = own[known] @ mass, inner[known] @ mass
    return AuditedShift(mass, shift, variance, own_shift, given)


def _by_group(rows: AuditRows, at: IntArray, own: FloatArray, moves: FloatArray) -> FloatArray:
    """Weighted log-likelihood of each group's labels for every c and every own shift, (n_asked, n_grid, n_nodes)."""
    n_asked, n_nodes = own.shape
    eta = rows.log_odds[:, None, None] + moves[at, None, None] * GRID[:, None] + own[at, None, :]
    each = effective_weights(rows)[:, None, None] * (rows.y[:, None, None] * eta - np.logaddexp(0, eta))
    is_own = (np.arange(n_asked)[:, None] == at).astype(float)
    found: FloatArray = is_own @ each.reshape(len(at), GRID.size * n_nodes)
    return found.reshape(n_asked, GRID.size, n_nodes)


def _doubt(log_odds: FloatArray) -> FloatArray:
    q = expit(log_odds)
    variance: FloatArray = q * (1 - q)
    return variance
