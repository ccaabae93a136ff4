"""Where not to trust the model: groups, cells and clusters that lean on little, and why."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from groupshift._data.codes import Codes
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.wording import first_of, percent, plural
from groupshift._math.arrays import BoolArray, FloatArray, Table
from groupshift._math.cell_likelihood import CellLikelihood
from groupshift._math.points import Points
from groupshift._math.sums import mean_by, ratio

# An interval from fewer rows says little more than the other groups do.
FEW_GROUP_ROWS, FEW_CELL_ROWS, FEW_LABELED_ROWS = 50, 20, 20
# Below this AUC inside a cluster, its positives and negatives look so alike that their shares cannot be told
# apart.
ALIKE_AUC = 0.6
EDGE_SHARE = 0.02
POOR_FIT = 0.1
# One cell in a thousand lies this many times farther from its mixture than chance puts it on average.
SURE_MISFIT = 2.24

# What each kind of caution is about, and what is said of it; it must fit one as well as many.
KINDS = {
    "few rows in group": ("group", "fewer than 50 rows, so the share leans on other groups"),
    "few rows in cell": ("cell", "fewer than 20 rows, so the share leans on the group and on other groups"),
    "classes look alike": (
        "cluster",
        "scores hardly tell positives from negatives (AUC below 0.6), so shares are hardly identified there",
    ),
    "few labelled rows in cluster": ("cluster", "fewer than 20 labelled rows, so scores are guesses there"),
    "few labels of one class": (
        "cluster",
        "fewer than 20 labelled rows of one class, so unlabelled rows say nothing of shares there",
    ),
    "share at the edge": (
        "cell",
        "an estimated share below 2 % or above 98 %, where small errors of calibration weigh most",
    ),
    "scores outside the labelled range": (
        "group",
        "a mean score outside the range that hidden labels could check, so nothing vouches for the shift",
    ),
    "shift outside the labelled range": (
        "group",
        "a larger shift than any that hidden labels could check, so nothing vouches for its size",
    ),
    "mixture does not fit": ("cell", "scores that no mix of labelled positives and negatives explains"),
    "no unlabelled rows": (
        "group",
        "labels but no unlabelled rows, so the shift common to all groups is used until an update brings some",
    ),
}


# How far a share may be off where the caution applies, roughly: what orders the sentences.
COST = {
    "classes look alike": 0.3,
    "few labelled rows in cluster": 0.3,
    "few labels of one class": 0.3,
    "mixture does not fit": 0.2,
    "scores outside the labelled range": 0.15,
    "shift outside the labelled range": 0.15,
    "few rows in group": 0.1,
    "few rows in cell": 0.05,
    "share at the edge": 0.02,
    "no unlabelled rows": 0.1,
}


class Weighed(NamedTuple):
    """A sentence of caution, and how far it may make the overall share be off."""

    cost: float
    sentence: str


class Caution(NamedTuple):
    """A reason for caution: its kind, group (None: all), cluster (-1: all), population rows, and the number at fault."""

    kind: str
    group: str | None
    cluster: int
    rows: int
    value: float


def find_cautions(model: FittedModel, mixture: Table) -> Table:
    """Every reason for caution, one line each: kind, group, cluster, rows, value."""
    found = [*_clusters(model), *_unpopulated(model)]
    # A model that makes no shift takes nothing from cells: how little they know does not matter.
    if np.any(model.shift_):
        found += [*_groups(model), *_cells(model, mixture)]
    return caution_table(found)


def caution_table(found: Sequence[Caution]) -> Table:
    """Cautions as columns."""
    columns = zip(*found, strict=True) if found else ((),) * 5
    dtypes = (object, object, np.int64, np.int64, np.float64)
    return {
        name: np.array(values, dtype)
        for name, values, dtype in zip(Caution._fields, columns, dtypes, strict=True)
    }


def caution_sentences(table: Table, n_rows: int, n_clusters: int) -> Iterator[Weighed]:
    """One sentence for each kind of caution, with what it may cost."""
    for name in dict.fromkeys(table["kind"]):
        own, (about, explanation) = table["kind"] == name, KINDS[name]
        part = int(table["rows"][own].sum()) / n_rows if n_rows else 0.0
        amount = percent(part, 0) if part >= 0.01 else "less than 1 %"
        among = f", {amount} of the population" if part > 0 else ""
        named = _named(table, own, about, n_clusters)
        yield Weighed(COST[name] * part, f"{plural(int(own.sum()), about)} ({named}{among}): {explanation}.")


def by_cost(cautions: Iterable[Weighed]) -> tuple[str, ...]:
    """Sentences, the dearest first.

    >>> by_cost([Weighed(0.1, "a little"), Weighed(0.2, "much")])
    ('much', 'a little')
    """
    return tuple(weighed.sentence for weighed in sorted(cautions, key=lambda weighed: -weighed.cost))


def row_value(points: Points, model: FittedModel) -> FloatArray:
    """What an unlabelled row tells of its cell's share, as a part of what its label would tell."""
    n_groups = len(points.rows) // model.n_clusters_
    base = np.tile(logit(np.clip(model.labeled_prior_, 1e-9, 1 - 1e-9)), n_groups)
    eta = base + model.shift_.ravel()
    _, curvature = CellLikelihood(points, base).information(eta)
    full = points.effective_rows * expit(eta) * expit(-eta)
    return ratio(curvature, full)


