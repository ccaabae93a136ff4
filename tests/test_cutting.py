"""Cells that a tree cuts: found where shares change, not where they do not, and judged by groups that had no part in them."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from groupshift._fit.judge import Judged
from groupshift._fit.trials import LabeledRows, try_held_out, try_partition
from groupshift._regions import cut_candidates, cutting
from groupshift._regions.candidates import Candidate, group_folds
from groupshift._regions.cut_candidates import ShownLabels, cut_partitions, with_held_out
from groupshift._regions.cutting import MAX_ONE_HOT, CutPartition, CutTable, Unexplained, largest_groups
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import adjusted_rand_score

from groupshift import GroupShiftClassifier, load, save
from groupshift._data.encoder import Space
from groupshift._data.keys import Seeds
from groupshift._data.rows import Rows
from groupshift._math.odds import log_loss_rows
from groupshift._partitions.partitions import WholeSpace


def rows_of(X, group=None):
    n = len(X)
    group = np.zeros(n, np.int64) if group is None else group
    return Rows(X, X, group, np.ones(n), np.arange(n, dtype=np.uint64))


def unexplained(X, group, y, p=0.5):
    p = np.full(len(y), p)
    return Unexplained(X, group, y, y - p, p * (1 - p))


def cut_cells(seen, is_category, min_class_rows):
    return cutting.cut_cells(
        CutTable.of(seen, is_category), np.arange(len(seen.y)), min_class_rows=min_class_rows
    )


def labels(cell, seed=0, n_groups=20, spread=1.5):
    """Each group has a share of its own in each cell."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, len(cell))
    shift = rng.normal(0, spread, (n_groups, cell.max() + 1))
    return group, (rng.random(len(cell)) < expit(shift[group, cell])).astype(int)


def test_a_rule_across_three_columns_is_found():
    X = np.random.default_rng(0).normal(size=(8000, 6))
    rule = np.where(X[:, 1] > 0.3, np.where(X[:, 4] > -0.2, 0, 1), np.where(X[:, 0] > 0, 2, 3))
    group, y = labels(rule)
    found, n_supported = cut_cells(unexplained(X, group, y), np.zeros(6, bool), min_class_rows=20)
    assert n_supported == 4
    assert set(found.column[:3]) == {0, 1, 4}
    assert adjusted_rand_score(rule, found.first(4).predict(rows_of(X))) > 0.9


def test_columns_are_looked_at_in_blocks(monkeypatch):
    """Of many columns and groups no more sums are held at once than fit: the cuts are the same."""
    X = np.random.default_rng(0).normal(size=(2000, 7))
    group, y = labels((X[:, 5] > 0).astype(np.int64))
    found, _ = cut_cells(unexplained(X, group, y), np.zeros(7, bool), min_class_rows=20)
    monkeypatch.setattr(cutting, "MAX_SUMS", 20 * 32 * 2)
    again, _ = cut_cells(unexplained(X, group, y), np.zeros(7, bool), min_class_rows=20)
    np.testing.assert_array_equal(again.column, found.column)
    np.testing.assert_array_equal(again.threshold, found.threshold)


def test_categories_are_cut_by_how_their_groups_differ():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 9, 6000), rng.normal(size=6000)]).astype(float)
    rule = np.isin(X[:, 0], [1, 4, 8]).astype(int)
    group, y = labels(rule)
    found, n_supported = cut_cells(unexplained(X, group, y), np.array([True, False]), min_class_rows=20)
    assert n_supported == 2
    assert found.categories[0].any()
    assert adjusted_rand_score(rule, found.first(2).predict(rows_of(X))) == 1


