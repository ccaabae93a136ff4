"""Hostile inputs end in an answer, a note or one sentence: a slice of what `python -m benchmarks hostile` counts."""

import json
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("skops")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
hostile = pytest.importorskip("benchmarks.hostile", reason="benchmarks are not installed with the package")
hostile_estimators = pytest.importorskip("benchmarks.hostile_estimators")
hostile_files = pytest.importorskip("benchmarks.hostile_files")
parts = pytest.importorskip("groupshift._files.parts")


# Some of each kind.
SLICE = range(8_000, 8_040)
KEPT = Path(__file__).parent.parent / "results" / "hostile.json"


@pytest.fixture(scope="module")
def small_world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    hostile.make_world(folder)
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", SLICE[::10])
@pytest.mark.usefixtures("few_trees")
def test_hostile_inputs_end_well(small_world, tmp_path, first):
    for number in range(first, first + 10):
        outcome, said = hostile.attempt(number, small_world, tmp_path)
        assert outcome in hostile.GOOD, f"{number}: {outcome}: {said}"


@pytest.mark.skipif(not KEPT.is_file(), reason="no counts are kept")
def test_the_counts_that_are_kept_are_of_ten_thousand_and_have_no_fault():
    kept = json.loads(KEPT.read_text())
    assert kept["attempts"] == sum(kept["outcomes"].values()) >= 10_000
    assert kept["faults"] == []
    assert set(kept["outcomes"]) <= set(hostile.GOOD)


@pytest.mark.parametrize("build", hostile_files.BUILT, ids=lambda build: build.__name__)
@pytest.mark.parametrize("command", ["check", "predict"])
def test_files_that_were_built_to_do_harm_are_one_sentence(small_world, tmp_path, build, command):
    path = tmp_path / "hostile.csv"
    build(path)
    asked = {
        "check": ["check", str(path), "--target", "y", "--group", "g"],
        "predict": [
            "predict",
            f"{small_world}/forest.gshift",
            str(path),
            "--group",
            "g",
            "--out",
            f"{tmp_path}/out.csv",
        ],
    }
    outcome, said = hostile._commanded(asked[command])
    assert outcome == "one sentence", said
    assert Path("/etc/hostname").read_text().strip() not in said


def test_every_estimator_that_a_file_may_hold_is_forged():
    """Or stands inside one that is."""
    names = {
        name for name, places in parts._table().items() if any(map(_is_public, places)) and name[0] != "_"
    }
    assert names == hostile_estimators.estimators().keys() | set(hostile_estimators.INSIDE_OTHERS)


def _is_public(module):
    return module.startswith("sklearn.") and "._" not in module


@pytest.mark.parametrize("name", ["GradientBoostingClassifier", "OneHotEncoder"])
def test_forged_models_are_refused_or_answer(name):
    found = hostile_estimators.fuzz(name, hostile_estimators.sealed_model(name), 0, 12)
    assert [number for number, _ in found] == list(range(12))
    assert {outcome for _, outcome in found} <= set(hostile_estimators.GOOD)
