"""A saved model predicts the same bits. A file that is not whole, or not ours is refused; nothing runs."""

import io
import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("skops", reason="saving models needs the extra save")

import groupshift
from groupshift import METHODS, GroupShiftClassifier, load, save
from groupshift.columns import TableClassifier
from groupshift.datasets import make_grouped_mixture, make_survey
from groupshift.persistence import ModelFileError, _sealed, read_manifest
from groupshift.tables import take_rows

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def mixture():
    return make_grouped_mixture(
        n_features=3,
        n_clusters=2,
        n_groups=6,
        labeled_per_group=(60, 0),
        unlabeled_per_group=(80, 0),
        random_state=0,
    ).training()


@pytest.fixture(scope="module")
def saved(mixture, tmp_path_factory):
    X, y, groups, _ = mixture
    path = tmp_path_factory.mktemp("saved") / "model.gshift"
    model = GroupShiftClassifier(LogisticRegression(), 2, random_state=0).fit(X, y, groups=groups)
    save(model, path)
    return path


def survey(backend):
    sample = make_survey(
        n_groups=6, labeled_per_group=60, unlabeled_per_group=60, backend=backend, random_state=0
    )
    return sample.X, sample.y, sample.groups


def assert_same_bits(model, path, X, groups):
    save(model, path)
    again = load(path)
    np.testing.assert_array_equal(again.predict_proba(X, groups), model.predict_proba(X, groups), strict=True)
    if not hasattr(model, "predict_details"):
        return
    before, after = model.predict_details(X, groups), again.predict_details(X, groups)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name], strict=True)


FORESTS = RandomForestClassifier(n_estimators=10, max_depth=5)


@pytest.mark.parametrize(
    "model",
    [
        GroupShiftClassifier(random_state=0),
        GroupShiftClassifier(FORESTS, 2, random_state=0),
        GroupShiftClassifier(FORESTS, 2, per_cluster=True, random_state=0),
        GroupShiftClassifier.published(FORESTS, random_state=0),
        GroupShiftClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0),
        GroupShiftClassifier(partition=[KMeans(2, n_init=1, random_state=0)], random_state=0),
        GroupShiftClassifier(LogisticRegression(), 2, shares="bbse-soft", shrinkage="none", random_state=0),
        *(
            METHODS[name](FORESTS, random_state=0)
            for name in METHODS
            if name not in ("true_clustering", "groupshift")
        ),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.get_params().get('partition')}",
)
def test_predictions_are_the_same_bits(tmp_path, mixture, model):
    X, y, groups, _ = mixture
    if isinstance(model.get_params().get("partition"), list):
        model.partition[0].fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", groupshift.DegradedWarning)
        model.fit(X, y, groups=groups)
    assert_same_bits(model, tmp_path / "m.gshift", X, groups)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("estimator", [None, TableClassifier(FORESTS)])
def test_predictions_on_frames_are_the_same_bits(tmp_path, backend, estimator):
    pytest.importorskip(backend)
    X, y, groups = survey(backend)
    model = GroupShiftClassifier(estimator, per_cluster=estimator is not None, random_state=0).fit(
        X, y, groups=groups
    )
    assert_same_bits(model, tmp_path / "m.gshift", X, groups)


def test_a_loaded_model_can_do_all_that_the_model_could(tmp_path, mixture, saved):
    X, y, groups, _ = mixture
    model = GroupShiftClassifier(LogisticRegression(), 2, random_state=0).fit(X, y, groups=groups)
    again = load(saved)
    assert again.summary() == model.summary()
    for left, right in zip(
        again.group_shares(by="group").values(), model.group_shares(by="group").values(), strict=True
    ):
        np.testing.assert_array_equal(left, right)
    again.update(X[y < 0], groups[y < 0])
    model.update(X[y < 0], groups[y < 0])
    np.testing.assert_array_equal(again.shift_, model.shift_)


@pytest.mark.parametrize("groups", [np.arange(12) % 3, np.array(["a", None, 1] * 4, object)[[0, 2] * 6]])
def test_groups_keep_their_type(tmp_path, groups):
    X = np.random.default_rng(0).normal(size=(240, 2))
    y = np.tile([0, 1, -1, -1, 1, 0, -1, -1], 30)
    groups = np.tile(groups, 20)
    model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0).fit(X, y, groups=groups)
    save(model, tmp_path / "m.gshift")
    assert load(tmp_path / "m.gshift").groups_.tolist() == model.groups_.tolist()


