"""A model file that somebody wrote by hand and sealed: what no fit ends in is refused before a row is read."""

import os
import pickle
import sys
import time
import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

pytest.importorskip("skops", reason="saving models needs the extra save")

from groupshift import GroupShiftClassifier, load, save
from groupshift._files.model_files import ModelFileError
from model_files import forged, parts_of, seal, with_schema

FOREST = RandomForestClassifier(3, max_depth=3)
BOOSTED = HistGradientBoostingClassifier(max_iter=3, categorical_features=[2])


@pytest.fixture(scope="module")
def table(rows):
    X, y, groups = rows
    return np.c_[X, np.arange(len(y)) % 3], y, groups


FITTED = {}


def fitted_with(estimator, table):
    """A model of its own for each test to spoil; fitted once for each estimator."""
    if repr(estimator) not in FITTED:
        X, y, groups = table
        model = GroupShiftClassifier(estimator, 1, random_state=0).fit(X, y, groups=groups)
        FITTED[repr(estimator)] = pickle.dumps(model)
    return pickle.loads(FITTED[repr(estimator)])


def classifier_of(model):
    return model.learned_.posterior.scorer.members[0]


def refused(model, tmp_path, match, spoil):
    path = forged(tmp_path / "m.gshift", model, spoil)
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        FOREST,
        BOOSTED,
        AdaBoostClassifier(n_estimators=2),
        BaggingClassifier(n_estimators=2, max_features=0.7),
        CalibratedClassifierCV(GaussianNB(), cv=2),
        DecisionTreeClassifier(max_depth=2),
        ExtraTreesClassifier(2, max_depth=2),
        GradientBoostingClassifier(n_estimators=2),
        MLPClassifier((3,), max_iter=3),
        SGDClassifier(loss="log_loss"),
        VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression())], voting="soft"),
        make_pipeline(SimpleImputer(), StandardScaler(), PCA(2), LogisticRegression()),
        make_pipeline(
            make_column_transformer((OneHotEncoder(), [2]), remainder="passthrough"),
            RandomForestClassifier(2, max_depth=2),
        ),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_models_of_estimators_that_are_allowed_load_and_predict_the_same(table, tmp_path, estimator):
    model = fitted_with(estimator, table)
    save(model, tmp_path / "m.gshift")
    X, _, groups = table
    np.testing.assert_array_equal(
        load(tmp_path / "m.gshift").predict_proba(X, groups), model.predict_proba(X, groups)
    )


def test_an_estimator_that_follows_numbers_of_a_file_is_refused(table, tmp_path):
    model = fitted_with(SVC(), table)
    with pytest.raises(ValueError, match="SVC"):
        save(model, tmp_path / "m.gshift")


def trees_of(model):
    classifier = classifier_of(model)
    if isinstance(classifier, HistGradientBoostingClassifier):
        return classifier, classifier._predictors[0][0]
    return classifier.estimators_[0], classifier.estimators_[0].tree_


@pytest.mark.parametrize("estimator", [FOREST, BOOSTED], ids=["forest", "boosted"])
def test_a_width_that_the_table_does_not_have_is_refused(table, tmp_path, estimator):
    model = fitted_with(estimator, table)

    def spoil(model):
        trees_of(model)[0].n_features_in_ = 2**40

    refused(
        model, tmp_path, "takes 1099511627776 columns, and is given 3|is not what a fit leaves there", spoil
    )


def test_a_tree_that_is_reached_twice_is_checked_for_both_widths(table, tmp_path):
    model = fitted_with(FOREST, table)

    def spoil(model):
        owner, tree = trees_of(model)
        narrow = DecisionTreeClassifier(max_depth=1).fit(np.zeros((2, 1)), [0, 1])
        narrow.tree_ = tree
        del narrow.max_features_
        # It is seen first in an estimator for which it is sound.
        classifier_of(model).estimators_ = [owner, narrow]

    refused(model, tmp_path, "takes 1 columns, and is given 3", spoil)


