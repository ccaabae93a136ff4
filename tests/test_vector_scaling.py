"""Calibration of several classes: what is known is found, what is not is drawn towards one temperature."""

import numpy as np
from groupshift._math.calibration import PlattScaling
from groupshift._math.vector_scaling import (
    SPREADS,
    VectorScaling,
    choose_spread,
    class_log_loss,
    crossfit_scaling,
)
from scipy.special import log_softmax

from class_cells import draw_cells
from groupshift._math.odds import log_loss_rows


def scores(n_rows=4000, n_classes=4, seed=0):
    posterior, _, _, y = draw_cells(n_cells=1, n_rows=n_rows, n_classes=n_classes, seed=seed, apart=1.5)
    # Labels from the posterior itself: it is calibrated as it is.
    rng = np.random.default_rng(seed)
    y = (rng.random((n_rows, 1)) > posterior[0].cumsum(1)).sum(1)
    return np.log(posterior[0]), y, np.ones(n_rows), np.zeros(n_rows, np.int64)


def test_a_temperature_is_found_and_taken_back():
    log_p, y, weight, cluster = scores()
    sharp = log_softmax(3 * log_p, axis=1)
    found = VectorScaling().fit(sharp, y, weight, cluster, 1, SPREADS[0])
    np.testing.assert_allclose(found.slope_, 1 / 3, rtol=0.1)
    np.testing.assert_allclose(found.intercept_, 0, atol=1e-3)
    assert class_log_loss(found.transform(sharp, cluster), y).mean() < class_log_loss(log_p, y).mean() + 1e-3


def test_calibrated_scores_are_left_as_one_temperature_and_moved_ones_are_not():
    log_p, y, weight, _ = scores()
    fold = np.arange(len(y)) % 5
    assert choose_spread(log_p, y, weight, fold) == SPREADS[0]
    assert choose_spread(log_p + np.array([1.0, 0, 0, -1.0]), y, weight, fold) in SPREADS[2:]
    assert choose_spread(log_p, y, weight, None) == SPREADS[0]


def test_classes_in_another_order_are_calibrated_alike():
    log_p, y, weight, cluster = scores()
    order = np.array([2, 0, 3, 1])
    cluster = (np.arange(len(y)) % 2).astype(np.int64)
    plain = VectorScaling().fit(log_p, y, weight, cluster, 2, SPREADS[2]).transform(log_p, cluster)
    moved = VectorScaling().fit(log_p[:, order], np.argsort(order)[y], weight, cluster, 2, SPREADS[2])
    np.testing.assert_allclose(moved.transform(log_p[:, order], cluster), plain[:, order], atol=1e-9)


def test_a_cluster_without_rows_has_the_answer_of_all():
    log_p, y, weight, cluster = scores(500)
    found = VectorScaling().fit(log_p, y, weight, cluster, 2, SPREADS[2])
    whole = VectorScaling().fit(log_p, y, weight, cluster, 1, SPREADS[2])
    np.testing.assert_allclose(found.slope_[1], whole.slope_[0])


def test_with_two_classes_it_predicts_as_platt_scaling_does():
    log_p, y, weight, cluster = scores(n_classes=2)
    sharp = log_softmax(2 * log_p + np.array([0, 0.7]), axis=1)
    # Both have weak priors, in different places: the predictions differ by what a dozen rows would move.
    ours = crossfit_scaling(sharp, y, weight, cluster, 1, np.arange(len(y)) % 5, SPREADS[-1])
    score = sharp[:, 1] - sharp[:, 0]
    platt = PlattScaling().fit(score, y, weight, cluster, 1).transform(score, cluster)
    assert abs(class_log_loss(ours, y).mean() - log_loss_rows(platt, y).mean()) < 2e-3
