"""Three views of one shift: the algebra against brute force, and what is believed in worlds whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from groupshift._math.importance import find_modes, integrate
from groupshift._math.sites import cell_sites
from groupshift._math.view_worlds import (
    LABELS,
    MISSING,
    OWN_SCORES,
    SCORES,
    Views,
    World,
    levels_of,
    likelihood_gradients,
    log_likelihood,
)
from groupshift._math.views import Draws, _predict, label_sites, learn_views
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._math.points import collect_points


@pytest.mark.parametrize("is_steep", [False, True])
@pytest.mark.parametrize(
    ("is_selected", "is_remainder", "is_apart"),
    [(False, False, False), (True, False, False), (True, True, False), (True, False, True)],
)
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_predictions_and_likelihood_are_those_of_the_whole_covariance(
    n_clusters, is_selected, is_remainder, is_apart, is_steep
):
    rng = np.random.default_rng(0)
    shape = (4, n_clusters, 3)
    precision = rng.uniform(0.5, 5, shape) * (rng.random(shape) < 0.8)
    views = Views(rng.normal(size=shape), precision, rng.uniform(0, 0.5, 4))
    world = World(is_selected, is_remainder, n_clusters, is_steep, is_apart)
    x = np.append(rng.normal(-1, 0.5, len(world.scales)), [0.4, 0.1, 0.3][-len(world.others) :])[None]
    levels = [*levels_of(world.table(x), views.remainder, n_clusters)]

    def stacked(entries, h):
        return np.array([entry[0, min(h, entry.shape[1] - 1)] for entry in entries])

    def covariance(level, h):
        return np.array([stacked(row, h) for row in level.covariance])

    (found,) = _predict([Draws(world, x, np.ones(1))], views, False)
    likelihood = log_likelihood(world, x, views)[0]
    for g in range(4):
        # One entry of a level stands for all groups where these do not differ.
        h = g if is_remainder else 0
        noise = np.where(precision[g] > 0, 1 / np.maximum(precision[g], 1e-8), MISSING)
        total = np.kron(np.ones((n_clusters, n_clusters)), covariance(levels[0], h)) + np.diag(noise.ravel())
        if n_clusters > 1:
            total += np.kron(np.eye(n_clusters), covariance(levels[1], h))
        o = (views.response[g] - np.where(precision[g] > 0, [0, 0, 1], 0) * x[0, -1]).ravel()
        expected = -(np.linalg.slogdet(total)[1] + o @ np.linalg.solve(total, o)) / 2
        assert likelihood[g] == pytest.approx(expected, abs=1e-5)
        for k in range(n_clusters):
            of_group, variance = levels[0].target(False)
            target, variance = np.tile(stacked(of_group, h), n_clusters), stacked([variance], h)[0]
            if n_clusters > 1:
                of_cell, cell_variance = levels[1].target(False)
                target[3 * k : 3 * k + 3] += stacked(of_cell, h)
                variance = variance + stacked([cell_variance], h)[0]
            weight = np.linalg.solve(total, target)
            # A missing view has a variance of 1e8 instead of infinity.
            assert found.shift[g, k] == pytest.approx(weight @ o, abs=1e-5)
            assert found.variance[g, k] == pytest.approx(variance - target @ weight, abs=1e-5)
            np.testing.assert_allclose(found.use[g, k], weight.reshape(-1, 3).sum(0), atol=1e-5)


def world(n_groups=60, natural=0.4, selection=0.0, misfit=0.1, noise=0.15, seed=0, slope=1.0):
    """Views of groups whose parameters are known, and the true shifts of their populations.

    Scores make of natural differences `slope` times what they are.
    """
    rng = np.random.default_rng(seed)
    theta, select, m = (rng.normal(0, sd, n_groups) for sd in (natural, selection, misfit))
    seen = slope * theta
    views = np.stack([theta + select, seen + select + m, seen + m], 1) + rng.normal(0, noise, (n_groups, 3))
    precision = np.full((n_groups, 1, 3), noise**-2.0)
    return Views(views[:, None], precision, np.zeros(n_groups)), theta


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_are_a_random_sample_are_believed(seed):
    views, truth = world(seed=seed)
    model = learn_views(views)
    found = model.predict(views)
    assert model.no_selection > 0.8
    assert found.use[..., LABELS].mean() > 0.4
    assert np.mean((found.shift[:, 0] - truth) ** 2) < 0.25 * np.mean(truth**2)


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_were_selected_are_not(seed):
    views, truth = world(natural=0.3, selection=1.2, seed=seed)
    model = learn_views(views)
    found = model.predict(views)
    assert model.no_selection < 0.01
    assert abs(found.use[..., LABELS].mean()) < 0.3
    assert np.mean((found.shift[:, 0] - truth) ** 2) < 0.5 * np.mean(truth**2)


@pytest.mark.parametrize("seed", range(3))
def test_features_that_go_with_shares_do_not_make_selected_labels_believed(seed):
    """Scores of the population go with own labels four times as much as shares do: this is no sign of a random sample."""
    views, truth = world(natural=0.4, selection=1.0, seed=seed, slope=4.0)
    found = learn_views(views).predict(views)
    assert abs(found.use[..., LABELS].mean()) < 0.3
    assert np.mean((found.shift[:, 0] - truth) ** 2) < 0.25 * np.mean(truth**2)


@pytest.mark.parametrize("seed", range(3))
def test_a_population_with_shares_of_its_own_is_followed(seed):
    """Setting 2 of the paper: neither labels nor their scores say anything of the population's shift, its scores say all."""
    rng = np.random.default_rng(seed)
    of_labels, truth = rng.normal(0, 1.5, (2, 50, 8))
    seen = np.stack([of_labels, of_labels, truth], 2) + rng.normal(0, 0.5, (50, 8, 3))
    views = Views(seen, np.full(seen.shape, 4.0), np.zeros(50))
    found = learn_views(views).predict(views)
    # Labels less their scores show the misfit; of the shift they show nothing.
    assert abs(found.use[..., [LABELS, OWN_SCORES]].sum(-1).mean()) < 0.05
    # The best that a noise of half a unit allows is 0.1.
    assert np.mean((found.shift - truth) ** 2) < 0.15 * np.mean(truth**2)


