"""Whether the parts of a model from a file can have come from a fit: types, shapes, settings, and what compiled code reads by.

A checksum finds damage. Whoever writes a file can compute one, so that nonsense may be sealed: what it would make of rows
is refused here, before any row is read. A model that compiled code follows outside memory is refused; one whose numbers are
merely wrong cannot be told from a bad fit.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import validate_parameter_constraints

from groupshift._files.parts import LOSSES, attributes_of, own_types

# A part of a model: nothing is known of it before it is checked.
Part: TypeAlias = Any
Sizes: TypeAlias = dict[str, int]
PLAIN = (str, bytes, int, float, np.generic, type(None))
# What holds other parts or says a type, and nothing else.
HOLDERS = (list, tuple, dict, set, frozenset, slice, np.dtype, type, partial)
OF_EVERY_ESTIMATOR = {"n_features_in_": "int", "feature_names_in_": "a[F]", "_sklearn_output_config": "plain"}
# Predictions are made of what lies here: no number in it may be missing or infinite, but for these.
FINITE = tuple(f"groupshift.{room}." for room in ("_data", "_math", "_partitions", "_scores", "_shifts"))
# Nor in a part of scikit-learn, but for what prepares columns, which may have no number, counts, which may be 0, and limits.
MAY_BE_MISSING = (
    *("sklearn._loss", "sklearn.feature_selection", "sklearn.impute"),
    *("sklearn.naive_bayes", "sklearn.preprocessing"),
)
NOT_ALWAYS = ("feature_names_in_", "audit_", "left_out_")
NOT_FINITE = ("groups", "labeled_groups", "classes", "values_", "random_labels", "edges")
KINDS = ("number", "boolean", "category", "date")
NUMBERS = {float: (int, float, np.integer, np.floating), int: (int, np.integer), bool: (bool, np.bool_)}
# Settings that may have one value only: others read or write files of the machine that predicts.
ONLY = {"input": "content", "memory": None}
# Kinds of arrays, by the letters of `parts.txt`.
ARRAYS = {"f": "f", "i": "iu", "b": "b", "a": "biufUOMm", "o": "O"}
VALUES = {"int": int, "float": float, "bool": bool}
# More threads than any machine has; each is given memory before it has work.
MOST_THREADS = 1024
# Bits of a set of categories: 8 words of 32.
MOST_CATEGORIES = 256


class UnsoundError(ValueError):
    """A part of a model that cannot have come from a fit; the message says what is wrong."""


def _expect(is_sound: object, otherwise: str) -> None:
    if not is_sound:
        raise UnsoundError(otherwise)


def check_sound(model: Part, trusted: frozenset[str] = frozenset()) -> None:
    """Refuse a model that no fit would end in, with an `UnsoundError` that says why; `trusted`: further types."""
    for part in _parts(model, set(), trusted):
        kind = type(part)
        name = f"{kind.__module__}.{kind.__name__}"
        if isinstance(part, np.ndarray):
            _expect(part.dtype.kind in "biufcUSOMm" or part.dtype.names, f"it has an array of {part.dtype}")
        elif name in trusted or isinstance(part, HOLDERS):
            continue
        elif kind in own_types().values():
            _check_part_of_ours(part)
        elif (known := attributes_of(kind.__module__, kind.__name__)) is not None:
            _check_part_of_sklearn(part, known)
        else:
            # Which functions there may be is said by `parts`.
            is_value = kind.__module__.partition(".")[0] not in ("sklearn", "groupshift") and callable(part)
            _expect(name in LOSSES or is_value, f"it has a {name}")
    _check_encoder(model.encoder_)
    # The baselines learn no shares.
    if hasattr(model, "estimate_"):
        found = model.estimate_
        is_negative = (found.variance < 0).any() or (found.unseen_variance < 0).any()
        _expect(not is_negative, "it has negative variances")
        _expect(((found.share >= 0) & (found.share <= 1)).all(), "it has shares outside 0 and 1")


def without_unread(model: Part) -> None:
    """Take from the estimators of scikit-learn in a model what no prediction is made of."""
    for part in _parts(model, set()):
        kind = type(part)
        known = attributes_of(kind.__module__, kind.__name__)
        if known is None or not kind.__module__.startswith("sklearn.") or not hasattr(part, "__dict__"):
            continue
        settings = part._get_param_names() if isinstance(part, BaseEstimator) else ()
        for name in set(vars(part)) - {*settings, *known, *OF_EVERY_ESTIMATOR}:
            del vars(part)[name]
        for name in settings:
            # A generator of random numbers has done its work.
            if isinstance(vars(part).get(name), (np.random.RandomState, np.random.Generator)):
                vars(part)[name] = None


def _parts(part: object, seen: set[int], trusted: frozenset[str] = frozenset()) -> Iterator[object]:
    """Every object inside a model, once; texts and numbers hold nothing, and what a trusted type holds is the user's."""
    if id(part) in seen or isinstance(part, PLAIN):
        return
    if f"{type(part).__module__}.{type(part).__name__}" in trusted and not isinstance(part, dict):
        return
    seen.add(id(part))
    yield part
    if isinstance(part, np.ndarray):
        inside = part.ravel().tolist() if part.dtype == object else []
    elif isinstance(part, (list, tuple, set, frozenset)):
        inside = list(part)
    else:
        inside = list((part if isinstance(part, Mapping) else getattr(part, "__dict__", {})).values())
    for value in inside:
        yield from _parts(value, seen, trusted)


