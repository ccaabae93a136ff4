"""A cluster of processes gives the answer of memory, whatever its partitions hold, whoever dies, and whoever else works there.

One file, so that one cluster is started: LightGBM's training and the grid of an experiment run on it too.
"""

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("dask.dataframe", reason="clusters need the extra dask")
pytest.importorskip("distributed", reason="clusters need the extra dask")

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from conftest import CLUSTER_MARKS
from groupshift import GroupShiftClassifier, distributed
from groupshift._data.batches import Reader, Roles
from groupshift._data.rows import InMemory
from groupshift.distributed import Distributed
from site_tables import COLUMNS, assert_same_model, fit_in_memory, fit_on_cluster, halves, quick, table_of

pytestmark = CLUSTER_MARKS


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of()


@pytest.fixture(scope="module")
def in_memory(table):
    """No test may change it."""
    return fit_in_memory(quick(2), table, COLUMNS)


@pytest.fixture(scope="module")
def judged_in_memory(table):
    """The same with a chosen partition; the order of rows, which partitions change, is no part of the answer."""
    return fit_in_memory(quick("validated"), table, COLUMNS)


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
def test_cluster_gives_the_answer_of_memory(client, table, judged_in_memory, how):
    labeled, unlabeled = halves(table)
    frame = partitioned(cut(unlabeled, how))
    model = fit_on_cluster(quick("validated"), labeled, frame, features=COLUMNS)
    assert_same_model(model, judged_in_memory)


def test_boosted_trees_categories_weights_and_copies_are_as_in_memory(client, table, few_trees):
    labeled, unlabeled = halves(table)
    parts = cut(unlabeled, "all groups")
    together = pd.concat([labeled, *parts], ignore_index=True)
    settings = {"partition": 2, "random_state": 0}
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


def test_update_on_a_cluster_is_update_in_memory(client, in_memory):
    later = halves(table_of(seed=7))[1]
    first, second = copy(in_memory), copy(in_memory)
    first.update(later[COLUMNS], later.site)
    distributed.update(second, partitioned(cut(later, "nothing in some")), group="site")
    assert_same_model(second, first)


def test_predictions_have_the_partitions_and_the_index_of_the_data(client, table, in_memory):
    parts = cut(table, "nothing in some")
    lazy = distributed.predict(in_memory, partitioned(parts), group="site")
    assert lazy.npartitions == len(parts)
    found = lazy.compute()
    expected = in_memory.predict_details(table[COLUMNS], table.site)
    assert found.index.tolist() == table.index.tolist()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12)


def deadly_part(i, parts, grave):
    """A partition that kills the first worker which reads the sixth of them, before its work is done."""
    if i == 5 and not grave.exists():
        grave.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return parts[i]


def test_killed_worker_changes_nothing(client, table, in_memory, tmp_path):
    labeled, unlabeled = halves(table)
    parts = [unlabeled.iloc[i::12] for i in range(12)]
    grave = tmp_path / "grave"
    frame = dd.from_map(deadly_part, range(len(parts)), parts=parts, grave=grave, meta=unlabeled.iloc[:0])
    before = set(client.run(os.getpid).values())
    model = fit_on_cluster(quick(2), labeled, frame, features=COLUMNS)
    client.wait_for_workers(2, timeout=30)
    assert int(grave.read_text()) in before - set(client.run(os.getpid).values())
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
    assert model.learned_.posterior.scorer.members[0].estimator is trained
    assert_same_model(model, in_memory)


def test_without_a_client_dask_does_the_work_itself(table, in_memory):
    labeled, unlabeled = halves(table)
    import dask

    with dask.config.set(scheduler="threads"):
        model = fit_on_cluster(quick(2), labeled, dd.from_pandas(unlabeled, npartitions=3), features=COLUMNS)
    assert_same_model(model, in_memory)


def as_parquet(folder, frame, n_files, row_group):
    """The rows in so many files of one folder."""
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[part].to_parquet(folder / f"part.{i:04d}.parquet", index=False, row_group_size=row_group)
    return folder


FILES = [(1, 90), (3, 200), (5, 1_000), (12, 70)]
READINGS = [{"split_row_groups": True}, {"split_row_groups": False}, {"split_row_groups": 3}]


