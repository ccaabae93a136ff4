"""What labelled rows teach: calibration, shares of the labelled sample, and how far to trust shifts."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import expit

from groupshift._article import labeled_shares, platt_lines
from groupshift._fit.hidden_groups import HiddenGroups, knows_groups
from groupshift._fit.judge import Judged
from groupshift._fit.looked_at import look_at_labeled
from groupshift._fit.own_views import Foretold, OwnViews, foretell
from groupshift._fit.pooled import MAX_CLUSTERING_ROWS, Pooled
from groupshift._fit.posterior import FoldPosterior, LabeledPosterior
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.trained import Trained
from groupshift._fit.trials import (
    LabeledRows,
    Trial,
    confirmed,
    expected_prior,
    gain,
    labeled_prior,
    rarer_class_rows,
)
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.calibration import PlattScaling
from groupshift._math.context import Context
from groupshift._math.feature_means import FeatureMeans
from groupshift._math.label_shift import prediction_rates
from groupshift._math.odds import log_loss_rows
from groupshift._math.trust import UNCHECKED_TRUST, UNCHECKED_VARIANCE, residual_variance
from groupshift._regions.space import Space

# A regression over groups learns from the groups it is judged on, each left out in turn: one chance in ten is allowed.
CONTEXT_LEVEL = 0.9
# Unlabelled rows that are scored by models of folds too: the mean difference of so many is known to some thousandths.
MAX_ALIGNED_ROWS = 5_000
# Fewer groups than this cannot tell a line through them from chance.
MIN_CONTEXT_GROUPS = 20

# Rates of predicted positives among the positives and among the negatives of each cluster.
PredictionRates: TypeAlias = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class AnyLearned:
    """Everything that labelled rows taught, whatever the number of classes; `update` keeps it as it is."""

    labeled_prior: FloatArray  # (n_clusters,): α̃_k; of more than two classes (n_clusters, n_classes): π
    labeled_rows: IntArray  # (n_clusters,)
    trust: float  # factor on every shift
    trust_variance: float
    design_effect: float  # how many times fewer examples than rows there are; of more classes, in groups
    labeled_groups: ValueArray
    shares: str | None
    shrinkage: str
    selection: str
    seed: int  # of the integration over what own and population views have in common

    @property
    def n_clusters(self) -> int:
        return len(self.labeled_prior)

    @property
    def is_alone(self) -> bool:
        """Whether each cell is corrected alone, as in the article."""
        return self.shares == "em" and self.shrinkage == "none"


@dataclass(frozen=True)
class Learned(AnyLearned):
    """Of two classes."""

    posterior: LabeledPosterior
    # Scores the population: as any row, or, where its rows were learned from, by models that did not see them.
    population_posterior: LabeledPosterior | FoldPosterior
    rarer_class_rows: FloatArray  # (n_clusters,): labelled rows of the rarer class, copies counted once
    prediction_rates: PredictionRates | None  # for BBSE alone
    space: Space
    residual_variance: float  # of true shifts around trusted ones
    context: Context | None  # what a group's mean features say about its shift
    own: OwnViews | None  # None: shifts are those of the population's scores, times the trust
    hidden: (
        OwnViews | None
    )  # the same by classifiers that saw no label of a group, for groups without labels; None: as `own`
    # What labelled rows say of the directions of feature space; None where no common shift is asked about, and in older files.
    means: FeatureMeans | None = None
    left_out: tuple[str, ...] = ()  # features that the classifiers do not see, since they tell the group


@dataclass(frozen=True)
class Settled:
    """What was learned, and what only later steps of the same fit need of it."""

    learned: Learned
    loss: FloatArray | None  # of each judged row, its group's labels hidden; None where none were
    hidden_shift: FloatArray | None = None  # of each judged row, by which that loss came about
    by_groups: tuple[HiddenGroups, FloatArray] | None = (
        None  # scores without the group's labels, and shifts of the rows
    )
    notes: Notes = ()


def settle(problem: Problem, pooled: Pooled, judged: Judged, hidden: HiddenGroups | None) -> Settled:
    """Calibration, trust and context for the chosen partition; everything that shares depend on."""
    trained, candidate = judged.trained, judged.candidate
    assert trained.last is not None
    rows = problem.labeled.take(trained.judged)
    y, cluster = problem.y[trained.judged], candidate.cluster[trained.judged]
    n_clusters = candidate.n_clusters
    calibration = _calibration(problem, trained.score, y, rows.weight, cluster, n_clusters)
    log_odds = calibration.transform(trained.score, cluster)
    posterior = LabeledPosterior(trained.last, candidate.partition, calibration, trained.edge)
    unlabeled = pooled.unlabeled(MAX_ALIGNED_ROWS)
    if trained.fold_models and len(unlabeled):
        posterior = posterior.aligned(trained.fold_models, unlabeled, problem.seeds.named("aligned folds"))
    trust = _settle_trust(problem, pooled, judged, hidden)
    learned = Learned(
        posterior=posterior,
        population_posterior=posterior,
        labeled_prior=(
            _share_of_positives(problem, candidate.cluster, n_clusters)
            if problem.settings.labeled_prior == "share"
            else expected_prior(log_odds, rows.weight, cluster, n_clusters)
        ),
        labeled_rows=np.bincount(candidate.cluster, minlength=n_clusters),
        rarer_class_rows=rarer_class_rows(problem.y, candidate.cluster, n_clusters, trained.design_effect),
        prediction_rates=_rates(problem, log_odds, y, rows.weight, cluster, n_clusters),
        space=pooled.space,
        trust=trust.value,
        trust_variance=trust.variance,
        residual_variance=(
            _plain_variance(problem, judged, log_odds)
            if problem.settings.shares is None
            else trust.residual_variance
        ),
        context=trust.context,
        # Copies in the population repeat each other as much as those among labelled rows do.
        design_effect=1 + (pooled.population_effect - 1) * trained.copy_correlation,
        labeled_groups=problem.labeled_groups,
        shares=problem.settings.shares,
        shrinkage=problem.settings.shrinkage,
        own=trust.own,
        hidden=trust.hidden,
        selection=problem.settings.selection,
        seed=problem.seeds.named("views"),
        left_out=trained.left_out,
        means=(
            None
            if trust.own is None or problem.population is None or problem.settings.selection != "unknown"
            else look_at_labeled(problem, pooled, judged, log_odds)
        ),
    )
    return Settled(learned, trust.loss, trust.hidden_shift, trust.by_groups, trust.notes)


def _calibration(
    problem: Problem, score: FloatArray, y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> PlattScaling:
    if problem.settings.is_alone:
        return PlattScaling.of(platt_lines(score, y, weight, cluster, n_clusters))
    return PlattScaling().fit(score, y, weight, cluster, n_clusters)


def _share_of_positives(problem: Problem, cluster: IntArray, n_clusters: int) -> FloatArray:
    share = labeled_shares if problem.settings.shrinkage == "none" else labeled_prior
    return share(problem.y, problem.labeled.weight, cluster, n_clusters)


@dataclass(frozen=True)
class _SettledTrust:
    value: float
    variance: float = 0.0
    residual_variance: float = 0.0
    context: Context | None = None
    loss: FloatArray | None = None
    hidden_shift: FloatArray | None = None
    own: OwnViews | None = None
    hidden: OwnViews | None = None
    by_groups: tuple[HiddenGroups, FloatArray] | None = None
    notes: Notes = ()


def _settle_trust(
    problem: Problem, pooled: Pooled, judged: Judged, hidden: HiddenGroups | None
) -> _SettledTrust:
    trial, given = judged.trial, problem.settings.trust
    if trial is None:
        if given != "learned":
            return _SettledTrust(float(given))
        # A random sample has the shares of the population: without groups there is nothing left to shift.
        if problem.settings.selection == "random" and not problem.has_groups:
            return _SettledTrust(0.0)
        return _SettledTrust(UNCHECKED_TRUST, UNCHECKED_VARIANCE)
    rows = judged.trained.labeled_rows(problem)
    if given != "learned":
        # A trust that is given holds for the partition that the judge chose; where it chose no shift, there is none.
        value = float(given) if trial.trust.value > 0 else 0.0
        loss = log_loss_rows(trial.log_odds + value * trial.shift, rows.y)
        return _SettledTrust(value, loss=loss, hidden_shift=value * trial.shift)
    if problem.settings.shrinkage == "hierarchical":
        return _settle_views(problem, pooled, judged.trained, trial, hidden)
    left_out = trial.trust.without[rows.group] * trial.shift
    residual = _residual_variance(trial, rows, left_out)
    return _SettledTrust(trial.trust.value, trial.trust.variance, residual, None, trial.loss, left_out)


def _settle_views(
    problem: Problem, pooled: Pooled, trained: Trained, trial: Trial, hidden: HiddenGroups | None
) -> _SettledTrust:
    """What labels and scores of labelled groups say, and whether scores alone would have predicted the labels."""
    rows = trained.labeled_rows(problem)
    names = problem.labeled_groups[np.unique(problem.labeled.group[trained.judged])]

    def told(log_odds: FloatArray, stream: str, can_confirm: bool = True) -> Foretold:
        return foretell(
            rows,
            log_odds,
            trial.cluster,
            trial.n_clusters,
            names=names,
            selection=problem.settings.selection,
            seed=problem.seeds.named(stream),
            can_confirm=can_confirm,
        )

    unseen = None if hidden is None else told(hidden.log_odds, "views of hidden groups")
    # A classifier that knows the groups has their hidden labels by heart: only one that saw none of them can confirm scores.
    is_blind = unseen is None or unseen.own.is_confirmed or not knows_groups(pooled, trained)
    seen = told(trial.log_odds, "hidden views", can_confirm=is_blind)
    # Group means, and what is told of the gain, serve the groups that most of the population lies in.
    ruling, log_odds = seen, trial.log_odds
    if hidden is not None and unseen is not None and hidden.is_rule:
        ruling, log_odds = unseen, hidden.log_odds
    context, notes = _learn_context(problem, pooled, trained, rows, log_odds + ruling.shift)
    effect = np.zeros(len(log_odds)) if context is None else context.left_out_[rows.group]
    return _SettledTrust(
        ruling.use,
        context=context,
        loss=log_loss_rows(trial.log_odds + seen.shift + effect, rows.y),
        hidden_shift=seen.shift + effect,
        own=seen.own,
        hidden=None if unseen is None or not pooled.without_labels else unseen.own,
        by_groups=None if hidden is None or ruling is seen else (hidden, ruling.shift + effect),
        notes=notes,
    )


def _residual_variance(trial: Trial, rows: LabeledRows, left_out: FloatArray) -> float:
    variance = trial.trust.value**2 * trial.shift_variance.ravel()
    cell = rows.group * trial.n_clusters + trial.cluster
    return residual_variance(trial.log_odds + left_out, rows.y, rows.weight, cell, variance)


def _plain_variance(problem: Problem, judged: Judged, log_odds: FloatArray) -> float:
    """How far labelled groups lie from a classifier that makes no shift."""
    rows = judged.trained.labeled_rows(problem)
    return residual_variance(log_odds, rows.y, rows.weight, rows.group, np.zeros(rows.n_groups))


def _learn_context(
    problem: Problem, pooled: Pooled, trained: Trained, rows: LabeledRows, log_odds: FloatArray
) -> tuple[Context | None, Notes]:
    """What group means say about shifts, if hidden labels confirm that they say anything."""
    if rows.n_groups < MIN_CONTEXT_GROUPS or problem.population is None:
        return None, ()
    few = trained.few(problem, MAX_CLUSTERING_ROWS, "context rows")
    judged = problem.labeled.take(trained.judged[few])
    context = Context().fit(
        pooled.space.transform(judged.matrix),
        rows.group[few],
        judged.weight,
        rows.n_groups,
        design_effect=rows.design_effect,
    )
    p = expit(log_odds)
    curvature = np.bincount(rows.group, weights=rows.weight * p * (1 - p), minlength=rows.n_groups)
    gradient = np.bincount(rows.group, weights=rows.weight * (rows.y - p), minlength=rows.n_groups)
    curvature = np.maximum(curvature, 1e-6)
    context.learn(gradient / curvature, 1 / curvature)
    context.labeled_groups_ = problem.labeled_groups[np.unique(problem.labeled.group[trained.judged])]
    plain = log_loss_rows(log_odds, rows.y)
    better = log_loss_rows(log_odds + context.left_out_[rows.group], rows.y)
    if not confirmed(plain, better, rows, CONTEXT_LEVEL):
        return None, ()
    mean, error = gain(plain, better, rows)
    note = Note(
        f"Groups with alike features have alike shifts: this lowers the hidden-label loss by {mean:.4f} ± {error:.4f}."
    )
    return context, (note,)


def _rates(
    problem: Problem,
    log_odds: FloatArray,
    y: IntArray,
    weight: FloatArray,
    cluster: IntArray,
    n_clusters: int,
) -> PredictionRates | None:
    """Prediction rates of each cluster; a cluster without both classes has those of all rows."""
    shares = problem.settings.shares
    if shares not in ("bbse-hard", "bbse-soft"):
        return None
    soft = shares == "bbse-soft"
    overall = prediction_rates(log_odds, y, weight=weight, soft=soft)
    rates = []
    for k in range(n_clusters):
        own = cluster == k
        has_both_classes = len(np.unique(y[own])) == 2
        rates.append(
            prediction_rates(log_odds[own], y[own], weight=weight[own], soft=soft)
            if has_both_classes
            else overall
        )
    true_positive, false_positive = np.array(rates).T
    return true_positive, false_positive
