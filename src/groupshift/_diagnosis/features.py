"""What single features say: of the group of a row, of its cluster, and of predictions.

A classifier that sees a feature which tells the group (a school's id, coordinates, a precinct) learns the labeled groups by
heart. Rows of other groups are then scored by what it never saw, held-out labels are not held out, and all that is learned from
them is too good to be true.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from groupshift._data.encoder import FeatureEncoder
from groupshift._data.frames import Features, as_frame, concat_rows, take_rows
from groupshift._data.keys import uniform_keys
from groupshift._data.problem import Problem
from groupshift._diagnosis.fitted import ClusterProfiles, Model, named_features
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, KeyArray, Table
from groupshift._math.sums import power_of_two, ratio, renumbered, sum_by
from groupshift._scores.contrasts import log_loss
from groupshift.pipeline import Fit

# How much more often than by chance two rows that are alike in a feature are of one group, on a scale on which 1 is always
# (Cohen's kappa). At a half, a feature says more of the group than chance does.
IDENTIFIES = 0.5
# Features that say this much each may identify the group together, as a longitude and a latitude do.
HINTS = 0.1
# Rows are alike where they lie in one bin: equal values, and neighbours within so many rows. Members of a household, who
# share many values, are fewer.
BIN_ROWS = 5
# Kappas of so many rows are known to a hundredth; of fewer where features are many, to save time.
MAX_ROWS, MIN_ROWS, MAX_VALUES = 10_000, 2_000, 5_000_000
# A table of so many counts is made faster than its entries are sorted.
MOST_COUNTED = 100_000
# Features that are looked at together: the distance of more is no distance.
MOST_TOGETHER = 4
# Differences below a fifth of a standard deviation are no description of a place (Cohen's "small").
WORTH_TELLING = 0.2
# More rows do not change which features matter, and of many features only those that move scores can.
SHUFFLED_ROWS, MAX_FEATURES = 1_000, 20
# Parts into which the values of a feature are cut, to see whether scores follow it at all.
N_PARTS = 10


def identifying_features(
    matrix: NDArray[np.floating],
    group: IntArray,
    key: KeyArray,
    *,
    names: Sequence[str],
    is_category: BoolArray,
    seed: int = 0,
) -> dict[str, float]:
    """Features that identify the group, and how well: 1 where every two rows that are alike in it are of one group.

    Parameters
    ----------
    matrix : array of shape (n_rows, n_features)
        Numbers, and codes of categories; NaN where missing.
    group : array of shape (n_rows,)
    key : array of shape (n_rows,)
        Equal for copies of one example: one of them is looked at.
    names : names of the features
    is_category : array of shape (n_features,)
    seed : int
        Of the sample of rows that are looked at.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(20), 30)
    >>> table = np.column_stack([rng.normal(size=600), group + rng.uniform(size=600)])
    >>> identifying_features(table, group, np.arange(600), names=["age", "place"], is_category=np.zeros(2, bool))
    {'place': 1.0}
    """
    few = _few(key, matrix.shape[1], seed)
    group = renumbered(group[few])
    chance = _chance(group)
    if len(few) < 2 * BIN_ROWS or chance == 1:
        return {}
    columns = [np.asarray(matrix[few, j], float) for j in range(matrix.shape[1])]
    found = [
        _kappa(_agreement(_bins(column, bool(category)), group), chance)
        for column, category in zip(columns, is_category, strict=True)
    ]
    told = {j: kappa for j, (kappa, error) in enumerate(found) if kappa - 2 * error >= IDENTIFIES}
    hints = [
        j for j, (kappa, _) in enumerate(found) if j not in told and kappa >= HINTS and not is_category[j]
    ]
    hints = sorted(sorted(hints, key=lambda j: -found[j][0])[:MOST_TOGETHER])
    if len(hints) > 1:
        kappa, error = _kappa(_neighbours_agree(np.column_stack([columns[j] for j in hints]), group), chance)
        if kappa - 2 * error >= IDENTIFIES:
            told |= dict.fromkeys(hints, kappa)
    return {names[j]: round(told[j], 3) for j in sorted(told)}


def _few(key: KeyArray, n_features: int, seed: int) -> IntArray:
    """Numbers of rows to look at: one of each example."""
    once = np.unique(key, return_index=True)[1]
    most = int(np.clip(MAX_VALUES // max(n_features, 1), MIN_ROWS, MAX_ROWS))
    if len(once) <= most:
        return np.sort(once)
    drawn = uniform_keys(key[once].astype(np.uint64), seed)
    return np.sort(once[np.argsort(drawn, kind="stable")[:most]])


def _chance(group: IntArray) -> float:
    """Chance that two rows are of one group."""
    count = np.bincount(group).astype(float)
    n = count.sum()
    return float((count * (count - 1)).sum() / max(n * (n - 1), 1))


def _kappa(agreement: FloatArray, chance: float) -> tuple[float, float]:
    """Agreement beyond chance, and its standard error; `agreement` has an entry for each row."""
    spread = agreement.std() / np.sqrt(len(agreement))
    return float((agreement.mean() - chance) / (1 - chance)), float(spread / (1 - chance))


def _bins(column: FloatArray, is_category: bool) -> IntArray:
    """The bin of each row: whole blocks of equal values, small ones joined with those beside them."""
    # Missing values are a value: they sort last and are all alike.
    value, block, count = np.unique(column, return_inverse=True, return_counts=True)
    if is_category:
        # Neighbours in code have nothing in common: rare categories are one.
        return np.where(count[block] >= BIN_ROWS, block, len(value))
    # By where a block begins: small ones fall into one bin, and one of many rows has its own, but for a few neighbours.
    first = np.cumsum(count) - count
    return (first // BIN_ROWS)[block]


def _agreement(part: IntArray, group: IntArray) -> FloatArray:
    """For each row, the part of the other rows of its bin that are of its group; 0 where it is alone."""
    n_groups = int(group.max()) + 1
    pair = part * n_groups + group
    if pair.max() > MOST_COUNTED:
        pair = np.unique(pair, return_inverse=True)[1]
    one = np.ones(len(part))
    same, all_rows = (sum_by(p, one, int(p.max()) + 1)[p] - 1 for p in (pair, part))
    return np.where(all_rows > 0, same / np.maximum(all_rows, 1), 0.0)


def _neighbours_agree(columns: FloatArray, group: IntArray) -> FloatArray:
    """For each row, the part of its nearest rows in several features that are of its group."""
    ranks = np.column_stack([rankdata(column) for column in np.nan_to_num(columns.T, nan=-np.inf)])
    nearest = cKDTree(ranks).query(ranks, BIN_ROWS + 1)[1][:, 1:]
    agreement: FloatArray = (group[nearest] == group[:, None]).mean(1)
    return agreement


def cluster_profiles(
    matrix: FloatArray, weight: FloatArray, cluster: IntArray, n_clusters: int, is_category: BoolArray
) -> ClusterProfiles:
    """Each feature inside each cluster against the other clusters."""
    shape = n_clusters, matrix.shape[1]
    inside, outside, difference = (np.full(shape, np.nan) for _ in range(3))
    level = np.full(shape, -1)
    for j, category in enumerate(is_category):
        column = np.asarray(matrix[:, j], float)
        known = np.isfinite(column)
        if not known.any():
            continue
        own = column[known], weight[known], cluster[known], n_clusters
        if category:
            level[:, j], inside[:, j], outside[:, j], difference[:, j] = _category(*own)
        else:
            inside[:, j], outside[:, j], difference[:, j] = _number(*own)
    share = sum_by(cluster, weight, n_clusters) / max(weight.sum(), 1e-300)
    return ClusterProfiles(inside, outside, difference, level, share)


def describe_clusters(profiles: ClusterProfiles, encoder: FeatureEncoder, most: int = 3) -> Table:
    """The strongest differences of each cluster as a table, with a phrase for each.

    Returns
    -------
    dict of arrays : cluster, feature, category, inside, outside, difference, phrase
    """
    lines = []
    for number, row in enumerate(np.nan_to_num(profiles.difference)):
        strongest = np.argsort(-np.abs(row), kind="stable")[:most]
        lines += [(number, feature) for feature in strongest if abs(row[feature]) >= WORTH_TELLING]
    k, j = np.array(lines, int).reshape(-1, 2).T
    inside, outside = profiles.inside[k, j], profiles.outside[k, j]
    level = [_level_name(encoder, b, profiles.level[a, b]) for a, b in zip(k, j, strict=True)]
    phrases = [
        _phrase(encoder.names_[b], encoder.kinds_[b], c, low, high)
        for b, c, low, high in zip(j, level, inside, outside, strict=True)
    ]
    return {
        "cluster": k,
        "feature": np.array([encoder.names_[b] for b in j], dtype=object),
        "category": np.array(level, dtype=object),
        "inside": inside,
        "outside": outside,
        "difference": profiles.difference[k, j],
        "phrase": np.array(phrases, dtype=object),
    }


def _number(
    column: FloatArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    unit = power_of_two(np.abs(column).max())
    column = column / unit
    total, value = sum_by(cluster, weight, n_clusters), sum_by(cluster, weight * column, n_clusters)
    mean = value.sum() / max(total.sum(), 1e-300)
    spread = np.sqrt(np.average((column - mean) ** 2, weights=weight)) if total.sum() > 0 else 0.0
    inside, outside = ratio(value, total), ratio(value.sum() - value, total.sum() - total)
    # Rounding leaves a constant column a spread of about 1e-16 of its size.
    constant = spread <= 1e-9 * max(abs(mean), 1e-300)
    difference = np.zeros(n_clusters) if constant else (inside - outside) / spread
    return inside * unit, outside * unit, difference


def _category(
    column: FloatArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    code = column.astype(np.int64)
    n_levels = int(code.max()) + 1
    table = sum_by(cluster * n_levels + code, weight, n_clusters * n_levels).reshape(n_clusters, n_levels)
    inside = ratio(table, table.sum(1, keepdims=True))
    rest = table.sum(0) - table
    outside = ratio(rest, rest.sum(1, keepdims=True))
    h = 2 * (np.arcsin(np.sqrt(np.clip(inside, 0, 1))) - np.arcsin(np.sqrt(np.clip(outside, 0, 1))))
    level = np.nan_to_num(h, nan=-np.inf).argmax(1)
    at = np.arange(n_clusters), level
    return level, inside[at], outside[at], h[at]


def _level_name(encoder: FeatureEncoder, feature: int, level: int) -> str:
    if level < 0:
        return ""
    names = encoder.categories_[feature]
    return str(names[level]) if level < len(names) else "any other"


def _phrase(name: str, kind: str, category: str, inside: float, outside: float) -> str:
    if category:
        return f"{name} is {category!r} in {100 * inside:.0f} % of rows (elsewhere {100 * outside:.0f} %)"
    if kind == "boolean":
        return f"{name} in {100 * inside:.0f} % of rows (elsewhere {100 * outside:.0f} %)"
    if kind == "date":
        here, there = (str(np.datetime64(round(day), "D")) for day in (inside, outside))
        return f"{name} is {'later' if inside > outside else 'earlier'} (mean {here}, elsewhere {there})"
    return (
        f"{name} is {'higher' if inside > outside else 'lower'} (mean {inside:.3g}, elsewhere {outside:.3g})"
    )


def feature_importance(problem: Problem, fit: Fit) -> dict[str, float]:
    """Rise of the log loss of held-out labels when a feature is shuffled over the rows, by feature, the largest first.

    Only the features that scores follow most are tried. Empty where no label could be held out.
    """
    judged = fit.judged
    if judged.fold is None:
        return {}
    order = np.argsort(uniform_keys(judged.rows.key, problem.seeds.named("importance rows")), kind="stable")
    few = np.sort(order[:SHUFFLED_ROWS])
    rows, y, fold, cluster = judged.rows.take(few), judged.y[few], judged.fold[few], judged.cluster[few]
    shuffled = np.argsort(uniform_keys(rows.key, problem.seeds.named("importance")), kind="stable")

    follows = [_follows(judged.plain[few], np.asarray(column, float)) for column in rows.matrix.T]
    tried = np.argsort(follows, kind="stable")[::-1][:MAX_FEATURES]
    # All shuffled tables below each other: trees take a large table in a fraction of the time of many small ones.
    tables = [rows.features, *(_with_shuffled(rows.features, int(j), shuffled) for j in tried)]
    features, n = concat_rows(tables), len(tables)
    fold, y, cluster = (np.tile(values, n) for values in (fold, y, cluster))
    scores = fit.scores.by_fold(features, cluster, fold)
    before, *losses = np.average(log_loss(scores, y).reshape(n, -1), axis=1, weights=rows.weight).tolist()
    names = problem.encoder.names_
    found = {names[j]: loss - before for j, loss in zip(tried, losses, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _follows(score: FloatArray, values: FloatArray) -> float:
    """Part of the variance of scores (n_rows, M) between parts of a feature's values, whatever these mean."""
    ranks = np.unique(values, return_inverse=True)[1]
    part = ranks * N_PARTS // (ranks.max() + 1)
    count, away = np.bincount(part), score - score.mean(0)
    between = sum((np.bincount(part, weights=column) ** 2 / np.maximum(count, 1)).sum() for column in away.T)
    return float(between / max(float((away**2).sum()), 1e-300))


def _with_shuffled(features: Features, j: int, order: np.ndarray) -> Features:
    """Features in which column j is that of other rows."""
    frame = as_frame(features)
    if frame is None:
        moved = features.copy()
        moved[:, j] = moved[order, j]
        return moved
    other = as_frame(take_rows(features, order))
    assert other is not None
    name = frame.columns[j]
    return frame.with_columns(other.get_column(name).alias(name)).to_native()


def importance_table(model: Model) -> Table:
    """Features by what their shuffling costs on held-out labels, the largest first; none where labels could not be held out."""
    found = sorted(named_features(model, model.evidence_.importance).items(), key=lambda item: -item[1])
    names, rises = [name for name, _ in found], [rise for _, rise in found]
    return {"feature": np.array(names, dtype=object), "loss_rise": np.array(rises, float)}
