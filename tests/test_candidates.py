"""Candidate partitions: curved cells from a Gaussian mixture, and gates that never judge the rows they learned from."""

import numpy as np
import pytest
from groupshift._regions.candidates import (
    _found_again,
    _renumber,
    begin_learned,
    gate_starts,
    gated_partitions,
    given_partitions,
    group_folds,
    joined_partitions,
    kmeans_partitions,
    learned_partitions,
)
from groupshift._regions.gaussian_cells import gaussian_cells
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score

from groupshift import GroupShiftClassifier
from groupshift._regions import candidates
from groupshift._regions.space import Space
from groupshift._rows.rows import Rows
from groupshift._rows.seeds import Seeds


def by_gates(labeled, y, pooled, space, fold, seeds):
    return gated_partitions(labeled, y, gate_starts(labeled, y, pooled, space, fold, seeds), space, fold)


def rows_of(X, group=None, weight=None):
    n = len(X)
    group = np.zeros(n, np.int64) if group is None else group
    return Rows(X, X, group, np.ones(n) if weight is None else weight, np.arange(n, dtype=np.uint64))


def space_of(X):
    return Space().fit(X, np.ones(len(X)), np.zeros(X.shape[1], bool))


def guided(propose, labeled, y, pooled, space):
    """Candidates that labels guide, with folds of groups."""
    return propose(labeled, y, pooled, space, group_folds(labeled.group, 0), Seeds(0))


def ring_and_core(n=6000, seed=0):
    """A tight cloud inside a wide one: same centre, so that no straight line tells them apart."""
    rng = np.random.default_rng(seed)
    wide = rng.integers(0, 2, n)
    return rng.normal(size=(n, 3)) * np.where(wide, 4.0, 0.4)[:, None], wide


