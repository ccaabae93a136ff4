"""Bad input is refused in words that help; hard input is survived without NaN and without false certainty."""

import re
import warnings
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from conftest import finite_and_in_doubt
from groupshift import DegradedWarning, GroupShiftClassifier
from groupshift._data.frames import take_rows
from groupshift.datasets import make_survey

RNG = np.random.default_rng(0)
N = 200
GROUPS = np.repeat(["a", "b", "c", "d"], 50)
TRUTH = RNG.random(N) < np.repeat([0.2, 0.4, 0.6, 0.8], 50)
X = RNG.normal(size=(N, 2)) + 1.5 * TRUTH[:, None]
Y = np.where(np.arange(N) % 2 == 0, TRUTH, -1).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b"])


def changed(values, at, value):
    copy = np.array(values, dtype=object if value is None or isinstance(value, Decimal) else None)
    copy[at] = value
    return copy


def logistic(**settings):
    settings = {"partition": 2, "random_state": 0, **settings}
    return GroupShiftClassifier(LogisticRegression(), **settings)


def fit(X=X, y=Y, groups=GROUPS, *, model=None, **options):
    return (logistic() if model is None else model).fit(X, y, groups=groups, **options)


@cache
def fitted(*, framed=False, **settings):
    """A model that no case changes."""
    return fit(FRAME if framed else X, model=logistic(**settings))


def predict_with(X_new, groups=GROUPS, **settings):
    fitted(**settings).predict_proba(X_new, groups)


