"""What benchmarks compare with is what it is said to be, and a benchmark that was stopped goes on where it was."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from class_cells import draw_cells

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

multiclass = pytest.importorskip("benchmarks.multiclass")


@pytest.mark.parametrize("epsilon", [1e-4, 1e-8])
def test_saerens_em_is_that_of_quapy(epsilon, monkeypatch):
    quapy = pytest.importorskip("quapy.method.aggregative")
    if epsilon < 1e-4:
        monkeypatch.setattr(quapy.EMQ, "MAX_ITER", 100_000)
    posterior, labeled, _, _ = draw_cells(n_cells=4, n_classes=5)
    for own in posterior:
        theirs = quapy.EMQ.EM(labeled, own, epsilon=epsilon)[0]
        np.testing.assert_allclose(multiclass.emq(labeled, own, epsilon), theirs, atol=1e-12)


def test_draws_that_were_made_are_not_made_again(tmp_path):
    done = {"set": "generated 3", "kind": "shift", "seed": 1, "error": "left as it is"}
    (tmp_path / "draws.jsonl").write_text(json.dumps(done) + "\n")
    command = [sys.executable, "-m", "benchmarks.multiclass", "--data", ".", "--out", str(tmp_path)]
    options = ["--sets", "generated 3", "--kinds", "shift", "--seeds", "1"]
    finished = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "left as it is" in finished.stdout
    assert (tmp_path / "draws.jsonl").read_text().count("\n") == 1
    assert json.loads((tmp_path / "origin.json").read_text())["seeds"] == [1]


def test_benchmarks_without_a_name_are_listed_and_not_run(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--out", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "fit_cost" in found.stdout
    assert list(tmp_path.iterdir()) == []