def _check_part_of_ours(part: Part) -> None:
    """Every field holds what its type says, and nothing else is there."""
    name, own = type(part).__name__, vars(part)
    if is_dataclass(part):
        hints = get_type_hints(type(part))
        for key, value in own.items():
            _expect(
                key in hints and _fits(value, hints[key]), f"{key} in its {name} is a {type(value).__name__}"
            )
        # A file of an earlier version lacks what has come since, which is not needed then.
        needed = [field.name for field in fields(part) if field.default is MISSING]
        missing = [field for field in needed if field not in own]
        _expect(not missing, f"its {name} has no {' or '.join(missing)}")
    else:
        settings = part._get_param_names() if isinstance(part, BaseEstimator) else ()
        known, sizes = attributes_of(type(part).__module__, name) or {}, Sizes()
        for key, value in own.items():
            is_there = key in settings or (key in known and _matches(value, known[key], sizes))
            _expect(is_there, f"{key} in its {name} is not what a fit leaves there")
        # Settings that were not fitted have nothing.
        missing = (
            [key for key in known if key not in own and key not in NOT_ALWAYS] if own.keys() & known else []
        )
        _expect(not missing, f"its {name} has no {' or '.join(missing)}")
    if type(part).__module__.startswith(FINITE):
        for key, value in own.items():
            if key not in NOT_FINITE and isinstance(value, (float, np.floating, np.ndarray)):
                numbers = np.asarray(value)
                is_finite = numbers.dtype.kind != "f" or np.isfinite(numbers).all()
                _expect(is_finite, f"{key} in its {name} has missing or infinite numbers")
    if name == "Sums":
        of_points = [own[key] for key in ("cell", "bin", "score", "weight") if key in own]
        is_inside = (
            _are_numbers_below(part.cell, len(part.rows)) and len({len(one) for one in of_points}) == 1
        )
        _expect(is_inside, "its scores of rows do not lie in its groups and clusters")
    if name == "CutPartition":
        n, n_features = len(part.leaf), len(part.is_category)
        is_tree = (
            len(part.feature) == len(part.edge) == n
            and len(part.rank) == n_features
            and _are_numbers_below(part.leaf, n)
            and _are_numbers_below(part.feature, n_features)
            and bool((part.leaf <= np.arange(n)).all())
        )
        _expect(is_tree, "its cuts are not those of a tree")


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type hint, as far as it says more than a method's name."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is np.ndarray:
        kind = get_args(inner[1])[0]
        is_named = isinstance(kind, type) and issubclass(kind, np.generic)
        return isinstance(value, np.ndarray) and (not is_named or np.can_cast(value.dtype, kind, "same_kind"))
    if hint in NUMBERS:
        return _is_number(value, hint)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        return inner[-1] is not Ellipsis or all(_fits(one, inner[0]) for one in value)
    if origin is not None:
        return not isinstance(origin, type) or isinstance(value, origin)
    if hint is None or hint is type(None):
        return value is None
    # What is known by its methods (Any, Protocol) is known when it is called.
    return not isinstance(hint, type) or getattr(hint, "_is_protocol", False) or isinstance(value, hint)


