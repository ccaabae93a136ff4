"""Sections about what was tested and weighed: the assumption, and the judge's candidates."""

import re
from typing import Any

import numpy as np

from groupshift._explain.report.facts import Facts, shown_names
from groupshift._explain.report.markup import (
    NOTHING,
    THIN,
    Markup,
    behind_details,
    bullets,
    count,
    join,
    paragraphs,
    signed,
    table,
    tag,
)
from groupshift._explain.report.sections import chart

MOST_FEATURES = 25
MOST_CELLS = 25


def assumption_section(facts: Facts) -> Markup:
    """What was tested, in sentences and tables."""
    diagnosis = facts.diagnosis
    mark = {"yes": "ok", "roughly": "doubt", "no": "fail", "unknown": "doubt"}[diagnosis.holds]
    words = {
        "yes": "✓ Holds",
        "roughly": "≈ Holds roughly",
        "no": "✗ Does not hold",
        "unknown": "? Not known",
    }[diagnosis.holds]
    parts = [
        tag("p", tag("span", words, class_=f"mark {mark}")),
        paragraphs(diagnosis.assumption),
        _independence(facts),
        _features(facts),
        _mixture(facts),
    ]
    return join(parts)


def _independence(facts: Facts) -> Markup | None:
    found = facts.diagnosis.independence
    tested = (
        np.isfinite(found["feature_effect"]) | np.isfinite(found["score_effect"])
        if found
        else np.zeros(0, bool)
    )
    if not tested.any():
        return None
    own = {name: np.asarray(values)[tested] for name, values in found.items()}
    columns = {
        "Where": [
            f"Cluster {k}, class {label}" for k, label in zip(own["cluster"], own["label"], strict=True)
        ],
        "Rows": [count(v) for v in own["rows"]],
        "Groups": [count(v) for v in own["groups"]],
        "Score": [_effect(v) for v in own["score_effect"]],
        "Features, mean": [_effect(v) for v in own["feature_effect"]],
        "Strongest feature": [
            f"{n} ({_effect(v)})"
            for n, v in zip(own["strongest_feature"], own["strongest_effect"], strict=True)
        ],
        "p-value": [_p_value(v) for v in own["p_value"]],
    }
    caption = "Share of variance inside a cluster and class that the group explains, beyond chance"
    return behind_details(
        "Independence by cluster and class",
        table(columns, caption=caption, words=["Strongest feature"]),
        open_=True,
    )


def _features(facts: Facts) -> Markup | None:
    found = facts.diagnosis.features
    known = np.isfinite(found["effect"]) if found else np.zeros(0, bool)
    if not known.any():
        return None
    first = np.flatnonzero(known)[:MOST_FEATURES]
    columns = {
        "Feature": [str(name) for name in found["feature"][first]],
        "Explained by the group": [_effect(v) for v in found["effect"][first]],
        "Standard error": [f"{100 * v:.2f}{THIN}%" for v in found["std_error"][first]],
    }
    more = f", the {len(first)} strongest of {known.sum()}" if known.sum() > len(first) else ""
    return behind_details(
        "Independence by feature",
        table(columns, caption=f"Features, given cluster and class{more}"),
        open_=True,
    )


def _mixture(facts: Facts) -> Markup | None:
    found = facts.diagnosis.mixture
    known = np.isfinite(found["excess"]) & (found["rows"] > 0) if found else np.zeros(0, bool)
    if not known.any():
        return None
    worst = np.flatnonzero(known)
    worst = worst[np.argsort(-found["excess"][worst], kind="stable")][:MOST_CELLS]
    columns = {
        "Group": shown_names(found["group"][worst]),
        "Cluster": [str(k) for k in found["cluster"][worst]],
        "Rows": [count(v) for v in found["rows"][worst]],
        "Gap": [f"{v:.3f}" for v in found["best_distance"][worst]],
        "Gap by chance": [f"{v:.3f}" for v in found["by_chance"][worst]],
        "Excess": [f"{v:.3f}" for v in found["excess"][worst]],
    }
    caption = (
        "Cells whose scores fit a mixture of labelled positives and negatives least (gap of distributions)"
    )
    title = f"Cells that fit least ({len(worst)} of {count(known.sum())})"
    return behind_details(title, table(columns, caption=caption), open_=True)


def candidates_section(facts: Facts) -> Markup:
    """Every partition that the judge weighed."""
    found = facts.model.candidates_
    if found is None:
        return tag("p", f"The judge weighed no candidates: {_why_unjudged(facts.model)}")
    chosen = [str(n) for n in found["name"][found["chosen"]]]
    caption = (
        "Fall of the log loss on hidden labels against no shift, ± one standard error over groups, as everywhere "
        "on this page. Chosen "
        f"(bold): {chosen[0] if chosen else 'none'}. A simpler candidate wins against a more complex one "
        "that is no better beyond noise."
    )
    columns = {
        "Candidate": [str(name) for name in found["name"]],
        "Clusters": [count(v) for v in found["n_clusters"]],
        "Log loss": [f"{v:.4f}" for v in found["loss"]],
        "Gain": [signed(v, 4) for v in found["gain"]],
        "Standard error": [f"{v:.4f}" for v in found["std_error"]],
        "Trust": [f"{v:.2f}" for v in found["trust"]],
    }
    numbers = behind_details(
        "Numbers as a table", table(columns, caption="Candidates", marked=found["chosen"]), open_=True
    )
    return join([chart("candidates", caption, numbers), _notes(facts)])


def _notes(facts: Facts) -> Markup | None:
    # A step that is decided anew in each round says the same with other numbers: the last word counts.
    last = {re.sub(r"\d+\.\d+", "", note): note for note in facts.model.notes_}
    return join([tag("h3", "Decided on the way"), bullets(list(last.values()))]) if last else None


def _why_unjudged(model: Any) -> str:
    if model.partition in ("validated",) or isinstance(model.partition, (list, tuple)):
        return "it needs labelled rows of two groups or more. " + " ".join(model.notes_)
    shown = model.partition if isinstance(model.partition, (str, int)) else type(model.partition).__name__
    return f"the partition was set to {shown!r}. " + " ".join(model.notes_)


def _effect(value: float) -> str:
    return NOTHING if not np.isfinite(value) else f"{max(100 * value, 0):.1f}{THIN}%"


def _p_value(value: float) -> str:
    return NOTHING if not np.isfinite(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
