"""The tables of the page: numbers as text, column by column. None where there is nothing to show."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from groupshift._audit.found import AuditFound
from groupshift._diagnosis.features import importance_table
from groupshift._diagnosis.findings import what_settles_it
from groupshift._diagnosis.fitted import Model
from groupshift._diagnosis.report.facts import MAX_GROUPS, Facts, largest, shown_names
from groupshift._diagnosis.report.formats import (
    NOTHING,
    count,
    decimals,
    percent,
    percent_range,
    signed,
    texts,
)
from groupshift._diagnosis.share_tables import COVERAGE
from groupshift._diagnosis.wording import THIN
from groupshift._math.arrays import FloatArray

# Tables of more lines stay closed for readers without JavaScript, too: the page would be miles long.
OPEN_LINES = 200
MOST_LINES = 25
MOST_FEATURES = 200
INTERVAL = f"{percent(COVERAGE, 0)} interval"
NARROW = "Narrow interval"
# With more classes than this a cell of the map has no room for its interval, which a pointer still shows.
WIDE_CLASSES = 8
# Ground of a share of everything: deeper, and its number is hard to read.
DEEPEST = 0.55


@dataclass(frozen=True)
class TableView:
    """A table behind a line that opens it. Its first column names the lines; those in `words` hold no numbers."""

    columns: Mapping[str, Sequence[str]]
    caption: str
    title: str = "Numbers as a table"
    words: tuple[str, ...] = ()
    marked: int | None = None

    @property
    def lines(self) -> Iterator[tuple[str, ...]]:
        return zip(*self.columns.values(), strict=True)

    @property
    def is_open(self) -> bool:
        return len(next(iter(self.columns.values()))) <= OPEN_LINES


def shares_table(facts: Facts) -> TableView:
    """All rows together, then the groups that the page shows, those of very few rows last."""
    groups, whole = facts.groups, {name: float(values[0]) for name, values in facts.overall.items()}
    order = np.argsort(facts.is_last, kind="stable")
    limits = {
        INTERVAL: (("low", "high"), (groups["low"], groups["high"])),
        NARROW: (("narrow_low", "narrow_high"), (groups["narrow_low"], groups["narrow_high"])),
    }
    columns = {
        "Group": ["All", *(groups["name"][g] for g in order)],
        "Population": [percent(v) for v in (whole["share"], *groups["share"][order])],
    }
    for name, (of_all, of_groups) in limits.items():
        low, high = ((whole[one], *values[order]) for one, values in zip(of_all, of_groups, strict=True))
        columns[name] = [percent_range(*ends) for ends in zip(low, high, strict=True)]
    columns["Population rows"] = [count(v) for v in (whole["rows"], *groups["rows"][order])]
    if groups["sample_rows"].any():
        n_labeled = int(facts.model.learned_.labeled_rows.sum())
        sample = zip(groups["sample_share"][order], groups["sample_rows"][order], strict=True)
        columns["Labeled sample"] = [
            _of(share, n) for share, n in [(whole["labeled_share"], n_labeled), *sample]
        ]
        columns["All rows"] = [percent(v) for v in (facts.every_row[0], *groups["every_row"][order])]
    return TableView(columns, "Shares of positives by group", marked=0)


def _of(share: float, rows: int) -> str:
    """A share of so many rows."""
    return f"{percent(share)} of {count(rows)}" if rows else NOTHING


def classes_table(facts: Facts) -> TableView:
    """Each of several classes: population, labeled sample, and its range over groups; the largest first."""
    whole, share = facts.overall, facts.groups["share"]
    order = np.argsort(-whole["share"], kind="stable")
    pairs = {INTERVAL: ("low", "high"), NARROW: ("narrow_low", "narrow_high")}
    columns = {
        "Class": [facts.classes[c] for c in order],
        "Population": [percent(v) for v in whole["share"][order]],
    }
    for name, (low, high) in pairs.items():
        columns[name] = [percent_range(whole[low][c], whole[high][c]) for c in order]
    columns["Labeled sample"] = [percent(v) for v in whole["labeled_share"][order]]
    columns["All rows"] = [percent(v) for v in facts.every_row[order]]
    columns["Groups, from to"] = [percent_range(share[:, c].min(), share[:, c].max()) for c in order]
    return TableView(columns, "Classes, most frequent first", "Classes")


def class_map(facts: Facts) -> list[tuple[str, str, list[dict[str, str]]]]:
    """Groups down, several classes across; first all of them together.

    A cell is a share as the map shows it, its interval, what a pointer on it tells, and how deep its ground is.
    """
    groups, whole, is_wide = facts.groups, facts.overall, len(facts.classes) > WIDE_CLASSES

    def cell(group: str, c: int, share: float, low: float, high: float, sample: str) -> dict[str, str]:
        within = percent_range(low, high)
        told = f"{group}, {facts.classes[c]}: {percent(share)}, {INTERVAL} {within}{sample}"
        # By the square root: shares of a few percent, the rule where classes are many, can be told from none.
        depth = f"{DEEPEST * np.sqrt(max(share, 0.0)):.3f}"
        shown, within = (f"{100 * share:.0f}", "") if is_wide else (percent(share), within)
        return {"share": shown, "interval": within, "told": told, "depth": depth}

    numbers = range(len(facts.classes))
    together = [
        cell("all", c, float(whole["share"][c]), float(whole["low"][c]), float(whole["high"][c]), "")
        for c in numbers
    ]
    lines = [("all", count(whole["rows"][0]), together)]
    for g in np.argsort(facts.is_last, kind="stable"):
        n = int(groups["sample_rows"][g])
        samples = [f", labeled sample {_of(v, n)}" if n else "" for v in groups["sample_share"][g]]
        cells = [
            cell(
                groups["name"][g],
                c,
                groups["share"][g, c],
                groups["low"][g, c],
                groups["high"][g, c],
                samples[c],
            )
            for c in numbers
        ]
        lines.append((groups["name"][g], count(groups["rows"][g]), cells))
    return lines


def sensitivity_table(facts: Facts) -> TableView | None:
    """Shares under other labeling: all rows, then the groups that the page shows."""
    found, n_told = facts.diagnosis.sensitivity, len(facts.classes)
    if not found or what_settles_it(facts.model) in ("audit", "rate"):
        return None
    shown = np.append(0, largest(found["rows"][n_told::n_told], MAX_GROUPS // n_told) + 1)
    lines = (shown[:, None] * n_told + np.arange(n_told)).ravel()
    names = ["All", *shown_names(found["group"][shown[1:] * n_told])]
    columns: dict[str, Sequence[str]] = {"Group": [name for name in names for _ in range(n_told)]}
    if facts.has_classes:
        columns["Class"] = facts.classes * len(names)
    columns |= {
        "Half as likely": [percent(v) for v in found["if_half"][lines]],
        "As estimated": [percent(v) for v in found["share"][lines]],
        "Twice as likely": [percent(v) for v in found["if_twice"][lines]],
    }
    who = "rows of a class" if facts.has_classes else "positives"
    caption = f"Shares if {who} were half, or twice, as likely to be labeled as others, in all groups alike"
    return TableView(columns, caption, "If labels came more or less often", marked=0, words=("Class",))


def shifts_table(facts: Facts) -> TableView:
    shifts = {f"Cluster {k}": [signed(v) for v in shift] for k, shift in enumerate(facts.cells["shift"].T)}
    return TableView({"Group": facts.cells["name"], **shifts}, "Shifts (log-odds) by group and cluster")


def importance_bars(facts: Facts) -> list[tuple[str, str, float]]:
    """Names of features, rises of the log loss, and lengths of bars in percent."""
    found = importance_table(facts.model)
    names, rises = found["feature"].tolist(), found["loss_rise"].tolist()
    longest = max(*rises, 1e-12) if rises else 1.0
    return [(name, signed(v, 4), 100 * max(v, 0) / longest) for name, v in zip(names, rises, strict=True)]


def shift_range(facts: Facts) -> str:
    shift = facts.model.estimate_.shift
    return f"{signed(float(shift.min()))} to {signed(float(shift.max()))}"


def calibration_table(bins: FloatArray) -> TableView:
    columns = {
        "Bin": texts(range(1, len(bins) + 1)),
        "Predicted": [percent(v) for v in bins[:, 1]],
        "Observed": [percent(v) for v in bins[:, 2]],
        "Rows (weighted)": [count(v) for v in bins[:, 0]],
    }
    return TableView(columns, "Calibration with the shift")


def gain_table(facts: Facts) -> TableView | None:
    found = facts.held_out
    if found is None or not facts.any_gain:
        return None
    kind = "accuracy" if facts.has_classes else "auc"
    name = "Accuracy" if facts.has_classes else "AUC"
    columns = {
        "Group": found["name"].tolist(),
        "Gain": [signed(v, 3) for v in found["gain"]],
        "Log loss": [decimals(v) for v in found["loss_model"]],
        name: [decimals(v) for v in found[f"{kind}_model"]],
        f"{name}, plain": [decimals(v) for v in found[f"{kind}_global"]],
    }
    if facts.has_classes:
        off = {key: np.abs(found[f"mean_{key}"] - found["share"]).mean(1) for key in ("model", "global")}
        columns["Error of shares"] = [percent(v) for v in off["model"]]
        columns["Error, plain"] = [percent(v) for v in off["global"]]
    else:
        shares = {"Positive": "share", "Predicted": "mean_model", "Predicted, plain": "mean_global"}
        columns |= {key: [percent(v) for v in found[of][:, 0]] for key, of in shares.items()}
    return TableView(columns | {"Rows": [count(v) for v in found["rows"]]}, "Held-out labels by group")


def independence_table(facts: Facts) -> TableView | None:
    found = facts.diagnosis.independence
    tested = np.isfinite(found["feature_effect"]) | np.isfinite(found["score_effect"])
    if not tested.any():
        return None
    own = {name: values[tested] for name, values in found.items()}
    columns = {
        "Where": [
            f"Cluster {k}, class {label}" for k, label in zip(own["cluster"], own["label"], strict=True)
        ],
        "Rows": [count(v) for v in own["rows"]],
        "Groups": [count(v) for v in own["groups"]],
        "Score": [_effect(v) for v in own["score_effect"]],
        "Features, mean": [_effect(v) for v in own["feature_effect"]],
        "Strongest feature": [
            f"{name} ({_effect(v)})"
            for name, v in zip(own["strongest_feature"], own["strongest_effect"], strict=True)
        ],
        "p-value": ["< 0.001" if np.isfinite(v) and v < 0.001 else decimals(v) for v in own["p_value"]],
    }
    caption = "Share of variance inside a cluster and class that the group explains, beyond chance"
    return TableView(columns, caption, "Independence by cluster and class", words=("Strongest feature",))


def feature_effects_table(facts: Facts) -> TableView | None:
    found = facts.diagnosis.features
    known = np.flatnonzero(np.isfinite(found["effect"]))
    if not len(known):
        return None
    first = known[:MOST_LINES]
    columns = {
        "Feature": texts(found["feature"][first]),
        "Explained by the group": [_effect(v) for v in found["effect"][first]],
        "Standard error": [f"{100 * v:.2f}{THIN}%" for v in found["std_error"][first]],
    }
    more = f", the {len(first)} strongest of {len(known)}" if len(known) > len(first) else ""
    return TableView(columns, f"Features, given cluster and class{more}", "Independence by feature")


def mixture_table(facts: Facts) -> TableView | None:
    found = facts.diagnosis.mixture
    known = np.flatnonzero(np.isfinite(found["excess"]) & (found["rows"] > 0)) if found else np.zeros(0, int)
    if not len(known):
        return None
    worst = known[np.argsort(-found["excess"][known], kind="stable")][:MOST_LINES]
    gaps = {"Gap": "best_distance", "Gap by chance": "by_chance", "Excess": "excess"}
    columns = {
        "Group": shown_names(found["group"][worst]),
        "Cluster": texts(found["cluster"][worst]),
        "Rows": [count(v) for v in found["rows"][worst]],
        **{title: [decimals(v) for v in found[name][worst]] for title, name in gaps.items()},
    }
    caption = (
        "Cells whose scores fit a mixture of labeled positives and negatives least (gap of distributions)"
    )
    return TableView(columns, caption, f"Cells that fit least ({len(worst)} of {count(len(known))})")


def audit_table(found: AuditFound) -> TableView:
    """What could be said after each label: looking is free."""
    verdicts = found.verdicts
    columns = {
        "Labels": texts(range(1, len(verdicts.low) + 1)),
        "Against the share": [decimals(v, 2) for v in verdicts.share_money],
        "Against calibration": [decimals(v, 2) for v in verdicts.calibration_money],
        "Possible shares": [
            percent_range(low, high) for low, high in zip(verdicts.low, verdicts.high, strict=True)
        ],
    }
    caption = (
        "Money from bets against each claim (20 is enough), and shares that remain possible, after each label"
    )
    return TableView(columns, caption, "Label by label")


def audit_groups_table(found: AuditFound) -> TableView | None:
    """Groups that have audit labels, and by how much each moved."""
    asked = np.flatnonzero(found.group_labels)
    if not len(asked):
        return None
    most = asked[np.argsort(-found.group_labels[asked], kind="stable")][:MOST_LINES]
    columns = {
        "Group": shown_names(found.groups[most]),
        "Audit labels": [count(v) for v in found.group_labels[most]],
        "Shift added": [signed(v) for v in found.common.group_shift[most]],
        "Of it the group's own": [signed(v) for v in found.common.own_shift[most]],
    }
    return TableView(columns, "Groups with most audit labels (log-odds)", "Group by group")


def candidates_table(model: Model) -> TableView | None:
    """The partitions that were weighed."""
    found = model.candidates_
    if found is None:
        return None
    columns = {
        "Candidate": texts(found["candidate"]),
        "Clusters": [count(v) for v in found["n_clusters"]],
        "Log loss": [decimals(v, 4) for v in found["loss"]],
        "Gain": [signed(v, 4) for v in found["gain"]],
        "Standard error": [decimals(v, 4) for v in found["gain_error"]],
    }
    return TableView(columns, "Candidates", marked=int(found["chosen"].argmax()))


def features_table(model: Model) -> TableView:
    encoder, first = model.schema_.encoder, slice(MOST_FEATURES)
    kinds = [
        f"{kind}, {count(len(levels))} values" if kind == "category" else kind
        for kind, levels in zip(encoder.kinds_[first], encoder.categories_[first], strict=True)
    ]
    caption = "Features and their kinds"
    if len(encoder.names_) > MOST_FEATURES:
        caption += f" (the first {MOST_FEATURES} of {count(len(encoder.names_))})"
    return TableView({"Feature": encoder.names_[first], "Kind": kinds}, caption, "Features", words=("Kind",))


def _effect(value: float) -> str:
    """An effect as a percentage; less what chance explains it may come out below nothing."""
    return f"{max(100 * value, 0):.1f}{THIN}%" if np.isfinite(value) else NOTHING
