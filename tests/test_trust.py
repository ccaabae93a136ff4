"""Trust: found again where shifts are right by a factor, cautious with few groups, and honest about its own error."""

import numpy as np
import pytest
from groupshift._math.trust import Trust, learn_trust
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from groupshift import GroupShiftClassifier


def confirmed(factor, n_groups, rng, rows=400):
    """The trust of shifts of which labels confirm a given part."""
    group = np.repeat(np.arange(n_groups), rows)
    shift = rng.normal(0, 1.0, n_groups)[group]
    log_odds = rng.normal(0, 1.0, len(group))
    y = (rng.random(len(group)) < expit(log_odds + factor * shift)).astype(int)
    return learn_trust(log_odds, shift, y, np.ones(len(group)), group, n_groups)


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0])
def test_the_part_that_labels_confirm_is_found_again_less_a_standard_error(factor):
    found = confirmed(factor, 80, np.random.default_rng(0))
    assert found.estimate == pytest.approx(factor, abs=3 * found.std_error)
    assert found.value == pytest.approx(np.clip(found.estimate - found.std_error, 0, 1))


def test_fewer_groups_are_trusted_less_and_known_worse():
    few, many = (
        [confirmed(0.7, n, np.random.default_rng(seed), rows=100) for seed in range(20)] for n in (4, 60)
    )
    assert np.mean([t.value for t in few]) < np.mean([t.value for t in many])
    assert np.mean([t.variance for t in few]) > 3 * np.mean([t.variance for t in many])


@given(st.floats(-5, 5), st.floats(0, 50))
@settings(max_examples=200, deadline=None)
def test_trust_cannot_be_off_by_more_than_its_range(estimate, error):
    value = float(np.clip(estimate - error, 0, 1))
    off = Trust(value, estimate, error, np.zeros(2)).variance
    assert 0 <= off <= max(value, 1 - value) ** 2


def test_shifts_too_small_to_matter_are_not_trusted():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(10), 100)
    y = rng.integers(0, 2, 1000)
    found = learn_trust(np.zeros(1000), np.full(1000, 1e-3), y, np.ones(1000), group, 10)
    assert found.value == 0


def test_two_groups_that_confirm_nothing_rule_nothing_out():
    """Labelled shares are alike, so that nothing is learned of trust; shares of the population are not."""
    rng = np.random.default_rng(2)
    share, groups = np.array([0.2, 0.7]), np.repeat([0, 1], 2000)
    labeled = np.arange(4000) % 2000 < 400
    truth = (rng.random(4000) < np.where(labeled, 0.5, share[groups])).astype(int)
    X = rng.normal(size=(4000, 3)) + truth[:, None]
    model = GroupShiftClassifier(partition=1, refine=0, random_state=0)
    model.fit(X, np.where(labeled, truth, -1), groups=groups)
    table = model.group_shares(by="group")
    assert (table["low"] < share).all()
    assert (share < table["high"]).all()
