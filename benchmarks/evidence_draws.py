"""Real tables with natural groups, labels chosen in several ways: Global, a random intercept, and ours, on the same draws.

What is claimed, with which seeds and sizes, stands in `results/natural_groups.toml`. To have another version of the package
beside it, run the same file with that version's source first on PYTHONPATH, with `--as NAME --methods groupshift`.
"""

import argparse
import json
import os
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, log_expit
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from sklearn.tree import ExtraTreeRegressor

SPEC = Path(__file__).parent.parent / "results" / "natural_groups.toml"
GLOBAL = {"partition": 1, "shares": None, "shrinkage": "none", "trust": 1.0, "refine": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder made by benchmarks.natural_data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--as", dest="name", default="groupshift", help="what this version is called")
    parser.add_argument("--methods", default="global,random intercept,groupshift,groupshift random")
    parser.add_argument("--kinds", help="some of the kinds; default: all")
    parser.add_argument("--seeds", help="other seeds, for development: 1,2")
    parser.add_argument("--commit", default="", help="of the code, where the machine has no git")
    options = parser.parse_args()
    spec = tomllib.loads(SPEC.read_text())
    tasks = [
        task for task in _tasks(spec, options.seeds) if options.kinds is None or task[1] in options.kinds
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    origin = {"commit": options.commit, "seeds": options.seeds or "as written down", **_origin()}
    (options.out / f"{options.name}.origin.json").write_text(json.dumps(origin, indent=2) + "\n")
    methods = options.methods.split(",")
    kept = options.out / f"{options.name}.jsonl"
    lines = [json.loads(text) for text in kept.read_text().splitlines()] if kept.exists() else []
    done = {(line["table"], line["kind"], line["seed"]) for line in lines}
    call = delayed(tried)
    rows = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        call(options.data, *task, spec["labeled_share"], methods, options.name)
        for task in tasks
        if task not in done
    )
    with kept.open("a") as file:
        for found in rows:
            file.writelines(json.dumps(row) + "\n" for row in found)
            file.flush()


def _origin() -> dict[str, str]:
    """Code, libraries and machine, as the experiments of the package keep them."""
    try:
        from groupshift.experiments.origin import deciding_origin
    except ImportError:  # an earlier version
        return {}
    return {**deciding_origin(), "cores": str(os.cpu_count())}


def _tasks(spec: dict, seeds: str | None) -> Iterator[tuple[str, str, int]]:
    wanted = None if seeds is None else [int(seed) for seed in seeds.split(",")]
    for prefix in ("", "resampled_"):
        for seed in wanted or spec[f"{prefix}seeds"]:
            for kind in spec[f"{prefix}kinds"]:
                for table in spec[f"{prefix}tables"]:
                    yield table, kind, seed


def tried(data: Path, table: str, kind: str, seed: int, *others) -> list[dict]:
    """A draw that fails is a result too, and must not take the others with it."""
    try:
        return run_draw(data, table, kind, seed, *others)
    except Exception:
        return [
            {"table": table, "kind": kind, "seed": seed, "method": "failed", "error": traceback.format_exc()}
        ]


def run_draw(
    data: Path, table: str, kind: str, seed: int, share: float, methods: list[str], name: str
) -> list[dict]:
    """All methods on one draw."""
    from groupshift import GroupShiftClassifier

    warnings.simplefilter("ignore")
    X, y, truth, group, household = draw(data, table, kind, seed, share)
    known = y >= 0
    rows = []
    common = {"table": table, "kind": kind, "seed": seed}
    plain = None
    for method in methods:
        if method == "groupshift random" and kind != "random":
            continue
        start = perf_counter()
        extra: dict = {}
        if method == "random intercept":
            assert plain is not None
            p = expit(plain[~known] + random_intercepts(plain[known], y[known], group[known], group)[~known])
        else:
            settings = GLOBAL if method == "global" else {}
            settings = settings | ({"selection": "random"} if method == "groupshift random" else {})
            model = GroupShiftClassifier(random_state=seed, n_jobs=1, **settings)
            ids = household if len(np.unique(household)) < len(household) else None
            model.fit(X, y, groups=group, example_ids=ids)
            p = model.predict_proba(X[~known], group[~known])[:, 1]
            if method == "global":
                log_odds = np.empty(len(y))
                log_odds[~known] = np.log(p) - np.log1p(-p)
                log_odds[known] = _held_out(model, X[known], y[known], household[known], seed)
                plain = log_odds
            else:
                extra = _intervals(model, truth[~known], group[~known])
        called = name if method == "groupshift" else method
        found = scores(p, truth[~known], group[~known])
        rows.append(common | {"method": called, "seconds": perf_counter() - start} | found | extra)
    return rows


def draw(data: Path, table: str, kind: str, seed: int, share: float):
    """Features, labels (-1: hidden), truth, group and household of one draw."""
    with np.load(data / f"{table}.npz") as file:
        X, y, group = file["X"].astype(float), file["y"].astype(int), file["group"].astype(int)
        household, is_category = file["household"], file["is_category"]
    X = _frame(X, is_category)
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    if kind.startswith("setting"):
        return _resampled(X, y, group, household, kind, rng)
    labeled = _labeled(kind, X, y, group, share, rng)
    return X, np.where(labeled, y, -1), y, group, household


def _frame(X: np.ndarray, is_category: np.ndarray):
    import pandas as pd

    columns = {}
    for j, coded in enumerate(is_category):
        column = pd.Series(X[:, j])
        columns[f"x{j}"] = column.fillna(-1).astype(int).astype(str).astype("category") if coded else column
    return pd.DataFrame(columns)


def _labeled(
    kind: str, X, y: np.ndarray, group: np.ndarray, share: float, rng: np.random.Generator
) -> np.ndarray:
    """Which rows have labels."""
    n_groups = group.max() + 1
    if kind == "natural":
        return np.isin(group, rng.permutation(n_groups)[: (n_groups + 1) // 2])
    if kind == "random":
        size = np.bincount(group)
        order = np.lexsort((rng.random(len(y)), group))
        rank = np.empty(len(y), int)
        rank[order] = np.arange(len(y)) - (np.cumsum(size) - size)[group[order]]
        return rank < np.maximum(1, np.round(share * size))[group]
    if kind == "class_biased":
        eta = np.log(3) * y
    elif kind == "volunteers":
        eta = rng.normal(size=(n_groups, 2))[group, y] + 0.3 * _direction(X, rng)
    else:
        eta = _direction(X, rng)
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(eta + middle).mean() < share else (low, middle)
    return rng.random(len(y)) < expit(eta + low)


def _direction(X, rng: np.random.Generator) -> np.ndarray:
    """A standardised linear score of the features, categories by a number for each level."""
    total = np.zeros(len(X))
    for name in X:
        column = X[name]
        if column.dtype == "category":
            value = rng.normal(size=len(column.cat.categories) + 1)[column.cat.codes]
        else:
            value = np.nan_to_num(rankdata(column, nan_policy="omit"), nan=len(X) / 2)
        if value.std() > 0:
            total += rng.normal() * (value - value.mean()) / value.std()
    return (total - total.mean()) / total.std()


class _Tree:
    """Eight cells cut by a random tree."""

    n_clusters_ = 8

    def __init__(self, X, rng: np.random.Generator):
        numbers = self._numbers(X)
        self.tree = ExtraTreeRegressor(
            max_leaf_nodes=8, min_samples_leaf=len(X) // 30, random_state=int(rng.integers(2**31))
        )
        self.tree.fit(numbers, _direction(X, rng))
        self.leaves = np.unique(self.tree.apply(numbers))
        self.n_clusters_ = len(self.leaves)

    def _numbers(self, X) -> np.ndarray:
        columns = [X[c].cat.codes if X[c].dtype == "category" else X[c].fillna(-1) for c in X]
        return np.column_stack([np.asarray(column, float) for column in columns])

    def predict(self, X) -> np.ndarray:
        return np.searchsorted(self.leaves, self.tree.apply(self._numbers(X)))


def _resampled(X, y, group, household, kind: str, rng: np.random.Generator):
    from groupshift.datasets import bias_groups

    cells = _Tree(X, rng) if kind.endswith("tree cells") else None
    seed = int(rng.integers(2**31))
    sample = bias_groups(
        X,
        y,
        group,
        setting=int(kind[8]),
        n_clusters=4,
        partition=cells,
        example_ids=household,
        test_size=0.2,
        random_state=seed,
    )
    return sample.X, sample.y, sample.truth, np.asarray(sample.groups), sample.example_ids


def _held_out(model, X, y, household, seed: int) -> np.ndarray:
    """Cross-fitted, calibrated log-odds of labelled rows by Global's classifier."""
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression

    fold = np.random.default_rng(seed).integers(0, 5, household.max() + 1)[household]
    score = np.empty(len(y))
    estimator = model.posterior_.classifier
    matrix = model.schema_.encoder.transform(X)
    for f in range(5):
        own = fold == f
        score[own] = clone(estimator).fit(matrix[~own], y[~own]).decision_function(matrix[own])
    platt = LogisticRegression(C=1e6).fit(score[:, None], y)
    return platt.decision_function(score[:, None])


def random_intercepts(
    log_odds: np.ndarray, y: np.ndarray, group: np.ndarray, everyone: np.ndarray
) -> np.ndarray:
    """Posterior modes of normal group effects on a logit, their variance by Laplace's approximation of the likelihood."""
    n = int(everyone.max()) + 1
    best, chosen = -np.inf, np.zeros(n)
    for deviation in np.geomspace(0.01, 3, 25):
        effect = np.zeros(n)
        for _ in range(50):
            p = expit(log_odds + effect[group])
            curvature = np.bincount(group, p * (1 - p), n) + deviation**-2
            step = (np.bincount(group, y - p, n) - effect * deviation**-2) / curvature
            effect += np.clip(step, -1, 1)
            if np.abs(step).max() < 1e-6:
                break
        z = log_odds + effect[group]
        likelihood = np.where(y == 1, log_expit(z), log_expit(-z)).sum()
        likelihood -= (effect**2).sum() / deviation**2 / 2 + np.log(curvature * deviation**2).sum() / 2
        if likelihood > best:
            best, chosen = likelihood, effect
    return chosen[everyone]


def scores(p: np.ndarray, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """AUC overall and within groups, log loss, calibration error, mean error of group shares."""
    clipped = np.clip(p, 1e-12, 1 - 1e-12)
    n = np.bincount(group)
    enough = n >= 10
    error = np.abs(np.bincount(group, p - y))[enough] / n[enough]
    bins = np.minimum((rankdata(p) * 20 / (len(p) + 1)).astype(int), 19)
    within = pairs = 0.0
    for g in np.flatnonzero(enough):
        own = group == g
        positives = y[own].sum()
        weight = positives * (own.sum() - positives)
        if weight:
            within, pairs = within + weight * roc_auc_score(y[own], p[own]), pairs + weight
    return {
        "auc": float(roc_auc_score(y, p)),
        "auc_within": float(within / pairs),
        "log_loss": float(-np.mean(np.where(y == 1, np.log(clipped), np.log1p(-clipped)))),
        "calibration_error": float(np.abs(np.bincount(bins, p - y)).sum() / len(p)),
        "share_error": float(error.mean()),
    }


def _intervals(model, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """How often intervals hold the shares of the rows, their width, and the gain that was announced."""
    table = model.group_shares(by="group")
    rows, low, high = (np.asarray(table[name], float) for name in ("rows", "low", "high"))
    names = list(table["group"])
    is_group = np.array([g in set(np.unique(group).tolist()) for g in names])
    truth = np.array(
        [y[group == g].mean() if here else np.nan for g, here in zip(names, is_group, strict=True)]
    )
    kept = is_group & (rows >= 10)
    held = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    overview = model.diagnose().overview
    announced = {
        f"announced{suffix}": float(overview.get(f"expected_loss_gain{suffix}", 0.0))
        for suffix in ("", "_low", "_high")
    }
    return {
        "coverage": float(held[kept].mean()),
        "width": float((high - low)[kept].mean()),
        "n_clusters": int(model.n_clusters_),
        "trust": float(model.trust_),
        **announced,
    }


if __name__ == "__main__":
    # Worker processes find functions by the name of their module, which "__main__" is not.
    from benchmarks import natural_groups

    natural_groups.main()
