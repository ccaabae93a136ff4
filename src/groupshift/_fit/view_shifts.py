"""Shifts of the population's groups by three views: own labels, their scores, and the population's scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.learned import Learned
from groupshift._fit.own_views import OwnViews
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.feature_means import ByLabel, MeanSums
from groupshift._math.points import Points
from groupshift._math.shrinkage import PooledShifts
from groupshift._math.sites import Sites
from groupshift._math.trust import most_trust
from groupshift._math.view_worlds import LABELS, OWN_SCORES, SCORES, Views
from groupshift._math.views import Predicted, ViewModel, learn_views
from groupshift._math.within_groups import compare
from groupshift._rows.codes import Codes
from groupshift._rows.workers import each_in_python

# Variance of a common shift that nothing in the data decides, where labels were chosen by the label: at 90 %, positives are
# twice or half as likely to be labelled.
UNIDENTIFIED = float((np.log(2) / 1.645) ** 2)
# How much larger the labelled side's variance of a common shift is than the sampling noise of its scores: the classifier of all
# rows does not score quite as those of the folds do, which its calibration was learned from.
LABELED_SIDE = 2.0


@dataclass(frozen=True)
class ViewUse:
    """How far shifts follow each view of them, on average over groups that have it, 0 to 1."""

    labels: float  # of the group's own labelled rows
    scores: float  # of the group's population rows
    common_shift: float  # what all groups seem to have in common, in log-odds
    common: float  # the part of it that is used
    no_selection: float  # probability that labels are a random sample of each group
    scale_error: float  # of the size of all shifts together, relative to it
    common_error: float = np.nan  # of `common_shift`, were labels chosen by the label alone
    by_label: float = (
        np.nan
    )  # probability that labels of all groups were chosen by the label, as feature means show it
    compared: float = (
        0.0  # how far shifts follow the comparison of a group's population with its own labelled rows
    )
    scale: float = 1.0  # the factor on shifts of the views that this comparison supports


@dataclass(frozen=True)
class PopulationView:
    """What the population's rows say by themselves."""

    groups: ValueArray  # (n_groups,): names
    scores: Sites  # (n_groups, n_clusters)
    mixture: PooledShifts  # the same, pooled over groups and clusters
    context: FloatArray  # (n_groups,): what group means say
    rows: IntArray  # (n_groups,)
    cluster_weight: FloatArray  # (n_clusters,)
    whole: FloatArray  # (n_clusters,): what scores of all groups together say, as if they were one group
    means: MeanSums | None  # of features; None where they are not asked about


@dataclass(frozen=True)
class _Part:
    """Groups whose rows are scored alike: by classifiers that saw labels of theirs, or by such as saw none."""

    own: OwnViews
    chosen: BoolArray  # (n_groups,): of the population

    def learn(self, learned: Learned, population: PopulationView) -> "_Told":
        views, n_here = _views(self.own, population, self.chosen), int(self.chosen.sum())
        model = learn_views(views, selection=learned.selection, seed=learned.seed, each=each_in_python)
        here = views.take(slice(0, n_here))
        used = [LABELS, OWN_SCORES, SCORES] if self.own.is_confirmed else [LABELS]
        if learned.selection == "by_label":
            used = [view for view in used if view == SCORES]
        found = model.predict(here.only(*used))
        if (most := most_trust(len(self.own.groups))) < 1 and self.own.is_confirmed:
            found = found.mixed(model.predict(here.only(*(view for view in used if view == LABELS))), most)
        if not (self.own.is_confirmed or self._believes_labels(learned, found)):
            found = found.without_shift()
        # What is not used may yet be right, above all where labelled groups are few.
        unused = np.zeros_like(found.shift)
        if not self.own.is_confirmed:
            unused = (model.predict(here).shift - found.shift) ** 2
        has = here.precision > 0
        is_labeled: BoolArray = np.asarray(has[..., LABELS].any(1))
        # Learned from groups whose labels were hidden: it holds for groups that have none.
        stretch = np.where(is_labeled, 1.0, self.own.stretch**2)
        hidden = here.as_hidden() if SCORES in used else here.only()
        found = _as_wide(found, model.predict(hidden, of_labeled=True), np.logical_not(is_labeled))
        return _Told(
            model,
            has,
            found,
            unused,
            _nobody(model, views),
            stretch,
            self.own.stretch**2,
            self.own.is_confirmed,
        )

    def _believes_labels(self, learned: Learned, found: Predicted) -> bool:
        """Whether own labels alone may shift, which no hidden label judges: the parameters must agree on shifts.

        They agree by themselves where the classifier knows how the labels of each group were chosen, since its scores repeat it.
        What is random in these labels it knows as well.
        """
        return found.is_agreed and (self.own.can_confirm or learned.selection == "random")


