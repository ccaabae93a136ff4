"""Work that other processes of a fit begin before it is asked for: asked for late, not at all, or given up."""

import os
import time
from concurrent.futures import wait

import numpy as np
import pytest
from groupshift._fit.classifiers import TrainingSet

from elsewhere import asleep_elsewhere, get_ready, refuse, where, where_after_a_while
from groupshift import GroupShiftClassifier
from groupshift._fit import judge
from groupshift._rows import helpers
from groupshift._rows import workers as spread
from groupshift._rows.workers import ahead, at_once, both_ahead, each_in_python, workers
from groupshift.datasets import make_grouped_mixture

HERE = os.getpid()
LARGE = spread.FEWEST_NUMBERS


@pytest.fixture
def helped(monkeypatch):
    """A block of a large fit on two workers, once the second one is there."""
    monkeypatch.setattr(helpers, "_get_ready", get_ready)
    with workers(2, LARGE):
        spread._helpers.get().ready.result()
        yield spread._helpers.get()
        spread._helpers.get().end_work()


def wait_until_at_work():
    """Until an item has gone to the other process: before that it is taken back."""
    while not spread._helpers.get().given[0].running():
        time.sleep(0.01)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_without_other_processes_nothing_is_done_that_nobody_asks_for(n_jobs):
    done = []
    with workers(n_jobs), ahead(lambda item: done.append(item) or -item, [[1, 2], [3]]) as results:
        assert not done
        assert list(next(results)) == [-1, -2]
    assert sorted(done) == [1, 2]


def test_others_begin_before_anybody_asks(helped):
    with ahead(where, [[0]]) as results:
        assert list(next(results)) != [HERE]


def test_batches_come_in_their_order_and_this_process_works_too(helped):
    with ahead(where_after_a_while, [range(3), range(2)]) as results:
        found = [list(batch) for batch in results]
    assert [len(batch) for batch in found] == [3, 2]
    assert len({process for batch in found for process in batch}) == 2
    with ahead(abs, [[-1, -2, -3], [], [-4]]) as results:
        assert [list(batch) for batch in results] == [[1, 2, 3], [], [4]]


def test_what_was_called_first_is_served_first(helped):
    with ahead(where_after_a_while, [[0]]) as first, ahead(where_after_a_while, [[0, 1, 2]]) as second:
        assert HERE in list(next(second))
        assert list(next(first)) != [HERE]


def test_while_this_process_waits_it_works_on_what_others_have_not_begun(helped):
    with ahead(where_after_a_while, [[0]]) as first:
        wait_until_at_work()
        with ahead(where, [[0]]) as second:
            # The other process is at the only item that is asked for; the second call's is done meanwhile, here.
            assert list(next(first)) != [HERE]
            assert list(next(second)) == [HERE]


def test_an_item_that_another_call_did_meanwhile_may_have_failed(helped):
    with ahead(where_after_a_while, [[0]]) as first:
        wait_until_at_work()
        with ahead(refuse, [[5]]) as second:
            assert list(next(first)) != [HERE]
            with pytest.raises(ValueError, match="5 is not wanted"):
                list(next(second))


def interrupted_in_numpy(item):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as interrupt:
        raise ValueError("'T{=d:sum:}' is not a valid PEP 3118 buffer format string") from interrupt


def test_an_interrupt_is_none_of_the_errors_of_what_is_done_meanwhile(helped):
    with ahead(where_after_a_while, [[0]]) as first:
        wait_until_at_work()
        # Nobody asks for the second, and the interrupt comes while it is worked on.
        with ahead(interrupted_in_numpy, [[0]]), pytest.raises(KeyboardInterrupt):
            list(next(first))


def test_an_interrupt_that_numpy_made_an_error_of_is_one_again():
    with pytest.raises(KeyboardInterrupt), workers(1):
        interrupted_in_numpy(0)


def test_what_nobody_asked_for_is_left_and_its_process_stays(helped):
    with ahead(where_after_a_while, [range(4)]):
        wait_until_at_work()
    assert not helped.calls
    assert helpers._pool.executor is helped.executor
    wait(helped.given)
    with ahead(where_after_a_while, [range(4)]) as results:
        assert len(set(next(results))) == 2


def test_a_process_that_is_at_what_nobody_wants_is_not_waited_for(helped):
    with ahead(asleep_elsewhere, [[0]]):
        wait_until_at_work()
    assert list(each_in_python(where, range(4))) == [HERE] * 4


