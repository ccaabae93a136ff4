"""A fitted model of several classes in a screenful."""

import numpy as np

from groupshift._diagnosis.class_diagnosis import diagnose_classes, range_over_groups
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.class_share_tables import overall_class_shares
from groupshift._diagnosis.summary import ShareLine, Summary, cluster_lines
from groupshift._diagnosis.wording import percent, plural
from groupshift._math.arrays import IntArray

HEADINGS = ShareLine("class", "share", "of groups, from to", "labelled sample", "rows")
# Classes named before the rest are only counted.
MAX_CLASSES = 12


def class_summary(model: ClassModel) -> Summary:
    """Rows, groups, classes, and the share of each class with its range over groups."""
    found = diagnose_classes(model)
    has_shares = len(model.groups_) > 0
    return Summary(
        _learned(model),
        found,
        np.nan,
        np.nan,
        tuple(_class_lines(model)) if has_shares else (),
        cluster_lines(found.clusters, model.evidence_.clusters.weight),
        HEADINGS,
        "Shares of classes",
    )


def _learned(model: ClassModel) -> str:
    estimate = model.estimate_
    labeled = f"{int(model.learned_.labeled_rows.sum()):,} labelled rows"
    unlabeled = (
        f"{int(estimate.rows.sum()):,} unlabelled rows" if estimate.rows.size else "no unlabelled rows"
    )
    if model.has_groups_:
        labeled += f" of {plural(len(model.labeled_groups_), 'group')}"
        unlabeled += f" of {plural(len(model.groups_), 'group')}" if len(model.groups_) else ""
    shifts = "shifts of groups follow their labels and scores" if np.any(estimate.shift) else "no shifts"
    clusters = plural(model.n_clusters_, "cluster")
    return f"{labeled} and {unlabeled}, {len(model.classes_)} classes: {clusters}; {shifts}."


def _class_lines(model: ClassModel) -> list[ShareLine]:
    before, after = overall_class_shares(model)
    low, high = range_over_groups(model)
    order = np.argsort(-after, kind="stable")
    rows = model.estimate_.rows.sum() * after

    def line(name: str, within: str, own: IntArray) -> ShareLine:
        share, labeled = (percent(float(part[own].sum())) for part in (after, before))
        return ShareLine(name, share, within, labeled, f"{rows[own].sum():,.0f}")

    lines = [
        line(str(model.classes_[c]), f"{percent(low[c])} to {percent(high[c])}", c)
        for c in order[:MAX_CLASSES]
    ]
    rest = order[MAX_CLASSES:]
    return [*lines, line(f"{len(rest)} more", "", rest)] if len(rest) else lines
