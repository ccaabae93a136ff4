"""The scikit-learn contract, in one place; each excused check with its reason."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from groupshift import METHODS, DegradedWarning, GroupShiftClassifier
from groupshift._partitions import kmeans
from repeated import assert_same_numbers

# Checks fit without groups or unlabelled rows, which the estimator says out loud.
degraded = pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning")

WEIGHTS = (
    "Folds are drawn from rows: a repeated row is another example unless example_ids says otherwise "
    "(scikit-learn excuses CalibratedClassifierCV for the same reason)."
)
MINUS_ONE = (
    "Its classes are -1 and +1, and -1 marks unlabelled rows; with unlabeled_value=None it passes, see below."
)


@pytest.fixture
def few_numbers_of_clusters(monkeypatch):
    """Without groups a fit tries four numbers of clusters, which takes long: one cluster and several show as much."""
    defaults = kmeans.silhouette_partition.__kwdefaults__
    assert 1 in defaults["choices"]
    assert 4 in defaults["choices"]
    monkeypatch.setitem(defaults, "choices", (1, 4))


EXCUSED = {"check_sample_weight_equivalence_on_dense_data": WEIGHTS, "check_classifiers_classes": MINUS_ONE}


class Halves:
    """A partition for tables of any width."""

    def __repr__(self):
        return "Halves()"

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


def every_method():
    """An unfitted model of each method, quick to fit."""
    settings = {"true_clustering": {"partition": Halves()}}
    small = {"groupshift": None}
    for name, make in METHODS.items():
        yield make(small.get(name, RandomForestClassifier(5, max_depth=3)), **settings.get(name, {}))


@degraded
@pytest.mark.usefixtures("few_trees", "few_numbers_of_clusters")
@parametrize_with_checks(list(every_method()), expected_failed_checks=lambda estimator: EXCUSED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_without_groups_a_baseline_has_one_group_and_says_so(rows):
    X, y, _ = rows
    for name in ("coral", "group_aware_global"):
        with pytest.warns(DegradedWarning, match="No groups"):
            model = METHODS[name](LogisticRegression(), random_state=0).fit(X, y)
        one = METHODS[name](LogisticRegression(), random_state=0).fit(X, y, groups=np.full(len(y), "all"))
        np.testing.assert_allclose(
            model.predict_proba(X), one.predict_proba(X, np.full(len(y), "all")), atol=1e-12
        )


def test_a_baseline_that_was_fitted_with_groups_says_so_where_none_are_given(rows):
    X, y, groups = rows
    for name in ("coral", "group_aware_global"):
        model = METHODS[name](LogisticRegression(), random_state=0).fit(X, y, groups=groups)
        with pytest.warns(UserWarning, match="fitted with groups, but none were given to predict"):
            model.predict_proba(X)


@degraded
@pytest.mark.usefixtures("few_trees", "few_numbers_of_clusters")
@pytest.mark.parametrize("name", METHODS)
def test_classes_minus_one_and_one_are_classes_where_only_missing_labels_are_unlabelled(name):
    model = dict(zip(METHODS, every_method(), strict=True))[name].set_params(unlabeled_value=None)
    check_classifiers_classes(type(model).__name__, model)


def test_integer_weights_equal_repeated_rows_that_are_said_to_be_copies(rows):
    # The excused check, with example_ids: copies share a fold, so the classifier and the shares see the same.
    X, y, groups = rows
    times = np.random.default_rng(0).integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), times)
    estimator = LogisticRegression(tol=1e-10, max_iter=1000)
    model = GroupShiftClassifier(estimator, partition=1, shrinkage="none", random_state=0)
    ids = np.arange(len(y))
    weighted = clone(model).fit(X, y, groups=groups, sample_weight=times.astype(float), example_ids=ids)
    repeated = clone(model).fit(X[again], y[again], groups=groups[again], example_ids=ids[again])
    # Platt's prior and the half row that keeps shares off 0 and 1 count rows, which differ.
    np.testing.assert_allclose(
        weighted.predict_proba(X, groups), repeated.predict_proba(X, groups), atol=0.01
    )
    np.testing.assert_allclose(weighted.group_prior_, repeated.group_prior_, atol=0.01)


def test_clone_copies_settings_and_nothing_learned(fitted):
    copy = clone(fitted)
    assert not hasattr(copy, "classes_")
    assert copy.get_params()["partition"] == 2
    assert copy.get_params()["estimator__C"] == 1.0


def test_fitting_leaves_the_settings_alone(rows, quick):
    X, y, groups = rows
    forest = RandomForestClassifier(5)
    model = quick(estimator=forest)
    before = repr(model.get_params())
    model.fit(X, y, groups=groups)
    assert repr(model.get_params()) == before
    assert model.estimator is forest
    assert not hasattr(forest, "classes_")


def test_a_pickled_model_predicts_the_same(rows, fitted):
    X, _, groups = rows
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X, groups), fitted.predict_proba(X, groups))


@pytest.mark.parametrize(
    "settings", [{}, {"estimator": RandomForestClassifier(10), "partition": "silhouette"}]
)
def test_the_same_seed_gives_the_same_bits_twice(rows, quick, settings):
    X, y, groups = rows
    one, two = (quick(random_state=7, **settings).fit(X, y, groups=groups) for _ in range(2))
    assert_same_numbers(one.predict_proba(X, groups), two.predict_proba(X, groups))
    assert_same_numbers(one.shift_, two.shift_)


def test_two_jobs_give_the_same_bits_as_one(rows, quick):
    X, y, groups = rows
    one, two = (
        quick(estimator=RandomForestClassifier(10), n_jobs=n).fit(X, y, groups=groups) for n in (1, 2)
    )
    assert_same_numbers(one.predict_proba(X, groups), two.predict_proba(X, groups))


def test_a_seeded_generator_is_a_seed(rows, quick):
    X, y, groups = rows
    one, two = (quick(random_state=np.random.RandomState(4)).fit(X, y, groups=groups) for _ in range(2))
    assert_same_numbers(one.predict_proba(X, groups), two.predict_proba(X, groups))


def test_tags_say_what_it_takes():
    tags = get_tags(GroupShiftClassifier())
    assert is_classifier(GroupShiftClassifier())
    assert tags.classifier_tags.multi_class
    assert tags.input_tags.allow_nan
    assert not get_tags(GroupShiftClassifier(LogisticRegression())).input_tags.allow_nan
    assert get_tags(GroupShiftClassifier(RandomForestClassifier())).input_tags.allow_nan


@pytest.fixture
def frame(rows):
    """The rows as a frame with a group column, labelled rows only."""
    X, y, groups = rows
    known = y >= 0
    table = pd.DataFrame(X[known], columns=["a", "b"])
    table["state"] = groups[known]
    return table, y[known]


def test_feature_names_are_kept_the_group_column_among_them(rows, quick):
    X, y, groups = rows
    table = pd.DataFrame(X, columns=["a", "b"]).assign(state=groups)
    model = quick(group="state").fit(table, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "state"]
    assert model.n_features_in_ == 3
    assert model.encoder_.names_ == ["a", "b"]


@degraded
def test_cross_validation_and_scorers_work_with_a_group_column(frame, quick):
    X, y = frame
    model = quick(group="state")
    probability = cross_val_predict(model, X, y, cv=3, method="predict_proba")
    assert probability.shape == (len(y), 2)
    assert (cross_val_score(model, X, y, cv=3, scoring="roc_auc") > 0.6).all()
    assert get_scorer("neg_log_loss")(model.fit(X, y), X, y) > -0.8


@degraded
def test_grid_search_finds_its_way_to_the_parts(frame, quick):
    X, y = frame
    search = GridSearchCV(quick(group="state"), {"estimator__C": [0.1, 1.0], "partition": [1, 2]}, cv=2)
    assert set(search.fit(X, y).best_params_) == {"estimator__C", "partition"}


@degraded
def test_scikit_learns_calibration_wraps_it(frame, quick):
    X, y = frame
    wrapped = CalibratedClassifierCV(quick(group="state"), cv=2).fit(X, y)
    assert wrapped.predict_proba(X).shape == (len(y), 2)


def test_it_works_at_the_end_of_a_pipeline(rows, quick):
    X, y, groups = rows
    pipeline = make_pipeline(StandardScaler(), quick())
    pipeline.fit(X, y, groupshiftclassifier__groups=groups)
    assert pipeline.predict_proba(X, groups=groups).shape == (len(y), 2)


def test_a_pipeline_is_a_classifier_for_it(rows, quick):
    X, y, groups = rows
    model = quick(estimator=make_pipeline(StandardScaler(), LogisticRegression()))
    weight = np.random.default_rng(0).exponential(size=len(y))
    model.fit(X, y, groups=groups, sample_weight=weight)
    assert ((model.predict_proba(X, groups) > 0) & (model.predict_proba(X, groups) < 1)).all()


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_metadata_routing_brings_groups_through_a_pipeline(rows, quick):
    X, y, groups = rows
    model = quick().set_fit_request(groups=True, sample_weight=True).set_predict_proba_request(groups=True)
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
    pipeline.fit(X, y, groups=groups, sample_weight=np.ones(len(y)))
    direct = quick().fit(StandardScaler().fit_transform(X), y, groups=groups)
    np.testing.assert_allclose(
        pipeline.predict_proba(X, groups=groups),
        direct.predict_proba(StandardScaler().fit_transform(X), groups),
        atol=1e-8,
    )


@degraded
@pytest.mark.usefixtures("routing")
def test_cross_validation_that_loses_the_groups_on_the_way_to_predict_is_heard(rows, quick):
    # scikit-learn routes groups to fit but never to predict; without this warning nobody would notice.
    X, y, groups = rows
    known = y >= 0
    model = quick().set_fit_request(groups=True).set_predict_request(groups=True)
    with pytest.warns(UserWarning, match="fitted with groups, but none were given to predict"):
        cross_val_predict(model, X[known], y[known], cv=3, params={"groups": groups[known]})


class Minimal(ClassifierMixin, BaseEstimator):
    """A classifier with nothing but fit and predict_proba: no weights, no decision function, no seed."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.stack([X[y == c].mean(0) for c in self.classes_])
        return self

    def predict_proba(self, X):
        distance = ((X[:, None] - self.means_) ** 2).sum(2)
        weight = np.exp(-distance + distance.min(1, keepdims=True))
        return weight / weight.sum(1, keepdims=True)