def test_a_block_that_fails_ends_the_processes_at_work(helped):
    with pytest.raises(KeyboardInterrupt), ahead(asleep_elsewhere, [range(2)]):
        interrupted()
    assert helpers._pool.executor is None


def interrupted():
    wait_until_at_work()
    raise KeyboardInterrupt


def test_a_fit_that_fails_ends_what_it_had_left():
    with pytest.raises(ValueError, match="something else"), workers(2, LARGE):
        leave_something_and_fail()
    assert helpers._pool.executor is None


def leave_something_and_fail():
    spread._helpers.get().ready.result()
    with ahead(asleep_elsewhere, [[0]]):
        wait_until_at_work()
    assert helpers._pool.executor is not None
    raise ValueError("something else")


def test_an_inner_call_that_fails_loses_nothing_of_an_outer_one(helped):
    with ahead(asleep_elsewhere, [range(2)]) as results:
        wait_until_at_work()
        with pytest.raises(ValueError, match="0 is not wanted"):
            list(each_in_python(refuse, range(2)))
        assert list(next(results)) == [0, 1]


def test_an_error_is_raised_where_it_is_asked_for(helped):
    with ahead(refuse, [[5]]):
        pass
    with pytest.raises(ValueError, match="5 is not wanted") as raised, ahead(refuse, [[5]]) as results:
        list(next(results))
    assert raised.traceback[-1].name == "refuse"


def test_two_steps_are_asked_for_together(helped):
    with both_ahead(os.getpid, time.monotonic) as both:
        process, moment = both()
    assert process != HERE
    assert moment <= time.monotonic()


def test_what_may_travel_has_processes_in_a_large_fit_and_threads_in_a_small_one(helped):
    assert len(set(at_once(where_after_a_while, range(6), may_travel=True))) == 2
    with workers(2):
        assert set(at_once(where_after_a_while, range(4), may_travel=True)) == {HERE}


def test_a_thread_that_fails_is_heard_of_before_the_others_end():
    def slow_but_for_the_first(item):
        if not item:
            raise ValueError("at once")
        time.sleep(3)

    began = time.monotonic()
    with workers(2), pytest.raises(ValueError, match="at once"):
        list(at_once(slow_but_for_the_first, range(4)))
    assert time.monotonic() - began < 2


@pytest.fixture(scope="module")
def clustered():
    """Groups that differ in each of two clusters: a classifier for each is tried."""
    sample = make_grouped_mixture(
        n_features=3,
        n_clusters=2,
        n_groups=30,
        labeled_per_group=(60, 5),
        unlabeled_per_group=(60, 5),
        random_state=1,
    )
    return sample.training()[:3]


@pytest.mark.parametrize("is_promising", [True, False])
def test_one_process_trains_for_each_cluster_only_what_is_looked_at(
    clustered, monkeypatch, few_trees, is_promising
):
    X, y, groups = clustered
    asked, n_fits, fit = [], [], TrainingSet.fit
    monkeypatch.setattr(TrainingSet, "fit", lambda self, estimator: n_fits.append(1) or fit(self, estimator))

    def promises(*_):
        asked.append(len(n_fits))
        return is_promising

    monkeypatch.setattr(judge, "promises", promises)
    monkeypatch.setattr(judge, "confirmed", lambda *_: True)
    model = GroupShiftClassifier(n_jobs=1, refine=0, random_state=0).fit(X, y, groups=groups)
    assert model.n_clusters_ > 1
    # The last model of all rows, or four folds more and the last model of each cluster.
    after = 5 * model.n_clusters_ if is_promising else 1
    assert len(n_fits) - asked[0] == after


@pytest.mark.parametrize("is_promising", [True, False])
def test_what_others_were_ahead_with_changes_no_bit(clustered, monkeypatch, few_trees, is_promising):
    X, y, groups = clustered
    monkeypatch.setattr(judge, "promises", lambda *_: is_promising)
    monkeypatch.setattr(spread, "FEWEST_NUMBERS", 0)
    one, two = (
        GroupShiftClassifier(n_jobs=n_jobs, refine=0, random_state=0).fit(X, y, groups=groups)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X, groups), two.predict_proba(X, groups))
    assert one.notes_ == two.notes_
