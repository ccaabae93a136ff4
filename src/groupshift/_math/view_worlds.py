"""Models of three views of one shift, which `views` explains: their covariances, and how likely they make what is seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln

from groupshift._math.arrays import BoolArray, FloatArray, IntArray

# Half-t priors (four degrees of freedom) on standard deviations, by their scales in log-odds. Groups of one country or one
# trade mostly differ by less than a factor of two in odds, given x; who answers may differ by a factor of three and more.
NATURAL, SELECTION, MISFIT, NOISE, FREEDOM = 0.5, 1.0, 0.5, 0.1, 4.0
# Log of the constant of that density: models of different numbers of parameters are compared.
HALF_T = float(np.log(2) + gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - np.log(FREEDOM * np.pi) / 2)
# Standard deviations of log a and log b, the slopes of what scores suggest, and of c, the common shift. Labels chosen by the
# label leave features of a class as they are, so that b is next to 1, and so is a as a rule. Where features go with shares by
# nature (where pupils do worse, they also own less), scores make of a difference four times what it is, or a fourth.
STEEP, SLOPE, COMMON = 0.7, 0.2, 1.0
# The variance of a view that is missing: as good as infinite, and still a number.
MISSING = 1e8
LABELS, OWN_SCORES, SCORES = 0, 1, 2
# What the misfit, the same in both samples, and the noise of each add to the covariance of r, l and u.
OF_MISFIT, OF_NOISE = np.outer([0, 1, 1], [0, 1, 1]), np.diag([0, 1, 1])


@dataclass(frozen=True)
class Views:
    """The views of all cells as Gaussian summaries."""

    response: FloatArray  # (n_groups, n_clusters, 3): r, l and u
    precision: FloatArray  # the same shape; 0 where a view is missing
    remainder: FloatArray  # (n_groups,): κ, if the population is what labels left over

    def take(self, groups: IntArray | BoolArray | slice) -> Self:
        own = self.response[groups], self.precision[groups], self.remainder[groups]
        return replace(self, response=own[0], precision=own[1], remainder=own[2])

    def as_hidden(self) -> Self:
        """Population rows as if they were labelled rows whose labels are hidden."""
        response, precision = np.zeros_like(self.response), np.zeros_like(self.precision)
        response[..., OWN_SCORES] = self.response[..., SCORES]
        precision[..., OWN_SCORES] = self.precision[..., SCORES]
        return replace(self, response=response, precision=precision, remainder=np.zeros_like(self.remainder))

    def only(self, *views: int) -> Self:
        """The same, with the other views missing."""
        return replace(self, precision=self.precision * np.isin(np.arange(3), views))

    @property
    def noise(self) -> FloatArray:
        """Variances of the views, (n_groups, n_clusters, 3)."""
        return np.where(self.precision > 0, 1 / np.maximum(self.precision, 1 / MISSING), MISSING)

    def deviations(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """r, l and u less the common shift of each draw, (n_draws, n_groups, n_clusters)."""
        shape = (len(x), *self.response.shape[:2])
        labels, own_scores, scores = np.moveaxis(self.response, -1, 0)
        scores = scores - (self.precision[..., SCORES] > 0) * x[:, -1, None, None]
        return np.broadcast_to(labels, shape), np.broadcast_to(own_scores, shape), scores


@dataclass(frozen=True)
class World:
    """One of the models: whether labels may be selected, the population is what they left over, and features go with shares."""

    is_selected: bool
    is_remainder: bool
    n_clusters: int
    is_steep: bool = False  # whether natural differences have a slope of their own

    @property
    def scales(self) -> FloatArray:
        """Prior scales of the standard deviations: of θ, λ and m for groups, the same for cells, and of n."""
        parts = [NATURAL, SELECTION, MISFIT] if self.is_selected else [NATURAL, MISFIT]
        return np.array([*parts, *(parts if self.n_clusters > 1 else []), NOISE])

    @property
    def others(self) -> FloatArray:
        """Prior standard deviations of the other parameters: log a where it is not log b, log b where it is asked for, c."""
        if self.is_steep:
            return np.array([STEEP, SLOPE, COMMON] if self.is_selected else [STEEP, COMMON])
        return np.array([SLOPE, COMMON])

    @property
    def n_parameters(self) -> int:
        return len(self.scales) + len(self.others)

    def spreads_of(self, x: FloatArray) -> FloatArray:
        """Logs of standard deviations among parameters, whose last axis they lie on."""
        return x[..., : len(self.scales)]

    def slopes(self, x: FloatArray) -> FloatArray:
        """a and b, (n_draws, 2)."""
        slope = np.exp(x[:, len(self.scales) : -1])
        return np.broadcast_to(slope, (len(x), 2))

    def prior(self, x: FloatArray) -> FloatArray:
        """Log-density of parameters, of shape (n_draws, n_parameters): logs of standard deviations, log a, log b and c."""
        ratio = self.spreads_of(x) - np.log(self.scales)
        spread = (HALF_T + ratio - (FREEDOM + 1) / 2 * np.log1p(np.exp(2 * ratio) / FREEDOM)).sum(1)
        others = x[:, len(self.scales) :] / self.others
        # Models of different numbers of parameters are compared: the constants of what not all of them have count.
        constant = -np.log(self.others[:-1]).sum() - len(self.others[1:]) * np.log(2 * np.pi) / 2
        density: FloatArray = spread + constant - (others**2).sum(1) / 2
        return density

    def prior_gradient(self, x: FloatArray) -> FloatArray:
        """Of the log-density at parameters of shape (n_parameters,)."""
        ratio = np.exp(2 * (self.spreads_of(x) - np.log(self.scales))) / FREEDOM
        spread = 1 - (FREEDOM + 1) * ratio / (1 + ratio)
        return np.append(spread, -x[len(self.scales) :] / self.others**2)

    def misfit_variance(self, x: FloatArray) -> FloatArray:
        """Of a group's mean over its cells, (n_draws,)."""
        n = 3 if self.is_selected else 2
        variance = np.exp(2 * x[:, n - 1])
        if self.n_clusters > 1:
            variance = variance + np.exp(2 * x[:, 2 * n - 1]) / self.n_clusters
        found: FloatArray = variance
        return found

    def effects(self, x: FloatArray, remainder: FloatArray, of_labeled: bool = False) -> Iterator["Effects"]:
        """Covariances of the views for groups and for cells (one cluster: groups alone); the target is d_U, or d_L."""
        variance = np.exp(2 * self.spreads_of(x))
        n = 3 if self.is_selected else 2
        noise, slope = variance[:, -1], self.slopes(x)
        # Without κ all groups are alike, and one entry stands for all of them.
        kappa = remainder if self.is_remainder else np.zeros(1)
        for part in range(2 if self.n_clusters > 1 else 1):
            own = variance[:, part * n : (part + 1) * n]
            theta, misfit = own[:, 0], own[:, -1]
            select = own[:, 1] if self.is_selected else np.zeros(len(x))
            # What the two samples do each on their own belongs to cells, the smallest unit.
            is_smallest = part == 1 or self.n_clusters == 1
            effects = Effects.of(theta, select, misfit, noise * is_smallest, slope, kappa)
            yield effects.of_labeled() if of_labeled else effects


