"""Evidence on shifts is unbiased with the noise it names; the random-effects model finds variances and holds its intervals."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm

from groupshift._scores.contrasts import basis
from groupshift._shifts.effects import (
    CORRELATION,
    LOADING,
    MEAN,
    MISFIT_SPREAD,
    NOT_SHARED,
    RATIO,
    SCALE,
    SPREAD,
    Hypothesis,
    hypotheses,
    learn_effects,
)
from groupshift._shifts.evidence import (
    COMPARISON,
    LABELED_SCORES,
    POPULATION_SCORES,
    Evidence,
    LabeledSums,
    gather,
    labeled_prior,
)
from groupshift._shifts.sums import Bins, Sums

PRIOR = 0.4


def draw_rows(shift, n_rows, rng, distance=2.0):
    """Scores, classes and cells of rows: two normal classes, scores under a prior of .4, shares moved by the shifts."""
    cell = np.repeat(np.arange(shift.size), n_rows)
    y = (rng.random(len(cell)) < expit(logit(PRIOR) + shift).ravel()[cell]).astype(int)
    x = rng.normal(distance * y)
    score = logit(PRIOR) + norm.logpdf(x, distance) - norm.logpdf(x, 0)
    return score[:, None], y, cell


def evidence_of(labeled, population, n_labeled, n_population, rng, misfit=None):
    """`gather` for cells with these shifts of both samples, (n_groups, K), and scores of both that are off by `misfit`."""
    n_cells, K = labeled.size, labeled.shape[1]
    off = np.zeros(n_cells) if misfit is None else misfit.ravel()
    score, y, cell = draw_rows(labeled, n_labeled, rng)
    score = score + off[cell, None]
    own = LabeledSums.of(score, y, cell, np.ones(len(y)), n_cells, Bins(1 / 256))
    score, _, cell = draw_rows(population, n_population, rng)
    score = score + off[cell, None]
    others = Sums.of(score, cell, np.ones(len(cell)), n_cells, Bins(1 / 256))
    prior = np.full((K, 1), logit(PRIOR))
    return partial(gather, own, others, prior, labeled_effect=1.0, population_effect=1.0)


def standardized_errors(n_labeled, n_population, spread, n_groups=2000):
    """Of the working responses at the true shifts, (n_groups, 4); and the correlations of the noise that are claimed."""
    rng = np.random.default_rng(0)
    labeled, population = rng.normal(0, spread, (2, n_groups, 1))
    at = np.stack([labeled, labeled, population, population - labeled])[..., None]
    found = evidence_of(labeled, population, n_labeled, n_population, rng)(at)
    error = (found.response + found.common[:, None] - at.swapaxes(0, 1))[:, :, 0, 0]
    deviation = np.sqrt(np.einsum("gii->gi", found.noise))
    return error / deviation, found.noise / deviation[:, :, None] / deviation[:, None, :]


@pytest.mark.parametrize(("n_labeled", "n_population", "spread"), [(50, 200, 0.3), (400, 800, 0.6)])
def test_every_kind_of_evidence_is_unbiased_and_has_the_noise_it_names(n_labeled, n_population, spread):
    error, correlation = standardized_errors(n_labeled, n_population, spread)
    # Four standard errors of the mean of 2,000, and what is left where cells have few rows.
    np.testing.assert_allclose(error.mean(0), 0, atol=0.1)
    np.testing.assert_allclose(error.std(0), 1, atol=0.1)
    # The comparison shares noise with the population's scores, and with the labelled rows' with the other sign.
    np.testing.assert_allclose(np.corrcoef(error.T), correlation.mean(0), atol=0.1)
    assert correlation[:, COMPARISON, POPULATION_SCORES].mean() > 0.3
    assert correlation[:, COMPARISON, LABELED_SCORES].mean() < -0.3


def test_rows_that_count_half_make_twice_the_noise():
    rng = np.random.default_rng(1)
    at = np.zeros((4, 5, 2, 1))
    by = evidence_of(np.zeros((5, 2)), np.zeros((5, 2)), 40, 60, rng)
    once, twice = by(at), by(at, labeled_effect=2.0, population_effect=2.0)
    np.testing.assert_allclose(twice.noise, 2 * once.noise, rtol=1e-5)
    np.testing.assert_allclose(twice.response, once.response, atol=0.05)


def test_cells_without_rows_say_nothing():
    rng = np.random.default_rng(2)
    n_labeled, n_population = np.array([50, 0, 50]), np.array([50, 50, 0])
    found = evidence_of(np.zeros((3, 1)), np.zeros((3, 1)), n_labeled, n_population, rng)(
        np.zeros((4, 3, 1, 1))
    )
    silent = np.einsum("gii->gi", found.noise) > 1e5
    assert silent.tolist() == [[False] * 4, [True, True, False, True], [False, False, True, True]]
    assert (found.response[:, :, 0, 0][silent] == 0).all()


def drawn_evidence(rng, n_groups, *, labeled=0.6, population=0.4, correlation=0.0, misfit=0.2, noise=0.1):
    """Evidence as the model has it, in one cell for each group; and the shifts of the population."""
    D = np.array([[labeled**2, correlation * labeled * population]] * 2)
    D[1] = correlation * labeled * population, population**2
    shifts = rng.multivariate_normal(np.zeros(2), D, n_groups)
    shared = rng.normal(0, misfit, n_groups)[:, None] * [0, 1, 1, 0]
    apart = rng.multivariate_normal(np.zeros(4), NOT_SHARED, n_groups)
    response = shifts @ LOADING.T + shared + apart + rng.normal(0, noise, (n_groups, 4))
    each = np.broadcast_to(noise**2 * np.eye(4), (n_groups, 4, 4))
    found = Evidence(response[:, :, None, None], each, np.zeros((4, 1)))
    return found, shifts[:, 1]


CHOSEN = (Hypothesis(1.0, {}),)


@pytest.mark.parametrize(("labeled", "population", "correlation"), [(0.8, 0.4, 0.0), (0.5, 0.5, 0.8)])
def test_variances_are_found_again(labeled, population, correlation):
    made = {"labeled": labeled, "population": population, "correlation": correlation, "misfit": 0.3}
    found, _ = drawn_evidence(np.random.default_rng(0), 2000, **made)
    x = learn_effects(lambda at: found, (2000, 1, 1), np.zeros(2000, bool), CHOSEN).parameters
    # Two thousand groups know a standard deviation to 2 %, and the misfit beside what is not shared a little worse.
    assert np.exp(x[SPREAD]) == pytest.approx(labeled, rel=0.1)
    assert np.exp(x[SPREAD] + x[RATIO]) == pytest.approx(population, rel=0.1)
    assert np.exp(x[MISFIT_SPREAD]) == pytest.approx(0.3, rel=0.15)
    assert expit(x[CORRELATION]) == pytest.approx(correlation, abs=0.1)


def test_few_groups_stay_near_what_was_thought_before():
    found, _ = drawn_evidence(np.random.default_rng(0), 2)
    x = learn_effects(lambda at: found, (2, 1, 1), np.zeros(2, bool), CHOSEN).parameters
    assert 0.05 < np.exp(x[SPREAD]) < 2


def inside(effects, truth):
    return np.abs(effects.mean[:, 0, 0] - truth) < 1.645 * np.sqrt(effects.covariance[:, 0, 0])


def test_intervals_of_the_model_hold_at_their_level_over_its_own_prior():
    """The variances are drawn as they are thought to be before anything is seen, and plugged in where they are found."""
    held = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(MEAN, SCALE)
        made = {
            "labeled": np.exp(x[SPREAD]),
            "population": np.exp(x[SPREAD] + x[RATIO]),
            "correlation": expit(x[CORRELATION]),
            "misfit": np.exp(x[MISFIT_SPREAD]),
        }
        found, truth = drawn_evidence(rng, 40, **made)
        held.append(
            inside(
                learn_effects(lambda at, f=found: f, (40, 1, 1), np.zeros(40, bool), hypotheses("unknown")),
                truth,
            )
        )
    assert 0.85 <= np.mean(held) <= 0.95


@pytest.mark.parametrize("misfit", [0.0, 0.6])
def test_intervals_hold_whatever_the_misfit(misfit):
    held = []
    for seed in range(8):
        found, truth = drawn_evidence(np.random.default_rng(seed), 60, misfit=misfit)
        held.append(
            inside(learn_effects(lambda at, f=found: f, (60, 1, 1), np.zeros(60, bool), CHOSEN), truth)
        )
    assert 0.85 <= np.mean(held) <= 0.95


@pytest.mark.parametrize("n_population", [60, 400])
def test_intervals_of_shifts_from_rows_hold_at_their_level(n_population):
    """Groups whose labels were chosen; likelihoods of rows, and their approximations."""
    held = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labeled, population = rng.normal(0, 0.6, (60, 2)), rng.normal(0, 0.5, (60, 2))
        # What all groups have in common is no matter of this model.
        population -= population.mean()
        by = evidence_of(labeled, population, 100, n_population, rng)
        effects = learn_effects(by, (60, 2, 1), np.zeros(60, bool), hypotheses("unknown"))
        deviation = np.sqrt(np.einsum("gii->gi", effects.covariance))
        held.append(np.abs(effects.mean[:, :, 0] - population) < 1.645 * deviation)
    # The model allows for a misfit, which these rows do not have: a little too wide.
    assert 0.85 <= np.mean(held) <= 0.97


def test_labels_that_are_a_random_sample_are_taken_for_one_and_chosen_ones_are_not():
    rng = np.random.default_rng(3)
    shift = rng.normal(0, 0.6, (60, 1))
    random, chosen = (
        learn_effects(
            evidence_of(shift, other, 200, 600, rng), (60, 1, 1), np.zeros(60, bool), hypotheses("unknown")
        )
        for other in (shift, rng.normal(0, 0.6, (60, 1)))
    )
    assert random.random > 0.5
    assert chosen.random < 0.01
    # A group's own labels then count.
    assert np.sqrt(np.mean((random.mean[:, :, 0] - shift) ** 2)) < 0.15


@pytest.fixture(scope="module")
def several():
    """Evidence on ten groups in three cells of three classes."""
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(3), 3000)
    score = 2 * np.log(p) @ basis(2)
    y = (rng.random((3000, 1)) > p.cumsum(1)[:, :2]).sum(1)
    return score, y, rng.integers(0, 10, 3000), rng.integers(0, 3, 3000), rng.random(3000) < 0.5


def effects_of(score, y, group, cluster, is_labeled):
    cell, one = group * 3 + cluster, np.ones(len(y))
    own, others = is_labeled, ~is_labeled
    bins = Bins.of(score, 30, 0)
    sums = LabeledSums.of(score[own], y[own], cell[own], one[own], 30, bins)
    others = Sums.of(score[others], cell[others], one[others], 30, bins)
    by = partial(gather, sums, others, labeled_prior(sums, 3), labeled_effect=1.0, population_effect=1.0)
    return learn_effects(by, (10, 3, 2), np.zeros(10, bool), hypotheses("unknown"))


@settings(max_examples=6)
@given(st.permutations(range(10)), st.permutations(range(3)))
def test_names_of_groups_and_clusters_do_not_matter(several, group, cluster):
    score, y, of_group, of_cluster, is_labeled = several
    group, cluster = np.array(group), np.array(cluster)
    plain = effects_of(*several)
    renamed = effects_of(score, y, group[of_group], cluster[of_cluster], is_labeled)
    np.testing.assert_allclose(renamed.mean[np.ix_(group, cluster)], plain.mean, atol=1e-5)
    assert renamed.random == pytest.approx(plain.random, abs=1e-5)


@given(st.permutations(range(3)))
def test_the_order_of_classes_does_not_matter(several, order):
    score, y, group, cluster, is_labeled = several
    order, B = np.array(order), basis(2)
    plain = effects_of(*several)
    # Log-probabilities with their columns in another order, as contrasts.
    turned = 2 * (score @ B.T)[:, np.argsort(order)] @ B
    found = effects_of(turned, order[y], group, cluster, is_labeled)
    np.testing.assert_allclose((found.mean @ B.T)[..., order], plain.mean @ B.T, atol=1e-4)
