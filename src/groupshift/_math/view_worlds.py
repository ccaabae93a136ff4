"""Models of three views of one shift, which `views` explains: their covariances, and how likely they make what is seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.matrix_entries import Entries, adjugate, cofactors, dot, product, symmetric, transposed

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
# No view says a shift better than to a hundredth of the odds. Beyond, differences of the sums that follow lose their digits.
MAX_PRECISION = 1e4
# The least part of the product of its diagonal that a determinant may be: below it, hardly a digit is left of the difference
# that it is.
LEAST_LEFT_OF_DIAGONAL = 1e-12
LABELS, OWN_SCORES, SCORES = 0, 1, 2
# Columns of a table of parameters, whatever worlds they are of: logs of the standard deviations of θ, λ and m of groups, those of
# cells, that of n (none: −∞), log a, log b, c, whether the population is what labels left over, and whether it was selected, too.
N_SPREADS, A, B, C, IS_REMAINDER, IS_APART, N_COLUMNS = 7, 7, 8, 9, 10, 11, 12


def log_half_t(log_ratio: FloatArray) -> FloatArray:
    """Log-density of the log of a standard deviation, given by the log of its ratio to the scale of the prior."""
    density: FloatArray = HALF_T + log_ratio - (FREEDOM + 1) / 2 * np.log1p(np.exp(2 * log_ratio) / FREEDOM)
    return density


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
        return np.where(self.precision > 0, 1 / np.clip(self.precision, 1 / MISSING, MAX_PRECISION), MISSING)

    @cached_property
    def by_cluster(self) -> "ByCluster":
        """The same as likelihoods and predictions take it: these are asked for hundreds of draws."""
        response, noise, precision = (
            v.transpose(2, 1, 0)[:, :, None] for v in (self.response, self.noise, self.precision)
        )
        return ByCluster(*map(np.ascontiguousarray, (response, noise, precision[SCORES] > 0)))


@dataclass(frozen=True)
class ByCluster:
    """Views one cluster after another, which makes sums over clusters sums of whole arrays."""

    response: FloatArray  # (3, n_clusters, 1, n_groups)
    noise: FloatArray  # the same shape
    has_scores: BoolArray  # (n_clusters, 1, n_groups)

    @cached_property
    def inverse(self) -> tuple[Entries, FloatArray]:
        """As `_inverse`, where cells differ by nothing but noise: the same whatever the parameters are."""
        return _inverse([[np.zeros((1, 1))] * 3] * 3, self.noise)

    def deviations(self, common: FloatArray) -> list[FloatArray]:
        """r, l and u less the common shift of each draw, (n_clusters, n_draws or 1, n_groups)."""
        labels, own_scores, scores = self.response
        return [labels, own_scores, scores - self.has_scores * common]


@dataclass(frozen=True)
class World:
    """One of the models: whether labels may be selected, the population is what they left over, and features go with shares."""

    is_selected: bool
    is_remainder: bool
    n_clusters: int
    is_steep: bool = False  # whether natural differences have a slope of their own
    is_apart: bool = False  # whether the population's rows were selected, too, by themselves and as strongly

    @cached_property
    def scales(self) -> FloatArray:
        """Prior scales of the standard deviations: of θ, λ and m for groups, the same for cells, and of n."""
        parts = [NATURAL, SELECTION, MISFIT] if self.is_selected else [NATURAL, MISFIT]
        return np.array([*parts, *(parts if self.n_clusters > 1 else []), NOISE])

    @cached_property
    def others(self) -> FloatArray:
        """Prior standard deviations of the other parameters: log a where it is not log b, log b where it is asked for, c."""
        if self.is_steep:
            return np.array([STEEP, SLOPE, COMMON] if self.is_selected else [STEEP, COMMON])
        return np.array([SLOPE, COMMON])

    @cached_property
    def log_scales(self) -> FloatArray:
        return np.log(self.scales)

    @cached_property
    def log_constant(self) -> float:
        """Models of different numbers of parameters are compared: the constants of what not all of them have count."""
        return float(-np.log(self.others[:-1]).sum() - len(self.others[1:]) * np.log(2 * np.pi) / 2)

    def spreads_of(self, x: FloatArray) -> FloatArray:
        """Logs of standard deviations among parameters, whose last axis they lie on."""
        return x[..., : len(self.scales)]

    @cached_property
    def columns(self) -> IntArray:
        """Where parameters stand in a table of them."""
        parts = [0, 1, 2] if self.is_selected else [0, 2]
        cells = [part + 3 for part in parts] if self.n_clusters > 1 else []
        return np.array([*parts, *cells, N_SPREADS - 1, *([A, B] if len(self.others) > 2 else [A]), C])

    @property
    def selection_slope(self) -> int:
        """The column of the slope by which selection moves scores: a stands for both where b is not asked for."""
        return B if len(self.others) > 2 else A

    def table(self, x: FloatArray) -> FloatArray:
        """Parameters of draws, (n_draws, n_parameters), with those that this world does not have, (n_draws, N_COLUMNS)."""
        found = np.full((len(x), N_COLUMNS), -np.inf)
        found[:, self.columns] = x
        found[:, B] = found[:, self.selection_slope]
        found[:, IS_REMAINDER:] = self.is_remainder, self.is_apart
        return found

    def prior(self, x: FloatArray) -> FloatArray:
        """Log-density of parameters, of shape (n_draws, n_parameters): logs of standard deviations, log a, log b and c."""
        spread = log_half_t(self.spreads_of(x) - self.log_scales).sum(1)
        others = x[:, len(self.scales) :] / self.others
        density: FloatArray = spread + self.log_constant - (others**2).sum(1) / 2
        return density

    def prior_gradient(self, x: FloatArray) -> FloatArray:
        """Of the log-density, of the shape of the parameters."""
        ratio = np.exp(2 * (self.spreads_of(x) - self.log_scales)) / FREEDOM
        spread = 1 - (FREEDOM + 1) * ratio / (1 + ratio)
        return np.concatenate([spread, -x[..., len(self.scales) :] / self.others**2], -1)

    def misfit_variance(self, x: FloatArray) -> FloatArray:
        """Of a group's mean over its cells, (n_draws,)."""
        n = 3 if self.is_selected else 2
        variance = np.exp(2 * x[:, n - 1])
        if self.n_clusters > 1:
            variance = variance + np.exp(2 * x[:, 2 * n - 1]) / self.n_clusters
        found: FloatArray = variance
        return found


