"""Learning from the unlabelled rows: their corrected posteriors become soft labels for another round of training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit

from groupshift.posterior import LabeledPosterior, fit_classifier, out_of_fold_scores, raw_score
from groupshift.rows import Rows, fold_of
from groupshift.tables import concat_rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Beyond three soft rows to a labelled one, more of them change little and cost much.
SOFT_ROWS_PER_LABEL = 3
MAX_SOFT_ROWS = 200_000


def n_soft_rows(n_labeled: int) -> int:
    return min(max(SOFT_ROWS_PER_LABEL * n_labeled, 10_000), MAX_SOFT_ROWS)


def refine_models(
    estimator: Any,
    labeled: Rows,
    y: IntArray,
    fold: IntArray,
    models: Sequence,
    posterior: LabeledPosterior,
    sample: Rows,
    shift: FloatArray,
    *,
    seed: int,
    n_jobs: int | None,
) -> list:
    """One model per fold and one for all rows, as `crossfit_models`, trained on soft labels too.

    Each fold's soft labels come from the model that did not see the fold, and no row trains the model that scores it.

    Parameters
    ----------
    models : models of the round before, one per fold and last the one for all rows
    sample : unlabelled rows to learn from
    shift : array of shape (n_groups, n_clusters)
        Shifts that correct the labelled posterior of `sample`.
    """
    cluster = posterior.partition.predict(sample)
    soft_fold = fold_of(sample.key, len(models) - 1, seed)
    jobs = []
    for f, model in enumerate(models):
        log_odds = posterior.calibration.transform(raw_score(model, sample.features, posterior.edge), cluster)
        soft = expit(log_odds + shift[sample.group, cluster])
        jobs.append((np.flatnonzero(fold != f), np.flatnonzero(soft_fold != f), soft))
    return Parallel(n_jobs=n_jobs)(
        delayed(_fit_soft)(estimator, labeled.take(hard_rows), y[hard_rows], sample.take(soft_rows), soft[soft_rows])
        for hard_rows, soft_rows, soft in jobs
    )


def memorised(models: Sequence, posterior: LabeledPosterior, sample: Rows, soft_log_odds: FloatArray, seed: int) -> float:
    """How much of a row's own soft label the model trained on it gives back: 0 for none, 1 for all of it.

    A classifier that memorises would count the shift of a row twice, once in its score and once on top.
    """
    fold = fold_of(sample.key, len(models) - 1, seed)
    blind = out_of_fold_scores(models[:-1], sample.features, fold, posterior.edge)
    seen = raw_score(models[-1], sample.features, posterior.edge)
    pull = soft_log_odds - blind
    pull = pull - pull.mean()
    return float((pull * (seen - blind)).sum() / max((pull**2).sum(), 1e-300))


def _fit_soft(estimator, labeled: Rows, y, sample: Rows, soft):
    """Train on hard labels and on each soft row twice, as a positive and as a negative, by its probability."""
    features = concat_rows([labeled.features, sample.features, sample.features])
    target = np.concatenate([y, np.ones(len(sample), np.int64), np.zeros(len(sample), np.int64)])
    weight = np.concatenate([labeled.weight, sample.weight * soft, sample.weight * (1 - soft)])
    return fit_classifier(estimator, features, target, weight)

