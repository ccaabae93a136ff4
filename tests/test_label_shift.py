"""Class shares of many cells: the solver against brute force, EM and theory, and what must not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from cells import mixture, priors, scores, tables
from groupshift._math.label_shift import CellLikelihood, bbse, em, mlls, prediction_rates
from groupshift._math.points import BIN_WIDTH, collect_points


def log_likelihood(share, score, weight, prior):
    """Σ w log(α r⁺ + (1 − α) r⁻), straight from its definition."""
    posterior = expit(score)
    return weight @ np.log(share * posterior / prior + (1 - share) * (1 - posterior) / (1 - prior))


def brute_force(score, weight, prior):
    """The best share on a fine grid, polished by bounded search around it."""
    grid = np.linspace(0, 1, 401)
    best = grid[np.argmax([log_likelihood(a, score, weight, prior) for a in grid])]
    found = minimize_scalar(
        lambda a: -log_likelihood(a, score, weight, prior),
        bounds=(max(best - 0.003, 0), min(best + 0.003, 1)),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return max([0.0, 1.0, found.x], key=lambda a: log_likelihood(a, score, weight, prior))


@given(tables())
def test_newton_equals_brute_force(table):
    score, cell, weight, prior = table
    shares = mlls(collect_points(score, cell, n_cells=4, weight=weight), labeled_prior=prior)
    for k in np.unique(cell):
        own = cell == k
        args = score[own], weight[own], prior[k]
        # A flat likelihood has no one best share: what must be equal is its height.
        assert log_likelihood(shares.share[k], *args) >= log_likelihood(brute_force(*args), *args) - 1e-7
        assert 0 <= shares.share[k] <= 1


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.97])
def test_newton_finds_the_best_share_to_eight_digits(share):
    score, _ = mixture(share, 500, seed=1)
    found = mlls(collect_points(score, np.zeros(500, int), n_cells=1), labeled_prior=0.5).share[0]
    assert found == pytest.approx(brute_force(score, np.ones(500), 0.5), abs=1e-8)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_newton_is_the_fixed_point_of_em(share):
    score, _ = mixture(share, 400, seed=2)
    points = collect_points(score, np.zeros(400, int), n_cells=1)
    newton = mlls(points, labeled_prior=0.5)
    long_em, _ = em(points, labeled_prior=0.5, n_iter=3000)
    assert long_em.share == pytest.approx(newton.share, abs=1e-8)
    one_step, _ = em(points, labeled_prior=0.5, n_iter=1, start=newton.share)
    assert one_step.share == pytest.approx(newton.share, abs=1e-9)
    assert long_em.std_error == pytest.approx(newton.std_error, rel=1e-5)


def test_newton_needs_a_handful_of_passes():
    cells = np.repeat(np.arange(50), 200)
    score = np.concatenate([mixture(a, 200, seed=i)[0] for i, a in enumerate(np.linspace(0.01, 0.99, 50))])
    assert mlls(collect_points(score, cells, n_cells=50), labeled_prior=0.5).n_iter <= 15


@given(tables(), st.integers(1, 30))
def test_em_never_lowers_the_likelihood(table, n_iter):
    score, cell, weight, prior = table
    _, trace = em(collect_points(score, cell, n_cells=4, weight=weight), labeled_prior=prior, n_iter=n_iter)
    assert trace.shape == (n_iter + 1, 4)
    for k in np.unique(cell):
        own = cell == k
        height = [log_likelihood(a, score[own], weight[own], prior[k]) for a in trace[:, k]]
        assert (np.diff(height) >= -1e-9 * (1 + abs(height[0]))).all()


def test_em_starts_at_the_mean_posterior_and_stops_where_it_is_told():
    score = np.array([-1.0, 0.5, 2.0])
    shares, trace = em(collect_points(score, [0, 0, 0], n_cells=1), labeled_prior=0.3, n_iter=7)
    assert trace[0, 0] == pytest.approx(expit(score).mean())
    assert shares.n_iter == 7
    assert shares.share[0] == trace[-1, 0]
    # The first step, by hand.
    odds = np.exp(score) * (trace[0, 0] / (1 - trace[0, 0])) / (0.3 / 0.7)
    assert trace[1, 0] == pytest.approx((odds / (1 + odds)).mean())


@given(tables(), st.randoms(use_true_random=False))
def test_row_order_and_cell_names_do_not_matter(table, random):
    score, cell, weight, prior = table
    order = np.array(random.sample(range(len(score)), len(score)))
    rename = np.array(random.sample(range(4), 4))
    plain = mlls(collect_points(score, cell, n_cells=4, weight=weight), labeled_prior=prior)
    renamed_prior = np.empty(4)
    renamed_prior[rename] = prior
    shuffled = mlls(
        collect_points(score[order], rename[cell[order]], n_cells=4, weight=weight[order]),
        labeled_prior=renamed_prior,
    )
    np.testing.assert_allclose(shuffled.share[rename], plain.share, atol=1e-6)


@given(tables(), st.floats(1e-3, 1e3))
def test_the_scale_of_weights_does_not_matter(table, scale):
    score, cell, weight, prior = table
    one = mlls(collect_points(score, cell, n_cells=4, weight=weight), labeled_prior=prior)
    other = mlls(collect_points(score, cell, n_cells=4, weight=scale * weight), labeled_prior=prior)
    np.testing.assert_allclose(other.share, one.share, atol=1e-6)
    np.testing.assert_allclose(other.std_error, one.std_error, rtol=1e-4)


@given(tables())
def test_a_doubled_weight_moves_a_share_as_a_repeated_row_does(table):
    score, cell, _, prior = table
    twice = np.arange(len(score)) % 2 == 0
    weighted = collect_points(score, cell, n_cells=4, weight=1.0 + twice)
    repeated = collect_points(np.r_[score, score[twice]], np.r_[cell, cell[twice]], n_cells=4)
    np.testing.assert_allclose(
        mlls(weighted, labeled_prior=prior).share, mlls(repeated, labeled_prior=prior).share, atol=1e-6
    )
    np.testing.assert_allclose(
        em(weighted, labeled_prior=prior)[0].share, em(repeated, labeled_prior=prior)[0].share, atol=1e-9
    )


@given(tables(), arrays(float, 4, elements=st.floats(-4, 4)))
def test_prepared_likelihoods_are_those_of_the_definition(table, eta):
    score, cell, weight, prior = table
    points = collect_points(score, cell, n_cells=4, weight=weight)
    likelihood = CellLikelihood(points, logit(prior))
    gradient, information = likelihood.information(eta)
    for c in np.unique(cell):
        own = cell == c
        w = weight[own] * weight[own].sum() / (weight[own] ** 2).sum()
        q = expit(score[own] - logit(prior[c]) + eta[c])
        np.testing.assert_allclose(gradient[c], w @ (q - expit(eta[c])), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(information[c], w @ (q - expit(eta[c])) ** 2, rtol=1e-9, atol=1e-9)


@given(tables())
def test_rows_of_no_weight_do_not_count(table):
    score, cell, weight, prior = table
    # Every other row, the last one included, is silenced.
    silent = np.arange(len(score))[::-1] % 2 == 0
    with_them = mlls(
        collect_points(score, cell, n_cells=4, weight=np.where(silent, 0, weight)), labeled_prior=prior
    )
    points = collect_points(score[~silent], cell[~silent], n_cells=4, weight=weight[~silent])
    without = mlls(points, labeled_prior=prior)
    np.testing.assert_allclose(with_them.share, without.share, atol=1e-9)


@given(scores, priors)
def test_swapping_the_classes_swaps_the_share(score, prior):
    # A flat optimum is found to the square root of precision.
    cell = np.zeros(len(score), int)
    one = mlls(collect_points(score, cell, n_cells=1), labeled_prior=prior)
    other = mlls(collect_points(-score, cell, n_cells=1), labeled_prior=1 - prior)
    height = log_likelihood(one.share[0], score, np.ones(len(score)), prior)
    assert log_likelihood(1 - other.share[0], score, np.ones(len(score)), prior) == pytest.approx(
        height, abs=1e-7
    )


@given(arrays(float, st.integers(1, 10), elements=st.floats(allow_nan=False, allow_infinity=True)), priors)
def test_scores_at_the_edges_never_give_nan(score, prior):
    cell = np.zeros(len(score), int)
    for width in (None, BIN_WIDTH):
        points = collect_points(score, cell, n_cells=1, bin_width=width)
        for shares in (
            mlls(points, labeled_prior=prior),
            em(points, labeled_prior=prior, n_iter=20)[0],
            bbse(points, true_positive_rate=0.9, false_positive_rate=0.2),
            bbse(points, true_positive_rate=0.9, false_positive_rate=0.2, soft=True),
        ):
            assert 0 <= shares.share[0] <= 1
            assert shares.std_error[0] >= 0


def test_a_cell_without_rows_is_unknown_and_leaves_others_alone():
    score, _ = mixture(0.3, 100)
    points = collect_points(score, np.ones(100, int), n_cells=3)
    alone = mlls(collect_points(score, np.zeros(100, int), n_cells=1), labeled_prior=0.5)
    rates = {"true_positive_rate": 0.8, "false_positive_rate": 0.1}
    for shares in (mlls(points, labeled_prior=0.5), em(points, labeled_prior=0.5)[0], bbse(points, **rates)):
        assert np.isnan(shares.share[[0, 2]]).all()
        assert np.isinf(shares.std_error[[0, 2]]).all()
    assert mlls(points, labeled_prior=0.5).share[1] == alone.share[0]


def test_scores_that_say_nothing_keep_the_labelled_prior():
    points = collect_points(np.full(20, logit(0.3)), np.zeros(20, int), n_cells=1)
    shares = mlls(points, labeled_prior=0.3)
    assert shares.share[0] == pytest.approx(0.3)
    # Rounding leaves a spark of information: the error is as good as infinite.
    assert shares.std_error[0] > 1e6


def test_no_rows_at_all_is_a_valid_input():
    for weight in (None, []):
        points = collect_points([], [], n_cells=2, bin_width=BIN_WIDTH, weight=weight)
        assert points.weight_sum.dtype == points.weight_square_sum.dtype == float
        assert np.isnan(mlls(points, labeled_prior=0.5).share).all()
        assert np.isnan(em(points, labeled_prior=0.5)[0].share).all()


@pytest.mark.parametrize("soft", [False, True])
@given(share=st.floats(0, 1), labeled_share=priors)
@settings(max_examples=25)
def test_bbse_is_exact_on_exact_populations(soft, share, labeled_share):
    # Four kinds of rows with known frequencies in each class: weights are exact, not sampled.
    positive, negative = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.25, 0.15, 0.1])
    score = logit(labeled_share) + np.log(positive / negative)
    tpr, fpr = prediction_rates(
        np.r_[score, score],
        np.repeat([1, 0], 4),
        weight=np.r_[labeled_share * positive, (1 - labeled_share) * negative],
        soft=soft,
    )
    if abs(tpr - fpr) < 1e-6:
        return
    population = collect_points(
        score, np.zeros(4, int), n_cells=1, weight=share * positive + (1 - share) * negative
    )
    found = bbse(population, true_positive_rate=tpr, false_positive_rate=fpr, soft=soft)
    assert found.share[0] == pytest.approx(share, abs=1e-8)
    # So is maximum likelihood: at the true share the population's likelihood is highest.
    assert mlls(population, labeled_prior=labeled_share).share[0] == pytest.approx(share, abs=1e-6)


def test_bbse_without_a_difference_between_classes_knows_nothing():
    points = collect_points([1.0, -1.0], [0, 0], n_cells=1)
    found = bbse(points, true_positive_rate=0.5, false_positive_rate=0.5)
    assert np.isnan(found.share[0])
    assert np.isinf(found.std_error[0])


@pytest.mark.parametrize(("share", "distance"), [(0.5, 1.5), (0.1, 2.0), (0.3, 0.8)])
@pytest.mark.parametrize("method", ["mlls", "bbse-hard", "bbse-soft"])
def test_standard_errors_match_simulation(method, share, distance):
    n, draws = 400, 800
    score, _ = mixture(share, n * draws, seed=5, distance=distance)
    points = collect_points(score, np.repeat(np.arange(draws), n), n_cells=draws)
    if method == "mlls":
        shares = mlls(points, labeled_prior=0.5)
    else:
        labeled, y = mixture(0.5, 400_000, seed=6, distance=distance)
        soft = method == "bbse-soft"
        tpr, fpr = prediction_rates(labeled, y, soft=soft)
        shares = bbse(points, true_positive_rate=tpr, false_positive_rate=fpr, soft=soft)
    # 800 draws know a spread to 2.5 %; the rest is curvature that 400 rows do not quite average out.
    assert np.sqrt(np.mean(shares.std_error**2)) == pytest.approx(shares.share.std(), rel=0.12)
    # Three standard errors of the mean, and the bias that a bounded estimate has near 0.
    assert abs(shares.share.mean() - share) < 3 * shares.share.std() / np.sqrt(draws) + 0.01


def test_unequal_weights_widen_the_standard_error_as_kish_says():
    rng = np.random.default_rng(8)
    n, draws = 300, 600
    score, _ = mixture(0.4, n * draws, seed=8)
    weight = rng.exponential(size=n * draws)
    shares = mlls(
        collect_points(score, np.repeat(np.arange(draws), n), n_cells=draws, weight=weight), labeled_prior=0.5
    )
    # 600 draws know a spread to 3 %; Kish's formula takes weights to be independent of scores, as here.
    assert np.sqrt(np.mean(shares.std_error**2)) == pytest.approx(shares.share.std(), rel=0.12)


def test_intervals_hold_the_true_share_at_their_rate():
    n, draws = 300, 2000
    score, _ = mixture(0.35, n * draws, seed=11)
    shares = mlls(collect_points(score, np.repeat(np.arange(draws), n), n_cells=draws), labeled_prior=0.5)
    inside = np.abs(shares.share - 0.35) < 1.645 * shares.std_error
    # Four standard errors of a rate over 2000 draws.
    assert inside.mean() == pytest.approx(0.9, abs=4 * np.sqrt(0.9 * 0.1 / draws))


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1])
def test_a_labelled_prior_of_0_or_1_is_refused(prior):
    points = collect_points([0.0], [0], n_cells=1)
    for method in (mlls, em):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            method(points, labeled_prior=prior)
