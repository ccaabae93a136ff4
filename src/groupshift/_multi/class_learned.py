"""What labelled rows of several classes teach: calibration, labelled shares, own views, and how far to trust shifts."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.learned import AnyLearned
from groupshift._fit.own_views import AnyOwnViews
from groupshift._fit.pooled import Pooled
from groupshift._fit.problem import Problem
from groupshift._fit.trials import MIN_CLASS_ROWS, MIN_TRUST, LabeledRows, confirmed
from groupshift._math.arrays import BoolArray, FloatArray
from groupshift._math.class_points import wanted_prototypes
from groupshift._math.prototypes import learn_prototypes
from groupshift._math.trust import UNCHECKED_TRUST, UNCHECKED_VARIANCE
from groupshift._math.vector_scaling import VectorScaling
from groupshift._math.view_worlds import OWN_SCORES, Views
from groupshift._math.views import ViewModel, learn_views
from groupshift._multi.class_judge import ClassJudged
from groupshift._multi.class_scores import ClassPosterior
from groupshift._multi.class_trained import ClassTrained
from groupshift._multi.class_trials import (
    ClassSites,
    ClassTrial,
    cell_batches,
    class_rows,
    expected_priors,
    join_classes,
    labeled_cells,
    labeled_priors,
    moved_loss,
    shifts_from,
    sites_of_labeled,
)
from groupshift._rows.workers import each_in_python

# Rows that prototypes are learned from.
PROTOTYPE_ROWS = 20_000


@dataclass(frozen=True)
class ClassViews(AnyOwnViews):
    """Of several classes."""


@dataclass(frozen=True)
class ClassLearned(AnyLearned):
    """Of several classes."""

    posterior: ClassPosterior
    class_rows: FloatArray  # (n_clusters, n_classes): labelled rows of each class, or of the rest where fewer
    own: ClassViews | None  # None: shifts are those of the population's scores, times the trust
    prototypes: FloatArray  # see `ClassPoints`
    keep_means: bool
    left_out: tuple[str, ...] = ()  # as of two classes, where features may be left out

    @property
    def n_classes(self) -> int:
        return int(self.labeled_prior.shape[1])

    @property
    def is_shown(self) -> BoolArray:
        """Classes that labels of a cluster show enough of, (n_clusters, n_classes)."""
        return np.asarray(self.class_rows >= MIN_CLASS_ROWS)

    @property
    def rarer_class_rows(self) -> FloatArray:
        """(n_clusters,): of the class with fewest."""
        fewest: FloatArray = self.class_rows.min(1)
        return fewest


@dataclass(frozen=True)
class ClassSettled:
    """What was learned, and what only the evidence of the same fit needs of it."""

    learned: ClassLearned
    hidden_shift: FloatArray | None = None  # (n_judged, n_classes): with labels of the row's group hidden


def settle_classes(problem: Problem, pooled: Pooled, judged: ClassJudged) -> ClassSettled:
    """Calibration, trust and views for the chosen partition; everything that shares depend on."""
    trained, candidate = judged.trained, judged.candidate
    assert trained.last is not None
    rows = problem.labeled.take(trained.judged)
    y, cluster = problem.y[trained.judged], candidate.cluster[trained.judged]
    n_clusters, n_classes = candidate.n_clusters, problem.n_classes
    calibration = VectorScaling().fit(trained.score, y, rows.weight, cluster, n_clusters, trained.spread)
    posterior = ClassPosterior(trained.last, candidate.partition, calibration, trained.edge, trained.order)
    log_p = calibration.transform(trained.score, cluster)
    prior = (
        labeled_priors(problem.y, problem.labeled.weight, candidate.cluster, n_clusters, n_classes)
        if problem.settings.labeled_prior == "share"
        else expected_priors(log_p, rows.weight, cluster, n_clusters)
    )
    trust = _settle_trust(problem, judged)
    prototypes, keep_means = _prototypes(problem, pooled, posterior)
    learned = ClassLearned(
        posterior=posterior,
        labeled_prior=prior,
        labeled_rows=np.bincount(candidate.cluster, minlength=n_clusters),
        class_rows=class_rows(problem.y, candidate.cluster, n_clusters, n_classes, trained.design_effect),
        trust=trust.value,
        trust_variance=trust.variance,
        # Copies in the population repeat each other as much as those among labelled rows do.
        design_effect=1 + (pooled.group_effect - 1) * trained.copy_correlation,
        labeled_groups=problem.labeled_groups,
        shares=problem.settings.shares,
        shrinkage=problem.settings.shrinkage,
        own=trust.own,
        selection=problem.settings.selection,
        seed=problem.seeds.named("views"),
        prototypes=prototypes,
        keep_means=keep_means,
    )
    return ClassSettled(learned, trust.hidden_shift)


def spread_of_shifts(model: ViewModel, views: Views) -> FloatArray:
    """Variance of the shift of a class of a group of which nothing is known, by cluster."""
    variance: FloatArray = model.predict(
        replace(views.take(slice(0, 1)).only(), remainder=np.zeros(1))
    ).variance[0]
    return variance


def part_joined(model: ViewModel, spread: FloatArray) -> float:
    """How far shifts are those of all classes together: as far as what scores show is a change of shares, not a misfit.

    A misfit counts by its square, and a small one costs nothing.
    """
    misfit = model.misfit_variance / (spread.mean() + model.misfit_variance)
    return float(1 - misfit**2)


def _prototypes(problem: Problem, pooled: Pooled, posterior: ClassPosterior) -> tuple[FloatArray, bool]:
    """Prototypes of the posteriors of both samples, as many as the population's cells afford."""
    n_cells = max(len(problem.groups), 1) * posterior.partition.n_clusters
    wanted, keep_means = wanted_prototypes(n_cells, problem.n_classes)
    few = pooled.rows.at_most(PROTOTYPE_ROWS, problem.seeds.named("prototype rows"))
    # By their keys: in which order the rows of a table stand does not matter.
    p = np.exp(posterior.score(few.take(np.argsort(few.key, kind="stable")))[0])
    return learn_prototypes(p, wanted, problem.seeds.named("prototypes")), keep_means


