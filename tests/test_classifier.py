"""GroupShiftClassifier and its population: updates, known shares, details of predictions and tables of shares."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from conftest import probability
from groupshift._data import progress
from groupshift._data.progress import listen
from shifted_groups import draw


def test_updating_with_the_same_rows_gives_the_same_shares(rows, fitted_copy):
    X, y, groups = rows
    model = fitted_copy
    before = model.group_prior_.copy(), model.shift_variance_.copy()
    model.update(X[y < 0], groups[y < 0])
    np.testing.assert_allclose(model.group_prior_, before[0], atol=1e-10)
    np.testing.assert_allclose(model.shift_variance_, before[1], atol=1e-10)


def test_updating_learns_new_shares_and_groups_and_keeps_the_rest(rows, quick):
    X, y, groups = rows
    model = quick().fit(X, y, groups=groups)
    learned, before = model.learned_, model.group_shares(by="group")["share"].mean()
    likely = probability(model, X, groups) > 0.5
    new = (y < 0) & likely
    model.update(X[new], np.where(groups[new] == "g000", "new", groups[new]))
    assert model.learned_ is learned
    assert "new" in model.groups_
    assert "g000" not in model.groups_
    assert model.group_shares(by="group")["share"].mean() > before + 0.1
    with pytest.warns(UserWarning, match="'g000'"):
        model.predict_proba(X[:1], ["g000"])


def test_a_known_share_is_met_and_narrows_its_interval(rows, quick, fitted_copy):
    X, y, groups = rows
    plain = fitted_copy.group_shares(by="group")
    model = quick().fit(X, y, groups=groups, known_shares={"g003": 0.77})
    exact = model.group_shares(by="group")
    # A Series by group is as good as a dict.
    by_series = quick().fit(X, y, groups=groups, known_shares=pd.Series({"g003": 0.77}))
    np.testing.assert_array_equal(by_series.shift_, model.shift_)
    assert exact["share"][3] == pytest.approx(0.77, abs=1e-6)
    assert exact["high"][3] - exact["low"][3] < plain["high"][3] - plain["low"][3]


@pytest.mark.parametrize("settings", [{}, {"shares": None}, {"shares": "em", "shrinkage": "none"}])
def test_predictions_add_up_to_a_known_share(rows, quick, settings):
    X, y, groups = rows
    known = {"g003": 0.77, "g007": (0.6, 0.02)}
    model = quick(**settings).fit(X, y, groups=groups, known_shares=known)
    shares = model.group_shares(by="group")
    for name, abs_ in (("g003", 1e-5), ("g007", 0.02)):
        own = (y < 0) & (groups == name)
        mean = probability(model, X[own], groups[own]).mean()
        assert mean == pytest.approx(known[name] if name == "g003" else 0.6, abs=abs_)
        # Scores are summed in bins: see BIN_WIDTH.
        assert shares["share"][shares["group"] == name][0] == pytest.approx(mean, abs=1e-5)


def test_details_agree_with_the_prediction_and_the_shares(rows, fitted):
    X, _, groups = rows
    details = fitted.predict_details(X, groups)
    np.testing.assert_array_equal(details["probability"], probability(fitted, X, groups))
    assert (details["low"] < details["probability"]).all()
    assert (details["probability"] < details["high"]).all()
    wider = fitted.predict_details(X, groups, coverage=0.99)
    assert (wider["low"] < details["low"]).all()
    assert set(np.unique(details["cluster"])) == {0, 1}
    np.testing.assert_array_equal(fitted.predict(X, groups), (details["probability"] > 0.5).astype(int))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_details_of_a_frame_are_a_frame_whose_rows_stand_beside_it(rows, quick, library):
    native = pytest.importorskip(library)
    X, y, groups = rows
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    frame = native.table(columns) if library == "pyarrow" else native.DataFrame(columns)
    if library == "pandas":
        frame.index = frame.index + 1000
    model = quick().fit(frame, y, groups=groups)
    details = model.predict_details(frame, groups)
    assert type(details) is type(frame)
    np.testing.assert_array_equal(
        np.asarray(details["probability"]), model.predict_proba(frame, groups)[:, 1]
    )
    if library == "pandas":
        assert details.index.equals(frame.index)


def test_shares_by_cell_and_by_group_fit_together(fitted):
    cells, groups = fitted.group_shares(), fitted.group_shares(by="group")
    limits = ["share", "low", "high", "narrow_low", "narrow_high"]
    assert list(cells) == ["group", "cluster", "rows", *limits]
    assert list(groups) == ["group", "rows", *limits, "labeled_share"]
    table = pd.DataFrame(cells)
    mean = table.assign(positive=table["rows"] * table["share"]).groupby("group")[["positive", "rows"]].sum()
    np.testing.assert_allclose(mean["positive"] / mean["rows"], groups["share"], atol=1e-9)
    for shares in (cells, groups):
        ordered = np.array([shares[name] for name in ("low", "narrow_low", "share", "narrow_high", "high")])
        assert (np.diff(ordered, axis=0) >= 0).all()
        assert (shares["low"] < shares["high"]).all()


def test_shares_of_groups_stand_beside_those_of_their_labelled_rows(rows, quick):
    X, y, groups = rows
    kept = (y < 0) | (groups != groups[0])
    shares = quick().fit(X[kept], y[kept], groups=groups[kept]).group_shares(by="group")
    labeled = pd.Series(y[kept & (y >= 0)]).groupby(groups[kept & (y >= 0)]).mean()
    np.testing.assert_allclose(shares["labeled_share"], labeled.reindex(shares["group"]))
    assert shares["group"][np.isnan(shares["labeled_share"])].tolist() == [groups[0]]


def test_the_shift_of_a_cell_alone_is_the_odds_ratio_of_its_share_and_the_labelled_one(rows, quick):
    X, y, groups = rows
    model = quick(shrinkage="none").fit(X, y, groups=groups)
    np.testing.assert_allclose(
        model.shift_, logit(model.group_prior_) - logit(model.labeled_prior_), atol=1e-9
    )


def test_labels_that_are_a_random_sample_of_each_group_tell_its_share(quick):
    X, y, groups, truth = draw(np.random.default_rng(0), n_groups=20, labeled=0, unlabeled=300, distance=1.0)
    some = np.random.default_rng(1).random(len(y)) < 0.3
    y = np.where(some, truth, -1)
    real = pd.Series(truth[~some]).groupby(groups[~some]).mean().to_numpy()
    error = {}
    for name, settings in (("random", {"selection": "random"}), ("plain", {"shares": None})):
        model = quick(partition=1, **settings).fit(X, y, groups=groups)
        error[name] = np.abs(model.group_shares(by="group")["share"] - real).mean()
    # Some 90 labels and 210 scores of each group: a standard error of 0.05 for shares from 0.1 to 0.9.
    assert error["random"] < 0.05 < error["plain"]


def test_theorem_2_is_what_predict_does(rows, fitted):
    X, _, groups = rows
    score, cluster = fitted.learned_.posterior(fitted._read_rows(X, groups)[0])
    group = np.searchsorted(fitted.groups_, groups)
    np.testing.assert_allclose(
        probability(fitted, X, groups), expit(score[:, 0] + fitted.shift_[group, cluster])
    )


def test_steps_are_told_to_whoever_listens_and_to_the_terminal(rows, quick, capsys):
    X, y, groups = rows
    steps = []
    with listen(steps.append):
        quick(verbose=1).fit(X, y, groups=groups)
    assert "estimating shares" in steps
    captured = capsys.readouterr()
    assert "estimating shares" in captured.err
    assert captured.out == ""


def test_rows_of_many_chunks_are_predicted_as_rows_of_one(rows, fitted_copy, monkeypatch):
    X, _, groups = rows
    groups = groups.copy()
    model = fitted_copy
    groups[5::7] = "new"
    with pytest.warns(UserWarning, match="'new' had no unlabelled rows"):
        whole = model.predict_proba(X, groups), model.predict_details(X, groups)
    monkeypatch.setattr("groupshift.classifier.PREDICTED_ROWS", 100)
    with pytest.warns(UserWarning, match="'new' had no unlabelled rows"):
        parts = model.predict_proba(X, groups), model.predict_details(X, groups)
    # Products of matrices may differ in the last bits where their shapes do.
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-12)
    for name, values in whole[1].items():
        np.testing.assert_allclose(parts[1][name], values, rtol=1e-12)
    np.testing.assert_array_equal(parts[1]["pooled"][5::7], True)


def test_without_shares_there_is_no_shift(rows, quick):
    X, y, groups = rows
    model = quick(shares=None).fit(X, y, groups=groups)
    assert (model.shift_ == 0).all()
    one, other = (model.predict_proba(X, np.full(len(X), name)) for name in ("g000", "g001"))
    np.testing.assert_array_equal(one, other)


def test_progress_says_the_step_what_is_done_of_it_and_how_long_the_rest_takes(
    rows, quick, monkeypatch, capsys
):
    X, y, groups = rows
    # A clock on which every look takes two seconds.
    clock = itertools.count(0, 2)
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(clock)))
    heard = []
    with listen(heard.append):
        model = quick(verbose=1, n_jobs=1).fit(X, y, groups=groups)
    assert "training classifiers: 1 of 6 fits, about 10 s left" in heard
    assert "training classifiers: 6 of 6 fits" in heard
    assert "estimating shares: 1 of 1 chunks of rows" in heard
    assert capsys.readouterr().err.splitlines() == [f"[groupshift] {text}" for text in heard]
    # What comes after a fit is not counted to its last step.
    with listen(heard.append):
        before = len(heard)
        model.predict_proba(X, groups)
        assert len(heard) == before
        model.update(X[y < 0], groups[y < 0])
    assert heard[before:] == ["estimating shares", "estimating shares: 1 of 1 chunks of rows"]


def test_lines_about_one_step_are_a_second_apart(capsys):
    with progress.steps():
        progress.begin("counting", 1)
        for _ in progress.counted(range(1000), 1000, "numbers"):
            pass
    assert len(capsys.readouterr().err.splitlines()) < 10


def test_rows_of_a_file_are_counted_even_if_nobody_knows_how_many_there_are():
    heard = []
    with listen(heard.append), progress.steps():
        progress.begin("reading")
        list(progress.counted(["ab", "c"], None, "rows", len))
        list(progress.counted(["ab", "c"], 2, "rows", len))
    assert heard == ["reading", "reading: 2 rows", "reading: 3 rows", *["reading: 2 of 2 rows"] * 2]
