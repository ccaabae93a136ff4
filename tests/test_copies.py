"""Rows that are copies of one example count once: in weights of evidence, intervals and what is learned from groups."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift.label_shift import mlls
from groupshift.points import collect_points
from groupshift.rows import copy_correlation, design_effect


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
    fourfold = mlls(points.thinned(4.0), labeled_prior=np.array([0.5]))
    np.testing.assert_allclose(fourfold.share, once.share, atol=1e-9)
    np.testing.assert_allclose(fourfold.std_error, once.std_error, rtol=1e-6)


def test_copying_every_unlabelled_row_makes_no_interval_narrower(rows):
    X, y, groups = rows
    ids = np.arange(len(y))
    known, unknown = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    copied = np.concatenate([known, np.repeat(unknown, 3)])
    model = GroupShiftClassifier(LogisticRegression(), 1, trust=1.0, refine=0, random_state=0)
    width = {}
    for name, at in (("once", np.concatenate([known, unknown])), ("three times", copied)):
        shares = model.fit(X[at], y[at], groups=groups[at], example_ids=ids[at]).group_shares(by="cell")
        width[name] = shares["high"] - shares["low"]
    np.testing.assert_allclose(width["three times"], width["once"], rtol=0.05)
