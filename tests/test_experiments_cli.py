"""The two command lines: one with nothing but the core, one with a bar, and the same results from both."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from groupshift.experiments.__main__ import main
from groupshift.experiments.reproduce import app
from groupshift.experiments.store import read_csv

SPEC = """
name = "tiny"
title = "A tiny experiment"
methods = ["global", "bayes"]
repetitions = 2
[classifier]
name = "forest"
n_estimators = 5
[[data]]
kind = "synthetic"
dimensions = [2]
clusters = [2]
settings = [2]
groups = 5
labeled_per_group = [40, 4]
unlabeled_per_group = [80, 8]
[scales.less]
repetitions = 1
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(SPEC)
    return str(path)


def test_a_file_alone_is_run_and_can_be_reported_on(spec, tmp_path):
    out = str(tmp_path / "out")
    ran = CliRunner().invoke(app, [spec, "--out", out, "--jobs", "1"])
    assert ran.exit_code == 0, ran.output
    assert "4 run, 0 failed" in ran.output
    assert "reproduce report" in ran.output
    reported = CliRunner().invoke(app, ["report", out, "--no-figures"])
    assert reported.exit_code == 0, reported.output
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_cost_is_said_before_it_starts(spec, tmp_path, capsys):
    main(["run", spec, "--out", str(tmp_path / "out"), "--jobs", "1", "--scale", "less"])
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("A tiny experiment (scale less")
    assert said[1].startswith("1 draw with 600 rows in all, 2 runs of a method, 1 classifier")
    assert said[2].startswith("2 of 2 runs; nothing remains")
    assert main(["run", spec, "--out", str(tmp_path / "out"), "--jobs", "1", "--scale", "less"]) == 0
    assert "Nothing is left to do." in capsys.readouterr().err


def test_bad_input_is_one_line_and_code_2(tmp_path, capsys):
    assert main(["run", "nothing.toml", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_both_command_lines_write_the_same_rows(spec, tmp_path):
    main(["run", spec, "--out", str(tmp_path / "plain"), "--jobs", "1"])
    CliRunner().invoke(app, ["run", spec, "--out", str(tmp_path / "rich"), "--jobs", "1"])
    one, other = (
        [r for r in read_csv(tmp_path / d / "results.csv") if r["metric"] in ("auc", "log_loss")]
        for d in ("plain", "rich")
    )
    assert one == other
    assert len(one) == 8


def test_combine_makes_lost_tables_again(spec, tmp_path):
    out = tmp_path / "out"
    main(["run", spec, "--out", str(out), "--jobs", "1"])
    before = (out / "results.csv").read_bytes()
    (out / "results.csv").unlink()
    assert main(["combine", spec, "--out", str(out)]) == 0
    assert (out / "results.csv").read_bytes() == before


def test_the_core_runs_without_any_extra(spec, tmp_path):
    """No typer, rich, pandas, pyarrow or matplotlib: as on a machine where nothing can be installed."""
    code = f"""
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {{"typer", "rich", "pandas", "polars", "pyarrow", "matplotlib"}}:
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
from groupshift.experiments.__main__ import main
sys.exit(main(["run", {spec!r}, "--out", {str(tmp_path / "bare")!r}, "--jobs", "1"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "4 run, 0 failed" in done.stderr
