"""The default classifier grows small trees or large ones: whichever predicts labels better that it has not seen."""

import numpy as np
import pytest
from groupshift._fit.classifiers import default_classifier
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from conftest import FEW_TREES
from groupshift import GroupShiftClassifier

SMALL, LARGE = 8, 31


def leaves(model):
    return model.posterior_.classifier.max_leaf_nodes


def fitted(X, y, **settings):
    groups = np.arange(len(y)) % 6
    model = GroupShiftClassifier(partition=1, refine=0, random_state=0, **settings)
    return model.fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def weak():
    """Few rows, features that say little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    y = (rng.random(700) < expit(0.5 * X[:, 0] - 0.3 * X[:, 1])).astype(int)
    return X, np.where(np.arange(700) < 500, y, -1)


def test_few_rows_that_say_little_get_small_trees(weak):
    assert leaves(fitted(*weak)) == SMALL


def test_many_rows_whose_features_say_much_together_get_large_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7_000, 4))
    y = ((X > 0).sum(1) % 2).astype(int)
    assert leaves(fitted(X, np.where(np.arange(7_000) < 6_000, y, -1))) == LARGE


def test_a_classifier_that_was_given_stays_as_it_is(weak):
    assert leaves(fitted(*weak, estimator=HistGradientBoostingClassifier(max_leaf_nodes=5))) == 5


def test_the_choice_does_not_depend_on_the_order_of_rows_or_on_threads(weak):
    X, y = weak
    order = np.random.default_rng(1).permutation(len(y))
    groups = np.arange(len(y)) % 6
    a = GroupShiftClassifier(partition=1, refine=0, random_state=0, n_jobs=1).fit(X, y, groups=groups)
    b = GroupShiftClassifier(partition=1, refine=0, random_state=0, n_jobs=2)
    b.fit(X[order], y[order], groups=groups[order])
    np.testing.assert_array_equal(a.predict_proba(X, groups), b.predict_proba(X, groups))


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("small_trees", [False, True])
def test_tests_that_ask_for_few_trees_get_few(small_trees):
    assert default_classifier(np.zeros(2, bool), 0, small_trees=small_trees).max_iter == FEW_TREES["max_iter"]
