"""What labelled rows say of the shifts of their groups: their labels, their scores, and how well these foretell those."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from groupshift._fit.trials import LabeledRows, gain, labeled_points
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.odds import log_loss_rows
from groupshift._math.sites import cell_sites
from groupshift._math.sums import mean_by, sum_by
from groupshift._math.trust import most_trust
from groupshift._math.view_worlds import OWN_SCORES, SCORES, Views
from groupshift._math.views import Predicted, label_sites, learn_views
from groupshift._math.within_groups import LabeledMeans
from groupshift._rows.codes import Codes
from groupshift._rows.workers import each_in_python

# Scores are used if hidden labels make it likelier than not; half a standard error more, since what scores are worth was
# learned from the same groups.
HIDDEN_MARGIN = 0.5
# Intervals are stretched until they hold so many of the labelled groups' shares, their labels hidden.
COVERAGE, NORMAL_REACH = 0.9, 1.645
# Beyond a factor of three an interval of shifts says next to nothing, and a single group would have made it so.
MAX_STRETCH = 3.0


@dataclass(frozen=True)
class AnyOwnViews:
    """What labelled rows say of the shifts of their groups' cells: their labels, and their scores without them.

    Of more than two classes, each against the rest: a class of a group is to `Views` what a group is where there are two.
    """

    groups: ValueArray  # (n_labeled_groups,): names
    response: FloatArray  # (n_labeled_groups, n_clusters, 2), or (n_labeled_groups, n_classes, n_clusters, 2)
    precision: FloatArray  # the same shape
    rows: IntArray  # (n_labeled_groups,)

    def views(self) -> Views:
        """These two views; that of the population is missing."""
        nothing = np.zeros((0, *self.response.shape[1:-1]))
        return self.beside(self.groups[:0], self.rows[:0], nothing, nothing)

    def beside(
        self, groups: ValueArray, rows: IntArray, response: FloatArray, precision: FloatArray
    ) -> Views:
        """Views of the population's groups, with what its rows say, then of labelled groups that have no rows in it."""
        everyone = np.concatenate([groups, self.groups[Codes.of(groups).transform(self.groups) < 0]])
        at = Codes.of(self.groups).transform(everyone)
        has_labels, n_here = at >= 0, len(groups)

        def together(own: FloatArray, of_population: FloatArray) -> FloatArray:
            views = np.zeros((len(everyone), *own.shape[1:-1], 3))
            views[has_labels, ..., :SCORES] = own[at[has_labels]]
            views[:n_here, ..., SCORES] = of_population
            return views.reshape(-1, *views.shape[-2:])

        remainder = np.zeros(len(everyone))
        here = np.flatnonzero(has_labels[:n_here])
        remainder[here] = self.rows[at[here]] / np.maximum(rows[here], 1)
        return Views(
            together(self.response, response),
            together(self.precision, precision),
            np.repeat(remainder, int(np.prod(self.response.shape[1:-2]))),
        )


@dataclass(frozen=True)
class OwnViews(AnyOwnViews):
    """Of two classes."""

    is_confirmed: bool  # whether scores foretell hidden labels
    can_confirm: (
        bool  # whether they could have: not where the classifier has the labels of each group by heart
    )
    stretch: float  # of standard errors of shifts, so that intervals hold the shares of hidden groups
    # What population rows of a group are compared with; None where clusters are several, and in older files.
    means: LabeledMeans | None = None


@dataclass(frozen=True)
class Foretold:
    """Labelled rows as they would be predicted if the labels of their groups were hidden."""

    own: OwnViews
    shift: FloatArray  # (n_rows,)
    use: float  # how far the shift follows scores, 0 to 1


def foretell(
    rows: LabeledRows,
    log_odds: FloatArray,
    cluster: IntArray,
    n_clusters: int,
    *,
    names: ValueArray,
    selection: str,
    seed: int,
    can_confirm: bool,
) -> Foretold:
    """Hide the labels of each group: do its scores foretell them, and do intervals hold its share?

    Without `can_confirm` they do not, whatever these labels say: the scores knew them.
    """
    cell = rows.group * n_clusters + cluster
    labels = label_sites(log_odds, rows.y, rows.weight, cell, rows.n_groups * n_clusters)
    points, prior = labeled_points(rows, log_odds, cluster, n_clusters)
    scores = cell_sites(points, labeled_prior=prior, n_groups=rows.n_groups)
    shape = scores.response.shape
    response = np.stack([labels[0].reshape(shape), scores.response], 2)
    precision = np.stack([labels[1].reshape(shape), scores.weight], 2)
    n_rows = np.bincount(rows.group, minlength=rows.n_groups)
    views = AnyOwnViews(names, response, precision, n_rows).views()
    model = learn_views(views, selection=selection, seed=seed, each=each_in_python)
    found = model.predict(views.only(OWN_SCORES), of_labeled=True)
    shift = found.shift[rows.group, cluster]
    plain, loss = log_loss_rows(log_odds, rows.y), log_loss_rows(log_odds + shift, rows.y)
    mean, error = gain(plain, loss, rows)
    is_confirmed = can_confirm and mean > HIDDEN_MARGIN * error
    if not is_confirmed:
        found = model.predict(views.only(), of_labeled=True)
        shift = np.zeros_like(shift)
    stretch = _stretch(rows, log_odds + shift, cluster, found)
    # In each of several clusters a group has too few labelled rows, and scores that hidden labels confirmed.
    means = (
        LabeledMeans.of(log_odds, rows.y, rows.weight, rows.group, rows.n_groups) if n_clusters == 1 else None
    )
    own = OwnViews(names, response, precision, n_rows, is_confirmed, can_confirm, stretch, means)
    use = np.average(found.use[..., OWN_SCORES], weights=scores.weight + 1e-9) if is_confirmed else 0.0
    return Foretold(own, shift, float(np.clip(use, 0, most_trust(rows.n_groups))))


def _stretch(rows: LabeledRows, log_odds: FloatArray, cluster: IntArray, found: Predicted) -> float:
    """How many times wider intervals of shifts must be to hold nine in ten of the hidden groups' shares.

    As in conformal prediction, the group itself counts as one more that may lie outside; with fewer than nine groups no width
    is known to be enough, and the model's is taken.
    """
    n_groups, n_clusters = found.variance.shape
    total = sum_by(rows.group, rows.weight, n_groups)
    # Rows that weigh nothing say nothing of their group.
    seen = total > 0
    rank = int(np.ceil(COVERAGE * (seen.sum() + 1)))
    if rank > seen.sum():
        return 1.0
    p = expit(log_odds)
    cell = rows.group * n_clusters + cluster
    # How the share of a group moves with the shift of each of its cells.
    slope = sum_by(cell, rows.weight * p * (1 - p), n_groups * n_clusters).reshape(n_groups, n_clusters)
    total = np.where(seen, total, 1.0)
    slope = slope / total[:, None]
    own = np.maximum(found.variance - found.shared[:, None], 0)
    variance = (slope**2 * own).sum(1) + slope.sum(1) ** 2 * found.shared
    miss = mean_by(rows.group, rows.y - p, rows.weight, n_groups, empty=0.0)
    noise = slope.sum(1) / total
    # Only the shift's part is stretched: the chance of single rows is what it is.
    needed = np.sqrt(np.maximum((miss / NORMAL_REACH) ** 2 - noise, 0) / np.maximum(variance, 1e-300))
    return float(np.clip(np.sort(needed[seen])[rank - 1], 1, MAX_STRETCH))
