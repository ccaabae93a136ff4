"""Tables of plain values, as TOML and JSON have them, made into dataclasses: each value against its field's type."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "nothing"}


def build(cls: type[T], table: Mapping[str, object], where: str) -> T:
    """A dataclass from a table; what the table cannot mean is refused with the place, the value and the choices.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Forest:
    ...     trees: int
    ...     depth: int | None = None
    >>> build(Forest, {"trees": 25}, "classifier")
    Forest(trees=25, depth=None)
    >>> build(Forest, {"trees": "many"}, "classifier")
    Traceback (most recent call last):
    ValueError: classifier has trees 'many', expected a whole number.
    """
    assert is_dataclass(cls)
    known = {field.name: field for field in fields(cls)}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ValueError(f"Unknown keys {unknown} in {where}: expected some of {sorted(known)}.")
    needed = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    absent = sorted(needed - set(table))
    if absent:
        raise ValueError(f"{where} is not complete: it lacks {', '.join(absent)}.")
    types = get_type_hints(cls)
    return cls(**{name: _value(value, types[name], f"{where} has {name}") for name, value in table.items()})


def _value(value: object, expected: Any, found: str) -> object:
    """The value as a field of type `expected` holds it; `found` begins the sentence if it cannot."""
    choices = _choices(expected)
    kinds = {getattr(choice, "kind", None): choice for choice in choices if is_dataclass(choice)}
    if kinds and isinstance(value, Mapping):
        return _dataclass(value, kinds, found)
    for choice in choices:
        if get_origin(choice) is tuple and isinstance(value, list | tuple):
            inner = get_args(choice)
            each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
            if len(each) == len(value):
                return tuple(_value(v, kind, found) for v, kind in zip(value, each, strict=True))
        elif _is(value, choice):
            return value
    raise ValueError(f"{found} {value!r}, expected {_in_words(expected)}.")


def _dataclass(value: Mapping[str, object], kinds: Mapping[str | None, Any], found: str) -> object:
    """A table as the dataclass that its `kind` names; where there is but one, it needs no kind."""
    if set(kinds) == {None}:
        return cast(object, build(kinds[None], value, found.rsplit(" has ", maxsplit=1)[-1]))
    kind = value.get("kind")
    if kind not in kinds:
        raise ValueError(f"{found} of kind {kind!r}, expected one of {', '.join(map(str, kinds))}.")
    rest = {name: v for name, v in value.items() if name != "kind"}
    return cast(object, build(kinds[str(kind)], rest, f"data of kind {kind!r}"))


def _choices(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if get_origin(expected) is UnionType else (expected,)


def _is(value: object, expected: Any) -> bool:
    if get_origin(expected) is Literal:
        # True equals 1, and is no setting.
        return value in get_args(expected) and not isinstance(value, bool)
    kind = get_origin(expected) or expected
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _in_words(expected: Any) -> str:
    if get_origin(expected) is Literal:
        return " or ".join(map(repr, get_args(expected)))
    if get_origin(expected) is tuple:
        inner = get_args(expected)
        number = "a list" if inner[-1] is Ellipsis else f"{len(inner)} values"
        return f"{number}, each {_in_words(inner[0])}"
    if get_origin(expected) is UnionType:
        return " or ".join(map(_in_words, get_args(expected)))
    return WORDS.get(expected, "a table")
