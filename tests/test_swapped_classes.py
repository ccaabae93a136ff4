"""Two classes that change places: probabilities, shares and intervals are mirrored, and nothing else changes.

The classifier must treat classes alike as well, to as many digits: logistic regression by Newton steps and naive Bayes do. The
default one need not, since rows decide which class is positive to it. A classifier of the user's sees classes as they are named.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from class_samples import draw_table
from groupshift import METHODS, GroupShiftClassifier, load, save, streaming
from groupshift._data.keys import class_order, stratified_folds
from groupshift._math.label_shift import bbse, prediction_rates
from groupshift._math.points import collect_points
from groupshift.datasets import make_grouped_mixture

SAME = 1e-9
# By Newton steps: a regression that stops early ends elsewhere when classes change places.
LOGISTIC = LogisticRegression(tol=1e-13, max_iter=1000, solver="newton-cholesky")


@pytest.fixture(scope="module")
def table():
    X, y, groups, _ = draw_table(n_groups=8, n_classes=2, labeled=50, unlabeled=80, seed=2)
    return X, np.array([{"class a": 0, "class b": 1, None: -1}[name] for name in y]), groups


def swapped(y):
    return np.where(y < 0, -1, 1 - y)


def mirrored(rates):
    """What is known of one class, said of the other."""
    if isinstance(rates, dict):
        return {group: mirrored(rate) for group, rate in rates.items()}
    return (1 - rates[0], rates[1]) if isinstance(rates, tuple) else 1 - rates


def both_fits(table, estimator=LOGISTIC, *, options=None, **fit):
    """A model of the table, and one of the same with its classes in each other's place."""
    X, y, groups = table
    other = fit | {name: mirrored(rates) for name, rates in fit.items() if name.startswith("known")}
    # One cluster and no round are enough for most claims, and fast.
    make = {"random_state": 0, "n_jobs": 1, "partition": 1} | (options or {})
    return (
        GroupShiftClassifier(estimator, **make).fit(X, y, groups=groups, **fit),
        GroupShiftClassifier(estimator, **make).fit(X, swapped(y), groups=groups, **other),
    )


def assert_mirrored(one, two, X, groups):
    same = {"atol": SAME, "rtol": 0}
    np.testing.assert_allclose(one.predict_proba(X, groups), two.predict_proba(X, groups)[:, ::-1], **same)
    np.testing.assert_allclose(one.estimate_.shift, -two.estimate_.shift, **same)
    np.testing.assert_allclose(one.estimate_.unseen_shift, -two.estimate_.unseen_shift, **same)
    first, second = one.predict_details(X, groups), two.predict_details(X, groups)
    np.testing.assert_allclose(first["low"], 1 - second["high"], **same)
    for by in ("group", "overall", "cell"):
        first, second = one.group_shares(by=by), two.group_shares(by=by)
        for name, other in (("share", "share"), ("low", "high"), ("high", "low")):
            np.testing.assert_allclose(first[name], 1 - np.asarray(second[other]), **same)


WEIGHTS = np.random.default_rng(5).exponential(size=1040)
IDS = np.random.default_rng(6).integers(0, 300, 1040)
WHOLE = {"partition": "validated"}
CASES = {
    "default": {"options": WHOLE},
    "naive Bayes": {"estimator": GaussianNB()},
    "forest": {"estimator": ExtraTreesClassifier(20)},
    "boosted trees": {"estimator": None, "options": {}},
    "clusters": {"options": {"partition": 3}},
    "a classifier for each cluster": {"options": {"partition": 2, "per_cluster": True}},
    "silhouette": {"options": {"partition": "silhouette"}},
    "random selection": {"options": {"selection": "random"}},
    "selection by label": {"options": {"selection": "by_label"}},
    "decisions": {"options": {"shares": "bbse-hard", "shrinkage": "none"}},
    "weights": {"sample_weight": WEIGHTS},
    "copies of two classes": {"example_ids": IDS},
    "known shares": {"known_shares": {"g00": 0.3, "g01": (0.6, 0.05)}, "known_overall": (0.4, 0.02)},
    "known overall": {"known_overall": 0.4},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("few_trees")
def test_classes_that_change_places_have_mirrored_answers(table, case):
    X, _, groups = table
    assert_mirrored(*both_fits(table, **CASES[case]), X, groups)


def test_so_do_those_of_rows_of_equal_content(table):
    X, y, groups = table
    coarse = np.round(X[:, :2])
    assert_mirrored(*both_fits((coarse, y, groups), options=WHOLE), coarse, groups)


def test_so_do_those_of_groups_without_labels_or_without_unlabelled_rows(table):
    X, y, groups = table
    keep = ~((groups == "g00") & (y >= 0)) & ~((groups == "g01") & (y < 0))
    models = both_fits((X[keep], y[keep], groups[keep]))
    assert_mirrored(*models, X[groups != "g01"], groups[groups != "g01"])


@pytest.mark.filterwarnings("ignore:.*nowhere")
def test_so_do_those_of_groups_that_nobody_saw(table):
    X = table[0]
    assert_mirrored(*both_fits(table), X[:50], np.full(50, "nowhere", object))


def test_so_do_those_of_the_default_classifier_with_categories(table):
    """Boosted trees send rare categories to one side: left to themselves, answers would differ by some hundredths."""
    X, y, groups = table
    words = np.array(["low", "middle", "high", "rare"], object)[np.digitize(X[:, 0], [-1, 0.5, 2.5])]
    frame = pd.DataFrame({"word": words, "b": X[:, 1], "c": X[:, 2]})
    assert_mirrored(*both_fits((frame, y, groups), None), frame, groups)


def test_so_do_those_of_clusters_that_labels_found():
    sample = make_grouped_mixture(
        n_features=2,
        n_clusters=4,
        n_groups=15,
        labeled_per_group=(200, 10),
        unlabeled_per_group=(300, 20),
        random_state=2,
    )
    one, two = both_fits((sample.X, sample.y, sample.groups), options=WHOLE)
    assert one.n_clusters_ > 1
    np.testing.assert_allclose(one.candidates_["loss"], two.candidates_["loss"], atol=SAME)
    assert_mirrored(one, two, sample.X, sample.groups)


def test_so_do_those_of_a_choice_by_the_label_that_features_agree_on():
    rng = np.random.default_rng(1)
    y = (rng.random(6000) < 0.4).astype(int)
    X, group = rng.normal(size=(6000, 6)) + 0.6 * y[:, None], rng.integers(0, 10, 6000)
    y[rng.random(6000) > np.where(y == 1, 0.6, 0.2)] = -1
    one, two = both_fits((X, y, group))
    assert one.common_shift_.mean[0] < -0.3
    assert one.common_shift_.probability > 0.5
    assert_mirrored(one, two, X, group)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"true_clustering", "groupshift"}))
