"""The labelled posterior: a classifier's score, held where labels say is best, and calibrated in each cluster."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from groupshift._fit.classifiers import (
    FINEST_EDGE,
    Classifier,
    hold,
    out_of_fold_scores,
    raw_score,
)
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.calibration import PlattScaling, as_far_as_shown, mean_offsets
from groupshift._math.odds import log_loss_rows
from groupshift._regions.partitions import Partition
from groupshift._rows.keys import fold_of
from groupshift._rows.rows import Rows


def probability_edge(n_rows: int) -> float:
    """Trained on n rows, nobody knows a probability finer than 1 in n.

    >>> probability_edge(98)
    0.01
    """
    return 1 / (n_rows + 2)


def choose_edge(log_odds: FloatArray, y: IntArray, weight: FloatArray) -> float:
    """How far to hold log-odds from infinity: by the number of rows, or less if Platt scaling then predicts labels better.

    A forest whose votes are unanimous is not certain, and is best held. Boosted trees go on telling rows apart far beyond;
    a standard error of the gain must show it. Log-odds are those of rows that the classifier was not trained on.
    """
    coarse = probability_edge(len(y))
    if np.abs(log_odds).max() <= logit(1 - coarse):
        return coarse

    def loss(edge: float) -> FloatArray:
        return calibrated_loss(hold(log_odds, edge), y, weight)

    return as_far_as_shown((coarse, coarse**2, FINEST_EDGE), loss, weight)


def calibrated_loss(score: FloatArray, y: IntArray, weight: FloatArray) -> FloatArray:
    """Log loss of rows after Platt scaling of all of them together."""
    everyone = np.zeros(len(y), np.int64)
    platt = PlattScaling().fit(score, y, weight, everyone, 1)
    return log_loss_rows(platt.transform(score, everyone), y)


@dataclass(frozen=True)
class LabeledPosterior:
    """logit ρ̃(x) of rows, with the cluster that each belongs to."""

    classifier: Classifier
    partition: Partition
    calibration: PlattScaling  # learned from scores by models of folds, where there are any
    edge: float | None  # see `raw_score`
    # (n_clusters,): added to log-odds, see `aligned`; None where no models of folds say what to add.
    offset: FloatArray | None = None

    def score(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        cluster = self.partition.predict(rows)
        return self.log_odds(raw_score(self.classifier, rows.features, self.edge, cluster), cluster), cluster

    def log_odds(self, raw: FloatArray, cluster: IntArray) -> FloatArray:
        """What the classifier's scores say."""
        log_odds = self.calibration.transform(raw, cluster)
        return log_odds if self.offset is None else log_odds + self.offset[cluster]

    def aligned(self, models: tuple[Classifier, ...], sample: Rows, seed: int) -> "LabeledPosterior":
        """The same, with the mean probability in each cluster of the population that models of folds would give it.

        These have seen fewer labels than the last model, and calibration was learned from their scores: those of the last model
        differ a little, which would pass for a shift of all groups. A sample of the population is scored by both, each
        row by the model of its fold.
        """
        cluster, n_clusters = self.partition.predict(sample), self.partition.n_clusters
        fold = fold_of(sample.lasting_key, len(models), seed)
        blind = out_of_fold_scores(models, sample.features, fold, self.edge, cluster)
        raw = raw_score(self.classifier, sample.features, self.edge, cluster)
        before, wanted = (self.calibration.transform(score, cluster) for score in (raw, blind))
        return replace(self, offset=mean_offsets(before, wanted, sample.weight, cluster, n_clusters))


@dataclass(frozen=True)
class FoldPosterior:
    """The labelled posterior of rows that classifiers were trained on, each row scored by one that did not see it.

    Folds of rows are drawn by their lasting keys: a row has its fold in any table.
    """

    posterior: LabeledPosterior
    models: tuple[Classifier, ...]  # each trained without the rows of one fold
    seed: int  # of the stream that folds are drawn from

    def score(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        cluster = self.posterior.partition.predict(rows)
        fold = fold_of(rows.lasting_key, len(self.models), self.seed)
        score = out_of_fold_scores(self.models, rows.features, fold, self.posterior.edge, cluster)
        return self.posterior.calibration.transform(score, cluster), cluster
