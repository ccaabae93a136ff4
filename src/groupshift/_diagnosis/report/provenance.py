"""For the record: data, settings, versions, and the cards of the clusters."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from groupshift._diagnosis.cluster_profile import describe_clusters
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.report.facts import Facts
from groupshift._diagnosis.report.formats import count, percent, texts
from groupshift._diagnosis.wording import plural

PACKAGES = ("groupshift", "numpy", "scipy", "scikit-learn", "narwhals")
MOST_CLUSTERS = 24
MOST_DIFFERENCES = 5


class ClusterCard(NamedTuple):
    """A cluster: its size and shares in a sentence, and what sets it apart."""

    numbers: str
    differences: list[str]


class Setting(NamedTuple):
    name: str
    value: str
    is_default: bool


def cluster_cards(facts: Facts) -> list[ClusterCard]:
    """The first clusters; `facts.n_clusters` may be more."""
    found = describe_clusters(facts.model.evidence_.clusters, facts.model.encoder_, most=MOST_DIFFERENCES)
    return [
        ClusterCard(_cluster_numbers(facts, k), texts(found["phrase"][found["cluster"] == k]))
        for k in range(min(facts.n_clusters, MOST_CLUSTERS))
    ]


def _cluster_numbers(facts: Facts, k: int) -> str:
    model, labeled = facts.model, facts.model.evidence_.labeled_clusters
    sample = f"{plural(int(labeled.rows[k]), 'labelled row')}, {percent(labeled.share[k])} of them positive"
    weight = model.row_weight_[:, k]
    if not facts.has_population:
        return f"{sample}."
    part = f"{percent(weight.sum() / max(model.row_weight_.sum(), 1e-300), 0)} of the population, {sample}"
    if not weight.sum():
        return f"{part}."
    return f"{part}; population {percent((weight * model.group_prior_[:, k]).sum() / weight.sum())}."


def data_facts(facts: Facts) -> dict[str, str]:
    """What the model was fitted on."""
    model, names = facts.model, facts.names
    named = {"Target column": names.target, "Group column": names.group}
    pairs = {role: name for role, name in named.items() if name is not None}
    pairs |= {
        "Positive class": names.positive or str(model.classes_[-1]),
        "Negative class": str(model.classes_[0]),
        "Labelled rows": f"{count(model.labeled_rows_.sum())} ({percent(facts.labeled_overall)} positive)",
        "Population (unlabelled) rows": count(model.rows_.sum()),
    }
    if model.has_groups_:
        pairs["Groups with labelled rows"] = count(len(model.labeled_groups_))
        pairs["Groups with unlabelled rows"] = count(facts.n_groups)
    seed = model.get_params(deep=False)["random_state"]
    pairs["Random seed"] = "none: another fit may differ a little" if seed is None else str(seed)
    return pairs | {"Features": count(len(model.encoder_.names_))}


def settings(model: FittedModel) -> list[Setting]:
    """Every setting, and whether it has its default value."""
    usual = type(model)().get_params(deep=False)
    return [
        Setting(name, " ".join(str(value).split()), value is usual[name] or _same(value, usual[name]))
        for name, value in model.get_params(deep=False).items()
    ]


def _same(a: object, b: object) -> bool:
    """Equal, where a setting may be an array or estimator that has no plain answer."""
    return type(a) is type(b) and isinstance(a, (str, int, float, bool)) and a == b


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
