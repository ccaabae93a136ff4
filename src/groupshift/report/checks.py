"""Sections about what was checked: calibration and gain on hidden labels, the assumption, the candidates."""

import re
from typing import Any

import numpy as np

from groupshift.report.facts import Facts, largest, shown_names
from groupshift.report.figures import before_after_legend, square_svg
from groupshift.report.markup import (
    NOTHING,
    THIN,
    Markup,
    behind_details,
    bullets,
    count,
    join,
    paragraphs,
    percent,
    plural,
    points,
    signed,
    table,
    tag,
)
from groupshift.report.sections import OPEN_LINES, chart

MOST_POINTS = 1_000
MOST_FEATURES = 25
MOST_CELLS = 25
NOT_HIDDEN = (
    "Labels could not be hidden: it takes labelled rows of two groups, and enough of them to hold some out."
)


def hidden_section(facts: Facts) -> Markup:
    """Calibration, and gain of each group, on labels that were hidden."""
    panels = [panel for panel in (_by_probability(facts), _by_group(facts)) if panel is not None]
    if not panels:
        return tag("p", NOT_HIDDEN)
    lead = (
        "The labels of each labelled group were hidden in turn, its shift was estimated from its features "
        "alone, and the predictions were compared with the labels."
        if facts.hidden
        else "Cross-fitted predictions compared with the labels of the labelled rows."
    )
    return join(
        [
            tag("p", lead, class_="lead"),
            before_after_legend(),
            tag("div", *panels, class_="panels"),
            _gain(facts),
        ]
    )


def _by_probability(facts: Facts) -> Markup | None:
    found = facts.diagnosis.calibration
    if not found:
        return None
    whole = found["group"] == ""
    curves, columns = [], {}
    for method, name, title in (("global", "before", "plain"), ("model", "after", "with the shift")):
        own = whole & (found["method"] == method) & (found["weight"] > 0)
        curves.append((name, found["probability"][own], found["share"][own]))
        columns[title] = own
    label = "Calibration: share of positives against predicted probability, " + "; ".join(
        f"{title}: off by {points(_error(found, own))} on average" for title, own in columns.items()
    )
    after = columns["with the shift"]
    numbers = {
        "Bin": [str(b + 1) for b in found["bin"][after]],
        "Predicted": [percent(v) for v in found["probability"][after]],
        "Observed": [percent(v) for v in found["share"][after]],
        "Rows (weighted)": [count(v) for v in found["weight"][after]],
    }
    picture = square_svg(curves, label=label, x_axis="Predicted probability", joined=True)
    off, off_plain = points(_error(found, after)), points(_error(found, columns["plain"]))
    caption = (
        "By predicted probability: share of rows that are positive. "
        f"Off by {off} on average with the shift, {off_plain} without."
    )
    return _panel("Are the probabilities right?", caption, picture, numbers, "Calibration with the shift")


def _error(found: dict[str, Any], own: Any) -> float:
    """Mean distance between predicted and observed, weighted by rows."""
    weight = found["weight"][own]
    return (
        float(np.average(np.abs(found["probability"][own] - found["share"][own]), weights=weight))
        if weight.size
        else np.nan
    )


def _by_group(facts: Facts) -> Markup | None:
    hidden = facts.hidden
    if not hidden:
        return None
    shown = largest(hidden["rows"], MOST_POINTS)
    series = [
        (n, hidden[m][shown], hidden["share"][shown])
        for n, m in (("before", "mean_global"), ("after", "mean_model"))
    ]
    off = {
        m: float(np.average(np.abs(hidden[m] - hidden["share"]), weights=hidden["rows"]))
        for m in ("mean_global", "mean_model")
    }
    told = (
        f"Off by {points(off['mean_model'])} on average with the shift, {points(off['mean_global'])} without"
    )
    few = "" if len(shown) == len(hidden["name"]) else f" The {count(len(shown))} largest groups."
    picture = square_svg(
        series,
        label=f"Share of positives of each labelled group against its mean prediction. {told}.",
        x_axis="Mean prediction for the group",
        joined=False,
    )
    return _panel(
        "Are the groups right?",
        f"By group: share of rows that are positive. {told}; numbers below.{few}",
        picture,
        None,
        "",
    )


def _panel(title: str, caption: str, picture: Markup, numbers: dict | None, named: str) -> Markup:
    details = (
        behind_details("Numbers as a table", table(numbers, caption=named), open_=True) if numbers else None
    )
    return tag("figure", tag("h3", title), tag("figcaption", caption), picture, details, class_="calibration")


def _gain(facts: Facts) -> Markup | None:
    hidden = facts.hidden
    if not hidden:
        return None
    better = int((hidden["gain"] > 0).sum())
    caption = (
        "Fall of the log loss in each labelled group, from the plain classifier to the shifted one: "
        f"{count(better)} of {plural(len(hidden['gain']), 'group')} are better off. "
        "A small group gains or loses by chance."
    )
    columns = {
        "Group": hidden["name"],
        "Gain": [signed(v, 3) for v in hidden["gain"]],
        "Log loss": [f"{v:.3f}" for v in hidden["loss_model"]],
        "AUC": [_auc(v) for v in hidden["auc_model"]],
        "AUC, plain": [_auc(v) for v in hidden["auc_global"]],
        "Positive": [percent(v) for v in hidden["share"]],
        "Predicted": [percent(v) for v in hidden["mean_model"]],
        "Predicted, plain": [percent(v) for v in hidden["mean_global"]],
        "Rows": [count(v) for v in hidden["rows"]],
    }
    numbers = behind_details(
        "Numbers as a table",
        table(columns, caption="Hidden labels by group"),
        open_=len(hidden["name"]) <= OPEN_LINES,
    )
    return join([tag("h3", "Which groups gain?"), chart("gain", caption, numbers)])


def assumption_section(facts: Facts) -> Markup:
    """What was tested, in sentences and tables."""
    diagnosis = facts.diagnosis
    mark = {"yes": "ok", "roughly": "doubt", "no": "fail", "unknown": "doubt"}[diagnosis.holds]
    words = {
        "yes": "✓ Holds",
        "roughly": "≈ Holds roughly",
        "no": "✗ Does not hold",
        "unknown": "? Not tested",
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
            f"Cluster {k + 1}, class {label}" for k, label in zip(own["cluster"], own["label"], strict=True)
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
        "Cluster": [str(k + 1) for k in found["cluster"][worst]],
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
        "Fall of the log loss on hidden labels against no shift, ± 2 standard errors over groups. "
        f"Chosen (bold): {chosen[0] if chosen else 'none'}. "
        "A simpler candidate wins against a more complex one that is no better beyond noise."
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


def _auc(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else NOTHING


def _effect(value: float) -> str:
    return NOTHING if not np.isfinite(value) else f"{max(100 * value, 0):.1f}{THIN}%"


def _p_value(value: float) -> str:
    return NOTHING if not np.isfinite(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
