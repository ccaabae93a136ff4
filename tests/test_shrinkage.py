"""Pooled shifts: intervals at their stated rate, variances found again, and what a cell without rows gets."""

import numpy as np
import pytest
from groupshift._math.shrinkage import pool_shifts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm

from groupshift._math import shrinkage
from groupshift._math.cell_likelihood import CellLikelihood
from groupshift._math.label_shift import mlls
from groupshift._math.points import collect_points
from groupshift._shifts.known_shares import MAX_SHIFT

PRIOR = 0.4
Z90 = norm.ppf(0.95)


def draw_cells(shift, rows, rng, *, distance=2.0):
    """Points of cells with the given shifts: two unit Gaussians, scores learned under a prior of 0.4."""
    shift = np.asarray(shift, float)
    cell = np.repeat(np.arange(shift.size), np.broadcast_to(rows, shift.shape).ravel())
    y = rng.random(len(cell)) < expit(logit(PRIOR) + shift).ravel()[cell]
    x = rng.normal(distance * y)
    score = logit(PRIOR) + norm.logpdf(x, distance) - norm.logpdf(x, 0)
    return collect_points(score, cell, n_cells=shift.size)


def pool(points, n_groups, **options):
    n_clusters = points.n_cells // n_groups
    return pool_shifts(points, labeled_prior=np.full(n_clusters, PRIOR), n_groups=n_groups, **options)


def model_shifts(rng, n_groups, n_clusters, tau_u, tau_v, m=0.3):
    return m + rng.normal(0, tau_u, (n_groups, 1)) + rng.normal(0, tau_v, (n_groups, n_clusters))


def uniform_shifts(rng, n_groups, n_clusters):
    """Shares uniform between 1 % and 99 %, as in the paper's setting 2: not what the model assumes."""
    return logit(rng.uniform(0.01, 0.99, (n_groups, n_clusters))) - logit(PRIOR)


@pytest.mark.parametrize("rows", [20, 200])
@pytest.mark.parametrize(
    "shifts",
    [
        pytest.param(lambda rng: model_shifts(rng, 60, 3, 0.6, 0.4), id="from the model"),
        pytest.param(lambda rng: model_shifts(rng, 60, 1, 0.8, 0.0), id="one cluster"),
        pytest.param(lambda rng: uniform_shifts(rng, 60, 3), id="uniform shares"),
    ],
)
def test_intervals_hold_the_true_shift_at_their_rate(shifts, rows):
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = shifts(rng)
        found = pool(draw_cells(truth, rows, rng), len(truth))
        inside.append(np.abs(found.shift - truth) < Z90 * np.sqrt(found.variance))
    # Two standard errors: rates of 60 cells in one cluster differ from seed to seed by 0.07, twelve seeds know them to 0.02.
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


def test_intervals_of_unseen_groups_hold_at_their_rate():
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = model_shifts(rng, 80, 2, 0.6, 0.4)
        found = pool(draw_cells(truth[:40], 50, rng), 40)
        inside.append(np.abs(found.cluster_shift - truth[40:]) < Z90 * np.sqrt(found.unseen_variance))
    # Twenty seeds of 80 cells that share their common shift: two standard errors.
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(("tau_u", "tau_v"), [(0.8, 0.3), (0.3, 0.8), (0.5, 0.5)])
def test_variances_and_common_shifts_are_found_again(tau_u, tau_v):
    rng = np.random.default_rng(1)
    m = np.array([-0.5, 0.2, 0.9, 0.0])
    truth = m + model_shifts(rng, 400, 4, tau_u, tau_v, m=0)
    found = pool(draw_cells(truth, 100, rng), 400)
    # Two standard errors: 400 groups of four cells know τ_u² + τ_v²/4 to 7 %, which is ±0.03 on a small τ_u.
    assert np.sqrt(found.group_variance) == pytest.approx(tau_u, abs=0.06)
    assert np.sqrt(found.cell_variance) == pytest.approx(tau_v, abs=0.06)
    assert (np.abs(found.cluster_shift - m) < 4 * np.sqrt(found.cluster_variance)).all()


def test_groups_that_are_alike_are_pooled_into_one():
    rng = np.random.default_rng(2)
    found = pool(draw_cells(np.full((300, 1), 0.7), 100, rng), 300)
    # A group of 100 rows alone knows its shift to 0.3: all but a few hundredths is borrowed, and all groups get one answer.
    assert np.sqrt(found.group_variance) < 0.05
    assert found.pooling.min() > 0.95
    assert (np.abs(found.shift - 0.7) < 2 * np.sqrt(found.variance)).all()


def test_cells_with_many_rows_keep_their_own_answer():
    rng = np.random.default_rng(3)
    points = draw_cells(model_shifts(rng, 10, 2, 1.0, 0.5), 20_000, rng)
    own = logit(mlls(points, labeled_prior=PRIOR).share) - logit(PRIOR)
    found = pool(points, 10)
    assert (np.abs(found.shift.ravel() - own) < 0.5 * np.sqrt(found.variance.ravel())).all()
    assert found.pooling.max() < 0.05


def test_pooled_shifts_are_nearer_the_truth_than_each_cell_on_its_own():
    rng = np.random.default_rng(4)
    truth = model_shifts(rng, 100, 3, 0.6, 0.3)
    points = draw_cells(truth, 20, rng)
    own = logit(np.clip(mlls(points, labeled_prior=PRIOR).share, 0.02, 0.98)) - logit(PRIOR)
    pooled_error = np.mean((pool(points, 100).shift - truth) ** 2)
    assert pooled_error < 0.5 * np.mean((own.reshape(truth.shape) - truth) ** 2)


