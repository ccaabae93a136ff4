"""Another answer to how labels were chosen: estimated again from the counts of the population, without training."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_classes, make_grouped_mixture

SELECTIONS = ("unknown", "random", "by_label")


@pytest.fixture(scope="module", params=[2, 3])
def table(request):
    sizes = {"n_features": 2, "n_clusters": 1, "n_groups": 12, "random_state": 0}
    if request.param == 2:
        sample = make_grouped_mixture(**sizes, labeled_per_group=(40, 0), unlabeled_per_group=(80, 0))
    else:
        sample = make_grouped_classes(**sizes, n_classes=3, labeled_per_group=40, unlabeled_per_group=80)
    X, y, groups, _ = sample.training()
    return X, y, groups


def fit(table, selection):
    X, y, groups = table
    model = GroupShiftClassifier(LogisticRegression(), partition=1, selection=selection, random_state=0)
    return model.fit(X, y, groups=groups)


@pytest.mark.parametrize("before", SELECTIONS)
def test_assuming_gives_what_a_fit_with_that_selection_gives(table, before):
    X, _, groups = table
    model = fit(table, before)
    was = model.predict_proba(X, groups)
    for after in SELECTIONS:
        other = model.assuming(after)
        assert other.selection == after
        np.testing.assert_array_equal(
            other.predict_proba(X, groups), fit(table, after).predict_proba(X, groups)
        )
    np.testing.assert_array_equal(model.predict_proba(X, groups), was)
    assert model.selection == before


def test_a_model_without_population_says_what_to_do(table):
    X, y, groups = table
    known = np.flatnonzero(y >= 0)
    model = GroupShiftClassifier(LogisticRegression(), partition=1)
    with pytest.warns(match="No unlabelled rows"):
        model.fit(X[known], y[known], groups=groups[known])
    with pytest.raises(ValueError, match=r"Give it a population with update\(\)"):
        model.assuming("random")


def test_an_answer_that_is_none_is_refused_and_changes_nothing(table):
    model = fit(table, "unknown")
    with pytest.raises(ValueError, match="selection"):
        model.assuming("volunteers")
    assert model.selection == "unknown"
