"""From numbers to plain sentences: does the assumption hold?"""

from collections.abc import Iterator

import numpy as np

from groupshift._diagnosis.assumption import LARGE, MEDIUM, SMALL
from groupshift._diagnosis.evidence_parts import Evidence
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.wording import percent
from groupshift._math.arrays import FloatArray, IntArray, Table
from groupshift._math.sums import ratio

Overview = dict[str, float]

# Gaps between distribution functions that go with Cohen's small and medium shares of variance, for bell-
# shaped scores.
SMALL_GAP, MEDIUM_GAP = 0.04, 0.10
# Second moment of Kolmogorov's distribution over the square of its mean.
GAP_MOMENT = (np.pi**2 / 12) / 0.87**2


def assumption_numbers(evidence: Evidence, tables: dict[str, Table]) -> Overview:
    """Effects of the group over all clusters and classes, and the gap of the mixtures."""
    numbers: Overview = {}
    if evidence.held_out is not None:
        score = evidence.held_out.score_independence
        effect, error = pooled_effect(score.effect, score.std_error, score.rows)
        numbers["score_effect"], numbers["score_effect_error"] = float(effect[0]), float(error[0])
    features = tables["features"]
    numbers["feature_effect"] = float(mean_of_known(features["effect"]))
    numbers["feature_effect_error"] = float(mean_of_known(features["std_error"]))
    mixture = tables["mixture"]
    if mixture:
        known = np.isfinite(mixture["best_distance"]) & (mixture["rows"] > 0)
        if known.any():
            rows = mixture["rows"][known]
            square = np.average(mixture["best_distance"][known] ** 2, weights=rows)
            chance = np.average(mixture["by_chance"][known] ** 2, weights=rows) * GAP_MOMENT
            numbers["mixture_gap"] = float(np.sqrt(square))
            numbers["mixture_gap_by_chance"] = float(np.sqrt(chance))
    return numbers


def assumption_holds(
    model: FittedModel, overview: Overview, tables: dict[str, Table]
) -> tuple[str, list[str]]:
    """A word, and the sentences behind it."""
    tested = model.has_groups_ and len(model.labeled_groups_) > 1 and "score_effect" in overview
    level, misfit = _independence_level(overview) if tested else None, _misfit(overview)
    # One word is given, so one finding decides it: that one comes first, and the other does not say the opposite.
    by_mixture = misfit > (level or 0)
    if tested:
        labels = [_independence_sentence(level, overview, by_mixture), *_worst(tables)]
    else:
        why = why_untested(model, overview)
        labels = [f"Whether the assumption holds could not be tested on labelled rows: {why}."]
    mixture = [_mixture_sentence(misfit, overview, by_mixture)] if "mixture_gap" in overview else []
    sentences = mixture + labels if by_mixture else labels + mixture
    if level is None and misfit == 0:
        # A mixture can always be fitted to too few rows: alone, a good fit proves nothing about groups.
        return "unknown", sentences
    return ("yes", "roughly", "no")[max(level or 0, misfit)], sentences


def _misfit(overview: Overview) -> int:
    """How badly mixtures of labelled positives and negatives fit the population: 0, 1 or 2."""
    gap, chance = overview.get("mixture_gap", 0.0), overview.get("mixture_gap_by_chance", 0.0)
    excess = float(np.sqrt(max(gap**2 - chance**2, 0)))
    return 2 if excess > MEDIUM_GAP else 1 if excess > SMALL_GAP else 0


