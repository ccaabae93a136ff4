r"""Pooling of shifts over groups and clusters, with intervals.

The shift of cell (g, k) is ``δ[g,k] = m_k + u_g + v_gk`` with ``u_g ~ N(0, τ_u²)`` and ``v_gk ~ N(0, τ_v²)``. Cells with many
informative rows keep their own answer; the others lean on their group, and groups with few rows on all groups. With
``τ_u = τ_v = 0`` this is one shift per cluster, with ``τ_v = 0`` label shift with pooling, with ``τ = ∞`` the paper's method.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from groupshift._math.arrays import BoolArray, FloatArray
from groupshift._math.cell_likelihood import CellLikelihood
from groupshift._math.known_shares import MAX_SHIFT
from groupshift._math.label_shift import mlls
from groupshift._math.points import Points
from groupshift._math.sites import NODES, Sites, node_moments

# A Newton step takes a cell's log-likelihood for a parabola. Below this information about η (a standard error above 1/4) it
# is none, and its moments are integrated instead.
PARABOLIC = 16.0

# Variances that a pass changes by less than this part of them have settled.
SETTLED = 1e-6

# Shares uniform between 0 and 1 have logits of variance 3.3. Variances between groups stay below thrice that.
MAX_VARIANCE = 9.0
# A weak prior on what labelled sample and population differ by: an odds ratio of 7 is one standard deviation away.
COMMON_VARIANCE = 4.0


@dataclass(frozen=True)
class PooledShifts:
    """Shifts of all cells and what they are made of.

    Attributes
    ----------
    shift, variance : arrays of shape (n_groups, n_clusters)
        δ and its posterior variance.
    cluster_shift, cluster_variance : arrays of shape (n_clusters,)
        m_k, the shift common to all groups, and its variance.
    group_effect : array of shape (n_groups,)
        u_g.
    group_variance, cell_variance : float
        τ_u² and τ_v².
    shared_deviation : array of shape (n_groups, n_clusters)
        What cells of a group have in common: the covariance of two of them is the product of their entries.
    """

    shift: FloatArray
    variance: FloatArray
    cluster_shift: FloatArray
    cluster_variance: FloatArray
    group_effect: FloatArray
    group_variance: float
    cell_variance: float
    shared_deviation: FloatArray

    @property
    def pooling(self) -> FloatArray:
        """How much of each cell's answer is borrowed: its variance over that of a cell without rows, 0 to 1."""
        prior = self.group_variance + self.cell_variance
        return np.clip(self.variance / prior, 0, 1) if prior > 0 else np.ones_like(self.variance)

    @property
    def unseen_variance(self) -> FloatArray:
        """Variance of the shift of a group without rows, which takes `cluster_shift`; shape (n_clusters,)."""
        return self.cluster_variance + self.group_variance + self.cell_variance

    def scaled(self, trust: float, residual_variance: float = 0.0, trust_variance: float = 0.0) -> Self:
        """Shifts times `trust`, a number of variance `trust_variance`; `residual_variance` is that of what they then miss."""
        doubt = residual_variance + trust_variance * self.shift**2
        return replace(
            self,
            shift=trust * self.shift,
            variance=trust**2 * self.variance + doubt,
            shared_deviation=np.sqrt(trust**2 * self.shared_deviation**2 + doubt),
            cluster_shift=trust * self.cluster_shift,
            cluster_variance=trust**2 * self.cluster_variance
            + residual_variance
            + trust_variance * self.cluster_shift**2,
            group_effect=trust * self.group_effect,
            group_variance=trust**2 * self.group_variance,
            cell_variance=trust**2 * self.cell_variance,
        )


