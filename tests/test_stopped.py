"""Crowded and extreme: threads that update and predict, weights of any unit, many groups."""

import os
import threading
import time

import numpy as np
import pytest


def test_predicting_while_another_thread_updates_gives_old_answers_or_new_ones(rows, quick):
    X, y, groups = rows
    model = quick(
        partition=1,
    ).fit(X, y, groups=groups)
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
    from groupshift.cli.errors import run
    from groupshift.tables.files import write_table

    seconds = {}
    for n in (2_000, 20_000):
        rng = np.random.default_rng(0)
        truth = rng.integers(0, 2, n + 400)
        x = truth + rng.normal(size=n + 400)
        groups = np.array([f"group {i}" for i in range(n)] + ["group 0"] * 400)
        y = np.where(np.arange(n + 400) < n, -1, truth)
        model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0)
        save(model.fit(x[:, None], y, groups=groups), tmp_path / f"{n}.gshift")
        write_table(pa.table({"x0": x, "g": groups}), tmp_path / f"{n}.csv")
        start = time.perf_counter()
        command = ["predict", f"{tmp_path}/{n}.gshift", f"{tmp_path}/{n}.csv", "--group", "g"]
        assert run([*command, "-o", f"{tmp_path}/{n}.out.csv"]) == 0
        seconds[n] = time.perf_counter() - start
    # Ten times the groups and rows; by the square it would be a hundred times as long.
    assert seconds[20_000] < 40 * max(seconds[2_000], 0.05)
    assert os.path.getsize(tmp_path / "20000.out.csv") > 0
