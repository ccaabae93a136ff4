"""Resuming: the same rows however often a run is killed; runs of other code, settings or data are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import groupshift
import paper
from paper import list_tasks, load_experiment, origin, reproduce, run_experiment
from paper.origin import SOURCES, source_hash
from paper.results import load_results
from paper.store import Store, read_csv, read_part
from tiny_experiments import measured, tiny

ROOT, SOURCE = Path(paper.__file__).parents[1], Path(groupshift.__file__).parents[1]


def python_path(*folders):
    return os.pathsep.join(map(str, folders))


def test_a_second_run_does_nothing_and_changes_nothing(tmp_path):
    experiment = tiny()
    run_experiment(experiment, tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").rglob("*.jsonl")}
    tables = (tmp_path / "results.csv").read_bytes()
    assert run_experiment(experiment, tmp_path).ran == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").rglob("*.jsonl")} == before
    assert (tmp_path / "results.csv").read_bytes() == tables


def test_a_grid_that_grows_keeps_what_is_finished(tmp_path):
    run_experiment(tiny(methods=["global"]), tmp_path)
    summary = run_experiment(tiny(methods=["global", "label_shift"], repetitions=2), tmp_path)
    assert summary.ran == 3


def test_other_settings_of_a_method_are_another_task(tmp_path):
    one, other = (
        list_tasks(tiny(methods=[{"name": "label_shift", "params": {"labeled_prior": p}}]))[0]
        for p in ("share", "posterior")
    )
    assert one.draw == other.draw
    assert Store(tmp_path).part(one) != Store(tmp_path).part(other)


def test_a_cut_part_does_not_count(tmp_path):
    experiment = tiny(methods=["global"])
    run_experiment(experiment, tmp_path)
    (part,) = (tmp_path / "parts").rglob("*.jsonl")
    whole = part.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    assert read_part(part) is None
    assert run_experiment(experiment, tmp_path).ran == 1
    assert read_part(part) is not None


def test_what_a_killed_run_was_writing_is_swept_away(tmp_path):
    experiment = tiny(methods=["bayes"])
    run_experiment(experiment, tmp_path)
    (part,) = (tmp_path / "parts").rglob("*.jsonl")
    left = part.with_name(f".{part.name}.99.tmp")
    left.write_bytes(b"half")
    assert run_experiment(experiment, tmp_path).ran == 0
    assert not left.exists()
    assert part.exists()


def test_two_runs_do_not_share_a_folder(tmp_path):
    with Store(tmp_path).lock(), pytest.raises(BlockingIOError, match="Another run"):
        run_experiment(tiny(), tmp_path)


# Python runs this file when it starts, in the workers too: the third time that a process is about to give a file its
# name, everything is killed.
KILLER = """
import os, signal, stat

calls, fsync = [], os.fsync

def killing(descriptor):
    fsync(descriptor)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        calls.append(descriptor)
    if len(calls) == 3:
        os.killpg(os.getpgrp(), signal.SIGKILL)

