"""What drives a prediction: how much worse hidden labels are predicted when a feature is shuffled."""

import numpy as np

from groupshift._data.frames import Features, as_frame, concat_rows, take_rows
from groupshift._data.keys import uniform_keys
from groupshift._data.problem import Problem
from groupshift._math.arrays import FloatArray
from groupshift._scores.contrasts import log_loss
from groupshift.pipeline import Fit

# More rows do not change which features matter, and of many features only those that move scores can.
MAX_ROWS, MAX_FEATURES = 1_000, 20
# Parts into which the values of a feature are cut, to see whether scores follow it at all.
N_PARTS = 10


def feature_importance(problem: Problem, fit: Fit) -> dict[str, float]:
    """Rise of the log loss of held-out labels when a feature is shuffled over the rows, by feature, the largest first.

    Only the features that scores follow most are tried. Empty where no label could be held out.
    """
    judged = fit.judged
    if judged.fold is None:
        return {}
    order = np.argsort(uniform_keys(judged.rows.key, problem.seeds.named("importance rows")), kind="stable")
    few = np.sort(order[:MAX_ROWS])
    rows, y, fold, cluster = judged.rows.take(few), judged.y[few], judged.fold[few], judged.cluster[few]
    shuffled = np.argsort(uniform_keys(rows.key, problem.seeds.named("importance")), kind="stable")

    follows = [_follows(judged.plain[few], np.asarray(column, float)) for column in rows.matrix.T]
    tried = np.argsort(follows, kind="stable")[::-1][:MAX_FEATURES]
    # All shuffled tables below each other: trees take a large table in a fraction of the time of many small ones.
    tables = [rows.features, *(_with_shuffled(rows.features, int(j), shuffled) for j in tried)]
    features, n = concat_rows(tables), len(tables)
    fold, y, cluster = (np.tile(values, n) for values in (fold, y, cluster))
    scores = fit.scores.by_fold(features, cluster, fold)
    before, *losses = np.average(log_loss(scores, y).reshape(n, -1), axis=1, weights=rows.weight).tolist()
    names = problem.encoder.names_
    found = {names[j]: loss - before for j, loss in zip(tried, losses, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _follows(score: FloatArray, values: FloatArray) -> float:
    """Part of the variance of scores (n_rows, M) between parts of a feature's values, whatever these mean."""
    ranks = np.unique(values, return_inverse=True)[1]
    part = ranks * N_PARTS // (ranks.max() + 1)
    count, away = np.bincount(part), score - score.mean(0)
    between = sum((np.bincount(part, weights=column) ** 2 / np.maximum(count, 1)).sum() for column in away.T)
    return float(between / max(float((away**2).sum()), 1e-300))


def _with_shuffled(features: Features, j: int, order: np.ndarray) -> Features:
    """Features in which column j is that of other rows."""
    frame = as_frame(features)
    if frame is None:
        moved = features.copy()
        moved[:, j] = moved[order, j]
        return moved
    other = as_frame(take_rows(features, order))
    assert other is not None
    name = frame.columns[j]
    return frame.with_columns(other.get_column(name).alias(name)).to_native()
