"""CORAL: the source takes the covariance of the target."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import inv, sqrtm
from sklearn.linear_model import LogisticRegression

from groupshift import METHODS
from groupshift._math.alignment import recolor, whiten

# Square roots by two different algorithms on well-conditioned matrices of a few rows.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def coral(source, target, *, source_weight=None, target_weight=None, regularization=1.0):
    """Rows of `source` with their covariance replaced by that of `target`: both halves, one after the other."""
    source_weight = np.ones(len(source)) if source_weight is None else source_weight
    target_weight = np.ones(len(target)) if target_weight is None else target_weight
    white = whiten(source, source_weight, regularization=regularization)
    return recolor(white, target, target_weight, regularization=regularization)


def features(seed, n, d, *, scale=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * scale + rng.normal(size=d)


def covariance(rows, weight=None):
    return np.atleast_2d(np.cov(rows, rowvar=False, aweights=weight))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 12), st.integers(1, 6), st.floats(0.1, 5))
def test_coral_is_the_product_of_two_matrix_roots(seed, n_source, n_target, d, regularization):
    source, target = features(seed, n_source, d), features(seed + 1, n_target, d)
    ridge = regularization * np.eye(d)
    matrix = inv(sqrtm(covariance(source) + ridge)) @ sqrtm(covariance(target) + ridge)
    aligned = coral(source, target, regularization=regularization)
    np.testing.assert_allclose(aligned, source @ np.real(matrix), **CLOSE)


def test_covariances_are_weighted():
    source, target = features(0, 40, 3), features(1, 50, 3)
    rng = np.random.default_rng(0)
    u, v = rng.exponential(size=40), rng.exponential(size=50)
    ridge = np.eye(3)
    matrix = inv(sqrtm(covariance(source, u) + ridge)) @ sqrtm(covariance(target, v) + ridge)
    np.testing.assert_allclose(
        coral(source, target, source_weight=u, target_weight=v), source @ matrix, **CLOSE
    )


def test_only_ratios_of_weights_matter_and_rows_of_weight_zero_are_absent():
    source, target = features(0, 30, 3), features(1, 30, 3)
    weight = np.random.default_rng(1).exponential(size=30)
    weight[20:] = 0
    aligned = coral(source, target, target_weight=weight)
    np.testing.assert_allclose(coral(source, target, target_weight=1e6 * weight), aligned, **CLOSE)
    np.testing.assert_allclose(coral(source, target[:20], target_weight=weight[:20]), aligned, **CLOSE)


@pytest.mark.parametrize("regularization", [0.0, 1.0])
@pytest.mark.parametrize(("n", "d"), [(50, 4), (4, 9)])
def test_equal_covariances_leave_the_source_alone(regularization, n, d):
    source = features(2, n, d)
    moved = source + np.arange(d)  # another mean, the same covariance
    aligned = coral(source, moved, regularization=regularization)
    if regularization == 0 and n < d:
        # Directions without variance are dropped: what is left is the same up to a constant row.
        source, aligned = source - source.mean(axis=0), aligned - aligned.mean(axis=0)
    np.testing.assert_allclose(aligned, source, **CLOSE)


def test_without_regularization_the_output_has_the_covariance_of_the_target():
    source, target = features(3, 60, 5, scale=10), features(4, 70, 5)
    np.testing.assert_allclose(
        covariance(coral(source, target, regularization=0)), covariance(target), **CLOSE
    )


def test_there_and_back_is_identity():
    source, target = features(5, 40, 4), features(6, 40, 4)
    there = coral(source, target, regularization=0)
    np.testing.assert_allclose(coral(there, source, regularization=0), source, **CLOSE)


def test_order_of_rows_and_of_features_does_not_matter():
    source, target = features(7, 20, 5), features(8, 30, 5)
    rows, columns = np.random.default_rng(0).permutation(20), np.random.default_rng(1).permutation(5)
    aligned = coral(source[rows][:, columns], target[::-1][:, columns])
    np.testing.assert_allclose(aligned, coral(source, target)[rows][:, columns], **CLOSE)


def test_whitened_features_are_uncorrelated_with_unit_variance():
    white = whiten(features(11, 200, 4), np.ones(200), regularization=0)
    np.testing.assert_allclose(covariance(white), np.eye(4), **CLOSE)


def test_a_feature_constant_in_both_samples_is_unchanged():
    source, target = features(12, 30, 3), features(13, 30, 3)
    source[:, 1] = target[:, 1] = 7.0
    np.testing.assert_allclose(coral(source, target)[:, 1], 7.0, **CLOSE)


@pytest.mark.parametrize("regularization", [0.0, 1.0])
@pytest.mark.parametrize("case", ["constant", "wide", "one row", "copies", "large", "all constant"])
def test_degenerate_samples_give_finite_features(case, regularization):
    source, target = features(14, 30, 4), features(15, 30, 4)
    if case == "constant":
        source[:, 0], target[:, 1] = 3.0, -2.0
    elif case == "wide":
        source, target = features(14, 5, 40), features(15, 3, 40)
    elif case == "one row":
        target = target[:1]
    elif case == "copies":
        source[:, 1] = source[:, 2] = source[:, 0]
    elif case == "large":
        source, target = source * 1e100, target * 1e-100
    else:
        source, target = np.full_like(source, 2.0), np.full_like(target, 3.0)
    aligned = coral(source, target, regularization=regularization)
    assert aligned.shape == source.shape
    assert np.isfinite(aligned).all()


def test_a_group_whose_unlabelled_rows_have_no_weight_takes_the_unaligned_classifier():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(300, 2)), np.arange(300) % 3
    y = np.where(np.arange(300) < 150, X[:, 0] > 0, -1)
    weight = np.where((y < 0) & (groups == 2), 0.0, 1.0)
    model = METHODS["coral"](LogisticRegression(), random_state=0).fit(X, y, groups, sample_weight=weight)
    with_own, unseen = (model.predict_proba(X, np.full(300, g)) for g in (2, 7))
    np.testing.assert_array_equal(with_own, unseen)
    assert not np.array_equal(model.predict_proba(X, np.zeros(300, int)), unseen)
