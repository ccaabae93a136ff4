"""Hostile inputs end in an answer, a note or one sentence: a slice of what `python -m benchmarks hostile` counts."""

import json
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("skops")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
hostile = pytest.importorskip("benchmarks.hostile", reason="benchmarks are not installed with the package")

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
