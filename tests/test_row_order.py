"""The order of rows says nothing: a shuffled table gives the same model, at any size, with copies and without."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._data.keys import content_keys, copies_expected, told_apart
from groupshift._data.rows import InMemory, Rows

# Sums over the same rows in another order differ in their last bits; no draw may depend on them.
ROUNDING = 1e-7


def table(n, n_groups, seed, *, coarse=False):
    """Rows of which half have labels; coarse features have many copies."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    truth[:4] = 0, 1, 0, 1
    X = truth[:, None] * np.array([1.0, 0.5, 0.0]) + rng.normal(size=(n, 3))
    X = X.round() if coarse else X
    y = np.where(rng.random(n) < 0.5, truth, -1)
    y[:4] = truth[:4]
    return X, y, rng.integers(0, n_groups, n)


def moved_by_shuffling(model, X, y, groups, seed, **more):
    order = np.random.default_rng(seed).permutation(len(y))
    before = model().fit(X, y, groups=groups, **more).predict_proba(X, groups)[:, 1]
    shuffled = {name: values[order] for name, values in more.items()}
    after = model().fit(X[order], y[order], groups=groups[order], **shuffled).predict_proba(X, groups)[:, 1]
    return np.abs(after - before).max()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("coarse", [False, True], ids=["each row once", "copies"])
@pytest.mark.parametrize(("n", "n_groups"), [(30, 3), (120, 6), (800, 8)])
def test_a_shuffled_table_gives_the_same_model(few_trees, n, n_groups, coarse):
    X, y, groups = table(n, n_groups, seed=n, coarse=coarse)
    assert moved_by_shuffling(lambda: GroupShiftClassifier(random_state=0), X, y, groups, 1) < ROUNDING


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(20, 80), st.booleans(), st.booleans())
def test_any_small_table_may_be_shuffled(seed, n, coarse, has_weights):
    X, y, groups = table(n, 3, seed, coarse=coarse)
    more = {"sample_weight": np.random.default_rng(seed).integers(1, 4, n)} if has_weights else {}

    def model():
        return GroupShiftClassifier(LogisticRegression(), 2, random_state=0)

    assert moved_by_shuffling(model, X, y, groups, seed + 1, **more) < ROUNDING


@pytest.mark.parametrize("method", ["published", "ids"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_settings_may_be_shuffled_too(method):
    X, y, groups = table(300, 4, seed=9)
    if method == "published":
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(20, max_depth=4)
        moved = moved_by_shuffling(
            lambda: GroupShiftClassifier.published(forest, random_state=0), X, y, groups, 2
        )
    else:
        ids = np.arange(300) // 3
        y = np.where(y >= 0, ids % 2, -1)
        moved = moved_by_shuffling(
            lambda: GroupShiftClassifier(LogisticRegression(), random_state=0),
            X,
            y,
            groups,
            2,
            example_ids=ids,
        )
    assert moved < ROUNDING


def rows_of(X, weight=None):
    n = len(X)
    return Rows(
        X, X, np.zeros(n, np.int64), np.ones(n) if weight is None else weight, np.arange(n, dtype=np.uint64)
    )


@pytest.mark.parametrize("coarse", [False, True])
def test_a_sample_of_a_population_is_the_same_rows_in_the_same_order(coarse):
    X = np.random.default_rng(0).normal(size=(4_000, 2))
    X = X.round(2) if coarse else X
    order = np.random.default_rng(1).permutation(4_000)
    one, other = (InMemory(rows_of(x), by_content=True).sample(1_000, 5) for x in (X, X[order]))
    np.testing.assert_array_equal(one.matrix, other.matrix)
    np.testing.assert_array_equal(one.key, other.key)
    assert 850 < len(one) < 1_150
    assert len(np.unique(one.key)) == len(one)


def test_copies_have_keys_of_their_own_that_their_order_does_not_change():
    matrix = np.array([[1.0], [2.0], [1.0], [1.0]])
    keys = told_apart(content_keys(matrix), np.array([1, 0, 0, 2]))
    assert len(np.unique(keys)) == 4
    order = np.array([3, 2, 1, 0])
    again = told_apart(content_keys(matrix[order]), np.array([1, 0, 0, 2])[order])
    np.testing.assert_array_equal(again, keys[order])
    assert keys[2] == content_keys(matrix)[2]


def test_populations_that_repeat_themselves_are_found_by_labelled_rows():
    rng = np.random.default_rng(0)
    few = content_keys(rng.integers(0, 10, (1_000, 2)).astype(float))
    # 100 kinds of rows: among 50,000 others a row has 500 copies.
    assert copies_expected(few, 50_000) == pytest.approx(500, rel=0.1)
    assert copies_expected(content_keys(rng.normal(size=(1_000, 2))), 50_000) == 0
    assert copies_expected(few[:1], 50_000) == 0
