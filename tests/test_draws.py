"""Random draws: every one has a stream of its own, and depends on the example and not on where it stands."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._data import keys, problem
from groupshift._data.keys import Seeds, content_keys, fold_of, sampled, stratified_folds, uniform_keys
from groupshift._scores import stack


@pytest.fixture
def asked(monkeypatch):
    """Streams that a fit asks for, each with the places that ask."""
    places = {}
    named = Seeds.named

    def record(self, stream):
        frames = [f for f in inspect.stack()[1:4] if f.function != "generator"]
        places.setdefault(stream, set()).add((frames[0].filename, frames[0].function))
        return named(self, stream)

    monkeypatch.setattr(Seeds, "named", record)
    return places


@pytest.mark.parametrize(
    "settings",
    [{}, {"partition": "silhouette"}, {"partition": 3}, {"calibration": "holdout", "partition": 2}],
    ids=str,
)
def test_no_two_draws_of_a_fit_share_a_stream(asked, rows, settings):
    X, y, groups = rows
    model = GroupShiftClassifier(LogisticRegression(), random_state=0, **settings)
    model.fit(X, y, groups=groups)
    assert len(asked) >= 4
    assert {stream: len(places) for stream, places in asked.items()} == dict.fromkeys(asked, 1)
    assert len({Seeds(0).named(stream) for stream in asked}) == len(asked)


@given(st.integers(0, 2**31 - 1))
def test_a_sample_by_one_stream_falls_into_all_folds_of_another(root):
    seeds, keys = Seeds(root), np.arange(40_000, dtype=np.uint64)
    sample = keys[sampled(keys, 0.25, seeds.named("clustering, population"))]
    counts = np.bincount(fold_of(sample, 5, seeds.named("aligned folds")), minlength=5)
    # 10,000 rows in five folds: 2,000 each, with a standard deviation of 40; six of them.
    assert np.abs(counts - len(sample) / 5).max() < 240


def test_rows_sampled_of_a_large_population_fall_into_all_folds(rows, quick, monkeypatch):
    # With one stream for both, folds and sample come from one hash: all sampled rows fall into fold 0.
    counts = []

    def record(key, n_folds, seed):
        fold = fold_of(key, n_folds, seed)
        counts.append(np.bincount(fold, minlength=n_folds))
        return fold

    monkeypatch.setattr(stack, "fold_of", record)
    monkeypatch.setattr(problem, "MAX_CLUSTERING_ROWS", 800)
    X, y, groups = rows
    quick(partition=1).fit(X, y, groups=groups)
    (count,) = counts
    assert 400 < count.sum() < 800 < (y < 0).sum()
    # A fifth each, less four standard deviations.
    assert count.min() > count.sum() / 5 - 4 * np.sqrt(0.16 * count.sum())


@given(st.permutations(range(30)), st.integers(0, 100))
def test_folds_of_rows_follow_the_example_wherever_it_stands(order, seed):
    order = np.array(order)
    keys = np.repeat(np.arange(10, dtype=np.uint64), 3)
    y = np.repeat(np.arange(10) % 2, 3)
    fold = stratified_folds(y, keys, 3, seed)
    assert np.array_equal(stratified_folds(y[order], keys[order], 3, seed), fold[order])
    assert all(len(set(fold[keys == key])) == 1 for key in range(10))


def test_keys_of_content_do_not_depend_on_chunks_or_precision():
    matrix = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    whole = content_keys(matrix)
    assert len(np.unique(whole)) == 50
    assert np.array_equal(np.concatenate([content_keys(matrix[:20]), content_keys(matrix[20:])]), whole)
    assert np.array_equal(content_keys(matrix.astype(float)), whole)


def test_keys_of_content_do_not_depend_on_the_blocks_they_are_made_in(monkeypatch):
    matrix = np.random.default_rng(3).choice([0.0, -0.0, np.nan, 1.5], (50, 7))
    whole = content_keys(matrix)
    monkeypatch.setattr(keys, "BLOCK", (16, 3))
    np.testing.assert_array_equal(content_keys(matrix), whole)
    np.testing.assert_array_equal(content_keys(np.asfortranarray(matrix)), whole)


def test_numbers_of_keys_are_spread_evenly():
    values = uniform_keys(np.arange(100_000, dtype=np.uint64), 3)
    # The mean of 100,000 uniform numbers has a standard deviation of 0.0009.
    assert abs(values.mean() - 0.5) < 0.005
