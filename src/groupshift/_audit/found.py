"""What the labels of an audit show: verdicts that stay valid while labels come in, a design-based share, and new shifts."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, stdtrit

from groupshift._audit import inference
from groupshift._audit.inference import GRID, LEVEL, AuditedShift, LabeledSample, own_variance
from groupshift._audit.plan import (
    Model,
    ReturnedLabels,
    ScoredPopulation,
    check_auditable,
    html_table,
    inclusion,
    share_curve,
)
from groupshift._data.codes import Codes
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.points import Points
from groupshift._shifts.estimate import Estimate
from groupshift._shifts.known import mean_posterior

# Errors of the overall share that the confidence sequence tells apart.
N_ERRORS = 401
# A group's own shift is said to have moved where it has this many labels.
ENOUGH_LABELS = 5


@dataclass(frozen=True)
class Verdicts:
    """After each label: wealth of bets against the two claims, and the shares that are still possible.

    Valid whenever one looks: a right claim's wealth ever reaches 20 in one audit of twenty; a true share is left out as often.
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
class SharePosterior:
    """What is known of the overall share: for each common shift, how likely it is, and the share's mean and deviation then."""

    mass: FloatArray
    mean: FloatArray
    deviation: FloatArray

    def interval(self, coverage: float) -> tuple[float, float]:
        share = np.linspace(0, 1, 2001)
        below = ndtr((share[:, None] - self.mean) / np.maximum(self.deviation, 1e-6)) @ self.mass
        low, high = np.interp([(1 - coverage) / 2, (1 + coverage) / 2], below, share)
        return float(low), float(high)


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
        Valid after every label: `share_is_wrong`, `is_miscalibrated`, and the wealth of the bets against both claims.
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
    prior: FloatArray = field(repr=False)  # of the common shift, before the audit
    before: Estimate = field(repr=False)  # that was audited, without its counts

    def _repr_html_(self) -> str:
        """Both estimates of the overall share, and the verdicts, as a table."""
        verdicts, intervals = self.verdicts, (self.posterior.interval(0.9), self.design.interval(0.9))
        by_model, by_design = ("{:.1%} to {:.1%} (90 %)".format(*limits) for limits in intervals)
        lines = [
            ("overall share as estimated before", f"{self.claimed_share:.1%}"),
            ("after, by the model", by_model),
            ("by design alone", f"{self.design.share:.1%}, {by_design}"),
            ("still possible at any time", f"{verdicts.low[-1]:.1%} to {verdicts.high[-1]:.1%} (95 %)"),
            ("share shown to be wrong", "yes" if verdicts.share_is_wrong else "no"),
            ("probabilities shown to be miscalibrated", "yes" if verdicts.is_miscalibrated else "no"),
        ]
        return f"<p>An audit of {self.labels} labels ({self.missing} missing)</p>{html_table(lines)}"


def learn_from(model: Model, labels: ReturnedLabels) -> Model:
    """The model, having learned from labels of an audit; everything is assigned at the end."""
    check_auditable(model)
    found, estimate = model.audit_, model.estimate_
    prior, asked = inference.prior_of(estimate, settled=found is not None), labels.design.model
    if inference.mark_of(estimate) != asked:
        # An earlier part of the same labels has moved it: what that learned does not count twice.
        if found is None or inference.mark_of(found.before) != asked:
            raise ValueError(
                "These labels were asked for by another model, or by this one before it was fitted or updated again. Pass the "
                "model that the audit was made with, or plan a new audit with this one."
            )
        prior, estimate = found.prior, replace(found.before, counts=estimate.counts)
    sampled, told = labels.sampled, labels.has_label
    weight = sampled.part / inclusion(sampled.chance, labels.threshold)
    rows = LabeledSample(sampled.log_odds[told], labels.y[told], sampled.group[told], weight[told])
    own = own_variance(estimate)
    common = inference.learn_common_shift(rows, prior, own_variance=own, is_fixed=_known(estimate))
    fresh = moved(estimate, common)
    model.audit_ = AuditFound(
        labels=labels.n_labels,
        missing=labels.n_missing,
        claimed_share=labels.design.share,
        verdicts=verdicts(labels),
        design=_design_share(labels, rows, weight),
        common=common,
        posterior=share_posterior(estimate, common),
        groups=estimate.groups,
        group_labels=np.bincount(rows.group[rows.group >= 0], minlength=len(estimate.groups)),
        prior=prior,
        before=replace(estimate, counts=None),
    )
    model.estimate_ = fresh
    return model


