"""Rows that are copies of one example stay on one side of every split, and count once: in evidence and in intervals."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._data.keys import copy_correlation, design_effect
from groupshift._math.label_shift import mlls
from groupshift._math.points import collect_points


def test_examples_that_are_there_once_have_no_design_effect():
    assert design_effect(np.arange(10, dtype=np.uint64), np.ones(10)) == 1.0


@pytest.mark.parametrize("copies", [2, 3, 7])
def test_rows_that_are_all_copied_count_as_often_as_there_are_examples(copies):
    keys = np.repeat(np.arange(20, dtype=np.uint64), copies)
    assert design_effect(keys, np.ones(len(keys))) == pytest.approx(copies)


def test_the_scale_of_weights_does_not_matter():
    rng = np.random.default_rng(0)
    keys, weight = rng.integers(0, 30, 100).astype(np.uint64), rng.exponential(size=100)
    assert design_effect(keys, weight) == pytest.approx(design_effect(keys, 9 * weight))


def test_copies_agree_and_strangers_do_not():
    rng = np.random.default_rng(0)
    keys = np.repeat(np.arange(2000, dtype=np.uint64), 2)
    score = rng.normal(size=2000)
    weight = np.ones(4000)
    assert copy_correlation(keys, weight, np.repeat(score, 2)) == pytest.approx(1, abs=1e-9)
    assert copy_correlation(keys, weight, rng.normal(size=4000)) < 0.06
    half = np.repeat(score, 2) + rng.normal(size=4000)
    assert copy_correlation(keys, weight, half) == pytest.approx(0.5, abs=0.06)


def test_copied_rows_are_worth_as_much_as_the_rows_they_copy():
    rng = np.random.default_rng(1)
    score = rng.normal(size=300)
    once = mlls(collect_points(score, np.zeros(300, int), n_cells=1), labeled_prior=np.array([0.5]))
    points = collect_points(np.repeat(score, 4), np.zeros(1200, int), n_cells=1)
    fourfold = mlls(
        replace(points, weight_square_sum=4 * points.weight_square_sum), labeled_prior=np.array([0.5])
    )
    np.testing.assert_allclose(fourfold.share, once.share, atol=1e-9)
    np.testing.assert_allclose(fourfold.std_error, once.std_error, rtol=1e-6)


def test_copying_every_unlabelled_row_makes_no_interval_narrower(rows):
    X, y, groups = rows
    ids = np.arange(len(y))
    known, unknown = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    copied = np.concatenate([known, np.repeat(unknown, 3)])
    model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0)
    width = {}
    for name, at in (("once", np.concatenate([known, unknown])), ("three times", copied)):
        shares = model.fit(X[at], y[at], groups=groups[at], example_ids=ids[at]).group_shares(by="cell")
        width[name] = shares["high"] - shares["low"]
    np.testing.assert_allclose(width["three times"], width["once"], rtol=0.05)


class Spy(ClassifierMixin, BaseEstimator):
    """Logistic regression that remembers which rows it was trained on, by their first feature."""

    seen: tuple = ()

    def fit(self, X, y, sample_weight=None):
        Spy.seen = (*Spy.seen, frozenset(X[:, 0].tolist()))
        self.model_ = LogisticRegression().fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.mark.parametrize("calibration", ["crossfit", "holdout"])
def test_copies_of_an_example_stay_on_one_side_of_every_split(rows, calibration):
    X, y, groups = rows
    rng = np.random.default_rng(0)
    labeled = np.flatnonzero(y >= 0)
    ids = rng.integers(0, 100, len(y))
    # One label for all copies of an example, as it is in life.
    y = np.where(y >= 0, (ids % 2), y)
    Spy.seen = ()
    model = GroupShiftClassifier(Spy(), partition=1, calibration=calibration, random_state=0)
    model.fit(X, y, groups=groups, example_ids=[f"household {i}" for i in ids])
    everyone = frozenset(X[labeled, 0].tolist())
    parts = [seen for seen in Spy.seen if seen != everyone]
    assert len(parts) == (5 if calibration == "crossfit" else 1)
    for seen in parts:
        inside = np.isin(X[labeled, 0], list(seen))
        assert 0.7 < inside.mean() < 0.9
        assert not set(ids[labeled][inside]) & set(ids[labeled][~inside])


def test_held_out_rows_are_a_fifth_of_the_distinct_examples(rows):
    X, y, groups = rows
    Spy.seen = ()
    GroupShiftClassifier(Spy(), partition=1, calibration="holdout", random_state=0).fit(X, y, groups=groups)
    assert len(Spy.seen[0]) == pytest.approx(0.8 * (y >= 0).sum(), abs=1)