def _check_part_of_sklearn(part: Part, known: Mapping[str, str]) -> None:
    name = type(part).__name__
    own = dict(getattr(part, "__dict__", {}))
    if isinstance(part, BaseEstimator):
        _check_settings(part, name)
        own = {key: value for key, value in own.items() if key not in part._get_param_names()}
        known = {**known, **OF_EVERY_ESTIMATOR}
    sizes = Sizes()
    if "classes_" in own:
        sizes["C"] = len(own["classes_"])
        sizes["K"] = 1 if sizes["C"] == 2 else sizes["C"]
    if "n_features_in_" in own:
        width = own["n_features_in_"]
        _expect(_is_number(width, int) and width >= 0, f"its {name} takes no number of columns")
        sizes["F"] = int(width)
    for key, value in own.items():
        _expect(key in known, f"its {name} has {key!r}, which no prediction is made of")
        _expect(_matches(value, known[key], sizes), f"{key} in its {name} is not what a fit leaves there")
        if not type(part).__module__.startswith(MAY_BE_MISSING):
            for one in value if isinstance(value, (list, tuple)) else [value]:
                is_float = isinstance(one, (float, np.ndarray)) and np.asarray(one).dtype.kind == "f"
                is_finite = not is_float or np.isfinite(one).all()
                _expect(is_finite, f"{key} in its {name} has missing or infinite numbers")
    # A forest has its kind of tree before its fit.
    is_fitted = not own.keys() <= {*OF_EVERY_ESTIMATOR, "estimator"}
    if is_fitted and name in COMPILED:
        # Without this number, no table that it is given is checked for its width.
        _expect("n_features_in_" in own or name in WITHOUT_WIDTH, f"its {name} takes no number of columns")
        COMPILED[name](part, own)


def _matches(value: Part, wanted: str, sizes: Sizes) -> bool:
    """Whether an attribute is as it is written down; sizes that are seen first are kept in `sizes`."""
    if wanted.endswith("?"):
        return value is None or _matches(value, wanted[:-1], sizes)
    if wanted.startswith("="):
        number = int(wanted[1:]) if wanted[1:].isdigit() else sizes.get(wanted[1:])
        return _is_number(value, int) and value == number
    found = re.fullmatch(r"(\w+)(?:\[(.*)\])?", wanted)
    assert found is not None
    kind, letters = found.groups()
    if kind in ARRAYS:
        fits = isinstance(value, np.ndarray) and (
            value.dtype.kind in ARRAYS[kind] or (kind == "a" and value.dtype.names is not None)
        )
        return fits and (letters is None or _has_sizes(value.shape, letters.split(","), sizes))
    if kind == "parts":
        is_list = isinstance(value, (list, tuple))
        return is_list and (letters is None or _has_sizes((len(value),), [letters], sizes))
    if kind in VALUES:
        return _is_number(value, VALUES[kind])
    if kind == "plain":
        return _is_plain(value)
    return kind == "part" or type(value).__name__ == kind