def test_the_manifest_says_what_the_model_is(saved):
    manifest = read_manifest(saved)
    assert manifest["format_version"] == 1
    assert manifest["features"] == [{"name": f"x{j}", "kind": "number"} for j in range(3)]
    assert (manifest["groups"], manifest["clusters"]) == (6, 2)
    assert manifest["settings"]["partition"] == 2
    assert {"python", "groupshift", "numpy", "scikit-learn", "skops"} <= set(manifest["packages"])
    assert set(manifest["checksums"]) == {"model.skops"}


@pytest.mark.filterwarnings("ignore:.*was written with scikit-learn")
def test_a_file_of_the_first_version_stays_readable():
    """Golden: written once by tests/data/make_golden.py. The last bits of exp differ between machines."""
    sample = make_survey(
        n_groups=8, labeled_per_group=100, unlabeled_per_group=100, backend="pyarrow", random_state=0
    )
    model = load(DATA / "golden.gshift")
    rows = np.arange(50)
    found = model.predict_proba(take_rows(sample.X, rows), sample.groups[rows])[:, 1]
    np.testing.assert_allclose(found, np.loadtxt(DATA / "golden.csv"), rtol=1e-12)
    assert (DATA / "golden.gshift").stat().st_size < 200_000


# Files that are refused


@settings(max_examples=40)
@given(part=st.floats(0, 1, exclude_max=True))
def test_a_cut_file_is_refused(saved, tmp_path_factory, part):
    data = saved.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "m.gshift"
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(ModelFileError, match=r"cut short or altered|no groupshift model"):
        load(path)


@settings(max_examples=60)
@given(part=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_bit_altered_anywhere_is_refused(saved, tmp_path_factory, part, bit):
    data = bytearray(saved.read_bytes())
    data[int(part * len(data))] ^= 1 << bit
    path = tmp_path_factory.mktemp("altered") / "m.gshift"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"altered|no groupshift model|newer"):
        load(path)


def test_bytes_after_the_end_are_refused(saved, tmp_path):
    (tmp_path / "m.gshift").write_bytes(saved.read_bytes() + b"more")
    with pytest.raises(ModelFileError, match="altered"):
        load(tmp_path / "m.gshift")


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json")), archive.read("model.skops")


def seal(path, manifest, parts):
    import hashlib

    manifest["checksums"] = {"model.skops": hashlib.sha256(parts).hexdigest()}
    path.write_bytes(_sealed(manifest, parts))
    return path


