"""The article's algorithm as its text has it: arrays in, arrays out.

D. Zeiberg, S. Jain, P. Radivojac: Leveraging Structure for Improved Classification of Grouped Biased Data, AAAI 2023, "Methods"
and "Experimental Protocol". Rows lie in clusters π(x) = k, numbered from 0. The steps:

1. `hold_out`: a fifth of the distinct labelled examples is the validation set;
2. `training_rows`: which of the others each cluster's classifier is trained on;
3. `platt_lines`: each cluster's scores calibrated on its rows of the validation set, which gives ρ̃(x);
4. `labeled_shares`: α̃_k, the share of positives among the labelled rows of a cluster;
5. `cell_shares`: α_k^g, the share of positives in each (group, cluster) cell of the population, by EM;
6. `finite_shifts`: Theorem 2 in log-odds, logit ρ̄(x, g) = logit ρ̃(x) + log OR(α_k^g, α̃_k).

Where the text is silent:

- a split that leaves a class out on one side is drawn again within each class, by the caller;
- a cluster whose training rows lack a class has the classifier of all training rows;
- a cluster without rows in the validation set has the line of all of them;
- a cell without rows, a group that the population does not have, and a cluster whose labelled rows lack a class are left
  uncorrected: their share is α̃_k, so that the odds ratio is 1;
- weights count as so many rows, and copies of one example lie on one side of the split.

tests/reference_paper.py is the same algorithm written a second time, with NumPy and scikit-learn alone.
"""

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from groupshift._math.arrays import BoolArray, FloatArray, IntArray, KeyArray
from groupshift._math.label_shift import Shares, em
from groupshift._math.odds import MAX_LOG_ODDS, log_odds_ratio
from groupshift._math.points import Points
from groupshift._math.sums import mean_by

VALIDATION_PART = 0.2
EM_STEPS = 100


def hold_out(example: KeyArray, seed: int) -> BoolArray:
    """Marks the rows of a random fifth of the distinct examples.

    >>> is_held = hold_out(np.repeat(np.arange(10), 3), seed=0)
    >>> int(is_held.sum()), is_held.reshape(10, 3).any(1).tolist() == is_held.reshape(10, 3).all(1).tolist()
    (6, True)
    """
    distinct, number = np.unique(example, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    return order[number] < round(VALIDATION_PART * len(distinct))


def training_rows(y: IntArray, cluster: IntArray, n_clusters: int) -> list[IntArray | None]:
    """Rows that the classifier of each cluster is trained on; None stands for all of them, where its own lack a class.

    >>> training_rows(np.array([0, 1, 1]), np.array([0, 0, 1]), 2)
    [array([0, 1]), None]
    """
    rows = [np.flatnonzero(cluster == k) for k in range(n_clusters)]
    return [own if len(np.unique(y[own])) > 1 else None for own in rows]


def platt_lines(
    score: FloatArray, y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> FloatArray:
    """Slope and intercept of each cluster's line from scores to log-odds, learned from the validation set: (n_clusters, 2)."""
    lines = []
    for k in range(n_clusters):
        own = cluster == k if (cluster == k).any() else slice(None)
        lines.append(platt_line(score[own], y[own], weight[own]))
    return np.array(lines)


def platt_line(score: FloatArray, y: IntArray, weight: FloatArray) -> FloatArray:
    """Slope and intercept by Platt's scaling: maximum likelihood of targets a little less sure than the labels, no penalty.

    The targets are those of Platt (1999): (N₊ + 1) / (N₊ + 2) for the N₊ positives and 1 / (N₋ + 2) for the N₋ negatives. They
    keep the line finite where a score separates the classes; rows of one class have a constant.

    >>> platt_line(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]), np.ones(4)).round(3).tolist()
    [2.197, -1.099]
    """
    positives, negatives = weight @ y, weight @ (1 - y)
    target = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    center = np.average(score, weights=weight)
    scale = np.sqrt(np.average((score - center) ** 2, weights=weight)) or 1.0
    design = np.column_stack([(score - center) / scale, np.ones(len(score))])

    def loss(line: FloatArray) -> float:
        log_odds = design @ line
        return float(weight @ (np.logaddexp(0, log_odds) - target * log_odds))

    line = np.array([0.0, logit(np.average(target, weights=weight))])
    for _ in range(100):
        p = expit(design @ line)
        gradient = design.T @ (weight * (target - p))
        curvature = design.T @ ((weight * p * (1 - p))[:, None] * design)
        # Newton's step; the shortest one where all scores are equal and only the intercept is decided.
        step = np.linalg.lstsq(curvature, gradient)[0]
        before = loss(line)
        while loss(line + step) > before + 1e-12 * (1 + before):
            step /= 2
        line = line + step
        if np.abs(step).max() < 1e-10:
            break
    slope = line[0] / scale
    return np.array([slope, line[1] - slope * center])


def labeled_shares(y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int) -> FloatArray:
    """α̃_k: share of positives among the labelled rows of each cluster; where it has none, that of all labelled rows.

    >>> labeled_shares(np.array([1, 0, 0, 0]), np.ones(4), np.array([0, 0, 1, 1]), 3).tolist()
    [0.5, 0.0, 0.25]
    """
    return mean_by(cluster, y, weight, n_clusters, empty=float(np.average(y, weights=weight)))


def cell_shares(points: Points, labeled_share: FloatArray) -> Shares:
    """α_k^g of each cell by MLLS: 100 steps of EM that start with the mean of ρ̃; α̃_k where nothing is corrected.

    `labeled_share` is α̃ of each cell's cluster, of shape (n_cells,).

    >>> from groupshift.theory import collect_points
    >>> points = collect_points(np.log([3.0, 3.0, 1.0]), [0, 0, 0], n_cells=2)
    >>> cell_shares(points, np.array([0.5, 0.2])).share.round(3).tolist()
    [1.0, 0.2]
    """
    shows_both_classes = (labeled_share > 0) & (labeled_share < 1)
    found, _ = em(points, labeled_prior=np.where(shows_both_classes, labeled_share, 0.5), n_iter=EM_STEPS)
    is_corrected = shows_both_classes & ~np.isnan(found.share)
    return replace(found, share=np.where(is_corrected, found.share, labeled_share))


def finite_shifts(share: FloatArray, labeled_share: FloatArray) -> FloatArray:
    """log OR(α_k^g, α̃_k): what Theorem 2 adds to logit ρ̃ in a cell.

    A share of 0 or 1 makes every row certain, and so does a shift of 72: infinity could not be reckoned with.

    >>> finite_shifts(np.array([0.5, 0.8, 1.0, 1.0]), np.array([0.5, 0.5, 0.5, 1.0])).round(3).tolist()
    [0.0, 1.386, 72.0, 0.0]
    """
    return np.clip(log_odds_ratio(share, labeled_share), -2 * MAX_LOG_ODDS, 2 * MAX_LOG_ODDS)