def loadings(slope: FloatArray, kappa: FloatArray) -> tuple[FloatArray, FloatArray]:
    """By how much θ and λ move r, l and u, (n_draws, n_groups or 1, 3); slopes a and b have shape (n_draws, 2)."""
    one = np.ones((len(slope), len(kappa)))
    a, b = slope[:, :1] * one, slope[:, 1:] * one
    return np.stack([one, a, a], -1), np.stack([one, b, -b * kappa], -1)


@dataclass(frozen=True)
class Effects:
    """Of one level (groups or cells): the views' covariance, that with d_U, and the variance of d_U; for each draw and group."""

    views: FloatArray  # (n_draws, n_groups or 1, 3, 3)
    target: FloatArray  # (n_draws, n_groups or 1, 3)
    variance: FloatArray  # (n_draws, n_groups or 1)

    @classmethod
    def of(
        cls,
        theta: FloatArray,
        select: FloatArray,
        misfit: FloatArray,
        noise: FloatArray,
        slope: FloatArray,
        kappa: FloatArray,
    ) -> "Effects":
        natural, selected = loadings(slope, kappa)
        theta, select, misfit, noise = (v[:, None] for v in (theta, select, misfit, noise))
        of_misfit = misfit[..., None, None] * OF_MISFIT + noise[..., None, None] * OF_NOISE
        by_theta, by_selection = theta[..., None] * natural, select[..., None] * selected
        views = by_theta[..., None] * natural[..., None, :] + by_selection[..., None] * selected[..., None, :]
        target = by_theta - kappa[:, None] * by_selection
        return cls(views + of_misfit, target, theta + kappa**2 * select)

    def of_labeled(self) -> "Effects":
        """With d_L as the target: what labels would show but for noise."""
        return replace(self, target=self.views[..., LABELS, :], variance=self.views[..., LABELS, LABELS])


