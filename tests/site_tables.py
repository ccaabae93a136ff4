"""What tests of files and clusters share: a table of sites, and the answer of memory to compare with."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, distributed
from groupshift.datasets import make_grouped_mixture

COLUMNS = ["a", "b", "c"]
FITTED = (
    "group_prior_",
    "shift_",
    "shift_variance_",
    "unseen_shift_",
    "labeled_prior_",
    "row_weight_",
    "rows_",
)


def quick(partition, **params) -> GroupShiftClassifier:
    """Fitted in a moment; boosted trees only where a test is about them."""
    return GroupShiftClassifier(LogisticRegression(), partition, random_state=0, **params)


def table_of(*, n_groups=12, labeled=60, unlabeled=200, seed=0) -> pd.DataFrame:
    """Labelled rows first, then unlabelled ones, with a category, weights and copies of examples."""
    sample = make_grouped_mixture(
        n_features=3,
        n_clusters=2,
        n_groups=n_groups,
        labeled_per_group=(labeled, 5),
        unlabeled_per_group=(unlabeled, 40),
        test_size=0.05,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(sample.X, columns=COLUMNS)
    frame["color"] = np.where(frame.a > rng.normal(size=len(frame)), "red", "blue")
    frame.loc[rng.random(len(frame)) < 0.1, "color"] = None
    frame["site"] = sample.groups
    frame["weight"] = rng.integers(1, 4, len(frame)).astype(float)
    frame["person"] = rng.integers(0, len(frame) // 2, len(frame))
    frame["label"] = np.where(sample.y >= 0, sample.y, np.nan)
    return frame.sort_values("label", na_position="last", kind="stable", ignore_index=True)


def halves(table):
    """Labelled rows, and unlabelled rows without the column of labels."""
    known = table.label.notna()
    return table[known].reset_index(drop=True), table[~known].drop(columns="label").reset_index(drop=True)


def fit_in_memory(model, table, features, **columns):
    given = {name: table[column] for name, column in columns.items()}
    return model.fit(table[features], table.label, table.site, **given)


def assert_same_model(left, right, tolerance=1e-9):
    # Chunks add the same numbers in another order: only rounding differs.
    assert left.n_clusters_ == right.n_clusters_
    assert left.groups_.tolist() == right.groups_.tolist()
    assert left.notes_ == right.notes_
    for name in FITTED:
        np.testing.assert_allclose(
            getattr(left, name), getattr(right, name), rtol=tolerance, atol=tolerance, err_msg=name
        )


def fit_on_cluster(model, labeled, unlabeled, **columns):
    return distributed.fit(model, labeled, unlabeled, target="label", group="site", **columns)
