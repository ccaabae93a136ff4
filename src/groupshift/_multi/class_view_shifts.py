"""Shifts of the population's groups and classes by three views: own labels, their scores, and the population's scores."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.view_shifts import UNIDENTIFIED, ViewUse
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.shrinkage import COMMON_VARIANCE, PooledShifts
from groupshift._math.view_worlds import LABELS, OWN_SCORES, SCORES
from groupshift._math.views import learn_views
from groupshift._multi.class_learned import ClassLearned, ClassViews, part_joined, spread_of_shifts
from groupshift._multi.class_trials import ClassSites, pooled_shifts
from groupshift._rows.workers import each_in_python

COMMON_ROUNDS = 5


@dataclass(frozen=True)
class ClassShifts:
    """Shifts of each class against the rest; arrays of shape (n_groups, n_classes, n_clusters) unless another is given."""

    shift: FloatArray
    variance: FloatArray
    shared: FloatArray  # (n_groups, n_classes): variance that the cells of a group have in common
    pooling: FloatArray  # (n_groups, n_clusters)
    unseen_shift: FloatArray  # (n_classes, n_clusters)
    unseen_variance: FloatArray  # (n_classes, n_clusters)
    use: ViewUse | None
    before: ClassSites | None = (
        None  # what is known before the population's rows are seen; None: nothing is joined
    )
    part: float = 0.0  # of the shifts by all classes together, see `join_classes`
    misfit: float = 0.0  # variance that the scores' misfit adds to these


@dataclass(frozen=True)
class ClassMixture:
    """What the population's rows say by themselves: what all groups have in common, and how each differs from it."""

    sites: ClassSites
    common: FloatArray  # (n_classes, n_clusters)
    common_variance: FloatArray  # the same shape
    pooled: PooledShifts  # of deviations from it, (n_groups * n_classes, n_clusters)

    @classmethod
    def of(cls, sites: ClassSites) -> "ClassMixture":
        """The two by turns: a common shift weighs groups by how far they differ anyway."""
        response, precision = sites.response, sites.precision
        common = variance = np.zeros(response.shape[1:])
        pooled = pooled_shifts(sites)
        for _ in range(COMMON_ROUNDS):
            between = pooled.group_variance + pooled.cell_variance
            weight = precision / (1 + precision * between)
            # Weakly drawn towards no shift at all.
            variance = 1 / (weight.sum(0) + 1 / COMMON_VARIANCE)
            moved = variance * (weight * response).sum(0)
            pooled = pooled_shifts(replace(sites, response=response - moved))
            is_settled = np.abs(moved - common).max(initial=0.0) < 1e-4
            common = moved
            if is_settled:
                break
        return cls(sites, common, variance, pooled)

    @property
    def pooling(self) -> FloatArray:
        """(n_groups, n_clusters): how much of a cell's answer is borrowed, on average over classes."""
        mean: FloatArray = self.pooled.pooling.reshape(self.sites.response.shape).mean(1)
        return mean

    def trusted(self, trust: float, trust_variance: float) -> ClassShifts:
        """Shifts by the population's scores alone, times the trust."""
        shape = self.sites.response.shape
        shift = self.common + self.pooled.shift.reshape(shape)
        variance = self.pooled.variance.reshape(shape) + self.common_variance
        common_variance = self.common_variance + self.pooled.group_variance + self.pooled.cell_variance
        return ClassShifts(
            trust * shift,
            trust**2 * variance + trust_variance * shift**2,
            (trust * self.pooled.shared_deviation.reshape(shape).mean(2)) ** 2,
            self.pooling,
            trust * self.common,
            trust**2 * common_variance + trust_variance * self.common**2,
            None,
            self._before(),
            trust,
        )

    def _before(self) -> ClassSites:
        """What all groups have in common, and how far each differs from it."""
        shape = self.sites.response.shape
        between = max(self.pooled.group_variance + self.pooled.cell_variance, 1e-6)
        return ClassSites(np.broadcast_to(self.common, shape), np.full(shape, 1 / between))


def class_view_shifts(
    learned: ClassLearned, own: ClassViews, mixture: ClassMixture, groups: ValueArray, rows: IntArray
) -> ClassShifts:
    """Shifts from what own labels, their scores and the population's scores say together; `rows`: of each group."""
    sites = mixture.sites
    views = own.beside(groups, rows, sites.response - mixture.common, sites.precision)
    shape = sites.response.shape
    n_here = len(groups) * learned.n_classes
    model = learn_views(views, selection=learned.selection, seed=learned.seed, each=each_in_python)
    here = views.take(slice(0, n_here))
    used = [LABELS, OWN_SCORES, SCORES] if learned.trust > 0 else [LABELS]
    if learned.selection == "by_label":
        used = [view for view in used if view == SCORES]
    found = model.predict(here.only(*used))
    known = model.predict(here.only(*(view for view in used if view != SCORES)))
    # What is not used may yet be right, above all where labelled groups are few.
    unused = np.zeros_like(found.shift)
    if learned.trust == 0:
        unused = (model.predict(here).shift - found.shift) ** 2
    nobody = spread_of_shifts(model, here)
    common = np.zeros_like(mixture.common) if learned.selection == "random" else mixture.common
    factor = _common_factor(learned, mixture, nobody, model.misfit_variance, len(groups))
    doubt = factor**2 * mixture.common_variance + np.minimum(((1 - factor) * common) ** 2, UNIDENTIFIED)
    has = (here.precision > 0) + 1e-12
    labels, scores = (float(np.average(found.use[..., v], weights=has[..., v])) for v in (LABELS, SCORES))
    size = float(np.sqrt((common**2).mean()))
    return ClassShifts(
        shift=factor * common + found.shift.reshape(shape),
        variance=(found.variance + unused).reshape(shape) + doubt,
        shared=found.shared.reshape(shape[:2]) + unused.reshape(shape).mean(2) + doubt.mean(1),
        pooling=mixture.pooling,
        unseen_shift=factor * common,
        unseen_variance=doubt + nobody,
        before=ClassSites(
            factor * common + known.shift.reshape(shape), 1 / np.maximum(known.variance, 1e-6).reshape(shape)
        ),
        part=part_joined(model, nobody) if learned.trust > 0 else 0.0,
        misfit=model.misfit_variance,
        use=ViewUse(
            labels,
            scores,
            size,
            float(factor.mean()),
            model.no_selection,
            found.scale_error,
            float(np.sqrt(mixture.common_variance.mean())),
        ),
    )


def _common_factor(
    learned: ClassLearned,
    mixture: ClassMixture,
    variance: FloatArray,
    misfit_variance: float,
    n_groups: int,
) -> FloatArray:
    """How much of what all groups seem to have in common is used, (n_classes, n_clusters): as where there are two classes."""
    size = np.maximum(mixture.common**2, 1e-12)
    factor = np.minimum(1, variance / n_groups / size)
    if learned.selection == "by_label":
        factor = np.maximum(factor, 1 - (misfit_variance + mixture.common_variance) / size)
    return np.asarray(factor, float)