def _as_wide(found: Predicted, hidden: Predicted, chosen: BoolArray) -> Predicted:
    """Predictions as uncertain as those of hidden groups were, where they have no labels either.

    Whether labelled groups differ by nature or by how their labels were selected, their labels do not say; groups without
    labels may differ as much.
    """
    variance = np.where(chosen[:, None], np.maximum(found.variance, hidden.variance), found.variance)
    shared = np.where(chosen, np.maximum(found.shared, hidden.shared), found.shared)
    return replace(found, variance=variance, shared=shared)


def _nobody(model: ViewModel, views: Views) -> Predicted:
    """A group without any view."""
    shape = (1, *views.response.shape[1:])
    empty = Views(np.zeros(shape), np.zeros(shape), np.zeros(1))
    return _as_wide(model.predict(empty), model.predict(empty, of_labeled=True), np.ones(1, bool))


@dataclass(frozen=True)
class _Told:
    """What the views of one part say of its groups."""

    model: ViewModel
    has: BoolArray  # (n_groups, n_clusters, 3): which views there are
    found: Predicted
    unused: FloatArray  # (n_groups, n_clusters): squared, what scores suggest and is not used
    nobody: Predicted  # of a group without any view
    stretch: FloatArray  # (n_groups,): of variances
    nobody_stretch: float
    is_confirmed: bool  # whether scores foretell hidden labels


def view_shifts(learned: Learned, own: OwnViews, population: PopulationView) -> tuple[PooledShifts, ViewUse]:
    """Shifts before what group means add to them, and how far each view is used."""
    mixture, n_groups = population.mixture, len(population.groups)
    chosen = np.ones(n_groups, bool)
    parts = [_Part(own, chosen)]
    if learned.hidden is not None:
        is_labeled = Codes.of(own.groups).transform(population.groups) >= 0
        parts = [_Part(own, is_labeled), _Part(learned.hidden, ~is_labeled)]
        parts = [part for part in parts if part.chosen.any()]
    told = [part.learn(learned, population) for part in parts]

    def together(values: Sequence[FloatArray]) -> FloatArray:
        whole = np.empty((n_groups, *values[0].shape[1:]))
        for part, value in zip(parts, values, strict=True):
            whole[part.chosen] = value
        return whole

    shift = together([t.found.shift for t in told])
    unused = together([t.stretch[:, None] * t.unused for t in told])
    variance = together([t.stretch[:, None] * t.found.variance for t in told])
    shared = together([t.stretch * t.found.shared for t in told])
    # A group that is not there has no labels either: it is like those without.
    last = told[-1]
    nobody, nobody_shared = (last.nobody_stretch * v[0] for v in (last.nobody.variance, last.nobody.shared))
    no_selection = told[0].model.no_selection
    by_label = _by_label(learned, population, no_selection)
    common, doubt = _common(learned, population, last, by_label)
    doubt = doubt + _unidentified(learned, no_selection, by_label)
    shifts = PooledShifts(
        shift=common + shift,
        variance=variance + unused + doubt,
        cluster_shift=common,
        cluster_variance=doubt,
        group_effect=shift.mean(1),
        group_variance=float(nobody_shared),
        cell_variance=float(max(nobody.mean() - nobody_shared, 0)),
        shared_deviation=np.sqrt(shared[:, None] + unused.mean(1, keepdims=True) + doubt),
    )
    has, use = together([t.has.astype(float) for t in told]) + 1e-12, together([t.found.use for t in told])
    labels, scores = (float(np.average(use[..., v], weights=has[..., v])) for v in (LABELS, SCORES))
    n_rows = [population.rows[part.chosen].sum() for part in parts]
    scale_error = float(np.average([t.found.scale_error for t in told], weights=n_rows))
    said = ViewUse(
        labels,
        scores,
        *_face_value(learned, population, common),
        no_selection,
        scale_error,
        common_error=_face_value_error(own, mixture),
        by_label=np.nan if by_label is None else by_label.probability,
    )
    return shifts, said


