"""Running the article's experiments: one row for each metric, stopped or not; failures are holes, not ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paper import list_tasks, load_experiment, run_experiment
from paper.methods import forget, run_method
from paper.origin import SOURCES, deciding_origin, source_hash
from paper.reproduce import main
from paper.results import load_results

ROOT = Path(__file__).parents[1]
SPEC = """
name = "tiny"
title = "A tiny experiment"
seed = 3
repetitions = 2
methods = ["global", "label_shift", "cluster_global", "published", "bayes"]
classifier = { n_estimators = 5, max_depth = 4 }
[[data]]
kind = "synthetic"
dimensions = [2]
clusters = [2]
settings = [2]
groups = 6
labeled_per_group = [60, 4]
unlabeled_per_group = [100, 10]
[scales.less]
repetitions = 1
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(SPEC)
    return str(path)


@pytest.fixture
def tiny(spec):
    return load_experiment(spec)


def results(folder):
    return (Path(folder) / "results.csv").read_bytes()


def test_every_method_has_a_row_for_each_metric_of_each_draw(tiny, tmp_path):
    seen = []
    ended = run_experiment(tiny, tmp_path / "out", on_progress=seen.append)
    assert (ended.done, ended.total, ended.failed) == (10, 10, 0)
    assert [progress.done for progress in seen] == [5, 10]
    found = load_results(tmp_path / "out")
    place = ("synthetic", "2", "2", "2")
    for method in ("global", "label_shift", "cluster_global", "published", "bayes"):
        assert {*found.of(place, method)} == {*found.of(place, method, "log_loss")} == {0, 1}
    assert set(found.of(place, "published", "true_clusters").values()) == {2.0}


def test_the_limit_is_the_best_in_log_loss(tiny, tmp_path):
    run_experiment(tiny, tmp_path / "out")
    found = load_results(tmp_path / "out")
    loss = {m: found.mean(found.places[0], m, "log_loss").value for m in found.methods}
    assert min(loss, key=loss.get) == "bayes"


def test_what_methods_share_changes_no_number(tiny):
    tasks = list_tasks(tiny)[:5]
    sample = tasks[0].draw.sample()
    forget()
    shared = [run_method(tiny, task, sample)[0] for task in tasks]
    for task, found in zip(tasks, shared, strict=True):
        forget()
        assert run_method(tiny, task, sample)[0] == found


def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_table(tiny, spec, tmp_path):
    run_experiment(tiny, tmp_path / "undisturbed")

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny, tmp_path / "out", on_progress=stop)
    log = tmp_path / "out" / "runs.jsonl"
    finished = log.read_text().splitlines()
    assert len(finished) == 5
    # What a killed process was writing.
    log.write_text(log.read_text() + '{"labels": ["synth')
    assert run_experiment(tiny, tmp_path / "out").done == 10
    assert log.read_text().splitlines()[:5] == finished
    assert results(tmp_path / "out") == results(tmp_path / "undisturbed")
    assert run_experiment(tiny, tmp_path / "out").done == 10
    assert len(log.read_text().splitlines()) == 10


def test_a_grid_that_grows_keeps_what_is_finished(spec, tmp_path):
    run_experiment(load_experiment(spec, scale="less"), tmp_path / "out")
    run_experiment(load_experiment(spec), tmp_path / "out")
    assert len((tmp_path / "out" / "runs.jsonl").read_text().splitlines()) == 10


def test_runs_of_other_code_or_settings_are_refused(tiny, spec, tmp_path, monkeypatch):
    out = tmp_path / "out"
    run_experiment(load_experiment(spec, scale="less"), out)
    before = results(out)
    other = load_experiment({**tiny.to_dict(), "classifier": {"n_estimators": 6}})
    with pytest.raises(ValueError, match=r"the settings of synthetic, 2, 2, 2, 0, global.*another --out"):
        run_experiment(other, out)
    monkeypatch.setattr("paper.run.deciding_origin", lambda: {**deciding_origin(), "source": "other"})
    with pytest.raises(ValueError, match=r"source was .* and is other"):
        run_experiment(tiny, out)
    assert results(out) == before