def levels_of(table: FloatArray, remainder: FloatArray, n_clusters: int) -> Iterator["Level"]:
    """Groups, then their cells; one cluster: groups alone."""
    variance = np.exp(2 * table[:, :N_SPREADS])[..., None]
    slope, is_remainder = np.exp(table[:, [A, B]]), table[:, IS_REMAINDER, None]
    # Without κ all groups are alike, and one entry stands for all of them.
    kappa = is_remainder * remainder if is_remainder.any() else np.zeros((1, 1))
    for part in range(2 if n_clusters > 1 else 1):
        theta, select, misfit = (variance[:, 3 * part + effect] for effect in range(3))
        # What the two samples do each on their own belongs to cells, the smallest unit.
        noise = variance[:, -1] if part == 1 or n_clusters == 1 else np.zeros((1, 1))
        yield Level(theta, select, misfit, noise, slope[:, :1], slope[:, 1:], kappa, table[:, IS_APART, None])


class Level(NamedTuple):
    """What groups differ by, or the cells of a group: variances for each draw, (n_draws or 1, 1)."""

    theta: FloatArray
    select: FloatArray
    misfit: FloatArray
    noise: FloatArray
    a: FloatArray
    b: FloatArray
    kappa: FloatArray  # (n_draws or 1, n_groups or 1)
    apart: FloatArray  # variance of μ, in units of that of λ: 0 or 1

    @property
    def loadings(self) -> tuple[tuple[FloatArray, list[FloatArray]], ...]:
        """Variances of θ, λ and μ, and by how much they move r, l and u."""
        one, none = np.ones((1, 1)), np.zeros((1, 1))
        return (
            (self.theta, [one, self.a, self.a]),
            (self.select, [one, self.b, -self.b * self.kappa]),
            (self.apart * self.select, [none, none, self.b]),
        )

    @property
    def covariance(self) -> Entries:
        """Of r, l and u; entries of shape (n_draws, n_groups or 1).

        The misfit is the same in both samples, the noise is of each.
        """
        theta, select = self.a * self.theta, self.b * self.select
        left_over = self.kappa * select
        natural, selected = self.a * theta + self.misfit, self.b * select
        r_l, r_u, l_u = theta + select, theta - left_over, natural - self.b * left_over
        l_l = natural + selected + self.noise
        u_u = natural + (self.kappa**2 + self.apart) * selected + self.noise
        return [[self.theta + self.select, r_l, r_u], [r_l, l_l, l_u], [r_u, l_u, u_u]]

    def target(self, of_labeled: bool) -> tuple[list[FloatArray], FloatArray]:
        """Covariances of r, l and u with this level's part of d_U, or of d_L, and the variance of that part."""
        if of_labeled:
            # What labels would show but for noise.
            with_labels = self.covariance[LABELS]
            return with_labels, with_labels[LABELS]
        (theta, natural), (select, selected), (own, itself) = self.loadings
        left_over = self.kappa * select
        moved = zip(natural, selected, itself, strict=True)
        covariance = [
            theta * by_theta - left_over * by_lambda + own * by_mu for by_theta, by_lambda, by_mu in moved
        ]
        return covariance, theta + self.kappa * left_over + own