def test_shifts_that_the_parameters_do_not_agree_on_are_told():
    """Labels of volunteers alone: positive or negative, as they were taken out of the population or not."""
    views, _ = world(natural=0.2, selection=1.2, misfit=2.0, noise=0.5)
    views = replace(views, remainder=np.full(60, 0.25))
    alone = learn_views(views).predict(views.only(LABELS))
    assert not alone.is_agreed
    assert not alone.without_shift().shift.any()
    # What is not used may be right: it stays in the variance.
    assert (alone.without_shift().variance >= alone.variance).all()
    sure, _ = world()
    assert learn_views(sure).predict(sure).is_agreed


def test_scores_are_not_believed_where_the_misfit_is_larger_than_any_shift():
    views, _ = world(natural=0.1, misfit=1.5)
    found = learn_views(views).predict(views.only(SCORES))
    assert found.use[..., SCORES].mean() < 0.05


def test_the_users_word_on_selection_is_taken():
    views, _ = world(natural=0.3, selection=0.6)
    told = {how: learn_views(views, selection=how).no_selection for how in ("random", "by_label")}
    assert told == pytest.approx({"random": 1.0, "by_label": 0.0})


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_with_few_groups_nothing_is_believed_fully(n_groups):
    views, _ = world(n_groups=n_groups)
    found = learn_views(views).predict(views.only(SCORES))
    assert np.isfinite(found.shift).all()
    assert found.use[..., SCORES].max() < 0.8


def test_intervals_hold_at_their_rate_over_worlds():
    inside = []
    for seed in range(12):
        views, truth = world(n_groups=30, natural=0.4, selection=0.5 * (seed % 2), seed=100 + seed)
        found = learn_views(views).predict(views)
        inside.append(np.abs(found.shift[:, 0] - truth) <= 1.645 * np.sqrt(found.variance[:, 0]))
    # 360 groups know a rate to ±1.6 %; worlds of 30 groups share what is not known of their parameters.
    assert 0.84 < np.mean(inside) < 0.96


def test_a_group_without_any_view_is_not_shifted_at_all():
    views, _ = world(n_groups=10)
    found = learn_views(views).predict(views.only())
    assert not found.shift.any()
    assert (found.variance > 0).all()


def test_sites_of_labels_are_those_of_a_logistic_regression():
    rng = np.random.default_rng(0)
    offset = rng.normal(size=4000)
    y = (rng.random(4000) < expit(offset + 0.7)).astype(int)
    response, precision = label_sites(offset, y, np.ones(4000), np.zeros(4000, int), 1)
    # The maximum of the likelihood solves the score equation.
    shift = 0.0
    for _ in range(30):
        p = expit(offset + shift)
        shift += (y - p).sum() / (p * (1 - p)).sum()
    assert response[0] == pytest.approx(shift, abs=1e-3)
    assert precision[0] == pytest.approx((p * (1 - p)).sum(), rel=1e-2)


