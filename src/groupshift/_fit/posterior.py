"""The labelled posterior: a classifier's score, held where labels say is best, and calibrated in each cluster."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from groupshift._fit.classifiers import (
    FINEST_EDGE,
    Classifier,
    PerClusterClassifier,
    hold,
    out_of_fold_scores,
    raw_score,
)
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.calibration import PlattScaling, lines_between
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
    chosen = coarse = probability_edge(len(y))
    if np.abs(log_odds).max() <= logit(1 - coarse):
        return chosen
    everyone = np.zeros(len(y), np.int64)

    def loss(edge: float) -> FloatArray:
        score = hold(log_odds, edge)
        platt = PlattScaling().fit(score, y, weight, everyone, 1)
        return log_loss_rows(platt.transform(score, everyone), y)

    lowest = loss(coarse)
    for edge in (coarse**2, FINEST_EDGE):
        wider = loss(edge)
        gain = weight * (lowest - wider)
        if gain.sum() > np.sqrt((gain**2).sum()):
            chosen, lowest = edge, wider
    return chosen


@dataclass(frozen=True)
class Scored:
    """Log-odds of unlabelled rows, and their clusters."""

    log_odds: FloatArray  # that shares are learned from
    predicted: FloatArray | None  # that rows will be predicted with; None where they are the same
    cluster: IntArray


@dataclass(frozen=True)
class LabeledPosterior:
    """logit ρ̃(x) of rows, with the cluster that each belongs to."""

    classifier: Classifier
    partition: Partition
    calibration: PlattScaling
    edge: float | None  # see `raw_score`

    def raw(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        """Scores before calibration, and clusters."""
        cluster = self.partition.predict(rows)
        if isinstance(self.classifier, PerClusterClassifier):
            return self.classifier.scores(rows.features, cluster, self.edge), cluster
        return raw_score(self.classifier, rows.features, self.edge), cluster

    def score(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        raw, cluster = self.raw(rows)
        return self.calibration.transform(raw, cluster), cluster

    def scored(self, rows: Rows) -> Scored:
        log_odds, cluster = self.score(rows)
        return Scored(log_odds, None, cluster)


@dataclass(frozen=True)
class AlignedPosterior:
    """The labelled posterior on the scale of scores by models of folds, as labelled rows are scored.

    Such models have seen fewer labels than the last one: its scores lie a little further apart, which would pass for a shift of
    all groups. A line for each cluster takes that away, and the trees are asked once.
    """

    posterior: LabeledPosterior
    calibration: PlattScaling

    @classmethod
    def of(
        cls, posterior: LabeledPosterior, models: tuple[Classifier, ...], sample: Rows, seed: int
    ) -> "AlignedPosterior":
        """Lines after which scores of the sample have the mean and the spread of those by the models of folds."""
        raw, cluster = posterior.raw(sample)
        fold = fold_of(sample.lasting_key, len(models), seed)
        blind = out_of_fold_scores(models, sample.features, fold, posterior.edge, cluster)
        slope, intercept = lines_between(
            raw, blind, sample.weight, cluster, len(posterior.calibration.slope_)
        )
        return cls(posterior, posterior.calibration.after(slope, intercept))

    def score(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        raw, cluster = self.posterior.raw(rows)
        return self.calibration.transform(raw, cluster), cluster

    def scored(self, rows: Rows) -> Scored:
        raw, cluster = self.posterior.raw(rows)
        predicted = self.posterior.calibration.transform(raw, cluster)
        return Scored(self.calibration.transform(raw, cluster), predicted, cluster)


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

    def scored(self, rows: Rows) -> Scored:
        log_odds, cluster = self.score(rows)
        return Scored(log_odds, self.posterior.score(rows)[0], cluster)