def with_schema(parts, change):
    """The same skops file with another schema, as somebody with bad intentions would make it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(parts)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            new.writestr(name, content)
    return buffer.getvalue()


def test_a_file_of_a_newer_version_is_refused_and_says_so(saved, tmp_path):
    manifest, parts = parts_of(saved)
    manifest["format_version"] = 2
    manifest["packages"]["groupshift"] = "7.0"
    with pytest.raises(ModelFileError, match=r"newer groupshift \(7\.0, format 2\)"):
        load(seal(tmp_path / "m.gshift", manifest, parts))


@pytest.mark.parametrize("content", [b"", b"y,x\n1,2\n", b"PK\x03\x04 and nothing"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "m.gshift").write_bytes(content)
    with pytest.raises(ModelFileError):
        load(tmp_path / "m.gshift")


def test_another_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.gshift", "w") as archive:
        archive.writestr("letter.txt", "hello")
    with pytest.raises(ModelFileError, match="zip archive, but no groupshift model"):
        load(tmp_path / "m.gshift")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(ModelFileError, match="There is no file"):
        load(tmp_path / "none.gshift")


def plant(node):
    """Parts that would run a command, one for every way that skops knows to name a function."""
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    command = {**text, "content": json.dumps("touch PWNED")}
    arguments = {
        "__class__": "tuple",
        "__module__": "builtins",
        "__loader__": "TupleNode",
        "content": [command],
    }
    empty = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "content": {}}
    empty["key_types"] = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": [],
    }
    system = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}
    return {
        "function": system,
        "type": {**system, "__loader__": "TypeNode"},
        "object": {**system, "__loader__": "ObjectNode", "content": empty},
        "constructor": {
            "__class__": "Popen",
            "__module__": "subprocess",
            "__loader__": "ConstructorFromReduceNode",
            "content": arguments,
        },
        "partial": {
            "__class__": "partial",
            "__module__": "functools",
            "__loader__": "PartialNode",
            "content": {"func": system, "args": arguments, "kwds": empty, "namespace": empty},
        },
        "method": {
            "__class__": "KMeans",
            "__module__": "sklearn.cluster._kmeans",
            "__loader__": "MethodNode",
            "content": {
                "func": "fit",
                "obj": {
                    "__class__": "KMeans",
                    "__module__": "sklearn.cluster._kmeans",
                    "__loader__": "ObjectNode",
                    "content": empty,
                },
            },
        },
        "operator": {
            "__class__": "methodcaller",
            "__module__": "operator",
            "__loader__": "OperatorFuncNode",
            "attrs": arguments,
        },
        "list": {"__class__": "system", "__module__": "os", "__loader__": "ListNode", "content": [command]},
    }[node]


@pytest.mark.parametrize(
    "kind", ["function", "type", "object", "constructor", "partial", "method", "operator", "list"]
)
def test_a_malicious_file_is_refused_and_nothing_in_it_runs(saved, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    manifest, parts = parts_of(saved)

    def poison(schema):
        schema["content"]["content"]["n_jobs"] = plant(kind)

    path = seal(tmp_path / "m.gshift", manifest, with_schema(parts, poison))
    with pytest.raises(ModelFileError, match="refused"):
        load(path)
    assert sorted(os.listdir(tmp_path)) == ["m.gshift"]


def test_a_function_that_hides_in_a_trusted_transformer_is_refused(saved, tmp_path):
    """FunctionTransformer is a type that skops trusts; a function in it is no part of any model."""
    manifest, parts = parts_of(saved)

    def poison(schema):
        schema["content"]["content"]["n_jobs"] = {
            "__class__": "loadtxt",
            "__module__": "numpy",
            "__loader__": "FunctionNode",
        }

    with pytest.raises(ModelFileError, match=r"numpy\.loadtxt"):
        load(seal(tmp_path / "m.gshift", manifest, with_schema(parts, poison)))


@pytest.mark.parametrize("estimator", [FORESTS, HistGradientBoostingClassifier(max_iter=5)])
@pytest.mark.parametrize("damage", ["child", "loop", "feature"])
def test_trees_that_lead_outside_are_refused(mixture, tmp_path, estimator, damage):
    """scikit-learn would read foreign memory, or never come back."""
    X, y, groups, _ = mixture
    model = GroupShiftClassifier(estimator, 1, random_state=0).fit(X, y, groups=groups)
    classifier = model.posterior_.classifier
    if isinstance(estimator, RandomForestClassifier):
        tree = classifier.estimators_[0].tree_
        state = tree.__getstate__()
        nodes = state["nodes"].copy()
        _damage(nodes, damage, "left_child", "feature")
        tree.__setstate__({**state, "nodes": nodes})
    else:
        _damage(classifier._predictors[0][0].nodes, damage, "left", "feature_idx")
    save(model, tmp_path / "m.gshift")
    with pytest.raises(ModelFileError, match="a decision tree in it"):
        load(tmp_path / "m.gshift")


def _damage(nodes, damage, child, feature):
    nodes[child if damage != "feature" else feature][0] = {"child": 10**6, "loop": 0, "feature": 10**6}[
        damage
    ]


# Saving


class Foreign(LogisticRegression):
    """A classifier that is not scikit-learn's."""


def test_foreign_types_need_the_users_word_on_both_sides(mixture, tmp_path):
    X, y, groups, _ = mixture
    model = GroupShiftClassifier(Foreign(), 1, random_state=0).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="Foreign"):
        save(model, tmp_path / "m.gshift")
    name = f"{Foreign.__module__}.Foreign"
    save(model, tmp_path / "m.gshift", trusted=[name])
    with pytest.raises(ModelFileError, match="Foreign"):
        load(tmp_path / "m.gshift")
    again = load(tmp_path / "m.gshift", trusted=[name])
    np.testing.assert_array_equal(again.predict_proba(X, groups), model.predict_proba(X, groups))


def test_saving_leaves_an_existing_file_alone_if_asked(saved, mixture, tmp_path):
    (tmp_path / "m.gshift").write_text("mine")
    with pytest.raises(OSError, match="exists already"):
        save(load(saved), tmp_path / "m.gshift", overwrite=False)
    assert (tmp_path / "m.gshift").read_text() == "mine"


def test_only_fitted_models_are_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        save(GroupShiftClassifier(), tmp_path / "m.gshift")
    assert not list(tmp_path.iterdir())


def test_another_version_of_scikit_learn_is_said_once(saved, tmp_path):
    manifest, parts = parts_of(saved)
    manifest["packages"]["scikit-learn"] = "1.2.3"
    path = seal(tmp_path / "m.gshift", manifest, parts)
    with pytest.warns(UserWarning, match=r"written with scikit-learn 1\.2\.3") as caught:
        load(path)
    assert len(caught) == 1


def test_importing_groupshift_stays_cheap():
    code = "import sys, groupshift; assert not {'skops', 'typer', 'groupshift.files'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
