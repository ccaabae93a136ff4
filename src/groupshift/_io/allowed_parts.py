"""What a saved model may consist of, checked on the description of its parts before any of them is made.

skops checks types too. This check is ours, is stricter (no methods, no operators, no functions but one), and
looks into decision trees, whose node numbers scikit-learn follows without looking.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

EVIDENCE_PARTS = (
    "Calibration",
    "ClusterProfiles",
    "Evidence",
    "Examples",
    "HeldOut",
    "HiddenLabels",
    "Independence",
    "LabeledSample",
    "Reliability",
    "ScoreDistributions",
    "ScoreIndependence",
    "Totals",
    "TrustEvidence",
)
OWN_TYPES = frozenset(
    f"groupshift.{name}"
    for name in (
        "baselines.CoralClassifier",
        "baselines.GroupAwareClassifier",
        "_math.calibration.PlattScaling",
        "classifier.GroupShiftClassifier",
        "_io.columns.TableClassifier",
        "_math.context.Context",
        *(f"_explain.evidence_parts.{part}" for part in EVIDENCE_PARTS),
        "_regions.gaussian_cells.GaussianPartition",
        "_regions.partitions.GivenPartition",
        "_regions.partitions.LinearPartition",
        "_regions.space.Space",
        "_regions.partitions.WholeSpace",
        "_math.points.Points",
        "_fit.posterior.LabeledPosterior",
        "_fit.posterior.PerClusterClassifier",
        "_rows.frames.Codes",
        "_rows.frames.FeatureEncoder",
    )
)
# Types that have moved since models were saved: (module, name) as such a file has it, and the module of today.
MOVED_TYPES = {("groupshift._math.label_shift", "Points"): "groupshift._math.points"}
# Histogram gradient boosting with categories checks its input through a partial of this function.
CHECK_ARRAY = "sklearn.utils.validation.check_array"
TREES = frozenset(
    {"sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"}
)
# Boosted trees carry their loss, which holds nothing. skops trusts it by the name that the installed scikit-learn
# gives it; files of later versions have this one.
LOSS = "sklearn._loss._loss.CyHalfBinomialLoss"
ALLOWED_TYPES = OWN_TYPES | TREES | {"functools.partial", CHECK_ARRAY, LOSS}

# Kinds of parts that only hold values. Methods, operators and arbitrary functions are not among them.
LOADERS = frozenset(
    {
        "BytesNode",
        "CachedNode",
        "DefaultDictNode",
        "DictNode",
        "FunctionNode",
        "JsonNode",
        "ListNode",
        "LossNode",
        "MaskedArrayNode",
        "NdArrayNode",
        "ObjectNode",
        "PartialNode",
        "RandomGeneratorNode",
        "RandomStateNode",
        "SetNode",
        "SliceNode",
        "SparseMatrixNode",
        "TreeNode",
        "TupleNode",
        "TypeNode",
    }
)


def with_present_names(parts: bytes) -> bytes:
    """A skops dump that names types by where they are today; the same bytes where none of them has moved."""
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        schema = json.loads(archive.read("schema.json"))
        moved = [part for part in _parts(schema) if _place(part) in MOVED_TYPES]
        if not moved:
            return parts
        for part in moved:
            part["__module__"] = MOVED_TYPES[_place(part)]
        content = {name: archive.read(name) for name in archive.namelist()}
    renamed = io.BytesIO()
    with zipfile.ZipFile(renamed, "w") as archive:
        for name, data in (content | {"schema.json": json.dumps(schema).encode()}).items():
            archive.writestr(name, data)
    return renamed.getvalue()


def foreign_parts(parts: bytes) -> set[str]:
    """Names of what a skops dump holds beyond the parts of a model and what skops trusts anyway."""
    from skops.io import get_untrusted_types

    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        schema = json.loads(archive.read("schema.json"))
    strange = {_name(part) for part in _parts(schema) if not _only_holds_values(part)}
    return strange | (set(get_untrusted_types(data=parts)) - ALLOWED_TYPES)


def check_trees(model: Any) -> str | None:
    """What is wrong with the decision trees in a model; None if every path through them ends.

    scikit-learn follows the numbers in a tree's nodes without checking them: one that points outside reads
    foreign memory, one that points back never ends.
    """
    for tree, n_features in _trees(model, 0, set()):
        nodes = tree.nodes if hasattr(tree, "nodes") else tree.__getstate__()["nodes"]
        boosted = "is_leaf" in nodes.dtype.names
        left, right, feature = (
            ("left", "right", "feature_idx") if boosted else ("left_child", "right_child", "feature")
        )
        own = np.flatnonzero(nodes["is_leaf"] == 0 if boosted else nodes[left] != -1)
        for side in (left, right):
            child = nodes[side][own].astype(np.int64)
            if not np.all((child > own) & (child < len(nodes))):
                return "a decision tree in it has nodes that lead nowhere"
        asked = nodes[feature][own].astype(np.int64)
        if not np.all((asked >= 0) & (asked < n_features)):
            return "a decision tree in it asks for features that do not exist"
        if boosted and not _has_bitsets(tree, nodes[own]):
            return "a decision tree in it asks for categories that do not exist"
    return None


def _has_bitsets(tree: Any, nodes: np.ndarray) -> bool:
    asked = nodes["bitset_idx"][nodes["is_categorical"] != 0].astype(np.int64)
    return bool(np.all(asked < min(len(tree.raw_left_cat_bitsets), len(tree.binned_left_cat_bitsets))))


def _trees(part: Any, n_features: int, seen: set[int]) -> Iterator[tuple[Any, int]]:
    """Decision trees anywhere in a model, each with the number of features of its estimator."""
    if id(part) in seen or isinstance(part, (str, bytes, int, float, np.generic, type(None))):
        return
    seen.add(id(part))
    if f"{type(part).__module__}.{type(part).__name__}" in TREES:
        yield part, n_features
        return
    if isinstance(part, np.ndarray):
        inner: Any = part.ravel().tolist() if part.dtype == object else ()
    elif isinstance(part, (list, tuple)):
        inner = part
    elif isinstance(part, dict):
        inner = part.values()
    else:
        inner = getattr(part, "__dict__", {}).values()
        n_features = getattr(part, "n_features_in_", n_features)
    for value in inner:
        yield from _trees(value, n_features, seen)


def _parts(node: Any) -> Iterator[dict]:
    """Every described part in a schema, from the outside in."""
    if isinstance(node, dict):
        if "__loader__" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from _parts(value)


def _place(part: dict) -> tuple[Any, Any]:
    return part.get("__module__"), part.get("__class__")


def _name(part: dict) -> str:
    return "{}.{}".format(*_place(part))


def _only_holds_values(part: dict) -> bool:
    loader = part["__loader__"]
    if loader == "FunctionNode":
        return _name(part) == CHECK_ARRAY
    if loader == "PartialNode":
        return _name(part["content"]["func"]) == CHECK_ARRAY
    return loader in LOADERS