@pytest.mark.parametrize("seed", range(5))
def test_without_a_rule_no_cut_is_supported(seed):
    """Groups differ, but alike everywhere: a number for each group is all there is to say."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5000, 8))
    group, y = labels(np.zeros(5000, np.int64), seed)
    _, n_supported = cut_cells(unexplained(X, group, y), np.zeros(8, bool), min_class_rows=20)
    assert n_supported == 1


def test_a_column_that_tells_the_group_is_not_cut():
    """Both sides of such a cut say together what their union said."""
    rng = np.random.default_rng(0)
    group, y = labels(np.zeros(4000, np.int64))
    X = np.column_stack([group, rng.normal(size=4000)]).astype(float)
    found, n_supported = cut_cells(unexplained(X, group, y), np.zeros(2, bool), min_class_rows=20)
    assert n_supported == 1
    assert 0 not in found.column.tolist()


@given(st.integers(0, 10**6))
def test_cells_are_those_of_the_rows_they_were_learned_from(seed):
    """Every row lies in one cell, prefixes are coarser, and each cell has the rows of each class that were asked for."""
    rng = np.random.default_rng(seed)
    n = 400
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 30, n)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    group, y = labels(rng.integers(0, 3, n), seed, n_groups=6)
    found, n_supported = cut_cells(
        unexplained(X, group, y), np.array([False, False, True]), min_class_rows=15
    )
    assert 1 <= n_supported <= found.n_clusters <= cutting.MAX_CUT_CELLS
    cell = found.predict(rows_of(X))
    for k in range(found.n_clusters):
        assert np.bincount(y[cell == k], minlength=2).min() >= 15
    for k in range(1, found.n_clusters):
        coarser = found.first(k).predict(rows_of(X))
        assert len(np.unique(cell * 100 + coarser)) == found.n_clusters


def test_classes_that_change_places_are_cut_alike():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(3000, 2)), rng.integers(0, 7, 3000)]).astype(float)
    group, y = labels((X[:, 0] > 0).astype(int) + 2 * np.isin(X[:, 2], [0, 5]))
    kinds = np.array([False, False, True])
    p = expit(0.3 * X[:, 1])

    def cells(y, p):
        seen = Unexplained(X, group, y, y - p, p * (1 - p))
        return cut_cells(seen, kinds, min_class_rows=20)[0].predict(rows_of(X))

    np.testing.assert_array_equal(cells(y, p), cells(1 - y, 1 - p))


def test_rows_without_a_number_stay_and_unknown_categories_are_like_missing_ones():
    categories = np.zeros((2, MAX_ONE_HOT + 1), bool)
    categories[1, MAX_ONE_HOT] = True
    partition = CutPartition(np.array([0, 0]), np.array([0, 1]), np.array([1.5, 0.0]), categories)
    X = np.array([[1.0, 0.0], [2.0, 0.0], [np.nan, 3.0], [np.nan, np.nan], [0.0, 500.0], [0.0, -1.0]])
    assert partition.predict(rows_of(X)).tolist() == [0, 1, 0, 2, 2, 2]


def test_many_groups_and_rows_are_thinned(monkeypatch):
    monkeypatch.setattr(cutting, "MAX_GROUPS", 3)
    monkeypatch.setattr(cutting, "MAX_ROWS", 50)
    group = np.repeat(np.arange(6), [5, 40, 10, 30, 20, 8])
    few = largest_groups(group, np.random.default_rng(0).permutation(len(group)))
    assert len(few) == 50
    assert set(group[few]) == {1, 3, 4}


def test_a_fold_that_thinning_leaves_empty_is_not_grown_without(monkeypatch):
    """Two large groups of one fold, and two others whose single rows are not among those that are looked at."""
    monkeypatch.setattr(cutting, "MAX_GROUPS", 2)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 5, 4002), rng.normal(size=4002)]).astype(float)
    first = np.flatnonzero(group_folds(np.arange(5), Seeds(0).named("group folds of cuts")) == 0)
    others = np.setdiff1d(np.arange(5), first)
    group = np.concatenate([np.repeat(first, 2000), others])[: len(X)]
    X, y = X[: len(group)], rng.integers(0, 2, len(group))
    space = Space().fit(X, np.ones(len(X)), np.array([True, False]))
    assert cut_partitions(rows_of(X, group), shown_labels(y), space, Seeds(0)) == []


def test_sums_are_those_of_the_groups_that_are_looked_at(monkeypatch):
    """However many others there are: sums of a hundred thousand groups would take minutes."""
    made = []

    def table_of(rows, is_category):
        made.append(CutTable.of(rows, is_category))
        return made[-1]

    monkeypatch.setattr(cutting, "MAX_GROUPS", 20)
    monkeypatch.setattr(cut_candidates, "CutTable", SimpleNamespace(of=table_of))
    X = np.random.default_rng(0).normal(size=(3000, 2))
    group, y = labels((X[:, 0] > 0).astype(np.int64))
    # Small groups among the large ones, and numbers far beyond them.
    group = np.where(np.arange(3000) % 3 == 0, 30 + np.arange(3000) * 30, group)
    assert proposed(X, group, y)
    assert made[0].n_groups == 20


def shown_labels(y, p=0.5):
    n = len(y)
    return ShownLabels(np.arange(n), y, np.full(n, p), np.ones(n), 20)


def proposed(X, group, y, is_promising=lambda cut: True):
    space = Space().fit(X, np.ones(len(X)), np.zeros(X.shape[1], bool))
    given = rows_of(X, group), shown_labels(y), space, Seeds(0)
    return with_held_out([cut for cut in cut_partitions(*given) if is_promising(cut)], *given)


def test_the_judge_sees_a_group_where_trees_put_it_that_never_saw_its_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    group, y = labels((X[:, 0] > 0).astype(np.int64))
    held_out = proposed(X, group, y)[0].held_out
    own = held_out.fold == 1
    again = proposed(X, group, np.where(own, rng.permutation(y), y))[0].held_out
    np.testing.assert_array_equal(again.clusters[1], held_out.clusters[1])
    assert (held_out.fold == group_folds(group, Seeds(0).named("group folds of cuts"))).all()


def test_each_cut_is_held_out_by_trees_as_fine_as_itself():
    X = np.random.default_rng(0).normal(size=(4000, 3))
    group, y = labels((X[:, 0] + X[:, 1] > 0).astype(np.int64))
    # A slanted border takes many cuts.
    both = proposed(X, group, y)
    assert [c.name.rpartition(" ")[0] for c in both] == ["cut", "finely cut"]
    assert both[0].n_clusters < both[1].n_clusters
    fine = proposed(X, group, y, lambda cut: cut.is_finest)
    assert [c.name for c in fine] == [both[1].name]
    np.testing.assert_array_equal(fine[0].held_out.clusters, both[1].held_out.clusters)
    assert proposed(X, group, y, lambda cut: False) == []


@pytest.fixture
def three_clusters():
    """Labelled rows whose groups have shares of their own in three clusters, and these."""
    rng = np.random.default_rng(0)
    n = 3000
    cluster, fold = rng.integers(0, 3, n), rng.integers(0, 2, n)
    group, y = labels(cluster, n_groups=15)
    rows = LabeledRows(rng.normal(size=n) + y, y, np.ones(n), group, fold)
    return rows, cluster


def test_held_out_partitions_that_are_one_are_that_one(three_clusters):
    rows, cluster = three_clusters
    one = try_partition(rows, cluster, 3)
    held_out = try_held_out(rows, rows.group % 3, [cluster, cluster, cluster], 3)
    np.testing.assert_allclose(held_out.loss, one.loss, atol=1e-12)
    assert held_out.trust.value == pytest.approx(one.trust.value)
    np.testing.assert_allclose(held_out.plain, one.plain)


def test_a_cut_partition_is_trusted_no_further_than_held_out_ones(three_clusters):
    rows, cluster = three_clusters
    rng = np.random.default_rng(1)
    used = try_partition(rows, cluster, 3)
    # Other partitions than the one that is used: their shifts are worth less.
    held_out = try_held_out(rows, rows.group % 3, [rng.permutation(cluster) for _ in range(3)], 3)
    assert held_out.trust.value < used.trust.value
    candidate = Candidate("cut 3", WholeSpace(), cluster)
    judged = Judged(None, candidate, used).trusted_by(held_out, rows)
    assert judged.trial.trust is held_out.trust
    shift = held_out.trust.without[rows.group] * used.shift
    np.testing.assert_allclose(judged.trial.loss, log_loss_rows(used.log_odds + shift, rows.y))
    # And no further than the labels of all groups allow.
    assert Judged(None, candidate, judged.trial).trusted_by(used, rows).trial.trust is held_out.trust


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
    # More processes would take longer to start than to work.
    return GroupShiftClassifier(random_state=0, n_jobs=1).fit(X, y, groups=group)


def test_shares_that_follow_a_rule_are_predicted(ruled, fitted):
    X, y, group, truth, cell = ruled
    hidden = y < 0
    assert "cut" in fitted.candidates_["name"][fitted.candidates_["chosen"]][0]
    found = fitted.predict_details(X, group)["cluster"]
    assert adjusted_rand_score(cell, found) > 0.8
    p = fitted.predict_proba(X[hidden], group[hidden])[:, 1]
    without = GroupShiftClassifier(partition=1, random_state=0, n_jobs=1).fit(X, y, groups=group)
    plain = without.predict_proba(X[hidden], group[hidden])[:, 1]
    assert np.mean((p - truth[hidden]) ** 2) < np.mean((plain - truth[hidden]) ** 2) - 0.02


def test_learning_from_unlabelled_rows_raises_no_trust_of_a_cut_partition(ruled):
    X, y, group, _, _ = ruled
    settings = {"shrinkage": "none", "n_jobs": 1}
    model = GroupShiftClassifier(random_state=0, **settings).fit(X, y, groups=group)
    assert model.notes_[-1] == "Round 1 of learning from unlabelled rows was kept."
    chosen = model.candidates_["chosen"]
    assert "cut" in model.candidates_["name"][chosen][0]
    # That of the trees that did not see the judged groups, and the classifier of the round is trusted no further.
    assert model.trust_ <= model.candidates_["trust"][chosen][0]


def test_cuts_are_kept_in_a_model_file(ruled, fitted, tmp_path):
    X, _, group, _, _ = ruled
    save(fitted, tmp_path / "cut.gshift")
    again = load(tmp_path / "cut.gshift")
    np.testing.assert_array_equal(again.predict_proba(X, group), fitted.predict_proba(X, group))


@pytest.mark.parametrize(
    ("name", "forged"), [("column", 999), ("cell", 15), ("threshold", np.nan), ("categories", None)]
)
def test_a_model_file_with_cuts_that_no_fit_makes_is_refused(fitted, tmp_path, name, forged):
    model = deepcopy(fitted)
    partition = model.learned_.posterior.partition
    values = getattr(partition, name).copy()
    if forged is None:
        values = values[:, :3]
    else:
        values[0] = forged
    setattr(partition, name, values)
    save(model, tmp_path / "forged.gshift")
    with pytest.raises(ValueError, match=r"cuts|missing or infinite"):
        load(tmp_path / "forged.gshift")
