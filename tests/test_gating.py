"""Gated partitions: labels and groups show regions where groups mix alike, where k-means is blind."""

import numpy as np
import pytest
from groupshift._regions.gating import composition_clusters, learn_gates
from sklearn.metrics import adjusted_rand_score


def mixed_groups(n=6000, *, n_groups=8, seed=0):
    """One round cloud; groups are composed one way left of a slanted line and another way right of it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    cluster = (X[:, 0] + 0.5 * X[:, 1] > 0.3).astype(int)
    y = (rng.random(n) < 0.5).astype(int)
    mix = rng.dirichlet(np.full(n_groups, 0.7), size=(2, 2))
    group = (rng.random(n)[:, None] > mix[cluster, y].cumsum(1)).sum(1).clip(0, n_groups - 1)
    return X, cluster, y, group


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gates_find_the_line_between_two_mixes_of_groups(seed):
    X, cluster, y, group = mixed_groups(seed=seed)
    start = (X[:, 0] > 0).astype(int)
    gates = learn_gates(X, group, y, np.ones(len(X)), start)
    found = gates.predict(X)
    assert adjusted_rand_score(cluster, found) > 0.85
    assert adjusted_rand_score(cluster, found) > adjusted_rand_score(cluster, start)


def test_group_names_do_not_matter_to_gates():
    X, _, y, group = mixed_groups(2000)
    start = (X[:, 0] > 0).astype(int)
    rename = np.random.default_rng(5).permutation(8)
    one = learn_gates(X, group, y, np.ones(2000), start)
    other = learn_gates(X, rename[group], y, np.ones(2000), start)
    np.testing.assert_allclose(other.slope, one.slope, atol=1e-5)


def test_each_round_of_gates_raises_the_likelihood_of_the_groups():
    X, _, y, group = mixed_groups(3000)
    start = (X[:, 0] > 0).astype(int)
    value = [
        learn_gates(X, group, y, np.ones(3000), start, rounds=r, tol=-1).log_likelihood for r in (1, 3, 6)
    ]
    assert value[0] < value[1] < value[2]


def test_gates_of_some_clusters_choose_among_these():
    X, _, y, group = mixed_groups(2000)
    gates = learn_gates(X, group, y, np.ones(2000), np.arange(2000) % 3)
    some = gates.take(np.array([0, 2]))
    full = X @ gates.slope + gates.intercept
    np.testing.assert_array_equal(some.predict(X), full[:, [0, 2]].argmax(1))


def test_the_scale_of_weights_does_not_matter_to_gates():
    X, _, y, group = mixed_groups(1500)
    start = (X[:, 0] > 0).astype(int)
    weight = np.random.default_rng(1).exponential(size=1500)
    one, other = (learn_gates(X, group, y, w, start) for w in (weight, 7 * weight))
    np.testing.assert_allclose(other.slope, one.slope, atol=1e-5)


def test_cells_move_to_the_cluster_of_their_mix():
    X, cluster, y, group = mixed_groups(20_000)
    cell = 10 * np.clip((X[:, 0] + 2.5) * 2, 0, 9).astype(int) + np.clip((X[:, 1] + 2.5) * 2, 0, 9).astype(
        int
    )
    cell = np.unique(cell, return_inverse=True)[1]
    n_cells = cell.max() + 1
    start = (np.bincount(cell, X[:, 0], n_cells) > 0).astype(int)
    moved = composition_clusters(cell, group, y, np.ones(len(y)), start)
    majority = np.bincount(cell, cluster, n_cells) / np.bincount(cell, minlength=n_cells) > 0.5
    rows = np.bincount(cell, minlength=n_cells) > 100
    assert adjusted_rand_score(majority[rows], moved[rows]) > adjusted_rand_score(majority[rows], start[rows])
    assert adjusted_rand_score(majority[rows], moved[rows]) > 0.8


def test_groups_that_mix_alike_everywhere_leave_nothing_to_find():
    rng = np.random.default_rng(0)
    cell, y, group = rng.integers(0, 20, 4000), rng.integers(0, 2, 4000), rng.integers(0, 5, 4000)
    moved = composition_clusters(cell, group, y, np.ones(4000), np.arange(20) % 2)
    assert len(moved) == 20
    assert set(moved) <= {0, 1}
