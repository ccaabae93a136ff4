"""The paper's synthetic data: what is drawn is what was promised, and the truth is true."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from groupshift.datasets import make_grouped_mixture
from groupshift.datasets.mixture import MAX_OVERLAP, pair_auc

SMALL = {"n_groups": 10, "labeled_per_group": (100, 10), "unlabeled_per_group": (400, 40)}


def test_same_seed_gives_the_same_bits():
    one, two = (make_grouped_mixture(n_features=3, n_clusters=2, random_state=7, **SMALL) for _ in range(2))
    for field in ("X", "y", "groups", "truth", "test", "cluster", "posterior", "shares", "labeled_shares"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))


def test_other_seeds_give_other_data():
    one, two = (make_grouped_mixture(n_features=1, n_clusters=1, random_state=s, **SMALL) for s in (0, 1))
    assert not np.array_equal(one.shares, two.shares)


@pytest.mark.parametrize(("d", "K"), [(1, 1), (1, 8), (4, 4), (16, 8), (64, 2)])
def test_auc_of_every_cluster_lies_in_the_range(d, K):
    pairs = make_grouped_mixture(n_features=d, n_clusters=K, random_state=d + K, **SMALL).partition
    fresh = np.random.default_rng(123)
    auc = np.array([pair_auc(m, s, rng=fresh) for m, s in zip(pairs.mean, pairs.scale, strict=True)])
    assert ((auc > 0.75) & (auc < 0.95)).all()
    np.testing.assert_allclose(auc, pairs.auc, atol=0.012)  # four standard errors of each simulation


@pytest.mark.parametrize("auc_range", [(0.55, 0.56), (0.8, 0.8), (0.98, 0.99)])
def test_other_auc_ranges_are_met(auc_range):
    pairs = make_grouped_mixture(
        n_features=2, n_clusters=2, auc_range=auc_range, random_state=0, **SMALL
    ).partition
    assert (pairs.auc > auc_range[0] - 0.01).all()
    assert (pairs.auc < auc_range[1] + 0.01).all()


def test_the_clusters_of_one_sample_can_be_those_of_another():
    one = make_grouped_mixture(n_features=2, n_clusters=3, random_state=0, **SMALL)
    two = make_grouped_mixture(n_features=2, n_clusters=3, pairs=one.partition, random_state=1, **SMALL)
    assert two.partition is one.partition
    assert np.mean(one.partition.predict(two.X) == two.cluster) > 0.95
    assert not np.array_equal(one.shares, two.shares)


@pytest.mark.parametrize(("d", "K"), [(1, 8), (2, 8), (16, 8)])
def test_clusters_do_not_overlap_and_the_partition_finds_them(d, K):
    sample = make_grouped_mixture(n_features=d, n_clusters=K, random_state=3, **SMALL)
    wrong = np.mean(sample.partition.predict(sample.X) != sample.cluster)
    assert wrong <= 2 * MAX_OVERLAP  # rows are not equally spread over clusters


def test_setting_1_shares_are_equal_over_groups_and_samples():
    sample = make_grouped_mixture(n_features=2, n_clusters=3, setting=1, random_state=0, **SMALL)
    np.testing.assert_array_equal(sample.shares, np.tile(sample.shares[0], (10, 1)))
    np.testing.assert_array_equal(sample.shares, sample.labeled_shares)
    np.testing.assert_array_equal(sample.cluster_weights, sample.labeled_cluster_weights)


def test_setting_2_shares_differ_between_groups_and_samples():
    sample = make_grouped_mixture(n_features=2, n_clusters=3, setting=2, random_state=0, **SMALL)
    assert len(np.unique(sample.shares)) == sample.shares.size
    assert not np.isin(sample.shares, sample.labeled_shares).any()


def test_rounded_counts_follow_the_shares_to_the_row():
    sample = make_grouped_mixture(n_features=2, n_clusters=3, random_state=0, **SMALL)
    rows = ~sample.labeled
    for g, name in enumerate(sample.group_names):
        inside = rows & (sample.groups == name)
        size = inside.sum()
        for k in range(3):
            expected = size * sample.cluster_weights[g, k] * sample.shares[g, k]
            found = np.sum(inside & (sample.cluster == k) & (sample.truth == 1))
            # Half a row from rounding, and the size is known only up to its own rounding.
            assert abs(found - expected) <= 0.5 + 3 * sample.cluster_weights[g, k]


def test_binomial_counts_vary_around_the_shares_as_a_binomial_does():
    sample = make_grouped_mixture(
        n_features=1, n_clusters=1, n_groups=400, labeled_per_group=(2, 0), unlabeled_per_group=(50, 0),
        counts="binomial", random_state=0,
    )  # fmt: skip
    rows = ~sample.labeled
    group = np.searchsorted(sample.group_names, sample.groups[rows])
    found = np.bincount(group, weights=sample.truth[rows]) / np.bincount(group)
    alpha = sample.shares[:, 0]
    z = (found - alpha) / np.sqrt(alpha * (1 - alpha) / 50)
    assert abs(np.mean(z**2) - 1) < 0.3  # 400 groups: standard error 0.07, more with skew near 0 and 1


def test_bayes_posterior_is_calibrated_on_the_truth():
    sample = make_grouped_mixture(n_features=4, n_clusters=4, n_groups=30, labeled_per_group=(300, 0),
                                  unlabeled_per_group=(1000, 0), random_state=1)  # fmt: skip
    for part in (sample.labeled, ~sample.labeled):
        p, y = sample.posterior[part], sample.truth[part]
        tenth = np.digitize(p, np.linspace(0.1, 0.9, 9))
        for t in range(10):
            n = np.sum(tenth == t)
            error = abs(np.mean((y - p)[tenth == t]))
            assert error < 4 * np.sqrt(0.25 / n)  # four standard errors at most


def test_no_score_beats_the_bayes_posterior():
    sample = make_grouped_mixture(n_features=2, n_clusters=3, random_state=2, **SMALL)
    part = ~sample.labeled
    group = np.searchsorted(sample.group_names, sample.groups)
    blind = sample.partition.posterior(
        sample.X, cells=np.full((1, 3, 2), 1 / 6), cell_of_row=np.zeros(len(sample), int)
    )
    best = roc_auc_score(sample.truth[part], sample.posterior[part])
    for rival in (blind, sample.shares[group, sample.cluster], sample.X[:, 0], -sample.X[:, 0]):
        assert best > roc_auc_score(sample.truth[part], rival[part])


def test_test_rows_are_a_fifth_of_the_unlabelled():
    sample = make_grouped_mixture(n_features=1, n_clusters=2, random_state=0, **SMALL)
    assert sample.test.sum() == round(0.2 * np.sum(~sample.labeled))
    assert not np.any(sample.test & sample.labeled)
    assert len(sample.training().y) + len(sample.testing().truth) == len(sample)


def test_group_sizes_follow_their_law():
    sample = make_grouped_mixture(n_features=1, n_clusters=1, n_groups=300, labeled_per_group=(50, 5),
                                  unlabeled_per_group=(100, 10), random_state=0)  # fmt: skip
    _, size = np.unique(sample.groups[~sample.labeled], return_counts=True)
    assert abs(size.mean() - 100) < 3  # five standard errors
    assert 8 < size.std() < 12


def test_float32_halves_the_memory_and_keeps_the_posterior():
    full, half = (
        make_grouped_mixture(n_features=4, n_clusters=2, random_state=0, dtype=t, **SMALL)
        for t in (np.float64, np.float32)
    )
    assert half.X.nbytes * 2 == full.X.nbytes
    np.testing.assert_allclose(half.posterior, full.posterior, atol=1e-4)  # single precision in x


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"setting": 3}, "setting is 3"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"auc_range": (0.95, 0.75)}, "auc_range"),
        ({"counts": "poisson"}, "counts is 'poisson'"),
        ({"test_size": 1.0}, "test_size is 1.0"),
    ],
)
def test_errors_name_what_was_found(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_grouped_mixture(**{"n_features": 1, "n_clusters": 1, **SMALL, **wrong})
