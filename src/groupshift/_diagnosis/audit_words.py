"""What an audit found, in sentences: they take the place of what would be if labels had been chosen by the label."""

from collections.abc import Iterator

import numpy as np

from groupshift._audit.found import ENOUGH_LABELS, AuditFound
from groupshift._audit.inference import LEVEL
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.share_tables import overall_shares
from groupshift._diagnosis.wording import percent, plural
from groupshift._math.arrays import Table

# Groups that are named beside what the audit moved them by.
MOST_GROUPS = 3
COVERAGE = 0.9
TAIL = (1 - COVERAGE) / 2
ENOUGH = f"{1 / LEVEL:.0f} is enough; a right claim gets there in one audit of {1 / LEVEL:.0f} at most, however often one looks"


def audit_sentences(model: FittedModel, found: AuditFound) -> Iterator[str]:
    """Verdicts, the two estimates of the overall share, the common shift, groups, and labels that are missing."""
    yield share_verdict(found)
    yield calibration_verdict(found)
    yield _estimates(model, found)
    yield _common(found)
    yield from _groups(found)
    yield from _missing(found)


def share_verdict(found: AuditFound) -> str:
    """Is the overall share as it was estimated?"""
    verdicts, claimed = found.verdicts, percent(found.claimed_share)
    money = _money(verdicts.share_money.max(initial=1.0))
    left = f"shares from {percent(verdicts.low[-1])} to {percent(verdicts.high[-1])} remain possible (95 %)"
    grew = f"bets against it grew {money} ({ENOUGH}); {left}."
    labels = plural(found.labels, "label")
    if verdicts.share_is_wrong:
        return f"An audit of {labels} shows that the overall share is not the {claimed} that was estimated: {grew}"
    return (
        f"An audit of {labels} does not show that the estimated overall share of {claimed} is wrong: {grew}"
    )


def calibration_verdict(found: AuditFound) -> str:
    """Are probabilities calibrated?"""
    money = _money(found.verdicts.calibration_money.max(initial=1.0))
    if found.verdicts.is_miscalibrated:
        return f"It shows that the probabilities before the audit were not calibrated: bets against them grew {money}."
    return f"It does not show that the probabilities before the audit were not calibrated: bets against them grew {money}."


def _estimates(model: FittedModel, found: AuditFound) -> str:
    low, high = found.posterior.interval(COVERAGE)
    design_low, design_high = found.design.interval(COVERAGE)
    return (
        f"With these labels the model puts the overall share at {percent(overall_shares(model)[1])} ({percent(low)} to "
        f"{percent(high)}, {percent(COVERAGE, 0)} interval). By the design of the sample alone, whatever the model, it is "
        f"{percent(found.design.share)} ({percent(design_low)} to {percent(design_high)})."
    )


def _common(found: AuditFound) -> str:
    common = found.common
    factor, low, high = (np.exp(-v) for v in (common.mean, common.quantile(1 - TAIL), common.quantile(TAIL)))
    return (
        "The labels settle what all groups have in common: positives were "
        f"{factor:.2g} times as likely to be labelled, against negatives, as the model had thought ({low:.2g} to {high:.2g}), "
        "and all probabilities and intervals follow this."
    )


def _groups(found: AuditFound) -> Iterator[str]:
    """Groups with labels enough to move on their own."""
    many = np.flatnonzero(found.group_labels >= ENOUGH_LABELS)
    if not len(many):
        return
    far = many[np.argsort(-np.abs(found.common.own_shift[many]), kind="stable")][:MOST_GROUPS]
    named = ", ".join(
        f"{found.groups[g]!s} ({found.group_labels[g]} labels, odds times {np.exp(found.common.own_shift[g]):.2f})"
        for g in far
    )
    yield f"Beyond that, groups with {ENOUGH_LABELS} labels or more moved on their own, the furthest by: {named}."


def _missing(found: AuditFound) -> Iterator[str]:
    if not found.missing:
        return
    asked, design = found.labels + found.missing, found.design
    serious = (
        " More than half are missing: take the verdicts as provisional."
        if found.missing > found.labels
        else ""
    )
    has, possible = "has" if found.missing == 1 else "have", ""
    if design.highest - design.lowest > 1e-9:
        possible = (
            f" If all of those that were passed over are negative, the design-based share is {percent(design.lowest)}; if all "
            f"are positive, {percent(design.highest)}."
        )
    yield (
        f"{found.missing} of {asked} rows that were asked for {has} no label. They are taken to be like those that have one, "
        f"given their scores; if rows lack a label because of what it is, the answers above are off.{possible}{serious}"
    )


def precision_lines(table: Table) -> list[tuple[str, str, str]]:
    """What so many labels would show, as lines of text."""
    columns = (table["labels"], table["width"], table["smallest_error"])
    return [
        (f"{n:,}", f"{100 * width:.1f} points", f"{100 * error:.1f} points")
        for n, width, error in zip(*columns, strict=True)
    ]


def _money(factor: float) -> str:
    return f"{factor:,.0f}-fold" if factor >= 10 else f"{factor:.1f}-fold"