def _has_sizes(shape: tuple[int, ...], letters: list[str], sizes: Sizes) -> bool:
    return len(shape) == len(letters) and all(
        letter == "*" or size == (int(letter) if letter.isdigit() else sizes.setdefault(letter, size))
        for size, letter in zip(shape, letters, strict=True)
    )


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, NUMBERS[kind]) and (kind is bool or not isinstance(value, (bool, np.bool_)))


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(one) for pair in value.items() for one in pair)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufUMm" or (
            value.dtype.kind == "O" and _is_plain(value.ravel().tolist())
        )
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_plain, value))
    return isinstance(value, (*PLAIN, slice, np.dtype))


def _are_numbers_below(values: Part, n: int) -> bool:
    is_one = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu"
    return is_one and bool(((values >= 0) & (values < n)).all())


def _check_settings(part: BaseEstimator, name: str) -> None:
    # A file of another version of scikit-learn may lack a setting that this one knows.
    settings = {key: getattr(part, key) for key in part._get_param_names() if hasattr(part, key)}
    for setting, only in ONLY.items():
        found = settings.get(setting, only)
        # NumPy's text is text.
        is_only = type(found) in (str, np.str_, type(None)) and found == only
        _expect(is_only, f"its {name} has {setting}={found!r}, which reaches files of this machine")
    try:
        validate_parameter_constraints(
            getattr(part, "_parameter_constraints", {}), settings, caller_name=name
        )
    except (ValueError, TypeError) as error:
        raise UnsoundError(f"its {name} has a setting that scikit-learn does not take ({error})") from error


# scikit-learn follows the numbers in a tree's nodes without checking them: one that points outside reads foreign memory, one
# that points back never ends.


def _check_tree(part: Part, own: dict[str, Part]) -> None:
    """The tree of a decision tree, which sees as many columns as its owner."""
    tree = own["tree_"]
    # Asked first: a tree hands out as many nodes as it counts, whether they are there or not.
    _expect(
        0 < tree.node_count <= tree.capacity, "a decision tree in it has no nodes, or fewer than it counts"
    )
    state, width = tree.__getstate__(), own["n_features_in_"]
    nodes, values = state["nodes"], state["values"]
    _check_nodes(nodes, nodes["left_child"] != -1, ("left_child", "right_child", "feature"), width)
    is_whole = state["node_count"] == len(nodes) == len(values) and np.isfinite(values).all()
    _expect(is_whole and tree.n_features == width, "a decision tree in it has other sizes than it says")


def _check_nodes(
    nodes: NDArray[np.void], inner: NDArray[np.bool_], names: tuple[str, str, str], width: int
) -> None:
    """Every path through the nodes goes on to a later one and ends in a leaf, and every feature is there."""
    _expect(nodes.ndim == 1 and len(nodes), "a decision tree in it has no nodes")
    own = np.flatnonzero(inner)
    for side in names[:2]:
        child = nodes[side][own].astype(np.int64)
        leads_on = ((child > own) & (child < len(nodes))).all()
        _expect(leads_on, "a decision tree in it has nodes that lead nowhere")
    asked = nodes[names[2]][own].astype(np.int64)
    _expect(
        ((asked >= 0) & (asked < width)).all(), "a decision tree in it asks for features that do not exist"
    )


def _check_trees_of(name: str, trees: list[Part], kinds: tuple[str, ...], width: int) -> None:
    """An ensemble hands its table to its trees unchecked: they take as many columns as it does."""
    for one in trees:
        _expect(type(one).__name__ in kinds, f"its {name} adds up what are no trees of its kind")
        own = vars(one).get("n_features_in_")
        _expect(own == width, f"its {type(one).__name__} takes {own} columns, and is given {width}")


def _check_forest(part: Part, own: dict[str, Part]) -> None:
    kinds = ("DecisionTreeClassifier", "ExtraTreeClassifier")
    _check_trees_of(type(part).__name__, own["estimators_"], kinds, own["n_features_in_"])


