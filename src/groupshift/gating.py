"""Partitions learned from labels and groups: regions where the groups mix alike, class by class.

Under the assumption, x is independent of the group given the class inside a cluster. So the group of a labelled row
follows ``p(g | x, y) = Σ_k π_k(x) θ[g | y, k]``: a mixture whose components are clusters, with gates π_k that depend
on x. Gates with straight boundaries find the generating partition where k-means, which looks at x alone, does not.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def composition_clusters(
    cell: IntArray, group: IntArray, y: IntArray, weight: FloatArray, start: IntArray, *, max_iter: int = 30
) -> IntArray:
    """Move small cells of feature space between clusters until each lies where its groups are composed most alike.

    Parameters
    ----------
    cell, group, y : arrays of labelled rows
    start : array of shape (n_cells,)
        First cluster of each cell.
    """
    n_cells, n_groups, n_clusters = len(start), int(group.max()) + 1, int(start.max()) + 1
    index = (y * n_cells + cell) * n_groups + group
    counts = np.bincount(index, weights=weight, minlength=2 * n_cells * n_groups).reshape(
        2, n_cells, n_groups
    )
    cluster = start
    for _ in range(max_iter):
        member = np.eye(n_clusters)[cluster]
        theta = _compositions(np.einsum("mk,ymg->ykg", member, counts))
        new = np.einsum("ymg,ykg->mk", counts, np.log(theta)).argmax(1)
        if (new == cluster).all():
            break
        cluster = new
    return np.unique(cluster, return_inverse=True)[1]


def learn_gates(
    embedded: FloatArray,
    group: IntArray,
    y: IntArray,
    weight: FloatArray,
    start: IntArray,
    *,
    max_iter: int = 25,
    tol: float = 1e-5,
) -> tuple[FloatArray, FloatArray]:
    """Linear gates and group compositions by EM, from a first cluster of each row.

    Returns
    -------
    slope, intercept : arrays of shape (n_dimensions, n_clusters) and (n_clusters,)
        A row belongs to the cluster of its largest ``embedded @ slope + intercept``.
    """
    n_clusters, n_groups = int(start.max()) + 1, int(group.max()) + 1
    member = np.eye(n_clusters)[start]
    design = np.hstack([embedded, np.ones((len(embedded), 1))])
    gates = np.zeros((design.shape[1], n_clusters))
    index = y * n_groups + group
    weight = weight / weight.sum()
    before = -np.inf
    for step in range(max_iter):
        gates = _fit_gates(design, member, weight, gates, max_iter=30 if step == 0 else 10)
        counts = np.stack(
            [np.bincount(index, weights=len(y) * weight * m, minlength=2 * n_groups) for m in member.T], 1
        )
        theta = _compositions(counts.astype(float).reshape(2, n_groups, n_clusters).transpose(0, 2, 1))
        joint = (
            log_softmax(design @ gates, axis=1)
            + np.log(theta).transpose(0, 2, 1).reshape(-1, n_clusters)[index]
        )
        top = joint.max(1, keepdims=True)
        member = np.exp(joint - top)
        total = member.sum(1, keepdims=True)
        member /= total
        likelihood = float(weight @ (top + np.log(total))[:, 0])
        if likelihood - before < tol:
            break
        before = likelihood
    return gates[:-1], gates[-1]


def _compositions(counts: FloatArray) -> FloatArray:
    """θ[y, k, g] from counts, each cluster's mix of groups drawn a little towards the class's own mix."""
    base = counts.sum(1) + 0.5
    base *= counts.shape[2] / base.sum(1, keepdims=True)
    theta = counts + base[:, None, :]
    return theta / theta.sum(2, keepdims=True)


def _fit_gates(design, member, weight, start, max_iter: int, penalty: float = 1e-4):
    """Multinomial logistic regression on soft memberships."""
    shape = start.shape

    def objective(flat):
        gates = flat.reshape(shape)
        log_p = log_softmax(design @ gates, axis=1)
        shrink = penalty * np.vstack([gates[:-1], np.zeros((1, shape[1]))])
        value = -(weight @ (member * log_p)).sum() + (shrink * gates).sum() / 2
        return value, (design.T @ (weight[:, None] * (np.exp(log_p) - member)) + shrink).ravel()

    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return found.x.reshape(shape)
