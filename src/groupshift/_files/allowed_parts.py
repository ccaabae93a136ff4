"""What a saved model may consist of, checked on the description of its parts before any of them is made.

skops checks types too. This check is ours and is stricter: no methods, no operators, no functions but one, and of
scikit-learn only the estimators of `fitted_attributes`. What the parts hold is for `sound_models` and `sound_trees`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from groupshift._files.fitted_attributes import LOSSES, PARTS, is_allowed_estimator
from groupshift.tables.packed import check_sizes

# Our types in model files, by the module where each class is today. A file calls them "groupshift/PlattScaling", so that a
# class can move: its place here changes, and files stay as they are. A new type that fitted models hold is added.
# fmt: off
OWN = {
    "baselines": "CoralClassifier GroupAwareClassifier",
    "classifier": "GroupShiftClassifier",
    "_audit.found": "AuditFound DesignShare SharePosterior Verdicts",
    "_diagnosis.fitted": "ClusterProfiles Evidence HeldOut Independence LabeledSample ScoreDistributions",
    "tables.columns": "TableClassifier",
    "_audit.inference": "AuditedShift",
    "_partitions.correction": "CellCorrection",
    "_partitions.cuts": "CutPartition",
    "_partitions.partitions": "GivenPartition LinearPartition WholeSpace",
    "_data.codes": "Codes",
    "_data.encoder": "FeatureEncoder Space",
    "_data.reading": "Schema",
    "_scores.linear": "LinearClassifier",
    "_scores.members": "PerCluster",
    "_partitions.posterior": "Posterior",
    "_scores.stack": "ClusterLines Combination Stack",
    "_shifts.common": "CommonShift Directions MeanSums",
    "_shifts.counts": "Counts",
    "_shifts.estimate": "Estimate Learned",
    "_shifts.evidence": "LabeledSums",
    "_shifts.sums": "Bins Sums",
}
# fmt: on
OWN_TYPES = tuple(f"groupshift.{module}:{name}" for module, names in OWN.items() for name in names.split())
# What stands for the module of a type of ours in a file.
OURS = "groupshift/"
# A described part, as skops writes it, and where a type is: module and class.
Described = dict[str, object]
Place = tuple[str, str]
# Histogram gradient boosting with categories checks its input through a partial of this function; features are selected by
# what one of the others found at fit.
CHECK_ARRAY = "sklearn.utils.validation.check_array"
FUNCTIONS = {CHECK_ARRAY} | {
    f"sklearn.feature_selection._univariate_selection.{name}" for name in ("chi2", "f_classif")
}
OWN_NAMES = frozenset(place.replace(":", ".") for place in OWN_TYPES)
ALLOWED_TYPES = OWN_NAMES | PARTS.keys() | {"functools.partial", "numpy.dtype"} | FUNCTIONS | LOSSES

# Kinds of parts that only hold values. Methods, operators, arbitrary functions, sparse matrices (which nobody checks) and
# generators of random numbers (which have done their work) are not among them.
# fmt: off
LOADERS = frozenset((
    "BytesNode", "CachedNode", "DTypeNode", "DictNode", "FunctionNode", "JsonNode", "ListNode", "LossNode", "NdArrayNode",
    "ObjectNode", "PartialNode", "SetNode", "SliceNode", "TreeNode", "TupleNode", "TypeNode",
))
# fmt: on


@dataclass(frozen=True)
class Held:
    """Names of what a skops dump holds beyond what skops trusts anyway: parts of a model, and others."""

    known: frozenset[str]
    foreign: frozenset[str]


def with_stable_names(parts: bytes) -> bytes:
    """A skops dump that calls our types by their stable names, compressed."""
    names = {place: (OURS, place[1]) for place in _places(OWN_TYPES)}
    return _renamed(parts, _schema(parts), names, zipfile.ZIP_DEFLATED)


def with_present_names(parts: bytes) -> bytes:
    """A skops dump that names our types by where they are today; one that names a module of ours itself is refused."""
    schema = _schema(parts)
    described = list(_described(schema))
    _check_made(described)
    for part in described:
        if _place(part)[0].partition(".")[0] == "groupshift":
            raise ValueError(f"{_name(part)} is named by its place")
    # Read at once and thrown away: packing it again would take longer than reading it.
    names = {(OURS, place[1]): place for place in _places(OWN_TYPES)}
    return _renamed(parts, schema, names, zipfile.ZIP_STORED)


def held_parts(parts: bytes, trusted: Collection[str]) -> Held:
    """What a skops dump holds; `trusted` are names of further types that are known."""
    from skops.io import get_untrusted_types

    strange = {_name(part) for part in _described(_schema(parts)) if not _only_holds_values(part)}
    named = frozenset(get_untrusted_types(data=parts))
    known = named & ALLOWED_TYPES.union(trusted)
    return Held(known, (named - known) | strange.difference(trusted))


def _check_made(described: Sequence[Described]) -> None:
    """Trees have one output: scikit-learn reads as many numbers of classes as a tree says it has outputs.

    skops makes the first of the parts that have one number and takes it for the others, whatever these say.
    """
    outputs = [_arguments(part)[2] for part in described if part["__loader__"] == "TreeNode"]
    numbers = {one.get("__id__") for one in outputs} - {None}
    for one in (*outputs, *(part for part in described if part.get("__id__") in numbers)):
        if one.get("__loader__") != "JsonNode" or one.get("content") != "1":
            raise ValueError("a decision tree has several outputs")


def _arguments(tree: Described) -> list[Described]:
    """What a tree is made with: numbers of features, classes and outputs."""
    arguments: list[Described] = tree["__reduce__"]["args"]["content"]  # type: ignore[index]  # else it is refused
    return arguments


def _schema(parts: bytes) -> object:
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        check_sizes(archive, len(parts))
        return json.loads(archive.read("schema.json"))


def _renamed(parts: bytes, schema: object, names: Mapping[Place, Place], compression: int) -> bytes:
    """A skops dump, whose schema is given, whose types have other names; the rest stays as it is."""
    for part in _described(schema):
        if _place(part) in names:
            part["__module__"], part["__class__"] = names[_place(part)]
    renamed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(parts)) as old,
        zipfile.ZipFile(renamed, "w", compression) as new,
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
    """Every described part in a schema."""
    # A list of what is still to be looked at, since generators inside each other are slow where parts lie deep.
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "__loader__" in node:
                yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _is_known(module: str, name: str) -> bool:
    """Whether a class is ours, an estimator that a model may hold, or a type of plain values."""
    if module.partition(".")[0] in ("numpy", "builtins"):
        return True
    return f"{module}.{name}" in ALLOWED_TYPES or is_allowed_estimator(module, name)


def _place(part: Described) -> Place:
    return str(part.get("__module__")), str(part.get("__class__"))


def _name(part: Described) -> str:
    return ".".join(_place(part))


def _only_holds_values(part: Described) -> bool:
    loader = part["__loader__"]
    if loader == "FunctionNode":
        return _name(part) in FUNCTIONS
    if loader in ("ObjectNode", "TypeNode"):
        return _is_known(*_place(part))
    if loader == "PartialNode":
        content = part["content"]
        function = content.get("func") if isinstance(content, dict) else None
        return isinstance(function, dict) and _name(function) == CHECK_ARRAY
    return loader in LOADERS
