"""Processes that help with a large fit: counted, killed and interrupted; answers are the same bits with and without them."""

import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from groupshift._fit.classifiers import TrainingSet, grows_in_python
from joblib import Parallel, delayed, parallel_config
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from elsewhere import (
    deadly_elsewhere,
    get_ready,
    has_helpers,
    long_elsewhere,
    refuse_after_a_while,
    square,
    warn,
    where_after_a_while,
)
from groupshift import GroupShiftClassifier
from groupshift._rows import helpers
from groupshift._rows import workers as spread
from groupshift._rows.progress import listen
from groupshift._rows.rows import Rows
from groupshift._rows.workers import at_once, each_in_python, even_unconverged, n_workers, workers

HERE = os.getpid()
LARGE = spread.FEWEST_NUMBERS

# Without `if __name__ == "__main__"`: processes that read this file would start processes themselves.
COUNTED = """
import os, threading, time
from pathlib import Path
from sklearn.ensemble import HistGradientBoostingClassifier
from groupshift import GroupShiftClassifier
from groupshift._rows import workers
from groupshift.datasets import make_grouped_mixture

def helpers():
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent, command = int(stat(process)[1]), (process / "cmdline").read_bytes()
        except OSError:
            continue
        # One more process only sees to it that nothing is left behind when this one is killed.
        found += [process] * (parent == os.getpid() and b"resource_tracker" not in command)
    return found

def stat(process):
    return (process / "stat").read_text().rpartition(")")[2].split()

def ticks():
    return sum(int(time) for process in helpers() for time in stat(process)[11:13])

sample = make_grouped_mixture(n_features=4, n_clusters=2, n_groups=12, labeled_per_group=(60, 5),
                              unlabeled_per_group=(60, 5), counts="binomial", random_state=3)
X, y, groups, _ = sample.training()
few_trees = HistGradientBoostingClassifier(max_iter=5)
settings = {"partition": 2, "trust": 1.0, "refine": 0, "random_state": 0}
model = GroupShiftClassifier(few_trees, n_jobs=3, **settings).fit(X, y, groups=groups)
model.predict_proba(X, groups)
print(len(helpers()))
workers.FEWEST_NUMBERS = 0
most, running = 0, True
def watch():
    global most
    while running:
        most = max(most, len(helpers()))
        # Whoever was started stays: looking more often would take longer than what is watched.
        time.sleep(0.05)
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(2):
    model.fit(X, y, groups=groups)
running = False
watcher.join()
print(most)
rest = 100
for _ in range(30):
    # The second may only now have started.
    before = ticks()
    time.sleep(1)
    rest = min(rest, ticks() - before)
    if rest <= 1:
        break
print(rest)
"""


@pytest.fixture
def helped(monkeypatch):
    """A block of a large fit on two workers, once the second one is there."""
    monkeypatch.setattr(helpers, "_get_ready", get_ready)
    with workers(2, LARGE):
        spread._helpers.get().ready.result()
        yield


def test_this_process_and_another_share_the_work(helped):
    found = list(each_in_python(where_after_a_while, range(6)))
    assert len(set(found)) == 2
    assert HERE in found


def test_results_come_in_the_order_of_the_items(helped):
    assert list(each_in_python(square, range(20))) == [i**2 for i in range(20)]


def test_what_numpy_does_stays_in_this_process(helped):
    assert set(at_once(where_after_a_while, range(4))) == {HERE}


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts processes as Linux lists them")
def test_small_fits_start_no_process_and_large_ones_no_more_than_jobs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(COUNTED)
    environment = {**os.environ, "OMP_NUM_THREADS": "8"}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    small, large, ticks_at_rest = map(int, done.stdout.split())
    assert small == 0
    # The process that fits is the third.
    assert large == 2
    # Hundredths of a second of processor time in one second.
    assert ticks_at_rest <= 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"estimator": HistGradientBoostingClassifier(max_iter=5), "refine": 1},
        {
            "estimator": make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=5)),
            "per_cluster": True,
            "partition": 3,
        },
    ],
)
def test_processes_give_the_same_bits(rows, settings, monkeypatch):
    monkeypatch.setattr(spread, "FEWEST_NUMBERS", 0)
    X, y, groups = rows
    found = []
    for n_jobs in (1, 2):
        model = GroupShiftClassifier(n_jobs=n_jobs, random_state=0, **settings).fit(X, y, groups=groups)
        found.append((model.predict_proba(X, groups), model.shift_, model.share_error_, model.notes_))
    for one, same in zip(*found, strict=True):
        np.testing.assert_array_equal(one, same)


def test_the_default_classifier_gives_the_same_bits(rows, monkeypatch, few_trees):
    X, y, groups = rows
    one = GroupShiftClassifier(n_jobs=1, random_state=0).fit(X, y, groups=groups)
    monkeypatch.setattr(spread, "FEWEST_NUMBERS", 0)
    heard = []
    with listen(heard.append):
        more = GroupShiftClassifier(n_jobs=3, random_state=0).fit(X, y, groups=groups)
    np.testing.assert_array_equal(more.predict_proba(X, groups), one.predict_proba(X, groups))
    assert more.notes_ == one.notes_
    # Of five folds on three workers the last would be left over: it is trained beside the first, which has two fits.
    assert "training the classifier: 3 of 3 fits" in heard


def test_a_killed_process_is_not_missed(helped):
    assert list(each_in_python(deadly_elsewhere, range(4))) == [HERE] * 4
    # And the next fit has new ones.
    with workers(2, LARGE):
        spread._helpers.get().ready.result()
        assert len(set(each_in_python(where_after_a_while, range(6)))) == 2


