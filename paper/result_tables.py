"""The article's tables, and its figures in numbers, with ours beside them."""

from collections.abc import Mapping, Sequence

import numpy as np

from paper.published import FIGURE_2, NAMES, SIZES, figure_3, published_auc
from paper.results import Mean, Place, Results
from paper.table_text import NOTHING, TITLES, Table, place_title, relative, share, signed

ACS = ("income", "employment", "ipr")
# Methods of Figures 2 and 3.
COMPARED = ("coral", "group_aware_global", "cluster_global", "label_shift", "published", "true_clustering")
# How far ours may be from the article's median of a panel, in percent of Global's AUC, before a cause is to be named.
CLOSE, FAR = 2.0, 5.0


def all_tables(results: Results) -> dict[str, Table]:
    """Tables by their names in the article."""
    return {
        "Table 1": auc_table(results, "Table 1: real data in setting 1", [(d, "1") for d in ACS]),
        "Table 2": auc_table(results, "Table 2: real data in setting 2", [(d, "2") for d in ACS]),
        "Table 3": size_table(results),
        "Table 4": auc_table(results, "Table 4: reviews", [("amazon", "1"), ("amazon", "2")]),
        "Figure 2": figure_2_table(results),
        "Figure 3": figure_3_table(results),
        "Figure 3, distances": distance_table(results),
        "Effects of clustering": partition_table(results),
    }


def auc_table(results: Results, title: str, columns: Sequence[tuple[str, str]]) -> Table:
    """Mean test AUC, and the gain over Global on the same draws, each beside the article's."""
    header, body = ["Method"], []
    for data, setting in columns:
        name = place_title(data, setting) if data == "amazon" else TITLES[data]
        header += [f"{name}: article", "ours", "less Global: article", "ours"]
    for method in (m for m in NAMES if m in results.methods or m in (*COMPARED, "global")):
        cells = []
        for data, setting in columns:
            place = (data, setting, "", "")
            theirs, base = published_auc(method, data, setting), published_auc("global", data, setting)
            gain = "" if theirs is None or base is None or method == "global" else signed(theirs - base)
            ours = Mean.of(results.differences(place, method, "global"))
            cells += [share(theirs), share(results.mean(place, method))]
            cells += [gain, "" if method == "global" else signed(ours)]
        if any(cell not in ("", NOTHING) for cell in cells):
            body.append([NAMES[method], *cells])
    note = "Test AUC, mean over draws ± half of its 95 % interval (Student's t); differences are those of the same draws."
    return Table(title, note, header, body)


def size_table(results: Results) -> Table:
    body = []
    for data, (rows, features) in SIZES.items():
        facts = results.described.get("tables", {}).get(data, {})
        ours = [f"{facts['rows']:,}", str(facts["n_features"])] if facts else [NOTHING, NOTHING]
        lacks = ", ".join(facts.get("missing_features", ())) or NOTHING
        body.append([TITLES[data], f"{rows:,}", ours[0], str(features), ours[1], lacks])
    header = ["Data", "rows: article", "ours", "features: article", "ours", "features that ours lacks"]
    note = "The article has the Census files of 2014 to 2018; some features that ours lacks have stand-ins."
    return Table("Table 3: real data", note, header, body)


