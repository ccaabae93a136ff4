"""Learning from the unlabelled rows: their corrected posteriors become soft labels for another round of training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit

from groupshift._fit.estimation import Score, estimate_shifts
from groupshift._fit.posterior import (
    LabeledPosterior,
    fit_classifier,
    out_of_fold_scores,
    raw_score,
    weight_argument,
)
from groupshift._fit.selection import LENIENT, gain, noise_margin, without_shift
from groupshift._rows.frames import concat_rows
from groupshift._rows.rows import Rows, fold_of, in_units, sampled, uniform_keys

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Each soft row is drawn twice: three rows of training to a labelled one. More change little and cost much.
SOFT_ROWS_PER_LABEL = 1.5
MAX_SOFT_ROWS = 60_000
# A classifier that gives back more than this part of a row's own soft label would count its shift twice.
MAX_MEMORISED = 0.25
# Later rounds were hardly ever confirmed.
MAX_ROUNDS = 1


def n_soft_rows(n_labeled: int) -> int:
    return int(min(max(SOFT_ROWS_PER_LABEL * n_labeled, 10_000), MAX_SOFT_ROWS))


class SoftTraining:
    """Training on soft labels too, model by model: one for each fold and one for all rows, as in `training_sets`.

    Each fold's soft labels come from the model that did not see the fold, and no row trains the model that scores it.

    Parameters
    ----------
    models : models of the round before, one per fold and last the one for all rows
    sample : unlabelled rows to learn from
    shift : array of shape (n_groups, n_clusters)
        Shifts that correct the labelled posterior of `sample`.
    """

    def __init__(self, fitting: Any, posterior: LabeledPosterior, sample: Rows, shift: FloatArray):
        self.fitting = fitting
        self.models = fitting.models
        self.posterior = posterior
        self.sample = sample
        self.cluster = posterior.partition.predict(sample)
        self.shift = shift[sample.group, self.cluster]
        self.fold = fold_of(sample.key, len(self.models) - 1, fitting.seed)

    def fit(self, numbers: Sequence[int]) -> list:
        """The models with the given numbers."""
        return Parallel(n_jobs=self.fitting.model.n_jobs)(delayed(_fit_soft)(*self._job(f)) for f in numbers)

    def _job(self, f: int) -> tuple:
        fitting, sample = self.fitting, self.sample
        raw = raw_score(self.models[f], sample.features, self.posterior.edge)
        soft = expit(self.posterior.calibration.transform(raw, self.cluster) + self.shift)
        hard_rows, soft_rows = np.flatnonzero(fitting.fold != f), np.flatnonzero(self.fold != f)
        return (
            fitting.estimator,
            fitting.labeled.take(hard_rows),
            fitting.y[hard_rows],
            sample.take(soft_rows),
            soft[soft_rows],
            fitting.seed + 1,
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


def refine(fitting: Any) -> None:
    """Rounds of learning from unlabelled rows, each kept only if hidden labels confirm it."""
    model = fitting.model
    rounds = MAX_ROUNDS if model.refine == "auto" else int(model.refine)
    if not rounds or len(fitting.models) < 3 or weight_argument(fitting.estimator) is None:
        return
    if model.refine == "auto" and (fitting.trial is None or not np.any(model.shift_)):
        return
    n_soft = n_soft_rows(len(fitting.y))
    for number in range(1, rounds + 1):
        fitting.step(f"learning from unlabelled rows, round {number}")
        if not _refine_once(fitting, n_soft):
            fitting.note(
                f"Round {number} of learning from unlabelled rows was not confirmed and is left out."
            )
            break
        fitting.note(f"Round {number} of learning from unlabelled rows was kept.")


def _refine_once(fitting: Any, n_soft: int) -> bool:
    model = fitting.model
    sample = in_units(fitting.population.sample(n_soft, fitting.seed), fitting.unit)
    posterior = model.posterior_
    before = (
        fitting.models,
        fitting.score,
        fitting.trial,
        fitting.loss,
        model.context_,
        list(model.notes_),
    )
    training = SoftTraining(fitting, posterior, sample, model.shift_)
    models = training.fit([0])
    judged = model.refine == "auto" and fitting.trial is not None
    if judged and not fitting.promises(models[0], fitting.candidate):
        return False
    models += training.fit(range(1, len(fitting.models)))
    soft_log_odds = posterior.score(sample)[0] + training.shift
    if memorised(models, posterior, sample, soft_log_odds, fitting.seed) > MAX_MEMORISED:
        return False
    fitting.models = models
    fitting.score = fitting.blind_scores(models[:-1], fitting.candidate.cluster)
    fitting.trial = fitting.try_candidate(fitting.candidate)
    if fitting.trial is not None and model.trust_ == 0:
        fitting.trial = without_shift(fitting.trial, fitting.labeled_rows())
    old_loss = before[3]
    fitting.settle()
    if judged:
        rows = fitting.labeled_rows()
        mean, error = gain(old_loss, fitting.loss, rows)
        if mean <= noise_margin(rows.n_groups, LENIENT) * error:
            fitting.models, fitting.score, fitting.trial, fitting.loss, model.context_, model.notes_ = before
            fitting.settle()
            model.notes_ = before[-1]
            return False
    estimate_shifts(model, fitting.population, fitting.known_shares, score=_blind_score(fitting, n_soft))
    return True


def _blind_score(fitting: Any, n_soft: int) -> Score:
    """A scorer that asks, of rows that were trained on, the model that did not see them."""
    posterior, models, seed = fitting.model.posterior_, fitting.models, fitting.seed
    share = n_soft / fitting.population.n_rows

    def score(rows: Rows) -> tuple[FloatArray, IntArray]:
        cluster = posterior.partition.predict(rows)
        fold = np.where(
            sampled(rows.key, share, seed), fold_of(rows.key, len(models) - 1, seed), len(models) - 1
        )
        raw = out_of_fold_scores(models, rows.features, fold, posterior.edge)
        return posterior.calibration.transform(raw, cluster), cluster

    return score
