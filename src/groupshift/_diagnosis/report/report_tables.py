"""The tables of the page: numbers as text, column by column. None where there is nothing to show."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from groupshift._audit.found import AuditFound
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.identified import importance_of
from groupshift._diagnosis.in_common import common_shift
from groupshift._diagnosis.refusals import reasons
from groupshift._diagnosis.report.facts import COVERAGE, MAX_GROUPS, Facts, largest, shown_names
from groupshift._diagnosis.report.formats import (
    NOTHING,
    count,
    decimals,
    percent,
    percent_range,
    signed,
    texts,
)
from groupshift._diagnosis.wording import THIN
from groupshift._math.arrays import FloatArray

# Tables of more lines stay closed for readers without JavaScript, too: the page would be miles long.
OPEN_LINES = 200
MOST_LINES = 25
MOST_FEATURES = 200
INTERVAL = f"{percent(COVERAGE, 0)} interval"


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
    """All rows together, then the groups that the page shows."""
    groups, overall, model = facts.groups, facts.overall, facts.model
    limits = zip((overall.low, *groups.low), (overall.high, *groups.high), strict=True)
    columns = {
        "Group": ["All", *groups.name],
        "Population": [percent(v) for v in (overall.share, *groups.share)],
        INTERVAL: [percent_range(low, high) for low, high in limits],
        "Population rows": [count(v) for v in (model.rows_.sum(), *groups.rows)],
    }
    if groups.sample_rows.any():
        columns["Labelled sample"] = [percent(v) for v in (facts.labeled_overall, *groups.sample_share)]
        columns["Labelled rows"] = [count(v) for v in (model.labeled_rows_.sum(), *groups.sample_rows)]
    return TableView(columns, "Shares of positives by group", marked=0)


def sensitivity_table(facts: Facts) -> TableView | None:
    """Shares under other labelling: all rows, then the groups that the page shows."""
    found = facts.diagnosis.sensitivity
    if not found or common_shift(facts.model).is_settled:
        return None
    shown = np.append(0, largest(found["rows"][1:], MAX_GROUPS) + 1)
    columns = {
        "Group": ["All", *shown_names(found["group"][shown[1:]])],
        "Half as likely": [percent(v) for v in found["if_half"][shown]],
        "As estimated": [percent(v) for v in found["share"][shown]],
        "Twice as likely": [percent(v) for v in found["if_twice"][shown]],
    }
    caption = "Share of positives if positives were half, or twice, as likely to be labelled as negatives, in all groups alike"
    return TableView(columns, caption, marked=0)


def shifts_table(facts: Facts) -> TableView:
    shifts = {f"Cluster {k}": [signed(v) for v in shift] for k, shift in enumerate(facts.cells.shift.T)}
    return TableView({"Group": facts.cells.name, **shifts}, "Shifts (log-odds) by group and cluster")


class Bar(NamedTuple):
    """A line of a list with bars; `part` is the length of its bar in percent."""

    name: str
    rise: str
    part: float


def importance_bars(facts: Facts) -> list[Bar]:
    found = importance_of(facts.model)
    longest = max(*found.values(), 1e-12)
    return [Bar(name, signed(rise, 4), 100 * max(rise, 0) / longest) for name, rise in found.items()]


def shift_range(facts: Facts) -> str:
    shift = facts.model.shift_
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
    hidden = facts.hidden
    if hidden is None or not facts.any_gain:
        return None
    columns = {
        "Group": hidden.name,
        "Gain": [signed(v, 3) for v in hidden.gain],
        "Log loss": [decimals(v) for v in hidden.loss_model],
        "AUC": [decimals(v) for v in hidden.auc_model],
        "AUC, plain": [decimals(v) for v in hidden.auc_global],
        "Positive": [percent(v) for v in hidden.share],
        "Predicted": [percent(v) for v in hidden.mean_model],
        "Predicted, plain": [percent(v) for v in hidden.mean_global],
        "Rows": [count(v) for v in hidden.rows],
    }
    return TableView(columns, "Hidden labels by group")


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
        "Cells whose scores fit a mixture of labelled positives and negatives least (gap of distributions)"
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


def candidates_table(model: FittedModel) -> TableView | None:
    found, held_out = model.candidates_, model.evidence_.held_out
    if found is None:
        return None
    n_groups = 2 if held_out is None else held_out.total.groups
    columns = {
        "Candidate": texts(found["candidate"]),
        "Clusters": [count(v) for v in found["n_clusters"]],
        "Log loss": [decimals(v, 4) for v in found["loss"]],
        "Gain": [signed(v, 4) for v in found["gain"]],
        "Standard error": [decimals(v, 4) for v in found["gain_error"]],
        "Why": reasons(found, n_groups),
    }
    return TableView(columns, "Candidates", words=("Why",), marked=int(found["chosen"].argmax()))


def features_table(model: FittedModel) -> TableView:
    encoder, first = model.encoder_, slice(MOST_FEATURES)
    kinds = [
        f"{kind}, {count(len(levels))} values" if kind == "category" else kind
        for kind, levels in zip(encoder.kinds_[first], encoder.categories_[first], strict=True)
    ]
    caption = "Features and their kinds"
    if len(encoder.names_) > MOST_FEATURES:
        caption += f" (the first {MOST_FEATURES} of {count(len(encoder.names_))})"
    return TableView({"Feature": encoder.names_[first], "Kind": kinds}, caption, "Features", words=("Kind",))


def last_notes(model: FittedModel) -> list[str]:
    """What was decided on the way; a step that was decided anew says the same with other numbers: the last counts."""
    return list({re.sub(r"\d+\.\d+", "", note): note for note in model.notes_}.values())


def _effect(value: float) -> str:
    """An effect as a percentage; less what chance explains it may come out below nothing."""
    return f"{max(100 * value, 0):.1f}{THIN}%" if np.isfinite(value) else NOTHING
