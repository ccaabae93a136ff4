"""Joint draws of shares: what people make of them agrees with the intervals that the model gives."""

from copy import deepcopy

import numpy as np
import pytest

from class_samples import draw_table
from conftest import make_quick
from shifted_groups import draw, fit_on

DRAWS = 4_000


def drawn(model, by, **options):
    """Table of draws without them, and the draws as an array (n_lines, n_draws)."""
    table = model.group_shares(by=by, draws=DRAWS, random_state=1, **options)
    columns = {name: table[name] for name in table if not name.startswith("draw_")}
    return columns, np.array([table[f"draw_{i}"] for i in range(DRAWS)]).T


@pytest.fixture(scope="module", params=["one cluster", "three clusters", "random labels"])
def model(request):
    settings = {
        "one cluster": {},
        "three clusters": {"partition": 3},
        "random labels": {"selection": "random"},
    }[request.param]
    return fit_on(draw(np.random.default_rng(0), n_groups=15), **settings)


@pytest.mark.parametrize("by", ["cell", "group", "overall"])
def test_draws_have_the_shares_as_means_and_the_intervals_as_quantiles(model, by):
    table, draws = drawn(model, by)
    known = model.group_shares(by=by)
    assert list(table) == [*(n for n in known if n in ("group", "cluster", "rows")), "weight"]
    width = known["high"] - known["low"]
    # A mean of 4,000 draws is within 4 / sqrt(4000) standard deviations, of which the interval has 3.3.
    assert np.all(np.abs(draws.mean(1) - known["share"]) < 0.03 * width + 1e-9)
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    # Intervals end at whole rows, and quantiles have an error of a tenth of a standard deviation or so at their extremes.
    away = 1 / known["rows"] + 0.08 * width
    assert np.all(np.abs(low - known["low"]) < away)
    assert np.all(np.abs(high - known["high"]) < away)
    assert draws.min() >= 0
    assert draws.max() <= 1


def test_cells_add_up_to_groups_and_groups_to_all_rows_draw_by_draw(model):
    (cells, of_cells), (groups, of_groups), (_, of_all) = (
        drawn(model, by) for by in ("cell", "group", "overall")
    )
    share = np.zeros_like(of_groups)
    for i, name in enumerate(groups["group"]):
        own = cells["group"] == name
        share[i] = np.average(of_cells[own], axis=0, weights=cells["weight"][own])
    assert share == pytest.approx(of_groups)
    assert np.average(of_groups, axis=0, weights=groups["weight"]) == pytest.approx(of_all[0])


def test_the_overall_share_and_differences_are_those_of_the_model(model):
    table, draws = drawn(model, "group")
    overall = np.average(draws, axis=0, weights=table["weight"])
    known = model.overall_share()
    # A twelfth of the width: the error of a quantile, and the difference between a sum of betas and a beta.
    assert np.quantile(overall, [0.05, 0.95]) == pytest.approx(
        [known.low, known.high], abs=0.08 * (known.high - known.low)
    )
    for i in range(1, 6):
        found = model.share_difference(*(table["group"][j] for j in (0, i)))
        low, high = np.quantile(draws[0] - draws[i], [0.05, 0.95])
        assert [low, high] == pytest.approx([found.low, found.high], abs=0.05 * (found.high - found.low))


def test_without_the_common_shift_draws_have_the_narrow_intervals():
    model = fit_on(draw(np.random.default_rng(0), n_groups=15))
    known = model.group_shares(by="group")
    _, draws = drawn(model, "group", common_shift=False)
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    width = known["narrow_high"] - known["narrow_low"]
    away = 1 / known["rows"] + 0.08 * width
    assert np.all(np.abs(low - known["narrow_low"]) < away)
    assert np.all(np.abs(high - known["narrow_high"]) < away)
    assert width.mean() < 0.9 * (known["high"] - known["low"]).mean()


def test_a_known_overall_rate_is_that_of_the_draws():
    X, y, groups, _ = draw(np.random.default_rng(0), n_groups=15)
    own = y < 0
    model = fit_on((X, y, groups, None)).update(X[own], groups[own], known_overall=(0.4, 0.01))
    _, of_all = drawn(model, "overall")
    assert of_all.mean() == pytest.approx(model.overall_share().share, abs=0.001)
    assert of_all.std() == pytest.approx(0.01, rel=0.1)


def test_the_same_seed_gives_the_same_draws_and_another_gives_others(model):
    again = model.group_shares(by="group", draws=10, random_state=0)
    assert np.array_equal(again["draw_3"], model.group_shares(by="group", draws=10, random_state=0)["draw_3"])
    assert not np.array_equal(
        again["draw_3"], model.group_shares(by="group", draws=10, random_state=1)["draw_3"]
    )


def test_order_and_names_of_groups_do_not_decide_what_is_likely():
    X, y, groups, truth = draw(np.random.default_rng(3), n_groups=12)
    model = fit_on((X, y, groups, truth))
    table, draws = drawn(model, "group")
    first = np.mean(draws.argmax(0)[:, None] == np.arange(12), 0)
    assert first.sum() == pytest.approx(1)
    own = y < 0
    shares = [truth[own & (groups == g)].mean() for g in table["group"]]
    # The group with the largest share is among the three that are likely to have it.
    assert np.argmax(shares) in np.argsort(-first)[:3]


def test_classes_sum_to_one_and_have_the_intervals_of_the_model():
    X, y, groups, _ = draw_table()
    model = make_quick(partition=1, unlabeled_value=None).fit(X, y, groups=groups)
    table, draws = drawn(model, "group")
    assert list(table) == ["group", "class", "rows", "weight"]
    by_group = draws.reshape(12, 4, -1)
    assert by_group.sum(1) == pytest.approx(np.ones((12, DRAWS)))
    known = model.group_shares(by="group")
    width = known["high"] - known["low"]
    assert np.all(np.abs(draws.mean(1) - known["share"]) < 0.05 * width + 1e-9)
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    # Classes are put together to sum to one after their errors were drawn.
    assert np.median((high - low) / width) == pytest.approx(1, abs=0.15)


def test_a_frame_has_a_column_for_each_draw():
    pd = pytest.importorskip("pandas")
    X, y, groups, _ = draw(np.random.default_rng(0), n_groups=4)
    model = fit_on((pd.DataFrame(X, columns=["a", "b"]), y, groups, None))
    table = model.group_shares(by="group", draws=7, random_state=0)
    assert table.filter(like="draw_").shape == (4, 7)


@pytest.mark.parametrize(
    ("options", "message"), [({"draws": 0}, "draws=0"), ({"by": "rows", "draws": 5}, "by=")]
)
def test_what_cannot_be_drawn_is_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        model.group_shares(**options)


def test_a_model_without_a_population_has_no_lines():
    X, y, groups, _ = draw(np.random.default_rng(0), n_groups=4)
    known = y >= 0
    with pytest.warns(UserWarning, match="No unlabelled rows"):
        model = fit_on((X[known], y[known], groups[known], None))
    assert len(deepcopy(model).group_shares(by="group", draws=5)["draw_0"]) == 0
