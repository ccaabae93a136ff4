"""What the estimator asks for by the number of classes: known rates, columns of details, and what predicts."""

from collections.abc import Mapping
from typing import cast

from groupshift._data.problem import Known, KnownRates, KnownShare, Rate
from groupshift._math.arrays import ValueArray
from groupshift._shifts.class_scorer import ClassScorer, flat_details
from groupshift._shifts.estimate import Estimate, Learned
from groupshift._shifts.known_classes import check_known_classes, rate_of_positives
from groupshift._shifts.scorer import AnyScorer, Details, Scorer


def known_of(
    shares: KnownRates | None, overall: KnownShare | None, groups: ValueArray, classes: ValueArray
) -> Known:
    """Rates of positives by group and of all rows; with more than two classes, shares by class of the same."""
    if shares is not None and not hasattr(shares, "items"):
        raise TypeError(
            f"known_shares is a {type(shares).__name__}, which names no groups. Pass a dict of shares by group: {{group: 0.2}}."
        )
    # A pandas Series by group is as good as a dict.
    shares = {} if shares is None else dict(shares)
    if len(classes) == 2:
        of_positives = {
            group: rate_of_positives(value, f"known_shares of group {group!r}", classes)
            for group, value in shares.items()
        }
        rate = rate_of_positives(overall, "known_overall", classes)
        return Known.of(cast("KnownRates", of_positives), cast("Rate | None", rate), groups)
    return check_known_classes(shares, overall, groups, classes)


def detail_columns(found: Details, classes: ValueArray, library: str | None) -> Mapping[str, object]:
    """Details as they stand beside rows: arrays beside arrays; in a frame a column for each of several classes."""
    return {**found} if len(classes) == 2 or library is None else flat_details(found, classes)


def scorer_of(learned: Learned, found: Estimate, classes: ValueArray) -> AnyScorer:
    """What predictions are made by."""
    if len(classes) > 2:
        return ClassScorer.of(learned.posterior, found, classes)
    return Scorer.of(learned.posterior, found)
