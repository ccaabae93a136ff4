"""Sections for the record: data, settings, versions."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from groupshift._explain.report.facts import Facts
from groupshift._explain.report.markup import (
    Markup,
    behind_details,
    count,
    definitions,
    join,
    percent,
    table,
    tag,
)

PACKAGES = ("groupshift", "numpy", "scipy", "scikit-learn", "narwhals")
MOST_FEATURES = 200


def data_section(facts: Facts) -> Markup:
    """What the model was fitted on, and how."""
    model = facts.model
    named = {"Target": facts.names.target, "Group": facts.names.group}
    pairs: dict[str, Any] = {f"{role} column": name for role, name in named.items() if name is not None}
    pairs |= {
        "Positive class": facts.names.positive or str(model.classes_[-1]),
        "Negative class": str(model.classes_[0]),
    }
    pairs["Labelled rows"] = f"{count(model.labeled_rows_.sum())} ({percent(facts.labeled_overall)} positive)"
    pairs["Population (unlabelled) rows"] = count(model.rows_.sum())
    if model.has_groups_:
        pairs["Groups with labelled rows"] = count(len(model.labeled_groups_))
        pairs["Groups with unlabelled rows"] = count(facts.n_groups)
    pairs["Features"] = count(len(model.encoder_.names_))
    return join(
        [
            definitions(pairs),
            behind_details("Features", _features(model), open_=True),
            tag("h3", "Settings"),
            tag("p", "Settings that differ from their default are in bold.", class_="quiet"),
            _settings(model),
        ]
    )


def _features(model: Any) -> Markup:
    encoder = model.encoder_
    shown = slice(MOST_FEATURES)
    caption = "Features and their kinds"
    if len(encoder.names_) > MOST_FEATURES:
        caption += f" (the first {MOST_FEATURES} of {count(len(encoder.names_))})"
    kinds = [
        f"{kind}, {count(len(levels))} values" if kind == "category" else kind
        for kind, levels in zip(encoder.kinds_[shown], encoder.categories_[shown], strict=True)
    ]
    return table({"Feature": encoder.names_[shown], "Kind": kinds}, caption=caption, words=["Kind"])


def _settings(model: Any) -> Markup:
    usual = type(model)().get_params(deep=False)
    given = model.get_params(deep=False)
    shown = {name: tag("code", " ".join(str(value).split())) for name, value in given.items()}
    return definitions(
        {
            name: value
            if given[name] is usual[name] or _same(given[name], usual[name])
            else tag("strong", value)
            for name, value in shown.items()
        }
    )


def _same(a: Any, b: Any) -> bool:
    """Equal, where a setting may be an array or estimator that has no plain answer."""
    return type(a) is type(b) and isinstance(a, (str, int, float, bool)) and a == b


def versions_section(facts: Facts) -> Markup:
    return definitions({"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
