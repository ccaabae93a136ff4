"""GroupShiftClassifier end to end: what must not matter, what does, and the truth found where it is known."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from conftest import finite_and_in_doubt
from groupshift import METHODS, GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture
from groupshift.progress import listen


def probability(model, X, groups):
    return model.predict_proba(X, groups)[:, 1]


# What must not matter


def test_a_prediction_depends_on_its_row_and_group_alone(rows, fitted):
    X, _, groups = rows
    together = fitted.predict_proba(X, groups)
    for i in (0, 5, 77):
        alone = fitted.predict_proba(X[[i]], groups[[i]])
        # A matrix product of one row may round differently in its last bit.
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-12)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(fitted.predict_proba(X[order], groups[order]), together[order], rtol=1e-12)


def test_group_names_do_not_matter(rows, fitted, quick):
    X, y, groups = rows
    # New names in another order; of another kind.
    names = {name: 1000 - i for i, name in enumerate(np.unique(groups))}
    renamed = np.array([names[g] for g in groups])
    model = quick().fit(X, y, groups=renamed)
    np.testing.assert_allclose(probability(model, X, renamed), probability(fitted, X, groups), atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        lambda i: int(i) - 5,
        lambda i: float(i) + 0.5,
        lambda i: f"state {i}",
        lambda i: ("country", int(i)),
        lambda i: dt.date(2024, 1, 1 + int(i)),
        lambda i: bool(i % 2),
        lambda i: b"x" + bytes([65 + i]),
        lambda i: int(i) if i % 2 else f"{i}",
        lambda i: frozenset([int(i)]),
    ],
    ids=["int", "float", "text", "tuple", "date", "bool", "bytes", "mixed", "frozenset"],
)
def test_groups_may_be_of_any_hashable_kind(rows, quick, name):
    X, y, groups = rows
    number = np.unique(groups, return_inverse=True)[1]
    values = np.empty(len(groups), object)
    values[:] = [name(i) for i in number]
    model = quick(refine=0).fit(X, y, groups=values)
    assert set(model.groups_.tolist()) == set(values.tolist())
    assert finite_and_in_doubt(model.predict_proba(X[:5], values[:5]))
    # As a plain list too.
    np.testing.assert_array_equal(
        model.predict_proba(X[:5], list(values[:5])), model.predict_proba(X[:5], values[:5])
    )


def test_group_values_are_matched_by_value_not_by_type(rows, quick):
    X, y, groups = rows
    number = np.unique(groups, return_inverse=True)[1]
    model = quick(refine=0).fit(X, y, groups=number)
    expected = model.predict_proba(X, number)
    for same in (
        number.astype(np.int8),
        number.astype(float),
        number.astype(object),
        pd.Series(number),
        list(number),
    ):
        np.testing.assert_array_equal(model.predict_proba(X, same), expected)


def test_row_order_does_not_matter_to_the_shares(rows, quick):
    # Folds are drawn by row, so training changes a little; given the classifier, shares must not.
    X, y, groups = rows
    model = quick(calibration="holdout", trust=1.0, refine=0).fit(X, y, groups=groups)
    unlabeled = y < 0
    before = model.update(X[unlabeled], groups[unlabeled]).group_prior_
    order = np.random.default_rng(1).permutation(unlabeled.sum())
    after = model.update(X[unlabeled][order], groups[unlabeled][order]).group_prior_
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_the_scale_of_weights_does_not_matter(rows, quick):
    X, y, groups = rows
    weight = np.random.default_rng(2).exponential(size=len(y))
    one, other = (
        quick(refine=1).fit(X, y, groups=groups, sample_weight=scale * weight) for scale in (1.0, 1000.0)
    )
    np.testing.assert_allclose(probability(other, X, groups), probability(one, X, groups), atol=1e-6)
    np.testing.assert_allclose(other.shift_variance_, one.shift_variance_, rtol=1e-4)


def test_equal_weights_are_no_weights(rows, quick, fitted):
    X, y, groups = rows
    for weight in (np.ones(len(y)), np.full(len(y), 7.0), 3.0):
        model = quick().fit(X, y, groups=groups, sample_weight=weight)
        np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-9)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_frames_and_arrays_agree(rows, fitted, quick, make):
    X, y, groups = rows
    frame = make({"a": X[:, 0], "b": X[:, 1]})
    model = quick().fit(frame, y, groups=groups)
    np.testing.assert_allclose(
        model.predict_proba(frame, groups), fitted.predict_proba(X, groups), atol=1e-12
    )
    with_groups = make({"a": X[:, 0], "state": groups, "b": X[:, 1]})
    model = quick(group="state").fit(with_groups, y)
    np.testing.assert_allclose(model.predict_proba(with_groups), fitted.predict_proba(X, groups), atol=1e-12)
    assert type(model.group_shares()) is type(frame)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: np.where(y < 0, np.nan, y),
        lambda y: pd.Series(y).replace(-1, None),
        lambda y: pd.array(np.where(y < 0, 0, y), dtype="Int64").copy(),
        lambda y: pl.Series([None if v < 0 else int(v) for v in y]),
        lambda y: pd.Series([{-1: None, 0: "no", 1: "yes"}[v] for v in y]),
        lambda y: [None if v < 0 else bool(v) for v in y],
        lambda y: pd.Series([{-1: None, 0: "no", 1: "yes"}[v] for v in y], dtype="category"),
    ],
    ids=["NaN", "None", "Int64", "polars", "text", "bool", "categorical"],
)
def test_missing_labels_mark_unlabelled_rows(rows, fitted, quick, labels, request):
    X, y, groups = rows
    given = labels(y)
    if "Int64" in request.node.name:
        given[y < 0] = pd.NA
    model = quick().fit(X, given, groups=groups)
    np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-12)
    assert set(model.predict(X, groups)) == set(model.classes_)


def test_another_value_may_mark_unlabelled_rows(rows, fitted, quick):
    X, y, groups = rows
    model = quick(unlabeled_value="?").fit(X, np.array(["?", "no", "yes"])[y + 1], groups=groups)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-12)


def test_labels_minus_one_and_one_are_classes_where_the_user_says_so(rows, fitted, quick):
    X, y, groups = rows
    signs = np.where(y < 0, np.nan, 2 * y - 1)
    model = quick(unlabeled_value=None).fit(X, signs, groups=groups)
    assert model.classes_.tolist() == [-1, 1]
    np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-12)


# Frames without preparation


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_all_kinds_of_columns_fit_without_preparation(library):
    rng = np.random.default_rng(0)
    n = 600
    truth = rng.random(n) < 0.4
    gone = rng.random(n) < 0.1
    columns = {
        "number": np.where(gone, np.nan, rng.normal(size=n) + truth),
        "whole": rng.integers(0, 5, n),
        "boolean": rng.random(n) < 0.3 + 0.3 * truth,
        "text": np.array(
            [None if g else c for g, c in zip(gone, rng.choice(list("abc"), n), strict=True)], object
        ),
        "date": np.datetime64("2024-01-01", "us") + rng.integers(0, 300, n) * np.timedelta64(1, "D"),
        "constant": np.zeros(n),
        "state": rng.choice(["x", "y", "z"], n),
    }
    frame = pd.DataFrame(columns)
    frame["category"] = pd.Categorical(rng.choice(["low", "high"], n))
    frame["empty"] = pd.Series([None] * n, dtype=object)
    if library == "polars":
        frame = pl.DataFrame(
            {c: frame[c].astype(object).where(frame[c].notna(), None).tolist() for c in frame}
        )
    y = np.where(np.arange(n) < 300, truth, -1)
    model = GroupShiftClassifier(group="state", partition=2, random_state=0).fit(frame, y)
    found = model.predict_proba(frame)
    assert finite_and_in_doubt(found)
    assert roc_auc_score(truth[300:], found[300:, 1]) > 0.65


# Copies of one example


class Spy(ClassifierMixin, BaseEstimator):
    """Logistic regression that remembers which rows it was trained on, by their first feature."""

    seen: tuple = ()

    def fit(self, X, y, sample_weight=None):
        Spy.seen = (*Spy.seen, frozenset(X[:, 0].tolist()))
        self.model_ = LogisticRegression().fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.mark.parametrize("calibration", ["crossfit", "holdout"])
def test_copies_of_an_example_stay_on_one_side_of_every_split(rows, calibration):
    X, y, groups = rows
    rng = np.random.default_rng(0)
    labeled = np.flatnonzero(y >= 0)
    ids = rng.integers(0, 100, len(y))
    # One label for all copies of an example, as it is in life.
    y = np.where(y >= 0, (ids % 2), y)
    Spy.seen = ()
    model = GroupShiftClassifier(Spy(), partition=1, calibration=calibration, refine=0, random_state=0)
    model.fit(X, y, groups=groups, example_ids=[f"household {i}" for i in ids])
    everyone = frozenset(X[labeled, 0].tolist())
    parts = [seen for seen in Spy.seen if seen != everyone]
    assert len(parts) == (5 if calibration == "crossfit" else 1)
    for seen in parts:
        inside = np.isin(X[labeled, 0], list(seen))
        assert 0.7 < inside.mean() < 0.9
        assert not set(ids[labeled][inside]) & set(ids[labeled][~inside])


def test_held_out_rows_are_a_fifth_of_the_distinct_examples(rows):
    X, y, groups = rows
    Spy.seen = ()
    GroupShiftClassifier(Spy(), partition=1, calibration="holdout", refine=0, random_state=0).fit(
        X, y, groups=groups
    )
    assert len(Spy.seen[0]) == pytest.approx(0.8 * (y >= 0).sum(), abs=1)


# The population


def test_updating_with_the_same_rows_gives_the_same_shares(rows, quick):
    X, y, groups = rows
    model = quick(refine=0).fit(X, y, groups=groups)
    before = model.group_prior_.copy(), model.shift_variance_.copy()
    model.update(X[y < 0], groups[y < 0])
    np.testing.assert_allclose(model.group_prior_, before[0], atol=1e-10)
    np.testing.assert_allclose(model.shift_variance_, before[1], atol=1e-10)


def test_updating_learns_new_shares_and_groups_and_keeps_the_rest(rows, quick):
    X, y, groups = rows
    model = quick(refine=0, trust=1.0).fit(X, y, groups=groups)
    posterior = model.posterior_
    likely = probability(model, X, groups) > 0.5
    new = (y < 0) & likely
    model.update(X[new], np.where(groups[new] == "g000", "new", groups[new]))
    assert model.posterior_ is posterior
    assert "new" in model.groups_
    assert "g000" not in model.groups_
    assert model.group_shares(by="group")["share"].mean() > 0.6
    with pytest.warns(UserWarning, match="'g000'"):
        model.predict_proba(X[:1], ["g000"])


def test_a_known_share_is_met_and_narrows_its_interval(rows, quick):
    X, y, groups = rows
    plain = quick(refine=0).fit(X, y, groups=groups).group_shares(by="group")
    exact = quick(refine=0).fit(X, y, groups=groups, known_shares={"g003": 0.77}).group_shares(by="group")
    assert exact["share"][3] == pytest.approx(0.77, abs=1e-6)
    assert exact["high"][3] - exact["low"][3] < plain["high"][3] - plain["low"][3]


@pytest.mark.parametrize("settings", [{}, {"shares": None}, {"shares": "em", "shrinkage": "none"}])
def test_predictions_add_up_to_a_known_share(rows, quick, settings):
    X, y, groups = rows
    known = {"g003": 0.77, "g007": (0.6, 0.02)}
    model = quick(refine=0, **settings).fit(X, y, groups=groups, known_shares=known)
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


def test_shares_by_cell_and_by_group_fit_together(fitted):
    cells, groups = fitted.group_shares(), fitted.group_shares(by="group")
    assert list(cells) == ["group", "cluster", "rows", "share", "low", "high"]
    assert list(groups) == ["group", "rows", "share", "low", "high", "labeled_share"]
    table = pd.DataFrame(cells)
    mean = table.assign(positive=table["rows"] * table["share"]).groupby("group")[["positive", "rows"]].sum()
    np.testing.assert_allclose(mean["positive"] / mean["rows"], groups["share"], atol=1e-9)
    for shares in (cells, groups):
        assert (shares["low"] < shares["share"]).all()
        assert (shares["share"] < shares["high"]).all()


def test_shares_of_groups_stand_beside_those_of_their_labelled_rows(rows, quick):
    X, y, groups = rows
    kept = (y < 0) | (groups != groups[0])
    shares = quick(refine=0).fit(X[kept], y[kept], groups=groups[kept]).group_shares(by="group")
    labeled = pd.Series(y[kept & (y >= 0)]).groupby(groups[kept & (y >= 0)]).mean()
    np.testing.assert_allclose(shares["labeled_share"], labeled.reindex(shares["group"]))
    assert shares["group"][np.isnan(shares["labeled_share"])].tolist() == [groups[0]]


def test_a_trusted_shift_is_the_odds_ratio_of_group_and_labelled_share(rows, quick):
    X, y, groups = rows
    fitted = quick(trust=1.0, refine=0).fit(X, y, groups=groups)
    np.testing.assert_allclose(
        fitted.shift_, logit(fitted.group_prior_) - logit(fitted.labeled_prior_), atol=1e-9
    )


def test_theorem_2_is_what_predict_does(rows, fitted):
    X, _, groups = rows
    read, _ = fitted._read_rows(X, groups, None, None, reset=False)
    log_odds, cluster = fitted.posterior_.score(read)
    group = np.searchsorted(fitted.groups_, groups)
    np.testing.assert_allclose(
        probability(fitted, X, groups), expit(log_odds + fitted.shift_[group, cluster])
    )


def test_steps_are_told_to_whoever_listens_and_to_the_terminal(rows, quick, capsys):
    X, y, groups = rows
    steps = []
    with listen(steps.append):
        quick(verbose=1, refine=0).fit(X, y, groups=groups)
    assert "estimating shares" in steps
    captured = capsys.readouterr()
    assert "estimating shares" in captured.err
    assert captured.out == ""


# The truth


MIXTURE = {
    "n_features": 2,
    "n_clusters": 2,
    "n_groups": 25,
    "labeled_per_group": (120, 10),
    "unlabeled_per_group": (400, 40),
    "counts": "binomial",
}


@pytest.fixture(scope="module")
def mixture():
    """The paper's setting 2, small: 25 groups whose shares differ, two clusters."""
    return make_grouped_mixture(**MIXTURE, random_state=1)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(60, max_depth=6)


