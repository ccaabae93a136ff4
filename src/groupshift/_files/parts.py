"""What a saved model may consist of, checked on the description of its parts before any of them is made.

skops checks types too. This check is ours and is stricter: no methods, no operators, no functions but three, and of
scikit-learn only what `parts.txt` has. What the parts hold is for `sound`.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from groupshift.tables.files import check_sizes

# A described part, as skops writes it, and where a type is: module and class.
Described = dict[str, Any]
Place = tuple[str, str]
# What stands for the module of a type of ours in a file, so that classes can move and files stay as they are.
OURS = "groupshift/"
# Value classes of ours that a model and its parts hold by themselves; type hints lead from these to all others.
VALUES = (
    "_data.reading:Schema",
    "_shifts.estimate:Learned",
    "_shifts.estimate:Estimate",
    "_diagnosis.fitted:Evidence",
    "_audit.found:AuditFound",
    "_partitions.cuts:CutPartition",
    "_partitions.correction:Posterior",
    "_scores.stack:Stack",
    "_scores.members:PerCluster",
    "_shifts.sums:Bins",
)
# Histogram gradient boosting with categories checks its input through a partial of the first; features are selected by what
# one of the others found at fit. Boosted trees carry their loss.
CHECK_ARRAY = "sklearn.utils.validation.check_array"
SELECTION = "sklearn.feature_selection._univariate_selection"
FUNCTIONS = {CHECK_ARRAY, f"{SELECTION}.chi2", f"{SELECTION}.f_classif"}
LOSSES = {
    # Earlier versions of scikit-learn call the module by its last name.
    f"{module}.CyHalf{name}Loss"
    for module in ("sklearn._loss._loss", "_loss")
    for name in ("Binomial", "Multinomial")
}
# Kinds of parts that only hold values. Methods, operators, arbitrary functions, sparse matrices (which nobody checks) and
# generators of random numbers (which have done their work) are not among them.
HOLDING = "Bytes Cached DType Dict Function Json List Loss NdArray Object Partial Set Slice Tree Tuple Type"
LOADERS = frozenset(f"{kind}Node" for kind in HOLDING.split())


@cache
def _table() -> dict[str, dict[str, dict[str, str]]]:
    """By class and package or module: attributes and what they hold."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for line in (Path(__file__).parent / "parts.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            module, names, *attributes = line.split()
            for name in names.split(","):
                found.setdefault(name, {})[module] = dict(one.split(":") for one in attributes)
    return found


def attributes_of(module: str, name: str) -> dict[str, str] | None:
    """What is written down of a class; None if nothing is.

    >>> attributes_of("sklearn.preprocessing._data", "MaxAbsScaler"), attributes_of("sklearn.svm._classes", "SVC")
    ({'scale_': 'f[F]'}, None)
    """
    places = _table().get(name, {}).items()
    return next((known for place, known in places if f"{module}.".startswith(f"{place}.")), None)


@cache
def own_types() -> dict[str, type]:
    """Types of ours that a model may hold, by their names: those of `parts.txt`, and all that type hints lead to."""
    written = [f"{place}:{name}" for name, places in _table().items() for place in places]
    places = [one for one in written if one.startswith("groupshift.")] + [
        f"groupshift.{one}" for one in VALUES
    ]
    named = (one.partition(":") for one in places)
    hints: list[Any] = [getattr(import_module(module), name) for module, _, name in named]
    found: dict[str, type] = {}
    while hints:
        hint = hints.pop()
        hints += get_args(hint)
        if (
            not isinstance(hint, type)
            or not hint.__module__.startswith("groupshift.")
            or hint in found.values()
        ):
            continue
        if is_dataclass(hint):
            hints += get_type_hints(hint).values()
        if is_dataclass(hint) or attributes_of(hint.__module__, hint.__name__) is not None:
            assert hint.__name__ not in found, hint
            found[hint.__name__] = hint
    return found


def is_known(place: Place) -> bool:
    """Whether a class is ours, one of scikit-learn that a model may hold, or a type of plain values."""
    module, name = place
    if module.partition(".")[0] == "groupshift":
        return name in own_types() and own_types()[name].__module__ == module
    return (
        module.partition(".")[0] in ("numpy", "builtins")
        or f"{module}.{name}" in FUNCTIONS | LOSSES | {"functools.partial"}
        or attributes_of(module, name) is not None
    )


def with_stable_names(parts: bytes) -> bytes:
    """A skops dump that calls our types by their stable names, compressed."""
    names = {(kind.__module__, name): (OURS, name) for name, kind in own_types().items()}
    return _renamed(parts, _schema(parts), names, zipfile.ZIP_DEFLATED)


def with_present_names(parts: bytes) -> bytes:
    """A skops dump that names our types by where they are today; one that names a module of ours itself is refused."""
    schema = _schema(parts)
    described = list(_described(schema))
    outputs = [
        tree["__reduce__"]["args"]["content"][2] for tree in described if tree["__loader__"] == "TreeNode"
    ]
    # skops makes the first of the parts that have one number and takes it for the others, whatever these say.
    numbers = {one.get("__id__") for one in outputs} - {None}
    for one in (*outputs, *(part for part in described if part.get("__id__") in numbers)):
        # scikit-learn reads as many numbers of classes as a tree says it has outputs.
        if one.get("__loader__") != "JsonNode" or one.get("content") != "1":
            raise ValueError("a decision tree has several outputs")
    for part in described:
        if _place(part)[0].partition(".")[0] == "groupshift":
            raise ValueError(f"{'.'.join(_place(part))} is named by its place")
    # Read at once and thrown away: packing it again would take longer than reading it.
    names = {(OURS, name): (kind.__module__, name) for name, kind in own_types().items()}
    return _renamed(parts, schema, names, zipfile.ZIP_STORED)


def held_parts(parts: bytes, trusted: Collection[str]) -> tuple[set[str], set[str]]:
    """Names of what a skops dump holds beyond what skops trusts anyway: parts of a model, and foreign ones.

    `trusted` are names of further types that are known.
    """
    from skops.io import get_untrusted_types

    strange = {".".join(_place(part)) for part in _described(_schema(parts)) if not _only_holds_values(part)}
    named = set(get_untrusted_types(data=parts))
    known = {name for name in named if name in trusted or is_known((*name.rpartition(".")[::2],))}
    return known, (named - known) | strange.difference(trusted)


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
    with zipfile.ZipFile(io.BytesIO(parts)) as old, zipfile.ZipFile(renamed, "w", compression) as new:
        for entry in old.infolist():
            is_schema = entry.filename == "schema.json"
            new.writestr(entry.filename, json.dumps(schema) if is_schema else old.read(entry))
    return renamed.getvalue()


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


def _place(part: Described) -> Place:
    return str(part.get("__module__")), str(part.get("__class__"))


def _only_holds_values(part: Described) -> bool:
    loader, name = part["__loader__"], ".".join(_place(part))
    if loader == "FunctionNode":
        return name in FUNCTIONS
    if loader in ("ObjectNode", "TypeNode"):
        return is_known(_place(part))
    if loader == "PartialNode":
        content = part["content"]
        function = content.get("func") if isinstance(content, dict) else None
        return isinstance(function, dict) and ".".join(_place(function)) == CHECK_ARRAY
    return loader in LOADERS
