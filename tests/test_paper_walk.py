"""The generator behind the article's figures: pairs walk until their AUC enters the range, and jump until they are apart."""

import numpy as np
import pytest

from groupshift.datasets import make_grouped_mixture
from paper.walk import walked_pairs

SIZES = {"labeled_per_group": (100, 10), "unlabeled_per_group": (400, 40)}


def walk(d, K, seed, auc_range=(0.75, 0.95)):
    rng = np.random.default_rng(seed)
    return walked_pairs(n_clusters=K, n_features=d, auc_range=auc_range, rng=rng)


@pytest.mark.parametrize("d", [1, 4, 16])
def test_pairs_that_walk_stop_soon_after_they_have_entered_the_range(d):
    draws = [walk(d, 8, seed).auc for seed in range(3)]
    auc = np.concatenate(draws)
    # Simulated AUCs have a standard error of .003.
    assert ((auc > 0.74) & (auc < 0.96)).all()
    # One step of length 1 from equal means makes Phi(1 / sqrt(2)) = .760, which is where most pairs stay.
    assert abs(np.median(auc) - 0.760) < 0.01


@pytest.mark.parametrize("d", [1, 4, 64])
def test_balls_of_pairs_that_walk_are_disjoint(d):
    pairs = walk(d, 4, 1)
    sample = make_grouped_mixture(
        n_features=d, n_clusters=4, n_groups=10, pairs=pairs, random_state=1, **SIZES
    )
    centre = pairs.mean.mean(axis=1)
    away = [np.linalg.norm(sample.X[sample.cluster == k] - centre[k], axis=1) for k in range(4)]
    # The share of positives is drawn, so that a ball holds 95 % of a cluster's rows only about.
    radius = [np.quantile(distance, 0.9) for distance in away]
    for i in range(4):
        for j in range(i):
            assert np.linalg.norm(centre[i] - centre[j]) > radius[i] + radius[j]


def test_a_walk_that_never_enters_its_range_says_so(monkeypatch):
    monkeypatch.setattr("paper.walk.MAX_STEPS", 3)
    with pytest.raises(ValueError, match="random steps did not lead into it"):
        walk(1, 1, 0, auc_range=(0.98, 0.99))
