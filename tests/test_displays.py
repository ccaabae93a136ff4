"""Pictures in scikit-learn's style: what is drawn is what the model says."""

import sys

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from groupshift.displays import CalibrationByGroupDisplay, GroupSharesDisplay, ShiftsDisplay  # noqa: E402

DISPLAYS = [GroupSharesDisplay, ShiftsDisplay, CalibrationByGroupDisplay]


@pytest.fixture(autouse=True)
def _close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def fit(n_groups=8, rows=120):
    sample = make_grouped_mixture(
        n_features=2,
        n_clusters=2,
        n_groups=n_groups,
        labeled_per_group=(rows, 0),
        unlabeled_per_group=(rows, 0),
        random_state=0,
    )
    X, y, groups, _ = sample.training()
    return GroupShiftClassifier(GaussianNB(), partition=2, random_state=0).fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def model():
    return fit()


def test_shares_are_drawn_as_the_model_gives_them_in_order(model):
    display = GroupSharesDisplay.from_estimator(model, coverage=0.8)
    table = model.group_shares(by="group", coverage=0.8)
    order = np.argsort(table["share"])
    lines = {line.get_label(): line for line in display.ax_.lines}
    assert lines["population"].get_xdata() == pytest.approx(table["share"][order])
    assert lines["labeled sample"].get_xdata() == pytest.approx(model.evidence_.groups.share[order, 0])
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == table["group"][order].tolist()
    ends = np.array([segment[:, 0] for segment in display.ax_.collections[0].get_segments()])
    assert ends == pytest.approx(np.c_[table["low"], table["high"]][order])
    assert "80 % interval" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_some_groups_can_be_shown_alone(model):
    display = GroupSharesDisplay.from_estimator(model, groups=["g003", "g001"])
    assert set(display.groups) == {"g001", "g003"}
    assert len(ShiftsDisplay.from_estimator(model, groups=["g003"]).shift) == 1
    with pytest.raises(ValueError, match=r"Groups \['nowhere'\] have no unlabelled rows"):
        GroupSharesDisplay.from_estimator(model, groups=["nowhere"])


def test_the_map_shows_shifts_around_zero_and_leaves_empty_cells_out(model):
    display = ShiftsDisplay(groups=np.array(["a", "b"]), shift=np.array([[1.0, np.nan], [-2.0, 0.0]])).plot()
    image = display.ax_.images[0]
    assert image.get_clim() == (-2.0, 2.0)
    assert image.get_array().mask.tolist() == [[False, False], [False, True]]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["b", "a"]
    drawn = ShiftsDisplay.from_estimator(model, sort=False).ax_.images[0].get_array()
    assert np.asarray(drawn)[::-1] == pytest.approx(model.shift_)


def test_calibration_marks_lie_at_mean_probability_and_hidden_share(model):
    display = CalibrationByGroupDisplay.from_estimator(model)
    hidden = model.evidence_.held_out.by_group
    marks = {marks.get_label(): marks.get_offsets() for marks in display.ax_.collections[1:]}
    assert np.asarray(marks["model"]) == pytest.approx(np.hstack([hidden["mean_model"], hidden["share"]]))
    assert np.asarray(marks["plain classifier"]) == pytest.approx(
        np.hstack([hidden["mean_global"], hidden["share"]])
    )
    # Shifts bring the mean probabilities of groups closer to what their labels say.
    gap = {
        name: np.abs(np.diff(np.asarray(marks[name]), axis=1)).mean()
        for name in ("model", "plain classifier")
    }
    assert gap["model"] < gap["plain classifier"]


def test_reliability_curves_take_the_groups_together(model):
    display = CalibrationByGroupDisplay.from_estimator(model, kind="bins")
    curve = next(line for line in display.ax_.lines if line.get_label() == "model")
    # Cross-fitted and calibrated: bins of 100 rows stray by 0.05 (a standard error) from it.
    assert np.abs(curve.get_xdata() - curve.get_ydata()).max() < 0.2
    with pytest.raises(ValueError, match="Pass 'groups' or 'bins'"):
        display.plot(kind="other")


def test_many_groups_are_drawn_without_names():
    many = fit(n_groups=200, rows=12)
    for display in DISPLAYS:
        drawn = display.from_estimator(many)
        drawn.figure_.canvas.draw()
        assert max(drawn.figure_.get_size_inches()) <= 14
    assert len(GroupSharesDisplay.from_estimator(many).ax_.get_yticks()) == 0
    # Twentieths of the groups instead of 200 marks, and all rows in them.
    curve = CalibrationByGroupDisplay.from_estimator(many).ax_.lines[-1]
    assert len(curve.get_xdata()) == 20


@pytest.mark.parametrize("display", DISPLAYS)
def test_displays_draw_on_the_axes_they_are_given_and_again(model, display):
    import matplotlib.pyplot as plt

    figure, (first, second) = plt.subplots(1, 2)
    drawn = display.from_estimator(model, ax=first)
    assert drawn.ax_ is first
    assert drawn.figure_ is figure
    assert drawn.plot(ax=second) is drawn
    assert drawn.ax_ is second


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_matplotlib_the_error_names_the_extra(model, display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"groupshift\[plot\]"):
        display.from_estimator(model)


def test_a_model_without_population_says_what_is_missing():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    with pytest.warns(UserWarning, match="No unlabelled rows"):
        lone = GroupShiftClassifier(GaussianNB(), random_state=0).fit(
            rng.normal(size=(60, 1)) + y[:, None], y, groups=np.tile(["a", "b"], 30)
        )
    with pytest.raises(ValueError, match="no unlabelled groups to show"):
        GroupSharesDisplay.from_estimator(lone)
    assert CalibrationByGroupDisplay.from_estimator(lone).ax_ is not None