def log_likelihood(world: World, x: FloatArray, views: Views) -> FloatArray:
    """Of the views of all groups, (n_draws, n_groups)."""
    return weigh(world.table(x), views).log_likelihood


@dataclass(frozen=True)
class Weighed:
    """Views weighed by their covariance: blocks for cells plus a part G that the cells of a group share.

    Entries of cells have shape (n_clusters, n_draws, n_groups), those of groups (n_draws, n_groups), or 1 where draws or groups
    do not differ.
    """

    levels: list[Level]
    inverse: Entries  # P_k, of a cell's views given its group's part
    own: list[FloatArray]  # P_k o_k
    sums: list[FloatArray]  # Σ P_k o_k
    total: Entries  # Σ P_k
    left: Entries  # (I + G Σ P_k)⁻¹ = I − V Σ P_k: what views leave of the group's part
    effect: list[FloatArray]  # posterior mean of the group's part
    log_likelihood: FloatArray  # (n_draws, n_groups)

    @property
    def views(self) -> list[FloatArray]:
        """Q⁻¹ o, where Q is the covariance of a group's views o."""
        return [own - dot(row, self.effect) for own, row in zip(self.own, self.inverse, strict=True)]

    @property
    def through(self) -> Entries:
        """Σ P_k − Σ P_k V Σ P_k, of what cells have in common."""
        return product(transposed(self.left), self.total)

    @property
    def group(self) -> Entries:
        """V, the posterior covariance of the group's part."""
        return product(self.left, self.levels[0].covariance)


def weigh(table: FloatArray, views: Views) -> Weighed:
    """All groups for all draws of the parameters in a table."""
    levels = list(levels_of(table, views.remainder, views.response.shape[1]))
    shared, *cells = (level.covariance for level in levels)
    noise, o = views.by_cluster.noise, views.by_cluster.deviations(table[:, C, None])
    inverse, det = _inverse(cells[0], noise) if cells else views.by_cluster.inverse
    own = [dot(row, o) for row in inverse]
    sums = [over_clusters(v) for v in own]
    total = symmetric(lambda i, j: over_clusters(inverse[i][j]))
    # A symmetric matrix: its rows are its columns.
    rotated = [[dot(row, column) for column in total] for row in shared]
    for i in range(3):
        rotated[i][i] = rotated[i][i] + 1
    cofactor, det_group = cofactors(rotated)
    left = [[entry / det_group for entry in row] for row in cofactor]
    pulled = [dot(row, sums) for row in shared]
    effect = [dot(row, pulled) for row in left]
    quadratic = over_clusters(dot(o, own)) - dot(sums, effect)
    # Rounding may make anything of a determinant of huge variances: such a draw has no likelihood, and gets no weight.
    with np.errstate(invalid="ignore", divide="ignore"):
        found = -(quadratic + over_clusters(np.log(det)) + np.log(det_group)) / 2
    diagonal = rotated[0][0] * rotated[1][1] * rotated[2][2]
    found = np.where(det_group > LEAST_LEFT_OF_DIAGONAL * np.abs(diagonal), found, np.nan)
    return Weighed(levels, inverse, own, sums, total, left, effect, found)


