"""The generator behind the article's figures: pairs of Gaussians by random steps, as the authors' code draws them."""

from itertools import combinations

import numpy as np

from groupshift._math.arrays import FloatArray
from groupshift.datasets.mixture import (
    AUC_DRAWS,
    GaussianPairs,
    draw_rows,
    pair_auc,
    random_shape,
    random_unit,
    ratios_along,
    simulated_auc,
)

# How far a pair jumps in each coordinate at most, and the part of its rows that must stay clear.
JUMP = 5.0
CLEAR = 0.95
# The walk of a pair takes a handful of steps; one that takes so many never enters the range.
MAX_STEPS = 1_000


def walked_pairs(
    *, n_clusters: int, n_features: int, auc_range: tuple[float, float], rng: np.random.Generator
) -> GaussianPairs:
    """Pairs that stop where their AUC enters the range: most lie near .76, far apart where features are many."""
    pairs = [_walk_pair(n_features, auc_range, rng) for _ in range(n_clusters)]
    mean, scale = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    _jump_apart(mean, scale, rng)
    return GaussianPairs(
        mean, scale, np.array([pair_auc(*pair, rng=rng) for pair in zip(mean, scale, strict=True)])
    )


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
        return simulated_auc(*ratios_along(_factors(cov), mean[1] - mean[0], z)(1.0))

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
            target_mean, target_cov = mean[c] + random_unit(d, rng), cov[c]
        elif rng.random() < 0.5:
            vectors = random_shape(d, rng)[1]
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
        "(0.75, 0.95)."
    )


def _factors(cov: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)


def _jump_apart(mean: FloatArray, scale: FloatArray, rng: np.random.Generator) -> None:
    """Move pairs, in place, by random jumps until balls that hold 95 % of each are disjoint."""
    draws = draw_rows(mean, scale, rng)
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
