"""Biased samples from labelled tables: the protocol is kept, and no example crosses a split."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import silhouette_score

from groupshift.datasets import bias_groups
from groupshift.datasets.bias import KMeansPartition, _resample
from groupshift.datasets.shares import draw_shares


class Sign:
    """A partition in two halves by the first feature."""

    n_clusters_ = 2

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 6000
    X, y = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    households = np.arange(n) // 3
    groups = np.array(["AL", "AK", "AZ", "AR"])[households % 4]
    return X, y, groups, households


def _sides(sample):
    ids = sample.example_ids
    fit_unlabeled = ~sample.labeled & ~sample.test
    return [set(ids[part]) for part in (sample.labeled, fit_unlabeled, sample.test)]


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("with_households", [True, False])
def test_copies_of_an_example_never_cross_a_split(table, replace, with_households):
    X, y, groups, households = table
    ids = households if with_households else None
    sample = bias_groups(
        X, y, groups, setting=2, partition=Sign(), replace=replace, example_ids=ids, random_state=0
    )
    labeled, unlabeled, test = _sides(sample)
    assert not labeled & unlabeled
    assert not labeled & test
    assert not unlabeled & test
    distinct = len(unlabeled | test)
    assert len(test) == round(0.2 * distinct)


def test_copies_of_one_row_share_their_id_and_nobody_elses(table):
    X, y, groups, _ = table
    sample = bias_groups(X, y, groups, setting=2, partition=Sign(), random_state=0)
    np.testing.assert_array_equal(sample.X, X[sample.example_ids])
    np.testing.assert_array_equal(sample.truth, y[sample.example_ids])
    np.testing.assert_array_equal(sample.groups, groups[sample.example_ids])
    assert len(np.unique(sample.example_ids)) < len(sample)


@pytest.mark.parametrize("setting", [1, 2])
def test_resampled_shares_are_the_drawn_ones(table, setting, monkeypatch):
    X, y, groups, _ = table
    drawn = []
    monkeypatch.setattr(
        "groupshift.datasets.bias.draw_shares", lambda **kw: drawn.append(draw_shares(**kw)) or drawn[0]
    )
    sample = bias_groups(X, y, groups, setting=setting, partition=Sign(), random_state=1)
    labeled, population = drawn[0]
    # 750 rows per group and half: rounding moves a share by less than a row in the smallest cell.
    np.testing.assert_allclose(sample.shares, population.positive, atol=0.02)
    np.testing.assert_allclose(sample.labeled_shares, labeled.positive, atol=0.02)
    np.testing.assert_allclose(sample.cluster_weights, population.weights, atol=0.003)


def test_setting_1_shares_are_common_to_groups_and_samples(table):
    X, y, groups, _ = table
    sample = bias_groups(X, y, groups, setting=1, partition=Sign(), random_state=0)
    np.testing.assert_allclose(sample.shares, np.tile(sample.shares[0], (4, 1)), atol=0.02)
    np.testing.assert_allclose(sample.shares, sample.labeled_shares, atol=0.02)


def test_with_replacement_groups_keep_their_size(table):
    X, y, groups, _ = table
    sample = bias_groups(X, y, groups, setting=2, partition=Sign(), random_state=0)
    _, size = np.unique(sample.groups, return_counts=True)
    np.testing.assert_allclose(size, 1500, atol=4)  # each of 4 counts and 2 samples is rounded


def test_without_replacement_no_row_comes_twice_and_short_cells_are_cut(table):
    X, y, groups, _ = table
    sample = bias_groups(X, y, groups, setting=2, partition=Sign(), replace=False, random_state=0)
    assert len(np.unique(sample.example_ids)) == len(sample)
    assert len(sample) < len(y)


def test_empty_pool_cells_stay_empty():
    rows, cell = np.arange(4), np.array([0, 0, 2, 2])
    drawn = _resample(rows, cell, np.array([3, 5, 1]), replace=True, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(cell[drawn], minlength=3), [3, 0, 1])


def test_max_rows_takes_whole_examples(table):
    X, y, groups, households = table
    sample = bias_groups(
        X, y, groups, setting=1, n_clusters=1, example_ids=households, max_rows=1000, random_state=0
    )
    assert 980 < len(sample) <= 1010
    assert len(np.unique(households)) > len(np.unique(sample.example_ids))


def test_same_seed_gives_the_same_sample(table):
    X, y, groups, _ = table
    one, two = (bias_groups(X, y, groups, setting=2, n_clusters=2, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.test, two.test)


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_stay_frames_and_text_columns_are_clustered(library):
    rng = np.random.default_rng(0)
    kind = rng.choice(["low", "high"], 400)
    frame = library.DataFrame(
        {"x": np.where(kind == "low", -5.0, 5.0) + rng.normal(size=400), "kind": kind.tolist()}
    )
    y, groups = rng.integers(0, 2, 400), rng.choice(["a", "b"], 400)
    sample = bias_groups(frame, y, groups, setting=2, random_state=0)
    assert isinstance(sample.X, library.DataFrame)
    assert sample.partition.n_clusters_ == 2
    low = (sample.X["kind"] == "low").to_numpy()
    assert len(set(zip(low.tolist(), sample.cluster.tolist(), strict=True))) == 2
    assert len(sample.training().X) == sample.fit_rows.sum()


@pytest.mark.parametrize("batch_size", [4096, 14])
def test_silhouette_chooses_the_clusters_that_are_there(batch_size):
    rng = np.random.default_rng(0)
    X = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])[rng.integers(0, 4, 3000)] + rng.normal(size=(3000, 2))
    model = KMeansPartition(batch_size=batch_size, random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert model.silhouettes_[1] == 0


def test_silhouettes_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 3)) + 100  # far from the origin, where single precision would suffer
    model = KMeansPartition(random_state=0).fit(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = silhouette_score(Z, model.predict(X))
    assert model.silhouettes_[model.n_clusters_] == pytest.approx(expected, abs=1e-5)  # single precision


def test_missing_numbers_and_unseen_text_are_neutral():
    frame = {"x": np.array([1.0, np.nan, 3.0]), "t": np.array(["a", None, "b"], dtype=object)}
    model = KMeansPartition(1, random_state=0).fit(frame)
    new = {"x": np.array([np.nan, 2.0]), "t": np.array(["new", None], dtype=object)}
    encoded = model.standardised(new)
    # The mean of x is 2; "new" and a missing text are neither "a" nor "b".
    np.testing.assert_array_equal(encoded[0], encoded[1])
    assert encoded[0, 0] == 0
    assert np.isfinite(encoded).all()


def test_tables_with_hidden_labels_are_refused(table):
    X, y, groups, _ = table
    with pytest.raises(ValueError, match="fully labelled"):
        bias_groups(X, np.where(y, -1, 0), groups, setting=1)
