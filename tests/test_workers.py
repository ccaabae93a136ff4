"""Threads while fitting and predicting: counted, not timed, so that a busy machine changes nothing."""

import os
import subprocess
import sys
import threading
import traceback
from typing import ClassVar

import numpy as np
import pytest
import sklearn
from joblib import Parallel, delayed, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from conftest import make_quick
from groupshift import METHODS, GroupShiftClassifier
from groupshift._data.workers import at_once, map_chunks, n_workers, workers

# Fits with the defaults of the library where OpenMP would take eight threads, and counts the threads that it starts.
COUNTED = """
import os, threading, time, warnings
import numpy as np
from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture
sample = make_grouped_mixture(n_features=4, n_clusters=2, n_groups=12, labeled_per_group=(60, 5),
                              unlabeled_per_group=(120, 20), counts="binomial", random_state=3)
X, y, groups, _ = sample.training()
before = len(os.listdir("/proc/self/task"))
most, running = before, True
def watch():
    # Threads that work are seen twice at least.
    global most
    last = set()
    while running:
        now = set(os.listdir("/proc/self/task"))
        most, last = max(most, len(now & last)), now
        time.sleep(0.001)
watcher = threading.Thread(target=watch)
watcher.start()
model = GroupShiftClassifier(random_state=0).fit(X, y, groups=groups)
model.predict_proba(X, groups)
model.update(X[y < 0], groups[y < 0])
running = False
watcher.join()
print(most - before - 1)
"""


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier that notes the threads it sees: those of each library, and those of us that are in `fit` at once."""

    seen: ClassVar[list[tuple[int, int]]] = []
    libraries: ClassVar[ThreadpoolController]
    lock = threading.Lock()
    inside = 0

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        with self.lock:
            Recorder.inside += 1
        self.note()
        self.classes_ = np.unique(y)
        self.model_ = LogisticRegression().fit(X, y, sample_weight)
        with self.lock:
            Recorder.inside -= 1
        return self

    def predict_proba(self, X):
        self.note()
        return self.model_.predict_proba(X)

    def note(self):
        most = max((library["num_threads"] for library in self.libraries.info()), default=1)
        with self.lock:
            Recorder.seen.append((most, Recorder.inside))


@pytest.fixture
def recorder():
    Recorder.seen, Recorder.inside = [], 0
    # Looked for once: that takes longer than a fit.
    Recorder.libraries = ThreadpoolController()
    # Two, where the suite says one: each thread of ours must set its own.
    with threadpool_limits(2):
        yield Recorder()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux lists them")
def test_a_default_fit_starts_no_thread_but_one_for_each_core():
    environment = {**os.environ, "OMP_NUM_THREADS": "8"}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], env=environment, capture_output=True, text=True, check=True
    )
    # joblib keeps three threads that wait for the others.
    assert int(done.stdout) <= os.cpu_count() + 3


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_libraries_have_one_thread_wherever_a_classifier_is_called(rows, recorder, n_jobs):
    X, y, groups = rows
    model = GroupShiftClassifier(recorder, n_jobs=n_jobs, random_state=0)
    model.fit(X, y, groups=groups)
    model.update(X[y < 0], groups[y < 0])
    model.predict_proba(X, groups)
    assert {most for most, _ in Recorder.seen} == {1}
    assert len(Recorder.libraries) == len(threadpool_info())
    assert max(inside for _, inside in Recorder.seen) <= n_jobs


class Waiting(LogisticRegression):
    """Says that its thread is in `fit`, and stays there until that is let go."""

    inside: ClassVar[dict[str, threading.Event]]
    may_go: ClassVar[dict[str, threading.Event]]

    def fit(self, X, y, sample_weight=None):
        name = threading.current_thread().name
        self.inside[name].set()
        assert self.may_go[name].wait(60)
        return super().fit(X, y, sample_weight)


def test_limits_are_as_before_after_two_fits_of_which_the_first_ends_first(rows, recorder):
    X, y, groups = rows
    Waiting.inside, Waiting.may_go = ({name: threading.Event() for name in "ab"} for _ in range(2))
    before = threadpool_info()
    threads = {
        name: threading.Thread(
            target=lambda: make_quick(estimator=Waiting(), n_jobs=1).fit(X, y, groups=groups), name=name
        )
        for name in "ab"
    }
    for name, thread in threads.items():
        thread.start()
        assert Waiting.inside[name].wait(60)
    for name, thread in threads.items():
        Waiting.may_go[name].set()
        thread.join()
    assert threadpool_info() == before
    # Some builds of BLAS count threads for each thread: here too.
    make_quick(n_jobs=2).fit(X, y, groups=groups)
    assert threadpool_info() == before


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        (
            {
                "estimator": HistGradientBoostingClassifier(max_iter=10),
            },
            [3],
        ),
        # How each of these is read, and by which number of workers, is the same for every classifier.
        ({"estimator": LogisticRegression(), "per_cluster": True, "partition": 3}, [2, -1, None]),
        ({"estimator": RandomForestClassifier(10, n_jobs=-1), "calibration": "holdout"}, [2]),
    ],
)
def test_any_number_of_jobs_gives_the_same_bits(rows, settings, others):
    X, y, groups = rows
    found = []
    for n_jobs in (1, *others):
        model = GroupShiftClassifier(n_jobs=n_jobs, random_state=0, **settings).fit(X, y, groups=groups)
        found.append((model.predict_proba(X, groups), model.shift_, model.share_error_))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


def test_coral_fits_its_groups_at_once_and_alike(rows):
    X, y, groups = rows
    one, two = (
        METHODS["coral"](LogisticRegression(), random_state=0, n_jobs=n).fit(X, y, groups) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X, groups), two.predict_proba(X, groups))


def test_no_jobs_named_is_what_the_environment_and_joblib_say(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("groupshift._data.workers.cpu_count", lambda: 6)
    with workers(None):
        assert n_workers() == 6
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        assert n_workers() == 4
        with parallel_config(n_jobs=3):
            assert n_workers() == 3
        # Inside a worker of joblib's, the cores have their work.
        assert set(Parallel(2, prefer="threads")(delayed(n_workers)() for _ in range(4))) == {1}
    with workers(5):
        assert n_workers() == 5


@pytest.mark.parametrize("spread", [at_once, map_chunks])
def test_a_worker_starts_no_workers(spread):
    with workers(3):
        assert set(spread(lambda _: n_workers(), range(6))) == {1}
        assert set(spread(_threads_of_a_forest, range(2))) == {1}


def _threads_of_a_forest(_):
    """Of joblib, for a classifier that asks for four."""
    found = Parallel(4, require="sharedmem")(delayed(threading.get_ident)() for _ in range(20))
    return len(set(found))


def test_workers_have_the_settings_of_scikit_learn(rows):
    with workers(2), sklearn.config_context(assume_finite=True):
        assert all(at_once(lambda _: sklearn.get_config()["assume_finite"], range(4)))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_a_worker_says_where_it_was_raised(n_jobs):
    def check(item):
        raise ValueError(f"{item} is not wanted")

    with workers(n_jobs), pytest.raises(ValueError, match="3 is not wanted") as raised:
        list(at_once(check, [3, 3, 3]))
    where = "".join(traceback.format_tb(raised.value.__traceback__)) + "".join(
        raised.value.__notes__ if n_jobs > 1 else []
    )
    assert "in check" in where


def test_processes_that_joblib_was_told_to_use_give_the_same_answer(rows):
    X, y, groups = rows
    with parallel_config("loky", n_jobs=2):
        elsewhere = make_quick().fit(X, y, groups=groups)
    here = make_quick(n_jobs=1).fit(X, y, groups=groups)
    np.testing.assert_array_equal(elsewhere.predict_proba(X, groups), here.predict_proba(X, groups))
