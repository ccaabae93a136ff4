"""Cells that a tree cuts: found where shifts of groups change, not where they do not, and compared on rows they never saw."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import adjusted_rand_score

from groupshift import GroupShiftClassifier, load, save
from groupshift._data.keys import Seeds
from groupshift._data.rows import Rows
from groupshift._files.sound import UnsoundError, check_sound, without_unread
from groupshift._partitions.choice import Labeled, choose_partition, margin
from groupshift._partitions.cuts import FEWEST_ROWS, CutPartition, grow_cuts


def rows_of(X, group=None):
    n = len(X)
    group = np.zeros(n, np.int64) if group is None else group
    return Rows(X, X, group, np.ones(n), np.arange(n, dtype=np.uint64))


def grown(X, group, y, score=None, is_category=None, most=8):
    score = np.zeros((len(y), 1)) if score is None else score
    is_category = np.zeros(X.shape[1], bool) if is_category is None else np.array(is_category)
    return grow_cuts(rows_of(X), y, score, group, np.ones(len(y)), is_category=is_category, most=most)


def labels(cell, seed=0, n_groups=20, spread=1.5):
    """Each group has a share of its own in each cell."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, len(cell))
    shift = rng.normal(0, spread, (n_groups, cell.max() + 1))
    return group, (rng.random(len(cell)) < expit(shift[group, cell])).astype(int)


def test_a_rule_across_three_columns_is_found():
    X = np.random.default_rng(0).normal(size=(8000, 6))
    rule = np.where(X[:, 1] > 0, np.where(X[:, 4] > 0, 0, 1), np.where(X[:, 0] > 0, 2, 3))
    group, y = labels(rule)
    found = grown(X, group, y)
    assert set(found.feature[:3]) == {0, 1, 4}
    # The middle of the rows is one of the fifteen quantiles that are tried.
    assert adjusted_rand_score(rule, found.first(4).predict(rows_of(X))) > 0.9


def test_categories_are_cut_in_the_order_of_their_scores():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 9, 6000), rng.normal(size=6000)]).astype(float)
    high = np.isin(X[:, 0], [1, 4, 8])
    group, y = labels(high.astype(int))
    score = (high + 0.1 * rng.normal(size=6000))[:, None]
    found = grown(X, group, y, score, [True, False])
    assert found.feature[0] == 0
    assert adjusted_rand_score(high, found.first(2).predict(rows_of(X))) == 1


