"""Whether the parts of a model from a file can have come from a fit: types, shapes, settings, and what compiled code reads by.

A checksum finds damage. Whoever writes a file can compute one, so that nonsense may be sealed: what it would make of rows
is refused here, before any row is read. A model that compiled code follows outside memory is refused; one whose numbers are
merely wrong cannot be told from a bad fit.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from groupshift._files.fitted_attributes import LOSSES, OF_EVERY_ESTIMATOR, OWN_ATTRIBUTES, attributes_of
from groupshift._files.sound_trees import PLAIN, UnsoundError, categorical_columns, check_trees, inside

# A fitted model as this folder sees it: the estimator is above it.
Model: TypeAlias = Any
Dims: TypeAlias = dict[str, int]

# Parts of ours that predictions are made of: no number in them may be missing or infinite.
FINITE = (
    "CellCorrection",
    "ClusterLines",
    "Combination",
    "CommonShift",
    "CutPartition",
    "Directions",
    "Estimate",
    "LabeledSums",
    "Learned",
    "LinearClassifier",
    "LinearPartition",
    "MeanSums",
    "Space",
    "Stack",
    "Sums",
)
KINDS = ("number", "boolean", "category", "date")
NUMBERS = {float: (int, float, np.integer, np.floating), int: (int, np.integer), bool: (bool, np.bool_)}
# Settings that may have one value only: others read or write files of the machine that predicts.
ONLY = {"input": "content", "memory": None}
# Kinds of arrays, by the letters of `fitted_attributes`.
ARRAYS = {"f": "f", "i": "iu", "b": "b", "a": "biufUOMm", "o": "O"}
VALUES = {"int": int, "float": float, "bool": bool}
# More threads than any machine has; each is given memory before it has work.
MOST_THREADS = 1024


def check_sound(model: Model, trusted: frozenset[str] = frozenset()) -> None:
    """Refuse a model that no fit would end in, with an `UnsoundError` that says why; `trusted`: further types."""
    for part in _parts(model, set()):
        kind = type(part)
        name = f"{kind.__module__}.{kind.__name__}"
        if isinstance(part, np.ndarray):
            if part.dtype.kind not in "biufcUSOMm" and part.dtype.names is None:
                raise UnsoundError(f"it has an array of {part.dtype}")
        elif name in trusted or isinstance(
            part, (list, tuple, dict, set, frozenset, slice, np.dtype, type, partial)
        ):
            continue
        elif kind.__module__.startswith("sklearn."):
            _check_part_of_sklearn(part, name)
        elif kind.__module__.startswith("groupshift."):
            _check_part_of_ours(part)
        # Which functions there may be is said by `allowed_parts`.
        elif name not in LOSSES and not callable(part):
            raise UnsoundError(f"it has a {name}")
    _check_encoder(model.encoder_)
    check_trees(model, len(model.encoder_.names_))
    # The baselines learn no shares.
    if hasattr(model, "estimate_"):
        if (model.estimate_.variance < 0).any() or (model.estimate_.unseen_variance < 0).any():
            raise UnsoundError("it has negative variances")
        if ((model.estimate_.share < 0) | (model.estimate_.share > 1)).any():
            raise UnsoundError("it has shares outside 0 and 1")


def without_unread(model: Model) -> None:
    """Take from the estimators of scikit-learn in a model what no prediction is made of."""
    for part in _parts(model, set()):
        kind = type(part)
        known = attributes_of(kind.__module__, kind.__name__)
        if known is None or not hasattr(part, "__dict__"):
            continue
        settings = part._get_param_names() if isinstance(part, BaseEstimator) else ()
        for name in set(vars(part)) - {*settings, *known, *OF_EVERY_ESTIMATOR}:
            del vars(part)[name]
        for name in settings:
            # A generator of random numbers has done its work.
            if isinstance(vars(part).get(name), (np.random.RandomState, np.random.Generator)):
                vars(part)[name] = None


def _check_part_of_sklearn(part: Any, full_name: str) -> None:
    name = type(part).__name__
    known = attributes_of(type(part).__module__, name)
    if known is None:
        if full_name in LOSSES:
            return
        raise UnsoundError(f"it has a {full_name}")
    own = dict(getattr(part, "__dict__", {}))
    if isinstance(part, BaseEstimator):
        _check_settings(part)
        own = {key: value for key, value in own.items() if key not in part._get_param_names()}
        known = known | OF_EVERY_ESTIMATOR
    dims: Dims = {}
    if "classes_" in own:
        dims["C"] = len(own["classes_"])
        dims["K"] = 1 if dims["C"] == 2 else dims["C"]
    if "n_features_in_" in own:
        if not _is_number(own["n_features_in_"], int) or own["n_features_in_"] < 0:
            raise UnsoundError(f"its {name} takes no number of columns")
        dims["F"] = int(own["n_features_in_"])
    for key, value in own.items():
        if key not in known:
            raise UnsoundError(f"its {name} has {key!r}, which no prediction is made of")
        if not _matches(value, known[key], dims):
            raise UnsoundError(f"{key} in its {name} is not what a fit leaves there")
    is_fitted = any(key in known and key not in OF_EVERY_ESTIMATOR for key in own)
    if is_fitted and name in COMPILED:
        COMPILED[name](part, own)


def _matches(value: Any, wanted: str, dims: Dims) -> bool:
    """Whether an attribute is as it is written down; sizes that are seen first are kept in `dims`."""
    if wanted.endswith("?"):
        return value is None or _matches(value, wanted[:-1], dims)
    if wanted.startswith("="):
        return _is_number(value, int) and value == (
            int(wanted[1:]) if wanted[1:].isdigit() else dims.get(wanted[1:])
        )
    found = re.fullmatch(r"(\w+)(?:\[(.*)\])?", wanted)
    assert found is not None
    kind, sizes = found.groups()
    if kind in ARRAYS:
        fits = isinstance(value, np.ndarray) and (
            value.dtype.kind in ARRAYS[kind] or (kind == "a" and value.dtype.names is not None)
        )
        return fits and (sizes is None or _has_sizes(value.shape, sizes.split(","), dims))
    if kind == "parts":
        return isinstance(value, (list, tuple)) and (
            sizes is None or _has_sizes((len(value),), [sizes], dims)
        )
    if kind in VALUES:
        return _is_number(value, VALUES[kind])
    if kind == "str":
        return isinstance(value, str)
    if kind == "plain":
        return _is_plain(value)
    return kind == "part" or type(value).__name__ == kind


def _has_sizes(shape: tuple[int, ...], wanted: list[str], dims: Dims) -> bool:
    return len(shape) == len(wanted) and all(
        letter == "*" or size == (int(letter) if letter.isdigit() else dims.setdefault(letter, size))
        for size, letter in zip(shape, wanted, strict=True)
    )


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, NUMBERS[kind]) and (kind is bool or not isinstance(value, (bool, np.bool_)))


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(one) for pair in value.items() for one in pair)
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufUMm" or (
            value.dtype.kind == "O" and all(map(_is_plain, value.ravel().tolist()))
        )
    return isinstance(value, (*PLAIN, slice, np.dtype))


def _check_settings(part: BaseEstimator) -> None:
    name = type(part).__name__
    # A file of another version of scikit-learn may lack a setting that this one knows.
    settings = {key: getattr(part, key) for key in part._get_param_names() if hasattr(part, key)}
    for setting, only in ONLY.items():
        # NumPy's text is text.
        found = settings.get(setting, only)
        if type(found) not in (str, np.str_, type(None)) or found != only:
            raise UnsoundError(f"its {name} has {setting}={found!r}, which reaches files of this machine")
    try:
        validate_parameter_constraints(
            getattr(part, "_parameter_constraints", {}), settings, caller_name=name
        )
    except (InvalidParameterError, ValueError, TypeError) as error:
        raise UnsoundError(f"its {name} has a setting that scikit-learn does not take ({error})") from error


def _check_centers(part: Any, own: dict[str, Any]) -> None:
    if not 1 <= own["_n_threads"] <= MOST_THREADS or not len(own["cluster_centers_"]):
        raise UnsoundError(f"its {type(part).__name__} has no centers, or more threads than a machine has")


def _check_boosting(part: Any, own: dict[str, Any]) -> None:
    """Trees add to as many scores as there are columns of them, and see the columns that they were grown on."""
    n, name = len(own["classes_"]), type(part).__name__
    loss = "HalfBinomialLoss" if n == 2 else "HalfMultinomialLoss"
    if own["n_trees_per_iteration_"] != (1 if n == 2 else n) or type(own["_loss"]).__name__ != loss:
        raise UnsoundError(f"its {name} has scores for another number of classes")
    if name == "HistGradientBoostingClassifier":
        categorical_columns(own["_bin_mapper"], own["n_features_in_"])
        _check_hands_all_on(own.get("_preprocessor"), own["n_features_in_"])
        return
    first = own["init_"]
    if first != "zero" and (type(first).__name__ != "DummyClassifier" or len(first.classes_) != n):
        raise UnsoundError(f"its {name} starts from what is no DummyClassifier of its classes")
    if any(type(one).__name__ != "DecisionTreeRegressor" for one in own["estimators_"].ravel()):
        raise UnsoundError(f"its {name} adds up what are no trees of numbers")


def _check_hands_all_on(preprocessor: Any, width: int) -> None:
    """What boosted trees put before themselves hands on as many columns as it is given."""
    taken = 0
    for _, one, columns in () if preprocessor is None else preprocessor.transformers_:
        n = len(np.arange(width)[np.asarray(columns)])
        if n and type(one).__name__ not in ("OrdinalEncoder", "FunctionTransformer"):
            raise UnsoundError("its boosted trees see columns through what no fit puts before them")
        taken += n
    if preprocessor is not None and taken != width:
        raise UnsoundError("its boosted trees know another number of columns than they are given")


def _check_codes(part: Any, own: dict[str, Any]) -> None:
    """One-hot columns are found by the numbers of categories, and by what rare ones are mapped to."""
    categories, wrong = (
        own["categories_"],
        UnsoundError(f"its {type(part).__name__} has codes for categories that it does not know"),
    )
    mappings = own.get("_default_to_infrequent_mappings") or [None] * len(categories)
    rare = own.get("_infrequent_indices") or [None] * len(categories)
    for known, mapping, few in zip(categories, mappings, rare, strict=True):
        if not isinstance(known, np.ndarray) or known.ndim != 1 or (mapping is None) != (few is None):
            raise wrong
        # Numbers are looked up as in a sorted list; a missing one is the last.
        there = known[~np.isnan(known)] if known.dtype.kind == "f" else known
        if known.dtype.kind in "iuf" and not (
            (there[1:] > there[:-1]).all() and (known[: len(there)] == there).all()
        ):
            raise wrong
        if few is not None:
            if not _are_numbers_below(few, len(known)):
                raise wrong
            expected = np.full(len(known), len(known) - len(np.unique(few)))
            expected[np.setdiff1d(np.arange(len(known)), few)] = np.arange(expected[0])
            if not _are_numbers_below(mapping, len(known)) or not np.array_equal(mapping, expected):
                raise wrong
    if type(part).__name__ == "OneHotEncoder":
        dropped, part_widths = own["_drop_idx_after_grouping"], own["_n_features_outs"]
        n_codes = [
            len(k) if m is None else int(m.max()) + 1 for k, m in zip(categories, mappings, strict=True)
        ]
        for j, n in enumerate(n_codes):
            if (
                dropped is not None
                and dropped[j] is not None
                and not (_is_number(dropped[j], int) and 0 <= dropped[j] < n)
            ):
                raise wrong
        if part._compute_n_features_outs() != part_widths:
            raise wrong


def _are_numbers_below(values: object, n: int) -> bool:
    return (
        isinstance(values, np.ndarray)
        and values.ndim == 1
        and values.dtype.kind in "iu"
        and bool(((values >= 0) & (values < n)).all())
    )


def _check_words(part: Any, own: dict[str, Any]) -> None:
    """Words count in the columns that the vocabulary says."""
    words = own.get("vocabulary_", {})
    sound = isinstance(words, dict) and all(_is_number(number, int) for number in words.values())
    if not sound or sorted(words.values()) != list(range(len(words))):
        raise UnsoundError(f"its {type(part).__name__} counts words in columns that do not exist")


def _check_polynomials(part: Any, own: dict[str, Any]) -> None:
    """As many columns are handed out as are announced, filled or not: a fit says how many they are."""
    fresh = vars(clone(part).fit(np.zeros((1, own["n_features_in_"]))))
    if any(
        own.get(key) != fresh[key]
        for key in ("n_output_features_", "_n_out_full", "_min_degree", "_max_degree")
    ):
        raise UnsoundError("its PolynomialFeatures announces columns that it does not make")


def _check_stacking(part: Any, own: dict[str, Any]) -> None:
    if not set(own["stack_method_"]) <= {"predict_proba", "decision_function", "predict"}:
        raise UnsoundError("its StackingClassifier asks its parts for other things than predictions")


# What compiled code, or memory that is not cleared, is reached by, beyond shapes.
COMPILED = {
    "CountVectorizer": _check_words,
    "GradientBoostingClassifier": _check_boosting,
    "HistGradientBoostingClassifier": _check_boosting,
    "KMeans": _check_centers,
    "MiniBatchKMeans": _check_centers,
    "OneHotEncoder": _check_codes,
    "OrdinalEncoder": _check_codes,
    "PolynomialFeatures": _check_polynomials,
    "StackingClassifier": _check_stacking,
    "TargetEncoder": _check_codes,
    "TfidfVectorizer": _check_words,
}


def _check_part_of_ours(part: Any) -> None:
    """Every field holds what its type says, and nothing else is there."""
    name = type(part).__name__
    own = vars(part)
    if is_dataclass(part):
        hints = get_type_hints(type(part))
        for key, value in own.items():
            if key not in hints or not _fits(value, hints[key]):
                raise UnsoundError(f"{key} in its {name} is a {type(value).__name__}")
        # A file of an earlier version lacks what has come since, which is not needed then.
        needed = [field.name for field in fields(part) if field.default is MISSING]
        if missing := [field for field in needed if field not in own]:
            raise UnsoundError(f"its {name} has no {missing[0]}")
    else:
        settings = part._get_param_names() if isinstance(part, BaseEstimator) else ()
        known = OWN_ATTRIBUTES.get(name)
        dims: Dims = {}
        if known is None:
            raise UnsoundError(f"it has a {name}")
        for key, value in own.items():
            if key not in settings and (key not in known or not _matches(value, known[key], dims)):
                raise UnsoundError(f"{key} in its {name} is not what a fit leaves there")
    if name in FINITE:
        for key, value in own.items():
            # No probability of random labels is known where no shift was asked about.
            if (
                key.endswith("groups")
                or key == "random_labels"
                or not isinstance(value, (float, np.floating, np.ndarray))
            ):
                continue
            numbers = np.asarray(value)
            if numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
                raise UnsoundError(f"{key} in its {name} has missing or infinite numbers")
    if name == "Sums":
        of_points = [own[key] for key in ("cell", "bin", "score", "weight")]
        if not _are_numbers_below(part.cell, len(part.rows)) or len({len(one) for one in of_points}) > 1:
            raise UnsoundError("its scores of rows do not lie in its groups and clusters")


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _has_kind(value, get_args(get_args(hint)[1])[0])
    if hint in NUMBERS:
        return _is_number(value, hint)
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


def _parts(part: object, seen: set[int]) -> Iterator[object]:
    """Every object inside a model, once."""
    if id(part) in seen or isinstance(part, PLAIN):
        return
    seen.add(id(part))
    yield part
    for value in inside(part):
        yield from _parts(value, seen)