def test_the_published_configuration_beats_global_where_groups_differ(mixture, forest):
    X, y, groups, ids = mixture.training()
    X_test, truth, test_groups = mixture.testing()
    auc = {}
    for name in ("global", "published"):
        model = METHODS[name](clone(forest), random_state=0).fit(X, y, groups=groups, example_ids=ids)
        auc[name] = roc_auc_score(truth, probability(model, X_test, test_groups))
    assert auc["published"] > auc["global"] + 0.03


def test_the_default_configuration_beats_global_too(mixture):
    X, y, groups, ids = mixture.training()
    X_test, truth, test_groups = mixture.testing()
    auc = {}
    for name in ("global", "groupshift"):
        model = METHODS[name](LogisticRegression(), random_state=0).fit(X, y, groups=groups, example_ids=ids)
        auc[name] = roc_auc_score(truth, probability(model, X_test, test_groups))
    assert auc["groupshift"] > auc["global"] + 0.03


def test_shares_of_the_published_configuration_match_the_truth_at_their_stated_rate(forest):
    # Told the generating partition, so that its cells are the cells of the truth.
    inside, error = [], []
    for seed in range(1, 5):
        sample = make_grouped_mixture(**MIXTURE, random_state=seed)
        X, y, groups, ids = sample.training()
        model = GroupShiftClassifier.published(clone(forest), partition=sample.partition, random_state=seed)
        shares = model.fit(X, y, groups=groups, example_ids=ids).group_shares(coverage=0.9)
        truth = sample.shares.ravel()
        inside.append((shares["low"] <= truth) & (truth <= shares["high"]))
        error.append(np.abs(shares["share"] - truth))
    assert np.median(error) < 0.06
    # 200 cells know a rate to ±2 %; the calibration's error, common to all cells of a cluster, adds to that.
    assert 0.83 < np.mean(inside) < 0.97


