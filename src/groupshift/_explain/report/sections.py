"""Sections about what was estimated: shares, shifts, clusters. Where one has nothing to show, it says why."""

from typing import Any

from groupshift._explain.cluster_profile import describe_clusters
from groupshift._explain.evidence_parts import Table
from groupshift._explain.report.charts import dots_legend, shift_legend, shift_scale
from groupshift._explain.report.facts import Facts
from groupshift._explain.report.markup import (
    MINUS,
    Markup,
    behind_details,
    bullets,
    count,
    join,
    percent,
    percent_range,
    plural,
    signed,
    table,
    tag,
)

# Tables of more lines stay closed for readers without JavaScript, too: the page would be miles long.
OPEN_LINES = 200
MOST_DIFFERENCES = 5
NO_POPULATION = "There were no unlabelled rows, so there are no shares of a population to show."


def chart(name: str, caption: Any, *more: Any, legend: Markup | None = None) -> Markup:
    """A figure that the script draws, with its caption, legend and, below, its numbers."""
    return tag(
        "figure", tag("figcaption", caption), legend, tag("div", class_="chart", data_figure=name), *more
    )


def shares_section(facts: Facts) -> Markup:
    """Share of positives of each group."""
    if not facts.has_population:
        return tag("p", NO_POPULATION)
    groups = facts.groups
    sampled = bool(groups["sample_rows"].any())
    caption = (
        "Share of positives of each group, estimated from its unlabelled rows, clusters by their weight"
        + ("; beside it, the share among its labelled rows." if sampled else ".")
    )
    legend = dots_legend(facts.coverage, sample=sampled, overall=f"all groups: {percent(facts.overall)}")
    return join(
        [
            _left_out(facts.n_groups, len(groups["name"]), "model.group_shares(by='group')"),
            chart("shares", caption, _shares_table(facts, sampled), legend=legend),
        ]
    )


def _shares_table(facts: Facts, sampled: bool) -> Markup:
    groups = facts.groups
    columns: dict[str, Any] = {
        "Group": groups["name"],
        "Population": [percent(v) for v in groups["share"]],
        f"{percent(facts.coverage, 0)} interval": [
            percent_range(a, b) for a, b in zip(groups["low"], groups["high"], strict=True)
        ],
        "Population rows": [count(v) for v in groups["rows"]],
    }
    if sampled:
        columns["Labelled sample"] = [percent(v) for v in groups["sample_share"]]
        columns["Labelled rows"] = [count(v) for v in groups["sample_rows"]]
    return _numbers(columns, "Shares of positives by group")


def shifts_section(facts: Facts) -> Markup:
    """Shifts as a map, groups down and clusters across."""
    if not facts.has_population:
        return tag("p", NO_POPULATION)
    if not facts.shifted:
        return tag(
            "p",
            "Every shift is zero: probabilities are those of the plain classifier everywhere.",
        )
    cells = facts.cells
    caption = (
        "Log-odds added to the labelled posterior in each cell. Above 0: more positives than among the "
        f"labelled rows of the cluster; +0.7 doubles the odds, {MINUS}0.7 halves them."
    )
    legend = shift_legend(
        shift_scale(cells["shift"]),
        borrowed=bool((cells["borrowed"] & (cells["rows"] > 0)).any()),
        empty=bool((cells["rows"] == 0).any()),
    )
    columns: dict[str, Any] = {"Group": cells["name"]}
    for k in range(facts.n_clusters):
        columns[f"Cluster {k}"] = [signed(v) for v in cells["shift"][:, k]]
    return join(
        [
            _left_out(facts.n_groups, len(cells["name"]), "model.shift_"),
            chart(
                "shifts", caption, _numbers(columns, "Shifts (log-odds) by group and cluster"), legend=legend
            ),
        ]
    )


def clusters_section(facts: Facts) -> Markup:
    """What sets each cluster apart, in the features' own names."""
    if facts.n_clusters == 1:
        return tag(
            "p",
            "There is one cluster, all of feature space: a group has one shift for all of its rows.",
        )
    shown = min(facts.n_clusters, 24)
    told = describe_clusters(facts.model.evidence_.clusters, facts.model.encoder_, most=MOST_DIFFERENCES)
    cards = [_cluster_card(facts, k, told) for k in range(shown)]
    lead = (
        "A cluster is a region of feature space. Inside it, positives are taken to look alike in every "
        "group, and so are negatives; only their shares may differ."
    )
    more = (
        tag("p", f"The first {shown} of {facts.n_clusters} clusters.", class_="quiet")
        if shown < facts.n_clusters
        else None
    )
    return join([tag("p", lead, class_="lead"), tag("div", *cards, class_="clusters"), more])


def _cluster_card(facts: Facts, k: int, told: Table) -> Markup:
    model = facts.model
    rows = float(model.row_weight_[:, k].sum())
    weight = rows / max(float(model.row_weight_.sum()), 1e-300)
    size = f"{percent(weight, 0)} of the population, " if facts.has_population else ""
    labeled = model.evidence_.labeled_clusters
    rows_of_sample = plural(int(labeled.rows[k]), "labelled row")
    numbers = f"{size}{rows_of_sample}, {percent(labeled.share[k])} of them positive"
    if facts.has_population and rows:
        share = float((model.row_weight_[:, k] * model.group_prior_[:, k]).sum() / rows)
        numbers += f"; population {percent(share)}"
    return tag(
        "div",
        tag("h3", f"Cluster {k}"),
        tag("p", numbers + ".", class_="quiet"),
        _differences(k, told),
        class_="cluster",
    )


def _differences(k: int, told: Table) -> Markup:
    phrases = [str(phrase) for phrase in told["phrase"][told["cluster"] == k]]
    return bullets(phrases) if phrases else tag("p", "No single feature sets it apart.")


def _numbers(columns: dict[str, Any], caption: str) -> Markup:
    return behind_details(
        "Numbers as a table", table(columns, caption=caption), open_=len(columns["Group"]) <= OPEN_LINES
    )


def _left_out(of: int, shown: int, where: str) -> Markup | None:
    if shown == of:
        return None
    words = f"The page shows the {count(shown)} groups with most rows of {count(of)}; all of them are in "
    return tag("p", words, tag("code", where), ".")