@pytest.mark.parametrize("estimator", [FOREST, BOOSTED], ids=["forest", "boosted"])
def test_a_tree_without_nodes_is_refused(table, tmp_path, estimator):
    def spoil(model):
        _, tree = trees_of(model)
        if estimator is FOREST:
            state = tree.__getstate__()
            tree.__setstate__(
                {**state, "nodes": state["nodes"][:0], "values": state["values"][:0], "node_count": 0}
            )
        else:
            tree.nodes = tree.nodes[:0]

    refused(fitted_with(estimator, table), tmp_path, "has no nodes", spoil)


def in_trees(node):
    """Descriptions of trees anywhere in a schema."""
    if isinstance(node, dict):
        if node.get("__loader__") == "TreeNode":
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from in_trees(value)


@pytest.mark.parametrize("damage", ["more outputs", "another part's number"])
def test_a_tree_that_counts_more_than_it_has_is_refused(table, tmp_path, damage):
    save(fitted_with(FOREST, table), tmp_path / "m.gshift")
    manifest, parts = parts_of(tmp_path / "m.gshift")
    many = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": "9999999"}
    many["is_json"] = True

    def forge(schema):
        for tree in in_trees(schema):
            arguments, state = tree["__reduce__"]["args"]["content"], tree["content"]["content"]
            if damage == "more outputs":
                arguments[2] = many
            else:
                # skops makes this number first, and takes it for the other.
                state["max_depth"], arguments[2] = {**many, "__id__": 7}, {**arguments[2], "__id__": 7}

    with pytest.raises(ModelFileError, match="refused"):
        load(seal(tmp_path / "m.gshift", manifest, with_schema(parts, forge)))


@pytest.mark.parametrize("damage", ["width", "number", "known", "not a category", "mapper"])
def test_sets_of_categories_that_are_not_there_are_refused(table, tmp_path, damage):
    def spoil(model):
        classifier, tree = trees_of(model)
        mapper = classifier._bin_mapper
        if damage == "width":
            tree.raw_left_cat_bitsets = np.zeros((len(tree.nodes), 0), np.uint32)
        elif damage == "number":
            tree.nodes["is_categorical"][:] = 1
            tree.nodes["bitset_idx"][:] = 10**6
        elif damage == "known":
            mapper.bin_thresholds_[np.argmax(mapper.is_categorical_)] = np.array([0.0, 1e9])
        elif damage == "not a category":
            tree.raw_left_cat_bitsets = tree.binned_left_cat_bitsets = np.zeros(
                (len(tree.nodes), 8), np.uint32
            )
            tree.nodes["is_categorical"][:] = 1
            tree.nodes["bitset_idx"][:] = 0
            tree.nodes["feature_idx"][:] = np.argmin(mapper.is_categorical_)
        else:
            mapper.is_categorical_ = np.zeros(1, np.uint8)

    refused(
        fitted_with(BOOSTED, table),
        tmp_path,
        "categories that do not exist|another number of columns|not what a fit leaves",
        spoil,
    )


def test_centers_of_another_width_are_refused(table, tmp_path):
    X, y, groups = table
    clusters = KMeans(2, n_init=1, random_state=0).fit(X)
    model = GroupShiftClassifier(LogisticRegression(), clusters, random_state=0)
    model.fit(X, y, groups=groups)

    def spoil(_):
        clusters.cluster_centers_ = clusters.cluster_centers_[:, :1]

    refused(model, tmp_path, "cluster_centers_ in its KMeans", spoil)


@pytest.mark.parametrize("setting", [{"input": "filename"}, {"memory": "/tmp"}], ids=["input", "memory"])
def test_settings_that_reach_files_are_refused(table, tmp_path, setting):
    """A vectorizer of file names reads them when it predicts."""
    planted = CountVectorizer(**setting) if "input" in setting else make_pipeline(PCA(1), **setting)

    def spoil(model):
        model.estimator = planted

    refused(fitted_with(LogisticRegression(), table), tmp_path, "reaches files of this machine", spoil)