def test_an_empty_cell_takes_its_clusters_shift_and_its_groups():
    rng = np.random.default_rng(5)
    truth = model_shifts(rng, 30, 3, 0.8, 0.3)
    rows = np.full((30, 3), 200)
    rows[4, 2] = rows[7] = 0
    found = pool(draw_cells(truth, rows, rng), 30)
    assert found.shift[4, 2] == pytest.approx(found.cluster_shift[2] + found.group_effect[4], abs=1e-12)
    # A group without any rows is an unseen group; variance components have settled to seven digits.
    np.testing.assert_allclose(found.shift[7], found.cluster_shift, atol=1e-12)
    np.testing.assert_allclose(found.variance[7], found.unseen_variance, rtol=1e-6)
    np.testing.assert_allclose(found.pooling[7], 1, rtol=1e-6)
    assert found.variance[4, 2] > found.variance[4, :2].max()


def test_one_group_one_cluster_is_its_maximum_likelihood():
    points = draw_cells([[0.8]], 2000, np.random.default_rng(6))
    own = logit(mlls(points, labeled_prior=PRIOR).share) - logit(PRIOR)
    found = pool(points, 1, tol=1e-9)
    # The weak prior towards no shift, of variance 4.05, counts for a thousandth beside 2000 rows.
    np.testing.assert_allclose(found.shift[0], own * (1 - found.variance[0] / 4.05), rtol=1e-4)


@given(st.randoms(use_true_random=False))
@settings(max_examples=8)
def test_group_and_cluster_names_do_not_matter(random):
    rng = np.random.default_rng(7)
    truth = model_shifts(rng, 12, 3, 0.6, 0.4)
    points = draw_cells(truth, 30, rng)
    group, cluster = np.array(random.sample(range(12), 12)), np.array(random.sample(range(3), 3))
    new_cell = (group[:, None] * 3 + cluster).ravel()
    plain, renamed = (
        pool(points, 12),
        pool(collect_points(points.score, new_cell[points.cell], n_cells=36), 12),
    )
    np.testing.assert_allclose(renamed.shift[np.ix_(group, cluster)], plain.shift, atol=1e-6)
    np.testing.assert_allclose(renamed.variance[np.ix_(group, cluster)], plain.variance, atol=1e-6)


def test_the_scale_of_weights_does_not_matter():
    rng = np.random.default_rng(8)
    score, cell, weight = rng.normal(0, 2, 600), rng.integers(0, 20, 600), rng.exponential(size=600)
    one, other = (
        pool(collect_points(score, cell, n_cells=20, weight=w), 10) for w in (weight, 1000 * weight)
    )
    np.testing.assert_allclose(other.shift, one.shift, atol=1e-6)
    np.testing.assert_allclose(other.variance, one.variance, atol=1e-6)


def test_centered_groups_have_no_common_shift():
    rng = np.random.default_rng(9)
    points = draw_cells(model_shifts(rng, 40, 2, 0.5, 0.2, m=0), 100, rng)
    assert (pool(points, 40, centered=True).cluster_shift == 0).all()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.99, 1.0])
def test_extreme_shares_stay_finite_and_in_doubt(share):
    rng = np.random.default_rng(10)
    cell = np.repeat(np.arange(40), 25)
    y = rng.random(len(cell)) < share
    x = rng.normal(3.0 * y)
    score = logit(PRIOR) + norm.logpdf(x, 3) - norm.logpdf(x, 0)
    found = pool(collect_points(score, cell, n_cells=40), 40)
    assert np.isfinite(found.shift).all()
    assert np.abs(found.shift).max() <= MAX_SHIFT
    assert (found.variance > 0).all()


def test_scores_of_certainty_give_finite_shifts():
    score = np.r_[np.full(50, np.inf), np.full(50, -np.inf)]
    found = pool(collect_points(score, np.arange(100) % 4, n_cells=4), 2)
    assert np.isfinite(found.shift).all()
    assert np.isfinite(found.variance).all()


@pytest.fixture(scope="module")
def twenty_groups():
    rng = np.random.default_rng(11)
    return draw_cells(model_shifts(rng, 20, 2, 0.5, 0.3), 40, rng)


def test_trust_scales_shifts_and_their_spread(twenty_groups):
    found = pool(twenty_groups, 20)
    half = found.scaled(0.5, residual_variance=0.1)
    np.testing.assert_allclose(half.shift, found.shift / 2)
    np.testing.assert_allclose(half.variance, found.variance / 4 + 0.1)
    unsure = found.scaled(0.5, residual_variance=0.1, trust_variance=0.2)
    np.testing.assert_allclose(unsure.variance, half.variance + 0.2 * found.shift**2)
    assert (found.scaled(0.0).shift == 0).all()


def test_fifty_thousand_groups_of_one_row_take_a_few_dozen_passes(monkeypatch):
    passes = []

    class Counted(CellLikelihood):
        def information(self, eta):
            passes.append("Newton")
            return super().information(eta)

        def log_likelihood(self, eta):
            passes.append("quadrature")
            return super().log_likelihood(eta)

    monkeypatch.setattr(shrinkage, "CellLikelihood", Counted)
    rng = np.random.default_rng(14)
    points = draw_cells(model_shifts(rng, 50_000, 1, 0.7, 0.0), 1, rng)
    found = pool(points, 50_000)
    # Fifteen nodes of quadrature a sweep.
    assert passes.count("Newton") <= 20
    assert passes.count("quadrature") <= 4 * 15
    assert np.isfinite(found.shift).all()
    assert abs(found.cluster_shift[0] - 0.3) < 4 * np.sqrt(found.cluster_variance[0])
    # From seed to seed the spread over 50,000 groups is found to 0.3 %, and some 0.2 % too large.
    assert np.sqrt(found.group_variance) == pytest.approx(0.7, rel=0.015)
