"""Folds keep copies together; Platt lines agree with logistic regression and borrow where rows are few."""

import numpy as np
import pytest
from groupshift._math.calibration import (
    INTERCEPT_SPREAD,
    SLOPE_SPREAD,
    PlattScaling,
    crossfit_platt,
    mean_offsets,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from groupshift._data.keys import stratified_folds


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30)), min_size=4, max_size=80), st.integers(2, 5))
def test_copies_of_an_example_share_a_fold(rows, n_folds):
    y, example = np.array(rows).T
    fold = stratified_folds(y, example.astype(np.uint64), n_folds, 0)
    assert ((fold >= 0) & (fold < n_folds)).all()
    for value in np.unique(example):
        assert len(set(fold[example == value])) == 1


@given(st.integers(2, 5), st.integers(10, 60), st.integers(10, 60))
def test_every_fold_holds_its_share_of_each_class(n_folds, n_positive, n_negative):
    y = np.repeat([1, 0], [n_positive, n_negative])
    fold = stratified_folds(y, np.arange(len(y), dtype=np.uint64), n_folds, 1)
    for value, n in ((1, n_positive), (0, n_negative)):
        counts = np.bincount(fold[y == value], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
        assert counts.min() >= n // n_folds


def labelled(n, *, slope=1.5, intercept=-0.5, seed=0, n_clusters=1):
    rng = np.random.default_rng(seed)
    score, cluster = rng.normal(0, 2, n), rng.integers(0, n_clusters, n)
    return score, (rng.random(n) < expit(slope * score + intercept)).astype(int), cluster


def test_one_line_agrees_with_logistic_regression():
    score, y, cluster = labelled(2000)
    weight = np.random.default_rng(1).exponential(size=2000)
    platt = PlattScaling().fit(score, y, weight, cluster, 1)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(score[:, None], y, sample_weight=weight)
    # The line's own prior is worth a hundredth of a row.
    assert platt.slope_[0] == pytest.approx(plain.coef_[0, 0], rel=2e-4)
    assert platt.intercept_[0] == pytest.approx(plain.intercept_[0], abs=1e-4)


def test_calibrated_scores_keep_the_share_of_positives():
    score, y, cluster = labelled(500)
    calibrated = expit(PlattScaling().fit(score, y, np.ones(500), cluster, 1).transform(score, cluster))
    # Exactly but for the line's prior, which is worth a hundredth of the 500 rows' one: 0.01 / 500.
    assert calibrated.mean() == pytest.approx(y.mean(), abs=3e-5)


@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_the_unit_of_the_scores_does_not_matter(scale, offset):
    score, y, cluster = labelled(300, n_clusters=3)
    one = PlattScaling().fit(score, y, np.ones(300), cluster, 3).transform(score, cluster)
    moved = scale * score + offset
    other = PlattScaling().fit(moved, y, np.ones(300), cluster, 3).transform(moved, cluster)
    np.testing.assert_allclose(other, one, atol=1e-5)


@given(st.floats(1e-3, 1e3))
def test_the_scale_of_weights_does_not_matter(scale):
    score, y, cluster = labelled(300, n_clusters=3)
    one = PlattScaling().fit(score, y, np.ones(300), cluster, 3)
    other = PlattScaling().fit(score, y, np.full(300, scale), cluster, 3)
    np.testing.assert_allclose(other.slope_, one.slope_, rtol=1e-6)


def test_clusters_with_many_rows_get_their_own_line():
    score, y0, _ = labelled(20_000)
    cluster = np.arange(20_000) % 2
    rng = np.random.default_rng(3)
    y = np.where(cluster == 1, rng.random(20_000) < expit(0.8 * score + 1.0), y0).astype(int)
    platt = PlattScaling().fit(score, y, np.ones(20_000), cluster, 2)
    for k in (0, 1):
        own = cluster == k
        alone = LogisticRegression(C=np.inf, tol=1e-10).fit(score[own, None], y[own])
        p = alone.predict_proba(score[own, None])[:, 1]
        design = np.column_stack([score[own], np.ones(own.sum())])
        slope_error, intercept_error = np.sqrt(np.diag(np.linalg.inv((design.T * p * (1 - p)) @ design)))
        # Against 10,000 rows the pull towards the common line is a quarter of a standard error at most.
        assert platt.slope_[k] == pytest.approx(alone.coef_[0, 0], abs=slope_error / 4)
        assert platt.intercept_[k] == pytest.approx(alone.intercept_[0], abs=intercept_error / 4)


def test_a_line_is_the_maximum_of_its_clusters_likelihood_and_its_prior():
    score, y, cluster = labelled(300, n_clusters=3)
    common = PlattScaling().fit(score, y, np.ones(300), np.zeros(300, int), 1)
    platt = PlattScaling().fit(score, y, np.ones(300), cluster, 3)
    residual = y - expit(platt.transform(score, cluster))
    t = (score - common.center_) / common.scale_
    slope, common_slope = platt.slope_ * platt.scale_, common.slope_ * common.scale_
    intercept = platt.intercept_ + platt.slope_ * platt.center_
    common_intercept = common.intercept_ + common.slope_ * common.center_
    slope_pull = (slope - common_slope) / (SLOPE_SPREAD * common_slope) ** 2
    intercept_pull = (intercept - common_intercept) / INTERCEPT_SPREAD**2
    np.testing.assert_allclose(np.bincount(cluster, residual * t), slope_pull, atol=1e-9)
    np.testing.assert_allclose(np.bincount(cluster, residual), intercept_pull, atol=1e-9)


def test_a_cluster_without_rows_takes_the_common_line():
    score, y, cluster = labelled(500, n_clusters=2)
    platt = PlattScaling().fit(score, y, np.ones(500), cluster, 3)
    common = PlattScaling().fit(score, y, np.ones(500), np.zeros(500, int), 1)
    assert platt.slope_[2] == pytest.approx(common.slope_[0], rel=1e-6)
    assert platt.intercept_[2] == pytest.approx(common.intercept_[0], abs=1e-6)


def test_a_cluster_of_one_class_stays_in_doubt():
    score, y, cluster = labelled(500, n_clusters=2)
    y[cluster == 1] = 1
    platt = PlattScaling().fit(score, y, np.ones(500), cluster, 2)
    probability = expit(platt.transform(score, cluster))
    assert (probability < 1).all()
    assert probability[cluster == 1].mean() > 0.9


@pytest.mark.parametrize(
    "score", [np.zeros(40), np.r_[np.full(20, -1.0), np.full(20, 1.0)]], ids=["flat", "separable"]
)
def test_lines_stay_finite_where_logistic_regression_does_not(score):
    y = np.repeat([0, 1], 20)
    platt = PlattScaling().fit(score, y, np.ones(40), np.zeros(40, int), 1)
    calibrated = platt.transform(score, np.zeros(40, int))
    assert np.isfinite(calibrated).all()
    if np.ptp(score) == 0:
        np.testing.assert_allclose(calibrated, 0, atol=1e-6)


def test_crossfitted_calibration_never_sees_the_labels_it_calibrates():
    score, y, cluster = labelled(400, n_clusters=4)
    fold = np.arange(400) % 4
    calibrated = crossfit_platt(score, y, np.ones(400), cluster, 4, fold)
    turned = np.where(fold == 2, 1 - y, y)
    again = crossfit_platt(score, turned, np.ones(400), cluster, 4, fold)
    np.testing.assert_array_equal(again[fold == 2], calibrated[fold == 2])
    assert not np.allclose(again[fold != 2], calibrated[fold != 2])


def test_a_classifier_that_shouts_in_one_cluster_does_not_spoil_the_others():
    """Boosted trees trained on one positive among thousands speak of log-odds in the thousands."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    from groupshift import METHODS

    rng = np.random.default_rng(0)
    n = 6000
    X = rng.normal(size=(n, 3))
    side = X[:, 0] > 0.8
    truth = (rng.random(n) < expit(2 * X[:, 1])).astype(int)
    truth[side] = 0
    truth[np.flatnonzero(side)[0]] = 1
    y = np.where(np.arange(n) < 4000, truth, -1)

    class Sides:
        def predict(self, X):
            return (X[:, 0] > 0.8).astype(int)

    model = METHODS["cluster_global"](
        HistGradientBoostingClassifier(early_stopping=False, random_state=0),
        partition=Sides(),
        calibration="crossfit",
        random_state=0,
    ).fit(X, y, groups=rng.integers(0, 5, n))
    test = ~side & (y < 0)
    assert roc_auc_score(truth[test], model.predict_proba(X[test], np.zeros(test.sum(), int))[:, 1]) > 0.8


@pytest.mark.parametrize("shares", ["em", "mlls", "bbse-soft"])
def test_a_cluster_of_one_class_is_left_as_it_is(shares):
    from sklearn.linear_model import LogisticRegression

    from groupshift import GroupShiftClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    truth = (rng.random(3000) < expit(2 * X[:, 1])).astype(int)
    truth[X[:, 0] > 0] = 0
    y = np.where(np.arange(3000) < 1500, truth, -1)

    class Sides:
        def predict(self, X):
            return (X[:, 0] > 0).astype(int)

    model = GroupShiftClassifier.published(
        LogisticRegression(), partition=Sides(), shares=shares, random_state=0
    )
    model.fit(X, y, groups=np.arange(3000) % 3)
    np.testing.assert_array_equal(model.rarer_class_rows_ == 0, [False, True])
    assert (model.shift_[:, 1] == 0).all()
    own = (y < 0) & (X[:, 0] > 0)
    assert model.predict_proba(X[own], (np.arange(3000) % 3)[own])[:, 1].mean() < 0.3


def test_offsets_give_each_cluster_the_mean_probability_of_the_other_scores():
    rng = np.random.default_rng(0)
    cluster = np.repeat([0, 1, 2], [40_000, 40_000, 1])
    log_odds = rng.normal(size=len(cluster)) - 2 * cluster
    wanted = 1.5 * log_odds + np.array([0.5, -0.5, 9.0])[cluster]
    offset = mean_offsets(log_odds, wanted, np.ones(len(cluster)), cluster, 3)
    for k in (0, 1):
        own = cluster == k
        # Both follow all rows a little.
        assert expit(log_odds[own] + offset[k]).mean() == pytest.approx(expit(wanted[own]).mean(), rel=0.01)
    # One row says nothing.
    assert abs(offset[2]) < 1


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.integers(1, 3))
def test_a_score_and_itself_have_no_offset(values, n_clusters):
    score = np.array(values)
    cluster = np.arange(len(score)) % n_clusters
    assert not mean_offsets(score, score, np.ones(len(score)), cluster, n_clusters).any()