def grouped(cluster, seed=0, n_groups=12):
    """Labels whose share differs by group, oppositely in the two clusters."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, len(cluster))
    share = rng.uniform(0.05, 0.95, (n_groups, 2))
    return group, (rng.random(len(cluster)) < share[group, cluster]).astype(int)


def test_a_mixture_tells_a_tight_cloud_from_a_wide_one_around_it():
    X, wide = ring_and_core()
    group, y = grouped(wide)
    joined = {c.name: c for c in guided(joined_partitions, rows_of(X, group), y, rows_of(X), space_of(X))}
    assert adjusted_rand_score(wide, joined["Gaussian 2"].partition.predict(rows_of(X))) > 0.85


def test_components_equal_those_of_scikit_learn():
    from sklearn.mixture import GaussianMixture

    X, _ = ring_and_core(4000)
    space = space_of(X)
    cells = gaussian_cells(space, rows_of(X), Seeds(3))
    own = cells.cell(X)
    embedded = space.transform(X)
    drawn = (
        Seeds(3)
        .generator("Gaussian rows")
        .choice(len(X), len(X), replace=False, p=np.full(len(X), 1 / len(X)))
    )
    n = len(cells.log_weight)
    seed = Seeds(3).named(f"Gaussian mixture {n}")
    mixture = GaussianMixture(n, max_iter=15, tol=1e-2, reg_covar=1e-3, random_state=seed)
    mixture.fit(embedded[drawn][len(X) // 4 :])
    np.testing.assert_array_equal(own, mixture.predict(embedded))


def test_rows_of_weight_zero_are_not_part_of_the_mixture():
    X, _ = ring_and_core(4000)
    far = X + 1000
    space = space_of(np.concatenate([X, far]))
    weight = np.repeat([1.0, 0.0], 4000)
    cells = gaussian_cells(space, rows_of(np.concatenate([X, far]), weight=weight), Seeds(0))
    near = gaussian_cells(space, rows_of(X), Seeds(0))
    assert cells is not None
    assert len(np.unique(cells.cell(X))) >= min(4, len(np.unique(near.cell(X))))


def test_many_features_are_seen_through_their_leading_directions():
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, 8000)
    X = rng.normal(size=(8000, 100))
    X[:, :20] += 3.0 * side[:, None]
    group, y = grouped(side)
    joined = {c.name: c for c in guided(joined_partitions, rows_of(X, group), y, rows_of(X), space_of(X))}
    assert adjusted_rand_score(side, joined["Gaussian 2"].partition.predict(rows_of(X))) > 0.9


def test_missing_values_lie_at_the_mean():
    X, _ = ring_and_core(3000)
    cells = gaussian_cells(space_of(X), rows_of(X), Seeds(0))
    holes = X.copy()
    holes[0, 1] = np.nan
    filled = X.copy()
    filled[0, 1] = space_of(X).mean_[1]
    np.testing.assert_array_equal(cells.cell(holes), cells.cell(filled))


def test_too_few_rows_make_no_mixture():
    X = np.random.default_rng(0).normal(size=(60, 5))
    assert gaussian_cells(space_of(X), rows_of(X), Seeds(0)) is None


def test_a_row_is_seen_where_labels_of_its_own_group_had_no_say():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    group, y = grouped((X[:, 0] > 0).astype(int))
    rows, own = rows_of(X, group), group_folds(group, 0) == 1

    def gated(labels):
        found = guided(by_gates, rows, labels, rows, space_of(X))
        return next(c for c in found if c.name == "gated 2")

    one, other = gated(y), gated(np.where(own, rng.permutation(y), y))
    same = (one.cluster == other.cluster)[own].mean()
    # Clusters are numbered after the partition of all groups, which may turn round; their boundary may not move.
    assert max(same, 1 - same) == 1.0
    assert (one.partition.predict(rows) == other.partition.predict(rows)).mean() not in (0.0, 1.0)


def test_clusters_that_are_not_found_again_are_no_candidates():
    """Two clusters are there; to ask for more splits them in a way that depends on the groups at hand."""
    X, wide = ring_and_core()
    group, y = grouped(wide)
    found = guided(joined_partitions, rows_of(X, group), y, rows_of(X), space_of(X))
    # No label has joined the four components themselves, so that these are found again whatever the groups.
    assert {"Gaussian 2", "Gaussian 4"} <= {c.name for c in found}
    assert all(_found_again(c.partition.predict(rows_of(X)), c.cluster) for c in found)


def test_labels_that_follow_no_cluster_leave_hardly_a_gate_standing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    group, y = rng.integers(0, 10, 3000), rng.integers(0, 2, 3000)
    assert len(guided(by_gates, rows_of(X, group), y, rows_of(X), space_of(X))) <= 1


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_few_groups_are_enough_to_propose(n_groups):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    group = np.arange(900) % n_groups
    y = (rng.random(900) < 0.5).astype(int)
    found = proposed(X, group, y)
    assert found[0].name == "one cluster"
    assert all(len(c.cluster) == 900 and c.cluster.max() < c.n_clusters for c in found)


def proposed(X, group, y, weight=None):
    rows = rows_of(X, group, weight)
    space = Space().fit(X, rows.weight, np.zeros(X.shape[1], bool))
    fixed = given_partitions(rows, rows) + kmeans_partitions(rows, rows, space, Seeds(0))
    with begin_learned(rows, y, rows, space, seeds=Seeds(0)) as begun:
        return fixed + learned_partitions(rows, y, space, begun)


def test_gates_are_not_proposed_where_their_sample_misses_all_groups_of_the_other_folds(monkeypatch):
    """Gates look at a sample of the labelled rows, and a group of one row need not be in it."""
    monkeypatch.setattr(candidates, "MAX_GATE_ROWS", 300)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 2)), rng.integers(0, 2, 1200)
    for lonely in range(0, 1200, 200):
        group = (np.arange(1200) == lonely).astype(int)
        assert proposed(X, group, y)[0].name == "one cluster"


def test_a_fit_with_nearly_all_labels_in_one_group_does_not_fail(monkeypatch):
    monkeypatch.setattr(candidates, "MAX_GATE_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 2))
    truth = (rng.random(2400) < 0.5 + 0.4 * np.tanh(X[:, 0])).astype(int)
    groups = np.where((np.arange(2400) == 700) | (np.arange(2400) >= 2000), "small", "large")
    y = np.where(np.arange(2400) < 1200, truth, -1)
    model = GroupShiftClassifier(LogisticRegression(), refine=0, random_state=0).fit(X, y, groups=groups)
    assert np.isfinite(model.predict_proba(X, groups)).all()


# Groups and weights of 900 labelled rows.
ROW = np.arange(900)
ONE_SIDED = {
    "one group": (np.zeros(900, int), None),
    "one group that is not the first": (np.full(900, 5), None),
    "all weight in one group": (ROW % 5, 1.0 * (ROW % 5 == 2)),
    "all weight in one fold": (ROW % 5, 1.0 * (group_folds(ROW % 5, Seeds(0).named("group folds")) == 1)),
    "all weight in one row": (ROW % 5, 1.0 * (ROW == 7)),
}


@pytest.mark.parametrize(("group", "weight"), ONE_SIDED.values(), ids=ONE_SIDED)
def test_labels_guide_no_candidate_where_no_other_fold_has_any_to_learn_from(group, weight):
    rng = np.random.default_rng(0)
    found = proposed(rng.normal(size=(900, 3)), group, rng.integers(0, 2, 900), weight)
    assert {c.name.split()[0] for c in found} <= {"one", "k-means"}
    assert all(c.cluster.max() < c.n_clusters for c in found)


@pytest.mark.parametrize("n", [900, 3000])
@pytest.mark.parametrize("value", [1.0, np.nan])
def test_features_that_never_vary_leave_the_whole_space(n, value):
    found = proposed(np.full((n, 3), value), np.arange(n) % 5, np.arange(n) // 5 % 2)
    assert [c.name for c in found] == ["one cluster"]


@pytest.mark.parametrize("n", [900, 3000])
def test_no_candidate_has_more_clusters_by_kmeans_than_there_are_distinct_rows(n):
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], n // 2, axis=0)
    found = proposed(X, np.arange(n) % 5, np.arange(n) // 5 % 2)
    assert {c.n_clusters for c in found if c.name.startswith("k-means")} == {2}


class Side:
    """A clusterer of the user's; with a large `edge` all rows are on one side."""

    def __init__(self, edge):
        self.edge = edge

    def predict(self, X):
        return np.where(X[:, 0] > self.edge, "right", "left")


