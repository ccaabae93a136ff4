"""What a group's make-up says about its shift: a ridge regression that leaves each group out of its own prediction."""

import numpy as np
import pytest
from groupshift._math.context import GROUPS_PER_COVARIATE, Context, group_sums


def labelled_groups(slope, *, n_groups=40, rows=60, seed=0):
    """Rows of groups whose mean features differ, and what is left of their shifts, with its sampling variance."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), rows)
    make_up = rng.normal(0, 0.7, (n_groups, 3))
    X = make_up[group] + rng.normal(size=(len(group), 3))
    variance = rng.uniform(0.05, 0.2, n_groups)
    error = slope * make_up[:, 0] + rng.normal(0, np.sqrt(variance))
    return X, group, error, variance, make_up


def fitted(X, group, error, variance):
    n_groups = len(error)
    return Context().fit(X, group, np.ones(len(group)), n_groups).learn(error, variance)


def group_means(context, X, group, n_groups):
    rows = np.bincount(group, minlength=n_groups).astype(float)
    sums = group_sums(context.project(X), group, np.ones(len(group)), n_groups)
    return sums / rows[:, None], rows


def test_coefficients_without_a_group_are_those_of_the_regression_on_the_others():
    context = fitted(*labelled_groups(1.0)[:4])
    _, _, error, variance, _ = labelled_groups(1.0)
    a, weight = context.covariate_, 1 / (variance + context.residual_variance_)
    ridge = np.eye(a.shape[1]) / context.coefficient_variance_
    for g in range(len(error)):
        others = np.arange(len(error)) != g
        left = a[others].T * weight[others]
        expected = np.linalg.solve(left @ a[others] + ridge, left @ error[others])
        np.testing.assert_allclose(context.without_[g], expected, rtol=1e-9, atol=1e-12)


def test_groups_with_similar_features_and_shifts_predict_each_other():
    X, group, error, variance, make_up = labelled_groups(1.0)
    context = fitted(X, group, error, variance)
    assert np.mean((make_up[:, 0] - context.left_out_) ** 2) < 0.5 * np.mean(make_up[:, 0] ** 2)


def test_where_features_say_nothing_of_shifts_nothing_is_predicted():
    X, group, _, variance, _ = labelled_groups(0.0)
    context = fitted(X, group, np.zeros(40), variance)
    mean, rows = group_means(context, X, group, 40)
    np.testing.assert_array_equal(context.left_out_, 0)
    np.testing.assert_array_equal(context.predict(mean, rows, np.arange(40)), 0)


def test_a_labelled_group_is_predicted_by_the_others_and_an_unknown_one_by_all():
    X, group, error, variance, _ = labelled_groups(1.0)
    context = fitted(X, group, error, variance)
    mean, rows = group_means(context, X, group, 40)
    as_labelled = context.predict(mean, rows, np.arange(40))
    np.testing.assert_allclose(
        context.predict(mean, rows, np.full(40, -1)) / as_labelled,
        (context.covariate_ @ context.coefficient_) / (context.covariate_ * context.without_).sum(1),
        rtol=1e-9,
    )


def test_numbering_of_groups_does_not_matter():
    X, group, error, variance, _ = labelled_groups(1.0)
    rename = np.random.default_rng(1).permutation(40)
    new_error, new_variance = np.empty(40), np.empty(40)
    new_error[rename], new_variance[rename] = error, variance
    plain, renamed = fitted(X, group, error, variance), fitted(X, rename[group], new_error, new_variance)
    np.testing.assert_allclose(renamed.left_out_[rename], plain.left_out_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_groups", [2, 9, 14])
def test_there_is_one_covariate_for_every_five_groups_and_no_more_than_features(n_groups):
    X, group, error, variance, _ = labelled_groups(1.0, n_groups=n_groups)
    context = fitted(X, group, error, variance)
    assert context.basis_.shape == (3, min(n_groups // GROUPS_PER_COVARIATE, 3))
    assert np.isfinite(context.left_out_).all()


def test_features_that_never_vary_predict_nothing():
    _, group, error, variance, _ = labelled_groups(1.0)
    context = fitted(np.ones((len(group), 3)), group, error, variance)
    np.testing.assert_array_equal(context.left_out_, 0)
