"""The command line of the article's experiments: `python -m paper`, from the core alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from paper.reproduce import main
from paper.store import read_csv

ROOT = Path(__file__).parents[1]

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


def test_a_file_alone_is_run_and_can_be_reported_on(spec, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main([spec, "--out", out, "--jobs", "1"]) == 0
    said = capsys.readouterr().err
    assert "4 run, 0 failed" in said
    assert f"python -m paper report {out}" in said
    assert main(["report", out, "--no-figures"]) == 0
    assert (tmp_path / "out" / "report" / "index.html").is_file()


def test_what_is_to_be_done_is_said_before_it_starts(spec, tmp_path, capsys):
    main(["run", spec, "--out", str(tmp_path / "out"), "--jobs", "1", "--scale", "less"])
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("A tiny experiment (scale less")
    assert said[1] == "1 draw, 2 runs of a method."
    assert said[2].startswith("2 of 2 runs; nothing remains")
    assert main(["run", spec, "--out", str(tmp_path / "out"), "--jobs", "1", "--scale", "less"]) == 0
    assert "Nothing is left to do" in capsys.readouterr().err


def test_a_plan_lists_what_is_left_and_runs_nothing(spec, tmp_path, capsys):
    out = tmp_path / "out"
    main(["run", spec, "--out", str(out), "--jobs", "1", "--scale", "less"])
    before = sorted(out.rglob("*"))
    capsys.readouterr()
    assert main(["plan", spec, "--out", str(out)]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  Synthetic, setting 2: 2 draws, 2 of 4 runs left (global, bayes)",
        "1 draw, 2 runs of a method; 2 of 4 are finished and stay.",
    ]
    assert sorted(out.rglob("*")) == before


def test_bad_input_is_one_line_and_code_2(tmp_path, capsys):
    assert main(["run", "nothing.toml", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_the_data_files_the_rest_runs_and_one_sentence_says_what_to_do(
    spec, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with open(spec, "a") as file:
        file.write('[[data]]\nkind = "acs"\nname = "income"\ntask = "income"\npath = "persons.parquet"\n')
    assert main(["run", spec, "--out", "out", "--jobs", "1", "--scale", "less"]) == 0
    said = capsys.readouterr().err.splitlines()
    (sentence,) = (line for line in said if "income" in line)
    assert sentence.startswith("Not run: income (persons.parquet is not there). Name the folder")
    assert any(line.startswith("2 run, 0 failed") for line in said)
    assert main(["run", spec, "--data", "nowhere", "--out", "out", "--scale", "less"]) == 0
    capsys.readouterr()
    assert main(["prepare", spec, "--out", "tables"]) == 0
    assert capsys.readouterr().err.startswith("Not run: income")
    only = tmp_path / "only.toml"
    only.write_text(
        'name = "only"\ntitle = "only"\nmethods = ["global"]\n'
        '[[data]]\nkind = "acs"\nname = "income"\ntask = "income"\npath = "persons.parquet"\n'
    )
    assert main([str(only)]) == 2
    assert "--data" in capsys.readouterr().err.splitlines()[-1]


def test_fetching_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    file = tmp_path / "2018" / "1-Year" / "psam_p01.csv"
    monkeypatch.setattr("paper.reproduce.download_persons", lambda **_: [file])
    assert main(["fetch", "--out", str(tmp_path), "--states", "AL"]) == 0
    assert capsys.readouterr().err == f"1 file. Next: python -m paper paper --data {file.parent}\n"


def test_python_m_paper_is_the_same_command_line(spec, tmp_path):
    def typed(*arguments):
        command = [sys.executable, "-m", "paper", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    main(["run", spec, "--out", str(tmp_path / "called"), "--jobs", "1"])
    assert typed(spec, "--out", tmp_path / "typed", "--jobs", "1").returncode == 0
    one, other = (
        [r for r in read_csv(tmp_path / d / "results.csv") if r["metric"] in ("auc", "log_loss")]
        for d in ("called", "typed")
    )
    assert one == other
    assert len(one) == 8
    wrong = typed("nothing.toml")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "usage: python -m paper" in typed("--help").stdout


def test_combine_makes_lost_tables_again(spec, tmp_path):
    out = tmp_path / "out"
    main(["run", spec, "--out", str(out), "--jobs", "1"])
    before = (out / "results.csv").read_bytes()
    (out / "results.csv").unlink()
    assert main(["combine", str(out)]) == 0
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
from paper.reproduce import main
sys.exit(main(["run", {spec!r}, "--out", {str(tmp_path / "bare")!r}, "--jobs", "1"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "4 run, 0 failed" in done.stderr