def check_population(labels: ReturnedLabels, population: ScoredPopulation) -> None:
    """Whether a population is the one that an audit was drawn from."""
    design, n = labels.design, len(population)
    if population.check != design.population:
        raise ValueError(
            f"The population has changed: rows were drawn from {design.n_rows:,} rows, and these are {n:,}"
            f"{', with other values or in another order' if n == design.n_rows else ''}. Pass the file that the audit was made "
            "with; for a new population, update the model and plan a new audit."
        )


def learned_again(found: AuditFound | None, fresh: Any) -> tuple[AuditFound | None, Any]:
    """An estimate of new rows, moved by what an audit has found, and what was found for its groups."""
    if found is None:
        return None, fresh
    common = _for_groups(found, fresh)
    again = replace(
        found,
        common=common,
        posterior=share_posterior(fresh, common),
        groups=fresh.groups,
        group_labels=_by_name(found.groups, found.group_labels, fresh.groups, 0),
        before=replace(fresh, counts=None),
    )
    return again, moved(fresh, common)


def verdicts(labels: ReturnedLabels) -> Verdicts:
    sampled, design, told = labels.sampled, labels.design, labels.has_label
    # A row without a label was drawn too: it is taken for what was predicted, and no bet is placed on it.
    residual = sampled.part * np.where(told, labels.y - expit(sampled.log_odds), 0.0)
    value, low, high = inference.terms_of(residual, sampled.chance, design.low, design.high)
    terms = value[told], low[told], high[told]
    errors = np.linspace(-design.share, 1 - design.share, N_ERRORS)
    low, high = inference.sequence(terms, errors, spread=design.spread, planned=design.budget)
    return Verdicts(
        share_money=inference.wealth(terms, np.array(0.0), spread=design.spread, planned=design.budget),
        calibration_money=inference.calibration_wealth(sampled.log_odds[told], labels.y[told]),
        low=design.share + low,
        high=design.share + high,
    )


def _design_share(labels: ReturnedLabels, rows: LabeledSample, weight: FloatArray) -> DesignShare:
    """A difference estimator: predictions of all rows, moved to fit the labels, plus the weighted residuals that are left."""
    told, curve = labels.has_label, share_curve(labels.design.curve)
    helper, n = inference.helper_shift(rows), len(rows.y)
    # Weights that add up to 1 (Hájek): how fast rows arrived is chance, and rows without a label are stood in for.
    own = rows.weight / rows.weight.sum()
    residual = own * (rows.y - expit(rows.log_odds + helper))
    share = float(curve(helper) + residual.sum())
    free = 1 - inclusion(labels.sampled.chance, labels.threshold)[told]
    variance = float((free * residual**2).sum()) * n / max(n - 1, 1)
    # What labels of the others could at most change, one way and the other.
    other = labels.sampled.log_odds[~told] + helper
    lacking = weight[~told] / weight.sum()
    below, above = ((lacking * side).sum() for side in (expit(other), expit(-other)))
    limits = (float(np.clip(value, 0, 1)) for value in (share - below, share + above))
    return DesignShare(float(np.clip(share, 0, 1)), float(np.sqrt(variance)), n, *limits)


def _known(estimate: Estimate) -> BoolArray:
    """Groups whose share the user knows."""
    return np.isin(estimate.groups, estimate.known_groups)


