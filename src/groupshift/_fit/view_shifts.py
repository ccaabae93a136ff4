"""Shifts of the population's groups by three views: own labels, their scores, and the population's scores."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.learned import Learned, OwnViews
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.shrinkage import PooledShifts
from groupshift._math.sites import Sites
from groupshift._math.trust import most_trust
from groupshift._math.views import LABELS, OWN_SCORES, SCORES, Views, learn_views
from groupshift._rows.codes import Codes

# Variance of a common shift that nothing in the data decides: at 90 %, positives are twice or half as likely to be labelled.
UNIDENTIFIED = float((np.log(2) / 1.645) ** 2)


@dataclass(frozen=True)
class ViewUse:
    """How far shifts follow each view of them, on average over groups that have it, 0 to 1."""

    labels: float  # of the group's own labelled rows
    scores: float  # of the group's population rows
    common_shift: float  # what all groups seem to have in common, in log-odds
    common: float  # the part of it that is used
    no_selection: float  # probability that labels are a random sample of each group


@dataclass(frozen=True)
class PopulationView:
    """What the population's rows say by themselves."""

    groups: ValueArray  # (n_groups,): names
    scores: Sites  # (n_groups, n_clusters)
    mixture: PooledShifts  # the same, pooled over groups and clusters
    context: FloatArray  # (n_groups,): what group means say
    rows: IntArray  # (n_groups,)
    cluster_weight: FloatArray  # (n_clusters,)


def view_shifts(learned: Learned, own: OwnViews, population: PopulationView) -> tuple[PooledShifts, ViewUse]:
    """Shifts before what group means add to them, and how far each view is used."""
    views, mixture = _views(own, population), population.mixture
    model = learn_views(views, selection=learned.selection, seed=learned.seed)
    here = views.take(slice(0, len(population.groups)))
    used = [LABELS, OWN_SCORES, SCORES] if learned.trust > 0 else [LABELS]
    if learned.selection == "by_label":
        used = [view for view in used if view == SCORES]
    found = model.predict(here.only(*used))
    if (most := most_trust(len(own.groups))) < 1 and learned.trust > 0:
        found = found.mixed(model.predict(here.only(*(view for view in used if view == LABELS))), most)
    # What is not used may yet be right, above all where labelled groups are few.
    unused = (
        (model.predict(here).shift - found.shift) ** 2 if learned.trust == 0 else np.zeros_like(found.shift)
    )
    nobody = model.predict(replace(here.take(slice(0, 1)).only(), remainder=np.zeros(1)))
    is_random = learned.selection == "random"
    common = np.zeros_like(mixture.cluster_shift) if is_random else mixture.cluster_shift
    factor = _common_factor(learned, population, nobody.variance[0], model.misfit_variance)
    doubt = factor**2 * mixture.cluster_variance + np.minimum(((1 - factor) * common) ** 2, UNIDENTIFIED)
    shifts = PooledShifts(
        shift=factor * common + found.shift,
        variance=found.variance + unused + doubt,
        cluster_shift=factor * common,
        cluster_variance=doubt,
        group_effect=found.shift.mean(1),
        group_variance=float(nobody.shared[0]),
        cell_variance=float(max(nobody.variance[0].mean() - nobody.shared[0], 0)),
        shared_deviation=np.sqrt(found.shared[:, None] + unused.mean(1, keepdims=True) + doubt),
    )
    has = (here.precision > 0) + 1e-12
    labels, scores = (float(np.average(found.use[..., v], weights=has[..., v])) for v in (LABELS, SCORES))
    face_value = float(np.average(common, weights=population.cluster_weight + 1e-300))
    return shifts, ViewUse(labels, scores, face_value, float(factor.mean()), model.no_selection)


def _common_factor(
    learned: Learned, population: PopulationView, variance: FloatArray, misfit_variance: float
) -> FloatArray:
    """How much of what all groups seem to have in common is used, in each cluster: no labelled group can judge it.

    Labels chosen by x move the scores of all groups alike, and look like a change of all shares. What groups' own shifts
    (of the given variance) average to by chance is theirs, and no more is believed. Where the user says that labels were chosen
    by the label, so is what exceeds the misfit that single groups show (the positive part of James and Stein's rule).
    """
    size = np.maximum(population.mixture.cluster_shift**2, 1e-12)
    factor = np.minimum(1, variance / len(population.groups) / size)
    if learned.selection == "by_label":
        factor = np.maximum(factor, 1 - (misfit_variance + population.mixture.cluster_variance) / size)
    return factor


def _views(own: OwnViews, population: PopulationView) -> Views:
    """Views of the population's groups, then of labelled groups that have no rows in it."""
    groups, n_groups = population.groups, len(population.groups)
    everyone = np.concatenate([groups, own.groups[Codes.of(groups).transform(own.groups) < 0]])
    n_clusters = own.response.shape[1]
    response, precision = np.zeros((len(everyone), n_clusters, 3)), np.zeros((len(everyone), n_clusters, 3))
    at = Codes.of(own.groups).transform(everyone)
    is_labeled = at >= 0
    response[is_labeled, :, :2] = own.response[at[is_labeled]]
    precision[is_labeled, :, :2] = own.precision[at[is_labeled]]
    # What group means explain is the mean of a shift: labels speak of the rest.
    response[:n_groups, :, LABELS] -= population.context[:, None]
    response[:n_groups, :, SCORES] = population.scores.response - population.mixture.cluster_shift
    precision[:n_groups, :, SCORES] = population.scores.weight
    remainder = np.zeros(len(everyone))
    here = np.flatnonzero(is_labeled[:n_groups])
    remainder[here] = own.rows[at[here]] / np.maximum(population.rows[here], 1)
    return Views(response, precision, remainder)
