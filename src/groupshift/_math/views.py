r"""Three views of one shift, and how far to believe each.

Of the shift of a cell (group g, cluster k) against the labelled posterior there are three views, each with sampling noise:

- labels of its labelled rows: ``r = d_L``,
- scores of the same rows, labels aside: ``l = b d_L + m + n_L``,
- scores of its population rows: ``u = c + b d_U + m + n_U``.

``d_L = θ + λ`` and ``d_U = θ − κ λ``: θ is how the group differs, λ how its labels were selected (0 where they are a random
sample), κ the labelled rows for each population row if they were taken out of the population, else 0. The misfit m is what
features of the cell do that no share of positives explains, n what the two samples do each on their own. θ, λ and m are
normal, with a part for the group and one for the cell. Their variances over groups show how much of each view is signal, and
the best linear prediction of d_U follows: a group's own labels count as far as selection is small, scores as far as the
misfit is. Whether there is any selection, and whether κ is 0, is left open: three models are averaged by their evidence, and
all parameters are integrated over, which matters where groups are few.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit, gammaln, logsumexp

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.importance import integrate
from groupshift._math.sums import sum_by

# Half-t priors (four degrees of freedom) on standard deviations, by their scales in log-odds. Groups of one country or one
# trade mostly differ by less than a factor of two in odds, given x; who answers may differ by a factor of three and more.
NATURAL, SELECTION, MISFIT, NOISE, FREEDOM = 0.5, 1.0, 0.5, 0.1, 4.0
# Log of the constant of that density: models of different numbers of parameters are compared.
HALF_T = float(np.log(2) + gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - np.log(FREEDOM * np.pi) / 2)
# Standard deviations of log b, the slope of what scores suggest, and of c, the common shift.
SLOPE, COMMON = 0.2, 1.0
# The variance of a view that is missing: as good as infinite, and still a number.
MISSING = 1e8
# Groups that the parameters are learned from, and draws of the parameters: more change the third digit.
MAX_GROUPS, N_DRAWS, MAX_PREDICTED = 300, 256, 64
BLOCK = 100_000
LABELS, OWN_SCORES, SCORES = 0, 1, 2


@dataclass(frozen=True)
class Views:
    """The views of all cells as Gaussian summaries."""

    response: FloatArray  # (n_groups, n_clusters, 3): r, l and u
    precision: FloatArray  # the same shape; 0 where a view is missing
    remainder: FloatArray  # (n_groups,): κ, if the population is what labels left over

    def take(self, groups: IntArray | BoolArray | slice) -> Self:
        own = self.response[groups], self.precision[groups], self.remainder[groups]
        return replace(self, response=own[0], precision=own[1], remainder=own[2])

    def only(self, *views: int) -> Self:
        """The same, with the other views missing."""
        return replace(self, precision=self.precision * np.isin(np.arange(3), views))


def label_sites(
    log_odds: FloatArray, y: IntArray, weight: FloatArray, cell: IntArray, n_cells: int
) -> tuple[FloatArray, FloatArray]:
    """What labels say of the shift of each cell: the working response of a logistic regression, and its precision.

    Taken at the mode under a standard normal prior, so that cells whose labels are all of one class have an answer too.

    >>> response, precision = label_sites(np.zeros(4), np.array([1, 1, 1, 0]), np.ones(4), np.zeros(4, int), 1)
    >>> response.round(1).tolist(), precision.round(1).tolist()
    ([1.0], [0.9])
    """
    shift = np.zeros(n_cells)
    gradient = curvature = np.zeros(n_cells)
    for _ in range(30):
        p = expit(log_odds + shift[cell])
        gradient, curvature = (
            sum_by(cell, weight * (y - p), n_cells),
            sum_by(cell, weight * p * (1 - p), n_cells),
        )
        step = np.clip((gradient - shift) / (curvature + 1), -1, 1)
        shift = shift + step
        if np.abs(step).max(initial=0.0) < 1e-6:
            break
    return shift + gradient / np.maximum(curvature, 1e-9), np.where(curvature > 1e-9, curvature, 0.0)


@dataclass(frozen=True)
class _World:
    """One of the models: whether labels may be selected, and whether the population is what they left over."""

    is_selected: bool
    is_remainder: bool
    n_clusters: int

    @property
    def scales(self) -> FloatArray:
        """Prior scales of the standard deviations: of θ, λ and m for groups, the same for cells, and of n."""
        parts = [NATURAL, SELECTION, MISFIT] if self.is_selected else [NATURAL, MISFIT]
        return np.array([*parts, *(parts if self.n_clusters > 1 else []), NOISE])

    @property
    def n_parameters(self) -> int:
        return len(self.scales) + 2

    def prior(self, x: FloatArray) -> FloatArray:
        """Log-density of parameters, of shape (n_draws, n_parameters): logs of standard deviations, log b, c."""
        ratio = x[:, :-2] - np.log(self.scales)
        spread = (HALF_T + ratio - (FREEDOM + 1) / 2 * np.log1p(np.exp(2 * ratio) / FREEDOM)).sum(1)
        density: FloatArray = spread - (x[:, -2] / SLOPE) ** 2 / 2 - (x[:, -1] / COMMON) ** 2 / 2
        return density

    def misfit_variance(self, x: FloatArray) -> FloatArray:
        """Of a group's mean over its cells, (n_draws,)."""
        n = 3 if self.is_selected else 2
        variance = np.exp(2 * x[:, n - 1])
        if self.n_clusters > 1:
            variance = variance + np.exp(2 * x[:, 2 * n - 1]) / self.n_clusters
        found: FloatArray = variance
        return found

    def effects(self, x: FloatArray, remainder: FloatArray, of_labeled: bool = False) -> Iterator["_Effects"]:
        """Covariances of the views for groups and for cells (one cluster: groups alone); the target is d_U, or d_L."""
        variance = np.exp(2 * x[:, :-2])
        n = 3 if self.is_selected else 2
        noise, slope = variance[:, -1], np.exp(x[:, -2])
        kappa = remainder if self.is_remainder else np.zeros_like(remainder)
        for part in range(2 if self.n_clusters > 1 else 1):
            own = variance[:, part * n : (part + 1) * n]
            theta, misfit = own[:, 0], own[:, -1]
            select = own[:, 1] if self.is_selected else np.zeros(len(x))
            # What the two samples do each on their own belongs to cells, the smallest unit.
            is_smallest = part == 1 or self.n_clusters == 1
            effects = _Effects.of(theta, select, misfit, noise * is_smallest, slope, kappa)
            yield effects.of_labeled() if of_labeled else effects


