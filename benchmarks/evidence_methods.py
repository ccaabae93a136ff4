"""Methods of `evidence`: each gives probabilities of the rows without labels. All but GPBoost have the same boosted trees."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from groupshift._fit.classifiers import raw_score
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.ablation_methods import random_intercepts
from benchmarks.evidence_draws import Draw
from benchmarks.evidence_scores import interval_scores
from groupshift import GroupShiftClassifier

GLOBAL = {"partition": 1, "shares": None, "shrinkage": "none", "trust": 1.0, "refine": 0}
EM = {"shares": "em", "shrinkage": "none", "trust": 1.0, "refine": 0, "labeled_prior": "share"}
# Probabilities of the rows without labels, and what else is measured.
Found = tuple[np.ndarray, dict[str, float]]


def _ours(draw: Draw, seed: int, **settings: Any) -> Found:
    return _found(_fitted(draw, seed, **settings), draw)


def _found(model: GroupShiftClassifier, draw: Draw) -> Found:
    hidden = draw.y < 0
    return _predicted(model, draw), interval_scores(model, draw.truth[hidden], draw.group[hidden])


def _others(draw: Draw, seed: int, **settings: Any) -> Found:
    """Methods of others that are ours with other settings; they promise no intervals."""
    return _predicted(_fitted(draw, seed, **settings), draw), {}


@lru_cache(maxsize=1)
def _one_cluster(draw: Draw, seed: int) -> GroupShiftClassifier:
    """Global and label shift in one fit: the second is the first and a number for each group."""
    return _fitted(draw, seed, partition=1, **EM)


def _label_shift(draw: Draw, seed: int) -> Found:
    return _predicted(_one_cluster(draw, seed), draw), {}


def _global(draw: Draw, seed: int) -> Found:
    """One calibrated classifier that does not know the group."""
    return expit(_log_odds(_one_cluster(draw, seed), draw)), {}


def _log_odds(model: GroupShiftClassifier, draw: Draw) -> np.ndarray:
    """Before any shift, of the rows without labels."""
    rows, _ = model._read_rows(draw.X[draw.y < 0], None)
    return model.posterior_.score(rows)[0]


def _fitted(draw: Draw, seed: int, **settings: Any) -> GroupShiftClassifier:
    model = GroupShiftClassifier(random_state=seed, n_jobs=1, **settings)
    copies = len(np.unique(draw.example)) < len(draw.example)
    return model.fit(draw.X, draw.y, groups=draw.group, example_ids=draw.example if copies else None)


def _predicted(model: GroupShiftClassifier, draw: Draw) -> np.ndarray:
    hidden = draw.y < 0
    return model.predict_proba(draw.X[hidden], draw.group[hidden])[:, 1]


def _told(draw: Draw, seed: int) -> Found:
    """Ours, told the cells in which classes were shifted: what a better partition could reach at most.

    With one classifier for all cells or one for each, whichever predicts hidden labels better: the judge, which decides
    that otherwise, has nothing to judge where cells are given.
    """
    # The default trees would hand their own codes of categories to the cells, which know the columns as they are.
    trees = HistGradientBoostingClassifier(early_stopping=False, categorical_features="from_dtype")
    given = {"partition": draw.partition, "estimator": None if isinstance(draw.X, np.ndarray) else trees}
    models = [_fitted(draw, seed, **given, per_cluster=each) for each in (False, True)]
    return _found(min(models, key=lambda model: model.diagnose().overview["loss_model"]), draw)


def _with_group(draw: Draw, seed: int) -> Found:
    """Global with the group among the features: trees take it as a category, which is one-hot groups and more."""
    import pandas as pd

    X = draw.X.copy() if isinstance(draw.X, pd.DataFrame) else pd.DataFrame(draw.X).add_prefix("x")
    X["group"] = pd.Series(draw.group).astype(str).astype("category")
    beside = Draw(X, draw.y, draw.truth, draw.group, draw.example)
    return _others(beside, seed, **GLOBAL)


def _intercepts(draw: Draw, seed: int) -> Found:
    """Global, and one number for each group, learned from its labels as in a mixed model."""
    model = _one_cluster(draw, seed)
    known = draw.y >= 0
    own = _held_out(model, draw.X[known], draw.y[known], draw.example[known], seed)
    effect = random_intercepts(own, draw.y[known], draw.group[known], int(draw.group.max()) + 1)
    return expit(_log_odds(model, draw) + effect[draw.group[~known]]), {}


def _held_out(model, X, y, example, seed: int) -> np.ndarray:
    """Cross-fitted, calibrated log-odds of labelled rows by Global's classifier."""
    fold = np.random.default_rng(seed).integers(0, 5, example.max() + 1)[example]
    score = np.empty(len(y))
    matrix = model.schema_.encoder.transform(X)
    for f in range(5):
        own = fold == f
        trained = clone(model.posterior_.classifier).fit(matrix[~own], y[~own])
        score[own] = raw_score(trained, matrix[own], None)
    platt = LogisticRegression(C=1e6).fit(score[:, None], y)
    return platt.decision_function(score[:, None])


