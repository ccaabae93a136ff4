"""Tables in memory that make life hard, and a fit that meets each of them."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier

Table = dict[str, object]


def _some(rng: np.random.Generator, n: int) -> np.ndarray:
    """Some rows: one, a few, or all of them."""
    return rng.random(n) < rng.choice([1 / max(n, 1), 0.1, 0.6, 1.0])


def in_column(rng: np.random.Generator, table: Table) -> None:
    X = np.array(table["X"], float)
    value = rng.choice([np.nan, np.inf, 1e308, -1e308, 0.0, 5e-324, 1e16])
    X[_some(rng, len(X)), rng.integers(0, X.shape[1])] = value
    table["X"] = X


def unlabeled_only(rng: np.random.Generator, table: Table) -> None:
    """A column that labelled rows have no value in, or one."""
    X, y = np.array(table["X"], float), table["y"]
    labeled = np.flatnonzero(np.asarray(y)[: len(X)] != -1)
    X[labeled[int(rng.integers(0, 2)) :], rng.integers(0, X.shape[1])] = np.nan
    table["X"] = X


def copied(rng: np.random.Generator, table: Table) -> None:
    X = np.array(table["X"], float)
    table["X"] = X[rng.integers(0, max(1, len(X) // 20), len(X))]


def in_labels(rng: np.random.Generator, table: Table) -> None:
    y = np.array(table["y"], object)
    y[_some(rng, len(y))] = [-1, 1, 0, None, 2, "yes", np.nan][int(rng.integers(0, 7))]
    table["y"] = y


def in_groups(rng: np.random.Generator, table: Table) -> None:
    groups = np.array(table["groups"], object)
    names = [None, "", "\x00", "a" * 5000, 7, 7.5, ("a", 1), np.nan, "\x1b[31m"]
    name = names[int(rng.integers(0, len(names)))]
    for row in np.flatnonzero(_some(rng, len(groups))):
        groups[row] = name
    table["groups"] = groups


def own_groups(rng: np.random.Generator, table: Table) -> None:
    n = len(table["groups"])
    table["groups"] = np.arange(n) if rng.random() < 0.5 else np.zeros(n, int)


def weighed(rng: np.random.Generator, table: Table) -> None:
    n = len(table["groups"])
    weight = rng.random(n)
    weight[_some(rng, n)] = rng.choice([0.0, -1.0, np.nan, np.inf, 1e155, 1e-300, 1e60, 1e-60])
    table["sample_weight"] = weight


def short(rng: np.random.Generator, table: Table) -> None:
    name = ["X", "y", "groups"][int(rng.integers(0, 3))]
    table[name] = table[name][: int(rng.integers(0, 12))]


def as_objects(rng: np.random.Generator, table: Table) -> None:
    import pandas as pd

    frame = pd.DataFrame(np.array(table["X"], float)).rename(columns=str)
    values = [None, "text", True, 3, pd.Timestamp("2024-01-01"), [1], {"a": 1}]
    column = frame["0"].astype(object)
    column[_some(rng, len(frame))] = pd.Series([values[int(rng.integers(0, len(values)))]] * len(frame))
    table["X"] = frame.assign(**{"0": column})


WAYS = (in_column, in_column, unlabeled_only, copied, in_labels, in_groups, own_groups, weighed, short)


def fit_hostile_table(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of a model that was fitted to a hostile table."""
    n = int(rng.choice([4, 12, 60, 120]))
    truth = rng.integers(0, 2, n)
    table: Table = {
        "X": truth[:, None] + rng.normal(size=(n, 2)),
        "y": np.where(rng.random(n) < 0.6, truth, -1),
        "groups": np.array(list("abcd"))[rng.integers(0, 4, n)],
    }
    for _ in range(int(rng.integers(1, 4))):
        WAYS[int(rng.integers(0, len(WAYS)))](rng, table)
    if rng.random() < 0.15:
        as_objects(rng, table)
    estimator = [
        LogisticRegression(),
        HistGradientBoostingClassifier(max_iter=2, max_depth=2, early_stopping=False),
    ][int(rng.integers(0, 2))]
    model = GroupShiftClassifier(estimator, int(rng.integers(1, 3)), random_state=0)
    X, y, groups = table.pop("X"), table.pop("y"), table.pop("groups")
    model.fit(X, y, groups=groups, **table)
    return model.predict_proba(X, groups)[:, 1]