@dataclass(frozen=True)
class _Effects:
    """Of one level (groups or cells): the views' covariance, that with d_U, and the variance of d_U; for each draw and group."""

    views: FloatArray  # (n_draws, n_groups, 3, 3)
    target: FloatArray  # (n_draws, n_groups, 3)
    variance: FloatArray  # (n_draws, n_groups)

    @classmethod
    def of(
        cls,
        theta: FloatArray,
        select: FloatArray,
        misfit: FloatArray,
        noise: FloatArray,
        slope: FloatArray,
        kappa: FloatArray,
    ) -> "_Effects":
        theta, select, misfit, noise, slope = (v[:, None] for v in (theta, select, misfit, noise, slope))
        labeled, both, population = theta + select, theta - kappa * select, theta + kappa**2 * select
        rows = [
            [labeled, slope * labeled, slope * both],
            [slope * labeled, slope**2 * labeled + misfit + noise, slope**2 * both + misfit],
            [slope * both, slope**2 * both + misfit, slope**2 * population + misfit + noise],
        ]
        shape = (len(theta), len(kappa))
        views = np.stack([np.stack([np.broadcast_to(v, shape) for v in row], -1) for row in rows], -2)
        target = np.stack([np.broadcast_to(v, shape) for v in (both, slope * both, slope * population)], -1)
        return cls(views, target, np.broadcast_to(population, shape))

    def of_labeled(self) -> "_Effects":
        """With d_L as the target: what labels would show but for noise."""
        return replace(self, target=self.views[..., LABELS, :], variance=self.views[..., LABELS, LABELS])


@dataclass(frozen=True)
class _Solved:
    """Views weighed by their covariance; arrays of shape (n_draws, n_groups, …)."""

    inverse: FloatArray  # (…, n_clusters, 3, 3): P_k, of a cell's views given its group's part
    total: FloatArray  # (…, 3, 3): Σ P_k
    group: FloatArray  # (…, 3, 3): posterior covariance of the group's part
    weighed: FloatArray  # (…, n_clusters, 3): Q⁻¹ o, by which everything is predicted
    log_likelihood: FloatArray  # (n_draws, n_groups)


def _solve(world: _World, x: FloatArray, views: Views) -> _Solved:
    """All groups for all draws; a group's covariance is blocks for cells plus one part that they share."""
    levels = list(world.effects(x, views.remainder))
    noise = np.where(views.precision > 0, 1 / np.maximum(views.precision, 1 / MISSING), MISSING)
    block = noise[..., None] * np.eye(3)
    block = block + (levels[1].views[:, :, None] if len(levels) > 1 else np.zeros((len(x), 1, 1, 3, 3)))
    inverse, log_det = _inverse(block)
    o = views.response - np.where(views.precision > 0, np.eye(3)[SCORES], 0.0) * x[:, -1, None, None, None]
    shared = levels[0].views
    total = inverse.sum(2)
    rotated = np.eye(3) + shared @ total
    group = np.linalg.solve(rotated, shared)
    own = (inverse @ o[..., None])[..., 0]
    effect = (group @ own.sum(2)[..., None])[..., 0]
    weighed = own - (inverse @ effect[:, :, None, :, None])[..., 0]
    quadratic = (o * weighed).sum((2, 3))
    likelihood = -(quadratic + log_det.sum(2) + np.linalg.slogdet(rotated)[1]) / 2
    return _Solved(inverse, total, group, weighed, likelihood)