@pytest.mark.parametrize(("n_files", "row_group"), FILES)
def test_parquet_files_of_any_size_give_the_answer_of_memory(
    client, table, few_trees, tmp_path, n_files, row_group
):
    """Dask reads small files together where it is asked for few columns in another order, as by the first pass."""
    labeled, unlabeled = halves(table)
    settings = {"partition": 2, "random_state": 0}
    roles = {"weight": "weight", "example_id": "person"}
    of_memory = {"sample_weight": "weight", "example_ids": "person"}
    in_memory = fit_in_memory(GroupShiftClassifier(**settings), table, [*COLUMNS, "color"], **of_memory)
    folder = as_parquet(tmp_path / "u", unlabeled, n_files, row_group)
    for reading in READINGS:
        frame = dd.read_parquet(folder, **reading)
        model = fit_on_cluster(GroupShiftClassifier(**settings), labeled, frame, **roles)
        assert_same_model(model, in_memory)
        distributed.update(model, frame, group="site", **roles)
        assert_same_model(model, in_memory)
        found = frame.assign(risk=distributed.predict(model, frame, group="site").probability).compute()
        expected = in_memory.predict_proba(found[[*COLUMNS, "color"]], found.site)[:, 1]
        np.testing.assert_allclose(found.risk, expected, atol=1e-9)


@pytest.mark.parametrize(("n_files", "row_group"), FILES)
def test_rows_that_repeat_are_drawn_by_their_places_in_files_as_in_memory(
    client, table, in_memory, tmp_path, n_files, row_group
):
    unlabeled = halves(table)[1]
    folder = as_parquet(tmp_path / "u", unlabeled, n_files, row_group)
    roles = Roles(tuple(COLUMNS), "site")
    reader = Reader(in_memory.schema_, roles, in_memory.groups_, by_content=False)
    expected = InMemory(reader(unlabeled, 700), by_content=False).sample(500, 3)
    for reading in READINGS:
        population = Distributed(dd.read_parquet(folder, **reading), reader, len(unlabeled), 700)
        found = population.sample(500, 3)
        assert found.key.tolist() == expected.key.tolist()


def test_rows_without_a_group_are_counted_and_refused_in_the_words_of_memory(client, table, in_memory):
    labeled, unlabeled = halves(table)
    gaps = unlabeled.assign(site=unlabeled.site.where(unlabeled.index % 100 != 99, None))
    frame = partitioned(cut(gaps, "all groups"))
    with pytest.raises(ValueError, match="rows have no group") as error:
        in_memory.predict_proba(gaps[COLUMNS], gaps.site)
    said = str(error.value)
    for door in (
        lambda: fit_on_cluster(quick(2), labeled, frame, features=COLUMNS),
        lambda: distributed.update(copy(in_memory), frame, group="site"),
    ):
        with pytest.raises(ValueError, match="rows have no group") as error:
            door()
        assert str(error.value) == said
    with pytest.raises(ValueError, match=r"rows have no group.*These are rows of one partition"):
        distributed.predict(in_memory, frame, group="site").compute()


def test_a_lost_scheduler_ends_in_one_sentence(table, tmp_path):
    labeled, unlabeled = halves(table)
    with process_of("dask_scheduler", "--scheduler-file", f"{tmp_path}/s.json", "--port", "0") as scheduler:
        wait_for(tmp_path / "s.json")
        with (
            process_of("dask_worker", "--scheduler-file", f"{tmp_path}/s.json", "--no-nanny"),
            Client(scheduler_file=f"{tmp_path}/s.json", set_as_default=True, timeout=30) as lost,
        ):
            lost.wait_for_workers(1, timeout=60)
            # The scheduler dies while the first partition is read.
            frame = dd.from_map(slow_part, [unlabeled], meta=unlabeled.iloc[:0], grave=f"{tmp_path}/begun")
            killer = Thread(target=lambda: (wait_for(tmp_path / "begun"), scheduler.kill()))
            killer.start()
            with pytest.raises(
                RuntimeError, match=r"scheduler is gone .* Connect a new dask\.distributed\.Client"
            ):
                fit_on_cluster(quick(2), labeled, frame, features=COLUMNS)
            killer.join()


def slow_part(part, grave):
    Path(grave).touch()
    time.sleep(60)
    return part


def wait_for(path):
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert path.exists()


