"""Shares of several classes: always true, at the boundaries, against the solver of two classes, and as points."""

import numpy as np
import pytest
from groupshift._math.class_points import collect_class_points, wanted_prototypes
from groupshift._math.class_sites import against_rest, class_sites, joined_shares
from groupshift._math.prototypes import learn_prototypes
from groupshift._math.simplex_shift import OwnRows, SharedRows, padded_batches, simplex_shares
from hypothesis import given, settings
from hypothesis import strategies as st

from class_cells import draw_cells
from groupshift._math.label_shift import mlls
from groupshift._math.points import collect_points

cells = st.builds(
    draw_cells,
    n_classes=st.integers(2, 7),
    n_rows=st.integers(1, 60),
    apart=st.floats(0.2, 6),
    seed=st.integers(0, 10**6),
)


def own_rows(posterior, labeled):
    return OwnRows(posterior / labeled, np.ones(posterior.shape[:2]))


def shares_of(points, labeled):
    found = np.full((points.n_cells, len(labeled)), np.nan)
    for own, batch in points.batches(labeled[None]):
        found[own] = simplex_shares(batch, np.zeros(len(labeled)))
    return found


def log_posterior(rows, q, prior):
    return rows.log_likelihood(q) + (prior * np.log(q)).sum(1)


@settings(max_examples=30, deadline=None)
@given(cells, st.sampled_from([0.0, 0.1, 1.0]))
def test_shares_lie_on_the_simplex_and_no_other_shares_are_likelier(drawn, prior):
    posterior, labeled, _, _ = drawn
    rows = own_rows(posterior, labeled)
    found = simplex_shares(rows, np.full(len(labeled), prior))
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    reached = log_posterior(rows, found, prior)
    rng = np.random.default_rng(0)
    # The likelihood is concave: if nothing nearby is likelier, nothing is.
    for size in (1e-3, 0.1, 1.0):
        other = (1 - size) * found + size * rng.dirichlet(np.ones(len(labeled)), len(found))
        assert (log_posterior(rows, other, prior) <= reached + 1e-5).all()


@settings(max_examples=20, deadline=None)
@given(cells)
def test_the_likelihood_is_concave_in_the_shares(drawn):
    posterior, labeled, shares, _ = drawn
    rows = own_rows(posterior, labeled)
    other = np.roll(shares, 1, axis=0)
    middle = rows.log_likelihood((shares + other) / 2)
    assert (middle >= (rows.log_likelihood(shares) + rows.log_likelihood(other)) / 2 - 1e-9).all()