# Each line: what is wrong, the call, and what the message must say: what was found, and what to do.
BAD = {
    "NaN in an array": (lambda: fit(changed(X, (3, 0), np.nan)), "contains NaN"),
    "NaN in a frame": (
        lambda: fit(FRAME.replace(FRAME.iloc[3, 0], np.nan)),
        "contains NaN, in column(s) 'a', which LogisticRegression does not take. Impute",
    ),
    "NaN at predict": (lambda: predict_with(changed(X, (3, 0), np.nan)), "contains NaN"),
    "infinity in an array": (lambda: fit(changed(X, (3, 0), np.inf)), "infinity"),
    "infinity in a frame": (lambda: fit(FRAME.replace(FRAME.iloc[3, 0], np.inf)), "infinity"),
    "infinity at predict": (
        lambda: predict_with(FRAME.replace(FRAME.iloc[3, 0], np.inf), framed=True),
        "infinity",
    ),
    "infinity for boosting": (
        lambda: fit(FRAME.replace(FRAME.iloc[3, 0], np.inf), model=GroupShiftClassifier()),
        "contains infinity, in column(s) 'a'. Replace",
    ),
    "text in an array": (
        lambda: fit(changed(X.astype(object), (3, 0), "high")),
        "could not convert string to float",
    ),
    "y too short": (lambda: fit(y=Y[:-1]), "y has shape (199,), but X has 200 rows"),
    "groups too short": (lambda: fit(groups=GROUPS[:-1]), "groups has shape (199,), but X has 200 rows"),
    "groups in two columns": (lambda: fit(groups=np.c_[GROUPS, GROUPS]), "groups has shape (200, 2)"),
    "weights too short": (
        lambda: fit(sample_weight=np.ones(7)),
        "sample_weight has shape (7,), but X has 200 rows",
    ),
    "ids too short": (lambda: fit(example_ids=np.ones(7)), "example_ids has shape (7,), but X has 200 rows"),
    "groups too short at predict": (lambda: predict_with(X, GROUPS[:-1]), "groups has shape (199,)"),
    "no labels": (lambda: fit(y=None), "requires y to be passed"),
    "one class": (
        lambda: fit(y=np.where(Y == 1, 0, Y)),
        "one class only, 0; two classes are needed. Add labelled rows",
    ),
    "labels -1 and +1": (
        lambda: fit(y=np.where(TRUTH, 1, -1)),
        "if your classes are -1 and +1, pass another unlabeled_value",
    ),
    "continuous labels": (lambda: fit(y=X[:, 0]), "Unknown label type: continuous"),
    "infinite labels": (
        lambda: fit(y=changed(Y.astype(float), 0, np.inf)),
        "y has infinite values in 1 rows",
    ),
    "no labelled rows": (
        lambda: fit(y=np.full(N, -1)),
        "No row has a label: all 200 are missing or equal -1",
    ),
    "only missing labels": (lambda: fit(y=np.full(N, np.nan)), "No row has a label"),
    "missing group": (
        lambda: fit(groups=changed(GROUPS, 7, None)),
        "1 of 200 rows have no group. Every row needs one",
    ),
    "NaN group": (
        lambda: fit(groups=changed(np.arange(N) % 4 / 1.0, 7, np.nan)),
        "1 of 200 rows have no group",
    ),
    "missing group at predict": (lambda: predict_with(X, changed(GROUPS, 7, None)), "rows have no group"),
    "missing group in the column": (
        lambda: fit(FRAME.assign(g=changed(GROUPS, 7, None)), groups=None, model=logistic(group="g")),
        "1 of 200 rows have no group",
    ),
    "group unseen": (
        lambda: predict_with(X, changed(GROUPS, 0, "z"), unseen="error"),
        "Groups 'z' had no unlabelled rows at fit, so their class shares are unknown. Add rows",
    ),
    "group column missing": (
        lambda: fit(FRAME, groups=None, model=logistic(group="state")),
        "X has no column 'state', which group= names; its columns are 'a', 'b'",
    ),
    "group column of an array": (
        lambda: fit(groups=None, model=logistic(group="state")),
        "X is a ndarray without column names",
    ),
    "groups twice": (lambda: fit(FRAME.assign(g=GROUPS), model=logistic(group="g")), "Groups came twice"),
    "column missing at predict": (
        lambda: predict_with(FRAME[["a"]], framed=True),
        "Feature names seen at fit time, yet now missing",
    ),
    "columns in another order": (
        lambda: predict_with(FRAME[["b", "a"]], framed=True),
        "Feature names must be in the same order",
    ),
    "column too many": (
        lambda: predict_with(FRAME.assign(c=1.0), framed=True),
        "Feature names unseen at fit time",
    ),
    "array too narrow": (lambda: predict_with(X[:, :1]), "X has 1 features, but"),
    "column that turned to text": (
        lambda: predict_with(FRAME.assign(a="high"), framed=True),
        "Column 'a' holds text here but held numbers",
    ),
    "empty array": (lambda: fit(X[:0], Y[:0], GROUPS[:0]), "0 sample(s)"),
    "empty frame": (lambda: fit(FRAME[:0], Y[:0], GROUPS[:0]), "X has 0 rows"),
    "no columns": (lambda: fit(FRAME[[]]), "0 columns"),
    "empty frame at predict": (lambda: predict_with(FRAME[:0], GROUPS[:0], framed=True), "X has 0 rows"),
    "a dict of columns": (
        lambda: fit(make_survey(n_groups=2, labeled_per_group=50, unlabeled_per_group=50, random_state=0).X),
        "X is a dict of columns, which has no rows. Pass an array or a frame: pandas.DataFrame(X) makes one",
    ),
    "a dict of columns at predict": (lambda: predict_with({"a": X[:, 0]}), "X is a dict of columns"),
    "one dimension": (lambda: fit(X[:, 0]), "Expected 2D array, got 1D array"),
    "negative weights": (
        lambda: fit(sample_weight=changed(np.ones(N), [0, 1], -1)),
        "sample_weight is negative in 2 rows",
    ),
    "weights all zero": (lambda: fit(sample_weight=np.zeros(N)), "sample_weight is zero in every row"),
    "weights with NaN": (lambda: fit(sample_weight=changed(np.ones(N), 3, np.nan)), "NaN or infinite"),
    "a class without weight": (
        lambda: fit(sample_weight=np.where(Y == 1, 0, 1)),
        "Every labelled row of class 1 has sample_weight 0",
    ),
    "population without weight": (
        lambda: fit(sample_weight=np.where(Y == -1, 0, 1)),
        "Every unlabelled row has sample_weight 0",
    ),
    "weights for a classifier that takes none": (
        lambda: fit(
            sample_weight=RNG.random(N), model=GroupShiftClassifier(KNeighborsClassifier(), partition=1)
        ),
        "KNeighborsClassifier takes no sample_weight",
    ),
    "missing example ids": (
        lambda: fit(example_ids=changed(np.arange(N), 3, None)),
        "1 rows have no example id",
    ),
    "update without unlabelled groups": (
        lambda: fitted().update(X, changed(GROUPS, 7, None)),
        "rows have no group",
    ),
    "update without groups": (lambda: fitted().update(X), "fitted with groups"),
    "known share of an unknown group": (lambda: fit(known_shares={"z": 0.5}), "known_shares names group 'z'"),
    "known share above 1": (lambda: fit(known_shares={"a": 1.5}), "known_shares of group 'a' is 1.5"),
    "known share with negative error": (
        lambda: fit(known_shares={"a": (0.5, -1)}),
        "known_shares of group 'a'",
    ),
    "known share NaN": (lambda: fit(known_shares={"a": np.nan}), "known_shares of group 'a'"),
    "unknown calibration": (
        lambda: fit(model=logistic(calibration="platt")),
        "calibration='platt' is not known",
    ),
    "unknown shares": (lambda: fit(model=logistic(shares="ml")), "shares='ml' is not known"),
    "unknown unseen": (lambda: fit(model=logistic(unseen="skip")), "unseen='skip' is not known"),
    "unknown partition": (
        lambda: fit(model=logistic(partition="k-means")),
        "partition='k-means' is not known",
    ),
    "a strange label at score": (
        lambda: fitted().score(X, np.where(np.arange(N) == 0, "maybe", Y.astype(object)), groups=GROUPS),
        "y holds 'maybe' besides the classes",
    ),
    "no clusters": (lambda: fit(model=logistic(partition=0)), "partition=0 clusters is not possible"),
    "each cluster by a word": (lambda: fit(model=logistic(per_cluster="y")), "per_cluster='y' is not known"),
    "no workers": (lambda: fit(model=logistic(n_jobs=0)), "n_jobs=0 is not known"),
    "shares of no groups": (lambda: fit(known_shares=[0.1]), "a list, which names no groups"),
    "pooling without likelihood": (lambda: fit(model=logistic(shares="em")), "Pass shrinkage='none'"),
    "a known rate with an endless error": (
        lambda: fit(known_overall=(0.5, 1e300)),
        "known_overall is (0.5, 1e+300). Pass a share between 0 and 1, or (share, standard error), the error below 1 too",
    ),
    "a known rate of nothing": (
        lambda: fit(known_overall=0),
        "known_overall is exactly 0: every row would be certain, and there is nothing to predict. Pass the rate with its",
    ),
    "whole numbers that no float holds": (
        lambda: fit(FRAME.assign(c=pd.Series([10**400] * N, dtype=object))),
        "Column 'c' holds whole numbers beyond 1.8e308, which no float can hold. Divide",
    ),
    "whole numbers that no float holds, in an array": (
        lambda: fit(np.array([[10**400, 1]] * N, dtype=object)),
        "X holds whole numbers beyond 1.8e308, which no float can hold. Divide",
    ),
    "a group that is a signalling decimal": (
        lambda: fit(groups=changed(GROUPS, 7, Decimal("sNaN"))),
        "1 of 200 rows have no group",
    ),
    "verbose by a letter": (lambda: fit(model=logistic(verbose="v")), "verbose='v' is not known. Pass 0"),
    "a Dask frame": (
        lambda: fit(pytest.importorskip("dask.dataframe").from_pandas(FRAME, npartitions=2)),
        "X is a Dask DataFrame, whose rows lie on many machines. Call groupshift.distributed.fit(model, labeled, X,",
    ),
    "unknown level of shares": (lambda: fitted().group_shares(by="state"), "by='state' is not known"),
    "coverage of 90": (lambda: fitted().group_shares(coverage=90), "coverage=90 is not possible"),
    "coverage of 90 in details": (lambda: fitted().predict_details(X, GROUPS, coverage=90), "coverage=90"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_words_that_help(case):
    call, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call()


def test_an_unseen_group_is_pooled_with_a_warning_that_names_it():
    model = fitted()
    new = np.array(["y", "z", "a"])
    with pytest.warns(UserWarning, match="Groups 'y', 'z' had no unlabelled rows at fit"):
        probability = model.predict_proba(X[:3], new)[:, 1]
    score, cluster = model.learned_.posterior(model._read_rows(X[:3], None)[0])
    expected = expit(score[:, 0] + model.unseen_shift_[cluster])
    np.testing.assert_allclose(probability[:2], expected[:2])


def test_very_many_unseen_groups_are_named_in_part():
    with pytest.warns(UserWarning, match=r"'n4' and 195 more had no unlabelled rows"):
        fitted().predict_proba(X, [f"n{i}" for i in range(N)])


def test_predicting_without_groups_warns():
    with pytest.warns(UserWarning, match="fitted with groups, but none were given to predict"):
        fitted().predict(X)


# What is survived. Each line: rows that make life hard, as keywords of fit.
def one_hot_clusters():
    """Clusters far apart, of which one holds no labelled rows and one a single class."""
    place = np.arange(N) % 4
    far = X + 40 * np.c_[place == 1, place == 2] + 80 * np.c_[place == 3, place == 3]
    y = np.where(place == 3, -1, np.where((place == 1) & (Y >= 0), 1, Y))
    y[np.flatnonzero(place == 0)[:20]] = TRUTH[np.flatnonzero(place == 0)[:20]]
    return {"X": far, "y": y, "model": logistic(partition=4)}


def empty_cells():
    """Two clusters, each group in one of them only but for one row: empty cells and cells of one row."""
    place = np.isin(GROUPS, ["a", "b"]) ^ (np.arange(N) == 1)
    return {"X": X + 30 * place[:, None], "model": logistic(partition=2)}


def rare(share):
    rng = np.random.default_rng(1)
    truth = rng.random(2000) < share
    features = rng.normal(size=(2000, 2)) + 2 * truth[:, None]
    y = np.where(np.arange(2000) < 1000, truth, -1)
    return {"X": features, "y": y, "groups": np.arange(2000) % 10, "model": logistic()}


SURVIVED = {
    "clusters without labelled rows or with one class": one_hot_clusters,
    "empty cells and cells of one row": empty_cells,
    "shares of 1 %": lambda: rare(0.01),
    "shares of 99 %": lambda: rare(0.99),
    "a forest that answers 0 and 1": lambda: {
        "model": logistic().set_params(
            estimator=RandomForestClassifier(3, max_features=None, bootstrap=False)
        )
    },
    "a forest, held out": lambda: {
        "model": GroupShiftClassifier.published(RandomForestClassifier(3, bootstrap=False), random_state=0)
    },
    "a classifier that is certain": lambda: {
        "X": 1000 * X,
        "model": logistic().set_params(estimator=GaussianNB()),
    },
    "separable classes": lambda: {"X": X + 100 * TRUTH[:, None]},
    "constant features": lambda: {"X": np.ones((N, 2))},
    "a constant feature": lambda: {"X": np.c_[X, np.full(N, 7.0)]},
    "duplicate rows": lambda: {"X": np.repeat(X[:4], 50, axis=0)},
    "one group": lambda: {"groups": np.zeros(N)},
    "one unlabelled row": lambda: {"y": np.where(np.arange(N) == 3, -1, TRUTH)},
    "groups of one row": lambda: {"groups": np.arange(N)},
    "groups without labelled rows": lambda: {"y": np.where(np.isin(GROUPS, ["a", "b"]), Y, -1)},
    "groups without unlabelled rows": lambda: {"y": np.where(np.isin(GROUPS, ["a", "b"]), TRUTH, Y)},
    "one labelled row of a class": lambda: {
        "y": np.where((Y == 1) & (np.arange(N) != np.argmax(Y == 1)), -1, Y)
    },
    "one labelled row of a class, held out": lambda: {
        "y": np.where((Y == 1) & (np.arange(N) != np.argmax(Y == 1)), -1, Y),
        "model": logistic(calibration="holdout"),
    },
    "two labelled rows": lambda: {"y": np.where(np.isin(np.arange(N), [0, np.argmax(Y == 1)]), Y, -1)},
    "huge numbers": lambda: {"X": X * 1e150, "model": GroupShiftClassifier(partition=2, random_state=0)},
    "tiny weights": lambda: {"sample_weight": np.full(N, 1e-30)},
    "weights of all sizes": lambda: {"sample_weight": 10.0 ** (np.arange(N) % 20 - 10)},
    "weights of zero": lambda: {"sample_weight": (np.arange(N) % 3 > 0).astype(float)},
    "more clusters than rows": lambda: {
        "X": X[::5],
        "y": Y[::5],
        "groups": GROUPS[::5],
        "model": logistic(partition=60),
    },
    "the judge on few rows": lambda: {"model": logistic(partition="validated")},
    "hard BBSE": lambda: {"model": logistic(shares="bbse-hard", shrinkage="none")},
    "soft BBSE": lambda: {"model": logistic(shares="bbse-soft", shrinkage="none")},
    "two example ids": lambda: {"example_ids": np.arange(N) % 2},
    "whole numbers beyond 64 bits": lambda: {
        "X": FRAME.assign(c=pd.Series([2**70 + i for i in range(N)], dtype=object))
    },
    "signalling decimals": lambda: {
        "X": FRAME.assign(c=[Decimal("sNaN") if i == 3 else Decimal(i) for i in range(N)]),
        "model": GroupShiftClassifier(partition=2, random_state=0),
    },
    "the largest whole numbers of Arrow": lambda: {
        "X": pa.table({**FRAME, "c": pa.array([2**64 - 1 - i for i in range(N)], pa.uint64())}),
    },
    "labels that are large whole numbers of Arrow with gaps": lambda: {
        "y": pa.array([None if y < 0 else 2**64 - 1 - int(y) for y in Y], pa.uint64())
    },
    "single precision": lambda: {"X": X.astype(np.float32)},
    "a given clusterer": lambda: {"model": logistic(partition=KMeans(3, n_init=1, random_state=0).fit(X))},
}


@pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning")
@pytest.mark.parametrize("case", SURVIVED)
def test_hard_input_is_survived_in_doubt(case):
    if case == "signalling decimals" and pd.__version__.startswith("2.2"):
        pytest.skip("isna of pandas 2.2 fails on them")
    options = {"X": X, "y": Y, "groups": GROUPS, **SURVIVED[case]()}
    model = fit(**options)
    seen = np.isin(options["groups"], model.groups_)
    details = model.predict_details(take_rows(options["X"], seen), options["groups"][seen])
    details = {name: np.asarray(details[name]) for name in ("probability", "low", "high")}
    for name, values in details.items():
        assert finite_and_in_doubt(values), name
    assert (details["low"] <= details["probability"]).all()
    assert (details["probability"] <= details["high"]).all()
    for by in ("cell", "group"):
        shares = model.group_shares(by=by)
        shares = {name: np.asarray(shares[name]) for name in ("share", "low", "high")}
        assert finite_and_in_doubt(shares["share"]), by
        # A share of a few rows may be 0 or 1, and its interval says so.
        assert (shares["low"] >= 0).all()
        assert (shares["high"] <= 1).all()
        assert (shares["low"] <= shares["share"] + 1e-9).all()
        assert (shares["share"] <= shares["high"] + 1e-9).all()
    assert np.isfinite(model.unseen_shift_).all()


@pytest.mark.parametrize(
    ("model", "n"),
    [(GroupShiftClassifier(random_state=0), 12_000), (logistic(), 5_000)],
    ids=["the judge finds nothing to shift", "two clusters"],
)
@pytest.mark.usefixtures("few_trees")
def test_thousands_of_groups_of_one_row_are_survived(model, n):
    rng = np.random.default_rng(2)
    truth = rng.random(n) < 0.3
    features = rng.normal(size=(n, 2)) + 1.5 * truth[:, None]
    groups = np.r_[np.arange(1000) % 20, np.arange(1000, n)]
    model.fit(features, np.where(np.arange(n) < 1000, truth, -1), groups=groups)
    assert len(model.groups_) == n - 1000
    assert finite_and_in_doubt(model.predict_proba(features[1000:], groups[1000:]))


def test_without_unlabelled_rows_it_is_a_calibrated_classifier_and_says_so():
    known = Y >= 0
    with pytest.warns(DegradedWarning, match="No unlabelled rows"):
        model = fit(X[known], Y[known], GROUPS[known])
    assert any("calibrated classifier" in note for note in model.notes_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probability = model.predict_proba(X, GROUPS)
    np.testing.assert_allclose(probability[known, 1].mean(), Y[known].mean(), atol=0.05)
    assert len(model.groups_) == 0


def test_without_groups_it_says_so_and_takes_part_of_a_shift_that_nothing_can_check():
    rng = np.random.default_rng(3)
    truth = rng.random(4000) < np.where(np.arange(4000) < 1000, 0.5, 0.15)
    features = rng.normal(size=(4000, 1)) + 2 * truth[:, None]
    y = np.where(np.arange(4000) < 1000, truth, -1)
    share = {}
    for name, settings in (("part", {}), ("all", {"shrinkage": "none"}), ("none", {"shares": None})):
        with pytest.warns(DegradedWarning, match="No groups"):
            model = logistic(partition=1, **settings).fit(features, y)
        share[name] = model.predict_proba(features[1000:])[:, 1].mean()
    assert share["all"] == pytest.approx(0.15, abs=0.03)
    assert share["all"] < share["part"] < share["none"]


def test_details_of_a_model_without_a_population_say_that_nothing_is_known_of_shifts():
    known = Y >= 0
    with pytest.warns(DegradedWarning):
        model = fit(X[known], Y[known], GROUPS[known])
    details = model.predict_details(X, GROUPS)
    assert details["pooled"].all()
    np.testing.assert_array_equal(details["probability"], model.predict_proba(X, GROUPS)[:, 1])
    assert len(model.group_shares()["share"]) == len(model.group_shares(by="group")["share"]) == 0


def test_neither_groups_nor_unlabelled_rows_nor_clusters_is_platt_scaling():
    known = Y >= 0
    with pytest.warns(DegradedWarning):
        model = logistic(partition=1).fit(X[known], Y[known])
    plain = LogisticRegression().fit(X[known], Y[known]).predict_proba(X)[:, 1]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], plain, atol=0.1)
    assert np.corrcoef(model.predict_proba(X)[:, 1], plain)[0, 1] > 0.99
