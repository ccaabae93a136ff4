"""A cluster of processes gives the answer of memory, whatever its partitions hold and whoever dies."""

import os
import pickle
import signal
import threading
import time

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from conftest import CLUSTER_MARKS
from groupshift import GroupShiftClassifier, distributed
from groupshift._fit.estimate import Tally
from groupshift._fit.packing import Packed
from groupshift._math.points import BIN_WIDTH, collect_points
from site_tables import COLUMNS, assert_same_model, fit_in_memory, fit_on_cluster, halves, quick, table_of

pytestmark = CLUSTER_MARKS


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of()


def partitioned(parts: list[pd.DataFrame]) -> dd.DataFrame:
    """A Dask DataFrame with exactly these partitions."""
    return dd.from_map(lambda i: parts[i], range(len(parts)), meta=parts[0].iloc[:0])


def cut(unlabeled: pd.DataFrame, how: str) -> list[pd.DataFrame]:
    if how == "all groups":
        return [unlabeled.iloc[i::4] for i in range(4)]
    if how == "one group":
        return [part for _, part in unlabeled.groupby("site")]
    half = len(unlabeled) // 2
    nothing = unlabeled.iloc[:0]
    return [nothing, unlabeled.iloc[:half], nothing, unlabeled.iloc[half:], nothing]


@pytest.mark.parametrize("how", ["all groups", "one group", "nothing in some"])
def test_cluster_gives_the_answer_of_memory(client, table, how):
    labeled, unlabeled = halves(table)
    parts = cut(unlabeled, how)
    together = pd.concat([labeled, *parts], ignore_index=True)
    in_memory = fit_in_memory(quick("validated"), together, COLUMNS)
    model = fit_on_cluster(quick("validated"), labeled, partitioned(parts), features=COLUMNS)
    assert_same_model(model, in_memory)


def test_boosted_trees_categories_weights_and_copies_are_as_in_memory(client, table):
    labeled, unlabeled = halves(table)
    parts = cut(unlabeled, "all groups")
    together = pd.concat([labeled, *parts], ignore_index=True)
    settings = {"partition": 2, "refine": 0, "random_state": 0}
    in_memory = fit_in_memory(
        GroupShiftClassifier(**settings),
        together,
        [*COLUMNS, "color"],
        sample_weight="weight",
        example_ids="person",
    )
    model = fit_on_cluster(
        GroupShiftClassifier(**settings), labeled, partitioned(parts), weight="weight", example_id="person"
    )
    assert_same_model(model, in_memory)


def test_update_on_a_cluster_is_update_in_memory(client, table):
    later = halves(table_of(seed=7))[1]
    first = fit_in_memory(quick(2), table, COLUMNS).update(later[COLUMNS], later.site)
    second = fit_in_memory(quick(2), table, COLUMNS)
    distributed.update(second, partitioned(cut(later, "nothing in some")), group="site")
    assert_same_model(second, first)


def test_predictions_have_the_partitions_and_the_index_of_the_data(client, table):
    model = fit_in_memory(quick(2), table, COLUMNS)
    parts = cut(table, "nothing in some")
    lazy = distributed.predict(model, partitioned(parts), group="site")
    assert lazy.npartitions == len(parts)
    found = lazy.compute()
    expected = model.predict_details(table[COLUMNS], table.site)
    assert found.index.tolist() == table.index.tolist()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12)


def slow_part(i, parts):
    """A partition that takes its time, so that a worker can be killed while it works on it."""
    time.sleep(0.3)
    return parts[i]


def test_killed_worker_changes_nothing(client, table):
    labeled, unlabeled = halves(table)
    parts = [unlabeled.iloc[i::12] for i in range(12)]
    together = pd.concat([labeled, *parts], ignore_index=True)
    in_memory = fit_in_memory(quick(2), together, COLUMNS)
    frame = dd.from_map(slow_part, range(len(parts)), parts=parts, meta=unlabeled.iloc[:0])
    before = set(client.run(os.getpid).values())
    victim = min(before)
    killer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
    killer.start()
    model = fit_on_cluster(quick(2), labeled, frame, features=COLUMNS)
    killer.join()
    client.wait_for_workers(2, timeout=30)
    assert victim not in client.run(os.getpid).values()
    assert_same_model(model, in_memory)


def test_classifier_trained_elsewhere_is_passed_frozen(client, table):
    labeled, unlabeled = halves(table)
    trained = LogisticRegression().fit(labeled[COLUMNS][::2], labeled.label[::2].astype(int))
    rest = labeled[1::2].reset_index(drop=True)
    parts = cut(unlabeled, "all groups")
    together = pd.concat([rest, *parts], ignore_index=True)
    settings = {"estimator": FrozenEstimator(trained), "partition": 2, "random_state": 0}
    in_memory = fit_in_memory(GroupShiftClassifier(**settings), together, COLUMNS)
    model = fit_on_cluster(GroupShiftClassifier(**settings), rest, partitioned(parts), features=COLUMNS)
    assert model.posterior_.classifier.estimator is trained
    assert_same_model(model, in_memory)


def test_without_a_client_dask_does_the_work_itself(table):
    labeled, unlabeled = halves(table)
    in_memory = fit_in_memory(quick(2), table, COLUMNS)
    import dask

    with dask.config.set(scheduler="threads"):
        model = fit_on_cluster(quick(2), labeled, dd.from_pandas(unlabeled, npartitions=3), features=COLUMNS)
    assert_same_model(model, in_memory)


@pytest.mark.parametrize("weighted", [False, True])
def test_packed_points_are_the_points_in_about_half_the_bytes(weighted):
    rng = np.random.default_rng(0)
    n, n_cells = 20_000, 400
    weight = rng.uniform(0.5, 2, n) if weighted else None
    points = collect_points(
        rng.normal(0, 2, n), rng.integers(0, n_cells, n), n_cells=n_cells, weight=weight, bin_width=BIN_WIDTH
    )
    others = collect_points(
        rng.normal(0, 2, n), rng.integers(0, n_cells, n), n_cells=n_cells, bin_width=BIN_WIDTH
    )
    tally = Tally(points, others, np.zeros((50, 2)))
    packed = pickle.dumps(Packed(tally))
    back = pickle.loads(packed).value
    for name in ("cell", "score", "weight", "rows", "weight_sum", "weight_square_sum"):
        assert getattr(back.points, name).tolist() == getattr(points, name).tolist()
        assert getattr(back.predicted, name).tolist() == getattr(others, name).tolist()
    assert len(packed) < 0.55 * len(pickle.dumps(tally))


def test_what_travels_does_not_grow_with_cells_that_have_no_rows():
    few = [collect_points([0.5], [0], n_cells=n, bin_width=BIN_WIDTH) for n in (10, 1_000_000)]
    small, large = (len(pickle.dumps(Packed(Tally(points, None, np.zeros((1, 0)))))) for points in few)
    assert large < small + 16


def test_other_frames_are_refused(table):
    labeled, unlabeled = halves(table)
    with pytest.raises(TypeError, match="Pass a Dask DataFrame"):
        distributed.fit(quick(2), labeled, unlabeled, target="label", group="site")
