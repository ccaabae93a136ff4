"""The mathematics of an audit: a sample with known probabilities, fair bets, and the posterior of a common shift."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from groupshift._audit.inference import (
    GRID,
    LEVEL,
    LabeledSample,
    calibration_wealth,
    effective_weights,
    helper_shift,
    learn_common_shift,
    normal_prior,
    open_prior,
    sequence,
    terms_of,
    wealth,
)
from groupshift._audit.plan import chances, inclusion, times_of

# A population of 40 rows with unequal chances.
RNG = np.random.default_rng(0)
CHANCE = RNG.uniform(0.5, 2.0, 40)
CHANCE = CHANCE / CHANCE.sum()


def arrivals(n_draws, seed=1):
    """Orders of all rows, and their times in this order, (n_draws, 40)."""
    times = times_of(np.random.default_rng(seed).random((n_draws, len(CHANCE))), CHANCE)
    order = times.argsort(1)
    return order, np.take_along_axis(times, order, 1)


def test_the_first_row_is_drawn_in_proportion_to_its_chance():
    first = np.bincount(arrivals(40_000)[0][:, 0], minlength=len(CHANCE)) / 40_000
    # Four standard errors of a share.
    assert np.all(np.abs(first - CHANCE) < 4 * np.sqrt(CHANCE / 40_000))


def test_sums_weighted_by_inclusion_are_unbiased_and_their_terms_uncorrelated():
    value = RNG.normal(size=len(CHANCE))
    order, times = arrivals(20_000)
    n = 10
    probability = inclusion(CHANCE[order[:, :n]], times[:, [n]])
    estimate = (value[order[:, :n]] / probability).sum(1)
    assert abs(estimate.mean() - value.sum()) < 4 * estimate.std() / np.sqrt(len(estimate))
    # Uncorrelated terms: the variance is a sum over rows, estimated without bias from those drawn.
    own = ((1 - probability) / probability**2 * value[order[:, :n]] ** 2).sum(1)
    assert own.mean() == pytest.approx(estimate.var(), rel=0.05)  # two simulated variances


def test_a_row_that_is_taken_out_does_not_change_the_order_of_the_others():
    order = arrivals(1)[0][0]
    keep = np.delete(np.arange(len(CHANCE)), order[0])
    again = times_of(np.random.default_rng(1).random((1, len(CHANCE))), CHANCE)[0, keep].argsort()
    assert keep[again].tolist() == order[1:].tolist()


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=30), st.floats(0, 4))
def test_every_row_has_a_chance_and_none_a_tiny_one(log_odds, variance):
    z = np.array(log_odds)
    chance = chances(z, np.ones(len(z)), np.full(len(z), variance), np.array([-1.0, 0.0]), np.full(2, 0.5))
    assert chance.sum() == pytest.approx(1)
    assert chance.min() * len(z) > 0.3
    assert np.all(inclusion(chance, np.inf) == 1)


def test_rows_that_say_more_have_larger_chances():
    z, one = np.array([0.0, 5.0]), np.ones(2)
    open_, sure = chances(z, one, np.zeros(2), np.zeros(1), np.ones(1))
    assert open_ > sure
    known, doubted = chances(np.zeros(2), one, np.array([0.0, 2.0]), np.zeros(1), np.ones(1))
    assert doubted > known
    light, heavy = chances(np.zeros(2), np.array([1.0, 3.0]), np.zeros(2), np.zeros(1), np.ones(1))
    assert heavy == pytest.approx(3 * light)


def test_money_is_worth_one_on_average_for_every_number_of_labels():
    # All orders in which four rows can be drawn, each with its probability: no chance in the test.
    chance, residual = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.3, -0.5, 0.1, 0.2])
    ratio = residual / chance
    low, high = max(-ratio.min(), 0), max(ratio.max(), 0)
    mean = np.zeros(4)
    for order in permutations(range(4)):
        drawn = np.array(order)
        left = 1 - (np.cumsum(chance[drawn]) - chance[drawn])
        terms = terms_of(residual[drawn], chance[drawn], low, high)
        money = wealth(terms, np.array(residual.sum()), spread=ratio.std(), planned=4)
        mean += np.prod(chance[drawn] / left) * money
    assert mean == pytest.approx(np.ones(4))


def drawn_audits(log_odds, shift, n_audits, n_labels, seed):
    """Terms of many audits of a population whose labels have the given common shift, its error, and the terms of a bet."""
    rng = np.random.default_rng(seed)
    n = len(log_odds)
    p, y = expit(log_odds), (rng.random(n) < expit(log_odds + shift)).astype(int)
    chance = chances(log_odds, np.ones(n), np.zeros(n), np.zeros(1), np.ones(1))
    ratio = 1 / n / chance
    spread = np.sqrt((ratio / n * p * (1 - p)).sum())
    limits = (ratio * p).max(), (ratio * (1 - p)).max()
    order = times_of(rng.random((n_audits, n)), chance).argsort(1)[:, :n_labels]
    return terms_of((y - p)[order] / n, chance[order], *limits), float((y - p).mean()), spread


def test_a_right_share_is_rarely_called_wrong_however_often_one_looks():
    z = np.random.default_rng(2).normal(size=500)
    terms, error, spread = drawn_audits(z, 0.7, 2_000, 50, 3)
    money = wealth(terms, np.full(2_000, error), spread=spread, planned=50)
    assert (money.max(1) >= 1 / LEVEL).mean() <= LEVEL


def test_a_share_that_is_far_off_is_found_out():
    z = np.random.default_rng(2).normal(size=2_000)
    terms, error, spread = drawn_audits(z, -1.5, 200, 50, 3)
    assert error < -0.25
    assert (wealth(terms, np.zeros(200), spread=spread, planned=50).max(1) >= 1 / LEVEL).mean() > 0.9


def test_shares_that_remain_possible_hold_the_true_one_and_become_fewer():
    z = np.random.default_rng(4).normal(size=500)
    terms, error, spread = drawn_audits(z, -0.5, 60, 50, 5)
    held = 0
    for i in range(60):
        one = tuple(part[i] for part in terms)
        low, high = sequence(one, np.linspace(-1, 1, 201), spread=spread, planned=50)
        assert np.all(np.diff(low) >= 0)
        assert np.all(np.diff(high) <= 0)
        held += bool(np.all((low <= error + 0.01) & (error - 0.01 <= high)))
    assert held >= 0.95 * 60 - 3  # three standard errors


def test_bets_on_calibrated_probabilities_are_fair():
    z = np.array([-1.0, 0.3, 2.0])
    mean = np.zeros(3)
    for labels in product((0, 1), repeat=3):
        y = np.array(labels)
        mean += np.prod(np.where(y == 1, expit(z), expit(-z))) * calibration_wealth(z, y)
    assert mean == pytest.approx(np.ones(3))


def test_probabilities_that_are_too_bold_are_found_out():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 400)
    y = (rng.random(400) < expit(z / 3)).astype(int)
    assert calibration_wealth(z, y)[-1] > 100


WIDE = open_prior(0.5, -1.0)


def some_rows(n=30, seed=0, n_groups=4):
    rng = np.random.default_rng(seed)
    z, group = rng.normal(size=n), rng.integers(0, n_groups, n)
    y = (rng.random(n) < expit(z - 1)).astype(np.int64)
    return LabeledSample(z, y, group, rng.uniform(0.5, 2, n))


def test_the_posterior_is_that_of_brute_force():
    rows = LabeledSample(np.array([0.5, -0.2, 1.0]), np.array([1, 0, 0]), np.zeros(3, int), np.ones(3))
    found = learn_common_shift(rows, WIDE, own_variance=np.array([0.3]))
    d = np.linspace(-4, 4, 2001)
    eta = rows.log_odds + (GRID[:, None] + d)[..., None]
    joint = np.exp((rows.y * eta - np.logaddexp(0, eta)).sum(-1) - d**2 / 0.6) * WIDE[:, None]
    joint /= joint.sum()
    assert found.mass == pytest.approx(joint.sum(1), abs=1e-4)
    total = GRID[:, None] + d
    assert found.group_shift[0] == pytest.approx((joint * total).sum(), abs=1e-3)
    variance = (joint * total**2).sum() - (joint * total).sum() ** 2
    assert found.group_variance[0] == pytest.approx(variance, abs=1e-3)


def test_without_labels_the_posterior_is_the_prior():
    nothing = LabeledSample(*(np.zeros(0, kind) for kind in (float, np.int64, np.int64, float)))
    found = learn_common_shift(nothing, WIDE, own_variance=np.array([0.1, 0.2]))
    assert found.mass == pytest.approx(WIDE)
    assert found.own_shift.tolist() == [0, 0]
    assert found.own_variance.tolist() == [0.1, 0.2]


def test_neither_the_order_of_labels_nor_the_unit_of_weights_matters():
    rows = some_rows()
    back = LabeledSample(*(getattr(rows, name)[::-1] for name in rows.__dataclass_fields__))
    doubled = LabeledSample(rows.log_odds, rows.y, rows.group, 7 * rows.weight)
    first, *others = (
        learn_common_shift(r, WIDE, own_variance=np.full(4, 0.2)) for r in (rows, back, doubled)
    )
    for other in others:
        assert other.mass == pytest.approx(first.mass, abs=1e-12)
        assert other.group_shift == pytest.approx(first.group_shift, abs=1e-9)


def test_many_labels_find_the_common_shift_and_a_group_that_differs():
    rng = np.random.default_rng(1)
    n = 3_000
    z, group = rng.normal(size=n), rng.integers(0, 3, n)
    shift = np.array([-1.0, -1.0, 0.2])[group]
    y = (rng.random(n) < expit(z + shift)).astype(np.int64)
    found = learn_common_shift(
        LabeledSample(z, y, group, np.ones(n)), open_prior(0.5, None), own_variance=np.full(3, 1.0)
    )
    # Some 200 labels worth of information in each group: three standard errors.
    assert found.group_shift == pytest.approx([-1.0, -1.0, 0.2], abs=0.25)
    assert np.all(found.group_variance < 0.02)


def test_a_group_whose_share_is_known_does_not_follow_the_others():
    rows = some_rows(n=40)
    is_known = np.array([True, False, False, False])
    found = learn_common_shift(rows, WIDE, own_variance=np.full(4, 1e-4), is_fixed=is_known)
    assert abs(found.group_shift[0]) < 0.01
    assert np.all(found.group_shift[1:] < -0.3)


def test_a_label_of_a_group_that_the_model_does_not_know_still_tells_the_common_shift():
    rows = some_rows(n=40)
    unseen = LabeledSample(rows.log_odds, rows.y, np.full(40, -1), rows.weight)
    found = learn_common_shift(unseen, WIDE, own_variance=np.full(4, 0.1))
    assert found.own_shift.tolist() == [0] * 4
    assert found.mean < -0.5


def test_unequal_weights_are_worth_fewer_labels():
    even = LabeledSample(np.zeros(10), np.zeros(10, int), np.zeros(10, int), np.ones(10))
    uneven = LabeledSample(even.log_odds, even.y, even.group, np.r_[9.0, np.ones(9)])
    assert effective_weights(even).sum() == pytest.approx(10)
    assert effective_weights(uneven).sum() == pytest.approx(18**2 / 90)  # Kish


def test_the_helper_makes_weighted_predictions_and_labels_agree():
    rows = some_rows(n=500, seed=3)
    q = expit(rows.log_odds + helper_shift(rows))
    gap = (rows.weight * (rows.y - q)).sum() / rows.weight.sum()
    assert abs(gap) < 1e-3  # held back by one label's worth of 500


def test_the_prior_is_a_distribution_that_leaves_room():
    for prior in (WIDE, open_prior(0.2, None), normal_prior(0.0)):
        assert prior.sum() == pytest.approx(1)
    assert WIDE[np.abs(GRID - logit(0.9)) < 0.5].sum() > 0.01
