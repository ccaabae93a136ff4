"""Metrics overall and by group: scikit-learn's numbers, for all groups at once."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from groupshift.metrics import METRICS, MacroAverage, evaluate, grouped_auc

# The same sums in another order.
SAME = {"rel": 1e-9, "abs": 1e-12}


def predictions(seed, n, *, n_groups=5, ties=True):
    rng = np.random.default_rng(seed)
    probability = rng.random(n).round(1) if ties else rng.random(n)
    y = (rng.random(n) < probability).astype(int)
    y[:2] = 0, 1
    return y, probability, rng.integers(n_groups, size=n), rng.exponential(size=n)


def reference(y, probability, weight):
    """One group at a time, by scikit-learn."""
    return {
        "auc": roc_auc_score(y, probability, sample_weight=weight) if np.ptp(y) else np.nan,
        "log_loss": log_loss(y, probability, sample_weight=weight, labels=[0, 1]),
        "brier": brier_score_loss(y, probability, sample_weight=weight, labels=[0, 1], pos_label=1),
    }


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 8), st.booleans(), st.booleans())
def test_every_group_gets_the_numbers_of_scikit_learn(seed, n, n_groups, ties, weighted):
    y, p, groups, weight = predictions(seed, n, n_groups=n_groups, ties=ties)
    result = evaluate(y, p, groups=groups, sample_weight=weight if weighted else None)
    weight = weight if weighted else np.ones(n)
    for name, expected in reference(y, p, weight).items():
        assert result.overall[name] == pytest.approx(expected, **SAME)
    for i, group in enumerate(result.by_group["group"]):
        rows = groups == group
        assert result.by_group["rows"][i] == rows.sum()
        assert result.by_group["positives"][i] == y[rows].sum()
        for name, expected in reference(y[rows], p[rows], weight[rows]).items():
            assert result.by_group[name][i] == pytest.approx(expected, **SAME, nan_ok=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certain_and_wrong_costs_what_scikit_learn_says_for_the_dtype(dtype):
    y, p = [0, 1, 1, 0], np.array([1, 0, 1, 0.5], dtype=dtype)
    # scikit-learn sums float32 in float32.
    assert evaluate(y, p).overall["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-6)


def test_one_group_of_all_rows_is_the_overall():
    y, p, _, weight = predictions(0, 300)
    result = evaluate(y, p, groups=np.full(300, "all"), sample_weight=weight)
    for name, value in result.overall.items():
        assert result.by_group[name].tolist() == [value]
        assert result.macro[name] == MacroAverage(value, groups=1, skipped=0)


@pytest.mark.parametrize("name", METRICS)
def test_row_order_and_group_names_do_not_matter(name):
    y, p, groups, weight = predictions(1, 900, n_groups=4)
    order = np.random.default_rng(1).permutation(900)
    names = np.array(["d", "a", "c", "b"])
    before = evaluate(y, p, groups=groups, sample_weight=weight, metrics=name)
    after = evaluate(
        y[order], p[order], groups=names[groups][order], sample_weight=weight[order], metrics=name
    )
    assert after.by_group["group"].tolist() == ["a", "b", "c", "d"]
    assert after.by_group[name] == pytest.approx(before.by_group[name][[1, 3, 2, 0]], **SAME)


@pytest.mark.parametrize("name", METRICS)
def test_only_ratios_of_weights_matter_and_rows_of_weight_zero_are_absent(name):
    y, p, groups, weight = predictions(2, 600, n_groups=3)
    weight[400:] = 0
    kept = evaluate(y[:400], p[:400], groups=groups[:400], sample_weight=weight[:400], metrics=[name])
    for scale in (1, 1e-9, 1e9):
        result = evaluate(y, p, groups=groups, sample_weight=scale * weight, metrics=[name])
        assert result.by_group[name] == pytest.approx(kept.by_group[name], **SAME)


def test_groups_of_very_different_weight_keep_their_digits():
    y, p, groups, _ = predictions(3, 400, n_groups=2, ties=False)
    weight = np.where(groups == 0, 1e12, 1e-6)
    result = evaluate(y, p, groups=groups, sample_weight=weight)
    alone = evaluate(y[groups == 1], p[groups == 1])
    assert result.by_group["auc"][1] == pytest.approx(alone.overall["auc"], **SAME)
    assert result.by_group["ece"][1] == pytest.approx(alone.overall["ece"], **SAME)


def test_a_group_with_one_class_has_no_auc_and_the_average_says_that_it_was_skipped():
    result = evaluate([0, 1, 1, 1, 0], [0.2, 0.7, 0.4, 0.6, 0.1], groups=["a", "a", "b", "b", "c"])
    np.testing.assert_array_equal(result.by_group["auc"], [1.0, np.nan, np.nan])
    assert result.macro["auc"] == MacroAverage(1.0, groups=1, skipped=2)
    assert result.macro["brier"].groups == 3
    assert result.macro["brier"].value == pytest.approx(np.mean([0.065, 0.26, 0.01]))


def test_no_group_with_both_classes_gives_an_average_over_none():
    result = evaluate([0, 1], [0.2, 0.7], groups=["a", "b"], metrics=["auc"])
    assert np.isnan(result.macro["auc"].value)
    assert result.macro["auc"][1:] == (0, 2)
    assert result.overall == {"auc": 1.0}


def test_a_group_without_weight_has_no_metrics():
    result = evaluate([0, 1, 1, 0], [0.2, 0.7, 0.5, 0.4], groups=[0, 0, 1, 1], sample_weight=[1, 1, 0, 0])
    assert all(np.isnan(result.by_group[name][1]) for name in METRICS)
    assert all(result.macro[name].skipped == 1 for name in METRICS)


def test_calibration_error_of_equal_bins_by_hand():
    p = np.arange(500) / 500
    y = np.r_[np.zeros(250), np.ones(250)]
    # Ten bins of 50 whose mean probabilities are .049, .149, ... and whose shares are five 0s, then five 1s.
    means = 0.049 + np.arange(10) / 10
    expected = np.abs(np.repeat([0, 1], 5) - means).mean()
    assert evaluate(y, p).overall["ece"] == pytest.approx(expected)


def test_a_small_group_is_compared_in_one_bin():
    y, p = [0, 0, 1, 1, 1], [0.9, 0.8, 0.1, 0.2, 0.3]
    assert evaluate(y, p).overall["ece"] == pytest.approx(0.6 - 0.46)


def test_a_constant_prediction_is_one_bin_however_many_rows():
    y = np.arange(1000) % 4 == 0
    assert evaluate(y, np.full(1000, 0.25)).overall["ece"] == pytest.approx(0, abs=1e-12)
    assert evaluate(y, np.full(1000, 0.35)).overall["ece"] == pytest.approx(0.1)


def test_calibration_error_of_a_calibrated_model_vanishes_and_of_an_overconfident_one_does_not():
    rng = np.random.default_rng(4)
    p = rng.random(100_000)
    y = rng.random(p.size) < p
    # Noise in ten bins of 10,000: about .8 · .5/100.
    assert evaluate(y, p).overall["ece"] < 0.006
    # The mean over p of |min(2p, 1) − p|: 1/8 on each half.
    assert evaluate(y, np.minimum(2 * p, 1)).overall["ece"] == pytest.approx(0.25, abs=0.006)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 400))
def test_calibration_error_lies_between_the_error_in_the_large_and_the_mean_absolute_error(seed, n):
    y, p, _, weight = predictions(seed, n)
    ece = evaluate(y, p, sample_weight=weight).overall["ece"]
    in_the_large = abs(np.average(y - p, weights=weight))
    assert in_the_large - 1e-12 <= ece <= np.average(np.abs(y - p), weights=weight) + 1e-12


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (np.array(["b", "a", "b"]), ["a", "b"]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        (np.array([True, False, True]), [False, True]),
        (np.array(["x", 7, "x"], dtype=object), [7, "x"]),
        (np.array(["2024-02", "2024-01", "2024-02"], dtype="datetime64[M]"), None),
        ([("b", 1), ("a", 2), ("b", 1)], [("a", 2), ("b", 1)]),
    ],
)
def test_groups_may_be_of_any_hashable_kind(groups, expected):
    by_group = evaluate([1, 0, 0], [0.9, 0.2, 0.4], groups=groups, metrics=["brier"]).by_group
    if expected is not None:
        assert by_group["group"].tolist() == expected
    rows = dict(zip(by_group["group"].tolist(), by_group["rows"].tolist(), strict=True))
    first = groups.tolist()[0] if isinstance(groups, np.ndarray) else groups[0]
    assert rows[first] == 2


def calls_of(function):
    """Number of function calls, Python's and C's, that `function` makes."""
    made = 0

    def count(frame, event, argument):
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return made


def test_many_groups_take_no_more_calls_than_a_few():
    few, many = (predictions(5, 3_000, n_groups=n, ties=False) for n in (10, 1_000))
    first, second = (calls_of(lambda d=d: evaluate(d[0], d[1], groups=d[2])) for d in (few, many))
    # A hundred times the groups: a call for each would be a thousand more.
    assert abs(first - second) < 50


def test_of_a_hundred_thousand_groups_each_has_the_numbers_of_its_own_rows():
    y, p, groups, _ = predictions(5, 300_000, n_groups=100_000, ties=False)
    result = evaluate(y, p, groups=groups)
    # With as many running sums as groups: still the numbers of a group evaluated alone.
    last = groups == result.by_group["group"][-1]
    assert result.by_group["brier"][-1] == pytest.approx(evaluate(y[last], p[last]).overall["brier"], **SAME)
    assert result.macro["auc"].skipped > 0


def test_auc_of_numbered_groups_is_that_of_named_ones_and_takes_scores_of_any_scale():
    rng = np.random.default_rng(5)
    code, y, weight = rng.integers(0, 6, 400), rng.integers(0, 2, 400), rng.choice([0.0, 1.0, 2.5], 400)
    score = np.round(rng.normal(size=400) + y, 1)
    named = evaluate(y, 1 / (1 + np.exp(-score)), groups=code, sample_weight=weight, metrics=["auc"])
    found = grouped_auc(y, score, weight, code, 8)
    np.testing.assert_allclose(found[:6], named.by_group["auc"], rtol=1e-12)
    assert np.isnan(found[6:]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": []}, "non-empty"),
        ({"probability": [[0.1, 0.9], [0.2, 0.8]]}, r"predict_proba\(X\)\[:, 1\]"),
        ({"y_true": [-1, 1]}, r"y_true holds \[-1\]"),
        ({"probability": [0.5, 1.5]}, "from 0.5 to 1.5"),
        ({"probability": [0.5, np.nan]}, "without NaN"),
        ({"groups": ["a"]}, r"groups has shape \(1,\); \(2,\)"),
        ({"groups": np.array(["a", None], dtype=object)}, "1 rows have a missing group"),
        ({"groups": [1.0, np.nan]}, "1 rows have a missing group"),
        ({"sample_weight": [1.0]}, "sample_weight has shape"),
        ({"sample_weight": [0, 0]}, "zero in every row"),
        ({"sample_weight": [1, -1]}, "negative"),
        ({"metrics": ["auc", "f1"]}, r"Unknown metrics \['f1'\]; names out of \['auc'"),
    ],
)
def test_bad_input_is_explained(change, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**{"y_true": [0, 1], "probability": [0.2, 0.8], **change})
