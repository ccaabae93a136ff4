"""Sets of classes that hold the true one at a given rate in every cell: weighted conformal prediction under label shift.

Held-out scores of labelled rows say how unusual a true class can look: 1 − p(y | x), with p as the target cell has it. Under
label shift a labelled row of class y stands for q(y) / p(y) rows of the cell (Tibshirani et al. 2019; Podkopaev and Ramdas 2021),
q being the cell's shares and p those of the labelled rows. A row to predict counts as one more of the class in question, as
unusual as can be: a class with few labelled rows is then left out of no set.

The coverage of a set is linear in q. So the estimated shares, which are means of what q may be, are all that is needed of it.
"""

import numpy as np
from scipy.special import expit

from groupshift._data.checks import check_coverage
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.points import BIN_WIDTH
from groupshift._scores.contrasts import log_scores
from groupshift._shifts.estimate import Estimate, Learned
from groupshift._shifts.scorer import AnyScorer, Scored
from groupshift._shifts.sums import Bins, Sums

# Held-out scores of two classes are kept in bins of so many of the finest ones: a sixteenth of a unit of log-odds.
COARSE = 16
# A class with fewer examples in a cluster borrows those of other clusters, up to this number.
ENOUGH = 50
# Numbers that are sorted at a time.
MOST_NUMBERS = 4_000_000


def held_out_sums(
    score: FloatArray, y: IntArray, cluster: IntArray, weight: FloatArray, n_clusters: int, bins: Bins
) -> Sums:
    """Held-out scores (n_rows, M) of labelled rows, by cluster and class: what a fitted model keeps of them."""
    n_classes = score.shape[1] + 1
    if bins.prototypes is None:
        bins = Bins(COARSE * BIN_WIDTH)
    return Sums.of(score, cluster * n_classes + y, weight, n_clusters * n_classes, bins)


def set_thresholds(learned: Learned, estimate: Estimate, coverage: float) -> FloatArray:
    """The largest 1 − p of each class that is in a set, (n_groups + 1, n_clusters, n_classes); the last line is of unseen groups.

    Infinity: the class is in every set.
    """
    check_coverage(coverage)
    sums, K, C = learned.held_out, learned.n_clusters, learned.n_classes
    if sums is None:
        raise ValueError(
            "This model has no held-out scores, which sets are made of: it has too few labels of one class, or an earlier "
            "version saved it. Fit it again, with two examples of each class or more."
        )
    shift = np.concatenate([estimate.shift, estimate.unseen_shift[None]])
    if C == 2:
        score = np.column_stack([np.zeros(len(sums.score)), sums.score[:, 0]])
        prior = np.column_stack([1 - learned.labeled_prior, learned.labeled_prior])
        shift = np.stack([np.zeros_like(shift), shift], -1)
        share = np.stack([1 - estimate.share, estimate.share], -1)
    else:
        score, prior, share = log_scores(sums.score), learned.labeled_prior, estimate.share
    of_unseen = prior * np.exp(shift[-1])
    share = np.concatenate([share, (of_unseen / of_unseen.sum(1, keepdims=True))[None]])
    found = np.full(share.shape, np.inf)
    examples = learned.class_rows
    everywhere = sums.weight_sum.reshape(K, C).sum(0)
    for k in range(K):
        # Where a class has few examples, those of other clusters stand beside them.
        lent = np.minimum(np.maximum(ENOUGH - examples[k], 0), examples.sum(0) - examples[k])
        n = np.maximum(examples[k] + lent, 1e-300)
        is_own = sums.cell // C == k
        own = np.flatnonzero(is_own | (lent > 0)[sums.cell % C])
        y = sums.cell[own] % C
        # Each row as a part of its class.
        here = is_own[own] / np.maximum(sums.weight_sum[sums.cell[own]], 1e-300)
        elsewhere = ~is_own[own] / np.maximum(everywhere - sums.weight_sum[k * C : (k + 1) * C], 1e-300)[y]
        part = sums.weight[own] * (here * (examples[k] / n)[y] + elsewhere * (lent / n)[y])
        step = max(1, MOST_NUMBERS // max(len(own) * C, 1))
        for start in range(0, len(share), step):
            lines = slice(start, start + step)
            q = share[lines, k]
            margin = score[own] + shift[lines, k][:, None, :]
            others = np.where(np.arange(C) == y[:, None], -np.inf, margin)
            unusual = expit(np.logaddexp.reduce(others, axis=2) - margin[:, np.arange(len(own)), y])
            order = unusual.argsort(1)
            covered = np.take_along_axis(q[:, y] * part, order, 1).cumsum(1)
            # One row more of the class, with the weight of one.
            level = coverage * (1 + q / n)
            place = (covered[:, :, None] < level[:, None, :] - 1e-12).sum(1)
            ordered = np.append(np.take_along_axis(unusual, order, 1), np.full((len(q), 1), np.inf), axis=1)
            found[lines, k] = np.take_along_axis(ordered, place, 1)
    return found


def sets_of(scorer: AnyScorer, scored: Scored, thresholds: FloatArray) -> BoolArray:
    """Which classes are in the set of each row, (n_rows, n_classes); the likeliest one always is."""
    p = scorer.probability(scored)
    if p.ndim == 1:
        p = np.column_stack([1 - p, p])
    # Rounding moves a probability by less than this.
    found: BoolArray = 1 - p <= thresholds[scored.group, scored.cluster] + 1e-9
    found[np.arange(len(p)), p.argmax(1)] = True
    return found