@pytest.mark.parametrize("seed", range(5))
def test_where_groups_differ_alike_everywhere_cuts_gain_next_to_nothing(seed):
    """A number for each group is all there is to say: cuts by chance do not pass the comparison on other rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5000, 8))
    group, y = labels(np.zeros(5000, np.int64), seed)
    assert chosen(X, group, y, rng).candidate.partition.n_clusters == 1


def test_a_column_that_tells_the_group_is_not_cut_first():
    """Both sides of such a cut say together what their union said."""
    rng = np.random.default_rng(0)
    group, y = labels(np.zeros(4000, np.int64))
    X = np.column_stack([group, rng.normal(size=4000)]).astype(float)
    found = grown(X, group, y)
    assert 0 not in found.feature.tolist()


@given(st.integers(0, 10**6))
def test_cells_are_those_of_the_rows_they_were_learned_from(seed):
    """Every row lies in one cell, prefixes are coarser, and each cell has the rows that were asked for."""
    rng = np.random.default_rng(seed)
    n = 600
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 30, n)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    group, y = labels(rng.integers(0, 3, n), seed, n_groups=6)
    found = grown(X, group, y, is_category=[False, False, True])
    assert 1 <= found.n_clusters <= 8
    cell = found.predict(rows_of(X))
    assert np.bincount(cell, minlength=found.n_clusters).min() >= FEWEST_ROWS
    for k in range(1, found.n_clusters):
        coarser = found.first(k).predict(rows_of(X))
        assert len(np.unique(cell * 100 + coarser)) == found.n_clusters


def test_classes_that_change_places_are_cut_alike():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(3000, 2)), rng.integers(0, 7, 3000)]).astype(float)
    group, y = labels((X[:, 0] > 0).astype(int) + 2 * np.isin(X[:, 2], [0, 5]))
    score = 0.3 * X[:, 1:2]
    cells = [
        grown(X, group, *given, [False, False, True]).predict(rows_of(X))
        for given in ((y, score), (1 - y, -score))
    ]
    np.testing.assert_array_equal(*cells)


def test_missing_numbers_lie_below_all_others_and_unknown_categories_with_missing_ones():
    rank = np.array([[-1.0, -1.0, -1.0], [2.0, 0.0, 1.0]])
    partition = CutPartition(
        np.array([0, 0]), np.array([0, 1]), np.array([1.5, 0.5]), rank, np.array([False, True])
    )
    X = np.array([[1.0, 0.0], [2.0, 0.0], [np.nan, 2.0], [np.nan, np.nan], [0.0, 500.0], [0.0, 1.0]])
    assert partition.predict(rows_of(X)).tolist() == [2, 1, 2, 0, 0, 0]


def chosen(X, group, y, rng):
    """Among one cluster and trees, by held-out labels; scores see two columns that have nothing to do with cells."""
    n = len(y)
    seen = rng.normal(size=(n, 1)) + 1.5 * (y - 0.5)[:, None]
    score = 1.5 * seen
    labeled = Labeled(rows_of(X, group), y, score, rng.integers(0, 5, n), 1.0)
    return choose_partition(labeled, [], np.zeros(X.shape[1], bool), Seeds(0))


def test_generated_cells_are_chosen_and_their_gain_is_more_than_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    rule = (X[:, 2] > 0).astype(np.int64)
    group, y = labels(rule, n_groups=30)
    found = chosen(X, group, y, rng)
    best = found.table["chosen"]
    assert found.candidate.name.startswith("cuts")
    assert adjusted_rand_score(rule, found.candidate.cluster) > 0.7
    assert found.table["gain"][best] > margin(30) * found.table["gain_error"][best]
    # One cluster is a candidate like any other, and stands first.
    assert found.table["gain"][0] == 0


@pytest.fixture(scope="module")
def ruled():
    """Labelled and population rows whose shares follow a rule of two columns, each sample and group its own."""
    rng = np.random.default_rng(0)
    n_groups, n = 25, 12_000
    X = rng.normal(size=(n, 6))
    group = rng.integers(0, n_groups, n)
    is_labeled = rng.random(n) < 0.4
    cell = (X[:, 0] > 0) + 2 * (X[:, 1] > 0)
    share = rng.uniform(0.02, 0.98, (2, n_groups, 4))
    truth = (rng.random(n) < share[is_labeled.astype(int), group, cell]).astype(int)
    # Positives look alike in all groups and cells.
    X[:, 2:] += 0.5 * truth[:, None]
    return X, np.where(is_labeled, truth, -1), group, truth, cell


@pytest.fixture(scope="module")
def fitted(ruled):
    X, y, group, _, _ = ruled
    return GroupShiftClassifier(random_state=0, n_jobs=1).fit(X, y, groups=group)


def test_shares_that_follow_a_rule_are_predicted(ruled, fitted):
    X, y, group, truth, cell = ruled
    hidden = y < 0
    assert "cuts" in fitted.candidates_["candidate"][fitted.candidates_["chosen"]][0]
    found = fitted.predict_details(X, group)["cluster"]
    assert adjusted_rand_score(cell, found) > 0.7
    p = fitted.predict_proba(X[hidden], group[hidden])[:, 1]
    without = GroupShiftClassifier(partition=1, random_state=0, n_jobs=1).fit(X, y, groups=group)
    plain = without.predict_proba(X[hidden], group[hidden])[:, 1]
    assert np.mean((p - truth[hidden]) ** 2) < np.mean((plain - truth[hidden]) ** 2) - 0.02


def test_cuts_are_kept_in_a_model_file(ruled, fitted, tmp_path):
    pytest.importorskip("skops")
    X, _, group, _, _ = ruled
    save(fitted, tmp_path / "cut.gshift")
    again = load(tmp_path / "cut.gshift")
    np.testing.assert_array_equal(again.predict_proba(X, group), fitted.predict_proba(X, group))


@pytest.mark.parametrize(
    ("name", "forged"),
    [("feature", 999), ("leaf", 15), ("edge", np.nan), ("is_category", None), ("rank", None)],
)
def test_cuts_that_no_fit_makes_are_refused(fitted, name, forged):
    model = deepcopy(fitted)
    without_unread(model)
    partition = model.learned_.posterior.partition
    values = getattr(partition, name).copy()
    if forged is None:
        values = values[:3]
    else:
        values[0] = forged
    object.__setattr__(partition, name, values)
    with pytest.raises(UnsoundError, match=r"cuts|missing or infinite"):
        check_sound(model)
