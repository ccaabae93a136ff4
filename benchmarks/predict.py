"""`predict_proba` of a million rows against the bare classifier's."""

import numpy as np
from scipy.special import logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.data import paper_sample
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier

CLASSIFIERS = {
    "boosted trees and a linear model (default)": None,
    "forest": RandomForestClassifier(n_estimators=100, max_depth=10, n_jobs=-1),
    "logistic regression": LogisticRegression(),
}
# How many times the bare classifier's time is allowed.
REACH = {"boosted trees and a linear model (default)": 2.0, "logistic regression": 3.0}


def measure(quick: bool, repeats: int) -> dict:
    n_rows = 200_000 if quick else 1_000_000
    sample = paper_sample(100, 300)
    X, y, groups, _ = sample.training()
    pick = np.random.default_rng(0).integers(0, len(X), n_rows)
    many, many_groups = np.ascontiguousarray(X[pick]), groups[pick]
    lines, details = [], {}
    for name, classifier in CLASSIFIERS.items():
        model = GroupShiftClassifier(classifier, partition=4, random_state=0)
        model.fit(X, y, groups=groups)
        bare = model.learned_.posterior.scorer.members[0]
        found = side_by_side(
            {
                "groupshift": lambda m=model: m.predict_proba(many, many_groups),
                "bare": lambda b=bare: b.predict_proba(many),
            },
            repeats=repeats,
        )
        ratio = found["groupshift"]["median"] / found["bare"]["median"]
        details[name] = {side: timing(result) for side, result in found.items()}
        # The shift must be the only difference: labelled log-odds plus the cell's shift.
        error = _difference(model, many[:1000], many_groups[:1000])
        lines.append(
            line(
                f"predict_proba, {n_rows:,} rows, {name}",
                "the bare classifier's predict_proba",
                ratio=ratio,
                reach=f"<= {REACH[name]:g}" if name in REACH else "shown",
                met=ratio <= REACH.get(name, np.inf),
                accuracy=f"equals Theorem 2 by hand to {error:.0e}",
            )
        )
    return {"details": details, "lines": lines}


def _difference(model, X, groups) -> float:
    from groupshift._data.rows import Rows

    n = len(X)
    rows = Rows(X, X, np.zeros(n, int), np.ones(n), np.arange(n).astype(np.uint64))
    score, cluster = model.learned_.posterior(rows)
    group = np.searchsorted(model.groups_, groups)
    found = model.predict_proba(X, groups)[:, 1]
    return float(np.abs(logit(found) - score[:, 0] - model.shift_[group, cluster]).max())


if __name__ == "__main__":
    run("predict", "Predicting a million rows", measure)
