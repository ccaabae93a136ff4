"""Golden fits: tables of every kind, and what fits of them predicted when their figures were last meant to change.

A move of code leaves them as they are. A commit that changes figures writes them anew and says so:

    PYTHONPATH=src:tests python tests/test_golden.py
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
import sklearn
from sklearn.linear_model import LogisticRegression

from conftest import CLUSTER_MARKS
from groupshift import METHODS, DegradedWarning, GroupShiftClassifier, distributed, streaming

pytestmark = [pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning"), *CLUSTER_MARKS]

KEPT = Path(__file__).parent / "data" / "golden_fits.json"
FEATURES = ["x0", "x1", "x2"]


def table(*, n_classes=2, n_groups=8, labeled=50, unlabeled=80, setting=2, silent=0, seed=0):
    """Groups with shares of their own in two clusters; the last `silent` groups have no labels.

    Setting 1: the shares of the classes are those of all groups.
    """
    rng = np.random.default_rng(seed)
    n_rows = n_groups * (labeled + unlabeled)
    group = np.repeat(np.arange(n_groups), labeled + unlabeled)
    is_labeled = np.tile(np.arange(labeled + unlabeled) < labeled, n_groups) & (group < n_groups - silent)
    cluster = rng.integers(2, size=n_rows)
    level = (
        0.8 * rng.normal(size=(n_groups, 2, 2, n_classes))
        if setting == 2
        else np.zeros((n_groups, 2, 2, n_classes))
    )
    odds = np.exp(level[group, cluster, is_labeled.astype(int)])
    y = (rng.random((n_rows, 1)) > np.cumsum(odds / odds.sum(1, keepdims=True), axis=1)[:, :-1]).sum(1)
    means = rng.normal(size=(2, n_classes, len(FEATURES))) + np.array([[[-2.0]], [[2.0]]])
    frame = pd.DataFrame(means[cluster, y] + rng.normal(size=(n_rows, len(FEATURES))), columns=FEATURES)
    frame["y"], frame["group"] = np.where(is_labeled, y, -1), [f"g{g}" for g in group]
    frame["weight"], frame["person"] = (
        rng.integers(1, 4, n_rows).astype(float),
        rng.integers(n_rows // 2, size=n_rows),
    )
    frame["place"] = np.where(frame.x0 > rng.normal(size=n_rows), "here", "there")
    frame.loc[rng.random(n_rows) < 0.1, "x1"] = np.nan
    return frame


def model_of(**settings):
    simple = make_simple() if settings.pop("simple", True) else None
    return GroupShiftClassifier(simple, random_state=0, **{"partition": 1, **settings})


def make_simple():
    return LogisticRegression()


def fitted(frame, *, features=("x0", "x2"), known=None, columns=None, **settings):
    given = {name: frame[column] for name, column in (columns or {}).items()}
    model = model_of(**settings)
    return model.fit(frame[list(features)], frame.y, frame.group, **given, **(known or {})), frame[
        list(features)
    ]


def golden_default():
    return fitted(table(), features=[*FEATURES, "place"], simple=False, partition="validated")


def golden_default_three_classes():
    return fitted(table(n_classes=3), features=[*FEATURES, "place"], simple=False, partition="validated")


def golden_setting_one():
    return fitted(table(setting=1), partition=2)


def golden_clusters():
    return fitted(table(), partition=2)


def golden_clusters_three_classes():
    return fitted(table(n_classes=3), partition=2)


def golden_one_cluster():
    return fitted(table())


def golden_partition_of_trees():
    return fitted(table(n_groups=12, labeled=120), partition="validated")


def golden_weights_and_copies():
    return fitted(table(), columns={"sample_weight": "weight", "example_ids": "person"}, partition=2)


def golden_weights_and_copies_three_classes():
    columns = {"sample_weight": "weight", "example_ids": "person"}
    return fitted(table(n_classes=3), columns=columns, partition=2)


def golden_two_groups():
    return fitted(table(n_groups=2))


def golden_half_without_labels():
    return fitted(table(n_groups=10, silent=5), partition=2)


def golden_half_without_labels_three_classes():
    return fitted(table(n_classes=3, n_groups=10, silent=5))


def golden_without_groups():
    frame = table(n_groups=4)
    return model_of().fit(frame[["x0", "x2"]], frame.y), frame[["x0", "x2"]]


def golden_without_groups_three_classes():
    frame = table(n_groups=4, n_classes=3)
    return model_of().fit(frame[["x0", "x2"]], frame.y), frame[["x0", "x2"]]


def golden_without_a_population():
    frame = table(n_groups=4)
    frame = frame[frame.y >= 0]
    return model_of().fit(frame[["x0", "x2"]], frame.y, frame.group), frame[["x0", "x2"]]


def golden_known_shares():
    return fitted(table(), known={"known_shares": {"g1": 0.4, "g2": (0.3, 0.05)}}, partition=2)


def golden_known_overall():
    return fitted(table(), known={"known_overall": 0.35, "known_shares": {"g0": (0.5, 0.02)}})


def golden_known_shares_three_classes():
    known = {"known_shares": {"g1": {0: 0.5, 1: 0.2}}, "known_overall": {2: (0.3, 0.02)}}
    return fitted(table(n_classes=3), known=known)


def golden_random_labels():
    return fitted(table(), selection="random")


def golden_labels_by_label():
    return fitted(table(), selection="by_label")


def golden_labels_by_label_three_classes():
    return fitted(table(n_classes=3), selection="by_label")


def golden_no_shift():
    return fitted(table(), shares=None, partition=2)


def golden_cells_alone():
    return fitted(table(), shrinkage="none", partition=2)


def golden_cells_alone_by_black_box():
    return fitted(table(), shrinkage="none", shares="bbse-soft")


def golden_cells_alone_three_classes():
    return fitted(table(n_classes=3), shrinkage="none", shares="em")


def golden_two_estimators():
    frame = table()
    model = GroupShiftClassifier([LogisticRegression(), LogisticRegression(C=0.01)], 1, random_state=0)
    return model.fit(frame[["x0", "x2"]], frame.y, frame.group), frame[["x0", "x2"]]


def golden_published():
    frame = table()
    model = GroupShiftClassifier.published(LogisticRegression(), random_state=0)
    return model.fit(frame[["x0", "x2"]], frame.y, frame.group), frame[["x0", "x2"]]


def golden_published_pooled():
    frame = table()
    model = GroupShiftClassifier.published(
        LogisticRegression(), small_cells="pooled", partition=2, random_state=0
    )
    return model.fit(frame[["x0", "x2"]], frame.y, frame.group), frame[["x0", "x2"]]


def golden_coral():
    frame = table(n_groups=3)
    model = METHODS["coral"](LogisticRegression(), random_state=0)
    return model.fit(frame[["x0", "x2"]], frame.y, frame.group), frame[["x0", "x2"]]


def golden_updated():
    model, X = fitted(table(), partition=2)
    fresh = table(labeled=0, seed=1)
    return model.update(fresh[["x0", "x2"]], fresh.group, known_overall=(0.4, 0.1)), X


def golden_audited():
    frame = table(n_groups=4)
    model, X = fitted(frame)
    population = frame[frame.y < 0]
    plan = model.audit(population[["x0", "x2"]], population.group, budget=20)
    truth = (population.x0 + population.x2 > 0).to_numpy().astype(int)
    return model.learn_audit(plan.labeled(truth[plan.rows])), X


def files_of(frame, folder):
    columns = ["x0", "x2", "group", "weight"]
    frame[columns].to_parquet(folder / "population.parquet")
    labeled = frame[frame.y >= 0][[*columns, "y"]].reset_index(drop=True)
    return labeled, folder / "population.parquet"


def golden_streamed(folder):
    frame = table()
    labeled, path = files_of(frame, folder)
    names = {"target": "y", "group": "group", "weight": "weight"}
    model = streaming.fit(model_of(partition=2), labeled, path, **names, batch_rows=100)
    return model, frame[["x0", "x2"]]


def golden_on_dask(folder):
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    frame = table()
    labeled, path = files_of(frame, folder)
    names = {"target": "y", "group": "group", "weight": "weight"}
    with dask.config.set(scheduler="synchronous"):
        model = distributed.fit(model_of(partition=2), labeled, dd.read_parquet(path), **names)
    return model, frame[["x0", "x2"]]


FITS = {name.removeprefix("golden_"): make for name, make in globals().items() if name.startswith("golden_")}
# Those that have files of their own.
WITH_FILES = ("streamed", "on_dask")


def figures(name, folder):
    """What is kept of a fit: probabilities of a few rows, shares and shifts of all cells."""
    model, X = FITS[name](folder) if name in WITH_FILES else FITS[name]()
    few = X.iloc[:: max(len(X) // 16, 1)]
    groups = getattr(model, "groups_", np.array([]))
    at = np.resize(groups, len(few)) if getattr(model, "has_groups_", len(groups) > 0) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = {"probability": model.predict_proba(few, at)[:, 1:]}
    if isinstance(model, GroupShiftClassifier):
        names = {"share": "group_prior_", "share_error": "share_error_", "shift": "shift_"}
        names |= {"variance": "shift_variance_", "unseen": "unseen_shift_"}
        found |= {key: getattr(model, name) for key, name in names.items()}
    return {key: np.asarray(values, float).round(12).ravel().tolist() for key, values in found.items()}


def versions():
    return {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}


@pytest.mark.parametrize("name", FITS)
def test_a_golden_fit_has_the_figures_that_were_kept(name, tmp_path):
    kept = json.loads(KEPT.read_text())
    # Other versions of the libraries stop their searches elsewhere.
    tolerance = 1e-9 if kept["versions"] == versions() else 1e-5
    found = figures(name, tmp_path)
    assert found.keys() == kept["fits"][name].keys()
    for key, values in found.items():
        np.testing.assert_allclose(
            values, kept["fits"][name][key], atol=tolerance, rtol=tolerance, err_msg=key
        )


def test_every_golden_fit_is_one_of_the_kept():
    assert list(FITS) == list(json.loads(KEPT.read_text())["fits"])


def main():
    import tempfile

    warnings.simplefilter("ignore", DegradedWarning)
    with tempfile.TemporaryDirectory() as folder:
        fits = {name: figures(name, Path(folder)) for name in FITS}
    KEPT.write_text(
        json.dumps({"versions": versions(), "fits": fits}, indent=1).replace("\n    ", " ") + "\n"
    )


if __name__ == "__main__":
    main()
