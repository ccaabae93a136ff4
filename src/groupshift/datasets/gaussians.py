"""Pairs of Gaussians, one per cluster: drawn with a given AUC, placed apart, with exact posteriors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import expit, logsumexp

from groupshift._math.arrays import FloatArray, IntArray
from groupshift.datasets.containers import Table

# Draws per component behind every simulated AUC: its standard error is then below 0.003.
AUC_DRAWS = 20_000
# Draws per component for overlaps, rates of some tenths of a per cent: standard errors are then below 0.001.
OVERLAP_DRAWS = 4_000
MAX_OVERLAP = 0.02
# Pairs have spreads of about one; they move out in steps of a quarter.
PLACE_STEP = 0.25
# Of the authors' generator: how far a pair jumps in each coordinate at most, and the part of its rows that must stay clear.
JUMP = 5.0
CLEAR = 0.95
# The walk of a pair takes a handful of steps; one that takes so many never enters the range.
MAX_STEPS = 1_000
CHUNK = 1 << 14

PairRule = Literal["uniform", "walk"]

Ratios = Callable[[float], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class GaussianPairs:
    """K clusters, each a Gaussian for negatives and one for positives; the partition that generated a sample.

    `mean` has shape (K, 2, d) and `scale`, the lower Cholesky factors of the covariances, (K, 2, d, d).
    `auc` holds each pair's own AUC and `overlap` the share of each cluster's rows (clusters and classes
    equally frequent) that are more likely under another cluster.
    """

    mean: FloatArray
    scale: FloatArray
    auc: FloatArray
    overlap: FloatArray

    def sample(self, cluster: IntArray, y: IntArray, *, rng: np.random.Generator, dtype: type) -> FloatArray:
        """Draw one row for each (cluster, class)."""
        X: FloatArray = np.empty((len(y), self.mean.shape[-1]), dtype=dtype)
        for k, c in np.ndindex(self.mean.shape[:2]):
            rows = np.flatnonzero((cluster == k) & (y == c))
            X[rows] = rng.standard_normal((len(rows), X.shape[1])) @ self.scale[k, c].T + self.mean[k, c]
        return X

    def predict(self, X: Table) -> IntArray:
        """The cluster under which each row is most likely, clusters and classes being equally frequent."""
        X = np.asarray(X)
        cluster = np.empty(len(X), dtype=np.int64)
        for rows, log_density in self._log_densities(X):
            cluster[rows] = np.logaddexp(log_density[..., 0], log_density[..., 1]).argmax(axis=1)
        return cluster

    def posterior(self, X: FloatArray, *, cells: FloatArray, cell_of_row: IntArray) -> FloatArray:
        """p(y=1 | x) of rows whose shares of each (cluster, class) are `cells[cell_of_row]`."""
        with np.errstate(divide="ignore"):
            log_cells = np.log(cells)
        posterior = np.empty(len(X))
        for rows, log_density in self._log_densities(X):
            joint = logsumexp(log_density + log_cells[cell_of_row[rows]], axis=1)
            posterior[rows] = expit(joint[:, 1] - joint[:, 0])
        return posterior

    def _log_densities(self, X: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Log densities (rows, K, 2), a chunk of rows at a time, up to a common constant."""
        shape, d = self.mean.shape[:2], self.mean.shape[-1]
        whiten = np.linalg.inv(self.scale)
        # One product whitens a chunk for all 2K components at once.
        stacked = whiten.reshape(-1, d).T
        centre = np.einsum("kcij,kcj->kci", whiten, self.mean).reshape(-1)
        log_volume = np.log(np.diagonal(self.scale, axis1=-2, axis2=-1)).sum(axis=-1)
        for start in range(0, len(X), CHUNK):
            rows = slice(start, start + CHUNK)
            z = (X[rows] @ stacked - centre).reshape(-1, *shape, d)
            yield rows, -0.5 * np.einsum("nkcj,nkcj->nkc", z, z) - log_volume


