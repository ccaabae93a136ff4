"""What the rows of a cell say about its shift by themselves, as a Gaussian (NumPy, SciPy)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from groupshift._math.arrays import FloatArray
from groupshift._math.cell_likelihood import CellLikelihood
from groupshift._math.points import Points
from groupshift._math.sums import ratio

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
# A shift of four log-odds is two of these standard deviations away: what lies beyond is not told apart.
WIDE = 4.0


@dataclass(frozen=True)
class Sites:
    """The likelihood of each cell's shift as a Gaussian: its mean and its precision, of shape (n_groups, n_clusters) each."""

    response: FloatArray
    weight: FloatArray


def node_moments(node: FloatArray, log_mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances of densities, from their nodes and the logs of what these weigh beside `NODE_WEIGHTS`."""
    mass = NODE_WEIGHTS * np.exp(log_mass - log_mass.max(1, keepdims=True))
    mass /= mass.sum(1, keepdims=True)
    mean = (mass * node).sum(1)
    return mean, (mass * (node - mean[:, None]) ** 2).sum(1)


def cell_sites(points: Points, *, labeled_prior: FloatArray, n_groups: int) -> Sites:
    """Sites that give the right posterior mean and variance under a wide normal prior, which is then taken out.

    Unlike the curvature at the maximum this serves cells of a few rows, whose maximum may lie at infinity.

    >>> from groupshift._math.points import collect_points
    >>> sites = cell_sites(collect_points([2.0] * 9, [0] * 9, n_cells=2), labeled_prior=np.array([0.5]), n_groups=2)
    >>> bool(sites.response[0, 0] > 1), float(sites.weight[1, 0])
    (True, 0.0)
    """
    base = np.tile(logit(labeled_prior), n_groups)
    likelihood = CellLikelihood(points, base)
    mode = np.zeros(points.n_cells)
    information = np.zeros(points.n_cells)
    for _ in range(12):
        gradient, information = likelihood.information(base + mode)
        step = np.clip((gradient - mode / WIDE) / (information + 1 / WIDE), -1, 1)
        mode = mode + step
        if np.abs(step).max(initial=0.0) < 1e-3:
            break
    spread = np.sqrt(1 / (information + 1 / WIDE))
    node = mode[:, None] + spread[:, None] * NODES
    log_mass = NODES**2 / 2 - node**2 / (2 * WIDE)
    for j in range(len(NODES)):
        log_mass[:, j] += likelihood.log_likelihood(base + node[:, j])
    mean, spread_squared = node_moments(node, log_mass)
    spread_squared = np.maximum(spread_squared, 1e-12)
    # Below a thousandth of a row's worth of information nothing is said.
    weight = np.where(points.weight_sum > 0, 1 / spread_squared - 1 / WIDE, 0.0)
    weight = np.where(weight > 1e-3, weight, 0.0)
    response = ratio(mean / spread_squared, weight, empty=0.0)
    return Sites(response.reshape(n_groups, -1), weight.reshape(n_groups, -1))
