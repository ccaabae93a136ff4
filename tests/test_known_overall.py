"""A known rate of the population, and known shares of some groups, through every way in."""

import numpy as np
import pytest

from conftest import probability
from groupshift import distributed, streaming

# Predictions and shares are sums of the same rows; shares are summed in bins, see BIN_WIDTH.
EXACT = 1e-6


def population_mean(model, X, y, groups, weight=None):
    own = y < 0
    weight = None if weight is None else weight[own]
    return np.average(probability(model, X[own], groups[own]), weights=weight)


def overall(model):
    weight = model.row_weight_
    return (weight * model.group_prior_).sum() / weight.sum()


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 0.07),
        ({}, 0.6),
        ({"selection": "random"}, 0.6),
        ({"selection": "by_label"}, 0.3),
        ({"shares": None}, 0.07),
        ({"shares": "em", "shrinkage": "none"}, 0.98),
    ],
)
def test_predictions_of_the_population_average_to_its_known_rate(rows, quick, settings, share):
    X, y, groups = rows
    model = quick(**settings).fit(X, y, groups=groups, known_overall=share)
    assert population_mean(model, X, y, groups) == pytest.approx(share, abs=EXACT)
    assert overall(model) == pytest.approx(share, abs=EXACT)
    assert model.known_overall_.tolist() == [share, 0.0]


def test_weights_count_in_a_known_rate(rows, quick):
    X, y, groups = rows
    weight = np.random.default_rng(0).uniform(0.2, 5, len(y))
    model = quick().fit(X, y, groups=groups, sample_weight=weight, known_overall=0.3)
    assert population_mean(model, X, y, groups, weight) == pytest.approx(0.3, abs=EXACT)
    assert overall(model) == pytest.approx(0.3, abs=EXACT)


def test_a_known_rate_with_an_error_is_weighed_against_the_rows(rows, fitted_copy):
    X, y, groups = rows
    model, own = fitted_copy, y < 0
    plain = overall(model)
    found = [
        overall(model.update(X[own], groups[own], known_overall=(0.9, error))) for error in (0.001, 0.05, 0.3)
    ]
    assert plain < found[2] < found[1] < found[0] < 0.9
    assert found[0] > 0.89


def test_a_known_rate_is_that_of_the_rows_of_an_update(rows, fitted_copy):
    X, y, groups = rows
    model = fitted_copy
    some = np.flatnonzero(y < 0)[::2]
    model.update(X[some], groups[some], known_overall=0.25)
    assert probability(model, X[some], groups[some]).mean() == pytest.approx(0.25, abs=EXACT)
    model.update(X[some], groups[some])
    assert model.known_overall_ is None


def test_a_known_rate_moves_groups_that_have_no_rows_too(rows, fitted_copy):
    X, y, groups = rows
    model, own = fitted_copy, y < 0
    plain = model.unseen_shift_
    known = model.update(X[own], groups[own], known_overall=0.9).unseen_shift_
    assert (known > plain + 0.5).all()


def test_known_shares_of_some_groups_move_the_others(rows, fitted_copy):
    X, y, groups = rows
    plain = fitted_copy
    share = plain.group_shares(by="group")["share"]
    known = {g: min(share[i] + 0.2, 0.98) for i, g in enumerate(plain.groups_[:8])}
    own = y < 0
    moved = plain.update(X[own], groups[own], known_shares=known).group_shares(by="group")["share"]
    assert (moved[8:] - share[8:]).mean() > 0.05
    assert (moved[8:] > share[8:]).all()


def test_exact_and_uncertain_known_shares_and_a_known_rate_go_together(rows, quick):
    X, y, groups = rows
    known = {"g000": 0.9, "g001": (0.2, 0.05), "g002": (0.5, 0.0)}
    model = quick().fit(X, y, groups=groups, known_shares=known, known_overall=0.4)
    share = dict(zip(model.groups_, model.group_shares(by="group")["share"], strict=True))
    assert overall(model) == pytest.approx(0.4, abs=EXACT)
    assert share["g000"] == pytest.approx(0.9, abs=1e-5)
    assert share["g002"] == pytest.approx(0.5, abs=1e-5)
    assert abs(share["g001"] - 0.2) < 0.15


def test_rates_that_contradict_each_other_are_refused(rows, fitted_copy):
    X, y, groups = rows
    model = fitted_copy
    before = model.group_prior_.copy()
    own = y < 0
    known = dict.fromkeys(model.groups_[:-1], 0.9)
    with pytest.raises(
        ValueError, match=r"known_overall is 0\.2, but the groups with known shares .* leave it"
    ):
        model.update(X[own], groups[own], known_shares=known, known_overall=0.2)
    np.testing.assert_array_equal(model.group_prior_, before)
    # With an error on either side there is no contradiction.
    model.update(X[own], groups[own], known_shares=known, known_overall=(0.2, 0.1))
    uncertain = dict.fromkeys(known, (0.9, 0.05))
    model.update(X[own], groups[own], known_shares=uncertain, known_overall=0.2)
    assert overall(model) == pytest.approx(0.2, abs=EXACT)


def test_shares_of_all_groups_may_add_up_to_the_known_rate(rows, fitted_copy):
    X, y, groups = rows
    model = fitted_copy
    own = y < 0
    known = dict.fromkeys(model.groups_, 0.35)
    model.update(X[own], groups[own], known_shares=known, known_overall=0.35)
    np.testing.assert_allclose(model.group_shares(by="group")["share"], 0.35, atol=1e-5)


@pytest.mark.parametrize("wrong", [1.5, -0.1, np.nan, (0.5, -1), (0.5, np.nan), (0.1, 0.2, 0.3), "a third"])
def test_a_rate_that_is_none_is_refused_before_anything_is_trained(rows, quick, wrong):
    X, y, groups = rows
    with pytest.raises(ValueError, match=r"known_overall is .* Pass a share between 0 and 1"):
        quick().fit(X, y, groups=groups, known_overall=wrong)


def test_a_known_rate_needs_unlabelled_rows(rows, quick):
    X, y, groups = rows
    own = y >= 0
    with pytest.raises(ValueError, match="known_overall is a rate of unlabelled rows, and there are none"):
        quick().fit(X[own], y[own], groups=groups[own], known_overall=0.5)


@pytest.mark.parametrize("room", ["files", "Dask"])
def test_a_known_rate_is_the_same_in_files_and_on_dask(rows, quick, tmp_path, room):
    pd = pytest.importorskip("pandas")
    X, y, groups = rows
    table = pd.DataFrame(X, columns=["a", "b"]).assign(site=groups)
    labeled = table[y >= 0].assign(ill=y[y >= 0])
    whole = quick().fit(
        table[["a", "b"]].to_numpy(), y, groups=groups, known_overall=0.3, known_shares={"g001": 0.4}
    )
    population, columns = table[y < 0], {"target": "ill", "group": "site"}
    if room == "files":
        population.to_parquet(tmp_path / "p.parquet")
        module, data = streaming, tmp_path / "p.parquet"
    else:
        dd = pytest.importorskip("dask.dataframe")
        module, data = distributed, dd.from_pandas(population, npartitions=2)
    rates = {"known_overall": 0.3, "known_shares": {"g001": 0.4}}
    model = module.fit(quick(), labeled, data, **columns, **rates)
    np.testing.assert_allclose(overall(model), overall(whole), atol=EXACT)
    module.update(model, data, group="site", known_overall=0.5)
    assert overall(model) == pytest.approx(0.5, abs=EXACT)
