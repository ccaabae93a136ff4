"""Known rates of groups and of the population: met exactly, weighed by their errors, and felt by all other groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import mixture
from groupshift._data.problem import KnownRate
from groupshift._math.points import collect_points
from groupshift._shifts.known import (
    CellShifts,
    KnownShares,
    by_rows,
    condition_group,
    condition_on_rates,
    mean_posterior,
)

GROUPS, CLUSTERS = 20, 2
COMMON = 0.2


def cells_of(n_groups=GROUPS, n_clusters=CLUSTERS, rows=40, share=0.4, seed=0):
    """Scores of rows of every cell."""
    n_cells = n_groups * n_clusters
    score, _ = mixture(share, n_cells * rows, seed=seed)
    return collect_points(score, np.repeat(np.arange(n_cells), rows), n_cells=n_cells)


def shifts_of(points, n_groups=GROUPS, *, group=0.3, cell=0.1, common=0.0):
    """Shifts with these standard deviations; zero in the mean."""
    shape = n_groups, points.n_cells // n_groups
    shift = np.random.default_rng(1).normal(0, group, shape)
    variance = np.full(shape, group**2 + cell**2 + common)
    return CellShifts(
        shift=shift,
        variance=variance,
        unseen_shift=np.zeros(shape[1]),
        unseen_variance=np.full(shape[1], 1.0),
        common_variance=common,
        unidentified=1.0,
        shared_deviation=np.full(shape, np.sqrt(group**2 + common)),
    )


def conditioned(points, shifts, *, groups=None, overall=None, common=COMMON):
    weight = points.weight_sum.reshape(shifts.shift.shape) / points.weight_sum.sum()
    return condition_on_rates(
        shifts,
        points,
        common=common,
        weight=weight,
        groups=groups,
        overall=overall,
    )


def known(shares, errors=0.0, *, numbers=None, n_clusters=CLUSTERS):
    shares = np.atleast_1d(np.asarray(shares, float))
    numbers = np.arange(len(shares)) if numbers is None else np.asarray(numbers)
    weight = np.full((len(shares), n_clusters), 1 / n_clusters)
    return KnownShares(numbers, shares, np.broadcast_to(errors, shares.shape).astype(float), weight)


def rates(points, shifts):
    """Mean prediction of each group; all cells have equally many rows."""
    return mean_posterior(points, shifts.shift)[0].mean(1)


@pytest.fixture(scope="module")
def points():
    return cells_of()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_an_exactly_known_share_is_met(points, share):
    found = conditioned(points, shifts_of(points), groups=known(share))
    # "Exactly" is a standard error of a millionth, some of which it takes to send a shift towards infinity.
    assert rates(points, found)[0] == pytest.approx(share, abs=2e-6 if 0 < share < 1 else 2e-5)
    assert np.isfinite(found.shift).all()


def test_a_known_share_of_large_error_changes_nothing(points):
    before = shifts_of(points)
    found = conditioned(points, before, groups=known(0.95, 500.0))
    np.testing.assert_allclose(found.shift, before.shift, atol=1e-5)
    np.testing.assert_allclose(found.variance, before.variance, rtol=1e-5)


def test_a_known_share_counts_the_less_the_larger_its_error(points):
    shares = [
        rates(points, conditioned(points, shifts_of(points), groups=known(0.95, e)))[0]
        for e in (0.0, 0.02, 0.1, 0.5, 5.0)
    ]
    assert (np.diff(shares) < 1e-6).all()
    assert shares[0] - shares[-1] > 0.1


def test_a_known_share_narrows_its_group(points):
    before = shifts_of(points, group=0.5)
    found = conditioned(points, before, groups=known(0.5, 0.01))
    assert (found.variance[0] < 0.5 * before.variance[0]).all()


def test_known_shares_of_many_groups_move_the_others_as_far_as_they_agree(points):
    before = shifts_of(points)
    high = np.clip(rates(points, before)[:10] + 0.2, 0, 1)
    many = conditioned(points, before, groups=known(high))
    few = conditioned(points, before, groups=known(high[:1]))
    moved_by_many, moved_by_one = (
        (rates(points, f) - rates(points, before))[10:].mean() for f in (many, few)
    )
    assert 0.1 < moved_by_many < 0.2
    assert 0 < moved_by_one < moved_by_many
    assert many.unidentified < few.unidentified < 1
    assert (many.unseen_shift > 0.5).all()


def test_a_group_far_from_all_others_speaks_of_itself(points):
    before = shifts_of(points)
    usual = rates(points, before)[:10]
    odd = np.where(np.arange(10) == 0, 0.97, usual)
    moved = rates(points, conditioned(points, before, groups=known(odd))) - rates(points, before)
    assert moved[0] > 0.4
    assert np.abs(moved[10:]).max() < 0.01


def test_rates_with_and_without_errors_may_be_mixed(points):
    errors = np.array([0.0, 0.05, 0.0])
    found = conditioned(points, shifts_of(points), groups=known([0.2, 0.9, 0.6], errors))
    share = rates(points, found)[:3]
    np.testing.assert_allclose(share[[0, 2]], [0.2, 0.6], atol=2e-6)
    assert 0.5 < share[1] < 0.9


@settings(max_examples=12)
@given(share=st.floats(0.01, 0.99), exact=st.lists(st.floats(0.05, 0.95), max_size=3))
def test_an_exact_rate_of_the_population_is_met_and_known_groups_keep_theirs(points, share, exact):
    least = sum(exact) / GROUPS
    share = np.clip(share, least + 0.01, least + 1 - len(exact) / GROUPS - 0.01)
    groups = known(exact) if exact else None
    found = conditioned(points, shifts_of(points), groups=groups, overall=KnownRate(share))
    reached = rates(points, found)
    assert reached.mean() == pytest.approx(share, abs=1e-8)
    np.testing.assert_allclose(reached[: len(exact)], exact, atol=1e-5)


def test_a_rate_of_the_population_moves_all_groups_about_alike(points):
    before = shifts_of(points, group=0.1)
    found = conditioned(points, before, overall=KnownRate(0.6))
    move = found.shift - before.shift
    assert move.min() > 0.5 * move.mean() > 0.2
    np.testing.assert_allclose(found.unseen_shift, move.mean(), rtol=0.1)


def test_a_rate_of_the_population_counts_the_less_the_larger_its_error(points):
    before = shifts_of(points)
    found = [conditioned(points, before, overall=KnownRate(0.9, e)) for e in (0.0, 0.02, 0.1, 0.5, 500.0)]
    overall = [rates(points, f).mean() for f in found]
    assert (np.diff(overall) < 0).all()
    assert overall[-1] == pytest.approx(rates(points, before).mean(), abs=1e-5)
    assert (np.diff([f.unidentified for f in found]) > 0).all()
    assert found[-1].unidentified == pytest.approx(1, abs=1e-5)


def test_small_moves_are_those_of_the_textbook(points):
    """Conditioning of a normal vector on a weighted sum of its entries, with the whole covariance written out."""
    before, error = shifts_of(points), 0.01
    n = points.n_cells
    own = np.diag(np.full(n, 0.1**2))
    group = np.kron(np.eye(GROUPS), np.full((CLUSTERS, CLUSTERS), 0.3**2))
    whole = own + group + COMMON
    mean, slope = mean_posterior(points, before.shift)
    jacobian = slope.ravel() / n
    small = 1e-5
    noise = jacobian @ whole @ jacobian + error**2
    expected = whole @ jacobian * small / noise
    found = conditioned(points, before, overall=KnownRate(mean.mean() + small, error))
    np.testing.assert_allclose((found.shift - before.shift).ravel(), expected, rtol=1e-3)
    chance = jacobian.sum() / points.effective_rows.sum()
    left = np.diag(whole) - (whole @ jacobian) ** 2 / (noise + chance)
    # Variances that known rates leave are never above those before, which hold no common part here.
    np.testing.assert_allclose(found.variance.ravel(), np.minimum(left, before.variance.ravel()), rtol=1e-3)


def test_without_known_rates_nothing_moves(points):
    before = shifts_of(points, common=0.05)
    found = conditioned(points, before)
    np.testing.assert_array_equal(found.shift, before.shift)
    np.testing.assert_allclose(found.variance, before.variance)
    np.testing.assert_allclose(found.shared_deviation, before.shared_deviation)


def test_conditioning_one_group_solves_the_linear_gaussian_case_exactly():
    # At 1/2 the share has slope 1/4 and no curvature: for a step of 1e-4 the posterior is the textbook one to 1e-8.
    prior_variance, error = 0.04, 0.05
    even = collect_points([0.0], [0], n_cells=1)
    shift, covariance = condition_group(
        np.zeros(1), np.array([[prior_variance]]), 0.5001, error, np.ones(1), by_rows(even, 0, 1)
    )
    gain = prior_variance / 4 / (prior_variance / 16 + error**2)
    assert shift[0] == pytest.approx(gain * 1e-4, rel=1e-7)
    assert covariance[0, 0] == pytest.approx(prior_variance * (1 - gain / 4), rel=1e-7)