def test_sites_of_scores_find_the_shift_that_made_them():
    rng = np.random.default_rng(0)
    share = expit(logit(0.5) + np.array([-1.0, 0.0, 1.5]))
    group = np.repeat(np.arange(3), 4000)
    y = rng.random(12_000) < share[group]
    score = 2 * (rng.normal(size=12_000) + np.where(y, 1, -1))
    sites = cell_sites(collect_points(score, group, n_cells=3), labeled_prior=np.array([0.5]), n_groups=3)
    error = (sites.response[:, 0] - [-1.0, 0.0, 1.5]) * np.sqrt(sites.weight[:, 0])
    assert np.abs(error).max() < 3


def volunteers(strength, seed=0, n_groups=40):
    """Groups that differ a little; the chance of a label depends on the label, in each group by a strength of its own."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), 500)
    truth = (rng.random(len(group)) < expit(rng.normal(0, 0.4, n_groups))[group]).astype(int)
    X = rng.normal(size=(len(group), 2)) + 0.8 * truth[:, None]
    odds = np.exp(rng.normal(0, strength, (n_groups, 2)))[group, truth] / 4
    labeled = rng.random(len(group)) < odds / (1 + odds)
    return X, np.where(labeled, truth, -1), group, truth


def losses(data, **settings):
    X, y, groups, truth = data
    model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0, **settings)
    p = model.fit(X, y, groups=groups).predict_proba(X[y < 0], groups[y < 0])[:, 1]
    hidden = truth[y < 0]
    return -np.mean(np.log(np.where(hidden == 1, p, 1 - p))), model


def test_random_labels_of_a_group_are_used_and_volunteers_do_no_harm():
    for strength, is_random in ((0.0, True), (1.2, False)):
        data = volunteers(strength)
        plain, _ = losses(data, shares=None, shrinkage="none", trust=1.0)
        ours, model = losses(data)
        assert ours < plain + 0.0005
        assert (model.view_use_.no_selection > 0.5) == is_random
        if is_random:
            assert ours < plain - 0.005


def test_shares_are_the_means_of_the_predictions():
    for refine in (0, 1):
        X, y, groups, _ = volunteers(0.5)
        model = GroupShiftClassifier(LogisticRegression(), 2, refine=refine, random_state=0)
        model.fit(X, y, groups=groups)
        p = model.predict_proba(X[y < 0], groups[y < 0])[:, 1]
        mean = np.bincount(groups[y < 0], weights=p) / np.bincount(groups[y < 0])
        # Scores are binned, which moves a share by less than a millionth.
        np.testing.assert_allclose(model.group_shares(by="group")["share"], mean, atol=1e-6)


def test_labels_chosen_by_features_do_not_move_the_overall_share():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 400)
    X = rng.normal(size=(len(group), 3))
    truth = (rng.random(len(group)) < expit(X[:, 0] + 0.5 * X[:, 1])).astype(int)
    labeled = rng.random(len(group)) < expit(X[:, 1] - 1)
    y = np.where(labeled, truth, -1)
    model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0).fit(X, y, groups=group)
    shares = model.group_shares(by="group")
    overall = np.average(shares["share"], weights=shares["rows"])
    assert overall == pytest.approx(truth[y < 0].mean(), abs=0.02)


def test_the_word_that_labels_are_by_label_brings_the_common_shift_in():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 600)
    truth = (rng.random(len(group)) < 0.4).astype(int)
    X = rng.normal(size=(len(group), 2)) + 1.5 * truth[:, None]
    labeled = rng.random(len(group)) < np.where(truth, 0.3, 0.1)
    y = np.where(labeled, truth, -1)
    hidden = truth[y < 0].mean()
    found = {}
    for how in ("unknown", "by_label"):
        model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0, selection=how)
        shares = model.fit(X, y, groups=group).group_shares(by="group")
        found[how] = np.average(shares["share"], weights=shares["rows"])
        assert "twice as likely" in " ".join(model.diagnose().caution)
    # The misfit that single groups might have leaves a tenth of the common shift out.
    assert found["by_label"] == pytest.approx(hidden, abs=0.03)
    assert found["unknown"] > hidden + 0.1


def test_intervals_of_small_groups_reach_zero_and_count_rows():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 20)
    truth = (rng.random(len(group)) < 0.1).astype(int)
    X = rng.normal(size=(len(group), 2)) + truth[:, None]
    y = np.where(np.arange(len(group)) % 2, truth, -1)
    model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0).fit(X, y, groups=group)
    shares = model.group_shares(by="group")
    known = np.array([truth[(group == g) & (y < 0)].mean() for g in range(60)])
    assert (shares["low"] == 0).mean() > 0.8
    np.testing.assert_allclose(shares["high"] * 10, np.round(shares["high"] * 10), atol=1e-9)
    assert ((shares["low"] <= known) & (known <= shares["high"])).mean() > 0.85


def test_an_unknown_way_of_choosing_labels_is_refused(rows, quick):
    X, y, groups = rows
    with pytest.raises(ValueError, match="selection='by chance' is not known"):
        quick(selection="by chance").fit(X, y, groups=groups)


def test_own_scores_alone_predict_labelled_shifts():
    views, _ = world(natural=0.5, misfit=0.05)
    found = learn_views(views).predict(views.only(OWN_SCORES), of_labeled=True)
    assert np.corrcoef(found.shift[:, 0], views.response[:, 0, LABELS])[0, 1] > 0.8


@pytest.mark.parametrize("is_steep", [False, True])
@pytest.mark.parametrize(
    ("is_selected", "is_remainder", "is_apart"),
    [(False, False, False), (True, False, False), (True, True, False), (True, False, True)],
)
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_the_gradient_is_that_of_the_likelihood_and_the_prior(
    n_clusters, is_selected, is_remainder, is_apart, is_steep
):
    rng = np.random.default_rng(1)
    shape = (4, n_clusters, 3)
    precision = rng.uniform(0.5, 5, shape) * (rng.random(shape) < 0.8)
    views = Views(rng.normal(size=shape), precision, rng.uniform(0, 0.5, 4))
    world = World(is_selected, is_remainder, n_clusters, is_steep, is_apart)
    x = np.append(rng.normal(-1, 0.5, len(world.scales)), [0.4, 0.1, 0.3][-len(world.others) :])
    ((values, gradients),) = likelihood_gradients([(world, np.stack([x + 1, x]))], views)
    value, gradient = values[1], gradients[1]
    around = x + 1e-5 * np.concatenate([np.eye(len(x)), -np.eye(len(x))])

    def slope(values):
        return (values[: len(x)] - values[len(x) :]) / 2e-5

    likelihood = log_likelihood(world, around, views).sum(1)
    assert value == pytest.approx(log_likelihood(world, x[None], views).sum())
    # Differences of sums in which a missing view stands for 1e8 keep six digits.
    np.testing.assert_allclose(gradient, slope(likelihood), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(world.prior_gradient(x), slope(world.prior(around)), rtol=1e-6, atol=1e-8)


def test_worlds_that_cannot_be_told_apart_are_weighed_once():
    views, _ = world()
    assert len(learn_views(views).draws) == 4
    assert len(learn_views(replace(views, remainder=np.full(60, 0.1))).draws) == 6


def test_a_population_may_have_shares_of_its_own_in_clusters_alone():
    """In one cluster no hidden label has confirmed that scores tell shares."""

    def asked(views):
        return any(draws.world.is_apart for draws in learn_views(views).draws)

    of_labels, of_population = np.random.default_rng(0).normal(size=(2, 40, 2))
    seen = np.stack([of_labels, of_labels, of_population], 2)
    in_clusters = Views(seen, np.full(seen.shape, 9.0), np.zeros(40))
    assert asked(in_clusters)
    assert not asked(in_clusters.only(LABELS, OWN_SCORES))
    assert not asked(Views(seen[:, :1], np.full((40, 1, 3), 9.0), np.zeros(40)))


def test_draws_whose_density_cannot_be_computed_get_no_weight():
    """A normal density that is no number beyond two standard deviations: what is left of its integral."""

    def bell(x):
        return np.where(np.abs(x[:, 0]) < 2, -(x[:, 0] ** 2) / 2, np.nan)

    def with_gradients(points):
        return [(-(x[:, 0] ** 2) / 2, -x) for x in points.values()]

    bounds = np.array([[-9.0, 9.0]])
    (mode,) = find_modes(with_gradients, starts=[[np.ones(1)]], bounds=[bounds])
    _, log_weight = integrate(bell, mode, bounds=bounds, n_draws=4000, rng=np.random.default_rng(0))
    assert np.exp(log_weight).sum() == pytest.approx(np.sqrt(2 * np.pi) * 0.9545, rel=0.03)


def test_scores_that_do_not_foretell_how_groups_differ_say_nothing_of_their_average_either():
    X, y, groups, _ = volunteers(0.0)
    model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0).fit(X, y, groups=groups)
    shift, variance = {}, {}
    for is_confirmed in (True, False):
        own = replace(model.learned_.own, is_confirmed=is_confirmed)
        model.learned_ = replace(model.learned_, own=own, hidden=None)
        model.update(X[y < 0], groups[y < 0])
        shift[is_confirmed] = model.estimate_.unseen_shift[0]
        variance[is_confirmed] = model.estimate_.common_variance[0]
    assert shift[True] != 0
    assert shift[False] == 0
    assert variance[False] >= variance[True] + shift[True] ** 2 - 1e-12
