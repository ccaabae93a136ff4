"""Intervals of the overall share and of differences: errors that groups have in common add up in one and cancel in the other."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from class_samples import draw_table
from groupshift import share_changes
from groupshift._diagnosis.share_tables import shares_if_selected
from groupshift._shifts.common import UNIDENTIFIED
from groupshift._shifts.known import mean_posterior
from shifted_groups import draw, fit_on


@pytest.fixture(scope="module")
def fitted_groups(shifted):
    return shifted[1]


def with_estimate(model, **parts):
    """A model whose estimate has other parts."""
    other = type(model)(**model.get_params(deep=False))
    other.__dict__.update(model.__dict__)
    other.estimate_ = replace(model.estimate_, **parts)
    return other


def width(interval):
    return interval.high - interval.low


def test_the_overall_share_is_that_of_all_rows_and_lies_in_its_interval(fitted_groups):
    found = fitted_groups.overall_share()
    groups = fitted_groups.group_shares(by="group")
    assert found.share == pytest.approx(np.average(groups["share"], weights=groups["rows"]))
    assert 0 <= found.low < found.share < found.high <= 1
    wider = fitted_groups.overall_share(coverage=0.99)
    assert wider.low < found.low
    assert found.high < wider.high


def test_the_overall_share_is_a_table_of_one_line(fitted_groups):
    line = fitted_groups.group_shares(by="overall")
    assert list(line) == ["rows", "share", "low", "high", "narrow_low", "narrow_high", "labeled_share"]
    assert (line["share"][0], line["low"][0], line["high"][0]) == fitted_groups.overall_share()
    with pytest.raises(ValueError, match="Pass 'cell', 'group' or 'overall'"):
        fitted_groups.group_shares(by="rows")


def test_what_nothing_decides_is_in_the_overall_interval_until_a_rate_or_the_user_settles_it(shifted):
    X, y, groups, _ = shifted[0]
    own = y < 0
    model = shifted[1]
    assert model.estimate_.unidentified == UNIDENTIFIED
    half, twice = (shares_if_selected(model, odds)[0][0] for odds in (0.5, 2.0))
    found = model.overall_share()
    # At 90 %, positives are twice or half as likely to be labelled: what that does is inside, and little more.
    assert found.low <= twice < half <= found.high
    assert width(found) < 2 * (half - twice)
    random = fit_on(shifted[0], selection="random")
    assert random.estimate_.unidentified == 0
    assert width(random.overall_share()) < 0.5 * width(found)
    some = with_estimate(model).update(
        X[own], groups[own], known_shares=dict.fromkeys(model.groups_[:20], 0.5)
    )
    assert some.estimate_.unidentified < 0.2 * UNIDENTIFIED
    exact = with_estimate(shifted[1]).update(X[own], groups[own], known_overall=0.4)
    assert exact.overall_share() == pytest.approx((0.4, 0.4, 0.4), abs=1e-4)
    near = with_estimate(shifted[1]).update(X[own], groups[own], known_overall=(0.4, 0.01))
    assert width(near.overall_share()) == pytest.approx(2 * 1.645 * 0.01, rel=0.1)


def test_wide_intervals_of_groups_hold_what_nothing_decides_and_narrow_ones_do_not(shifted):
    X, y, groups, _ = shifted[0]
    own = y < 0

    def widths(model):
        table = model.group_shares(by="group")
        sides = ("high", "low"), ("narrow_high", "narrow_low")
        return [(table[high] - table[low]).mean() for high, low in sides]

    wide, narrow = widths(shifted[1])
    assert wide > 1.2 * narrow
    # One component of all groups and of all of them together: a rate that is known takes it out of both.
    share = shifted[1].overall_share().share
    settled = widths(with_estimate(shifted[1]).update(X[own], groups[own], known_overall=share))
    assert settled[0] < wide
    assert settled[0] - settled[1] < 0.2 * (wide - narrow)
    assert widths(fit_on(shifted[0], selection="random"))[0] < wide


def test_a_difference_is_known_better_than_its_two_shares_where_their_errors_are_common(fitted_groups):
    common = np.full(1, 0.3)
    slope = mean_posterior(fitted_groups.estimate_.points, fitted_groups.shift_)[1]
    variance = np.full_like(slope, 0.35)
    parts = {
        "variance": variance,
        "shared_deviation": np.sqrt(variance),
        "share_error": slope * np.sqrt(variance),
    }
    apart = with_estimate(fitted_groups, **parts, common_variance=np.zeros(1))
    together = with_estimate(fitted_groups, **parts, common_variance=common)
    a, b = fitted_groups.groups_[:2]
    assert width(together.share_difference(a, b)) < 0.7 * width(apart.share_difference(a, b))
    assert width(together.overall_share()) > width(apart.overall_share())


def test_a_difference_turns_round_with_its_groups(fitted_groups):
    a, b = fitted_groups.groups_[:2]
    one, other = fitted_groups.share_difference(a, b), fitted_groups.share_difference(b, a)
    assert one == pytest.approx((-other.difference, -other.high, -other.low))
    share = dict(zip(fitted_groups.groups_, fitted_groups.group_shares(by="group")["share"], strict=True))
    assert one.difference == pytest.approx(share[a] - share[b])
    assert one.low < one.difference < one.high


def test_differences_of_unknown_groups_are_refused(fitted_groups):
    with pytest.raises(ValueError, match="Group 'nowhere' has no unlabeled rows"):
        fitted_groups.share_difference(fitted_groups.groups_[0], "nowhere")


def test_differences_hold_the_truth_at_their_rate():
    inside = []
    for seed in range(3):
        X, y, groups, truth = draw(np.random.default_rng(seed), share=(0.2, 0.8), n_groups=15)
        model = fit_on((X, y, groups, truth))
        own = y < 0
        share = {g: truth[own & (groups == g)].mean() for g in model.groups_}
        for a, b in zip(model.groups_[:-1], model.groups_[1:], strict=True):
            found = model.share_difference(a, b)
            inside.append(found.low - 1e-9 <= share[a] - share[b] <= found.high + 1e-9)
    # Some forty differences of neighbours: a tenth outside is 4 ± 2.
    assert np.mean(inside) > 0.8


def test_changes_are_those_between_updates(shifted):
    X, y, groups, _ = shifted[0]
    before, own = shifted[1], np.flatnonzero(y < 0)
    few = own[(groups[own] != before.groups_[0]) & (np.random.default_rng(0).random(len(own)) < 0.5)]
    renamed = np.where(groups[few] == before.groups_[1], "new", groups[few])
    after = with_estimate(shifted[1]).update(X[few], renamed)
    found = share_changes(before, after)
    assert list(found) == ["group", "before", "after", "change", "low", "high"]
    assert set(found["group"]) == {*before.groups_, "new"}
    both = np.isfinite(found["change"])
    assert (~both).sum() == 3
    np.testing.assert_allclose(found["change"][both], (found["after"] - found["before"])[both])
    assert (found["low"][both] < found["change"][both]).all()
    assert (found["change"][both] < found["high"][both]).all()
    whole = share_changes(before, after, by="overall")
    assert whole["before"][0] == before.overall_share().share
    # Both have learned from the same labels: how these were chosen is no reason for a change.
    assert whole["high"][0] - whole["low"][0] < 0.7 * width(before.overall_share())
    with pytest.raises(ValueError, match="by='cell' is not known"):
        share_changes(before, after, by="cell")


@pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_without_unlabelled_rows_can_be_compared_with_one_that_has_them(quick, n_classes):
    X, y, groups, _ = draw_table(n_groups=4, labeled=40, unlabeled=40, n_classes=n_classes)
    own = np.array([value is not None for value in y])
    without = quick(unlabeled_value=None).fit(X[own], y[own], groups=groups[own])
    updated = deepcopy(without).update(X[~own], groups[~own])
    lines = 1 if n_classes == 2 else n_classes
    for models in ((without, updated), (updated, without)):
        found = share_changes(*models)
        assert sorted(set(found["group"])) == sorted(set(groups))
        assert {len(column) for column in found.values()} == {4 * lines}
        assert np.isnan(found["before" if models[0] is without else "after"]).all()
        assert np.isnan(found["change"]).all()
        whole = share_changes(*models, by="overall")
        assert {len(column) for column in whole.values()} == {lines}


def test_without_a_population_no_share_is_known(rows, quick):
    X, y, groups = rows
    own = y >= 0
    with pytest.warns(UserWarning, match="No unlabelled rows"):
        model = quick().fit(X[own], y[own], groups=groups[own])
    assert np.isnan(model.overall_share()).all()
    assert model.diagnose().sensitivity == {}


def test_sensitivity_is_told_for_all_and_for_each_group_and_known_rates_stay(shifted):
    X, y, groups, _ = shifted[0]
    own = y < 0
    table = shifted[1].diagnose().sensitivity
    assert list(table) == ["group", "rows", "share", "if_half", "if_twice"]
    assert table["group"][0] is None
    assert len(table["group"]) == 1 + len(shifted[1].groups_)
    assert (table["if_twice"] < table["share"]).all()
    assert (table["share"] < table["if_half"]).all()
    overview = shifted[1].diagnose().overview
    assert [overview[f"share{name}"] for name in ("", "_if_half", "_if_twice")] == [
        pytest.approx(table[name][0]) for name in ("share", "if_half", "if_twice")
    ]
    known = (
        with_estimate(shifted[1])
        .update(X[own], groups[own], known_shares={"g00": 0.5})
        .diagnose()
        .sensitivity
    )
    assert known["if_half"][1] == known["share"][1] == pytest.approx(0.5, abs=1e-5)
    assert known["if_half"][2] > known["share"][2]
    settled = with_estimate(shifted[1]).update(X[own], groups[own], known_overall=0.4).diagnose()
    np.testing.assert_allclose(settled.sensitivity["if_half"], settled.sensitivity["share"], rtol=1e-12)
    assert "The known rate of the population, 40.0 %, settles" in settled.caution[0]