def _for_groups(found: AuditFound, estimate: Estimate) -> AuditedShift:
    """The common shift for the groups of another estimate; one that was not there has its own shift as the model knows it."""
    common, before = found.common, found.before
    own = _by_name(found.groups, common.own_shift, estimate.groups, 0.0)
    factor = common.own_variance / np.maximum(own_variance(before), 1e-300)
    given = own_variance(estimate) * _by_name(found.groups, factor, estimate.groups, 1.0)
    together = common.group_variance - common.own_variance - np.where(_known(before), 0, common.variance)
    moves = np.where(_known(estimate), 0.0, 1.0)
    variance = moves * common.variance + given + _by_name(found.groups, together, estimate.groups, 0.0)
    return AuditedShift(common.mass, moves * common.mean + own, np.maximum(variance, 0), own, given)


def _by_name(
    names: ValueArray, values: FloatArray | IntArray, wanted: ValueArray, empty: float
) -> ValueArray:
    at = Codes.of(names).transform(wanted)
    return np.where(at >= 0, values[at], empty).astype(values.dtype)


def moved(estimate: Estimate, common: AuditedShift) -> Estimate:
    """The estimate with its shifts moved, and their variances replaced by what is left of them.

    The one way in which an audit changes a model.
    """
    points, counted = estimate.points, float(np.mean(estimate.common_variance))
    assert isinstance(points, Points)
    own, added = own_variance(estimate)[:, None], common.group_variance[:, None]
    shift = estimate.shift + common.group_shift[:, None]
    variance = np.maximum(estimate.variance - counted - own, 0) + added
    shared = np.maximum(estimate.shared_deviation**2 - counted - own, 0) + added
    # Shares of cells change by as much as those of their points.
    before, (after, slope) = mean_posterior(points, estimate.shift)[0], mean_posterior(points, shift)
    empty = np.isnan(after)
    by = np.where(empty, shift - estimate.shift, _logit(after) - _logit(before))
    share = expit(_logit(estimate.share) + by)
    slope = np.where(empty, share * (1 - share), slope)
    rows = np.maximum(points.effective_rows.reshape(share.shape), 0.5)
    return replace(
        estimate,
        shift=shift,
        slope=slope,
        variance=variance,
        shared_deviation=np.sqrt(np.minimum(shared, variance)),
        share=share,
        share_error=np.sqrt(slope**2 * variance + slope / rows),
        unseen_shift=estimate.unseen_shift + common.mean,
        unseen_variance=np.maximum(estimate.unseen_variance - counted, 0) + common.variance,
        common_variance=np.full(shift.shape[1], common.variance),
        # The labels have decided it.
        unidentified=0.0,
    )


def _logit(share: FloatArray) -> FloatArray:
    found: FloatArray = logit(np.clip(np.nan_to_num(share, nan=0.5), 1e-12, 1 - 1e-12))
    return found


def share_posterior(estimate: Estimate, common: AuditedShift) -> SharePosterior:
    """The overall share of the estimate's rows, for an estimate that the audit has not moved yet."""
    assert isinstance(estimate.points, Points)
    points, weight = estimate.points, estimate.row_weight / estimate.row_weight.sum()
    moves, few = np.where(_known(estimate), 0.0, 1.0)[:, None], GRID[::4]
    own = estimate.shift + common.own_shift[:, None]
    found = [mean_posterior(points, own + moves * c) for c in few]
    mean = [np.nansum(weight * share) for share, _ in found]
    of_own = [np.nansum(weight * slope, 1) ** 2 @ common.own_variance for _, slope in found]
    # Predictions that are not those of the points differ from them by a little: so does the share.
    now = np.sum(weight * estimate.share)
    offset = _logit(now) - _logit(np.nansum(weight * mean_posterior(points, estimate.shift)[0]))
    noise = now * (1 - now) / max(int(estimate.rows.sum()), 1)
    mean, of_own = (
        np.interp(GRID, few, values) for values in (expit(_logit(np.array(mean)) + offset), of_own)
    )
    return SharePosterior(common.mass, mean, np.sqrt(of_own + noise))