def test_so_do_those_of_every_method(table, name):
    X, y, groups = table
    p = [
        METHODS[name](LOGISTIC, random_state=0, n_jobs=1)
        .fit(X, labels, groups=groups)
        .predict_proba(X, groups)
        for labels in (y, swapped(y))
    ]
    np.testing.assert_allclose(p[0], p[1][:, ::-1], atol=SAME)


@pytest.mark.usefixtures("few_trees")
def test_so_do_those_of_files_updates_and_saved_models(table, tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("skops")
    X, y, groups = table
    columns = ["a", "b", "c"]
    frame = pd.DataFrame(X, columns=columns).assign(site=groups)
    frame[y < 0].to_parquet(tmp_path / "rows.parquet")
    models = []
    for labels in (y, swapped(y)):
        labeled = frame[y >= 0].assign(label=labels[y >= 0])
        model = streaming.fit(
            GroupShiftClassifier(random_state=0, n_jobs=1, partition=1),
            labeled,
            tmp_path / "rows.parquet",
            target="label",
            group="site",
            features=columns,
        )
        save(model, tmp_path / "model.gshift", overwrite=True)
        again = load(tmp_path / "model.gshift")
        new = frame[y < 0].iloc[::2]
        models.append(again.update(new[columns], new.site))
    assert_mirrored(*models, frame[columns], groups)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 25)), min_size=1, max_size=60),
    st.permutations(range(4)),
    st.integers(2, 5),
    st.integers(0, 9),
)
def test_folds_and_the_order_of_classes_do_not_ask_for_their_numbers(rows, other, n_folds, seed):
    y, keys = np.array(rows).T
    keys = keys.astype(np.uint64)
    y = np.unique(y, return_inverse=True)[1]
    renamed = np.argsort(np.argsort(np.array(other)[: y.max() + 1]))
    folds = stratified_folds(y, keys, n_folds, seed)
    assert np.array_equal(stratified_folds(renamed[y], keys, n_folds, seed), folds)
    order, again = class_order(y, keys), class_order(renamed[y], keys)
    counts = [np.sort(keys[y == c]).tolist() for c in range(y.max() + 1)]
    if all(counts.count(own) == 1 for own in counts):
        assert np.array_equal(again[renamed], order)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=200), st.integers(2, 5))
def test_folds_are_of_equal_size_in_all_and_in_each_class(labels, n_folds):
    y = np.unique(labels, return_inverse=True)[1]
    folds = stratified_folds(y, np.arange(len(y), dtype=np.uint64), n_folds, 0)
    for own in (np.ones(len(y), bool), *(y == c for c in range(y.max() + 1))):
        assert np.ptp(np.bincount(folds[own], minlength=n_folds)) <= 1


def test_decisions_at_even_odds_are_half_of_each_class():
    score, y = np.array([-1.0, 0.0, 0.0, 2.0, 0.5]), np.array([0, 1, 0, 1, 0])
    true, false = prediction_rates(score, y)
    assert prediction_rates(-score, 1 - y) == (1 - false, 1 - true)
    share = [
        bbse(collect_points(s, [0] * 5, n_cells=1), true_positive_rate=a, false_positive_rate=b).share[0]
        for s, a, b in ((score, true, false), (-score, 1 - false, 1 - true))
    ]
    assert share[0] == pytest.approx(1 - share[1])