def over_clusters(cells: FloatArray) -> FloatArray:
    """Sums over the first axis, in its order: of few clusters one by one, since NumPy's sums take long to begin."""
    found: FloatArray = cells.sum(0) if len(cells) > 4 else reduce(np.add, cells)
    return found


def likelihood_gradients(
    asked: Sequence[tuple[World, FloatArray]], views: Views
) -> list[tuple[FloatArray, FloatArray]]:
    """For draws of each of several worlds: log-likelihoods of all groups together, (n_draws,), and their gradients.

    Gradients have the shape of the parameters, (n_draws, n_parameters). With Q the covariance of a group's views o, the
    derivative by Q is (Q⁻¹o oᵀQ⁻¹ − Q⁻¹) / 2. Both levels of Q are sums of vvᵀ, one for each effect, times its variance: a
    derivative by a variance is vᵀ(…)v.
    """
    n_draws = [len(x) for _, x in asked]
    # Of few draws, arrays are so small that it is their number that takes time: draws of all worlds are one array.
    solved = weigh(np.concatenate([world.table(x) for world, x in asked]), views)
    weighed, through = solved.views, solved.through
    sums = [over_clusters(v) for v in weighed]
    by_covariance = [symmetric(lambda i, j: sums[i] * sums[j] - through[i][j])]
    if len(solved.levels) > 1:
        group = solved.group
        toward = [[dot(row, column) for column in group] for row in solved.inverse]
        by_covariance.append(
            symmetric(
                lambda i, j: over_clusters(
                    weighed[i] * weighed[j] - solved.inverse[i][j] + dot(toward[i], solved.inverse[j])
                )
            )
        )
    draws, found = np.arange(sum(n_draws)), np.zeros((sum(n_draws), N_COLUMNS))
    slopes = np.full(len(draws), A), np.repeat([world.selection_slope for world, _ in asked], n_draws)
    for part, (level, by_entry) in enumerate(zip(solved.levels, by_covariance, strict=True)):
        (r_r, r_l, r_u), (_, l_l, l_u), (_, _, u_u) = by_entry
        both, kappa = l_l + u_u, level.kappa
        # By the variance of an effect whose loads are (1, slope, slope · z): what its slope meets once, and twice.
        natural = r_l + r_u, both + 2 * l_u
        selected = r_l - kappa * r_u, l_l - kappa * (2 * l_u - kappa * u_u) + level.apart * u_u
        loads = (level.theta, level.a, natural), (level.select, level.b, selected)
        of_labels = r_r.sum(1)
        for effect, (variance, slope, met) in enumerate(loads):
            once, twice = (slope[:, 0] * v.sum(1) for v in met)
            by_slope = variance[:, 0] * (once + slope[:, 0] * twice)
            found[:, 3 * part + effect] = variance[:, 0] * (of_labels + once) + by_slope
            found[draws, slopes[effect]] += by_slope
        found[:, 3 * part + 2] = level.misfit[:, 0] * natural[1].sum(1)
        # The last level is the smallest unit, the one that noise belongs to.
        found[:, N_SPREADS - 1] = level.noise[:, 0] * both.sum(1)
    value, by_common = solved.log_likelihood.sum(1), weighed[SCORES] * views.by_cluster.has_scores
    parts = []
    for (world, _), n, end in zip(asked, n_draws, np.cumsum(n_draws), strict=True):
        own = slice(end - n, end)
        found[own, C] = np.ascontiguousarray(by_common[:, own]).sum((0, 2))
        parts.append((value[own], found[own, world.columns]))
    return parts


def _inverse(block: Entries, noise: FloatArray) -> tuple[Entries, FloatArray]:
    """Of the covariance of a cell's views, with their noise; and its determinant."""
    seen = [[block[i][j] + noise[i] if i == j else block[i][j] for j in range(3)] for i in range(3)]
    cofactor, det = adjugate(seen)
    det = np.where(det > LEAST_LEFT_OF_DIAGONAL * seen[0][0] * seen[1][1] * seen[2][2], det, np.nan)
    scale = 1 / det
    return symmetric(lambda i, j: cofactor[i][j] * scale), det
