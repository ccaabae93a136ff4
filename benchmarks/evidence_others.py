"""Methods of others for the evidence: GPBoost, and MRP as a Bayesian multilevel model by bambi (group `bench`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ablation_methods import FITS, Answer, Method
from benchmarks.evidence_draws import Draw


def gpboost(_: Method, draw: Draw) -> Answer:
    """Boosted trees with a random intercept for each group, the rounds found by its own cross-validation.

    Its documentation calls the number of rounds the most important setting, and `gpb.cv` the way to it.
    """
    import gpboost as gpb

    X, known, names = _matrix(draw.X), draw.y >= 0, draw.group.astype(str)
    settings = {"learning_rate": 0.1, "num_leaves": 31, "verbose": -1, "num_threads": 1, "seed": 0}

    def inputs() -> dict[str, Any]:
        effects = gpb.GPModel(group_data=names[known], likelihood="bernoulli_logit")
        return {
            "params": settings,
            "train_set": gpb.Dataset(X[known], draw.y[known]),
            "gp_model": effects,
        }

    tried = gpb.cv(**inputs(), num_boost_round=300, nfold=4, early_stopping_rounds=10, seed=0)
    loss = next(values for name, values in tried.items() if name.endswith("-mean"))
    rounds = int(np.argmin(loss)) + 1
    booster = gpb.train(**inputs(), num_boost_round=rounds)
    found = booster.predict(data=X[~known], group_data_pred=names[~known], pred_latent=False)
    p = np.asarray(found["response_mean"])
    return Answer(np.column_stack([1 - p, p]), extra={"rounds": rounds})


def mrp(_: Method, draw: Draw) -> Answer:
    """A logistic regression with a random intercept for each group, and for the levels of columns of few values, by NUTS."""
    import bambi
    import pandas as pd

    X, known = _matrix(draw.X), draw.y >= 0
    frame, terms = pd.DataFrame({"g": draw.group.astype(str)}), ["(1|g)"]
    for j, column in enumerate(X.T):
        if len(np.unique(column)) <= 12:
            frame[f"c{j}"] = column.astype(int).astype(str)
            terms.append(f"(1|c{j})")
        else:
            frame[f"x{j}"] = (column - column.mean()) / (column.std() + 1e-9)
            terms.append(f"x{j}")
    frame["y"] = draw.y
    model = bambi.Model(f"y ~ {' + '.join(terms)}", frame[known], family="bernoulli")
    fitted = model.fit(draws=300, tune=500, chains=2, cores=1, random_seed=0, progressbar=False)
    model.predict(fitted, data=frame[~known], kind="response_params", sample_new_groups=True, random_seed=0)
    p = fitted.posterior["p"].mean(("chain", "draw")).to_numpy()
    return Answer(np.column_stack([1 - p, p]))


def _matrix(X: Any) -> np.ndarray:
    if isinstance(X, np.ndarray):
        return X.astype(float)
    columns = [X[name].cat.codes if X[name].dtype == "category" else X[name].fillna(-1) for name in X]
    return np.column_stack(columns).astype(float)


OTHERS: dict[str, Callable[[Method, Draw], Answer]] = {"gpboost": gpboost, "mrp": mrp}
FITS.update(OTHERS)
