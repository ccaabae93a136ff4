"""Rows as weighted points: they add up over chunks, and bins keep what shares are learned from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import mixture, tables
from groupshift._math.label_shift import mlls
from groupshift._math.points import BIN_WIDTH, Points, collect_points


@given(tables(), st.integers(1, 39), st.sampled_from([None, BIN_WIDTH, 0.5]))
def test_points_of_chunks_add_up_to_the_whole(table, cut, width):
    score, cell, weight, _ = table

    def points(rows):
        return collect_points(score[rows], cell[rows], n_cells=4, weight=weight[rows], bin_width=width)

    added = points(slice(None, cut)) + points(slice(cut, None))
    whole = points(slice(None)) + points(slice(0))
    np.testing.assert_array_equal(added.rows, whole.rows)
    np.testing.assert_allclose(added.weight_sum, whole.weight_sum)
    np.testing.assert_allclose(added.weight_square_sum, whole.weight_square_sum)
    np.testing.assert_array_equal(added.cell, whole.cell)
    np.testing.assert_array_equal(added.score, whole.score)
    np.testing.assert_allclose(added.weight, whole.weight, atol=1e-9)


@given(tables(), st.sampled_from([BIN_WIDTH, 0.5]))
def test_binning_keeps_the_weight_and_the_mean_score_of_every_cell(table, width):
    score, cell, weight, _ = table
    points = collect_points(score, cell, n_cells=4, weight=weight, bin_width=width)
    np.testing.assert_allclose(
        np.bincount(points.cell, points.weight, 4), np.bincount(cell, weight, 4), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        np.bincount(points.cell, points.weight * points.score, 4),
        np.bincount(cell, weight * score, 4),
        atol=1e-8,
    )
    assert len(points.score) <= 2 * len(score)


@pytest.mark.parametrize("n", [50, 3000])
@pytest.mark.parametrize("distance", [0.6, 1.5, 3.0])
def test_shares_on_bins_agree_with_exact_ones(n, distance):
    share = np.linspace(0.01, 0.99, 8)
    score = np.concatenate([mixture(a, n, seed=i, distance=distance)[0] for i, a in enumerate(share)])
    cell = np.repeat(np.arange(8), n)
    exact = mlls(collect_points(score, cell, n_cells=8), labeled_prior=0.5)
    binned = mlls(collect_points(score, cell, n_cells=8, bin_width=BIN_WIDTH), labeled_prior=0.5)
    np.testing.assert_allclose(binned.share, exact.share, atol=1e-5)
    np.testing.assert_allclose(binned.std_error, exact.std_error, rtol=1e-3)


def test_both_ways_to_bin_give_the_same_points():
    # Many cells with few rows take the sparse way, few cells with many rows the dense one.
    rng = np.random.default_rng(0)
    score, weight = rng.normal(0, 3, 400), rng.random(400)
    dense = collect_points(score, np.full(400, 1), n_cells=3, weight=weight, bin_width=0.1)
    sparse = collect_points(score, np.full(400, 1), n_cells=100_000, weight=weight, bin_width=0.1)
    np.testing.assert_allclose(dense.score, sparse.score)
    np.testing.assert_allclose(dense.weight, sparse.weight)


@pytest.mark.parametrize("n_points", [1, 7, 100, 10_000])
def test_blocks_of_cells_have_the_shares_of_the_whole(n_points):
    rng = np.random.default_rng(0)
    # Cells of very different sizes, some without rows, the last among them.
    cell = (50 * rng.random(2000) ** 4).astype(int)
    points = collect_points(rng.normal(size=2000), cell, n_cells=60, weight=rng.uniform(0.5, 2, 2000))
    parts = list(points.blocks(n_points))
    assert [c.start for c, _ in parts[1:]] == [c.stop for c, _ in parts[:-1]]
    assert sum(len(part.score) for _, part in parts) == len(points.score)
    share = np.concatenate([mlls(part, labeled_prior=0.3).share for _, part in parts])
    np.testing.assert_array_equal(share, mlls(points, labeled_prior=0.3).share)


def test_points_count_rows_and_effective_rows():
    points = collect_points([0.0, 1.0, 2.0], [0, 0, 2], n_cells=3, weight=[1.0, 3.0, 5.0])
    assert points.rows.tolist() == [2, 0, 1]
    np.testing.assert_allclose(points.effective_rows, [16 / 10, 0, 1])
    np.testing.assert_allclose(np.bincount(points.cell, points.information_weight), points.effective_rows)


def test_only_some_cells_leaves_the_others_without_rows():
    points = collect_points([0.0, 1.0, 2.0], [0, 1, 1], n_cells=2).only(np.array([False, True]))
    assert isinstance(points, Points)
    assert points.rows.tolist() == [0, 2]
    assert points.cell.tolist() == [1, 1]


def test_bad_points_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        collect_points([np.nan], [0], n_cells=1)
    with pytest.raises(ValueError, match="Number the cells of every chunk alike"):
        collect_points([0.0], [0], n_cells=1) + collect_points([0.0], [0], n_cells=2)
