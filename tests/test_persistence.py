"""A saved model predicts the same bits, and its file does not depend on where our classes are."""

import io
import json
import subprocess
import sys
import types
import warnings
import zipfile
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("skops", reason="saving models needs the extra save")

import groupshift
from groupshift import METHODS, GroupShiftClassifier, load, save
from groupshift._data.frames import take_rows
from groupshift._files import parts
from groupshift._files.model_files import ModelFileError, read_manifest
from groupshift._shifts.sums import Sums
from groupshift.datasets import make_survey
from groupshift.tables.columns import TableClassifier
from model_files import parts_of, seal, with_schema
from repeated import assert_same_numbers

DATA = Path(__file__).parent / "data"


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
    for name in ("probability", "low", "high", "cluster", "pooled"):
        np.testing.assert_array_equal(np.asarray(after[name]), np.asarray(before[name]), strict=True)


# A file holds every tree: a few show as much.
FORESTS = RandomForestClassifier(n_estimators=4, max_depth=4)


@pytest.mark.parametrize(
    "model",
    [
        GroupShiftClassifier(random_state=0),
        GroupShiftClassifier(FORESTS, 2, random_state=0),
        GroupShiftClassifier(FORESTS, 2, per_cluster=True, random_state=0),
        GroupShiftClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0),
        GroupShiftClassifier(partition=[KMeans(2, n_init=1, random_state=0)], random_state=0),
        GroupShiftClassifier(FORESTS, KMeans(2, n_init=1, random_state=0), random_state=0),
        GroupShiftClassifier(LogisticRegression(), 2, shares="bbse-soft", shrinkage="none", random_state=0),
        *(
            METHODS[name](FORESTS, random_state=0)
            for name in METHODS
            if name not in ("true_clustering", "groupshift")
        ),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.get_params().get('partition')}",
)
def test_predictions_are_the_same_bits(tmp_path, rows, few_trees, model):
    X, y, groups = rows
    partition = model.get_params().get("partition")
    for clusterer in partition if isinstance(partition, list) else [partition]:
        if isinstance(clusterer, KMeans):
            clusterer.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", groupshift.DegradedWarning)
        model.fit(X, y, groups=groups)
    assert_same_bits(model, tmp_path / "m.gshift", X, groups)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("estimator", [None, TableClassifier(FORESTS)])
def test_predictions_on_frames_are_the_same_bits(tmp_path, few_trees, backend, estimator):
    pytest.importorskip(backend)
    X, y, groups = survey(backend)
    settings = {"partition": 2, "per_cluster": estimator is not None}
    model = GroupShiftClassifier(estimator, **settings, random_state=0).fit(X, y, groups=groups)
    assert_same_bits(model, tmp_path / "m.gshift", X, groups)


def test_a_loaded_model_can_do_all_that_the_model_could(rows, saved, fitted):
    X, y, groups = rows
    model, again = copy(fitted), load(saved)
    assert again.summary() == model.summary()
    for left, right in zip(
        again.group_shares(by="group").values(), model.group_shares(by="group").values(), strict=True
    ):
        assert_same_numbers(left, right)
    again.update(X[y < 0], groups[y < 0])
    model.update(X[y < 0], groups[y < 0])
    assert_same_numbers(again.shift_, model.shift_)


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
    assert manifest["format_version"] == 2
    assert manifest["features"] == [{"name": f"x{j}", "kind": "number"} for j in range(2)]
    assert (manifest["groups"], manifest["clusters"]) == (12, 2)
    assert manifest["settings"]["partition"] == 2
    assert {"python", "groupshift", "numpy", "scikit-learn", "skops"} <= set(manifest["packages"])
    assert set(manifest["checksums"]) == {"model.skops"}


@pytest.mark.filterwarnings("ignore:.*was written with scikit-learn")
def test_a_file_of_the_first_release_stays_readable():
    """Golden: written once by tests/data/make_golden.py. The last bits of exp differ between machines."""
    sample = make_survey(
        n_groups=8, labeled_per_group=100, unlabeled_per_group=100, backend="pyarrow", random_state=0
    )
    model = load(DATA / "golden.gshift")
    rows = np.arange(50)
    found = model.predict_proba(take_rows(sample.X, rows), sample.groups[rows])[:, 1]
    np.testing.assert_allclose(found, np.loadtxt(DATA / "golden.csv"), rtol=1e-12)
    # The models of the folds are kept too: they score the population of an update.
    assert (DATA / "golden.gshift").stat().st_size < 400_000


def test_a_file_names_our_types_by_name_and_not_by_module(saved):
    _, parts = parts_of(saved)
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        text = archive.read("schema.json").decode()
    assert '"groupshift/"' in text
    assert "groupshift." not in text


def test_a_class_that_has_moved_is_found_by_its_name(saved, fitted, monkeypatch):
    """Another module takes the place of the one that was there at saving."""
    elsewhere = types.ModuleType("groupshift._elsewhere")
    elsewhere.Sums = type("Sums", (Sums,), {"__module__": "groupshift._elsewhere"})
    monkeypatch.setitem(sys.modules, "groupshift._elsewhere", elsewhere)
    monkeypatch.setitem(parts.own_types(), "Sums", elsewhere.Sums)
    again = load(saved)
    assert type(again.learned_.labeled.scores) is elsewhere.Sums
    np.testing.assert_array_equal(again.shift_, fitted.shift_)
    assert again.diagnose().sentences == fitted.diagnose().sentences


def test_every_type_of_ours_is_known_by_a_name_of_its_own():
    assert {"GroupShiftClassifier", "Learned", "Estimate", "Posterior", "Sums"} <= parts.own_types().keys()
    assert all(kind.__name__ == name for name, kind in parts.own_types().items())


def test_a_file_that_names_a_module_of_ours_is_refused(saved, tmp_path):
    def by_place(schema):
        text = json.dumps(schema).replace('"groupshift/"', '"groupshift.classifier"')
        schema.update(json.loads(text))

    manifest, parts = parts_of(saved)
    path = seal(tmp_path / "m.gshift", manifest, with_schema(parts, by_place))
    with pytest.raises(ModelFileError, match="refused"):
        load(path)


def test_saving_leaves_an_existing_file_alone_unless_told(saved, tmp_path):
    (tmp_path / "m.gshift").write_text("mine")
    with pytest.raises(OSError, match=r"exists already.*overwrite=True"):
        save(load(saved), tmp_path / "m.gshift")
    assert (tmp_path / "m.gshift").read_text() == "mine"
    save(load(saved), tmp_path / "m.gshift", overwrite=True)
    assert load(tmp_path / "m.gshift")


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


def test_importing_groupshift_stays_cheap_and_loading_a_model_brings_no_dask(saved):
    code = (
        "import sys, groupshift\n"
        "assert not {'skops', 'typer', 'groupshift.tables.files'} & set(sys.modules)\n"
        "groupshift.load(sys.argv[1])\n"
        "assert 'dask' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(saved)], check=True)