def draw_pairs(
    *,
    n_clusters: int,
    n_features: int,
    auc_range: tuple[float, float],
    rng: np.random.Generator,
    rule: PairRule = "uniform",
) -> GaussianPairs:
    """Draw pairs one after the other, each with its AUC in the range and clear of the others."""
    low, high = auc_range
    if not 0.5 < low <= high < 1:
        raise ValueError(f"auc_range is {auc_range}, expected 0.5 < low <= high < 1, such as (0.75, 0.95).")
    if rule not in ("uniform", "walk"):
        raise ValueError(f'pairs is {rule!r}, expected "uniform" or "walk".')

    def draw_pair() -> tuple[FloatArray, FloatArray]:
        if rule == "walk":
            return _walk_pair(n_features, auc_range, rng)
        # Aim inside the range by several standard errors of the simulation, so that the true AUC lies in it.
        margin = min(0.01, (high - low) / 4)
        return _draw_pair(n_features, rng.uniform(low + margin, high - margin), rng)

    pairs = [draw_pair() for _ in range(n_clusters)]
    mean, scale = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    draws = (_jump_apart if rule == "walk" else _place)(mean, scale, rng)
    auc = np.array([pair_auc(m, s, rng=rng) for m, s in zip(mean, scale, strict=True)])
    # A fresh simulation checks the aim; 0.009 is three of its standard errors, for ranges too narrow for a
    # margin.
    if np.any(auc < low - 0.009) or np.any(auc > high + 0.009):
        raise RuntimeError(
            f"Drawn pairs have AUCs {auc.round(3)}, outside {auc_range}: please report the seed."
        )
    pairs_without_overlap = GaussianPairs(mean, scale, auc, np.full(n_clusters, np.nan))
    overlap = np.array([np.mean(pairs_without_overlap.predict(x) != k) for k, x in enumerate(draws)])
    return replace(pairs_without_overlap, overlap=overlap)


def pair_auc(mean: FloatArray, scale: FloatArray, *, rng: np.random.Generator, n: int = AUC_DRAWS) -> float:
    """AUC of the likelihood ratio of a pair (negative, positive), by simulation: no score does better.

    >>> mean, scale = np.array([[0.0], [1.0]]), np.ones((2, 1, 1))
    >>> auc = pair_auc(mean, scale, rng=np.random.default_rng(0))
    >>> bool(abs(auc - 0.760) < 0.01)  # Phi(1 / sqrt(2)) = 0.760
    True
    """
    z = rng.standard_normal((2, n, mean.shape[-1]))
    return _auc(*_ratios_along(scale, mean[1] - mean[0], z)(1.0))