@dataclass(frozen=True)
class _SettledTrust:
    value: float
    variance: float = 0.0
    hidden_shift: FloatArray | None = None
    own: ClassViews | None = None


def _settle_trust(problem: Problem, judged: ClassJudged) -> _SettledTrust:
    trial, given = judged.trial, problem.settings.trust
    if trial is None:
        if given != "learned":
            return _SettledTrust(float(given))
        # Without any groups, one shift for all is what the user asks for.
        return (
            _SettledTrust(UNCHECKED_TRUST, UNCHECKED_VARIANCE) if problem.has_groups else _SettledTrust(1.0)
        )
    rows = judged.trained.labeled_rows(problem)
    if given != "learned":
        value = float(given) if trial.trust.value > 0 else 0.0
        return _SettledTrust(value, hidden_shift=value * trial.shift)
    if problem.settings.shrinkage == "hierarchical":
        return _settle_views(problem, judged.trained, trial, rows)
    left_out = trial.trust.without[rows.group][:, None] * trial.shift
    return _SettledTrust(trial.trust.value, trial.trust.variance, left_out)


def _settle_views(
    problem: Problem, trained: ClassTrained, trial: ClassTrial, rows: LabeledRows
) -> _SettledTrust:
    """What labels and scores of labelled groups say, and whether scores alone would have predicted the labels."""
    cluster = trial.cluster
    prior, shown = labeled_cells(rows, trial.log_p, cluster, trial.n_clusters)
    labels = sites_of_labeled(rows, trial.log_p, cluster, prior, with_labels=True)
    scores = sites_of_labeled(rows, trial.log_p, cluster, prior, with_labels=False).only(shown)
    own = ClassViews(
        problem.labeled_groups[np.unique(problem.labeled.group[trained.judged])],
        np.stack([labels.response, scores.response], 3),
        np.stack([labels.precision, scores.precision], 3),
        np.bincount(rows.group, minlength=rows.n_groups),
    )
    views = own.views()
    model = learn_views(
        views,
        selection=problem.settings.selection,
        seed=problem.seeds.named("hidden views"),
        each=each_in_python,
    )
    found = model.predict(views.only(OWN_SCORES), of_labeled=True)
    apart = shifts_from(found.shift.reshape(scores.response.shape), prior)
    nobody = np.maximum(model.predict(views.only(), of_labeled=True).variance, 1e-6)
    before = ClassSites(np.zeros_like(scores.response), 1 / nobody.reshape(scores.response.shape))
    joined = join_classes(cell_batches(rows, trial.log_p, cluster, prior), before, apart, prior)
    part = part_joined(model, spread_of_shifts(model, views))
    hidden = (apart + part * np.where(shown, joined.shift - apart, 0.0))[rows.group, cluster]
    is_better = confirmed(trial.plain, moved_loss(trial.log_p, hidden, rows.y), rows)
    # With several classes there are as many shifts to be wrong about: where the judge would choose none, none is used.
    if not is_better or trial.trust.value < MIN_TRUST:
        return _SettledTrust(0.0, hidden_shift=np.zeros_like(hidden), own=own)
    used = np.average(found.use[..., OWN_SCORES], weights=scores.flat().weight + 1e-9)
    return _SettledTrust(float(np.clip(used, 0, 1)), hidden_shift=hidden, own=own)
