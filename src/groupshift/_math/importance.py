"""Integrals over a handful of parameters by importance sampling (NumPy, SciPy)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.special import gammaln, logsumexp

from groupshift._math.arrays import FloatArray

# Rounds in which the distribution that draws come from is fitted to its own draws.
MAX_ROUNDS = 4
FREEDOM = 5.0
# How far from a mode the gradients are taken that tell its curvature.
STEP = 1e-2


@dataclass(frozen=True)
class Mode:
    """Where a density is largest, and how far it reaches around there."""

    center: FloatArray  # (d,)
    spread: FloatArray  # (d, d)
    log_integral: float  # about: as if the density were normal (Laplace)


# Answers to what several densities are asked for: (n, d) points of each density, by its number, to log-densities, (n,), and their
# gradients, (n, d), in the same order.
WithGradients: TypeAlias = Callable[[dict[int, FloatArray]], Sequence[tuple[FloatArray, FloatArray]]]
# What a search, by its number, asks for or has found.
Said: TypeAlias = tuple[int, FloatArray | OptimizeResult | BaseException]


def find_modes(
    with_gradients: WithGradients, *, starts: Sequence[Sequence[FloatArray]], bounds: Sequence[FloatArray]
) -> list[Mode]:
    """The modes of several densities that are known up to a constant.

    Parameters
    ----------
    with_gradients : callable
        Of any number of the densities.
    starts : sequence of sequences of arrays of shape (d,)
        Where the search for each mode may begin: at the likeliest of them.
    bounds : sequence of arrays of shape (d, 2)
        Where it is sought.
    """
    beginnings = with_gradients({i: np.array(own) for i, own in enumerate(starts)})
    best = (int(np.argmax(np.nan_to_num(heights, nan=-np.inf))) for heights, _ in beginnings)
    found = _in_step(with_gradients, [own[i] for own, i in zip(starts, best, strict=True)], bounds)
    # All points beside the modes at once: one by one they would take as long as the search.
    beside = {i: _beside(one.x) for i, one in enumerate(found)}
    return [_mode(one, uphill) for one, (_, uphill) in zip(found, with_gradients(beside), strict=True)]


def _in_step(
    with_gradients: WithGradients, starts: Sequence[FloatArray], bounds: Sequence[FloatArray]
) -> list[OptimizeResult]:
    """Searches that begin at the given points, one for each density, and go step by step together.

    When every search has asked for a point, they all wait, and one call answers them.
    """
    asked: SimpleQueue[Said] = SimpleQueue()
    searches = [_Search(i, start, bounds[i], asked) for i, start in enumerate(starts)]
    found: dict[int, OptimizeResult] = {}
    try:
        for search in searches:
            search.start()
        while len(found) < len(searches):
            points = {}
            for _ in range(len(searches) - len(found)):
                i, said = asked.get()
                if isinstance(said, BaseException):
                    raise said
                if isinstance(said, OptimizeResult):
                    found[i] = said
                else:
                    points[i] = said[None]
            # In the order of densities: nothing depends on which search was the first to ask.
            points = dict(sorted(points.items()))
            for i, answer in zip(points, with_gradients(points) if points else (), strict=True):
                searches[i].answers.put(answer)
    finally:
        for search in searches:
            search.end()
    return [found[i] for i in range(len(searches))]


class _Search(Thread):
    """A search for a mode. It has a thread, since SciPy calls what it minimises and cannot be told to wait."""

    def __init__(self, number: int, beginning: FloatArray, bounds: FloatArray, asked: "SimpleQueue[Said]"):
        super().__init__(name=f"search for a mode {number}", daemon=True)
        self.number, self.beginning, self.bounds, self.asked = number, beginning, bounds, asked
        self.answers: SimpleQueue[tuple[FloatArray, FloatArray] | None] = SimpleQueue()

    def run(self) -> None:
        """Ask for points, and say what was found, or why nothing was."""
        limits = {"bounds": self.bounds.tolist(), "options": {"maxiter": 40, "ftol": 1e-7}}
        said: OptimizeResult | BaseException
        try:
            said = minimize(self._downhill, self.beginning, jac=True, method="L-BFGS-B", **limits)
        except BaseException as error:
            said = error
        self.asked.put((self.number, said))

    def end(self) -> None:
        """Nothing is left waiting, whatever happened to the others."""
        self.answers.put(None)
        if self.is_alive():
            self.join()

    def _downhill(self, x: FloatArray) -> tuple[float, FloatArray]:
        self.asked.put((self.number, x))
        if (answer := self.answers.get()) is None:
            raise InterruptedError
        value, gradient = answer
        # Where it cannot be computed, the search turns back.
        if not (np.isfinite(value).all() and np.isfinite(gradient).all()):
            return 1e12, np.zeros_like(x)
        return -float(value[0]), -gradient[0]


def _beside(center: FloatArray) -> FloatArray:
    """Points before and behind a center along each axis."""
    step = STEP * np.eye(len(center))
    found: FloatArray = center + np.concatenate([step, -step])
    return found


def _mode(found: OptimizeResult, uphill: FloatArray) -> Mode:
    """What a search found, and the gradients beside it."""
    d = len(found.x)
    # What cannot be computed says nothing.
    curvature = np.nan_to_num((uphill[d:] - uphill[:d]) / (2 * STEP), nan=0.0, posinf=0.0, neginf=0.0)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    # A direction that the density says little about is taken to be about two units wide.
    values = np.clip(values, 0.25, None)
    log_integral = -float(found.fun) + (d * np.log(2 * np.pi) - np.log(values).sum()) / 2
    return Mode(found.x, (vectors / values) @ vectors.T, float(log_integral))


def integrate(
    log_density: Callable[[FloatArray], FloatArray],
    mode: Mode,
    *,
    bounds: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draws from a density that is known up to a constant, with log-weights whose sum is its integral.

    Draws come from a t-distribution around the mode, fitted to its own draws until their weights are even.

    Parameters
    ----------
    log_density : callable
        From arrays of shape (n, d) to (n,).
    mode : Mode
    bounds : array of shape (d, 2)
        Draws lie within about twice of them; those beyond them have no weight.

    Examples
    --------
    A normal density without its constant integrates to √(2π).

    >>> def bell(x):
    ...     return -(x[:, 0] ** 2) / 2
    >>> def with_gradients(points):
    ...     return [(bell(x), -x) for x in points.values()]
    >>> bounds = np.array([[-9.0, 9.0]])
    >>> (mode,) = find_modes(with_gradients, starts=[[np.ones(1)]], bounds=[bounds])
    >>> _, log_weight = integrate(bell, mode, bounds=bounds, n_draws=2000, rng=np.random.default_rng(1))
    >>> round(float(np.exp(log_weight).sum()), 1), round(float(np.exp(mode.log_integral)), 1)
    (2.5, 2.5)
    """
    center, spread = mode.center, 1.3 * mode.spread
    middle, reach = bounds.mean(1), bounds[:, 1] - bounds[:, 0]
    x, log_weight = np.empty((0, len(center))), np.empty(0)
    for _ in range(MAX_ROUNDS):
        x, log_drawn = _t_draws(center, spread, n_draws, rng)
        # Farther out numbers would overflow.
        x = np.clip(x, middle - reach, middle + reach)
        density = log_density(x)
        # Where it cannot be computed, far out, it is next to nothing; beyond its bounds a parameter has no place.
        is_inside = np.isfinite(density) & ((x >= bounds[:, 0]) & (x <= bounds[:, 1])).all(1)
        density = np.where(is_inside, density, -np.inf)
        log_weight = density - log_drawn - np.log(len(x))
        if not np.isfinite(log_weight).any():
            # Nowhere to be computed: the mode stands for all.
            return mode.center[None], np.array([mode.log_integral])
        weight = np.exp(log_weight - logsumexp(log_weight))
        if 1 / (weight**2).sum() > n_draws / 5:
            break
        center = weight @ x
        spread = 1.3 * ((x - center) * weight[:, None]).T @ (x - center) + 1e-2 * np.eye(len(center))
    return x, log_weight


def _t_draws(
    center: FloatArray, spread: FloatArray, n_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draws from a multivariate t-distribution, each with its mirror image, and their log-densities."""
    d = len(center)
    root = np.linalg.cholesky(spread + 1e-9 * np.eye(d))
    # Each number is drawn on the center's side of zero or on the other, not above or below: of a density with a parameter of
    # the other sign, draws are the same with that sign.
    z = rng.normal(size=(n_draws // 2, d)) * np.where(center < 0, -1.0, 1.0)
    scale = rng.chisquare(FREEDOM, n_draws // 2) / FREEDOM
    z, scale = np.concatenate([z, -z]), np.concatenate([scale, scale])
    x = center + (z @ root.T) / np.sqrt(scale)[:, None]
    constant = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - d / 2 * np.log(FREEDOM * np.pi)
    distance = (z**2).sum(1) / scale
    return x, constant - np.log(np.diag(root)).sum() - (FREEDOM + d) / 2 * np.log1p(distance / FREEDOM)