def pool_shifts(
    points: Points,
    *,
    labeled_prior: ArrayLike,
    n_groups: int,
    centered: bool = False,
    tol: float = 1e-3,
    max_iter: int = 50,
    max_sweeps: int = 30,
) -> PooledShifts:
    """Estimate the shift of every (group, cluster) cell, each pulled towards the others by as much as they agree.

    Parameters
    ----------
    points : Points
        Scores of unlabelled rows; cell number ``group * n_clusters + cluster``.
    labeled_prior : array-like of shape (n_clusters,)
        α̃_k.
    n_groups : int
        Number of groups.
    centered : bool
        The groups are those that the scores were learned from, so that their common shift is zero.

    Examples
    --------
    Two groups of one row each say next to nothing: both stay near no shift.

    >>> from groupshift._math.points import collect_points
    >>> points = collect_points([0.1, -0.1], [0, 1], n_cells=2)
    >>> bool(abs(pool_shifts(points, labeled_prior=[0.5], n_groups=2).shift).max() < 0.2)
    True
    """
    prior = np.asarray(labeled_prior, float)
    base = np.tile(logit(prior), n_groups)
    likelihood, n_rows = CellLikelihood(points, base), points.effective_rows
    state = _initial_state(points, base, n_groups)
    sites = Sites(np.zeros_like(state.shift), np.zeros_like(state.shift))
    for _ in range(max_iter):
        sites, full = _newton_sites(n_rows, likelihood, base, state.shift)
        # The pass over the points takes most of the time: several cheap updates of the variances go with each.
        new = _settle(sites, state, centered, 5)
        step = _damping(sites.weight, full, new) * (new.shift - state.shift)
        state = replace(new, shift=state.shift + step)
        if np.abs(step).max(initial=0.0) < tol:
            break
    is_vague = sites.weight.ravel() < PARABOLIC
    if (is_vague & (points.weight_sum > 0)).any():
        vague_likelihood = CellLikelihood(points.only(is_vague), base)
        has_rows = points.weight_sum[is_vague] > 0
        state = _widened(sites, state, centered)
        for _ in range(max_sweeps):
            sites = _integrated_sites(vague_likelihood, is_vague, has_rows, base, sites, state)
            new = _settle(sites, state, centered, 20)
            change = np.abs(new.shift - state.shift).max(initial=0.0)
            state = new
            if change < tol:
                break
    # A cell inherits the error of the common shift as far as it is pooled.
    return replace(state, variance=state.variance + state.pooling**2 * state.cluster_variance)


def pool_sites(sites: Sites, *, max_iter: int = 200, tol: float = 1e-4) -> PooledShifts:
    """Shifts of cells that are Gaussians already, and have none in common."""
    n_groups, n_clusters = sites.response.shape
    state = _no_shifts(n_groups, n_clusters)
    for _ in range(max_iter):
        before = state.group_variance, state.cell_variance
        state = _settle(sites, state, True, 5)
        if max(abs(state.group_variance - before[0]), abs(state.cell_variance - before[1])) < tol:
            break
    return state


def _widened(sites: Sites, state: PooledShifts, centered: bool) -> PooledShifts:
    """Variances set back to large ones: the parabolas of vague cells may have made them too small to rise again soon."""
    n_groups, n_clusters = state.shift.shape
    group_variance = max(state.group_variance, 0.5) if n_groups > 1 else 0.0
    cell_variance = max(state.cell_variance, 0.5) if n_clusters > 1 else 0.0
    effects = _Effects(_Sites.of(sites, centered), state.group_effect, group_variance, cell_variance)
    return effects.pooled(group_variance, cell_variance)


def _settle(sites: Sites, state: PooledShifts, centered: bool, n_iter: int) -> PooledShifts:
    """The mixed model: effects given variances, then variances given effects, by turns."""
    variances, prepared = (state.group_variance, state.cell_variance), _Sites.of(sites, centered)
    effects = _Effects(prepared, state.group_effect, *variances)
    for i in range(n_iter):
        if i:
            effects = _Effects(prepared, effects.group, *variances)
        before, variances = variances, effects.variances()
        move = max(abs(variances[0] - before[0]), abs(variances[1] - before[1]))
        if move < SETTLED * sum(variances):
            break
    return effects.pooled(*variances)


def _initial_state(points: Points, base: FloatArray, n_groups: int) -> PooledShifts:
    """Each cell at its own maximum-likelihood share, half a row away from 0 and 1 where the maximum lies there."""
    n = np.maximum(points.effective_rows, 1)
    share = np.clip(mlls(points, labeled_prior=expit(base), tol=1e-6).share, 0.5 / (n + 1), 1 - 0.5 / (n + 1))
    shift = np.where(np.isnan(share), 0.0, logit(share) - base).reshape(n_groups, -1)
    return replace(_no_shifts(*shift.shape), shift=shift)