def _clusters(model: FittedModel) -> Iterator[Caution]:
    rows, held_out = model.rows_.sum(0), model.evidence_.held_out
    for k in range(model.n_clusters_):
        auc = np.nan if held_out is None else held_out.scores.auc[k]
        if auc < ALIKE_AUC:
            yield Caution("classes look alike", None, k, rows[k], auc)
        if model.labeled_rows_[k] < FEW_LABELED_ROWS:
            yield Caution("few labelled rows in cluster", None, k, rows[k], model.labeled_rows_[k])
        elif model.learned_.class_rows[k].min() < FEW_LABELED_ROWS:
            yield Caution("few labels of one class", None, k, rows[k], model.learned_.class_rows[k].min())


def _unpopulated(model: FittedModel) -> Iterator[Caution]:
    if not model.has_groups_ or not len(model.groups_):
        return
    for g in np.flatnonzero(Codes.of(model.groups_).transform(model.labeled_groups_) < 0):
        labeled = model.evidence_.groups.rows[g]
        yield Caution("no unlabelled rows", str(model.labeled_groups_[g]), -1, 0, labeled)


def _groups(model: FittedModel) -> Iterator[Caution]:
    rows, weight = model.rows_.sum(1), model.row_weight_

    def flagged(kind: str, found: BoolArray, value: FloatArray) -> Iterator[Caution]:
        for g in np.flatnonzero(found):
            yield Caution(kind, str(model.groups_[g]), -1, rows[g], value[g])

    def outside(values: FloatArray, reach: FloatArray, checked: FloatArray) -> BoolArray:
        found: BoolArray = (values - reach > checked.max()) | (values + reach < checked.min())
        return found

    yield from flagged("few rows in group", rows < FEW_GROUP_ROWS, rows.astype(float))
    held_out = model.evidence_.held_out
    if held_out is None or held_out.total.groups < 2:
        return
    mean, error = _mean_scores(model)
    beyond = outside(mean, 2 * error, held_out.by_group.mean_score)
    yield from flagged("scores outside the labelled range", beyond, mean)
    total = np.maximum(weight.sum(1), 1e-300)
    shift = (weight * model.shift_).sum(1) / total
    # Labelled groups have no common shift by construction, so deviations from the common shift are compared.
    shift = shift - np.average(shift, weights=total)
    spread = np.sqrt((weight * model.shift_variance_).sum(1) / total)
    beyond = outside(shift, 2 * spread, held_out.by_group.estimated_shift)
    yield from flagged("shift outside the labelled range", beyond, shift)


def _cells(model: FittedModel, mixture: Table) -> Iterator[Caution]:
    rows, share = model.rows_, model.group_prior_
    few = (rows > 0) & (rows < FEW_CELL_ROWS) & (rows.sum(1, keepdims=True) >= FEW_GROUP_ROWS)
    edge = (rows > 0) & ((share < EDGE_SHARE) | (share > 1 - EDGE_SHARE))
    excess, poor = np.zeros(rows.shape), np.zeros(rows.shape, bool)
    if mixture:
        excess = np.nan_to_num(mixture["excess"]).reshape(rows.shape)
        sure = mixture["best_distance"] > SURE_MISFIT * mixture["by_chance"]
        poor = sure.reshape(rows.shape) & (excess > POOR_FIT)
    for kind, found, value in (
        ("few rows in cell", few, rows),
        ("share at the edge", edge, share),
        ("mixture does not fit", poor, excess),
    ):
        for g, k in zip(*np.nonzero(found), strict=True):
            yield Caution(kind, str(model.groups_[g]), k, rows[g, k], value[g, k])


def _mean_scores(model: FittedModel) -> tuple[FloatArray, FloatArray]:
    """Mean score of each population group, and its standard error."""
    points = model.tally_
    n_groups = len(model.groups_)
    if points is None:
        return np.full(n_groups, np.nan), np.full(n_groups, np.nan)
    group = points.cell // model.n_clusters_
    mean = mean_by(group, points.score, points.weight, n_groups, empty=0.0)
    square = mean_by(group, (points.score - mean[group]) ** 2, points.weight, n_groups, empty=0.0)
    return mean, np.sqrt(square / np.maximum(model.rows_.sum(1), 1))


def _named(table: Table, own: BoolArray, about: str, n_clusters: int) -> str:
    groups, clusters = table["group"][own], table["cluster"][own]
    if about == "cluster":
        names = [str(k) for k in clusters]
    elif about == "cell" and n_clusters > 1:
        names = [f"{g} in cluster {k}" for g, k in zip(groups, clusters, strict=True)]
    else:
        names = [str(g) for g in groups]
    return first_of(names)
