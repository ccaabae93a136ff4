"""Decision trees from a file, looked through before anything is predicted by them.

scikit-learn follows the numbers in a tree's nodes without checking them: one that points outside reads foreign memory,
one that points back never ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

# scikit-learn's trees have no types.
Tree: TypeAlias = Any
Nodes: TypeAlias = NDArray[np.void]
PLAIN = (str, bytes, int, float, np.generic, type(None))
TREES = ("Tree", "TreePredictor")
# Estimators that hand other columns on than they are given. What they call checks the width of its table itself.
CHANGE_WIDTH = (
    "BaggingClassifier",
    "ColumnTransformer",
    "FeatureUnion",
    "GroupAwareClassifier",
    "Pipeline",
    "StackingClassifier",
    "TableClassifier",
)
# Bits of a set of categories: 8 words of 32.
BITSET_WORDS, MOST_CATEGORIES = 8, 256


def inside(part: object) -> list[object]:
    """What an object holds, one level down; texts and numbers hold nothing."""
    if isinstance(part, np.ndarray):
        return part.ravel().tolist() if part.dtype == object else []
    if isinstance(part, (list, tuple, set, frozenset)):
        return list(part)
    return list((part if isinstance(part, Mapping) else getattr(part, "__dict__", {})).values())


class UnsoundError(ValueError):
    """A part of a model that cannot have come from a fit; the message says what is wrong."""


def check_trees(model: object, n_features: int) -> None:
    """Refuse trees that would read outside of what they are given; `n_features`: columns of the model's table."""
    for owner, tree, width in _trees(model, None, n_features, set()):
        if width is None:
            raise UnsoundError("a decision tree in it belongs to no estimator")
        if type(tree).__name__ == "TreePredictor":
            _check_boosted(tree, owner, width)
        else:
            _check_tree(tree, width)


def _check_tree(tree: Tree, width: int) -> None:
    # Asked first: a tree hands out as many nodes as it counts, whether they are there or not.
    if not 0 < tree.node_count <= tree.capacity:
        raise UnsoundError("a decision tree in it has no nodes, or fewer than it counts")
    state = tree.__getstate__()
    nodes, values = state["nodes"], state["values"]
    _check_nodes(nodes, nodes["left_child"] != -1, ("left_child", "right_child", "feature"), width)
    sizes = {state["node_count"], len(nodes), len(values)}
    if len(sizes) > 1 or tree.n_features != width or not np.isfinite(values).all():
        raise UnsoundError("a decision tree in it has other sizes than it says")


def _check_boosted(tree: Tree, owner: object, width: int) -> None:
    nodes = tree.nodes
    inner = nodes["is_leaf"] == 0
    _check_nodes(nodes, inner, ("left", "right", "feature_idx"), width)
    bitsets = (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets)
    splits = nodes[inner & (nodes["is_categorical"] != 0)]
    asked, mapper = splits["feature_idx"].astype(np.int64), getattr(owner, "_bin_mapper", None)
    exist = (
        all(b.dtype == np.uint32 and b.ndim == 2 and b.shape[1] == BITSET_WORDS for b in bitsets)
        and np.all(splits["bitset_idx"].astype(np.int64) < min(map(len, bitsets)))
        and np.all(categorical_columns(mapper, width)[asked])
    )
    if not exist:
        raise UnsoundError("a decision tree in it asks for categories that do not exist")
    if not np.isfinite(nodes["value"]).all():
        raise UnsoundError("a decision tree in it has answers that are no numbers")


def categorical_columns(mapper: Any, width: int) -> NDArray[np.bool_]:
    """Which columns of boosted trees are categories, if what is known of these fits into their sets."""
    is_categorical, known = np.asarray(mapper.is_categorical_), mapper.bin_thresholds_
    if is_categorical.shape != (width,) or is_categorical.dtype != np.uint8 or len(known) != width:
        raise UnsoundError("the boosted trees in it know another number of columns than they are given")
    for column in np.flatnonzero(is_categorical):
        values = np.asarray(known[column], float)
        if not np.all((values >= 0) & (values < MOST_CATEGORIES)):
            raise UnsoundError("the boosted trees in it know categories that do not exist")
    found: NDArray[np.bool_] = is_categorical != 0
    return found


def _check_nodes(nodes: Nodes, inner: NDArray[np.bool_], fields: tuple[str, str, str], width: int) -> None:
    """Every path through the nodes goes on to a later one and ends in a leaf, and every feature is there."""
    if nodes.ndim != 1 or not len(nodes):
        raise UnsoundError("a decision tree in it has no nodes")
    left, right, feature = fields
    own = np.flatnonzero(inner)
    for side in (left, right):
        child = nodes[side][own].astype(np.int64)
        if not np.all((child > own) & (child < len(nodes))):
            raise UnsoundError("a decision tree in it has nodes that lead nowhere")
    asked = nodes[feature][own].astype(np.int64)
    if not np.all((asked >= 0) & (asked < width)):
        raise UnsoundError("a decision tree in it asks for features that do not exist")


def _trees(
    part: object, owner: object, width: int | None, seen: set[tuple[int, int | None]]
) -> Iterator[tuple[object, Tree, int | None]]:
    """Decision trees anywhere in a model, each with its estimator and the number of columns that this is given.

    A tree that is reached twice is looked at for each width that it is reached by.
    """
    if (id(part), width) in seen or isinstance(part, PLAIN):
        return
    seen.add((id(part), width))
    if type(part).__name__ in TREES and type(part).__module__.startswith("sklearn."):
        yield owner, part, width
        return
    if isinstance(part, BaseEstimator):
        width = _width(part, width)
        owner = part
    for value in inside(part):
        yield from _trees(value, owner, width, seen)


def _width(estimator: BaseEstimator, given: int | None) -> int | None:
    """Number of columns that the parts of an estimator are given; None where they check it themselves."""
    own = vars(estimator).get("n_features_in_", given)
    if type(estimator).__module__.startswith("groupshift."):
        return None if type(estimator).__name__ in CHANGE_WIDTH else given
    if isinstance(own, np.integer):
        own = int(own)
    if own is not None and (not isinstance(own, int) or (given is not None and own != given)):
        raise UnsoundError(f"its {type(estimator).__name__} takes {own} columns, and is given {given}")
    return None if type(estimator).__name__ in CHANGE_WIDTH else own
