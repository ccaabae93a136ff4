"""Theorem 1: the gain equals AUC(ρ̄) − AUC(ρ), whatever the distribution."""

import tracemalloc
from fractions import Fraction
from itertools import product
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from groupshift._math.auc_gain import auc_gain, overall_prior

# Sums of at most a few thousand numbers below 1 that are exact to the last bit but one.
EXACT = {"rel": 0, "abs": 1e-12}


def theorem_1(log_odds, shift, positive, negative):
    """The paper's two expectations as it writes them, over all n² pairs (x_1 in rows, x_0 in columns)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tau_10 = np.exp(log_odds[:, None] - log_odds[None, :])
        omega_10 = np.exp(shift[:, None] - shift[None, :])
        tau_01, omega_01 = 1 / tau_10, 1 / omega_10
        certain = (omega_01 == 0) * (((tau_10 > 0) & (tau_10 < 1)) + (tau_10 == 1) / 2)
        inside = ((tau_01 > omega_10) & (tau_01 < 1)) + (tau_01 == 1) / 2
        possible = (omega_10 > 0) & (omega_10 < 1)
        reordered = np.where(possible, inside * (tau_01 / omega_10 - 1), 0)
    pairs = positive[:, None] * negative[None, :] / (positive.sum() * negative.sum())
    return (pairs * certain).sum(), (pairs * reordered).sum()


def soft_auc(score, positive, negative):
    y = np.repeat([1, 0], score.size)
    finite = np.clip(np.tile(score, 2), -1e9, 1e9)  # scikit-learn refuses infinite scores
    return roc_auc_score(y, finite, sample_weight=np.concatenate([positive, negative]))


def exact_auc(score, positive, negative):
    won = sum(
        p * q * (Fraction(score[i] > score[j]) + Fraction(score[i] == score[j], 2))
        for (i, p), (j, q) in product(enumerate(positive), enumerate(negative))
    )
    return won / (sum(positive) * sum(negative))


def log_odds_of(posterior):
    """Equal fractions give equal floats: ties stay ties."""
    if posterior in (0, 1):
        return inf if posterior else -inf
    return log(posterior / (1 - posterior))


@st.composite
def populations(draw):
    """A finite distribution with PCC-invariance, in fractions, small enough for scores to tie."""
    n_groups, n_clusters = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    share = st.sampled_from([Fraction(k, 4) for k in range(5)])
    mass = st.integers(0, 3)
    alpha = [[draw(share) for _ in range(n_clusters)] for _ in range(n_groups)]
    cell = [[Fraction(draw(st.integers(1, 3))) for _ in range(n_clusters)] for _ in range(n_groups)]
    rows = []
    for k in range(n_clusters):
        conditional = []
        for _ in range(2):
            masses = draw(st.lists(mass, min_size=3, max_size=3).filter(any))
            conditional.append([Fraction(m, sum(masses)) for m in masses])
        overall = sum(cell[g][k] * alpha[g][k] for g in range(n_groups)) / sum(
            cell[g][k] for g in range(n_groups)
        )
        for g, x in product(range(n_groups), range(3)):
            f_0, f_1 = conditional[0][x], conditional[1][x]
            positive, negative = cell[g][k] * alpha[g][k] * f_1, cell[g][k] * (1 - alpha[g][k]) * f_0
            marginal = overall * f_1 + (1 - overall) * f_0
            if positive + negative > 0:
                rows.append(
                    (g, k, overall * f_1 / marginal, positive / (positive + negative), positive, negative)
                )
    return alpha, rows


def population_arrays(alpha, rows):
    group, cluster, posterior, aware, positive, negative = (
        list(column) for column in zip(*rows, strict=True)
    )
    inputs = {
        "group": np.array(group),
        "cluster": np.array(cluster),
        "group_prior": np.array(alpha, dtype=float),
    }
    return np.array([log_odds_of(p) for p in posterior]), inputs, posterior, aware, positive, negative


@settings(max_examples=150, deadline=None)
@given(populations())
def test_gain_is_the_difference_of_aucs_on_every_finite_distribution(population):
    alpha, rows = population
    if not rows or not any(row[4] for row in rows) or not any(row[5] for row in rows):
        return  # one class only: there is no AUC
    log_odds, inputs, posterior, aware, positive, negative = population_arrays(alpha, rows)
    expected = float(exact_auc(aware, positive, negative) - exact_auc(posterior, positive, negative))
    p, q = np.array(positive, dtype=float), np.array(negative, dtype=float)
    soft = auc_gain(log_odds, **inputs, sample_weight=p + q)
    assert soft.gain == pytest.approx(expected, **EXACT)
    assert soft.auc_agnostic == pytest.approx(float(exact_auc(posterior, positive, negative)), **EXACT)

    prior = overall_prior(**inputs, sample_weight=p + q)
    doubled = {name: np.tile(inputs[name], 2) for name in ("group", "cluster")}
    hard = auc_gain(
        np.tile(log_odds, 2) + 3.0,  # with labels a constant does not matter: a density ratio will do
        **doubled,
        group_prior=inputs["group_prior"],
        prior=prior,
        y=np.repeat([1, 0], p.size),
        sample_weight=np.concatenate([p, q]),
    )
    # The same population with labels: sums of ratios up to 81, hence fewer digits.
    assert hard.gain == pytest.approx(expected, rel=0, abs=1e-10)
    assert hard.certain == pytest.approx(soft.certain, **EXACT)


def sample(seed, n, *, ties=False, pure=False, n_groups=4, n_clusters=3):
    """Rows of a model in which everything is right: scores, shares and labels."""
    rng = np.random.default_rng(seed)
    group_prior = rng.uniform(0.1, 0.9, (n_groups, n_clusters))
    if pure:
        group_prior[0, 0], group_prior[1, 0], group_prior[2, 1] = 0, 1, 0
    group, cluster = rng.integers(n_groups, size=n), rng.integers(n_clusters, size=n)
    y = rng.random(n) < group_prior[group, cluster]
    # Two unit Gaussians 1.5 apart in each cluster: their log ratio is 1.5 x.
    log_ratio = 1.5 * (rng.normal(size=n) + 1.5 * (y - 0.5))
    if ties:
        log_ratio = log_ratio.round()
    prior = group_prior.mean(axis=0)
    log_odds = log_ratio + logit(prior)[cluster]
    inputs = {"group": group, "cluster": cluster, "group_prior": group_prior, "prior": prior}
    shift = logit(group_prior[group, cluster]) - logit(prior)[cluster]
    return log_odds, inputs, y.astype(int), shift


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("pure", [False, True])
def test_gain_equals_the_sum_over_all_pairs(seed, ties, pure):
    log_odds, inputs, y, shift = sample(seed, 301, ties=ties, pure=pure)
    weight = np.random.default_rng(seed).exponential(size=y.size)
    for label, positive in ((y, y), (None, expit(log_odds + shift))):
        certain, reordered = theorem_1(log_odds, shift, weight * positive, weight * (1 - positive))
        result = auc_gain(log_odds, **inputs, y=label, sample_weight=weight)
        # The reference takes ratios of exponentials where we take differences: a few digits fewer.
        assert result.certain == pytest.approx(certain, rel=1e-10, abs=1e-12)
        assert result.reordered == pytest.approx(reordered, rel=1e-8)
        assert (certain > 0) == pure


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 70), st.booleans(), st.booleans())
def test_without_labels_the_gain_is_the_difference_of_soft_aucs_on_any_sample(seed, n, ties, pure):
    log_odds, inputs, _, shift = sample(seed, n, ties=ties, pure=pure)
    positive, negative = expit(log_odds + shift), expit(-log_odds - shift)
    if positive.sum() == 0 or negative.sum() == 0:
        return  # all rows in pure cells of one kind
    expected = soft_auc(log_odds + shift, positive, negative) - soft_auc(log_odds, positive, negative)
    assert auc_gain(log_odds, **inputs).gain == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("pure", [False, True])
def test_gain_converges_to_the_measured_difference(pure):
    log_odds, inputs, y, shift = sample(7, 200_000, pure=pure)
    measured = soft_auc(log_odds + shift, y, 1 - y) - soft_auc(log_odds, y, 1 - y)
    # An AUC on 200,000 rows has a standard error of about .001, the difference of two correlated ones less.
    assert auc_gain(log_odds, **inputs).gain == pytest.approx(measured, abs=0.003)
    assert auc_gain(log_odds, **inputs, y=y).gain == pytest.approx(measured, abs=0.003)


@pytest.mark.parametrize("labelled", [False, True])
def test_row_order_does_not_matter(labelled):
    log_odds, inputs, y, _ = sample(0, 500, ties=True, pure=True)
    order = np.random.default_rng(0).permutation(y.size)
    moved = {**inputs, "group": inputs["group"][order], "cluster": inputs["cluster"][order]}
    before = auc_gain(log_odds, **inputs, y=y if labelled else None)
    after = auc_gain(log_odds[order], **moved, y=y[order] if labelled else None)
    assert after.certain == pytest.approx(before.certain, **EXACT)
    assert after.reordered == pytest.approx(before.reordered, **EXACT)


def test_numbering_of_groups_and_clusters_does_not_matter():
    log_odds, inputs, y, _ = sample(1, 500, pure=True)
    rng = np.random.default_rng(1)
    g, k = rng.permutation(4), rng.permutation(3)
    renumbered = {
        "group": np.argsort(g)[inputs["group"]],
        "cluster": np.argsort(k)[inputs["cluster"]],
        "group_prior": inputs["group_prior"][g][:, k],
        "prior": inputs["prior"][k],
    }
    assert auc_gain(log_odds, **renumbered, y=y) == auc_gain(log_odds, **inputs, y=y)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_without_shift_there_is_no_gain_and_rounding_makes_no_loss(seed, labelled):
    log_odds, inputs, y, _ = sample(seed, 400, ties=True)
    inputs["group_prior"] = np.tile(inputs["prior"], (4, 1))
    assert 0 <= auc_gain(log_odds, **inputs, y=y if labelled else None).gain < 1e-15


def test_pure_clusters_change_nothing_where_every_group_agrees():
    log_odds, inputs, _, _ = sample(3, 400)
    inputs["group_prior"][:, 0], inputs["prior"][0] = 0, 0
    inputs["group_prior"][:, 1], inputs["prior"][1] = 1, 1
    log_odds = np.select([inputs["cluster"] == 0, inputs["cluster"] == 1], [-inf, inf], log_odds)
    alone = inputs["cluster"] == 2
    kept = {**inputs, "group": inputs["group"][alone], "cluster": inputs["cluster"][alone]}
    whole, part = auc_gain(log_odds, **inputs), auc_gain(log_odds[alone], **kept)
    assert whole.certain == part.certain == 0
    assert 0 < whole.gain < part.gain  # the same pairs, diluted by pairs that were always in order


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-800, 800) | st.sampled_from([-inf, inf, 0.0]), st.integers(0, 2)), min_size=2
    ),
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 1 - 1e-16]), min_size=3, max_size=3),
)
def test_gain_is_never_negative_nor_nan_however_extreme_the_scores(rows, shares):
    rows, shares = [*rows, (0.0, 3)], [*shares, 0.5]  # one row in doubt, so that both classes have weight
    log_odds, group = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    result = auc_gain(log_odds, group=group, cluster=np.zeros_like(group), group_prior=np.array([shares]).T)
    assert result.certain >= 0
    assert result.reordered >= 0
    assert result.auc_agnostic + result.gain <= 1 + 1e-12


def test_pure_cells_and_useless_features_take_the_auc_from_a_half_to_one():
    n = 10
    result = auc_gain(np.zeros(n), group=np.arange(n) % 2, cluster=np.zeros(n, int), group_prior=[[0], [1]])
    assert (result.auc_agnostic, result.certain, result.reordered) == pytest.approx((0.5, 0.5, 0.0))
    assert float(result) == result.gain


@pytest.mark.parametrize("labelled", [False, True])
def test_a_weight_of_two_is_two_rows_and_a_weight_of_zero_is_none(labelled):
    log_odds, inputs, y, _ = sample(4, 300, ties=True)
    count = np.random.default_rng(4).integers(0, 3, size=y.size)
    repeated = {name: np.repeat(inputs[name], count) for name in ("group", "cluster")}
    whole = auc_gain(log_odds, **inputs, y=y if labelled else None, sample_weight=count)
    copies = auc_gain(
        np.repeat(log_odds, count), **{**inputs, **repeated}, y=np.repeat(y, count) if labelled else None
    )
    assert whole.gain == pytest.approx(copies.gain, **EXACT)


def test_overall_prior_is_the_share_of_each_cluster_in_the_population():
    _, inputs, _, _ = sample(5, 1000)
    weight = np.random.default_rng(5).exponential(size=1000)
    share = inputs["group_prior"][inputs["group"], inputs["cluster"]]
    expected = [
        np.average(share[inputs["cluster"] == k], weights=weight[inputs["cluster"] == k]) for k in range(3)
    ]
    del inputs["prior"]
    assert overall_prior(**inputs, sample_weight=weight) == pytest.approx(expected)


def test_cells_and_clusters_without_rows_may_be_nan():
    log_odds, inputs, _, _ = sample(6, 200)
    before = auc_gain(log_odds, **inputs)
    inputs["group_prior"] = np.pad(inputs["group_prior"], ((0, 1), (0, 1)), constant_values=np.nan)
    inputs["prior"] = np.append(inputs["prior"], np.nan)
    assert auc_gain(log_odds, **inputs) == before


def test_a_posterior_of_zero_or_one_is_not_moved_by_a_pure_cell():
    settled = auc_gain(
        [-inf, 0.0, 1.0], group=[1, 0, 1], cluster=[0, 0, 0], group_prior=[[0.5], [1]], prior=[0.6]
    )
    assert settled.auc_agnostic + settled.gain == pytest.approx(1 - 0.5 * soft_share_of_middle_row())


def soft_share_of_middle_row():
    """Chance that a pair is the middle row with itself, the only pair that stays a tie."""
    middle = expit(logit(0.5) - logit(0.6))
    return middle / (middle + 1) * (1 - middle) / (1 - middle + 1)


def test_memory_grows_like_the_rows():
    log_odds, inputs, y, _ = sample(8, 2**16, ties=True)
    tracemalloc.start()
    auc_gain(log_odds, **inputs, y=y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Some thirty arrays of one number a row. All pairs would need 65,536 numbers a row.
    assert peak < 2**16 * 8 * 40


GOOD = {"log_odds": [0.0, 1.0], "group": [0, 1], "cluster": [0, 0], "group_prior": [[0.2], [0.6]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_odds": []}, "shape"),
        ({"log_odds": [np.nan, 0]}, "1 NaN"),
        ({"group": [0]}, r"group has shape \(1,\); \(2,\)"),
        ({"group": ["a", "b"]}, "return_inverse"),
        ({"group": [0, 2]}, "from 0 to 2 but group_prior has 2"),
        ({"cluster": [0, -1]}, "from -1 to 0"),
        ({"group_prior": [0.2, 0.6]}, r"\(groups, clusters\)"),
        ({"group_prior": [[0.2], [np.nan]]}, r"group_prior\[1, 0\] is nan"),
        ({"group_prior": [[0.2], [1.2]]}, r"group_prior\[1, 0\] is 1.2"),
        ({"prior": [0.4, 0.5]}, r"prior has shape \(2,\); \(1,\)"),
        ({"prior": [np.nan]}, "prior=None"),
        ({"prior": [0.0]}, r"prior\[0\] is exactly 0 but group_prior\[0, 0\] is 0.2"),
        ({"y": [0, -1]}, r"y holds \[-1\]"),
        ({"y": [0]}, "y has shape"),
        ({"y": [1, 1]}, "No row can be negative"),
        ({"y": [1, 0], "group_prior": [[0.0], [0.6]]}, "1 labels contradict"),
        ({"y": [1, 0], "log_odds": [-700, 10]}, "Clip log_odds"),
        ({"sample_weight": [1]}, "sample_weight has shape"),
        ({"sample_weight": [1, -1]}, "negative"),
        ({"sample_weight": [0, 0]}, "only zero"),
    ],
)
def test_bad_input_is_explained(change, message):
    with pytest.raises(ValueError, match=message):
        auc_gain(**{**GOOD, **change})
