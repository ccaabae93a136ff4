"""Likelihoods of views far out, where differences of huge numbers lose their digits: right, or none."""

import threading

import numpy as np
import pytest
from groupshift._math.importance import find_modes, integrate
from groupshift._math.view_worlds import Views, World, levels_of, likelihood_gradients, log_likelihood
from groupshift._math.views import Draws, ViewModel, learn_views
from hypothesis import given, settings
from hypothesis import strategies as st

WORLDS = [
    World(is_selected, is_remainder, n_clusters, is_steep, is_apart)
    for n_clusters in (1, 3)
    for is_selected, is_remainder, is_steep, is_apart in [
        (False, False, True, False),
        (True, False, True, False),
        (True, True, True, False),
        (True, False, False, True),
    ]
]


def by_cholesky(world, x, views):
    """Log-likelihood of the first group from the whole covariance, decomposed as a whole: slow, and exact to rounding."""
    n = world.n_clusters
    levels = [
        np.array([[entry[0, 0] for entry in row] for row in level.covariance])
        for level in levels_of(world.table(x), views.remainder, n)
    ]
    total = np.kron(np.ones((n, n)), levels[0]) + np.diag(views.noise[0].ravel())
    if n > 1:
        total += np.kron(np.eye(n), levels[1])
    scale = np.sqrt(np.diag(total))
    root = np.linalg.cholesky(total / scale[:, None] / scale)
    o = (views.response[0] - np.array([0, 0, 1]) * x[0, -1]).ravel()
    z = np.linalg.solve(root, o / scale)
    return -(np.log(np.diag(root)).sum() + np.log(scale).sum()) - z @ z / 2


@pytest.mark.parametrize("world", WORLDS, ids=str)
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), far=st.floats(0, 7))
def test_a_likelihood_is_right_or_there_is_none(world, seed, far):
    """Whatever the parameters. A wrong one that is high would get all the weight, as it once did for one set of 14 groups."""
    rng = np.random.default_rng(seed)
    shape = (1, world.n_clusters, 3)
    views = Views(rng.normal(size=shape), np.exp(rng.uniform(0, 7, shape)), rng.uniform(0, 0.5, 1))
    x = np.append(rng.uniform(-7, far, len(world.scales)), rng.uniform(-1, far / 2, len(world.others)))[None]
    found = float(log_likelihood(world, x, views)[0, 0])
    try:
        expected = by_cholesky(world, x, views)
    except np.linalg.LinAlgError:
        # Not even so.
        expected = np.nan
    if np.isfinite(found):
        assert found == pytest.approx(expected, rel=0.02, abs=0.05)
    # Where parameters can be, there is one.
    if far < 1:
        assert np.isfinite(found)


@pytest.mark.parametrize("precision", [1e5, 1e7, 1e9])
@pytest.mark.parametrize("n_clusters", [1, 4])
def test_views_of_huge_groups_are_followed(n_clusters, precision):
    """Half a million labelled rows in each of a few groups: their labels say it all, and rounding says nothing."""
    rng = np.random.default_rng(0)
    shift = rng.normal(0, 1.5, (5, 1)) + rng.normal(0, 0.5, (5, n_clusters))
    seen = np.stack([shift] * 3, -1) + rng.normal(size=(5, n_clusters, 3)) / np.sqrt(precision)
    views = Views(seen, np.full(seen.shape, precision), np.zeros(5))
    found = learn_views(views, selection="random").predict(views)
    np.testing.assert_allclose(found.shift, shift, atol=0.05)
    # Learned from smaller groups, these still have an answer.
    smaller = Views(seen, np.full(seen.shape, 100.0), np.zeros(5))
    assert np.isfinite(learn_views(smaller).predict(views).shift).all()


@pytest.mark.parametrize("natural", [3.0, 4.0, 5.0])
def test_what_three_sharp_views_agree_on_is_the_shift_whatever_the_parameters_are(natural):
    """Groups that differ widely, seen to a hundredth: views and the group's part are large, and their difference is small."""
    world, shift = World(False, False, 1), np.array([[-1.5], [0.3], [2.0]])
    # Standard deviations of groups, misfit and noise; slope and common shift.
    x = np.array([[np.log(natural), *np.log([0.002, 0.001]), 0.0, 0.0]])
    views = Views(np.stack([shift] * 3, -1), np.full((3, 1, 3), 1e4), np.zeros(3))
    found = ViewModel((Draws(world, x, np.ones(1)),)).predict(views)
    np.testing.assert_allclose(found.shift, shift, rtol=1e-4)
    np.testing.assert_allclose(found.use.sum(-1), 1, atol=1e-4)


def modes_of(densities, starts, bounds):
    """Of densities with their gradients, each with one place to begin at, and all with the same bounds."""

    def with_gradients(points):
        return [densities[i](x) for i, x in points.items()]

    return find_modes(with_gradients, starts=[[x] for x in starts], bounds=[bounds] * len(starts))


