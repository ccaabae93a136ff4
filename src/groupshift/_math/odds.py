"""Probabilities moved between class priors, in log-odds (Theorem 2 of the paper)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from groupshift._math.arrays import FloatArray, IntArray

# Log-odds beyond this are certainty to double precision: expit(36.7) rounds to 1.
MAX_LOG_ODDS = 36.0


def log_loss_rows(log_odds: FloatArray, y: IntArray) -> FloatArray:
    """Log loss of each row.

    >>> log_loss_rows(np.array([0.0, 2.0]), np.array([1, 0])).round(3).tolist()
    [0.693, 2.127]
    """
    against = np.where(y == 1, -log_odds, log_odds)
    # `logaddexp(0, against)`, in a third of the time.
    return np.maximum(against, 0) + np.log1p(np.exp(-np.abs(against)))


def log_odds_ratio(p: ArrayLike, q: ArrayLike) -> FloatArray:
    r"""Logarithm of the odds ratio OR(p, q), with OR(0, 0) = OR(1, 1) = 1 as in the paper.

    >>> float(log_odds_ratio(0.8, 0.5).round(3))
    1.386
    >>> float(log_odds_ratio(0.0, 0.0))
    0.0
    """
    p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(q, float))
    # Where both are 0 (or both 1) the difference of logits is inf - inf: the paper sets the ratio to 1.
    difference = np.zeros(p.shape)
    np.subtract(logit(p), logit(q), out=difference, where=~((p == q) & ((p == 0) | (p == 1))))
    return difference[()]


def _check_probability(name: str, value: ArrayLike) -> None:
    """Missing values stay missing; what lies outside 0 and 1 has no odds."""
    values = np.asarray(value, float)
    outside = values[(values < 0) | (values > 1)]
    if outside.size:
        raise ValueError(f"{name} holds {outside.flat[0]:g}. Pass probabilities between 0 and 1.")


def odds_ratio(p: ArrayLike, q: ArrayLike) -> FloatArray:
    r"""Odds ratio OR(p, q) = [p / (1 - p)] / [q / (1 - q)], with OR(0, 0) = OR(1, 1) = 1 as in the paper.

    Parameters
    ----------
    p, q : array-like, broadcast against each other
        Probabilities in [0, 1].

    Returns
    -------
    array of the broadcast shape
        Ratios from 0 to infinity.

    Examples
    --------
    Odds of 4 to 1 are four times as high as odds of 1 to 1.

    >>> float(odds_ratio(0.8, 0.5).round(3))
    4.0
    """
    for name, value in (("p", p), ("q", q)):
        _check_probability(name, value)
    with np.errstate(over="ignore"):
        return np.exp(log_odds_ratio(p, q))


def shift_posterior(posterior: ArrayLike, *, source_prior: ArrayLike, target_prior: ArrayLike) -> FloatArray:
    r"""Restate a posterior learned under one class prior for another (Theorem 2).

    ``logit ρ̄ = logit ρ̃ + logit α − logit α̃``. A posterior of exactly 0 or 1 stays as it is: no prior can move
    what the features already settled.

    Parameters
    ----------
    posterior : array-like
        ρ̃, the probability of the positive class where the share of positives is `source_prior`.
    source_prior, target_prior : array-like, broadcast against `posterior`
        α̃ and α, the shares of positives that `posterior` was learned under and is wanted for.

    Returns
    -------
    array of the broadcast shape
        ρ̄, the probability of the positive class where the share of positives is `target_prior`.

    Examples
    --------
    Features that say nothing leave the prior: a half among balanced classes is 0.8 where 0.8 are positive.

    >>> float(shift_posterior(0.5, source_prior=0.5, target_prior=0.8).round(3))
    0.8
    >>> shift_posterior([0.0, 0.2, 1.0], source_prior=0.2, target_prior=0.2).round(3).tolist()
    [0.0, 0.2, 1.0]
    """
    given = {"posterior": posterior, "source_prior": source_prior, "target_prior": target_prior}
    for name, value in given.items():
        _check_probability(name, value)
    posterior = np.asarray(posterior, float)
    shift = log_odds_ratio(target_prior, source_prior)
    is_settled = (posterior == 0) | (posterior == 1)
    with np.errstate(invalid="ignore"):
        moved: FloatArray = expit(logit(posterior) + shift)
    return np.where(is_settled, posterior, moved)[()]
