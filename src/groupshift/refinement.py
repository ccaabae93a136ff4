"""Learning from the unlabelled rows: their corrected posteriors become soft labels for another round of training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit

from groupshift.posterior import LabeledPosterior, fit_classifier, out_of_fold_scores, raw_score
from groupshift.rows import Rows, fold_of, uniform_keys
from groupshift.tables import concat_rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Each soft row is drawn twice: three rows of training to a labelled one. More change little and cost much.
SOFT_ROWS_PER_LABEL = 1.5
MAX_SOFT_ROWS = 200_000


def n_soft_rows(n_labeled: int) -> int:
    return int(min(max(SOFT_ROWS_PER_LABEL * n_labeled, 10_000), MAX_SOFT_ROWS))


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
        delayed(_fit_soft)(
            estimator,
            labeled.take(hard_rows),
            y[hard_rows],
            sample.take(soft_rows),
            soft[soft_rows],
            seed + 1,
        )
        for hard_rows, soft_rows, soft in jobs
    )


def memorised(
    models: Sequence, posterior: LabeledPosterior, sample: Rows, soft_log_odds: FloatArray, seed: int
) -> float:
    """How much of a row's own soft label the model trained on it gives back: 0 for none, 1 for all of it.

    A classifier that memorises would count the shift of a row twice, once in its score and once on top.
    """
    fold = fold_of(sample.key, len(models) - 1, seed)
    blind = out_of_fold_scores(models[:-1], sample.features, fold, posterior.edge)
    seen = raw_score(models[-1], sample.features, posterior.edge)
    pull = soft_log_odds - blind
    pull = pull - pull.mean()
    return float((pull * (seen - blind)).sum() / max((pull**2).sum(), 1e-300))


def _fit_soft(estimator, labeled: Rows, y, sample: Rows, soft, seed: int):
    """Train on hard labels and on two labels drawn for each soft row, by its probability.

    The draws lie half a unit apart, so that a row of probability 1/2 is once positive and once negative. Unlike weighted
    copies they serve classifiers without weights, and those that are slow with them.
    """
    first = uniform_keys(sample.key, seed)
    drawn = np.concatenate([first < soft, (first + 0.5) % 1 < soft]).astype(np.int64)
    return fit_classifier(
        estimator,
        concat_rows([labeled.features, sample.features, sample.features]),
        np.concatenate([y, drawn]),
        np.concatenate([labeled.weight, sample.weight, sample.weight]),
    )