def _inverse(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverses and log-determinants of many symmetric 3 x 3 matrices, by cofactors: many times faster than one by one."""
    (p, q, r), (_, s, t), (_, _, u) = (tuple(np.moveaxis(row, -1, 0)) for row in np.moveaxis(a, -2, 0))
    c00, c01, c02 = s * u - t * t, r * t - q * u, q * t - r * s
    c11, c12, c22 = p * u - r * r, q * r - p * t, p * s - q * q
    det = p * c00 + q * c01 + r * c02
    rows = [np.stack(row, -1) for row in ((c00, c01, c02), (c01, c11, c12), (c02, c12, c22))]
    return np.stack(rows, -2) / det[..., None, None], np.log(det)


@dataclass(frozen=True)
class Draws:
    """Parameters of one model with their weights; all weights of all models add up to 1."""

    world: _World
    x: FloatArray
    weight: FloatArray


@dataclass(frozen=True)
class ViewModel:
    """What the views of all groups say about the parameters."""

    draws: tuple[Draws, ...]

    @property
    def no_selection(self) -> float:
        """Probability that labels are a random sample of each group, given the scores."""
        return float(sum(d.weight.sum() for d in self.draws if not d.world.is_selected))

    @property
    def misfit_variance(self) -> float:
        """Of what features of a whole group do that no share explains."""
        return float(sum(d.weight @ d.world.misfit_variance(d.x) for d in self.draws))

    def predict(self, views: Views, *, of_labeled: bool = False) -> "Predicted":
        """Shifts of the population's cells from the views at hand, or those of the labelled rows."""
        parts = [_predict(d, views, of_labeled) for d in self._fewer(views.response[..., 0].size)]
        weights = [p.weight for p in parts]
        mean = np.average([p.shift for p in parts], axis=0, weights=weights)
        second = np.average([p.variance + p.shift**2 for p in parts], axis=0, weights=weights)
        shared = np.average([p.shared for p in parts], axis=0, weights=weights)
        use = np.average([p.use for p in parts], axis=0, weights=weights)
        # Rounding is no shift: it would break ties between groups at random.
        is_seen = views.precision.max((1, 2))[:, None] > 0
        return Predicted(np.where(is_seen, mean, 0.0), np.maximum(second - mean**2, 0), shared, use, 1.0)

    def _fewer(self, n_cells: int) -> Iterator[Draws]:
        """Fewer draws of the same distribution, where cells are many: evenly spaced along their weights."""
        wanted = int(np.clip(BLOCK * 20 // max(n_cells, 1), 8, MAX_PREDICTED))
        for d in self.draws:
            total = d.weight.sum()
            n = int(np.ceil(wanted * total))
            if total < 1e-4:
                continue
            at = np.searchsorted(np.cumsum(d.weight) / total, (np.arange(n) + 0.5) / n)
            yield replace(d, x=d.x[np.minimum(at, len(d.x) - 1)], weight=np.full(n, total / n))


@dataclass(frozen=True)
class Predicted:
    """Predictions of d_U, of shape (n_groups, n_clusters)."""

    shift: FloatArray
    variance: FloatArray
    shared: FloatArray  # (n_groups,): variance that the cells of a group have in common
    use: FloatArray  # (n_groups, n_clusters, 3): how far it follows a view that moves in all cells of the group
    weight: float

    def mixed(self, other: Self, probability: float) -> Self:
        """This prediction with the given probability, else the other."""
        a, b = probability, 1 - probability
        apart = a * b * (self.shift - other.shift) ** 2
        return replace(
            self,
            shift=a * self.shift + b * other.shift,
            variance=a * self.variance + b * other.variance + apart,
            shared=a * self.shared + b * other.shared + apart.mean(1),
            use=a * self.use + b * other.use,
        )


def _predict(d: Draws, views: Views, of_labeled: bool) -> Predicted:
    n_groups, n_clusters = views.response.shape[:2]
    shift, second = np.zeros((n_groups, n_clusters)), np.zeros((n_groups, n_clusters))
    shared, use = np.zeros(n_groups), np.zeros((n_groups, n_clusters, 3))
    step = max(1, BLOCK // (len(d.x) * n_clusters))
    w = d.weight / d.weight.sum()
    for start in range(0, n_groups, step):
        own = slice(start, start + step)
        part = views.take(own)
        levels = list(d.world.effects(d.x, part.remainder, of_labeled))
        solved = _solve(d.world, d.x, part)
        group, cell = levels[0], levels[-1] if len(levels) > 1 else None
        mean = (group.target[:, :, None] * solved.weighed.sum(2, keepdims=True)).sum(-1)
        mean = np.broadcast_to(mean, solved.weighed.shape[:3])
        through = solved.total - solved.total @ solved.group @ solved.total
        group_variance = group.variance - _form(group.target, through, group.target)
        variance = np.broadcast_to(group_variance[:, :, None], mean.shape)
        # How a prediction follows a view that moves in all cells of a group.
        gain = np.broadcast_to(group.target[..., None, :] @ through, (*mean.shape, 3))
        if cell is not None:
            mean = mean + (cell.target[:, :, None] * solved.weighed).sum(-1)
            toward = solved.group[:, :, None] @ solved.inverse
            inner = solved.inverse - solved.inverse @ toward
            both = solved.inverse - solved.total[:, :, None] @ toward
            variance = variance + cell.variance[:, :, None]
            variance = variance - 2 * _form(group.target[:, :, None], both, cell.target[:, :, None])
            variance = variance - _form(cell.target[:, :, None], inner, cell.target[:, :, None])
            rest = solved.inverse - solved.inverse @ (solved.group @ solved.total)[:, :, None]
            gain = gain + (cell.target[:, :, None, None] @ rest)[..., 0, :]
        shift[own] = np.tensordot(w, mean, 1)
        second[own] = np.tensordot(w, variance + mean**2, 1)
        shared[own] = np.tensordot(w, np.maximum(group_variance, 0), 1)
        use[own] = np.tensordot(w, gain, 1)
    return Predicted(shift, np.maximum(second - shift**2, 0), shared, use, float(d.weight.sum()))


def _form(left: FloatArray, matrix: FloatArray, right: FloatArray) -> FloatArray:
    value: FloatArray = (left[..., None, :] @ matrix @ right[..., None])[..., 0, 0]
    return value


def learn_views(views: Views, *, selection: str = "unknown", seed: int = 0) -> ViewModel:
    """Learn the parameters from all groups.

    Parameters
    ----------
    views : Views
    selection : {"unknown", "random", "by_label"}
        "random": labels are a random sample of each group, given x. "by_label": they are not. "unknown": as far as the
        views show it; at even odds before they are looked at.
    seed : int
    """
    n_clusters = views.response.shape[1]
    odds = {"unknown": (0.5, 0.25, 0.25), "random": (1.0, 0.0, 0.0), "by_label": (0.0, 0.5, 0.5)}[selection]
    worlds = [
        _World(False, False, n_clusters),
        _World(True, False, n_clusters),
        _World(True, True, n_clusters),
    ]
    views = _telling(views, seed)
    found = [
        (world, *_integrate(world, views, np.random.default_rng([seed, i])), np.log(probability))
        for i, (world, probability) in enumerate(zip(worlds, odds, strict=True))
        if probability > 0
    ]
    evidence = logsumexp(np.concatenate([log_weight + prior for _, _, log_weight, prior in found]))
    return ViewModel(tuple(Draws(world, x, np.exp(lw + prior - evidence)) for world, x, lw, prior in found))


def _telling(views: Views, seed: int) -> Views:
    """Groups that tell most about the parameters: those with all views, and a sample of them if they are many."""
    n_views = (views.precision > 0).any(1).sum(1)
    # Sums over rows in another order differ in their last digits; the search for the mode must not magnify that.
    rounded = Views(
        *(v.astype(np.float32).astype(float) for v in (views.response, views.precision, views.remainder))
    )
    # Drawn, and put into an order, by what they say: neither names nor the order of groups matter.
    drawn = (rounded.response.sum((1, 2)) * (1e4 + seed % 1000)) % 1
    return rounded.take(np.lexsort((drawn, -n_views))[:MAX_GROUPS])


def _integrate(world: _World, views: Views, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draws of the parameters and the logs of their weights, which add up to the evidence of the model."""
    n_logs = world.n_parameters - 2
    step = max(1, BLOCK // views.response[..., 0].size)

    def posterior(x: FloatArray) -> FloatArray:
        parts = [_solve(world, x[i : i + step], views).log_likelihood.sum(1) for i in range(0, len(x), step)]
        return np.concatenate(parts) + world.prior(x)

    return integrate(
        posterior,
        starts=[np.append(np.log(world.scales) + move, [0.0, 0.0]) for move in (0.0, -1.5)],
        bounds=np.array([(-7.0, 2.0)] * n_logs + [(-1.5, 1.5), (-4.0, 4.0)]),
        n_draws=N_DRAWS,
        rng=rng,
    )