def _no_shifts(n_groups: int, n_clusters: int) -> PooledShifts:
    """Where the search begins."""
    nothing = np.zeros((n_groups, n_clusters))
    # Start wide: from a wide start variances fall to what the data support; from zero they could not rise.
    return PooledShifts(
        shift=nothing,
        variance=np.ones_like(nothing),
        cluster_shift=np.zeros(n_clusters),
        cluster_variance=np.zeros(n_clusters),
        group_effect=np.zeros(n_groups),
        # With one group its effect and the common shift are one number; so are cell and group effects with one cluster.
        group_variance=0.5 if n_groups > 1 else 0.0,
        cell_variance=0.5 if n_clusters > 1 else 0.0,
        shared_deviation=np.zeros_like(nothing),
    )


def _newton_sites(
    n_rows: FloatArray, likelihood: CellLikelihood, base: FloatArray, shift: FloatArray
) -> tuple[Sites, FloatArray]:
    """Sites from a Newton step at the current shifts, of shape (n_groups, n_clusters), of cells of so many effective rows.

    Returned with the information that the rows would carry if their classes were seen: an upper bound on the weight.
    """
    eta = base + shift.ravel()
    gradient, weight = likelihood.information(eta)
    step = np.divide(gradient, weight, out=np.zeros_like(gradient), where=weight > 1e-12)
    # Far from the optimum a full Newton step overshoots; two units of log-odds are a large step.
    response = shift.ravel() + np.clip(step, -2, 2)
    full = n_rows * expit(eta) * expit(-eta)
    return Sites(response.reshape(shift.shape), weight.reshape(shift.shape)), full.reshape(shift.shape)


def _damping(weight: FloatArray, full: FloatArray, state: PooledShifts) -> FloatArray:
    """Part of a Newton step to take: EM's curvature never overshoots, Newton's may; a quarter of EM's is steady and fast."""
    prior = 1 / max(state.group_variance + state.cell_variance, 1e-6)
    return (weight + prior) / (np.maximum(weight, full / 4) + prior)


def _integrated_sites(
    likelihood: CellLikelihood,
    is_vague: BoolArray,
    has_rows: BoolArray,
    base: FloatArray,
    sites: Sites,
    state: PooledShifts,
) -> Sites:
    """Sites of the vague cells that give the right posterior mean and variance (expectation propagation).

    `is_vague` and `base` have one entry for each cell, `has_rows` one for each vague cell.
    """
    at = np.flatnonzero(is_vague)
    old_weight, old_response = sites.weight.ravel()[at], sites.response.ravel()[at]
    variance = np.maximum(state.variance.ravel()[at], 1e-8)
    mean = state.shift.ravel()[at]
    # The cavity: what everything but the cell's own rows says about its shift.
    cavity_precision = np.maximum(1 / variance - old_weight, 1e-2)
    cavity_mean = (mean / variance - old_weight * old_response) / cavity_precision
    node = mean[:, None] + np.sqrt(2 * variance)[:, None] * NODES
    log_mass = NODES**2 / 2 - cavity_precision[:, None] * (node - cavity_mean[:, None]) ** 2 / 2
    for j in range(len(NODES)):
        eta = base.copy()
        eta[at] += node[:, j]
        log_mass[:, j] += likelihood.log_likelihood(eta)[at]
    tilted_mean, tilted_variance = node_moments(node, log_mass)
    tilted_variance = np.maximum(tilted_variance, 1e-8)
    new_weight = np.maximum(1 / tilted_variance - cavity_precision, 1e-6)
    new_weight = np.where(has_rows, new_weight, 0.0)
    linear = tilted_mean * (cavity_precision + new_weight) - cavity_mean * cavity_precision
    response, weight = sites.response.copy(), sites.weight.copy()
    weight.ravel()[at] = new_weight
    response.ravel()[at] = np.divide(linear, new_weight, out=np.zeros_like(linear), where=new_weight > 0)
    return Sites(response, weight)


class _Sites(NamedTuple):
    """Sites as they are asked at many variances."""

    response: FloatArray  # (n_groups, n_clusters)
    weight: FloatArray  # the same shape
    centered: bool
    # Sums are products with ones, by `dot`: NumPy's own sums along a short axis take ten times as long, and `@` begins later.
    groups: FloatArray  # (n_groups,)
    clusters: FloatArray  # (n_clusters,)

    @classmethod
    def of(cls, sites: Sites, centered: bool) -> Self:
        return cls(sites.response, sites.weight, centered, *map(np.ones, sites.response.shape))