def test_settings_that_no_estimator_takes_are_refused(table, tmp_path):
    def spoil(model):
        classifier_of(model).C = "much"

    refused(fitted_with(LogisticRegression(), table), tmp_path, "does not take", spoil)


BEYOND_MEMORY = {
    "a coefficient without end": (
        LogisticRegression(),
        lambda m: m.coef_.put(0, np.inf),
        "coef_ in its LogisticRegression has missing or infinite numbers",
    ),
    "sparse coefficients": (
        LogisticRegression(),
        lambda m: m.__dict__.update(coef_=csr_array(m.coef_)),
        "csr_array|sparse",
    ),
    "trees of more classes": (
        GradientBoostingClassifier(n_estimators=2),
        lambda m: m.__dict__.update(estimators_=np.repeat(m.estimators_, 50, axis=1)),
        "estimators_ in its GradientBoostingClassifier",
    ),
    "scores of more classes": (
        GradientBoostingClassifier(n_estimators=2),
        lambda m: m.__dict__.update(
            estimators_=np.repeat(m.estimators_, 3, axis=1), classes_=np.arange(3), n_trees_per_iteration_=3
        ),
        "another number of classes",
    ),
    "codes beyond the columns": (
        make_pipeline(make_column_transformer((OneHotEncoder(min_frequency=0.4), [2])), LogisticRegression()),
        lambda m: m[0].transformers_[0][1]._default_to_infrequent_mappings[0].fill(10**9),
        "codes for categories",
    ),
    "unsorted categories": (
        make_pipeline(make_column_transformer((OneHotEncoder(), [2])), LogisticRegression()),
        lambda m: (
            m[0].transformers_[0][1].categories_[0].sort()
            or m[0]
            .transformers_[0][1]
            .categories_.__setitem__(0, m[0].transformers_[0][1].categories_[0][::-1].copy())
        ),
        "codes for categories",
    ),
    "columns that are not filled": (
        make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=1000)),
        lambda m: m[0].__dict__.update(_n_out_full=30, n_output_features_=30),
        "announces columns",
    ),
    "no centers": (
        make_pipeline(KMeans(2, n_init=1), LogisticRegression()),
        lambda m: m[0].__dict__.update(cluster_centers_=m[0].cluster_centers_[:0]),
        "no centers",
    ),
    "many threads": (
        make_pipeline(KMeans(2, n_init=1), LogisticRegression()),
        lambda m: m[0].__dict__.update(_n_threads=10**7),
        "threads",
    ),
    "what no prediction is made of": (
        LogisticRegression(),
        lambda m: m.__dict__.update(planted=1),
        "'planted', which no prediction is made of",
    ),
    "a generator of random numbers": (
        LogisticRegression(),
        lambda m: m.__dict__.update(random_state=np.random.RandomState(0)),
        "RandomState",
    ),
}


@pytest.mark.parametrize("case", BEYOND_MEMORY)
def test_what_compiled_code_would_follow_is_refused(table, tmp_path, case):
    estimator, spoil, message = BEYOND_MEMORY[case]
    refused(fitted_with(estimator, table), tmp_path, message, lambda model: spoil(classifier_of(model)))


def test_what_ends_a_process_ends_the_one_where_it_is_tried(table, tmp_path, monkeypatch):
    """As if a check had been forgotten: the tried process meets the tree that leads outside."""
    path = forged(tmp_path / "m.gshift", fitted_with(FOREST, table), lambda model: None)
    code = "import os; os.kill(os.getpid(), 11)"
    import subprocess

    from groupshift._files import trial

    killed = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with killed, monkeypatch.context() as patched:
        patched.setattr(trial, "_started", lambda: killed)
        patched.setattr(trial, "_process", None)
        with pytest.raises(ModelFileError, match=r"ended its process \(-11\)"):
            load(path)
    assert load(path)