def _check_boosting(part: Part, own: dict[str, Part]) -> None:
    """Trees add to as many scores as there are columns of them, and see the columns that they were grown on."""
    n, name, width = len(own["classes_"]), type(part).__name__, own["n_features_in_"]
    loss = "HalfBinomialLoss" if n == 2 else "HalfMultinomialLoss"
    fits = own["n_trees_per_iteration_"] == (1 if n == 2 else n) and type(own["_loss"]).__name__ == loss
    _expect(fits, f"its {name} has scores for another number of classes")
    if name == "GradientBoostingClassifier":
        first = own["init_"]
        is_usual = type(first).__name__ == "DummyClassifier" and len(first.classes_) == n
        _expect(
            is_usual or first == "zero", f"its {name} starts from what is no DummyClassifier of its classes"
        )
        _check_trees_of(name, own["estimators_"].ravel().tolist(), ("DecisionTreeRegressor",), width)
        return
    is_categorical = _categorical_columns(own["_bin_mapper"], width)
    # What boosted trees put before themselves hands on as many columns as it is given.
    if (before := own.get("_preprocessor")) is not None:
        taken = [
            (type(one).__name__, len(np.arange(width)[np.asarray(at)])) for _, one, at in before.transformers_
        ]
        are_usual = all(kind in ("OrdinalEncoder", "FunctionTransformer") for kind, n in taken if n)
        _expect(are_usual, "its boosted trees see columns through what no fit puts before them")
        hands_all_on = sum(n for _, n in taken) == width
        _expect(hands_all_on, "its boosted trees know another number of columns than they are given")
    for tree in (one for of_iteration in own["_predictors"] for one in of_iteration):
        _expect(type(tree).__name__ == "TreePredictor", f"its {name} adds up what are no trees of its kind")
        nodes = tree.nodes
        inner = nodes["is_leaf"] == 0
        _check_nodes(nodes, inner, ("left", "right", "feature_idx"), width)
        splits = nodes[inner & (nodes["is_categorical"] != 0)]
        sets = (tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets)
        exist = (
            all(one.dtype == np.uint32 for one in sets)
            and (splits["bitset_idx"].astype(np.int64) < min(map(len, sets))).all()
            and is_categorical[splits["feature_idx"].astype(np.int64)].all()
        )
        _expect(exist, "a decision tree in it asks for categories that do not exist")
        _expect(np.isfinite(nodes["value"]).all(), "a decision tree in it has answers that are no numbers")


def _categorical_columns(mapper: Part, width: int) -> NDArray[np.bool_]:
    """Which columns of boosted trees are categories, if what is known of these fits into their sets."""
    flags, known = np.asarray(mapper.is_categorical_), mapper.bin_thresholds_
    fits = flags.shape == (width,) and flags.dtype == np.uint8 and len(known) == width
    _expect(fits, "the boosted trees in it know another number of columns than they are given")
    for column in np.flatnonzero(flags):
        values = np.asarray(known[column], float)
        are_codes = ((values >= 0) & (values < MOST_CATEGORIES)).all()
        _expect(are_codes, "the boosted trees in it know categories that do not exist")
    return np.asarray(flags != 0)


def _check_centers(part: Part, own: dict[str, Part]) -> None:
    fits = 1 <= own["_n_threads"] <= MOST_THREADS and len(own["cluster_centers_"])
    _expect(fits, f"its {type(part).__name__} has no centers, or more threads than a machine has")