def test_modes_that_are_sought_together_are_those_sought_alone():
    """To the last digit, though the searches take different numbers of steps: none is told what another asked for."""

    def bell(middle, height):
        def with_gradient(x):
            away = x - middle
            return height * np.cos(away).sum(1), -height * np.sin(away)

        return with_gradient

    rng = np.random.default_rng(0)
    densities = [bell(rng.normal(size=2), height) for height in (0.01, 1.0, 1.0, 50.0)]
    starts, bounds = [rng.normal(size=2) for _ in densities], np.array([[-7.0, 2.0]] * 2)
    together = modes_of(densities, starts, bounds)
    for density, start, mode in zip(densities, starts, together, strict=True):
        (alone,) = modes_of([density], [start], bounds)
        assert np.array_equal(alone.center, mode.center)
        assert np.array_equal(alone.spread, mode.spread)
        assert alone.log_integral == mode.log_integral


@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_error_on_the_way_to_modes_is_raised_and_leaves_no_thread(after):
    calls = []

    def with_gradient(x):
        calls.append(len(x))
        if len(calls) > 2 * after:
            raise FloatingPointError("as a test wants it")
        return -(x[:, 0] ** 4), -4 * x**3

    with pytest.raises(FloatingPointError, match="as a test wants it"):
        modes_of([with_gradient] * 2, [np.ones(1), -np.ones(1)], np.array([[-7.0, 5.0]]))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("search for a mode")]


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_gradients_of_several_worlds_at_once_are_those_of_each(n_clusters):
    rng = np.random.default_rng(0)
    shape = (13, n_clusters, 3)
    views = Views(rng.normal(size=shape), rng.uniform(1, 300, shape), rng.uniform(0, 0.5, 13))
    worlds = [world for world in WORLDS if world.n_clusters == n_clusters]
    asked = [
        (world, rng.normal(-1, 1, (n, len(world.columns))))
        for world, n in zip(worlds, (1, 5, 1, 2), strict=True)
    ]
    for one, (value, gradient) in zip(asked, likelihood_gradients(asked, views), strict=True):
        ((alone, its_gradient),) = likelihood_gradients([one], views)
        assert np.array_equal(alone, value)
        assert np.array_equal(its_gradient, gradient)


def test_a_density_that_nowhere_can_be_computed_is_its_mode():
    def with_gradient(x):
        return np.full(len(x), np.nan), np.full(x.shape, np.nan)

    bounds = np.array([[-7.0, 2.0]])
    (mode,) = modes_of([with_gradient], [np.zeros(1)], bounds)
    x, log_weight = integrate(
        lambda x: np.full(len(x), np.nan), mode, bounds=bounds, n_draws=100, rng=np.random.default_rng(0)
    )
    assert x.shape == (1, 1)
    assert np.isfinite(log_weight).all()


def test_parameters_beyond_their_bounds_have_no_weight():
    """A density that is bogus beyond its bounds."""

    def log_density(x):
        return np.where((x[:, 0] > 2) | (x[:, 0] < -7), 1000.0, -(x[:, 0] ** 2) / 2)

    def with_gradient(x):
        return -(x[:, 0] ** 2) / 2, -x

    bounds = np.array([[-7.0, 2.0]])
    (mode,) = modes_of([with_gradient], [np.zeros(1)], bounds)
    x, log_weight = integrate(log_density, mode, bounds=bounds, n_draws=4000, rng=np.random.default_rng(0))
    assert np.isneginf(log_weight[(x[:, 0] > 2) | (x[:, 0] < -7)]).all()
    # A standard normal up to 2.
    assert np.exp(log_weight).sum() == pytest.approx(0.97725 * np.sqrt(2 * np.pi), rel=0.03)


def test_a_search_turns_back_where_the_density_cannot_be_computed():
    def with_gradient(x):
        value = -((x[:, 0] - 1.5) ** 2)
        return np.where(x[:, 0] > 2, np.nan, value), np.where(x > 2, np.nan, -2 * (x - 1.5))

    (mode,) = modes_of([with_gradient], [np.array([-6.0])], np.array([[-7.0, 5.0]]))
    assert mode.center[0] == pytest.approx(1.5, abs=1e-3)
    assert np.isfinite(mode.spread).all()


def test_gradients_at_the_bounds_are_numbers():
    rng = np.random.default_rng(0)
    for world in WORLDS:
        shape = (5, world.n_clusters, 3)
        views = Views(rng.normal(size=shape), rng.uniform(1, 300, shape), np.zeros(5))
        x = np.append(np.full(len(world.scales), 2.0), np.zeros(len(world.others)))[None]
        ((value, gradient),) = likelihood_gradients([(world, x)], views)
        assert np.isfinite(value).all()
        assert np.isfinite(gradient).all()
