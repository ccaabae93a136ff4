"""Folds keep copies together; lines of clusters agree with logistic regression and borrow where rows are few."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from groupshift import METHODS, GroupShiftClassifier
from groupshift._data.keys import stratified_folds
from groupshift._scores.stack import combine, pooled_lines


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


def calibrated(lines, score, cluster):
    return lines[cluster, 0] * score + lines[cluster, 1]


def test_one_line_agrees_with_logistic_regression():
    score, y, cluster = labelled(2000)
    weight = np.random.default_rng(1).exponential(size=2000)
    [(slope, intercept)] = pooled_lines(score, y, weight, cluster, 1)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(score[:, None], y, sample_weight=weight)
    # The line's own prior is worth a hundredth of a row, the gradient is followed to a thousandth of one.
    assert slope == pytest.approx(plain.coef_[0, 0], rel=1e-3)
    assert intercept == pytest.approx(plain.intercept_[0], abs=1e-3)


def test_calibrated_scores_keep_the_share_of_positives():
    score, y, cluster = labelled(500)
    lines = pooled_lines(score, y, np.ones(500), cluster, 1)
    # To the thousandth of a row that the gradient is followed to, and the hundredth that the prior is worth.
    assert expit(calibrated(lines, score, cluster)).mean() == pytest.approx(y.mean(), abs=1e-4)


@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_the_unit_of_the_scores_does_not_matter(scale, offset):
    score, y, cluster = labelled(300, n_clusters=3)
    one = calibrated(pooled_lines(score, y, np.ones(300), cluster, 3), score, cluster)
    moved = scale * score + offset
    other = calibrated(pooled_lines(moved, y, np.ones(300), cluster, 3), moved, cluster)
    np.testing.assert_allclose(other, one, atol=1e-4)


def test_clusters_with_many_rows_get_their_own_line():
    score, y0, _ = labelled(20_000)
    cluster = np.arange(20_000) % 2
    rng = np.random.default_rng(3)
    y = np.where(cluster == 1, rng.random(20_000) < expit(0.8 * score + 1.0), y0).astype(int)
    lines = pooled_lines(score, y, np.ones(20_000), cluster, 2)
    for k in (0, 1):
        own = cluster == k
        alone = LogisticRegression(C=np.inf, tol=1e-10).fit(score[own, None], y[own])
        p = alone.predict_proba(score[own, None])[:, 1]
        design = np.column_stack([score[own], np.ones(own.sum())])
        slope_error, intercept_error = np.sqrt(np.diag(np.linalg.inv((design.T * p * (1 - p)) @ design)))
        # Against 10,000 rows the pull towards the common line is a quarter of a standard error at most.
        assert lines[k, 0] == pytest.approx(alone.coef_[0, 0], abs=slope_error / 4)
        assert lines[k, 1] == pytest.approx(alone.intercept_[0], abs=intercept_error / 4)


def test_a_cluster_without_rows_takes_the_common_line():
    score, y, cluster = labelled(500, n_clusters=2)
    lines = pooled_lines(score, y, np.ones(500), cluster, 3)
    [common] = pooled_lines(score, y, np.ones(500), np.zeros(500, int), 1)
    # To the thousandth of a row that gradients are followed to.
    np.testing.assert_allclose(lines[2], common, rtol=1e-3)


def test_a_cluster_of_one_class_stays_in_doubt():
    score, y, cluster = labelled(500, n_clusters=2)
    y[cluster == 1] = 1
    probability = expit(calibrated(pooled_lines(score, y, np.ones(500), cluster, 2), score, cluster))
    assert (probability < 1).all()
    assert probability[cluster == 1].mean() > 0.9


@pytest.mark.parametrize(
    "score", [np.zeros(40), np.r_[np.full(20, -1.0), np.full(20, 1.0)]], ids=["flat", "separable"]
)
def test_lines_stay_finite_where_logistic_regression_does_not(score):
    y, cluster = np.repeat([0, 1], 20), np.zeros(40, int)
    found = calibrated(pooled_lines(score, y, np.ones(40), cluster, 1), score, cluster)
    assert np.isfinite(found).all()
    if np.ptp(score) == 0:
        np.testing.assert_allclose(found, 0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-2, 1e2])
def test_the_scale_of_weights_does_not_matter_to_a_whole_fit(scale):
    score, y, _ = labelled(300)
    X, known = score[:, None], np.where(np.arange(300) < 200, y, -1)
    p = [
        GroupShiftClassifier(LogisticRegression(tol=1e-10), partition=1, random_state=0)
        .fit(X, known, groups=np.arange(300) % 4, sample_weight=weight)
        .predict_proba(X, np.arange(300) % 4)
        for weight in (np.ones(300), np.full(300, scale))
    ]
    np.testing.assert_allclose(p[1], p[0], atol=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 80), st.integers(1, 3), st.integers(2, 4))
def test_no_weight_of_a_stack_is_negative(seed, n, n_models, n_classes):
    """Scores that contradict few labels would turn the ranking round."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    scores = rng.normal(size=(n, n_models, n_classes - 1)) * rng.choice([0.1, 1, 10])
    found = combine(scores, y, rng.exponential(size=n))
    assert (found.weights >= 0).all()
    assert np.isfinite(found(scores)).all()


def test_a_score_that_ranks_the_wrong_way_round_counts_for_nothing():
    score, y, _ = labelled(400)
    found = combine(np.stack([-score, score], 1)[:, :, None], y, np.ones(400))
    assert found.weights[0] == 0
    assert found.weights[1] > 1


def test_a_classifier_that_shouts_in_one_cluster_does_not_spoil_the_others():
    """Boosted trees trained on one positive among thousands speak of log-odds in the thousands."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

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
    np.testing.assert_array_equal(model.learned_.class_rows.min(1) == 0, [False, True])
    assert (model.shift_[:, 1] == 0).all()
    own = (y < 0) & (X[:, 0] > 0)
    assert model.predict_proba(X[own], (np.arange(3000) % 3)[own])[:, 1].mean() < 0.3
