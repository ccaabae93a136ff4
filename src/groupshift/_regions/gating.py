"""Partitions learned from labels and groups: regions in which each class has one mix of groups.

Under the assumption, x is independent of the group given the class inside a cluster. So the group of a labelled row
follows ``p(g | x, y) = Σ_k π_k(x) θ[g | y, k]``: a mixture whose components are clusters, with gates π_k that depend
on x. Gates with straight boundaries find the generating partition where k-means, which looks at x alone, does not.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import renumbered, sum_by
from groupshift._regions.merging import cell_counts

# Rows that the first rounds of gates learn from at least.
FEWEST_ROWS = 2_000


def composition_clusters(
    cell: IntArray, group: IntArray, y: IntArray, weight: FloatArray, start: IntArray
) -> IntArray:
    """Move small cells of feature space between clusters until each lies where its groups are composed most alike.

    Parameters
    ----------
    cell, group, y, weight : arrays of labelled rows
    start : array of shape (n_cells,)
        First cluster of each cell.

    Returns
    -------
    array of shape (n_cells,)
        Cluster of each cell; clusters that lost all their cells are left out of the numbering.
    """
    counts = cell_counts(cell, group, y, weight, len(start))
    one_hot = np.eye(int(start.max()) + 1)
    cluster = start
    for _ in range(30):
        member = one_hot[cluster]
        theta = _compositions(np.einsum("mk,ymg->ykg", member, counts))
        new = np.einsum("ymg,ykg->mk", counts, np.log(theta)).argmax(1)
        if (new == cluster).all():
            break
        cluster = new
    return renumbered(cluster)


@dataclass(frozen=True)
class Gates:
    """Gates with straight boundaries.

    Attributes
    ----------
    slope, intercept : arrays of shape (n_dimensions, n_clusters) and (n_clusters,)
        A row belongs to the cluster of its largest ``embedded @ slope + intercept``.
    log_likelihood : float
        Mean log p(g | x, y) of the rows that they were learned from.
    """

    slope: FloatArray
    intercept: FloatArray
    log_likelihood: float

    def predict(self, embedded: FloatArray) -> IntArray:
        cluster: IntArray = np.argmax(embedded @ self.slope + self.intercept, axis=1)
        return cluster

    def take(self, clusters: IntArray) -> Self:
        """The gates of some clusters only."""
        return replace(self, slope=self.slope[:, clusters], intercept=self.intercept[clusters])


def learn_gates(
    embedded: FloatArray,
    group: IntArray,
    y: IntArray,
    weight: FloatArray,
    start: IntArray,
    *,
    rounds: int = 6,
    tol: float = 1e-5,
) -> Gates:
    """Linear gates and group compositions of highest likelihood, by turns.

    Parameters
    ----------
    embedded : array of shape (n_rows, n_dimensions)
        Standardised features of labelled rows.
    group, y, weight, start : arrays of shape (n_rows,)
        Group, class, weight and first cluster of each row.

    Notes
    -----
    Slopes have a normal prior that gives the log-odds of standardised rows unit variance, whatever the number of features:
    a few rows alone do not bend a boundary.
    """
    n_groups, n_clusters = int(group.max()) + 1, int(start.max()) + 1
    # Single precision is finer than gates need to be, in two thirds of the time. Rows, and their clusters, along the last axis:
    # sums over clusters then run over long rows.
    design = np.vstack([embedded.T, np.ones(len(embedded))]).astype(np.float32)
    penalty = np.full(len(design), embedded.shape[1] / len(y))
    penalty[-1] = 0.0
    index = y * n_groups + group
    gates = np.zeros((len(penalty), n_clusters))
    theta = np.zeros(0)
    before = -np.inf
    for step in _row_steps(len(y), rounds):
        few = slice(None, None, step)
        own, place, mass = np.ascontiguousarray(design[:, few]), index[few], weight[few] / weight[few].sum()
        if not len(theta):
            member = np.eye(n_clusters)[:, start[few]]
            # The first clusters may be wrong for some rows: a row may leave its own, with a likelihood of one in a thousand.
            gates, _ = _raise_gates(own, member + 1e-3, mass, gates, penalty, 12)
        else:
            member = softmax(gates.T @ own + theta[:, place], axis=0)
        theta = _log_compositions(place, mass * len(mass) * member, n_groups)
        likelihood = theta[:, place]
        top = likelihood.max(0)
        gates, value = _raise_gates(own, np.exp(likelihood - top), mass, gates, penalty, 8)
        value += float(mass @ top)
        if step == 1 and value - before < tol:
            break
        before = value if step == 1 else before
    return Gates(gates[:-1], gates[-1], value)


def _row_steps(n_rows: int, rounds: int) -> list[int]:
    """Which rows each round learns from, every eighth or every one: many rows are needed for the last digits only.

    >>> _row_steps(20_000, 6), _row_steps(2_000, 6)
    ([8, 8, 8, 1, 1], [1, 1, 1, 1, 1, 1])
    """
    step = int(np.clip(n_rows // FEWEST_ROWS, 1, 8))
    return [1] * rounds if step == 1 else [step] * (rounds // 2) + [1] * max(rounds // 3, 1)


def _log_compositions(index: IntArray, weights: FloatArray, n_groups: int) -> FloatArray:
    """log θ of each cluster and (class, group), from the weight of each row in each cluster."""
    counts = np.stack([sum_by(index, w, 2 * n_groups) for w in weights])
    theta = _compositions(counts.reshape(-1, 2, n_groups).transpose(1, 0, 2))
    return np.log(theta).transpose(1, 0, 2).reshape(-1, 2 * n_groups)


def _compositions(counts: FloatArray) -> FloatArray:
    """θ[y, k, g] from counts, each cluster's mix of groups drawn a little towards the class's own mix."""
    base: FloatArray = counts.sum(1) + 0.5
    base *= counts.shape[2] / base.sum(1, keepdims=True)
    theta = counts + base[:, None, :]
    theta /= theta.sum(2, keepdims=True)
    return theta


def _raise_gates(
    design: NDArray[np.float32],
    theta: FloatArray,
    weight: FloatArray,
    start: FloatArray,
    penalty: FloatArray,
    max_iter: int,
) -> tuple[FloatArray, float]:
    """Gates that raise Σ w log Σ_k π_k(x) θ[g | y, k], and the value reached.

    Shapes are (d, n_rows) for `design`, (n_clusters, n_rows) for θ and (d, n_clusters) for gates, with d the number of
    dimensions and one for the intercept.
    """
    shape = start.shape
    theta, weight = theta.astype(np.float32), weight.astype(np.float32)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        gates = flat.reshape(shape)
        gate = gates.T.astype(np.float32) @ design
        gate -= gate.max(0)
        np.exp(gate, out=gate)
        norm = gate.sum(0)
        joint = gate * theta
        total = joint.sum(0)
        shrink = penalty[:, None] * gates
        value = -float(weight @ np.log(total / norm)) + float((shrink * gates).sum()) / 2
        gate *= weight / norm
        joint *= weight / total
        gate -= joint
        return value, (design @ gate.T + shrink).ravel()

    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return found.x.reshape(shape), -float(found.fun)