def _draw_pair(d: int, auc: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Means (2, d) and Cholesky factors (2, d, d) of a pair with this AUC, centred at the origin."""
    base, direction = _root(_random_shape(d, rng), size=0.5), _random_unit(d, rng)
    twists = [_random_shape(d, rng) for _ in range(2)]
    z = rng.standard_normal((2, AUC_DRAWS, d))
    # Shapes alone tell classes apart, the more so the higher d. They may carry half of the AUC above chance
    # at most.
    for perturbation in 0.7 ** np.arange(1, 50):
        scale = np.array([base @ _root(twist, size=perturbation) for twist in twists])
        ratios = _ratios_along(scale, direction, z)
        if _auc(*ratios(0.0)) < 0.5 + (auc - 0.5) / 2:
            break
    distance = _distance_for(auc, ratios)
    return np.outer([-distance / 2, distance / 2], direction), np.linalg.cholesky(
        scale @ scale.swapaxes(-1, -2)
    )


def _distance_for(auc: float, ratios: Ratios) -> float:
    """Distance between the means that gives this AUC: double, then bisect."""
    near, far = 0.0, 1.0
    while _auc(*ratios(far)) < auc:
        near, far = far, 2 * far
    while far - near > 1e-3:
        middle = (near + far) / 2
        near, far = (middle, far) if _auc(*ratios(middle)) < auc else (near, middle)
    return far


def _ratios_along(scale: FloatArray, direction: FloatArray, z: FloatArray) -> Ratios:
    """Log likelihood ratios of (negative, positive) draws as a function of the distance of the means.

    Log densities are quadratic in that distance, so a new distance costs no matrix product.
    """
    log_volume = np.linalg.slogdet(scale)[1]
    terms = []
    for own, sign in ((0, 1.0), (1, -1.0)):
        other = 1 - own
        seen = z[own] @ np.linalg.solve(scale[other], scale[own]).T
        shift = np.linalg.solve(scale[other], direction)
        constant = (
            0.5 * _squared_norm(z[own]) - 0.5 * _squared_norm(seen) + log_volume[own] - log_volume[other]
        )
        # Seen from the other class's mean, a negative draw lies one distance back and a positive one ahead.
        terms.append((constant, sign * (seen @ shift), shift @ shift))

    def ratios(distance: float) -> tuple[FloatArray, FloatArray]:
        negatives, positives = (c + distance * b - 0.5 * distance**2 * a for c, b, a in terms)
        return negatives, -positives

    return ratios


def _walk_pair(
    d: int, auc_range: tuple[float, float], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """A pair by random steps from two equal Gaussians until its AUC enters the range, as the authors' code has it.

    One step in three moves a mean by a distance of 1, one changes a covariance, and one changes the weights of a mixture
    that has a single component here: nothing. A step that leads above the range is halved until it does not.
    """
    low, high = auc_range
    z = rng.standard_normal((2, AUC_DRAWS, d))
    mean, cov = np.zeros((2, d)), np.stack([np.eye(d)] * 2)

    def auc_of(mean: FloatArray, cov: FloatArray) -> float:
        return _auc(*_ratios_along(_factors(cov), mean[1] - mean[0], z)(1.0))

    def acceptable(mean: FloatArray, cov: FloatArray) -> bool:
        # Volumes of the two classes differ by a factor of 2 at most.
        volume = np.linalg.slogdet(cov)[1]
        return auc_of(mean, cov) <= high and abs(volume[1] - volume[0]) <= np.log(2)

    for _ in range(MAX_STEPS):
        if auc_of(mean, cov) >= low:
            return mean - mean.mean(axis=0), _factors(cov)
        c, part, size = rng.integers(2), rng.integers(3), 1.0
        if part == 0:
            continue
        if part == 1:
            target_mean, target_cov = mean[c] + _random_unit(d, rng), cov[c]
        elif rng.random() < 0.5:
            vectors = _random_shape(d, rng)[1]
            target_mean, target_cov = mean[c], (vectors * rng.uniform(1, 2, d)) @ vectors.T
        else:
            target_mean, target_cov = mean[c], cov[c] / 2
        while True:
            new_mean, new_cov = mean.copy(), cov.copy()
            new_mean[c] += size * (target_mean - mean[c])
            new_cov[c] += size * (target_cov - cov[c])
            if acceptable(new_mean, new_cov):
                break
            size /= 2
        mean, cov = new_mean, new_cov
    raise ValueError(
        f"auc_range is {auc_range}, and {MAX_STEPS} random steps did not lead into it. Pass a wider one, such as "
        '(0.75, 0.95), or pairs="uniform".'
    )


def _factors(cov: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)


def _jump_apart(mean: FloatArray, scale: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Move pairs, in place, by random jumps until balls that hold 95 % of each are disjoint; return draws."""
    draws = _draws(mean, scale, rng)
    centre = mean.mean(axis=1)
    radius = np.quantile(np.linalg.norm(draws - centre[:, None], axis=-1), CLEAR, axis=1)

    def conflict(i: int, j: int) -> bool:
        return bool(np.linalg.norm(centre[i] - centre[j]) < radius[i] + radius[j])

    start = centre.copy()
    while conflicts := [pair for pair in combinations(range(len(mean)), 2) if conflict(*pair)]:
        for i, j in conflicts:
            while conflict(i, j):
                centre[[i, j]] += rng.uniform(-JUMP, JUMP, size=(2, mean.shape[-1]))
    mean += (centre - start)[:, None]
    return np.asarray(draws + (centre - start)[:, None])


def _draws(mean: FloatArray, scale: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draws of each pair, classes equally frequent: (K, rows, d)."""
    z = rng.standard_normal((*mean.shape[:2], OVERLAP_DRAWS, mean.shape[-1]))
    return np.concatenate(list((z @ scale.swapaxes(-1, -2) + mean[:, :, None]).swapaxes(0, 1)), axis=1)


def _place(mean: FloatArray, scale: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Move each pair, in place, along a random ray to the first spot clear of earlier pairs; return draws.

    Clear means: at most MAX_OVERLAP of a cluster's rows are likelier under another cluster, classes and
    clusters being equally frequent. Each of the other clusters may take an equal part of that.
    """
    allowed = MAX_OVERLAP / max(len(mean) - 1, 1)
    draws = _draws(mean, scale, rng)
    own = [_log_density_along(mean[k], scale[k], draws[k], None)(0.0) for k in range(len(mean))]
    for k in range(1, len(mean)):
        ray = _random_unit(mean.shape[-1], rng)
        old_by_new = [_log_density_along(mean[k], scale[k], draws[j], -ray) for j in range(k)]
        new_by_old = [_log_density_along(mean[j], scale[j], draws[k], ray) for j in range(k)]
        distance = PLACE_STEP
        # Asked no further than to the first pair that is in the way: most are looked at only where the pair comes to stand.
        while any(
            np.mean(old_by_new[j](distance) > own[j]) > allowed
            or np.mean(new_by_old[j](distance) > own[k]) > allowed
            for j in range(k)
        ):
            distance += PLACE_STEP
        mean[k] += distance * ray
        draws[k] += distance * ray
    return draws


def _log_density_along(
    mean: FloatArray, scale: FloatArray, points: FloatArray, ray: FloatArray | None
) -> Callable[[float], FloatArray]:
    """Log density of a pair, classes equally frequent, at `points + distance * ray`, up to a constant."""
    ray = np.zeros(mean.shape[-1]) if ray is None else ray
    terms = []
    for c in (0, 1):
        z = np.linalg.solve(scale[c], (points - mean[c]).T).T
        step = np.linalg.solve(scale[c], ray)
        terms.append((-0.5 * _squared_norm(z) - np.linalg.slogdet(scale[c])[1], z @ step, step @ step))

    def log_density(distance: float) -> FloatArray:
        negative, positive = (c - distance * b - 0.5 * distance**2 * a for c, b, a in terms)
        return np.asarray(np.logaddexp(negative, positive))

    return log_density


def _auc(negatives: FloatArray, positives: FloatArray) -> float:
    """Share of (positive, negative) pairs in the right order; continuous scores have no ties."""
    # Sorting the positives too keeps the search in cache: several times faster.
    return float(np.searchsorted(np.sort(negatives), np.sort(positives)).mean() / len(negatives))


def _random_shape(d: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, of order one whatever d is, and eigenvectors of a random symmetric matrix."""
    a = rng.standard_normal((d, d)) / np.sqrt(d)
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return values, vectors


def _root(shape: tuple[FloatArray, FloatArray], *, size: float) -> FloatArray:
    """Symmetric square root of the covariance whose matrix logarithm is `size` times the shape."""
    values, vectors = shape
    return (vectors * np.exp(size * values / 2)) @ vectors.T


def _random_unit(d: int, rng: np.random.Generator) -> FloatArray:
    direction = rng.standard_normal(d)
    return direction / np.linalg.norm(direction)


def _squared_norm(z: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", z, z))