def _check_codes(part: Part, own: dict[str, Part]) -> None:
    """One-hot columns are found by the numbers of categories, and by what rare ones are mapped to."""
    name, categories = type(part).__name__, own["categories_"]
    wrong = f"its {name} has codes for categories that it does not know"
    mappings = own.get("_default_to_infrequent_mappings") or [None] * len(categories)
    rare = own.get("_infrequent_indices") or [None] * len(categories)
    for known, mapping, few in zip(categories, mappings, rare, strict=True):
        _expect(
            isinstance(known, np.ndarray) and known.ndim == 1 and (mapping is None) == (few is None), wrong
        )
        if known.dtype.kind in "iuf":
            # Numbers are looked up as in a sorted list; a missing one is the last.
            there = known[~np.isnan(known)] if known.dtype.kind == "f" else known
            is_sorted = (there[1:] > there[:-1]).all() and (known[: len(there)] == there).all()
            _expect(is_sorted, wrong)
        if few is not None:
            _expect(_are_numbers_below(few, len(known)) and _are_numbers_below(mapping, len(known)), wrong)
            expected = np.full(len(known), len(known) - len(np.unique(few)))
            expected[np.setdiff1d(np.arange(len(known)), few)] = np.arange(expected[0])
            _expect(np.array_equal(mapping, expected), wrong)
    if name == "OneHotEncoder":
        dropped = own["_drop_idx_after_grouping"]
        for j, (known, mapping) in enumerate(zip(categories, mappings, strict=True)):
            n = len(known) if mapping is None else int(mapping.max()) + 1
            if dropped is not None and dropped[j] is not None:
                _expect(_is_number(dropped[j], int) and 0 <= dropped[j] < n, wrong)
        _expect(part._compute_n_features_outs() == own["_n_features_outs"], wrong)


def _check_words(part: Part, own: dict[str, Part]) -> None:
    """Words count in the columns that the vocabulary says."""
    words = own.get("vocabulary_", {})
    are_numbers = isinstance(words, dict) and all(_is_number(number, int) for number in words.values())
    is_sound = are_numbers and sorted(words.values()) == list(range(len(words)))
    _expect(is_sound, f"its {type(part).__name__} counts words in columns that do not exist")


def _check_polynomials(part: Part, own: dict[str, Part]) -> None:
    """As many columns are handed out as are announced, filled or not: a fit says how many they are."""
    fresh = vars(clone(part).fit(np.zeros((1, own["n_features_in_"]))))
    names = ("n_output_features_", "_n_out_full", "_min_degree", "_max_degree")
    is_sound = all(own.get(key) == fresh[key] for key in names)
    _expect(is_sound, "its PolynomialFeatures announces columns that it does not make")


def _check_stacking(part: Part, own: dict[str, Part]) -> None:
    is_sound = set(own["stack_method_"]) <= {"predict_proba", "decision_function", "predict"}
    _expect(is_sound, "its StackingClassifier asks its parts for other things than predictions")


# What compiled code, or memory that is not cleared, is reached by, beyond shapes.
COMPILED = {
    **dict.fromkeys(("CountVectorizer", "TfidfVectorizer"), _check_words),
    **dict.fromkeys(("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier"), _check_tree),
    **dict.fromkeys(("ExtraTreesClassifier", "RandomForestClassifier"), _check_forest),
    **dict.fromkeys(("GradientBoostingClassifier", "HistGradientBoostingClassifier"), _check_boosting),
    **dict.fromkeys(("KMeans", "MiniBatchKMeans"), _check_centers),
    **dict.fromkeys(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"), _check_codes),
    "PolynomialFeatures": _check_polynomials,
    "StackingClassifier": _check_stacking,
}
# These are given texts, or columns that another encoder has counted.
WITHOUT_WIDTH = ("CountVectorizer", "TfidfVectorizer", "StackingClassifier")


def _check_encoder(encoder: Part) -> None:
    names, kinds, categories = encoder.names_, encoder.kinds_, encoder.categories_
    is_sound = (
        len(names) == len(kinds) == len(categories) > 0
        and all(isinstance(name, str) for name in names)
        and all(kind in KINDS for kind in kinds)
        and all(isinstance(known, np.ndarray) and known.ndim == 1 for known in categories)
        and all(isinstance(j, int) and 0 <= j < len(names) for j in encoder.left_out_)
    )
    _expect(is_sound, "its columns are not described as a fit describes them")
