"""Features that tell the group are left out where hidden groups are predicted better without them, and only there."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.tree import DecisionTreeClassifier

from groupshift import GroupShiftClassifier, load, save

pd = pytest.importorskip("pandas")


def schools(n_groups=30, n_rows=50, seed=0, by_place=False):
    """Half of the schools have labels. A school's place tells which it is, and nothing of its level, or all."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_rows)
    place = rng.permutation(n_groups).astype(float)
    level = 0.08 * (place - n_groups / 2) if by_place else rng.normal(0, 1.2, n_groups)
    x = rng.normal(size=(len(group), 3))
    truth = (rng.random(len(group)) < expit(x[:, 0] - 0.5 * x[:, 1] + level[group])).astype(int)
    X = pd.DataFrame(x, columns=["age", "size", "noise"]).assign(
        place=place[group] + 0.3 * rng.uniform(size=len(group))
    )
    y = np.where(rng.permutation(n_groups)[group] < n_groups // 2, truth, -1)
    return X, y, np.array([f"school {g}" for g in range(n_groups)])[group], truth


def fitted(X, y, groups):
    return GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def without():
    data = schools()
    return data, fitted(*data[:3])


def test_a_place_that_says_nothing_of_other_groups_is_left_out(without):
    (X, y, groups, _), model = without
    assert model.left_out_ == ("place",)
    assert any("does not see 'place'" in note for note in model.notes_)
    assert "does not see these features" in " ".join(model.diagnose().caution)
    # What is left out changes no prediction.
    hidden = np.flatnonzero(y < 0)
    moved = X.iloc[hidden].assign(place=-1.0)
    p = model.predict_proba(X.iloc[hidden], groups[hidden])[:, 1]
    np.testing.assert_array_equal(model.predict_proba(moved, groups[hidden])[:, 1], p)


def test_a_place_that_foretells_the_level_of_other_groups_is_kept():
    X, y, groups, _ = schools(by_place=True)
    model = fitted(X, y, groups)
    assert model.left_out_ == ()
    assert any("sees 'place', though this tells the group" in note for note in model.notes_)
    assert "--exclude place" in " ".join(model.diagnose().caution)


def test_nothing_is_tried_where_no_feature_tells_the_group_or_all_groups_have_labels():
    X, y, groups, truth = schools(n_groups=20, n_rows=30)
    for data in (
        (X.drop(columns="place"), y),
        (X, np.where(np.random.default_rng(0).random(len(y)) < 0.5, truth, -1)),
    ):
        model = fitted(*data, groups)
        assert model.left_out_ == ()
        assert not any("tells the group" in note for note in model.notes_)


def test_a_classifier_of_the_user_sees_what_it_was_given():
    X, y, groups, _ = schools()
    model = GroupShiftClassifier(DecisionTreeClassifier(max_depth=3), 1, random_state=0)
    assert model.fit(X, y, groups=groups).left_out_ == ()


def test_a_model_file_keeps_what_was_left_out(tmp_path, without):
    pytest.importorskip("skops")
    (X, y, groups, _), model = without
    save(model, tmp_path / "model.gshift")
    again = load(tmp_path / "model.gshift")
    assert again.left_out_ == model.left_out_ == ("place",)
    hidden = np.flatnonzero(y < 0)
    np.testing.assert_array_equal(
        again.predict_proba(X.iloc[hidden], groups[hidden]),
        model.predict_proba(X.iloc[hidden], groups[hidden]),
    )


def volunteers(seed, n_groups=30, n_rows=300):
    """Every group has labels, positives and negatives of each at rates of their own; `place` tells the group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_rows)
    truth = (rng.random(len(group)) < 0.3).astype(int)
    X = pd.DataFrame({"place": group * 1.0, "x": 0.5 * truth + rng.normal(size=len(group))})
    known = rng.random(len(group)) < expit(rng.normal(size=(n_groups, 2))[group, truth] - 1.4)
    return X, np.where(known, truth, -1), group, truth


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_that_a_classifier_has_by_heart_confirm_no_shift(seed):
    X, y, group, truth = volunteers(seed)
    model, hidden = fitted(X, y, group), y < 0
    assert model.estimate_.use.labels == model.estimate_.use.scores == 0
    blind = GroupShiftClassifier(partition=1, shares=None, shrinkage="none", random_state=0)
    p, plain = (
        m.predict_proba(X[hidden], group[hidden])[:, 1] for m in (model, blind.fit(X, y, groups=group))
    )

    def loss(p):
        return -np.mean(np.where(truth[hidden] == 1, np.log(p), np.log(1 - p)))

    assert loss(p) < loss(plain) + 0.002


def test_who_says_that_labels_are_random_has_them_used_though_a_feature_tells_the_group():
    X, y, group, _ = volunteers(0)
    told = GroupShiftClassifier(partition=1, random_state=0, selection="random")
    assert told.fit(X, y, groups=group).estimate_.use.labels > 0.05
