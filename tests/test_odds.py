"""Posteriors moved between priors: what is always true, and the paper's conventions at 0 and 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from groupshift._math.odds import log_odds_ratio, odds_ratio, shift_posterior
from groupshift._shifts.scorer import in_doubt

inside = st.floats(1e-6, 1 - 1e-6)
mild = st.floats(1e-3, 1 - 1e-3)
anywhere = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


@given(mild, mild, mild)
def test_shift_there_and_back_is_identity(posterior, a, b):
    there = shift_posterior(posterior, source_prior=a, target_prior=b)
    back = shift_posterior(there, source_prior=b, target_prior=a)
    # On the way log-odds reach 21, where 1 - p = 1e-9 is known to 1e-7 of itself.
    assert back == pytest.approx(posterior, abs=1e-6)


@given(mild, mild, mild, mild)
def test_two_shifts_are_one(posterior, a, b, c):
    by_way_of_b = shift_posterior(
        shift_posterior(posterior, source_prior=a, target_prior=b), source_prior=b, target_prior=c
    )
    assert by_way_of_b == pytest.approx(shift_posterior(posterior, source_prior=a, target_prior=c), abs=1e-6)


@given(anywhere, anywhere)
def test_no_shift_is_identity(posterior, prior):
    assert shift_posterior(posterior, source_prior=prior, target_prior=prior) == pytest.approx(
        posterior, abs=1e-15
    )


@given(inside, inside)
def test_swapping_the_classes_swaps_the_answer(posterior, prior):
    moved = shift_posterior(posterior, source_prior=prior, target_prior=0.3)
    swapped = shift_posterior(1 - posterior, source_prior=1 - prior, target_prior=0.7)
    assert moved + swapped == pytest.approx(1, abs=1e-9)


@given(inside, inside, inside)
def test_a_posterior_moves_with_the_prior(posterior, a, b):
    moved = shift_posterior(posterior, source_prior=a, target_prior=b)
    assert (moved - posterior) * (b - a) >= -1e-15


@given(anywhere, anywhere, anywhere)
def test_a_shift_is_never_nan_and_stays_a_probability(posterior, a, b):
    moved = shift_posterior(posterior, source_prior=a, target_prior=b)
    assert 0 <= moved <= 1


@given(anywhere, anywhere)
def test_odds_ratio_is_never_nan(p, q):
    assert odds_ratio(p, q) >= 0


@pytest.mark.parametrize(
    ("p", "q", "ratio"),
    [
        (0, 0, 1),
        (1, 1, 1),
        (0, 1, 0),
        (1, 0, np.inf),
        (0, 0.5, 0),
        (1, 0.5, np.inf),
        (0.5, 1, 0),
        (0.5, 0, np.inf),
    ],
)
def test_odds_ratio_at_the_edges_is_the_papers(p, q, ratio):
    assert odds_ratio(p, q) == ratio


@given(inside, inside)
def test_odds_ratio_is_what_it_says(p, q):
    assert odds_ratio(p, q) == pytest.approx((p / (1 - p)) / (q / (1 - q)), rel=1e-9)
    assert odds_ratio(p, q) * odds_ratio(q, p) == pytest.approx(1, rel=1e-9)


@given(anywhere)
def test_what_the_features_settle_no_prior_moves(prior):
    assert shift_posterior(0.0, source_prior=0.4, target_prior=prior) == 0
    assert shift_posterior(1.0, source_prior=0.4, target_prior=prior) == 1


def test_theorem_2_restates_the_posterior_of_two_gaussians_exactly():
    x = np.linspace(-4, 5, 50)

    def posterior(prior):
        positive, negative = prior * norm.pdf(x, 1), (1 - prior) * norm.pdf(x, 0)
        return positive / (positive + negative)

    moved = shift_posterior(posterior(0.3), source_prior=0.3, target_prior=0.85)
    np.testing.assert_allclose(moved, posterior(0.85), rtol=1e-12)


def test_arrays_broadcast_against_priors():
    moved = shift_posterior([[0.2], [0.7]], source_prior=0.5, target_prior=[0.1, 0.5, 0.9])
    assert moved.shape == (2, 3)
    np.testing.assert_allclose(moved[:, 1], [0.2, 0.7])
    assert log_odds_ratio([0.2, 0.5], 0.5).shape == (2,)


def test_probabilities_in_doubt_are_logistic_to_the_last_digits():
    log_odds = np.linspace(-36, 36, 2001)
    # Within a few units of the last place of a double.
    np.testing.assert_allclose(in_doubt(log_odds), expit(log_odds), rtol=2e-15)
    assert np.shape(in_doubt(0.5)) == ()
    assert ((in_doubt(np.array([-np.inf, np.inf])) > 0) & (in_doubt(np.array([-np.inf, np.inf])) < 1)).all()


@pytest.mark.parametrize("name", ["p", "q", "posterior", "source_prior", "target_prior"])
@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_probabilities_outside_0_and_1_are_refused(name, value):
    if name in ("p", "q"):
        call, sound = odds_ratio, {"p": 0.5, "q": 0.5}
    else:
        call, sound = shift_posterior, {"posterior": 0.5, "source_prior": 0.5, "target_prior": 0.5}
    with pytest.raises(ValueError, match=rf"{name} holds {value:g}. Pass probabilities between 0 and 1"):
        call(**sound | {name: [0.5, value]})