def test_candidates_come_in_order_and_a_clusterer_that_finds_one_cluster_is_none():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    rows = rows_of(X, np.arange(100) % 5)
    given = [Side(0.0), Side(9.0)]
    found = given_partitions(rows, rows, given) + kmeans_partitions(rows, rows, space_of(X), Seeds(0))
    names = ["one cluster", "given 1", *(f"k-means {k}" for k in (2, 3, 4, 6, 8))]
    assert [c.name for c in found] == names
    np.testing.assert_array_equal(found[1].cluster, X[:, 0] > 0)


def test_fewer_rows_than_four_cells_need_make_no_gates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(199, 2))
    rows = rows_of(X, np.arange(199) % 5)
    assert guided(by_gates, rows, rng.integers(0, 2, 199), rows, space_of(X)) == []


def test_a_cluster_is_found_again_if_three_quarters_of_it_and_its_image_are_common():
    cluster = np.repeat([0, 1], [3, 100])
    joined_by_one, joined_by_two = cluster.copy(), cluster.copy()
    joined_by_one[3] = joined_by_two[3] = joined_by_two[4] = 0
    assert _found_again(cluster, joined_by_one)  # 3 of 4
    assert not _found_again(cluster, joined_by_two)  # 3 of 5


def test_clusters_are_renumbered_after_those_that_they_share_most_rows_with():
    like = np.array([0, 0, 0, 1, 1, 2])
    np.testing.assert_array_equal(_renumber(np.array([2, 2, 2, 0, 0, 1]), like), [1, 2, 0])
    # A cluster too many takes the number of the one that it lies in.
    np.testing.assert_array_equal(_renumber(np.array([0, 0, 3, 1, 1, 2]), like), [0, 1, 2, 0])


def test_gates_that_a_finer_start_finds_once_more_are_learned_without_folds_once(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    side = (X[:, 0] > 0).astype(int)
    y = rng.integers(0, 2, 4000)
    # Two regions, each with its own mix of groups: starts of three clusters and more end in these two.
    group = np.where(rng.random(4000) < 0.9, 6 * side, 6 * (1 - side)) + rng.integers(0, 6, 4000)
    learned, plain = [], candidates.learn_gates
    monkeypatch.setattr(
        candidates, "learn_gates", lambda *args: learned.append(args[4].max() + 1) or plain(*args)
    )
    labeled = rows_of(X, group)
    found = guided(by_gates, labeled, y, labeled, space_of(X))
    assert [c.n_clusters for c in found].count(2) <= 1
    n_levels = len(candidates.JOINED_CLUSTERS)
    assert len(learned) < n_levels * (1 + candidates.GROUP_FOLDS)
