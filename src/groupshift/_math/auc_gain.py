r"""Theorem 1: how much AUC the group is worth, in O(n log n).

A group-agnostic score r ranks rows by their features alone; the group-aware score s = r · OR(α_k^g, α_k)
also knows the share of positives of the row's cell. The theorem writes AUC(s) − AUC(r) as a sum over
(positive i, negative j) of two non-negative parts: pairs that a pure cell settles for certain, and pairs that
the shares put the other way round.

Scores are log-odds here, for three reasons. Only ratios of scores matter, and these become differences, which
do not overflow. The shift is added to them, exactly as in Theorem 2. And a posterior of exactly 0 or 1, which
a forest will give, is simply infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.sums import sum_by

# exp(600) is 1e260: sums over 1e12 pairs of such ratios are still finite.
_MAX_SPAN = 600.0


@dataclass(frozen=True)
class AUCGain:
    """What Theorem 1 says about one population; ``float(result)`` is the gain.

    Attributes
    ----------
    certain : float
        First expectation: pairs settled by a pure cell (ω⁰¹ = 0).
    reordered : float
        Second expectation: pairs that shares strictly between 0 and 1 put the other way round.
    auc_agnostic : float
        AUC of the group-agnostic score over the same pairs, to read the gain against.
    gain : float
        Sum of both expectations: AUC of the group-aware score minus that of the group-agnostic one, never negative.

    Examples
    --------
    >>> from groupshift.theory import AUCGain
    >>> float(AUCGain(certain=0.125, reordered=0.25, auc_agnostic=0.5))
    0.375
    """

    certain: float
    reordered: float
    auc_agnostic: float

    @property
    def gain(self) -> float:
        return self.certain + self.reordered

    def __float__(self) -> float:
        return self.gain


def auc_gain(
    log_odds: ArrayLike,
    *,
    group: ArrayLike,
    cluster: ArrayLike,
    group_prior: ArrayLike,
    prior: ArrayLike | None = None,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> AUCGain:
    r"""Gain in AUC from knowing the group of each row (Theorem 1).

    Parameters
    ----------
    log_odds : array of n
        Log-odds of the group-agnostic *population* posterior ρ(x). From a labelled posterior:
        ``logit(labeled_posterior) + logit(prior[cluster]) - logit(labeled_prior[cluster])``. Infinite values
        stand for a posterior of exactly 0 or 1. With labels, any constant may be added, so a log density
        ratio serves too.
    group, cluster : integer arrays of n
        Row and column of ``group_prior`` for each row.
    group_prior : array (G, K)
        α_k^g, share of positives of each cell. Cells without rows are not looked at and may be NaN.
    prior : array of K, optional
        α_k, overall share of positives of each cluster. None averages ``group_prior`` over the rows.
    y : array of n in {0, 1}, optional
        Labels. None is for an unlabelled population: each row counts as a positive with weight ρ̄(x, g) and
        as a negative with 1 − ρ̄(x, g), which gives the gain to expect if scores and shares are right. It
        then equals the difference of the two soft AUCs exactly, on any sample. With labels it only converges
        to that difference, and slowly where likelihood ratios s_j/s_i are large; a user with labels can also
        measure both AUCs directly.
    sample_weight : array of n, optional
        Rows of weight 0 are ignored.

    Returns
    -------
    AUCGain
        Both expectations, their sum, and the AUC they add to.

    Notes
    -----
    Time O(n log n), memory O(n). OR(0, 0) = OR(1, 1) = 1. Labels to which the model gives probability zero (a
    positive in a cell whose share is 0) lie outside the theorem and raise an error.

    Examples
    --------
    Useless features (all odds 1) and pure cells: the group settles every pair; luck had settled half.

    >>> from groupshift.theory import auc_gain
    >>> result = auc_gain([0.0, 0.0], group=[0, 1], cluster=[0, 0], group_prior=[[0.0], [1.0]])
    >>> result.auc_agnostic, result.gain
    (0.5, 0.5)

    Shares 1/4 and 3/4 instead: the pair (positive in group 1, negative in group 0) has probability 9/16, its
    reverse 1/16, so the AUC rises from 1/2 by (9/16 - 1/16)/2.

    >>> auc_gain([0.0, 0.0], group=[0, 1], cluster=[0, 0], group_prior=[[0.25], [0.75]]).gain
    0.25
    """
    r, group_, cluster_, share, weight = _rows(log_odds, group, cluster, group_prior, sample_weight)
    n_clusters = np.shape(group_prior)[1]
    if prior is None:
        prior_logit = _overall_logit(cluster_, share, weight, n_clusters)
    else:
        prior_logit = logit(_checked_prior(prior, cluster_, n_clusters))
    label = None if y is None else _checked_labels(y, r.size)

    used = weight > 0
    r, share, weight = r[used], share[used], weight[used]
    shift = _shift(share, prior_logit, group_[used], cluster_[used])
    # A posterior of exactly 0 or 1 stays as it is: no share moves what the features have settled.
    s = np.add(r, shift, where=np.isfinite(r), out=r.copy())
    if label is None:
        positive, negative = weight * expit(s), weight * expit(-s)
    else:
        label = label[used]
        _check_possible(label, s)
        positive, negative = weight * label, weight * ~label
    positive, negative = _normalised(positive, "positive"), _normalised(negative, "negative")

    tie = np.unique(r, return_inverse=True)[1]
    # The certain pairs: (pure positive, any negative), then (any other positive, pure negative).
    pure_1, pure_0 = shift == np.inf, shift == -np.inf
    certain = _wins(tie, negative, positive * pure_1) + _wins(tie, negative * pure_0, positive * ~pure_1)
    # An infinite s is at its own end of the ranking: no pair of the second expectation contains one.
    finite = np.isfinite(s)
    reordered = _reordered(tie[finite], s[finite], positive[finite], negative[finite], soft=label is None)
    return AUCGain(certain=certain, reordered=reordered, auc_agnostic=_wins(tie, positive, negative))


def overall_prior(
    *, group: ArrayLike, cluster: ArrayLike, group_prior: ArrayLike, sample_weight: ArrayLike | None = None
) -> FloatArray:
    """Share of positives of each cluster over all groups, α_k: cell shares averaged over the rows.

    A cluster without rows has no share: NaN.

    >>> overall_prior(group=[0, 1, 1, 1], cluster=[0, 0, 0, 0], group_prior=[[0.5], [0.1]])
    array([0.2])
    """
    n = np.size(group)
    _, _, cluster_, share, weight = _rows(np.zeros(n), group, cluster, group_prior, sample_weight)
    prior: FloatArray = expit(_overall_logit(cluster_, share, weight, np.shape(group_prior)[1]))
    return prior


def _overall_logit(cluster: IntArray, share: FloatArray, weight: FloatArray, n_clusters: int) -> FloatArray:
    positive = sum_by(cluster, weight * share, n_clusters)
    negative = sum_by(cluster, weight * (1 - share), n_clusters)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Infinite only when every cell of the cluster is pure, where the logit of a rounded mean is not.
        return np.log(positive) - np.log(negative)


def _shift(share: FloatArray, prior_logit: FloatArray, group: IntArray, cluster: IntArray) -> FloatArray:
    """log OR(α_k^g, α_k) of each row, 0 where both shares are 0 or both are 1."""
    share_logit: FloatArray = logit(share)
    prior_logit = prior_logit[cluster]
    impossible = np.isinf(prior_logit) & (share_logit != prior_logit)
    if impossible.any():
        i = int(np.flatnonzero(impossible)[0])
        g, k = group[i], cluster[i]
        raise ValueError(
            f"prior[{k}] is exactly {expit(prior_logit[i]):.0f} but group_prior[{g}, {k}] is "
            f"{share[i]:.3g}: an overall share of 0 or 1 needs the same share in every group. Pass "
            "prior=None to average group_prior over the rows."
        )
    shift = np.zeros_like(share_logit)
    np.subtract(share_logit, prior_logit, where=share_logit != prior_logit, out=shift)
    return shift


def _check_possible(label: BoolArray, s: FloatArray) -> None:
    impossible = np.where(label, s == -np.inf, s == np.inf)
    if impossible.any():
        raise ValueError(
            f"{impossible.sum()} labels contradict the scores: y is 1 where the group-aware posterior is "
            "exactly 0, or 0 where it is exactly 1, and Theorem 1 gives such rows probability zero. Clip "
            "log_odds and keep group_prior inside (0, 1), or compare the two AUCs directly."
        )
    finite = s[np.isfinite(s)]
    if finite.size and np.ptp(finite) > _MAX_SPAN:
        raise ValueError(
            f"Group-aware log-odds span {np.ptp(finite):.0f}, so likelihood ratios of labelled pairs "
            f"overflow; a span of at most {_MAX_SPAN:.0f} was expected. Clip log_odds (say to ±30)."
        )


def _normalised(weight: FloatArray, name: str) -> FloatArray:
    total = float(weight.sum())
    if not total > 0:
        raise ValueError(
            f"No row can be {name}, so there are no (positive, negative) pairs and no AUC. Rows of both "
            "classes were expected: check y, or shares and scores that are all exactly 0 or all exactly 1."
        )
    return weight / total


def _wins(tie: IntArray, first: FloatArray, second: FloatArray) -> float:
    """Weight of the pairs whose first member ranks above the second, ties half, given ranks with ties."""
    a, b = np.bincount(tie, first), np.bincount(tie, second)
    return float(a @ (np.cumsum(b) - b / 2))


def _reordered(
    tie: IntArray, s: FloatArray, positive: FloatArray, negative: FloatArray, *, soft: bool
) -> float:
    """Sum of p_i q_j (s_j/s_i − 1) over pairs with r_j < r_i (ties half) and s_j > s_i."""
    n = s.size
    if n == 0:
        return 0.0
    if soft:
        # Here p/q is s up to one constant, so p_i q_j s_j/s_i = q_i p_j: nothing to exponentiate.
        low, high = negative, positive
    else:
        centre = (s.min() + s.max()) / 2
        low, high = positive * np.exp(centre - s), negative * np.exp(s - centre)
    by_s = np.argsort(s, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_s] = np.arange(n)
    # A power of two lets every level below split into equal halves. Padding has no weight.
    size = 1 << (n - 1).bit_length()
    arrays = [np.pad(v[by_s], (0, size - n)) for v in (low, high, positive, negative)]
    # Ties in r come in ascending s, so that no tied pair counts, then in descending s, so that each one does:
    # the mean counts half. Ties in s need no care: their s_j/s_i − 1 is 0.
    padding = np.arange(n, size)
    keys = np.sort(tie * n + rank)
    total = _inversions(np.concatenate([keys % n, padding]), *arrays)
    if (np.diff(keys // n) == 0).any():
        keys = np.sort(tie * n + (n - 1 - rank))
        total = (total + _inversions(np.concatenate([n - 1 - keys % n, padding]), *arrays)) / 2
    return total


def _inversions(
    rank: IntArray, low: FloatArray, high: FloatArray, positive: FloatArray, negative: FloatArray
) -> float:
    """Sum of low_i high_j − positive_i negative_j over pairs where j stands before i but ranks above it.

    ``rank`` is a permutation of a power of two, and the other arrays are indexed by rank. Each level cuts
    every block of consecutive ranks into its lower and upper half, both in the order in which they stood: a
    pair is met in the one level that parts it. Sums start anew in each block, so that no large number is
    subtracted from another.
    """
    total = 0.0
    half = rank.size // 2
    while half:
        is_upper = (rank & half).astype(bool)
        at_lower = np.flatnonzero(~is_upper)
        lower, upper = rank[at_lower].reshape(-1, half), rank[is_upper].reshape(-1, half)
        blocks = np.arange(lower.shape[0])[:, None]
        # Place in the block, less the lower ones before it: the number of upper ones before it.
        before = at_lower.reshape(-1, half) - 2 * half * blocks - np.arange(half)
        before += (half + 1) * blocks
        swapped = low[lower] * _sums_before(high[upper]).take(before)
        swapped -= positive[lower] * _sums_before(negative[upper]).take(before)
        # Each term is positive in exact arithmetic; so must its rounded value be.
        total += float(np.maximum(swapped, 0, out=swapped).sum())
        rank = np.concatenate([lower, upper], axis=1).ravel()
        half //= 2
    return total


def _sums_before(values: FloatArray) -> FloatArray:
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _rows(
    log_odds: ArrayLike,
    group: ArrayLike,
    cluster: ArrayLike,
    group_prior: ArrayLike,
    sample_weight: ArrayLike | None,
) -> tuple[FloatArray, IntArray, IntArray, FloatArray, FloatArray]:
    """Checked columns of one length: score, group, cluster, share of the cell, weight."""
    r = np.asarray(log_odds, dtype=np.float64)
    shares = np.asarray(group_prior, dtype=np.float64)
    if r.ndim != 1 or r.size == 0:
        raise ValueError(
            f"log_odds has shape {r.shape}; a non-empty one-dimensional array was expected: one per row."
        )
    if np.isnan(r).any():
        raise ValueError(
            f"log_odds has {np.isnan(r).sum()} NaN values. Drop these rows or give them a score."
        )
    if shares.ndim != 2:
        raise ValueError(
            f"group_prior has shape {shares.shape}; (groups, clusters) was expected. One cluster: (G, 1)."
        )
    group_ = _codes(group, "group", r.size, shares.shape[0])
    cluster_ = _codes(cluster, "cluster", r.size, shares.shape[1])
    share = shares[group_, cluster_]
    bad = ~((share >= 0) & (share <= 1))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"group_prior[{group_[i]}, {cluster_[i]}] is {share[i]} but {bad.sum()} rows need a share in "
            "[0, 1] from their cell. Only cells without rows may be NaN: fill the others, for instance "
            "with the cluster's share."
        )
    return r, group_, cluster_, share, _checked_weights(sample_weight, r.size)


def _per_row(values: ArrayLike, name: str, n: int) -> ValueArray:
    column = np.asarray(values)
    if column.shape != (n,):
        raise ValueError(f"{name} has shape {column.shape}; ({n},) was expected, one for each row.")
    return column


def _codes(values: ArrayLike, name: str, n: int, bound: int) -> IntArray:
    codes = _per_row(values, name, n)
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(
            f"{name} has dtype {codes.dtype}; integers that index group_prior were expected. "
            "Number names with np.unique(..., return_inverse=True)."
        )
    if codes.min() < 0 or codes.max() >= bound:
        raise ValueError(
            f"{name} runs from {codes.min()} to {codes.max()} but group_prior has {bound} of them: 0 to "
            f"{bound - 1} was expected. Number them as in group_prior, whose shape is (groups, clusters)."
        )
    return codes.astype(np.int64, copy=False)


def _checked_prior(prior: ArrayLike, cluster: IntArray, n_clusters: int) -> FloatArray:
    checked = np.asarray(prior, dtype=np.float64)
    if checked.shape != (n_clusters,):
        raise ValueError(
            f"prior has shape {checked.shape}; ({n_clusters},) was expected, one share for each cluster."
        )
    # A cluster without rows has no share: NaN is an error only where a row needs it.
    needed = checked[cluster]
    if not ((needed >= 0) & (needed <= 1)).all():
        raise ValueError(
            f"prior is {checked.tolist()}; shares in [0, 1] were expected for each cluster that has rows. "
            "Pass prior=None to average group_prior over the rows."
        )
    return checked


def _checked_labels(y: ArrayLike, n: int) -> BoolArray:
    label = _per_row(y, "y", n)
    if not np.isin(label, (0, 1)).all():
        found = np.unique(label[~np.isin(label, (0, 1))])[:5].tolist()
        raise ValueError(
            f"y holds {found}; only 0 and 1 were expected. Drop unlabelled rows, or pass y=None."
        )
    return label.astype(bool)


def _checked_weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n)
    weight = _per_row(sample_weight, "sample_weight", n).astype(float)
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError(
            "sample_weight has negative, infinite, NaN or only zero values; weights >= 0, not all 0, were expected."
        )
    return weight
