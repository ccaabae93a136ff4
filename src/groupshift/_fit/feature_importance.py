"""What drives a prediction: how much worse hidden labels are predicted when a feature is shuffled."""

import numpy as np

from groupshift._fit.classifiers import out_of_fold_scores, raw_score
from groupshift._fit.learned import Learned
from groupshift._fit.problem import Problem
from groupshift._fit.trained import Trained
from groupshift._math.arrays import FloatArray
from groupshift._math.odds import log_loss_rows
from groupshift._rows.frames import Features, as_frame, concat_rows, take_rows
from groupshift._rows.keys import uniform_keys

# More rows do not change which features matter, and of many features only those that move scores can.
MAX_ROWS, MAX_FEATURES = 1_000, 20
# Parts into which the values of a feature are cut, to see whether scores follow it at all.
N_PARTS = 10


def feature_importance(problem: Problem, trained: Trained, learned: Learned) -> dict[str, float]:
    """Rise of the log loss of hidden labels when a feature is shuffled over the rows, by feature, the largest first.

    Only the features that scores follow most are tried. Empty where no label could be hidden.
    """
    if trained.fold is None:
        return {}
    few = trained.few(problem, MAX_ROWS, "importance rows")
    rows, y, fold = (
        problem.labeled.take(trained.judged[few]),
        problem.y[trained.judged[few]],
        trained.fold[few],
    )
    cluster = learned.posterior.partition.predict(rows)
    shuffled = np.argsort(uniform_keys(rows.key, problem.seeds.named("importance")), kind="stable")

    follows = [_follows(trained.score[few], np.asarray(column, float)) for column in rows.matrix.T]
    tried = np.argsort(follows, kind="stable")[::-1][:MAX_FEATURES]
    # All shuffled tables below each other: trees take a large table in a fraction of the time of many small ones.
    tables = [rows.features, *(_with_shuffled(rows.features, int(j), shuffled) for j in tried)]
    features, n = concat_rows(tables), len(tables)
    fold, cluster, y = (np.tile(values, n) for values in (fold, cluster, y))
    if trained.fold_models:
        score = out_of_fold_scores(trained.fold_models, features, fold, trained.edge, cluster)
    else:
        assert trained.last is not None
        score = raw_score(trained.last, features, trained.edge)
    log_loss = log_loss_rows(learned.posterior.calibration.transform(score, cluster), y)
    before, *losses = np.average(log_loss.reshape(n, -1), axis=1, weights=rows.weight).tolist()
    names = problem.encoder.names_
    found = {names[j]: loss - before for j, loss in zip(tried, losses, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _follows(score: FloatArray, values: FloatArray) -> float:
    """Part of the variance of scores between parts of a feature's values, whatever these mean."""
    ranks = np.unique(values, return_inverse=True)[1]
    part = ranks * N_PARTS // (ranks.max() + 1)
    count = np.bincount(part)
    mean = np.bincount(part, weights=score) / np.maximum(count, 1)
    return float(
        (count * (mean - score.mean()) ** 2).sum() / max(float(((score - score.mean()) ** 2).sum()), 1e-300)
    )


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
