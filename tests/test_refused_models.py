"""A file that is cut, altered, newer or not a model of ours is refused, and nothing in it runs."""

import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

pytest.importorskip("skops", reason="saving models needs the extra save")

from groupshift import load, save
from groupshift._files.model_files import ModelFileError
from model_files import forged, parts_of, seal, with_schema


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


def test_a_file_of_a_newer_version_is_refused_and_says_so(saved, tmp_path):
    manifest, parts = parts_of(saved)
    manifest["format_version"] = 3
    manifest["packages"]["groupshift"] = "7.0"
    with pytest.raises(ModelFileError, match=r"newer groupshift \(7\.0, format 3\)"):
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


@pytest.mark.parametrize(
    "estimator", [RandomForestClassifier(10, max_depth=5), HistGradientBoostingClassifier(max_iter=5)]
)
@pytest.mark.parametrize("damage", ["child", "loop", "feature"])
def test_trees_that_lead_outside_are_refused(rows, tmp_path, quick, estimator, damage):
    """scikit-learn would read foreign memory, or never come back."""
    X, y, groups = rows
    model = quick(estimator=estimator, partition=1).fit(X, y, groups=groups)

    def spoil(model):
        classifier = model.learned_.posterior.scorer.members[0]
        if isinstance(estimator, RandomForestClassifier):
            tree = classifier.estimators_[0].tree_
            state = tree.__getstate__()
            nodes = state["nodes"].copy()
            _damage(nodes, damage, "left_child", "feature")
            tree.__setstate__({**state, "nodes": nodes})
        else:
            _damage(classifier._predictors[0][0].nodes, damage, "left", "feature_idx")

    with pytest.raises(ModelFileError, match="a decision tree in it"):
        load(forged(tmp_path / "m.gshift", model, spoil))


def _damage(nodes, damage, child, feature):
    nodes[child if damage != "feature" else feature][0] = {"child": 10**6, "loop": 0, "feature": 10**6}[
        damage
    ]


class Foreign(LogisticRegression):
    """A classifier that is not scikit-learn's."""


def test_foreign_types_need_the_users_word_on_both_sides(rows, tmp_path, quick):
    X, y, groups = rows
    model = quick(estimator=Foreign(), partition=1).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="Foreign"):
        save(model, tmp_path / "m.gshift")
    name = f"{Foreign.__module__}.Foreign"
    save(model, tmp_path / "m.gshift", trusted=[name])
    with pytest.raises(ModelFileError, match="Foreign"):
        load(tmp_path / "m.gshift")
    again = load(tmp_path / "m.gshift", trusted=[name])
    np.testing.assert_array_equal(again.predict_proba(X, groups), model.predict_proba(X, groups))
