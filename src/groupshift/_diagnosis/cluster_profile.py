"""What sets each cluster apart, in the features' own names and units."""

import numpy as np

from groupshift._data.encoder import FeatureEncoder
from groupshift._diagnosis.evidence_parts import ClusterProfiles
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, Table
from groupshift._math.sums import power_of_two, ratio, sum_by

# Differences below a fifth of a standard deviation are no description of a place (Cohen's "small").
WORTH_TELLING = 0.2


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
