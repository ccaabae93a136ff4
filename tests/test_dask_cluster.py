"""Work of others on a cluster of processes: LightGBM's training, and the grid of an experiment."""

import sys
import warnings

import pytest

pytest.importorskip("dask.dataframe", reason="clusters need the extra dask")
pytest.importorskip("distributed", reason="clusters need the extra dask")

import dask.dataframe as dd
import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from conftest import CLUSTER_MARKS
from groupshift import GroupShiftClassifier, distributed
from groupshift.experiments import run_experiment
from site_tables import COLUMNS, assert_same_model, fit_in_memory, fit_on_cluster, halves, table_of
from tiny_experiments import measured, tiny

pytestmark = CLUSTER_MARKS


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of(labeled=200)


@pytest.fixture(scope="module")
def trained(client, table):
    """Boosted trees that both workers grew together, each on the half of the rows that it holds; and the rest."""
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is for tests")
    labeled = halves(table)[0].sample(frac=1, random_state=0, ignore_index=True)
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


def partitioned(unlabeled: pd.DataFrame) -> dd.DataFrame:
    return dd.from_pandas(unlabeled, npartitions=4)


def test_a_classifier_trained_on_the_cluster_is_used_there_and_gives_the_answer_of_memory(
    client, table, trained
):
    trees, rest = trained
    unlabeled = halves(table)[1]
    together = pd.concat([rest, unlabeled], ignore_index=True)
    settings = {"estimator": FrozenEstimator(trees), "random_state": 0}
    in_memory = fit_in_memory(GroupShiftClassifier(**settings), together, COLUMNS)
    model = fit_on_cluster(GroupShiftClassifier(**settings), rest, partitioned(unlabeled), features=COLUMNS)
    assert model.posterior_.classifier.estimator is trees
    assert_same_model(model, in_memory)
    found = distributed.predict(model, partitioned(unlabeled), group="site").compute()
    expected = in_memory.predict_details(unlabeled[COLUMNS], unlabeled.site)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-9)
    # The cluster's trees tell classes apart, and groups are told apart on top.
    assert np.ptp(model.group_shares(by="group").share) > 0.1
    later = halves(table_of(seed=7))[1]
    distributed.update(model, partitioned(later), group="site")
    assert_same_model(model, in_memory.update(later[COLUMNS], later.site))


def test_the_grid_on_processes_of_a_cluster_gives_the_results_of_one_process(client, tmp_path):
    experiment = tiny(methods=["global", "label_shift", "bayes"], repetitions=2)
    done = run_experiment(experiment, tmp_path / "cluster", n_jobs=-1, backend="dask")
    assert (done.ran, done.failed, done.left) == (6, 0, 0)
    assert workers_with(client, "groupshift.experiments.run") == 2
    run_experiment(experiment, tmp_path / "here")
    assert measured(tmp_path / "cluster") == measured(tmp_path / "here")
    assert len(measured(tmp_path / "here")) > 0
