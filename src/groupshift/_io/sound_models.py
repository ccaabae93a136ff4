"""Whether the parts of a model from a file can have come from a fit: types, shapes, numbers, settings, trees.

A checksum finds damage. Whoever writes a file can compute one, so that nonsense may be sealed: what it would make of rows
is refused here, before any row is read.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from groupshift._io.allowed_estimators import setting_problem
from groupshift._io.sound_trees import PLAIN, UnsoundError, check_trees, inside
from groupshift._rows.rows import Rows

# Parts that predictions are made of: no number in them may be missing or infinite.
FINITE = (
    "ClassEstimate",
    "ClassLearned",
    "ClassPoints",
    "ClassViews",
    "Context",
    "CutPartition",
    "Estimate",
    "GaussianPartition",
    "LabeledMeans",
    "Learned",
    "LabeledPosterior",
    "LinearPartition",
    "OwnViews",
    "PlattScaling",
    "Points",
    "Space",
    "VectorScaling",
)
# Fields of an estimate, one number for each group and cluster; of those that follow, one for each of several classes, too.
OF_CELLS = ("rows", "row_weight", "pooling")
OF_CLASSES = ("shift", "variance", "shared_deviation", "share", "share_error")
OF_CLUSTERS = ("unseen_shift", "unseen_variance")
OF_MEANS = ("share", "score", "rows")
KINDS = ("number", "boolean", "category", "date")
NAMES_OF_GROUPS = ("groups", "known_groups", "labeled_groups", "labeled_groups_")
NUMBERS = {float: (int, float, np.integer, np.floating), int: (int, np.integer), bool: (bool, np.bool_)}
# A fitted model as this folder sees it: the estimator is above it.
Model: TypeAlias = Any


def check_sound(model: Model) -> None:
    """Refuse a model that no fit would end in, with an `UnsoundError` that says why."""
    for part in _parts(model, set()):
        name, module = type(part).__name__, type(part).__module__
        if isinstance(part, BaseEstimator) and module.startswith("sklearn."):
            if problem := setting_problem(part):
                raise UnsoundError(problem)
            _check_centers(part)
        if module.startswith("groupshift."):
            if is_dataclass(part):
                _check_fields(part)
            if name in FINITE:
                _check_finite(part)
    _check_encoder(model.encoder_)
    check_trees(model, len(model.encoder_.names_))
    _try_classifiers(model)
    # The baselines learn no shares.
    if type(model).__module__ != "groupshift.baselines":
        _check_cuts(model.learned_.posterior.partition, len(model.encoder_.names_))
        _check_shapes(model)


def _check_fields(part: object) -> None:
    """Every field of a value of ours holds what its type says."""
    hints = get_type_hints(type(part))
    for field in fields(part):  # type: ignore[arg-type]  # a dataclass, as the caller knows
        if not hasattr(part, field.name):
            # A field that is younger than the file: what needs it says so, the rest works.
            continue
        if not _fits(getattr(part, field.name), hints[field.name]):
            found = type(getattr(part, field.name)).__name__
            raise UnsoundError(f"{field.name} in its {type(part).__name__} is a {found}")


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _has_kind(value, get_args(get_args(hint)[1])[0])
    if hint in NUMBERS:
        return isinstance(value, NUMBERS[hint]) and (hint is bool or not isinstance(value, (bool, np.bool_)))
    if origin is tuple:
        inner = get_args(hint)
        return isinstance(value, tuple) and (
            inner[-1] is not Ellipsis or all(_fits(v, inner[0]) for v in value)
        )
    if origin is not None:
        return isinstance(value, origin) if isinstance(origin, type) else True
    if hint is None or hint is type(None):
        return value is None
    # What is known by its methods (Any, Protocol) is known when it is called.
    return not isinstance(hint, type) or getattr(hint, "_is_protocol", False) or isinstance(value, hint)


def _has_kind(value: np.ndarray[Any, Any], kind: Any) -> bool:
    return not (isinstance(kind, type) and issubclass(kind, np.generic)) or np.can_cast(
        value.dtype, kind, "same_kind"
    )


def _check_finite(part: object) -> None:
    for name, value in vars(part).items():
        if name in NAMES_OF_GROUPS or not isinstance(value, (float, np.floating, np.ndarray)):
            continue
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
            raise UnsoundError(f"{name} in its {type(part).__name__} has missing or infinite numbers")


def _check_centers(part: BaseEstimator) -> None:
    """Clusterers measure distances to their centres without asking how wide these are."""
    centers = vars(part).get("cluster_centers_")
    if centers is None:
        return
    is_matrix = isinstance(centers, np.ndarray) and centers.ndim == 2 and centers.dtype.kind == "f"
    if not is_matrix or centers.shape[1] != vars(part).get("n_features_in_"):
        raise UnsoundError(f"its {type(part).__name__} has centres of another width than its table")


def _check_encoder(encoder: Model) -> None:
    names, kinds, categories = encoder.names_, encoder.kinds_, encoder.categories_
    sound = (
        len(names) == len(kinds) == len(categories) > 0
        and all(isinstance(name, str) for name in names)
        and all(kind in KINDS for kind in kinds)
        and all(isinstance(known, np.ndarray) and known.ndim == 1 for known in categories)
        and all(isinstance(j, int) and 0 <= j < len(names) for j in encoder.left_out_)
    )
    if not sound:
        raise UnsoundError("its columns are not described as a fit describes them")


def _check_shapes(model: Model) -> None:
    """Groups and clusters are as many in every part."""
    learned, estimate = model.learned_, model.estimate_
    n_groups, n_clusters = len(estimate.groups), len(learned.labeled_prior)
    calibration = learned.posterior.calibration
    # Arrays of two classes have no axis for them.
    n_classes = len(model.schema_.classes)
    classes = () if n_classes == 2 else (n_classes,)
    shapes = {
        **{name: (getattr(estimate, name).shape, (n_groups, n_clusters)) for name in OF_CELLS},
        **{name: (getattr(estimate, name).shape, (n_groups, n_clusters, *classes)) for name in OF_CLASSES},
        **{name: (getattr(estimate, name).shape, (n_clusters, *classes)) for name in OF_CLUSTERS},
        "labelled shares": (learned.labeled_prior.shape, (n_clusters, *classes)),
        "classes": (model.schema_.classes.shape, (max(n_classes, 2),)),
        "clusters": (learned.posterior.partition.n_clusters, n_clusters),
        "intercepts": (calibration.intercept_.shape, calibration.slope_.shape),
    }
    for own in (getattr(learned, "own", None), getattr(learned, "hidden", None)):
        means = getattr(own, "means", None)
        if own is not None and means is not None:
            of_groups = (len(own.groups),)
            shapes |= {f"mean {name}": (getattr(means, name).shape, of_groups) for name in OF_MEANS}
    offset = getattr(learned.posterior, "offset", None)
    if offset is not None:
        shapes |= {"offsets": (offset.shape, (n_clusters,))}
    # Without groups, all labelled rows are one.
    n_labeled = len(learned.labeled_groups) if model.schema_.has_groups else 1
    samples = {"groups": n_labeled, "labeled_clusters": n_clusters}
    # Evidence of several classes has other parts.
    for part, n in samples.items() if n_classes == 2 else ():
        sample = vars(getattr(model.evidence_, part))
        shapes |= {f"{name} of {part}": (sample[name].shape, (n,)) for name in ("rows", "weight", "share")}
    for name, (found, wanted) in shapes.items():
        if found != wanted:
            raise UnsoundError(f"its {name} have shape {found} where others have {wanted}")
    # Without unlabelled rows there are no points.
    if n_classes == 2 and estimate.points is not None:
        _check_points(estimate.points, n_groups * n_clusters)
    _try(model, n_clusters)
    if calibration.slope_.shape not in ((1, *classes), (n_clusters, *classes)):
        raise UnsoundError("it is calibrated for another number of clusters than it has")
    if (estimate.variance < 0).any() or (estimate.unseen_variance < 0).any():
        raise UnsoundError("it has negative variances")
    if ((estimate.share < 0) | (estimate.share > 1)).any():
        raise UnsoundError("it has shares outside 0 and 1")


def _check_cuts(partition: Model, n_columns: int) -> None:
    """A cut splits a cell that there is, across a column that there is; other partitions have no cuts."""
    if type(partition).__name__ != "CutPartition":
        return
    n_cuts = len(partition.cell)
    sound = (
        all(values.shape == (n_cuts,) for values in (partition.cell, partition.column, partition.threshold))
        and partition.cell.dtype.kind == partition.column.dtype.kind == "i"
        and partition.categories.shape == (n_cuts, partition.n_codes)
        and partition.categories.dtype == bool
        and bool(((partition.cell >= 0) & (partition.cell <= np.arange(n_cuts))).all())
        and bool(((partition.column >= 0) & (partition.column < n_columns)).all())
    )
    if not sound:
        raise UnsoundError("its cuts are not those of a fit")


def _check_points(points: Model, n_cells: int) -> None:
    """Points lie in cells that there are."""
    cell = points.cell
    of_points = (points.score, points.weight)
    of_cells = (points.rows, points.weight_sum, points.weight_square_sum)
    sound = (
        cell.ndim == 1
        and cell.dtype.kind in "iu"
        and (len(cell) == 0 or (cell.min() >= 0 and cell.max() < n_cells))
        and all(values.shape == cell.shape for values in of_points)
        and all(values.shape == (n_cells,) for values in of_cells)
    )
    if not sound:
        raise UnsoundError("its scores of unlabelled rows do not lie in its groups and clusters")


def _try_classifiers(model: Model) -> None:
    """Ask each classifier of scikit-learn that takes numbers for one answer; trees of a forest answer with it."""
    for part in _parts(model, set()):
        own = vars(part) if isinstance(part, BaseEstimator) else {}
        is_asked = "n_features_in_" in own and "classes_" in own and "feature_names_in_" not in own
        if not is_asked or type(part).__module__.startswith(("groupshift.", "sklearn.tree.")):
            continue
        if not hasattr(part, "predict_proba"):
            continue
        answer = part.predict_proba(np.zeros((1, own["n_features_in_"])))
        if np.shape(answer) != (1, len(own["classes_"])) or not np.isfinite(answer).all():
            raise UnsoundError(f"its {type(part).__name__} has no answer to a row")


def _try(model: Model, n_clusters: int) -> None:
    """Score two rows, one without values: parts whose shapes do not fit together show it here and not at the first batch."""
    learned, schema = model.learned_, model.schema_
    n_columns, nothing = len(schema.encoder.names_), np.zeros(2, np.int64)
    matrix = np.repeat([[0.0], [np.nan]], n_columns, axis=1)
    rows = Rows(matrix, matrix, nothing, np.ones(2), nothing.astype(np.uint64))
    posteriors = [learned.posterior]
    if not schema.is_multiclass:
        learned.space.transform(matrix)
        posteriors.append(learned.population_posterior)
    for posterior in posteriors:
        if schema.takes_matrix:
            score, cluster = posterior.score(rows)
        elif not hasattr(learned.posterior.partition, "clusterer"):
            score, cluster = np.zeros(2), learned.posterior.partition.predict(rows)
        else:
            continue
        if not np.isfinite(score).all() or ((cluster < 0) | (cluster >= n_clusters)).any():
            raise UnsoundError("it has no answer to a row")


def _parts(part: object, seen: set[int]) -> Iterator[object]:
    """Every object inside a model, once."""
    if id(part) in seen or isinstance(part, PLAIN):
        return
    seen.add(id(part))
    yield part
    for value in inside(part):
        yield from _parts(value, seen)