def medians(results: Results, setting: str = "2") -> dict[tuple[str, str], dict[str, float]]:
    """Our medians over draws by (d, K) and method: AUC relative to Global in percent."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for place in (p for p in results.places if p[:2] == ("synthetic", setting)):
        for method in results.methods:
            if values := results.relative(place, method):
                found.setdefault(place[2:], {})[method] = float(np.median(values))
    return found


def relative_means(results: Results, method: str, setting: str) -> dict[Place, float]:
    """AUC relative to Global for each (d, K), averaged over draws first: what Figure 2 shows the distribution of."""
    found = {}
    for place in (p for p in results.places if p[:2] == ("synthetic", setting)):
        if both := set(results.of(place, method)) & set(results.of(place, "global")):
            mine, base = (sum(results.of(place, m)[r] for r in both) for m in (method, "global"))
            found[place] = 100 * (mine / base - 1)
    return found


def figure_2_table(results: Results) -> Table:
    body = []
    for method in (*COMPARED, "groupshift", "bayes"):
        cells = [relative(FIGURE_2[method]) if method in FIGURE_2 else ""]
        for setting in ("2", "1"):
            values = list(relative_means(results, method, setting).values())
            range_ = f"{relative(min(values))} to {relative(max(values))}" if values else NOTHING
            cells += [relative(float(np.median(values))) if values else NOTHING, range_]
        if set(cells) - {NOTHING, ""}:
            body.append([NAMES[method], *cells])
    header = [
        "Method",
        "setting 2: article",
        "ours",
        "range over (d, K)",
        "setting 1: ours",
        "range over (d, K)",
    ]
    note = "Median over the (d, K) of the AUC relative to Global, in percent. The article shows setting 1 as about 0."
    return Table("Figure 2 in numbers", note, header, body)


def figure_3_table(results: Results) -> Table:
    ours, header = medians(results), ["d", "K", "draws"]
    for method in COMPARED:
        header += [f"{NAMES[method]}: article", "ours"]
    header.append("Bayes limit")
    body = []
    for (d, K), theirs in figure_3().items():
        found = ours.get((d, K), {})
        cells = [_or_nothing(value) for m in COMPARED for value in (theirs[m], found.get(m))]
        draws = len(results.of(("synthetic", "2", d, K), "published"))
        body.append([d, K, str(draws), *cells, _or_nothing(found.get("bayes"))])
    note = "Setting 2, median over draws of the AUC relative to Global on the same draw, in percent."
    return Table("Figure 3 in numbers", note, header, body)


def distances(results: Results) -> Mapping[str, list[float]]:
    """By how much our median of each panel exceeds the article's, by method."""
    ours, theirs = medians(results), figure_3()
    return {
        method: [
            ours[panel][method] - theirs[panel][method] for panel in theirs if method in ours.get(panel, {})
        ]
        for method in COMPARED
    }


def distance_table(results: Results) -> Table:
    body = []
    for method, found in distances(results).items():
        if found:
            away = np.abs(found)
            counts = [str(sum(away <= CLOSE)), str(sum(away <= FAR)), str(len(away))]
            body.append([NAMES[method], *counts, relative(float(np.median(found))), f"{max(away):.1f}"])
    header = ["Method", f"panels within {CLOSE:g}", f"within {FAR:g}", "panels", "median distance", "largest"]
    note = "Distance of our median of a panel of Figure 3 from the article's, in percent of Global's AUC."
    return Table("Figure 3: how far ours are from the article's", note, header, body)


def partition_table(results: Results) -> Table:
    """What not knowing the partition costs."""
    body = []
    for data, setting in dict.fromkeys(place[:2] for place in results.places):
        gaps = results.paired(data, setting, "published", "true_clustering")
        places = [p for p in results.places if p[:2] == (data, setting)]
        agreement, right = list[float](), list[bool]()
        for p in places:
            agreement += results.of(p, "published", "partition_agreement").values()
            true = results.of(p, "published", "true_clusters")
            right += [n == true[r] for r, n in results.of(p, "published", "n_clusters").items()]
        if gaps and right:
            body.append(
                [
                    place_title(data, setting),
                    signed(Mean.of(gaps)),
                    f"{np.mean(agreement):.2f}",
                    f"{np.mean(right):.0%}",
                ]
            )
    header = ["Data", "AUC less True Clustering", "agreement (adjusted Rand)", "draws with the true K"]
    note = "True Clustering is the article's method, told the partition that generated the data."
    return Table("Effects of clustering", note, header, body)


def _or_nothing(value: float | None) -> str:
    return NOTHING if value is None else relative(value)