def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused_at_once(saved, tmp_path):
    with zipfile.ZipFile(tmp_path / "m.gshift", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * 2**28)
        archive.writestr("model.skops", b"")
    began = time.perf_counter()
    with pytest.raises(ModelFileError):
        load(tmp_path / "m.gshift")
    assert time.perf_counter() - began < 1


NONSENSE = {
    "NaN shifts": lambda m: m.estimate_.shift.fill(np.nan),
    "infinite shares": lambda m: m.estimate_.share.fill(np.inf),
    "shares of 7": lambda m: m.estimate_.share.fill(7.0),
    "negative variances": lambda m: m.estimate_.variance.fill(-1.0),
    "text for numbers": lambda m: m.estimate_.__dict__.update(shift="none"),
    "texts in an array": lambda m: m.estimate_.__dict__.update(shift=m.estimate_.shift.astype(str)),
    "other shapes": lambda m: m.estimate_.__dict__.update(shift=m.estimate_.shift[:2]),
    "a list for a value": lambda m: m.__dict__.update(estimate_=[1, 2]),
    "no learned part": lambda m: m.__dict__.pop("learned_"),
    "another partition": lambda m: m.learned_.posterior.__dict__.update(partition="none"),
    "no columns": lambda m: m.schema_.encoder.__dict__.update(names_=[], kinds_=[], categories_=[]),
    "unknown kinds": lambda m: m.schema_.encoder.__dict__.update(kinds_=["thing"] * 3),
    "one class": lambda m: m.schema_.__dict__.update(classes=np.array([0])),
    "evidence of fewer groups": lambda m: m.evidence_.groups.__dict__.update(
        share=m.evidence_.groups.share[:2]
    ),
    "evidence with an axis more": lambda m: m.evidence_.groups.__dict__.update(
        share=m.evidence_.groups.share[:, None]
    ),
    "points outside of cells": lambda m: m.estimate_.counts.scores.cell.fill(2**31 - 1),
    "weights that are none": lambda m: m.learned_.posterior.scorer.combination.weights.fill(np.nan),
    "offsets of other contrasts": lambda m: m.learned_.posterior.scorer.combination.__dict__.update(
        offset=np.ones(7)
    ),
    "a design effect of text": lambda m: m.learned_.__dict__.update(design_effect="much"),
    "a field more": lambda m: m.learned_.__dict__.update(more=1),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_sealed_nonsense_is_refused(table, tmp_path, case):
    refused(fitted_with(LogisticRegression(), table), tmp_path, "refused", NONSENSE[case])


@pytest.mark.parametrize("version", ["99", 99.0, True, None, 0, -1, [1]])
def test_a_format_that_is_no_number_is_refused(saved, tmp_path, version):
    manifest, parts = parts_of(saved)
    manifest["format_version"] = version
    with pytest.raises(ModelFileError, match=r"format|newer"):
        load(seal(tmp_path / "m.gshift", manifest, parts))


def test_an_estimator_beyond_the_list_is_refused_by_its_name(saved, tmp_path):
    manifest, parts = parts_of(saved)

    def plant(schema):
        empty = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {}}
        empty["key_types"] = {
            "__class__": "list",
            "__module__": "builtins",
            "__loader__": "ListNode",
            "content": [],
        }
        place = {
            "__class__": "KNeighborsClassifier",
            "__module__": "sklearn.neighbors._classification",
        }
        schema["content"]["content"]["n_jobs"] = {**place, "__loader__": "ObjectNode", "content": empty}

    with pytest.raises(ModelFileError, match="KNeighborsClassifier"):
        load(seal(tmp_path / "m.gshift", manifest, with_schema(parts, plant)))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.gshift")
    with pytest.raises(ModelFileError, match="a pipe"):
        load(tmp_path / "m.gshift")


def test_of_a_file_that_is_no_model_only_the_first_bytes_are_read(tmp_path):
    path = tmp_path / "m.gshift"
    with open(path, "wb") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(ModelFileError, match="no groupshift model"):
        load(path)