def test_the_code_that_ran_stands_in_the_folder(tiny, tmp_path):
    run_experiment(tiny, tmp_path / "out")
    described = json.loads((tmp_path / "out" / "experiment.json").read_text())
    assert described["origin"]["source"] == source_hash(*SOURCES)
    assert {"commit", "numpy", "scikit-learn", "python", "machine"} <= set(described["origin"])


def test_the_hash_of_the_source_follows_names_and_contents_and_nothing_else(tmp_path):
    def package(name, files):
        for path, text in files:
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return source_hash(tmp_path / name)

    files = [("a.py", "x = 1"), ("inner/b.py", "y = 2"), ("c.py", "")]
    one = package("one", files)
    assert package("reversed", files[::-1]) == one
    assert package("with_others", [*files, ("data.csv", "1,2"), ("inner/notes.txt", "")]) == one
    assert package("content", [("a.py", "x = 2"), *files[1:]]) != one
    assert package("moved", [("inner/a.py", "x = 1"), *files[1:]]) != one
    assert package("boundary", [("a.py", "x = 1y = 2"), ("inner/b.py", ""), ("c.py", "")]) != one


def test_a_method_that_fails_is_a_hole_that_the_next_run_fills(tiny, tmp_path, monkeypatch):
    def broken(*args):
        raise RuntimeError("tea leaves")

    with monkeypatch.context() as patch:
        patch.setattr("paper.run.run_method", broken)
        assert run_experiment(tiny, tmp_path / "out").failed == 10
    assert "tea leaves" in (tmp_path / "out" / "runs.jsonl").read_text()
    assert run_experiment(tiny, tmp_path / "out").failed == 0
    assert len(load_results(tmp_path / "out").places) == 1


def test_a_draw_that_cannot_be_made_is_a_hole_for_each_of_its_methods(tiny, tmp_path):
    data = [{"kind": "synthetic", "dimensions": [0], "clusters": [1], "settings": [1]}]
    impossible = load_experiment({**tiny.to_dict(), "data": data, "repetitions": 1})
    assert run_experiment(impossible, tmp_path / "out").failed == 5


def test_missing_files_are_named_and_the_rest_is_run(spec, tmp_path, capsys):
    with open(spec, "a") as file:
        file.write('[[data]]\nkind = "acs"\nname = "income"\ntask = "income"\npath = "persons.parquet"\n')
    with pytest.raises(FileNotFoundError, match=r"persons\.parquet"):
        run_experiment(load_experiment(spec), tmp_path / "out")
    asked = ["run", spec, "--out", str(tmp_path / "out"), "--jobs", "1", "--scale", "less"]
    assert main([*asked, "--data", "nowhere"]) == 0
    said = capsys.readouterr().err
    assert "Not run: income (nowhere/persons.parquet is not there). Name the folder" in said
    assert "5 of 5 runs finished, 0 failed" in said


def test_the_command_line_runs_reports_and_refuses_in_one_line(spec, tmp_path):
    def typed(*arguments):
        command = [sys.executable, "-m", "paper", *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    out = tmp_path / "out"
    done = typed("run", spec, "--out", out, "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert f"python -m paper report {out}" in done.stderr
    run_experiment(load_experiment(spec), tmp_path / "called")
    assert results(out) == results(tmp_path / "called")
    wrong = typed("run", "nothing.toml")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("step", ["load_experiment", "run_experiment"])
def test_ctrl_c_is_exit_code_130(step, spec, tmp_path, monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"paper.reproduce.{step}", stopped)
    assert main(["run", spec, "--out", str(tmp_path)]) == 130
    assert "Stopped" in capsys.readouterr().err


def test_fetching_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    file = tmp_path / "2018" / "1-Year" / "psam_p01.csv"
    monkeypatch.setattr("paper.reproduce.download_persons", lambda **_: [file])
    assert main(["fetch", "--out", str(tmp_path), "--states", "AL"]) == 0
    assert capsys.readouterr().err == f"1 files. Next: python -m paper run paper --data {file.parent}\n"
