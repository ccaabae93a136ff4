"""What a saved model may consist of, checked on the description of its parts before any of them is made.

skops checks types too. This check is ours, is stricter (no methods, no operators, no functions but one), and
looks into decision trees, whose node numbers scikit-learn follows without looking.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Our types in model files, where each class is today. A file calls them "groupshift/PlattScaling", so that a class can
# move: its line here changes, and files stay as they are. A new type that fitted models hold gets a line.
OWN_TYPES = (
    "groupshift.baselines:CoralClassifier",
    "groupshift.baselines:GroupAwareClassifier",
    "groupshift.classifier:GroupShiftClassifier",
    "groupshift._fit.classifiers:PerClusterClassifier",
    "groupshift._fit.estimate:Estimate",
    "groupshift._fit.view_shifts:ViewUse",
    "groupshift._fit.learned:Learned",
    "groupshift._fit.own_views:OwnViews",
    "groupshift._fit.posterior:FoldPosterior",
    "groupshift._fit.posterior:LabeledPosterior",
    "groupshift._io.columns:TableClassifier",
    "groupshift._math.calibration:PlattScaling",
    "groupshift._math.context:Context",
    "groupshift._math.points:Points",
    "groupshift._math.class_points:ClassPoints",
    "groupshift._math.vector_scaling:VectorScaling",
    "groupshift._multi.class_estimate:ClassEstimate",
    "groupshift._multi.class_learned:ClassLearned",
    "groupshift._multi.class_learned:ClassViews",
    "groupshift._multi.class_scores:ClassPosterior",
    "groupshift._regions.gaussian_cells:GaussianPartition",
    "groupshift._regions.partitions:GivenPartition",
    "groupshift._regions.partitions:LinearPartition",
    "groupshift._regions.partitions:WholeSpace",
    "groupshift._regions.space:Space",
    "groupshift._rows.codes:Codes",
    "groupshift._rows.encoder:FeatureEncoder",
    "groupshift._rows.schema:Schema",
    *(
        f"groupshift._explain.class_evidence:{part}"
        for part in ("ClassEvidence", "ClassHidden", "ClassIndependence", "ClassSample")
    ),
    *(
        f"groupshift._explain.evidence_parts:{part}"
        for part in (
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
    ),
)
# What stands for the module of a type of ours in a file.
OURS = "groupshift/"
# A described part, as skops writes it, and where a type is: module and class.
Described = dict[str, object]
Place = tuple[str, str]
# Histogram gradient boosting with categories checks its input through a partial of this function.
CHECK_ARRAY = "sklearn.utils.validation.check_array"
TREES = frozenset(
    {"sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"}
)
# Boosted trees carry their loss, which holds nothing. skops trusts it by the name that the installed scikit-learn
# gives it; files of later versions have this one.
LOSSES = {"sklearn._loss._loss.CyHalfBinomialLoss", "sklearn._loss._loss.CyHalfMultinomialLoss"}
ALLOWED_TYPES = (
    {place.replace(":", ".") for place in OWN_TYPES} | TREES | {"functools.partial", CHECK_ARRAY} | LOSSES
)

# Kinds of parts that only hold values. Methods, operators and arbitrary functions are not among them.
# fmt: off
LOADERS = frozenset((
    "BytesNode", "CachedNode", "DefaultDictNode", "DictNode", "FunctionNode", "JsonNode", "ListNode", "LossNode",
    "MaskedArrayNode", "NdArrayNode", "ObjectNode", "PartialNode", "RandomGeneratorNode", "RandomStateNode", "SetNode",
    "SliceNode", "SparseMatrixNode", "TreeNode", "TupleNode", "TypeNode",
))
# fmt: on


def with_stable_names(parts: bytes) -> bytes:
    """A skops dump that calls our types by their stable names, compressed."""
    return _renamed(parts, {place: (OURS, place[1]) for place in _places(OWN_TYPES)})


def with_present_names(parts: bytes) -> bytes:
    """A skops dump that names our types by where they are today; one that names a module of ours itself is refused."""
    for part in _described(_schema(parts)):
        if _place(part)[0].partition(".")[0] == "groupshift":
            raise ValueError(f"{_name(part)} is named by its place")
    return _renamed(parts, {(OURS, place[1]): place for place in _places(OWN_TYPES)})


def foreign_parts(parts: bytes) -> set[str]:
    """Names of what a skops dump holds beyond the parts of a model and what skops trusts anyway."""
    from skops.io import get_untrusted_types

    strange = {_name(part) for part in _described(_schema(parts)) if not _only_holds_values(part)}
    return strange | (set(get_untrusted_types(data=parts)) - ALLOWED_TYPES)


def check_trees(model: object) -> str | None:
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


def _has_bitsets(tree: Any, nodes: NDArray[np.void]) -> bool:
    asked = nodes["bitset_idx"][nodes["is_categorical"] != 0].astype(np.int64)
    return bool(np.all(asked < min(len(tree.raw_left_cat_bitsets), len(tree.binned_left_cat_bitsets))))


# Trees are scikit-learn's, which has no types.
def _trees(part: object, n_features: int, seen: set[int]) -> Iterator[tuple[Any, int]]:
    """Decision trees anywhere in a model, each with the number of features of its estimator."""
    if id(part) in seen or isinstance(part, (str, bytes, int, float, np.generic, type(None))):
        return
    seen.add(id(part))
    if f"{type(part).__module__}.{type(part).__name__}" in TREES:
        yield part, n_features
        return
    inner: Iterable[object]
    if isinstance(part, np.ndarray):
        inner = part.ravel().tolist() if part.dtype == object else ()
    elif isinstance(part, (list, tuple)):
        inner = part
    elif isinstance(part, dict):
        inner = part.values()
    else:
        inner = getattr(part, "__dict__", {}).values()
        n_features = getattr(part, "n_features_in_", n_features)
    for value in inner:
        yield from _trees(value, n_features, seen)


def _schema(parts: bytes) -> object:
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        return json.loads(archive.read("schema.json"))


def _renamed(parts: bytes, names: Mapping[Place, Place]) -> bytes:
    """A skops dump whose types have other names; the rest stays as it is."""
    schema = _schema(parts)
    for part in _described(schema):
        if _place(part) in names:
            part["__module__"], part["__class__"] = names[_place(part)]
    renamed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(parts)) as old,
        zipfile.ZipFile(renamed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.infolist():
            content = json.dumps(schema) if entry.filename == "schema.json" else old.read(entry)
            new.writestr(entry.filename, content)
    return renamed.getvalue()


def _places(types: Iterable[str]) -> Iterator[Place]:
    for name in types:
        module, _, class_name = name.partition(":")
        yield module, class_name


def _described(node: object) -> Iterator[Described]:
    """Every described part in a schema, from the outside in."""
    if isinstance(node, dict):
        if "__loader__" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for value in node:
            yield from _described(value)


def _place(part: Described) -> Place:
    return str(part.get("__module__")), str(part.get("__class__"))


def _name(part: Described) -> str:
    return ".".join(_place(part))


def _only_holds_values(part: Described) -> bool:
    loader = part["__loader__"]
    if loader == "FunctionNode":
        return _name(part) == CHECK_ARRAY
    if loader == "PartialNode":
        content = part["content"]
        function = content.get("func") if isinstance(content, dict) else None
        return isinstance(function, dict) and _name(function) == CHECK_ARRAY
    return loader in LOADERS