def test_any_classifier_with_predict_proba_serves(rows, quick):
    X, y, groups = rows
    probability = quick(estimator=Minimal()).fit(X, y, groups=groups).predict_proba(X, groups)
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(1), 1)


def test_cross_validation_leaves_unlabelled_rows_out_of_the_score(rows, quick):
    X, y, groups = rows
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["a", "b"]).assign(site=groups)
    model = quick(group="site")
    found = cross_val_score(model, table, y, cv=KFold(3, shuffle=True, random_state=0))
    fitted = model.fit(table, y)
    known = y >= 0
    assert fitted.score(table, y) == fitted.score(table[known], y[known])
    # Unlabelled rows are two thirds: counted as wrong, they would leave at most a third.
    assert found.min() > 0.4


def test_a_score_of_unlabelled_rows_alone_says_so(rows, fitted):
    X, y, groups = rows
    with pytest.raises(ValueError, match="No row has a label"):
        fitted.score(X[y < 0], y[y < 0], groups=groups[y < 0])


def test_a_score_of_foreign_labels_says_so(rows, fitted):
    X, y, groups = rows
    with pytest.raises(ValueError, match="besides the classes"):
        fitted.score(X, np.where(y == 1, 7, y), groups=groups)


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_a_column_name_that_is_there_twice_is_one_clear_error(rows, quick, library):
    X, y, groups = rows
    if library == "pandas":
        table = pytest.importorskip("pandas").DataFrame(X, columns=["age", "age"])
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.Table.from_arrays([pa.array(column) for column in X.T], names=["age", "age"])
    with pytest.raises(ValueError, match="X has 'age' more than once"):
        quick().fit(table, y, groups=groups)