@contextmanager
def process_of(module, *arguments):
    """A command of `distributed` in a process of its own."""
    command = [
        sys.executable,
        "-m",
        f"distributed.cli.{module}",
        *arguments,
        "--no-dashboard",
        "--host",
        "127.0.0.1",
    ]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_labelled_rows_on_the_cluster_are_gathered_with_a_note_up_to_a_size(
    client, table, in_memory, monkeypatch
):
    labeled, unlabeled = halves(table)
    both = partitioned(cut(labeled, "all groups")), partitioned(cut(unlabeled, "all groups"))
    model = fit_on_cluster(quick(2), *both, features=COLUMNS)
    assert model.notes_ == [
        *in_memory.notes_,
        f"The {len(labeled):,} labelled rows were gathered from the cluster.",
    ]
    model.notes_ = in_memory.notes_
    assert_same_model(model, in_memory)
    monkeypatch.setattr(distributed, "MOST_GATHERED", 100)
    with pytest.raises(ValueError, match="up to 100 are gathered in memory"):
        fit_on_cluster(quick(2), *both, features=COLUMNS)


def test_a_model_knows_its_column_of_groups(client, table, tmp_path):
    labeled, unlabeled = halves(table)
    frame = partitioned(cut(unlabeled, "all groups"))
    model = fit_on_cluster(quick(2), labeled, frame, features=COLUMNS)
    before = copy(model)
    assert_same_model(distributed.update(model, frame), before)
    found = distributed.predict(model, frame).compute().loc[unlabeled.index]
    np.testing.assert_allclose(
        found.probability, model.predict_proba(unlabeled[COLUMNS], unlabeled.site)[:, 1], atol=1e-9
    )


def test_other_frames_are_refused(table):
    labeled, unlabeled = halves(table)
    with pytest.raises(TypeError, match="Pass a Dask DataFrame"):
        distributed.fit(quick(2), labeled, unlabeled, target="label", group="site")


@pytest.fixture(scope="module")
def trained(client):
    """Boosted trees that both workers grew together, each on the half of the rows that it holds; and the rest."""
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is for tests")
    labeled = halves(table_of(labeled=200))[0].sample(frac=1, random_state=0, ignore_index=True)
    half = labeled[::2].reset_index(drop=True)
    # One part is put on each worker: left to itself, a quick one may take all of them.
    workers = list(client.scheduler_info()["workers"])
    held = [client.scatter(half[i::2], workers=[at]) for i, at in enumerate(workers)]
    rows = dd.from_delayed(held, meta=half[:0], verify_meta=False)
    trees = lightgbm.DaskLGBMClassifier(n_estimators=20, num_leaves=7, random_state=0, verbose=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what LightGBM and Dask say to each other
        trees.fit(rows[COLUMNS], rows.label.astype(int))
    assert workers_with(client, "lightgbm") == 2
    return trees.to_local(), labeled[1::2].reset_index(drop=True)


def workers_with(client, module: str) -> int:
    """How many workers have loaded a module: they have worked with it."""
    return sum(client.run(lambda: module in sys.modules).values())


def test_a_classifier_trained_on_the_cluster_is_used_there_and_gives_the_answer_of_memory(client, trained):
    trees, rest = trained
    unlabeled = halves(table_of(labeled=200))[1]
    together = pd.concat([rest, unlabeled], ignore_index=True)
    settings = {"estimator": FrozenEstimator(trees), "random_state": 0}
    in_memory = fit_in_memory(GroupShiftClassifier(**settings), together, COLUMNS)
    model = fit_on_cluster(
        GroupShiftClassifier(**settings), rest, dd.from_pandas(unlabeled, npartitions=4), features=COLUMNS
    )
    assert model.learned_.posterior.scorer.members[0].estimator is trees
    assert_same_model(model, in_memory)
    found = distributed.predict(model, dd.from_pandas(unlabeled, npartitions=4), group="site").compute()
    expected = in_memory.predict_details(unlabeled[COLUMNS], unlabeled.site)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-9)
    # The cluster's trees tell classes apart, and groups are told apart on top.
    assert np.ptp(model.group_shares(by="group").share) > 0.1
    later = halves(table_of(seed=7))[1]
    distributed.update(model, dd.from_pandas(later, npartitions=4), group="site")
    assert_same_model(model, in_memory.update(later[COLUMNS], later.site))