def _gpboost(draw: Draw, seed: int) -> Found:
    """GPBoost: boosted trees with a random intercept for each group, the rounds found by its own cross-validation.

    Its documentation calls the number of rounds the most important setting, and `gpb.cv` the way to it.
    """
    import gpboost as gpb
    import pandas as pd

    X = draw.X
    categories = "auto"
    if isinstance(X, pd.DataFrame):
        categories = [j for j, name in enumerate(X) if X[name].dtype == "category"]
        X = np.column_stack([X[name].cat.codes if j in categories else X[name] for j, name in enumerate(X)])
    known = draw.y >= 0
    names = draw.group.astype(str)
    settings = {"learning_rate": 0.1, "num_leaves": 31, "verbose": -1, "num_threads": 1, "seed": seed}

    def inputs() -> dict[str, Any]:
        effects = gpb.GPModel(group_data=names[known], likelihood="bernoulli_logit")
        rows = gpb.Dataset(np.asarray(X, float)[known], draw.y[known], categorical_feature=categories)
        return {"params": settings, "train_set": rows, "gp_model": effects}

    tried = gpb.cv(**inputs(), num_boost_round=300, nfold=4, early_stopping_rounds=10, seed=seed)
    loss = next(values for name, values in tried.items() if name.endswith("-mean"))
    booster = gpb.train(**inputs(), num_boost_round=int(np.argmin(loss)) + 1)
    rows = np.asarray(X, float)[~known]
    found = booster.predict(data=rows, group_data_pred=names[~known], pred_latent=False)
    return np.asarray(found["response_mean"]), {"rounds": int(np.argmin(loss)) + 1}


def _bayes(draw: Draw, seed: int) -> Found:
    """The probabilities that generated the rows: no method can do better but by luck."""
    assert draw.posterior is not None
    return draw.posterior[draw.y < 0], {}


METHODS: dict[str, Callable[[Draw, int], Found]] = {
    "global": _global,
    "random intercept": _intercepts,
    "group as feature": _with_group,
    "label shift": _label_shift,
    "published": partial(_others, partition="silhouette", per_cluster=True, **EM),
    "groupshift": _ours,
    "groupshift random": partial(_ours, selection="random"),
    "groupshift told": _told,
    "gpboost": _gpboost,
    "bayes": _bayes,
}


def methods_of(draw: Draw, kind: str, *, with_gpboost: bool) -> list[str]:
    """Those that can be run on a draw: the bound needs known cells, the limit a known posterior."""
    fit = {
        "groupshift random": kind == "random",
        "groupshift told": draw.partition is not None,
        "gpboost": with_gpboost,
        "bayes": draw.posterior is not None,
    }
    return [name for name in METHODS if fit.get(name, True)]