def pooled_effect(effect: FloatArray, error: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Effects in each cluster and class, averaged by rows, and the standard errors of the averages.

    `effect` and `error` have shape (n_clusters, 2, …), `rows` (n_clusters, 2); results are arrays (n_features,).
    """
    effect, error = (values.reshape(rows.size, -1) for values in (effect, error))
    known = np.isfinite(effect)
    weight = np.where(known, rows.reshape(-1, 1), 0.0)
    value = (weight * np.where(known, effect, 0.0)).sum(0)
    variance = (weight**2 * np.where(known, error, 0.0) ** 2).sum(0)
    return ratio(value, weight.sum(0)), ratio(np.sqrt(variance), weight.sum(0))


def mean_of_known(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Mean of the values that are not NaN; NaN, without a warning, where there are none."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis), known.sum(axis))


def _effect_level(effect: float, error: float) -> int:
    """0: negligible as far as can be told; 1: small to medium, surely; 2: more than medium, surely."""
    low = effect - 2 * error
    return 2 if low > MEDIUM else 1 if low > SMALL else 0


def _independence_level(overview: Overview) -> int | None:
    """The larger level of score and features; None where a serious effect on the score would not have been seen."""
    score, error = overview["score_effect"], overview["score_effect_error"]
    features = overview.get("feature_effect", 0.0), overview.get("feature_effect_error", 0.0)
    level = max(_effect_level(score, error), _effect_level(*features))
    return None if level == 0 and score + 2 * error > MEDIUM else level


HOLDS = (
    "The assumption holds as far as labelled rows can tell",
    "The assumption holds only roughly",
    "The assumption does not hold",
)


def _independence_sentence(level: int | None, overview: Overview, by_mixture: bool) -> str:
    score, error = overview["score_effect"], overview["score_effect_error"]
    limits, chance = "below 1 % is negligible, above 6 % serious", ""
    if level is None:
        start = "Labelled rows are too few to tell whether the assumption holds"
    else:
        start = "Labelled rows alone look better" if by_mixture else HOLDS[level]
        larger = max(score, overview.get("feature_effect", 0.0))
        # Two models with the same number may get two verdicts, where only noise decides between them: say so.
        if level < 2 and larger > (SMALL, MEDIUM)[level]:
            chance = f"; that it is above {(1, 6)[level]} % may be chance"
    features = ""
    if "feature_effect" in overview:
        features = f", and {_effect(overview['feature_effect'])} of a feature's on average"
    return (
        f"{start}: among labelled rows of one cluster and class, the group explains {_effect(score)} ± "
        f"{_effect(error)} of the variance of the score{features} ({limits}{chance})."
    )


def _worst(tables: dict[str, Table]) -> Iterator[str]:
    features, strata = tables["features"], tables["independence"]
    sure = np.nan_to_num(features["effect"] - 3 * features["std_error"], nan=-1.0) > SMALL
    if sure.any():
        named = ", ".join(
            f"{name} ({_effect(effect)})"
            for name, effect in zip(features["feature"][sure][:3], features["effect"][sure][:3], strict=True)
        )
        more = f", {int(sure.sum())} of {len(sure)} features in all" if sure.sum() > 3 else ""
        large = features["effect"][0] > LARGE
        yield f"Features that differ {'much ' if large else ''}between groups within a class: {named}{more}."
    low = np.nan_to_num(strata["score_effect"] - 2 * strata["score_error"], nan=-1.0)
    if len(low) > 2 and low.max() > MEDIUM:
        at = int(low.argmax())
        yield (
            f"It fails most in cluster {strata['cluster'][at]} for class {strata['label'][at]}, where the "
            f"group explains {_effect(strata['score_effect'][at])} of the variance of the score."
        )


def _mixture_sentence(level: int, overview: Overview, decides: bool) -> str:
    fits = ("explain", "roughly explain", "do not explain")[level]
    start = f"{HOLDS[level]} in the population: m" if decides else "M"
    return (
        f"{start}ixtures of labelled positives and negatives {fits} the scores of population cells: observed and "
        f"fitted distributions are {overview['mixture_gap']:.2f} apart on a scale of 0 to 1, and chance alone would make it "
        f"{overview['mixture_gap_by_chance']:.2f}."
    )


def _effect(value: float) -> str:
    """An effect as a percentage; less what chance explains it may come out below nothing."""
    return percent(max(value, 0))


def why_untested(model: FittedModel, overview: Overview) -> str:
    if not model.has_groups_ or len(model.labeled_groups_) < 2:
        return "it takes labelled rows of two groups or more"
    rows = int(overview.get("fewest_examples_rows", 0))
    if overview.get("fewest_examples", 2) >= 2:
        return "labelled rows are too few for that"
    if rows == 1:
        return "one class has a single labelled row"
    return (
        f"all {rows:,} labelled rows of one class have the same example id, and copies of one example are hidden "
        "together or not at all"
    )
