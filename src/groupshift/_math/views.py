r"""Three views of one shift, and how far to believe each.

Of the shift of a cell (group g, cluster k) against the labelled posterior there are three views, each with sampling noise:

- labels of its labelled rows: ``r = d_L``,
- scores of the same rows, labels aside: ``l = a θ + b λ + m + n_L``,
- scores of its population rows: ``u = c + a θ − b κ λ + b μ + m + n_U``.

``d_L = θ + λ`` and ``d_U = θ − κ λ + μ``: θ is how the group differs, λ how its labels were selected (0 where they are a random
sample), κ the labelled rows for each population row if they were taken out of the population, else 0; μ how the population's
rows were selected themselves, by another rule but as strongly as labels were, or not at all. The misfit m is what features of
the cell do that no share of positives explains, n what the two samples do each on their own. θ, λ, μ and m are normal, with a
part for the group and one for the cell. Their variances over groups show how much of each view is signal, and
the best linear prediction of d_U follows: a group's own labels count as far as selection is small, scores as far as the
misfit is. Whether there is any selection, and of which sample, whether κ is 0, and whether a is b is left open: seven models are
averaged by their evidence, and all parameters are integrated over, which matters where groups are few.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logsumexp

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.importance import Mode, find_modes, integrate
from groupshift._math.matrix_entries import dot, transposed
from groupshift._math.sums import sum_by
from groupshift._math.view_worlds import (
    SCORES,
    Views,
    World,
    likelihood_gradients,
    log_likelihood,
    weigh,
)

# Groups that the parameters are learned from, and draws of the parameters: more change the third digit.
MAX_GROUPS, N_DRAWS, MAX_PREDICTED = 300, 256, 64
BLOCK = 100_000
# A model is left out if its evidence is so many nats below the best one's, by Laplace's approximation: less than a thousandth,
# and the approximation is off by two or three at most.
HOPELESS = 10.0


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
class Draws:
    """Parameters of one model with their weights; all weights of all models add up to 1."""

    world: World
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
        n_cells = views.response[..., 0].size
        draws = list(self._fewer(n_cells))
        # Of few cells, all draws at once: their arrays are so small that it is their number that takes time.
        is_small = n_cells * sum(len(d.x) for d in draws) <= BLOCK
        batches = [draws] if is_small else [[d] for d in draws]
        parts = [part for batch in batches for part in _predict(batch, views, of_labeled)]
        weights = [p.weight for p in parts]
        mean = np.average([p.shift for p in parts], axis=0, weights=weights)
        second = np.average([p.variance + p.shift**2 for p in parts], axis=0, weights=weights)
        shared = np.average([p.shared for p in parts], axis=0, weights=weights)
        use = np.average([p.use for p in parts], axis=0, weights=weights)
        of_draws = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("follow", "size", "weights")
        )
        # Rounding is no shift: it would break ties between groups at random.
        is_seen = views.precision.max((1, 2))[:, None] > 0
        shift = np.where(is_seen, mean, 0.0)
        return Predicted(shift, np.maximum(second - mean**2, 0), shared, use, *of_draws)

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
    follow: FloatArray  # (n_draws,): the same for all views and groups together, under each draw of the parameters
    size: FloatArray  # (n_draws,): sum of squared shifts under each draw
    weights: FloatArray  # (n_draws,)

    @property
    def weight(self) -> float:
        return float(self.weights.sum())

    @property
    def scale_error(self) -> float:
        """Standard error of how large all shifts are, relative to them: groups do not say well what the parameters are."""
        mean = np.average(self.follow, weights=self.weights)
        spread = np.sqrt(np.average((self.follow - mean) ** 2, weights=self.weights))
        return float(min(spread / max(abs(mean), 1e-12), 1.0)) if spread > 0 else 0.0

    @property
    def is_agreed(self) -> bool:
        """Whether draws of the parameters agree on the shifts: their mean is larger than what draws differ by around it."""
        size = float(np.average(self.size, weights=self.weights))
        return float((self.shift**2).sum()) >= size / 2

    def without_shift(self) -> Self:
        """Shifts that are not made: they are as uncertain as before, and by as much as they were."""
        none = np.zeros_like(self.shift)
        lost = self.shift**2
        return replace(
            self,
            shift=none,
            variance=self.variance + lost,
            shared=self.shared + lost.mean(1),
            use=0 * self.use,
        )

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


def _predict(batch: Sequence[Draws], views: Views, of_labeled: bool) -> list[Predicted]:
    """Predictions of each of several models."""
    n_groups, n_clusters = views.response.shape[:2]
    ends = np.cumsum([len(d.x) for d in batch])
    table = np.concatenate([d.world.table(d.x) for d in batch])
    found = [_Sums(d.weight, n_groups, n_clusters) for d in batch]
    step = max(1, BLOCK // (len(table) * n_clusters))
    for start in range(0, n_groups, step):
        own = slice(start, start + step)
        solved = weigh(table, views.take(own))
        group, *cells = (level.target(of_labeled) for level in solved.levels)
        # What views leave of the target comes first: it is small where views are sharp, while they and the group's part are large
        # and nearly the same, so that their difference would have no digits.
        left_of_group = [dot(row, group[0]) for row in solved.left]
        # How a prediction follows a view that moves in all cells of a group.
        gain = [dot(row, left_of_group) for row in solved.total]
        group_variance = group[1] - dot(gain, group[0])
        mean, variance = dot(left_of_group, solved.sums), group_variance
        if cells:
            target, of_cell = cells[0]
            toward = [dot(row, target) for row in solved.inverse]
            mean = mean + dot(target, solved.views)
            through_group = dot([dot(row, toward) for row in solved.group], toward)
            variance = (
                variance + of_cell - 2 * dot(left_of_group, toward) - dot(target, toward) + through_group
            )
            gain = [g + dot(column, toward) for g, column in zip(gain, transposed(solved.left), strict=True)]
        for sums, end in zip(found, ends, strict=True):
            draws = slice(end - len(sums.weight), end)
            parts = (np.ascontiguousarray(v[..., draws, :]) for v in (group_variance, mean, variance, *gain))
            sums.add(own, *parts)
    return [sums.predicted for sums in found]


class _Sums:
    """Predictions of one model, whose draws have these weights, as they are added up over blocks of groups."""

    def __init__(self, weight: FloatArray, n_groups: int, n_clusters: int):
        self.weight, self.share = weight, weight / weight.sum()
        self.shift, self.second = np.zeros((2, n_groups, n_clusters))
        self.shared, self.use = np.zeros(n_groups), np.zeros((n_groups, n_clusters, 3))
        self.follow, self.size = np.zeros((2, len(weight)))

    def add(
        self,
        own: slice,
        group_variance: FloatArray,
        mean: FloatArray,
        variance: FloatArray,
        *gain: FloatArray,
    ) -> None:
        """The groups of one block."""
        shape = (self.shift.shape[1], *group_variance.shape)
        mean, variance, *gains = (np.broadcast_to(v, shape) for v in (mean, variance, *gain))
        self.shift[own] = _expected(self.share, mean)
        self.second[own] = _expected(self.share, variance + mean**2)
        self.shared[own] = self.share @ np.maximum(group_variance, 0)
        self.use[own] = np.stack([_expected(self.share, g) for g in gains], -1)
        self.follow += sum(g.sum((0, 2)) for g in gains) / len(self.shift)
        self.size += (mean**2).sum((0, 2))

    @property
    def predicted(self) -> Predicted:
        variance = np.maximum(self.second - self.shift**2, 0)
        return Predicted(self.shift, variance, self.shared, self.use, self.follow, self.size, self.weight)


def _expected(weight: FloatArray, of_draws: FloatArray) -> FloatArray:
    """From (n_clusters, n_draws, n_groups) to (n_groups, n_clusters)."""
    mean: FloatArray = np.einsum("n,kng->gk", weight, of_draws)
    return mean


def learn_views(
    views: Views, *, selection: str = "unknown", seed: int = 0, each: Callable[..., Iterator[Any]] = map
) -> ViewModel:
    """Learn the parameters from all groups.

    Parameters
    ----------
    views : Views
    selection : {"unknown", "random", "by_label"}
        "random": labels are a random sample of each group, given x. "by_label": they are not. "unknown": as far as the
        views show it; beforehand a random sample is twice as likely as each of three kinds of selection.
    seed : int
    each : callable
        Calls a function for each of several items, as `map` does, or several at once.
    """
    n_clusters = views.response.shape[1]
    plain = [
        World(False, False, n_clusters),
        World(True, False, n_clusters),
        World(True, True, n_clusters),
    ]
    # Whether features go with shares by nature, nobody knows beforehand. Samples that have shares by themselves do not show it.
    worlds = [*plain, *(replace(world, is_steep=True) for world in plain), replace(plain[1], is_apart=True)]
    random = {"unknown": 0.4, "random": 1.0, "by_label": 0.0}[selection]
    labels = remainder = both = (1 - random) / 3
    # Worlds that make no difference to the views at hand are one.
    if not views.remainder.any():
        labels, remainder = labels + remainder, 0.0
    # Scores of the population that go with no label may be its shares or its misfit. Where hidden labels confirmed clusters, they
    # confirmed that scores tell shares; else nothing speaks for it.
    if n_clusters == 1 or not views.precision[..., SCORES].any():
        both = 0.0
    odds = [random / 2, labels / 2, remainder / 2] * 2 + [both]
    views = _telling(views, seed)
    # Each model has draws of its own, whichever others there are.
    candidates = [
        (_Posterior(world, views), np.log(probability), np.random.default_rng([seed, i]))
        for i, (world, probability) in enumerate(zip(worlds, odds, strict=True))
        if probability > 0
    ]
    modes = _modes([posterior for posterior, _, _ in candidates])
    about = [mode.log_integral + prior for mode, (_, prior, _) in zip(modes, candidates, strict=True)]
    kept = [
        (posterior, mode, rng, prior)
        for mode, near, (posterior, prior, rng) in zip(modes, about, candidates, strict=True)
        # Draws of a model that the views speak against so clearly would have no weight.
        if not near < max(about) - HOPELESS
    ]
    draws = each(_draws, [(posterior, mode, rng) for posterior, mode, rng, _ in kept])
    found = [(one[0].world, x, lw + one[-1]) for one, (x, lw) in zip(kept, draws, strict=True)]
    evidence = logsumexp(np.concatenate([log_weight for _, _, log_weight in found]))
    return ViewModel(tuple(Draws(world, x, np.exp(lw - evidence)) for world, x, lw in found))


def _modes(posteriors: Sequence["_Posterior"]) -> list[Mode]:
    """Where each is largest: all of the same views."""

    def with_gradients(points: dict[int, FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
        asked = [(posteriors[i].world, x) for i, x in points.items()]
        found = likelihood_gradients(asked, posteriors[0].views)
        return [
            (value + world.prior(x), gradient + world.prior_gradient(x))
            for (world, x), (value, gradient) in zip(asked, found, strict=True)
        ]

    return find_modes(
        with_gradients, starts=[one.starts for one in posteriors], bounds=[one.bounds for one in posteriors]
    )


def _draws(drawn: tuple["_Posterior", Mode, np.random.Generator]) -> tuple[FloatArray, FloatArray]:
    posterior, mode, rng = drawn
    return posterior.draws(mode, rng)


def _telling(views: Views, seed: int) -> Views:
    """Groups that tell most about the parameters: those with all views, and a sample of them if they are many."""
    n_views = (views.precision > 0).any(1).sum(1)
    # Sums over rows in another order differ in their last digits; the search for the mode must not magnify that.
    rounded = Views(
        *(v.astype(np.float32).astype(float) for v in (views.response, views.precision, views.remainder))
    )
    # Drawn, and put into an order, by what they say: neither names nor the order of groups matter, nor which class is positive.
    drawn = np.abs(rounded.response.sum((1, 2)) * (1e4 + seed % 1000)) % 1
    return rounded.take(np.lexsort((drawn, -n_views))[:MAX_GROUPS])


@dataclass(frozen=True)
class _Posterior:
    """The density of a model's parameters, given the views."""

    world: World
    views: Views

    @property
    def bounds(self) -> FloatArray:
        world = self.world
        scales = [(-7.0, 2.0)] * len(world.scales)
        return np.array(scales + [(-4 * sd - 1, 4 * sd + 1) for sd in world.others])

    @property
    def starts(self) -> list[FloatArray]:
        """Where its mode may be near."""
        world = self.world
        return [np.append(np.log(world.scales) + move, np.zeros(len(world.others))) for move in (0.0, -1.5)]

    def draws(self, mode: Mode, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the parameters and the logs of their weights, which add up to the evidence of the model."""
        return integrate(self._log_density, mode, bounds=self.bounds, n_draws=N_DRAWS, rng=rng)

    def _log_density(self, x: FloatArray) -> FloatArray:
        step = max(1, BLOCK // self.views.response[..., 0].size)
        parts = [
            log_likelihood(self.world, x[i : i + step], self.views).sum(1) for i in range(0, len(x), step)
        ]
        return np.concatenate(parts) + self.world.prior(x)