def compare_within(
    own: OwnViews, shifts: PooledShifts, use: ViewUse, groups: ValueArray, points: Points
) -> tuple[PooledShifts, ViewUse]:
    """Shifts corrected by the comparison of each group's population with its own labelled rows."""
    if own.means is None:
        return shifts, use
    at = Codes.of(own.groups).transform(groups)
    is_labeled, at = at >= 0, np.maximum(at, 0)
    precision = np.where(is_labeled, own.precision[at, 0, LABELS], 0.0)
    means = replace(
        own.means,
        share=own.means.share[at],
        score=own.means.score[at],
        rows=np.where(precision > 0, own.means.rows[at], 0.0),
    )
    labels = own.response[at, 0, LABELS], np.maximum(precision, 1e-9)
    common, doubt = shifts.cluster_shift, shifts.cluster_variance
    before = np.maximum(shifts.variance - doubt, 1e-6)
    found = compare(means, labels, points, shifts.shift - common, before)
    # One cluster: what its cells have in common is all that a group has.
    shared = np.maximum(shifts.shared_deviation**2 - doubt, 0) * found.variance / before
    return (
        replace(
            shifts,
            shift=common + found.shift,
            variance=found.variance + doubt,
            group_effect=found.shift[:, 0],
            shared_deviation=np.sqrt(shared + doubt),
        ),
        replace(use, compared=found.use, scale=found.scale),
    )


def _face_value(learned: Learned, population: PopulationView, used: FloatArray) -> tuple[float, float]:
    """What all groups seem to have in common, and the part of it that is used, 0 to 1."""
    if learned.selection == "random":
        return 0.0, 0.0
    weight = population.cluster_weight + 1e-300
    seen, kept = (float(np.average(value, weights=weight)) for value in (population.whole, used))
    return seen, float(np.clip(kept / seen, 0, 1)) if seen else 1.0


def _face_value_error(own: OwnViews, mixture: PooledShifts) -> float:
    """Standard error of what all groups have in common: of the population's scores, and of the labelled rows' beside them."""
    labeled_side = LABELED_SIDE / max(float(own.precision[..., OWN_SCORES].sum()), 1e-9)
    return float(np.sqrt(mixture.cluster_variance.mean() + labeled_side))


def _by_label(learned: Learned, population: PopulationView, no_selection: float) -> ByLabel | None:
    """What feature means say of labels that were chosen by the label, in all groups alike; None where they are not asked.

    That groups differ in how their labels came does not make it likelier that all have something in common: even odds at most.
    """
    if learned.means is None or population.means is None or learned.selection != "unknown":
        return None
    return learned.means.compare(
        population.means,
        learned.labeled_prior,
        design_effect=learned.design_effect,
        by_label=min(0.5, max(1 - no_selection, 1e-9)),
    )


def _common(
    learned: Learned, population: PopulationView, told: "_Told", by_label: ByLabel | None
) -> tuple[FloatArray, FloatArray]:
    """The part of a shift that all groups have in common, as it is used in each cluster, and its variance.

    No labelled group can judge it, and labels chosen by x move the scores of all groups alike as well. Where all features say
    the same of it, it is believed; else what groups' own shifts average to by chance, which is theirs: nothing, where scores do
    not foretell how groups differ. Where the user says that labels were chosen by the label, so is what exceeds the misfit that
    single groups show (the positive part of James and Stein's rule).
    """
    if by_label is not None and by_label.is_believed:
        # A size that means tell no better than one knows it beforehand: features that agree on next to no positives are wrong.
        factor = np.minimum(1.0, UNIDENTIFIED / np.maximum(by_label.variance, 1e-12))
        return factor * by_label.shift, by_label.variance
    seen, doubt = population.mixture.cluster_shift, population.mixture.cluster_variance
    size = np.maximum(seen**2, 1e-12)
    factor = np.minimum(1, told.nobody.variance[0] / len(population.groups) / size)
    if learned.selection == "random":
        return np.zeros_like(seen), factor**2 * doubt
    if learned.selection == "by_label":
        factor = np.maximum(factor, 1 - (told.model.misfit_variance + doubt) / size)
    elif not told.is_confirmed:
        return np.zeros_like(seen), factor**2 * (seen**2 + doubt)
    return factor * seen, factor**2 * doubt


def _unidentified(learned: Learned, no_selection: float, by_label: ByLabel | None) -> float:
    """Variance of a shift of all groups alike that no row decides: as likely as it is that labels were chosen by the label.

    They were not if they are a random sample of each group, and features say that all groups together are one as well.
    """
    if learned.selection == "random":
        return 0.0
    if learned.selection == "by_label":
        return UNIDENTIFIED
    return UNIDENTIFIED * (1 - no_selection * (1 - (0.5 if by_label is None else by_label.probability)))


def _views(own: OwnViews, population: PopulationView, chosen: BoolArray) -> Views:
    """Views of the chosen groups of the population, then of other labelled groups."""
    scores = population.scores
    views = own.beside(
        population.groups[chosen],
        population.rows[chosen],
        scores.response[chosen] - population.mixture.cluster_shift,
        scores.weight[chosen],
    )
    # What group means explain is the mean of a shift: labels speak of the rest.
    views.response[: int(chosen.sum()), :, LABELS] -= population.context[chosen, None]
    return views