def test_what_cannot_travel_stays_here(helped):
    lock = threading.Lock()

    def locked(_):
        with lock:
            return os.getpid()

    assert set(each_in_python(locked, range(4))) == {HERE}


def test_an_error_says_where_it_was_raised(helped):
    with pytest.raises(ValueError, match="0 is not wanted") as raised:
        list(each_in_python(refuse_after_a_while, range(4)))
    assert raised.traceback[-1].name == "refuse_after_a_while"


def test_warnings_of_a_process_are_heard_here_under_the_filters_here(helped):
    with pytest.warns(ConvergenceWarning, match="not there yet") as heard:
        list(each_in_python(warn, range(4)))
    assert len(heard) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(each_in_python(warn, range(4)))
    with pytest.raises(ConvergenceWarning):
        list(each_in_python(warn, range(4)))


def test_work_that_nobody_waits_for_is_ended(helped):
    executor = spread._helpers.get().executor
    results = each_in_python(long_elsewhere, range(4))
    with pytest.raises(KeyboardInterrupt):
        next(results)
    with pytest.raises(RuntimeError):
        executor.submit(square, 1)
    assert helpers._pool.executor is None


def test_a_backend_that_the_user_chose_is_kept_to():
    for backend in ("threading", "loky", "sequential"):
        with parallel_config(backend, n_jobs=2), workers(None, LARGE):
            assert spread._helpers.get() is None
    with parallel_config(n_jobs=2), workers(None, LARGE):
        assert n_workers(is_python=True) == 2


def test_a_worker_of_joblib_starts_no_processes():
    for parallel in (Parallel(2, prefer="threads"), Parallel(2)):
        assert not any(parallel(delayed(has_helpers)() for _ in range(2)))


def test_a_process_that_may_have_no_children_does_all_by_itself():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert not pool.apply(has_helpers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_helpers_of_its_own(helped):
    child = os.fork()
    if not child:
        os._exit(int(helpers._pool.executor is not None))
    assert os.waitpid(child, 0)[1] == 0


def test_where_no_process_can_be_started_a_fit_is_done_here(monkeypatch):
    def none(*args, **kwargs):
        raise OSError("no semaphores")

    monkeypatch.setattr("joblib.externals.loky.ProcessPoolExecutor", none)
    monkeypatch.setattr(helpers, "_pool", helpers._Pool())
    monkeypatch.setattr(spread, "start_helpers", helpers._pool.start)
    with workers(2, LARGE):
        assert set(each_in_python(where_after_a_while, range(2))) == {HERE}


def test_only_boosted_trees_of_scikit_learn_are_grown_elsewhere():
    boosted = HistGradientBoostingClassifier()
    assert grows_in_python(boosted)
    assert grows_in_python(make_pipeline(StandardScaler(), boosted))

    class Own(HistGradientBoostingClassifier):
        pass

    class Step(FunctionTransformer):
        pass

    for other in (Own(), RandomForestClassifier(), LogisticRegression(), make_pipeline(Step(), boosted)):
        assert not grows_in_python(other)


def test_a_set_travels_with_its_own_rows_alone():
    import pickle

    n = 10_000
    matrix = np.arange(2.0 * n).reshape(n, 2)
    rows = Rows(matrix, matrix, np.zeros(n, np.int64), np.ones(n), np.arange(n, dtype=np.uint64))
    own = np.array([3, 5, 8])
    sent = pickle.dumps(TrainingSet(((rows, own),), np.array([0, 1, 0])))
    assert len(sent) < 2_000
    (part, numbers), *none = pickle.loads(sent).parts
    assert not none
    np.testing.assert_array_equal(part.features[numbers], matrix[own])


def test_a_filter_of_two_threads_is_gone_with_the_last_of_them():
    before, inside, may_go = list(warnings.filters), threading.Event(), threading.Event()

    def second():
        with even_unconverged():
            inside.set()
            may_go.wait()
            warnings.warn("no matter", ConvergenceWarning, stacklevel=1)

    thread = threading.Thread(target=second)
    with even_unconverged():
        thread.start()
        inside.wait()
    # The first has gone, the second is still inside.
    may_go.set()
    thread.join()
    assert warnings.filters == before


def test_filters_of_warnings_are_as_before_after_a_fit_on_threads(rows):
    X, y, groups = rows
    before = list(warnings.filters)
    for estimator in (LogisticRegression(), RandomForestClassifier(5)):
        GroupShiftClassifier(estimator, n_jobs=4, random_state=0).fit(X, y, groups=groups)
        assert warnings.filters == before


def test_a_call_that_fails_is_closed_at_once_and_not_when_its_traceback_is_forgotten(monkeypatch):
    closed = []

    def outcomes(*_):
        try:
            yield None, ValueError("the item")
            yield None, None
        finally:
            closed.append(True)

    monkeypatch.setattr(spread, "helped", outcomes)
    monkeypatch.setattr(spread, "n_workers", lambda **_: 2)
    token = spread._helpers.set(SimpleNamespace(n=1))
    try:
        with pytest.raises(ValueError, match="the item") as kept:
            list(spread.at_once(len, ["a", "b"], is_python=True))
    finally:
        spread._helpers.reset(token)
    assert kept.value.__traceback__ is not None
    assert closed == [True]


def test_a_process_of_the_users_starts_none_of_ours(monkeypatch):
    monkeypatch.setattr(helpers, "parent_process", lambda: SimpleNamespace(name="MainProcess"))
    assert helpers.start_helpers(1) is None
