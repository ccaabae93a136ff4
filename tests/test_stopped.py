"""Stopped, killed and crowded: exit codes tell, nothing half-written stays, and no worker goes on alone."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from paper import reproduce
from paper.store import Store


def stopped(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["load_experiment", "run_experiment"])
def test_ctrl_c_in_an_experiment_is_exit_code_130(step, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, step, stopped)
    assert reproduce.main(["paper", "--scale", "small", "--out", str(tmp_path)]) == 130
    assert "Stopped" in capsys.readouterr().err


def test_a_folder_that_another_run_holds_is_one_sentence(tmp_path, capsys):
    with Store(tmp_path).lock():
        assert reproduce.main(["paper", "--scale", "small", "--out", str(tmp_path)]) == 2
    assert "Another run is writing to" in capsys.readouterr().err


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path):
    (tmp_path / "parts" / "a").mkdir(parents=True)
    left = [tmp_path / ".results.csv.4194305.new", tmp_path / "parts" / "a" / ".b.jsonl.4194305.new"]
    for path in left:
        path.write_text("")
    with Store(tmp_path).lock():
        assert not any(path.exists() for path in left)


@pytest.mark.skipif(sys.platform == "win32", reason="processes have no parents to ask for on Windows")
def test_a_worker_ends_with_the_process_that_holds_the_lock(tmp_path):
    worker = (
        "import os, sys, time; from paper.run import _end_with\n"
        "_end_with(os.getppid()); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]]); time.sleep(60)"
    )
    said = tmp_path / "worker"
    process = subprocess.Popen([sys.executable, "-c", parent, worker, str(said)])
    wait_for(lambda: said.is_file() and said.read_text(), 60)
    number = int(said.read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not is_running(number), 20)


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process):
    try:
        # A process that nobody has waited for yet has ended all the same.
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_predicting_while_another_thread_updates_gives_old_answers_or_new_ones(rows, quick):
    X, y, groups = rows
    model = quick(partition=1, trust=1.0, refine=0).fit(X, y, groups=groups)
    unlabeled = np.flatnonzero(y < 0)
    # Two populations of other groups and other shares: an answer that mixes them would show.
    half = unlabeled[np.isin(groups[unlabeled], np.unique(groups)[:6])]
    worlds = [(X[unlabeled], groups[unlabeled]), (X[half] + 1.0, groups[half])]
    asked = X[half], groups[half]
    expected = []
    for world in worlds:
        model.update(*world)
        expected.append(model.predict_details(*asked))
    assert np.abs(expected[0]["probability"] - expected[1]["probability"]).max() > 0.01
    done = threading.Event()

    def update():
        for i in range(8):
            model.update(*worlds[i % 2])
        done.set()

    thread = threading.Thread(target=update)
    thread.start()
    n_seen = 0
    while not done.is_set():
        found = model.predict_details(*asked)
        n_seen += 1
        assert any(
            all(np.array_equal(found[name], known[name]) for name in ("probability", "low", "high"))
            for known in expected
        )
    thread.join()
    assert n_seen > 1


@pytest.mark.parametrize("scale", [1e-300, 1e155, 1e300])
def test_weights_that_cannot_be_summed_are_refused(rows, quick, scale):
    X, y, groups = rows
    with pytest.raises(ValueError, match="divide all weights by one number"):
        quick().fit(X, y, groups=groups, sample_weight=np.full(len(y), scale))


@pytest.mark.parametrize("scale", [1e-99, 1e99])
def test_the_unit_of_weights_does_not_matter(rows, quick, scale):
    X, y, groups = rows
    weight = 1.0 + np.arange(len(y)) % 3
    one, other = (
        quick().fit(X, y, groups=groups, sample_weight=w).predict_proba(X, groups)
        for w in (weight, weight * scale)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_time_to_predict_grows_with_the_groups_and_not_with_their_square(tmp_path):
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    pytest.importorskip("skops")
    pa = pytest.importorskip("pyarrow")
    from sklearn.linear_model import LogisticRegression

    from groupshift import GroupShiftClassifier, save
    from groupshift._io.files import write_table
    from groupshift.cli.errors import run

    seconds = {}
    for n in (2_000, 20_000):
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 2, n + 400)
        x = truth + rng.normal(size=n + 400)
        groups = np.array([f"group {i}" for i in range(n)] + ["group 0"] * 400)
        y = np.where(np.arange(n + 400) < n, -1, truth)
        model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, trust=1.0, random_state=0)
        save(model.fit(x[:, None], y, groups=groups), tmp_path / f"{n}.gshift")
        write_table(pa.table({"x0": x, "g": groups}), tmp_path / f"{n}.csv")
        start = time.perf_counter()
        command = ["predict", f"{tmp_path}/{n}.gshift", f"{tmp_path}/{n}.csv", "--group", "g"]
        assert run([*command, "-o", f"{tmp_path}/{n}.out.csv"]) == 0
        seconds[n] = time.perf_counter() - start
    # Ten times the groups and rows; by the square it would be a hundred times as long.
    assert seconds[20_000] < 40 * max(seconds[2_000], 0.05)
    assert os.path.getsize(tmp_path / "20000.out.csv") > 0