@settings(max_examples=20, deadline=None)
@given(cells, st.randoms(use_true_random=False))
def test_classes_in_another_order_have_the_same_shares_and_sites(drawn, random):
    posterior, labeled, _, _ = drawn
    order = np.array(random.sample(range(len(labeled)), len(labeled)))
    plain, moved = own_rows(posterior, labeled), own_rows(posterior[..., order], labeled[order])
    prior = np.full(len(labeled), 0.1)
    np.testing.assert_allclose(
        simplex_shares(moved, prior), simplex_shares(plain, prior)[:, order], atol=1e-9
    )
    everywhere = np.tile(labeled, (len(posterior), 1))
    for one, other in zip(
        class_sites(moved, everywhere[:, order]), class_sites(plain, everywhere), strict=True
    ):
        np.testing.assert_allclose(one, other[:, order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("apart", [0.5, 2.0, 5.0])
def test_two_classes_have_the_shares_of_the_solver_of_two(apart):
    posterior, labeled, _, _ = draw_cells(n_cells=20, n_rows=100, n_classes=2, apart=apart)
    found = simplex_shares(own_rows(posterior, labeled), np.zeros(2), tol=1e-15)[:, 1]
    score = np.log(posterior[..., 1] / posterior[..., 0])
    points = collect_points(score.ravel(), np.repeat(np.arange(20), 100), n_cells=20)
    # A share at the boundary is approached: 1e-9 of the way is left.
    np.testing.assert_allclose(found, mlls(points, labeled_prior=labeled[1], tol=1e-14).share, atol=1e-9)


def test_classes_that_no_row_shows_have_no_share_and_a_prior_gives_them_one():
    certain = np.eye(4)[None, [0] * 6 + [2] * 2]
    rows = OwnRows(certain, np.ones((1, 8)))
    np.testing.assert_allclose(simplex_shares(rows, np.zeros(4)), [[0.75, 0, 0.25, 0]], atol=1e-6)
    weak = simplex_shares(rows, np.full(4, 0.5))
    np.testing.assert_allclose(weak, [[6.5 / 10, 0.05, 2.5 / 10, 0.05]], atol=1e-6)


def test_a_weak_prior_helps_cells_of_few_rows():
    posterior, labeled, shares, _ = draw_cells(n_cells=300, n_rows=20, n_classes=10)
    rows = own_rows(posterior, labeled)
    alone, helped = (np.abs(simplex_shares(rows, np.full(10, a)) - shares).mean() for a in (0.0, 0.5))
    assert helped < 0.95 * alone


def test_weights_are_rows():
    posterior, labeled, _, _ = draw_cells()
    twice = OwnRows(np.concatenate([posterior, posterior[:, :20]], 1) / labeled, np.ones((6, 100)))
    weight = np.ones((6, 80))
    weight[:, :20] = 2
    weighed = OwnRows(posterior / labeled, weight)
    np.testing.assert_allclose(
        simplex_shares(twice, np.zeros(4)), simplex_shares(weighed, np.zeros(4)), atol=1e-9
    )


def test_a_cell_without_rows_has_no_shares_but_those_of_its_prior():
    nothing = OwnRows(np.ones((1, 2, 3)), np.zeros((1, 2)))
    assert np.isnan(simplex_shares(nothing, np.zeros(3))).all()
    np.testing.assert_allclose(
        simplex_shares(nothing, np.array([1.0, 1.0, 2.0])), [[0.25, 0.25, 0.5]], atol=1e-6
    )


def test_cells_of_unequal_size_are_solved_as_each_alone():
    posterior, labeled, _, _ = draw_cells(n_cells=3)
    sizes = np.array([5, 0, 80])
    density = np.concatenate([own[:n] for own, n in zip(posterior, sizes, strict=True)]) / labeled
    found = np.full((3, 4), np.nan)
    for own, batch in padded_batches(density, np.ones(85), np.concatenate([[0], np.cumsum(sizes)])):
        found[own] = simplex_shares(batch, np.zeros(4))
    for i in (0, 2):
        alone = OwnRows(posterior[i : i + 1, : sizes[i]] / labeled, np.ones((1, sizes[i])))
        np.testing.assert_allclose(found[i], simplex_shares(alone, np.zeros(4))[0], atol=1e-6)
    assert np.isnan(found[1]).all()


def test_what_sites_say_is_as_far_off_as_they_say():
    # Standardised errors of a normal have a median of 0.67 in size; between 0.6 and 0.75 they are as wide as they should be.
    posterior, labeled, shares, y = draw_cells(n_cells=300, n_rows=200, n_classes=6)
    everywhere = np.tile(labeled, (300, 1))
    truth = against_rest(np.maximum(shares, 1e-6), everywhere)
    counts = np.stack([np.bincount(own, minlength=6) for own in y]).astype(float)
    for told in (None, counts):
        response, precision = class_sites(own_rows(posterior, labeled), everywhere, told)
        size = np.abs(response - truth) * np.sqrt(precision)
        assert 0.6 < np.median(size[precision > 0]) < 0.75


def test_shares_told_apart_are_joined_as_they_were():
    _, labeled, shares, _ = draw_cells()
    np.testing.assert_allclose(joined_shares(against_rest(shares, labeled), labeled), shares, atol=1e-9)


def test_points_of_chunks_are_the_points_of_all_and_prototypes_lose_little():
    posterior, labeled, shares, _ = draw_cells(n_cells=40, n_rows=500, n_classes=8)
    p, cell = posterior.reshape(-1, 8), np.repeat(np.arange(40), 500)
    prototypes = learn_prototypes(p, 1024, seed=0)
    options = {"n_cells": 40, "prototypes": prototypes}
    whole = collect_class_points(p, cell, weight=np.ones(len(p)), **options)
    parts = [
        collect_class_points(p[i::3], cell[i::3], weight=np.ones(len(p[i::3])), **options) for i in range(3)
    ]
    np.testing.assert_allclose((parts[0] + parts[1] + parts[2]).posterior, whole.posterior, atol=1e-12)
    exact = simplex_shares(own_rows(posterior, labeled), np.zeros(8))
    by_chance = np.abs(exact - shares).mean()
    fewer = options | {"prototypes": learn_prototypes(p, 256, seed=0)}
    counted = collect_class_points(p, cell, weight=np.ones(len(p)), keep_means=False, **fewer)
    # Stated: points that keep the means of their rows add 3 % to the error that chance makes; counts of 256 prototypes 10 %.
    assert np.abs(shares_of(whole, labeled) - exact).mean() < 0.03 * by_chance
    assert np.abs(shares_of(counted, labeled) - shares).mean() < 1.1 * by_chance
    assert isinstance(next(counted.batches(labeled[None]))[1], SharedRows)


def test_moved_posteriors_of_points_add_up_to_those_of_rows():
    posterior, labeled, shares, _ = draw_cells(n_rows=300)
    p, cell = posterior.reshape(-1, 4), np.repeat(np.arange(6), 300)
    prototypes = learn_prototypes(p, 512, seed=0)
    points = collect_class_points(p, cell, n_cells=6, weight=np.ones(len(p)), prototypes=prototypes)
    mean, _ = points.mean_posterior(np.log(shares / labeled))
    moved = posterior * (shares / labeled)[:, None]
    moved /= moved.sum(2, keepdims=True)
    np.testing.assert_allclose(mean, moved.mean(1), atol=1e-3)


def test_more_cells_have_fewer_prototypes():
    assert [wanted_prototypes(n, 20)[0] for n in (10, 5_000, 10**6)] == [1024, 500, 256]
