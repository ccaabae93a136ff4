"""Integrals over a handful of parameters by importance sampling (NumPy, SciPy)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

from groupshift._math.arrays import FloatArray

# Rounds in which the distribution that draws come from is fitted to its own draws.
MAX_ROUNDS = 4
FREEDOM = 5.0


@dataclass(frozen=True)
class Mode:
    """Where a density is largest, and how far it reaches around there."""

    center: FloatArray  # (d,)
    spread: FloatArray  # (d, d)
    log_integral: float  # about: as if the density were normal (Laplace)


def find_mode(
    with_gradient: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    *,
    starts: Sequence[FloatArray],
    bounds: FloatArray,
) -> Mode:
    """The mode of a density that is known up to a constant.

    Parameters
    ----------
    with_gradient : callable
        From an array of shape (n, d) to the log-densities, (n,), and their gradients, (n, d).
    starts : sequence of arrays of shape (d,)
        Where the search may begin: at the likeliest of them.
    bounds : array of shape (d, 2)
        Where it is sought.
    """

    def downhill(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = with_gradient(x[None])
        # Where it cannot be computed, the search turns back.
        if not (np.isfinite(value).all() and np.isfinite(gradient).all()):
            return 1e12, np.zeros_like(x)
        return -float(value[0]), -gradient[0]

    limits = {"method": "L-BFGS-B", "bounds": bounds.tolist(), "options": {"maxiter": 40, "ftol": 1e-7}}
    heights = with_gradient(np.array(starts))[0]
    start = starts[int(np.argmax(np.nan_to_num(heights, nan=-np.inf)))]
    found = minimize(downhill, start, jac=True, **limits)
    center: FloatArray = found.x
    d, h = len(center), 1e-2
    # All points beside it at once: one by one they would take as long as the search.
    uphill = with_gradient(center + h * np.concatenate([np.eye(d), -np.eye(d)]))[1]
    # What cannot be computed says nothing.
    curvature = np.nan_to_num((uphill[d:] - uphill[:d]) / (2 * h), nan=0.0, posinf=0.0, neginf=0.0)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    # A direction that the density says little about is taken to be about two units wide.
    values = np.clip(values, 0.25, None)
    log_integral = -float(found.fun) + (d * np.log(2 * np.pi) - np.log(values).sum()) / 2
    return Mode(center, (vectors / values) @ vectors.T, float(log_integral))


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
    >>> def with_gradient(x):
    ...     return bell(x), -x
    >>> bounds = np.array([[-9.0, 9.0]])
    >>> mode = find_mode(with_gradient, starts=[np.ones(1)], bounds=bounds)
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