@dataclass(frozen=True)
class Solved:
    """Views weighed by their covariance; arrays of shape (n_draws, n_groups, …)."""

    inverse: FloatArray  # (…, n_clusters, 3, 3): P_k, of a cell's views given its group's part
    total: FloatArray  # (…, 3, 3): Σ P_k
    group: FloatArray  # (…, 3, 3): posterior covariance of the group's part
    own: FloatArray  # (…, n_clusters, 3): P_k o_k
    effect: FloatArray  # (…, 3): posterior mean of the group's part
    log_det: FloatArray  # (n_draws, n_groups): of the covariance Q of a group's views

    @property
    def weighed(self) -> FloatArray:
        """Q⁻¹ o, by which everything is predicted, (…, n_clusters, 3)."""
        return self.own - _times(self.inverse, self.effect[:, :, None])


def solve(world: World, x: FloatArray, views: Views) -> Solved:
    """All groups for all draws; a group's covariance is blocks for cells plus one part that they share."""
    levels = list(world.effects(x, views.remainder))
    block = views.noise[..., None] * np.eye(3)
    block = block + (levels[1].views[:, :, None] if len(levels) > 1 else np.zeros((len(x), 1, 1, 3, 3)))
    inverse, log_det = _inverse(block)
    shared = levels[0].views
    total = inverse.sum(2)
    unrotated, log_det_group = _inverse(np.eye(3) + shared @ total)
    group = unrotated @ shared
    own = _times(inverse, np.stack(views.deviations(x), -1))
    return Solved(inverse, total, group, own, _times(group, own.sum(2)), log_det.sum(2) + log_det_group)


def log_likelihood(world: World, x: FloatArray, views: Views) -> FloatArray:
    """Of the views of all groups, (n_draws, n_groups).

    The same algebra as in `solve`, entry by entry of the matrices: arrays of 3 x 3 matrices take several times as long, and
    this is evaluated for hundreds of draws.
    """
    shared, *cells = (level.views for level in world.effects(x, views.remainder))
    entries = cells[0] if cells else np.zeros((len(x), 1, 3, 3))
    noise = np.moveaxis(views.noise, -1, 0)
    block = [[entries[:, :, i, j, None] + (noise[i] if i == j else 0.0) for j in range(3)] for i in range(3)]
    cofactor, det = _cofactors(block)
    inverse = [[entry / det for entry in row] for row in cofactor]
    o = views.deviations(x)
    own = [_dot(row, o) for row in inverse]
    sums = [v.sum(2) for v in own]
    total = [[entry.sum(2) for entry in row] for row in inverse]
    group = [[shared[:, :, i, j] for j in range(3)] for i in range(3)]
    # A symmetric matrix: its rows are its columns.
    rotated = [[_dot(group[i], total[j]) + (i == j) for j in range(3)] for i in range(3)]
    cofactor, det_group = _cofactors(rotated)
    pulled = [_dot(row, sums) for row in group]
    effect = [_dot(row, pulled) / det_group for row in cofactor]
    quadratic = _dot(o, own).sum(2) - _dot(sums, effect)
    # Rounding may leave a determinant of huge variances below zero: such a draw has no likelihood, and gets no weight.
    with np.errstate(invalid="ignore", divide="ignore"):
        found: FloatArray = -(quadratic + np.log(det).sum(2) + np.log(det_group)) / 2
    return found


