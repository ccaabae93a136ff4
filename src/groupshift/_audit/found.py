"""What the labels of an audit say: verdicts that stay valid while labels come in, a design-based share, and new shifts."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit, stdtrit

from groupshift._audit.answers import Answers
from groupshift._audit.betting import LEVEL, Steps, calibration_wealth, sequence, wealth
from groupshift._audit.common_shift import AuditedShift, AuditRows, helper_shift, learn_common_shift
from groupshift._audit.moved import SharePosterior, audited, share_posterior
from groupshift._audit.purchases import ShareCurve
from groupshift._audit.state import State
from groupshift._data.codes import Codes
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._shifts.estimate import Estimate

# Errors of the overall share that the confidence sequence tells apart.
N_ERRORS = 401
# A group's own shift is said to have moved where it has this many labels.
ENOUGH_LABELS = 5


@dataclass(frozen=True)
class Verdicts:
    """After each label: money from bets against the two claims, and the shares that are still possible.

    Valid whenever one looks: a right claim's money ever reaches 20 in one audit of twenty, and so often is a true share left out.
    """

    share_money: FloatArray  # (n_labels,): against "the overall share is as estimated"
    calibration_money: FloatArray  # against "probabilities are calibrated"
    low: FloatArray
    high: FloatArray

    @property
    def share_is_wrong(self) -> bool:
        return bool(self.share_money.max(initial=0.0) >= 1 / LEVEL)

    @property
    def is_miscalibrated(self) -> bool:
        return bool(self.calibration_money.max(initial=0.0) >= 1 / LEVEL)


@dataclass(frozen=True)
class DesignShare:
    """The overall share by the design of the sample, with the model as its helper: valid whatever the model."""

    share: float
    std_error: float
    labels: int
    # If all rows without a label were negative, or all positive.
    lowest: float
    highest: float

    def interval(self, coverage: float) -> tuple[float, float]:
        # A standard error from few labels: Student's distribution.
        reach = float(stdtrit(max(self.labels - 1, 1), 0.5 + coverage / 2)) * self.std_error
        return max(self.share - reach, 0.0), min(self.share + reach, 1.0)


@dataclass(frozen=True)
class AuditFound:
    """What an audit found; `GroupShiftClassifier.audit_` after `learn_audit`.

    Attributes
    ----------
    labels, missing : int
        Labels that came back, and rows that were asked for and have none.
    claimed_share : float
        Overall share as it was estimated before the audit.
    verdicts : Verdicts
        Valid after every label: `share_is_wrong`, `is_miscalibrated`, and the money of the bets against both claims.
    design : DesignShare
        The overall share by design: `share`, `std_error`, `interval(coverage)`.
    common : AuditedShift
        The shift that all groups have in common, in log-odds.
    posterior : SharePosterior
        The overall share after the audit: `interval(coverage)`.
    groups, group_labels : arrays
        Groups of the population, and the labels that each has.
    """

    labels: int
    missing: int
    claimed_share: float
    verdicts: Verdicts
    design: DesignShare
    common: AuditedShift
    posterior: SharePosterior
    groups: ValueArray
    group_labels: IntArray
    state: State = field(repr=False)
    before: Estimate = field(repr=False)  # without its counts

    def applied(self, estimate: Estimate) -> tuple["AuditFound", Estimate]:
        """What was found, with another estimate of the same model to go back to, and that estimate moved by it."""
        common = _for_groups(self, estimate)
        state = replace(State.of(estimate), prior=self.state.prior)
        moved = audited(estimate, common, counted=state.common, own=state.own)
        found = replace(
            self,
            common=common,
            posterior=share_posterior(estimate, common),
            groups=estimate.groups,
            group_labels=_by_name(self.groups, self.group_labels, estimate.groups, 0),
            state=state,
            before=replace(estimate, counts=None),
        )
        return found, moved


def learn(answers: Answers, estimate: Estimate, state: State) -> tuple[AuditFound, Estimate]:
    """What labels say of an estimate that has not seen them, and the estimate moved by it."""
    asked, told = answers.asked, np.flatnonzero(answers.has_label)
    weight = asked.part / answers.inclusion
    rows = AuditRows(asked.log_odds[told], answers.y[told], asked.group[told], weight[told])
    common = learn_common_shift(rows, state.prior, own_variance=state.own, is_fixed=state.is_known)
    found = AuditFound(
        labels=answers.n_labels,
        missing=answers.n_missing,
        claimed_share=answers.design.share,
        verdicts=verdicts(answers),
        design=_design_share(answers, rows, weight),
        common=common,
        posterior=share_posterior(estimate, common),
        groups=estimate.groups,
        group_labels=np.bincount(rows.group[rows.group >= 0], minlength=len(estimate.groups)),
        state=state,
        before=replace(estimate, counts=None),
    )
    return found, audited(estimate, common, counted=state.common, own=state.own)


def verdicts(answers: Answers) -> Verdicts:
    asked, design = answers.asked, answers.design
    told = answers.has_label
    residual = asked.part * np.where(told, answers.y - expit(asked.log_odds), 0.0)
    left = 1 - (np.cumsum(asked.chance) - asked.chance)
    # A row without a label was drawn too: it is taken for what was predicted, and no bet is placed on it.
    steps = Steps.of(residual, asked.chance, np.maximum(left, asked.chance), design.bounds)
    steps = Steps(*(v[told] for v in (steps.value, steps.lowest, steps.highest)))
    spread, planned = design.bounds.spread, design.budget
    errors = np.linspace(-design.share, 1 - design.share, N_ERRORS)
    low, high = sequence(steps, errors, spread=spread, planned=planned)
    return Verdicts(
        share_money=wealth(steps, np.array(0.0), spread=spread, planned=planned),
        calibration_money=calibration_wealth(asked.log_odds[told], answers.y[told]),
        low=design.share + low,
        high=design.share + high,
    )


def _design_share(answers: Answers, rows: AuditRows, weight: FloatArray) -> DesignShare:
    """A difference estimator: predictions of all rows, moved to fit the labels, plus the weighted residuals that are left."""
    told, curve = answers.has_label, ShareCurve(answers.design.curve)
    helper, n = helper_shift(rows), len(rows.y)
    # Weights that add up to 1 (Hájek): how fast rows finished is chance, and rows without a label are stood in for.
    own = rows.weight / rows.weight.sum()
    residual = own * (rows.y - expit(rows.log_odds + helper))
    share = float(curve(helper) + residual.sum())
    free = 1 - answers.inclusion[told]
    variance = float((free * residual**2).sum()) * n / max(n - 1, 1)
    # What labels of the others could at most change, one way and the other.
    other = answers.asked.log_odds[~told] + helper
    lacking = weight[~told] / weight.sum()
    below, above = ((lacking * side).sum() for side in (expit(other), expit(-other)))
    return DesignShare(
        float(np.clip(share, 0, 1)),
        float(np.sqrt(variance)),
        n,
        float(np.clip(share - below, 0, 1)),
        float(np.clip(share + above, 0, 1)),
    )


def _for_groups(found: AuditFound, estimate: Estimate) -> AuditedShift:
    """The common shift for the groups of another estimate; one that was not there has its own shift as the model knows it."""
    state, common = State.of(estimate), found.common
    own = _by_name(found.groups, common.own_shift, estimate.groups, 0.0)
    factor = common.own_variance / np.maximum(found.state.own, 1e-300)
    own_variance = state.own * _by_name(found.groups, factor, estimate.groups, 1.0)
    together = (
        common.group_variance - common.own_variance - np.where(found.state.is_known, 0, common.variance)
    )
    moves = np.where(state.is_known, 0.0, 1.0)
    variance = moves * common.variance + own_variance + _by_name(found.groups, together, estimate.groups, 0.0)
    return AuditedShift(common.mass, moves * common.mean + own, np.maximum(variance, 0), own, own_variance)


def _by_name(
    names: ValueArray, values: FloatArray | IntArray, wanted: ValueArray, empty: float
) -> ValueArray:
    at = Codes.of(names).transform(wanted)
    return np.where(at >= 0, values[at], empty).astype(values.dtype)