class _Effects:
    """Effects of clusters, groups and cells given variances τ²; `group_effect` as the last pass left it."""

    def __init__(self, sites: _Sites, group_effect: FloatArray, tau_u: float, tau_v: float):
        self.sites, self.tau_u, self.tau_v = sites, tau_u, tau_v
        # Precision of a cell's response around m_k + u_g, the cell effect integrated out.
        self.precision = sites.weight / (1 + sites.weight * tau_v) if tau_v else sites.weight
        self.deviation = sites.response
        if not sites.centered:
            self.cluster_shift, self.cluster_variance = self._of_clusters(group_effect)
            self.deviation = sites.response - self.cluster_shift
        # (n_groups,): u_g and its variance
        self.group_doubt = tau_u / (1 + tau_u * self.precision.dot(sites.clusters))
        self.group = self.group_doubt * (self.precision * self.deviation).dot(sites.clusters)

    def _of_clusters(self, group_effect: FloatArray) -> tuple[FloatArray, FloatArray]:
        """m_k and their variances, drawn towards each other and, weakly, towards no shift at all."""
        precision, ones, tau_u = self.precision, self.sites.groups, self.tau_u
        total = ones.dot(precision)
        away = precision * (self.sites.response - group_effect[:, None])
        mean = ones.dot(away) / np.where(total > 0, total, 1)
        # Groups are the sampling units, so each counts with its own variance plus that between groups.
        spread = np.divide(1, precision, out=np.full(precision.shape, np.inf), where=precision > 0)
        known = ones.dot(1 / (spread + tau_u))
        # Clusters differ in their common shift as cells do in theirs: one whose scores say little stays near the others.
        between = tau_u + self.tau_v + 0.05
        weight = known / (1 + known * between)
        middle = (weight * mean).sum() / (weight.sum() + 1 / COMMON_VARIANCE)
        posterior = 1 / (known + 1 / between)
        return posterior * (known * mean + middle / between), posterior

    def _of_cells(self) -> tuple[FloatArray, FloatArray]:
        """v_gk, and the part of a cell's own deviation that it keeps, (n_groups, n_clusters)."""
        keep = self.tau_v * self.precision
        return keep * (self.deviation - self.group[:, None]), keep

    def variances(self) -> tuple[float, float]:
        """τ_u² and τ_v² as these effects suggest them; the variance of v_gk is τ_v² (1 − keep) + keep² var u_g."""
        doubt = self.group_doubt
        of_groups = _variance(self.group, doubt.size * self.tau_u - float(doubt.sum()), self.tau_u)
        if not self.tau_v:
            return of_groups, 0.0
        cell, keep = self._of_cells()
        known = float(keep.sum()) * self.tau_v - float((keep * keep).dot(self.sites.clusters).dot(doubt))
        return of_groups, _variance(cell, known, self.tau_v)

    def pooled(self, group_variance: float, cell_variance: float) -> PooledShifts:
        cell, keep = self._of_cells()
        lean = 1 - keep
        nothing = np.zeros(cell.shape[1])
        common = (nothing, nothing) if self.sites.centered else (self.cluster_shift, self.cluster_variance)
        shift = common[0] + self.group[:, None] + cell
        return PooledShifts(
            shift=np.clip(shift, -MAX_SHIFT, MAX_SHIFT),
            variance=self.tau_v * lean + lean**2 * self.group_doubt[:, None],
            cluster_shift=common[0],
            cluster_variance=common[1],
            group_effect=self.group,
            group_variance=group_variance,
            cell_variance=cell_variance,
            shared_deviation=lean * np.sqrt(self.group_doubt)[:, None],
        )


def _variance(effect: FloatArray, known: float, current: float) -> float:
    """Fixed-point update of a variance component: squared effects over their degrees of freedom (Fellner-Schall).

    `known` is the sum over effects of what their variances fell by, from `current`: each is a degree of freedom as far as it
    fell. One less keeps the estimate away from zero, where every interval would be too short (the boundary-avoiding prior of
    Chung et al., 2013): pooling is never quite complete, by an amount that vanishes with the number of groups.
    """
    if current == 0:
        return 0.0
    freedom, flat = known / current - 1, effect.ravel()
    wanted = float(flat.dot(flat)) / freedom if freedom > 0 else np.inf
    return min(max(wanted, current / 10), current * 2, MAX_VARIANCE)
