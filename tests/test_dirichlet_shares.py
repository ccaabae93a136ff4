"""Shares of cells that are drawn towards expected ones: against the exact posterior, the true concentration, and alone."""

import numpy as np
import pytest
from groupshift._math.dirichlet_shares import MAX_CELLS, pooled_shares
from groupshift._math.simplex_shift import OwnRows, SharedRows, simplex_shares

from class_cells import draw_cells

N_CELLS = 50


def drawn(n_classes, n_rows, concentration, n_cells=N_CELLS):
    shares = np.random.default_rng(1).dirichlet(np.full(n_classes, concentration), n_cells)
    posterior, labeled, _, y = draw_cells(n_cells, n_rows, n_classes, seed=2, shares=shares)
    return OwnRows(posterior / labeled, np.ones((n_cells, n_rows))), shares, y


def pooled(rows, n_classes, variance=1.0):
    n_cells = len(rows.total)
    expected = np.full((n_cells, n_classes), 1 / n_classes)
    return pooled_shares(
        lambda: iter([(np.arange(n_cells), rows)]), expected, np.full_like(expected, variance)
    )


def exact_means(density, concentration, n_draws=600):
    """Posterior means of the shares of the rows at hand, by Gibbs sampling of classes and shares."""
    rng = np.random.default_rng(0)
    n_cells, n_rows, n_classes = density.shape
    q, total = np.full((n_cells, n_classes), 1 / n_classes), 0.0
    for step in range(n_draws + 100):
        p = q[:, None] * density
        p /= p.sum(2, keepdims=True)
        y = np.minimum((p.cumsum(2) < rng.random((n_cells, n_rows, 1))).sum(2), n_classes - 1)
        q = rng.gamma((y[:, :, None] == np.arange(n_classes)).sum(1) + concentration) + 1e-300
        q /= q.sum(1, keepdims=True)
        total = total + (p.mean(1) if step >= 100 else 0.0)
    return total / n_draws


def mean_predictions(rows, share):
    moved = share[:, None] * rows.density
    return (moved / moved.sum(2, keepdims=True)).mean(1)


@pytest.mark.parametrize(("n_classes", "n_rows"), [(3, 30), (8, 30), (8, 150)])
def test_mean_predictions_are_near_those_of_the_exact_posterior(n_classes, n_rows):
    rows, _, y = drawn(n_classes, n_rows, 1.0)
    real = np.stack([np.bincount(own, minlength=n_classes) for own in y]) / n_rows
    exact = exact_means(rows.density, 1.0)
    found, alone = (
        mean_predictions(rows, share)
        for share in (pooled(rows, n_classes).share, simplex_shares(rows, np.zeros(n_classes)))
    )
    distance, of_maximum = np.abs(found - exact).mean(), np.abs(alone - exact).mean()
    assert distance < 0.5 * of_maximum
    # The exact posterior is told the true concentration, which 50 cells of few rows do not show well.
    assert np.abs(found - real).mean() < 1.06 * np.abs(exact - real).mean()


@pytest.mark.parametrize("concentration", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_the_rows_of_all_cells_say_how_alike_cells_are(concentration, variance):
    rows, _, _ = drawn(8, 150, concentration)
    # Laplace's approximation makes cells somewhat more alike than they are.
    assert 0.7 < pooled(rows, 8, variance).concentration / (8 * concentration) < 1.7


def test_variances_are_those_of_the_errors():
    rows, shares, _ = drawn(8, 150, 1.0)
    found = pooled(rows, 8)
    told = found.share > 0.02
    error = np.log(shares / (1 - shares)) - np.log(found.share / (1 - found.share))
    held = np.abs(error) < 1.645 * np.sqrt(found.variance)
    # Log-odds of small shares are skewed, which a variance does not show; intervals of shares are of counts of rows besides.
    assert 0.82 < held[told].mean() < 0.95


def test_cells_that_are_all_alike_have_nearly_the_same_shares():
    alike = np.full((N_CELLS, 4), 0.25)
    posterior, labeled, _, _ = draw_cells(N_CELLS, 60, 4, seed=3, shares=alike)
    rows = OwnRows(posterior / labeled, np.ones((N_CELLS, 60)))
    assert np.abs(pooled(rows, 4).share - 0.25).mean() < 0.02


def test_classes_and_cells_in_another_order_have_the_same_shares():
    rows, _, _ = drawn(5, 40, 1.0, n_cells=MAX_CELLS + 40)
    classes = np.array([3, 0, 4, 1, 2])
    cells = np.random.default_rng(0).permutation(MAX_CELLS + 40)
    plain = pooled(rows, 5)
    moved = pooled(OwnRows(rows.density[cells][..., classes], rows.weight), 5)
    np.testing.assert_allclose(moved.share, plain.share[cells][:, classes], atol=1e-9)
    np.testing.assert_allclose(moved.variance, plain.variance[cells][:, classes], rtol=1e-6)


def test_counts_of_shared_rows_have_the_shares_of_the_rows_themselves():
    rows, _, _ = drawn(3, 20, 1.0, n_cells=6)
    shared = SharedRows(rows.density.reshape(-1, 3), np.kron(np.eye(6), np.ones(20)))
    np.testing.assert_allclose(pooled(shared, 3).share, pooled(rows, 3).share, atol=1e-7)


def test_a_cell_without_rows_has_no_share():
    rows, _, _ = drawn(3, 20, 1.0, n_cells=4)
    expected = np.full((5, 3), 1 / 3)
    found = pooled_shares(lambda: iter([(np.array([0, 1, 2, 4]), rows)]), expected, np.ones((5, 3)))
    assert np.isnan(found.share[3]).all()
    assert not np.isnan(found.share[[0, 1, 2, 4]]).any()
