"""The section about labels that were hidden: calibration, overall and by group, and each group's gain."""

import numpy as np
from numpy.typing import NDArray

from groupshift._explain.report.charts import before_after_legend, square_svg
from groupshift._explain.report.facts import Facts, largest
from groupshift._explain.report.markup import (
    NOTHING,
    Markup,
    behind_details,
    count,
    join,
    percent,
    plural,
    points,
    signed,
    table,
    tag,
)
from groupshift._explain.report.sections import OPEN_LINES, chart

MOST_POINTS = 1_000
ROWS_PER_BIN = 100
NOT_HIDDEN = (
    "Labels could not be hidden: it takes labelled rows of two groups, and enough of them to hold some out."
)

NO_GAIN = (
    "No shift is used, so every group gets the plain classifier's predictions: no group gains or loses, and "
    "there is no list of gains to show."
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
    held_out = facts.model.evidence_.held_out
    if held_out is None:
        return None
    found = held_out.calibration
    n_bins = int(np.clip(held_out.total.rows / ROWS_PER_BIN, 4, len(found.model.overall)))
    plain, shifted = (merged_bins(method.overall, n_bins) for method in (found.plain, found.model))
    told = f"Off by {points(_error(shifted))} on average with the shift, {points(_error(plain))} without."
    picture = square_svg(
        [("before", plain[:, 1], plain[:, 2]), ("after", shifted[:, 1], shifted[:, 2])],
        label=f"Calibration: share of positives against predicted probability. {told}",
        x_axis="Predicted probability",
        joined=True,
    )
    numbers = {
        "Bin": [str(b + 1) for b in range(len(shifted))],
        "Predicted": [percent(v) for v in shifted[:, 1]],
        "Observed": [percent(v) for v in shifted[:, 2]],
        "Rows (weighted)": [count(v) for v in shifted[:, 0]],
    }
    caption = f"By predicted probability: share of rows that are positive. {told}"
    return _panel("Are the probabilities right?", caption, picture, numbers, "Calibration with the shift")


def merged_bins(bins: NDArray, n_bins: int) -> NDArray:
    """Neighbouring (weight, predicted, observed) bins joined to `n_bins`: few rows make many bins noise.

    >>> merged_bins(np.array([[1, 0.1, 0.0], [3, 0.3, 0.4]]), 1).round(2).tolist()
    [[4.0, 0.25, 0.3]]
    """
    bins = bins[bins[:, 0] > 0]
    parts = [part for part in np.array_split(bins, n_bins) if len(part)]
    return np.array(
        [[part[:, 0].sum(), *np.average(part[:, 1:], axis=0, weights=part[:, 0])] for part in parts]
    )


def _error(bins: NDArray) -> float:
    """Mean distance between predicted and observed, weighted by rows."""
    return float(np.average(np.abs(bins[:, 1] - bins[:, 2]), weights=bins[:, 0]))


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


def any_gain(facts: Facts) -> bool:
    """Whether any labelled group is better or worse off than with the plain classifier."""
    return bool(facts.hidden) and bool(np.any(facts.hidden["gain"]))


def _gain(facts: Facts) -> Markup | None:
    hidden = facts.hidden
    if not hidden:
        return None
    if not any_gain(facts):
        return tag("p", NO_GAIN)
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


def _auc(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else NOTHING