def _dot(a: Sequence[FloatArray], b: Sequence[FloatArray]) -> FloatArray:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _times(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Many small matrices times vectors: faster than `@`, which takes them one by one."""
    product: FloatArray = (matrix * vector[..., None, :]).sum(-1)
    return product


def likelihood_gradient(world: World, x: FloatArray, views: Views) -> tuple[float, FloatArray]:
    """Log-likelihood of all groups and its gradient, at parameters of shape (n_parameters,).

    With Q the covariance of a group's views o, the derivative by Q is (Q⁻¹o oᵀQ⁻¹ − Q⁻¹) / 2. Both levels of Q are sums of
    vvᵀ, one for each effect, times its variance: a derivative by a variance is vᵀ(…)v.
    """
    solved = solve(world, x[None], views)
    weighed = solved.weighed[0]
    inverse, total, group = solved.inverse[0], solved.total[0], solved.group[0]
    sums = weighed.sum(1)
    of_group = _outer(sums) - total + total @ group @ total
    of_cells = (_outer(weighed) - inverse + inverse @ group[:, None] @ inverse).sum(1)
    variance, slope = np.exp(2 * world.spreads_of(x)), world.slopes(x[None])
    kappa = views.remainder if world.is_remainder else np.zeros(1)
    if not world.is_remainder:
        of_group, of_cells = of_group.sum(0, keepdims=True), of_cells.sum(0, keepdims=True)
    n = 3 if world.is_selected else 2
    loads = loadings(slope, kappa)[: n - 1]
    found = np.zeros(len(x))
    for part, by_covariance in enumerate((of_group, of_cells) if world.n_clusters > 1 else (of_group,)):
        for effect, load in enumerate(loads):
            i = part * n + effect
            by_view = variance[i] * _times(by_covariance, load[0]) * load[0]
            found[i] = by_view.sum()
            # The slope of an effect: a or b, where these are two parameters.
            found[len(variance) + min(effect, len(world.others) - 2)] += by_view[:, 1:].sum()
        last = part * n + n - 1
        found[last] = variance[last] * (by_covariance * OF_MISFIT).sum()
        found[len(variance) - 1] = variance[-1] * (by_covariance * OF_NOISE).sum()
    found[-1] = (weighed[..., SCORES] * (views.precision[..., SCORES] > 0)).sum()
    quadratic = (np.stack(views.deviations(x[None]), -1)[0] * weighed).sum()
    return -float(quadratic + solved.log_det.sum()) / 2, found


def _outer(vectors: FloatArray) -> FloatArray:
    return vectors[..., :, None] * vectors[..., None, :]


def _inverse(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverses and log-determinants of many 3 x 3 matrices, by cofactors: many times faster than one by one."""
    rows, det = _cofactors([[a[..., i, j] for j in range(3)] for i in range(3)])
    entries = np.stack([entry for row in rows for entry in row], -1).reshape(a.shape)
    return entries / det[..., None, None], np.log(det)


def _cofactors(a: list[list[FloatArray]]) -> tuple[list[list[FloatArray]], FloatArray]:
    """Entries of the adjugate of a 3 x 3 matrix, each an array, and the determinant: their ratio is the inverse."""
    (p, q, r), (s, t, u), (v, w, x) = a
    rows = [
        [t * x - u * w, r * w - q * x, q * u - r * t],
        [u * v - s * x, p * x - r * v, r * s - p * u],
        [s * w - t * v, q * v - p * w, p * t - q * s],
    ]
    return rows, p * rows[0][0] + q * rows[1][0] + r * rows[2][0]
