"""What no diagnosis of several classes can check: labels of one class that came more often, or less, in all groups alike."""

import numpy as np

from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.class_share_tables import group_class_shares, overall_class_shares
from groupshift._diagnosis.in_common import common_shift_of_classes, if_selected, remedy, statement
from groupshift._math.arrays import FloatArray, Table
from groupshift._shifts.sums import Sums

# Numbers that may be computed for the table: beyond that a diagnosis would take minutes.
MAX_NUMBERS = 1_000_000_000


def class_sensitivity(model: ClassModel) -> Table:
    """All rows together (group None), then each group: the share of each class, and what it would be under other labelling."""
    points, n_classes = model.estimate_.points, len(model.classes_)
    if points is None or not len(model.groups_) or 2 * n_classes**2 * len(points.weight) > MAX_NUMBERS:
        return {}
    share, _, rows = group_class_shares(model)
    half, twice = (_if_selected(model, odds) for odds in (0.5, 2.0))
    whole = overall_class_shares(model)[1]
    everyone = np.array([None, *model.groups_.tolist()], dtype=object)
    return {
        "group": np.repeat(everyone, n_classes),
        "class": np.tile(model.classes_, len(everyone)),
        "rows": np.concatenate([rows.sum(0), rows.ravel()]),
        "share": np.concatenate([whole, share.ravel()]),
        "if_half": half.ravel(),
        "if_twice": twice.ravel(),
    }


def _if_selected(model: ClassModel, odds: float) -> FloatArray:
    """Shares of all rows and of each group, (1 + n_groups, n_classes), each class in its turn so many times likelier labelled.

    Labels of a class that came twice as often make its share too high by an odds ratio of 2. Known shares stay as they are.
    """
    estimate = model.estimate_
    points, shift = estimate.points, estimate.shift
    assert isinstance(points, Sums)
    weight = estimate.row_weight
    is_open = ~np.isin(model.groups_, model.known_groups_)
    known = [] if model.known_overall_ is None else model.known_overall_[:, 0].astype(int).tolist()
    found = np.empty((1 + len(model.groups_), shift.shape[2]))
    for c in range(shift.shape[2]):
        moved = shift.copy()
        moved[is_open, :, c] -= np.log(odds) * (c not in known)
        rows = weight * points.mean_shares(moved, model.learned_.labeled_prior)[0][..., c]
        found[0, c] = rows.sum() / weight.sum()
        found[1:, c] = rows.sum(1) / np.maximum(weight.sum(1), 1e-300)
    return found


def selected_sentence(model: ClassModel, table: Table) -> str:
    """What all groups may have in common, by the class that it would change most, and what would decide it."""
    found = common_shift_of_classes(model)
    parts = [statement(found)]
    if found.is_settled:
        return parts[0]
    if table:
        n_classes = len(model.classes_)
        share, half, twice = (table[name][:n_classes] for name in ("share", "if_half", "if_twice"))
        c = int(np.argmax(np.abs(half - twice)))
        name = str(model.classes_[c])
        parts.append(if_selected(found, float(share[c]), float(half[c]), float(twice[c]), name))
    return " ".join([*parts, remedy(found)])