def test_published_is_the_papers_to_the_letter():
    model = GroupShiftClassifier.published()
    assert model.estimator.get_params()["n_estimators"] == 500
    assert model.estimator.get_params()["max_depth"] == 10
    assert model.estimator.get_params()["criterion"] == "gini"
    settings = model.get_params(deep=False)
    expected = {
        "partition": "silhouette",
        "calibration": "holdout",
        "shares": "em",
        "shrinkage": "none",
        "trust": 1.0,
        "refine": 0,
        "per_cluster": True,
        "labeled_prior": "share",
    }
    assert {name: settings[name] for name in expected} == expected


@pytest.mark.parametrize("shares", ["mlls", "em", "bbse-hard", "bbse-soft"])
def test_every_estimator_of_shares_finds_them(mixture, shares):
    X, y, groups, _ = mixture.training()
    model = GroupShiftClassifier(
        LogisticRegression(),
        partition=mixture.partition,
        shares=shares,
        shrinkage="none",
        trust=1.0,
        refine=0,
        per_cluster=True,
        random_state=0,
    ).fit(X, y, groups=groups)
    # Cells of some 160 rows whose classes overlap: standard errors are about 0.07.
    assert np.abs(model.group_prior_ - mixture.shares).mean() < 0.085


def test_without_shares_there_is_no_shift(rows, quick):
    X, y, groups = rows
    model = quick(shares=None).fit(X, y, groups=groups)
    assert (model.shift_ == 0).all()
    one, other = (model.predict_proba(X, np.full(len(X), name)) for name in ("g000", "g001"))
    np.testing.assert_array_equal(one, other)


def test_probabilities_are_calibrated_in_every_group(mixture):
    X, y, groups, ids = mixture.training()
    X_test, truth, test_groups = mixture.testing()
    model = GroupShiftClassifier(
        LogisticRegression(), partition=mixture.partition, per_cluster=True, trust=1.0, random_state=0
    )
    model.fit(X, y, groups=groups, example_ids=ids)
    table = pd.DataFrame({"g": test_groups, "p": probability(model, X_test, test_groups), "y": truth})
    mean = table.groupby("g").mean()
    # 80 test rows a group know a share to ±0.05.
    assert np.abs(mean["p"] - mean["y"]).mean() < 0.06