os.fsync = killing
"""


def test_killed_for_real_it_resumes_and_ends_with_the_same_rows(tmp_path):
    """SIGKILL to the run and its workers at the worst moment: a part is complete and has no name yet."""
    spec = tmp_path / "killed.toml"
    spec.write_text(
        'name = "killed"\ntitle = "killed"\nrepetitions = 2\nseed = 5\n'
        'methods = ["global", "label_shift", "published", "bayes"]\n'
        '[classifier]\nname = "forest"\nn_estimators = 5\n'
        '[[data]]\nkind = "synthetic"\ndimensions = [2]\nclusters = [2]\nsettings = [1, 2]\ngroups = 6\n'
        "labeled_per_group = [60, 4]\nunlabeled_per_group = [150, 10]\n"
    )
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    out, parts = tmp_path / "out", tmp_path / "out" / "parts"
    command = [sys.executable, "-m", "paper", "run", spec, "--out", out, "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path / "killer", SOURCE)}
    killed = subprocess.run(
        list(map(str, command)), env=environment, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL
    )
    assert killed.returncode == -signal.SIGKILL

    written = {path: path.stat().st_mtime_ns for path in parts.rglob("[!.]*.jsonl")}
    # One process has finished two; the other one two at most.
    assert 2 <= len(written) <= 4
    assert all(read_part(path) is not None for path in written)
    assert not (out / "results.csv").exists()
    assert run_experiment(load_experiment(spec), out).ran == 16 - len(written)
    # What was finished before is as it was: neither lost nor run again.
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in written.items())
    assert {r["status"] for r in read_csv(out / "runs.csv")} == {"ok"}
    run_experiment(load_experiment(spec), tmp_path / "undisturbed")
    assert measured(out) == measured(tmp_path / "undisturbed")
    assert len(measured(out)) > 16 * 10


def test_versions_and_fingerprint_stand_in_every_part(tmp_path):
    run_experiment(tiny(methods=["bayes"]), tmp_path)
    (part,) = (tmp_path / "parts").rglob("*.jsonl")
    line = json.loads(part.read_text().splitlines()[0])
    assert line["versions"]["numpy"] == np.__version__
    assert line["versions"]["source"] == source_hash(*SOURCES)
    assert line["fingerprint"] in part.name


def run_with_code(source, spec, *folders):
    """Exit codes of the command line for each folder, and what it said; in a process with the package that lies in `source`."""
    code = (
        "import sys; from paper.reproduce import main\n"
        "spec, *folders = sys.argv[1:]\n"
        "print(*(main(['run', spec, '--out', out, '--jobs', '1']) for out in folders))"
    )
    command = [sys.executable, "-c", code, *map(str, (spec, *folders))]
    environment = {**os.environ, "PYTHONPATH": python_path(source, ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(found) for found in done.stdout.split()], done.stderr


def test_runs_of_other_code_are_refused_and_not_taken_for_finished(tmp_path):
    """Before and after a change, into one folder: the second run used to find everything done."""
    spec, out, source = tmp_path / "code.toml", tmp_path / "out", tmp_path / "source"
    spec.write_text(
        'name = "code"\ntitle = "code"\nrepetitions = 1\nmethods = ["bayes"]\n'
        '[[data]]\nkind = "synthetic"\ndimensions = [1]\nclusters = [1]\nsettings = [1]\ngroups = 3\n'
        "labeled_per_group = [20, 1]\nunlabeled_per_group = [30, 1]\n"
    )
    shutil.copytree(SOURCE / "groupshift", source / "groupshift")
    # The same code resumes, wherever it lies.
    assert [reproduce.main(["run", str(spec), "--out", str(out), "--jobs", "1"]) for _ in range(2)] == [0, 0]
    before = (out / "results.csv").read_bytes()

    changed = source / "groupshift" / "metrics.py"
    changed.write_text(changed.read_text() + "\n# Another way to count.\n")
    codes, said = run_with_code(source, spec, out, tmp_path / "elsewhere")
    assert codes == [2, 0]
    (sentence,) = (line for line in said.splitlines() if "holds runs" in line)
    assert "source was" in sentence
    assert "another --out" in sentence
    assert (out / "results.csv").read_bytes() == before


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


def test_other_settings_of_what_is_finished_are_refused(tmp_path):
    run_experiment(tiny(methods=["global"]), tmp_path)
    for change, sentence in (
        (
            {"classifier": {"name": "forest", "n_estimators": 6}},
            "classifier.params.n_estimators was 5 and is 6",
        ),
        ({"seed": 4}, "seed was 3 and is 4"),
    ):
        with pytest.raises(ValueError, match=sentence):
            run_experiment(tiny(methods=["global"], **change), tmp_path)
    assert len(list((tmp_path / "parts").rglob("*.jsonl"))) == 1


def test_another_table_under_the_same_name_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    data = [{"kind": "reviews", "name": "amazon", "path": "reviews.npz", "settings": ["natural"]}]

    def experiment(folder, n_rows):
        folder.mkdir()
        X, y = rng.normal(size=(n_rows, 2)), np.arange(n_rows) % 2
        np.savez(folder / "reviews.npz", embedding=X, label=y, category=np.arange(n_rows) % 6)
        table = {"name": "t", "title": "t", "methods": ["global"], "repetitions": 1, "data": data}
        return load_experiment(
            {**table, "classifier": {"name": "forest", "n_estimators": 3}}, data_dir=folder
        )

    run_experiment(experiment(tmp_path / "one", 120), tmp_path / "out")
    with pytest.raises(ValueError, match=r"table\.amazon\.rows was 120 and is 90"):
        run_experiment(experiment(tmp_path / "two", 90), tmp_path / "out")


def test_what_ran_where_and_with_what_stands_in_the_folder(tmp_path):
    run_experiment(tiny(methods=["bayes"]), tmp_path)
    found = json.loads((tmp_path / "experiment.json").read_text())["origin"]
    wanted = {
        "source",
        "commit",
        "groupshift",
        "python",
        "numpy",
        "scipy",
        "scikit-learn",
        "machine",
        "cores",
    }
    assert wanted <= set(found)
    assert found["groupshift"] == groupshift.__version__


def test_results_are_read_as_they_are_after_the_code_has_changed(tmp_path, monkeypatch):
    run_experiment(tiny(methods=["bayes"]), tmp_path)
    before = (tmp_path / "results.csv").read_bytes()
    changed = {**origin.deciding_origin(), "source": "other"}
    monkeypatch.setattr("paper.grid.deciding_origin", lambda: changed)
    assert load_results(tmp_path).values
    assert (tmp_path / "results.csv").read_bytes() == before
