"""Findings about a fitted model: a code, what it may cost, and the values that its sentence needs. `sentences` words them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from groupshift._data.codes import Codes
from groupshift._diagnosis.assumption import LARGE, MEDIUM, SMALL
from groupshift._diagnosis.fitted import Model, has_classes, is_shifted, named_features, told_classes
from groupshift._diagnosis.wording import first_of
from groupshift._math.arrays import BoolArray, FloatArray, Table
from groupshift._math.sums import mean_by
from groupshift._scores.contrasts import log_scores

Overview = Mapping[str, float]

# Below this part of the plain classifier's loss a gain is real but hardly felt; below the other it reads 0.0 %.
LITTLE, NOTHING = 0.005, 0.0005
# Labeled rows that are copies of others, by chance or mistake: below this part they do little harm.
MANY_COPIES = 0.05
# Gaps between distribution functions that go with Cohen's small and medium shares of variance, for bell-shaped scores.
SMALL_GAP, MEDIUM_GAP = 0.04, 0.10
# An interval from fewer rows says little more than the other groups do.
FEW_GROUP_ROWS, FEW_CELL_ROWS, FEW_LABELED_ROWS = 50, 20, 20
# Below this AUC inside a cluster, a class looks so much like the rest that its share cannot be told.
ALIKE_AUC = 0.6
EDGE_SHARE = 0.02
POOR_FIT = 0.1
# One cell in a thousand lies this many times farther from its mixture than chance puts it on average.
SURE_MISFIT = 2.24
# What all groups have in common is seldom off by a factor of two: half of what that would cost.
IF_SELECTED = 0.5
# A common shift of which it is worth to speak: a tenth of the odds.
WORTH_SAYING = 0.1
# A probability from which on the features are said to agree; what is used is the posterior mean, whatever is said.
LIKELY = 0.5
# What the user's setting says of it.
SELECTIONS = {"unknown": "open", "random": "random", "by_label": "by_label"}
# What each kind of caution is about, and how far a share may be off where it applies, roughly: that orders the sentences.
KINDS = {
    "few rows in group": ("group", 0.1),
    "few rows in cell": ("cell", 0.05),
    "classes look alike": ("cluster", 0.3),
    "few labeled rows in cluster": ("cluster", 0.3),
    "few labels of one class": ("cluster", 0.3),
    "share at the edge": ("cell", 0.02),
    "scores outside the labeled range": ("group", 0.15),
    "shift outside the labeled range": ("group", 0.15),
    "mixture does not fit": ("cell", 0.2),
    "no unlabeled rows": ("group", 0.1),
}


class Finding(NamedTuple):
    """A finding on a topic ("verdict", "gain", "assumption", "caution"); `cost`: how far it may make the overall share be off."""

    topic: str
    code: str
    values: Mapping[str, object] = {}
    cost: float = 0.0


class Caution(NamedTuple):
    """A reason for caution: its kind, group (None: all), cluster (-1: all), class, population rows, and the number at fault."""

    kind: str
    group: str | None
    cluster: int
    label: str | None
    rows: int
    value: float


def find_all(
    model: Model, overview: Overview, tables: Mapping[str, Table]
) -> tuple[str, str, tuple[Finding, ...]]:
    """Is it worth it, does the assumption hold, and every finding, cautions with the dearest first."""
    worth, verdict = is_worth_it(model, overview)
    holds, assumption = assumption_holds(model, overview, tables)
    cautions = sorted(_cautions(model, overview, tables), key=lambda finding: -finding.cost)
    return worth, holds, (verdict, *gains(model, overview), *assumption, *cautions)


# ---- is it worth it? ---------------------------------------------------------------------------------------------


def noise_margin(n_groups: int, level: float = 0.975) -> float:
    """How many standard errors a gain must exceed: Student's quantile, wide when groups are few.

    >>> round(noise_margin(100), 2), round(noise_margin(5), 2)
    (1.98, 2.78)
    """
    return float(stdtrit(max(n_groups - 1, 1), level))


def judged(overview: Overview) -> str:
    """What held-out labels say: "yes", "little", "harmful", "noise", or "same" where the two losses are as good as equal."""
    gain, error, before = (overview[name] for name in ("loss_gain", "loss_gain_error", "loss_global"))
    is_sure = abs(gain) > noise_margin(int(overview["groups"])) * error
    looks_equal = f"{before:.4f}" == f"{before - gain:.4f}"
    if (looks_equal or abs(gain) < NOTHING * before) and (is_sure or error < NOTHING * before):
        return "same"
    if not is_sure:
        return "noise"
    return "harmful" if gain < 0 else "yes" if gain >= LITTLE * before else "little"


def is_worth_it(model: Model, overview: Overview) -> tuple[str, Finding]:
    """A word, and the finding behind it: what the population gains, where held-out labels confirm it."""
    is_tested = "loss_gain" in overview and overview["groups"] >= 2
    if not len(model.estimate_.groups):
        return "unknown", Finding("verdict", "no_population")
    if not is_shifted(model):
        return "no", Finding("verdict", "no_shift", {"is_asked": model.shares is not None})
    if not is_tested:
        return "unknown", Finding("verdict", "untested", why_untested(model, overview))
    found, before = judged(overview), overview["loss_global"]
    values: dict[str, object] = {
        "gain": overview["loss_gain"] / before,
        "error": overview["loss_gain_error"] / before,
        "before": before,
        "groups": int(overview["groups"]),
        "is_pooled": model.shrinkage == "hierarchical",
    }
    if "expected_loss_gain" in overview:
        names = ("expected_loss_gain", "expected_loss_gain_low", "expected_loss_gain_high")
        values["expected"] = tuple(overview[name] / overview["expected_loss"] for name in names)
        if found in ("yes", "little") and overview["expected_loss_gain_low"] <= 0:
            found = "unsure"
    return ("perhaps" if found in ("noise", "same", "unsure") else found), Finding(
        "verdict", f"worth_{found}", values
    )


def gains(model: Model, overview: Overview) -> Iterator[Finding]:
    """What it gains on held-out labels and in the population, and how labels were chosen."""
    shifted, values = is_shifted(model), dict(overview)
    if shifted and "loss_gain" in overview and overview["groups"] >= 2:
        yield Finding("gain", "held_out_gain", values)
    elif "auc_global" in overview:
        yield Finding("gain", "plain_auc", values)
    if "expected_auc_gain" in overview and shifted:
        yield Finding("gain", "expected_auc", values)
    random = model.estimate_.random_labels
    if model.selection != "unknown":
        yield Finding("gain", "labels_chosen", {"selection": model.selection})
    elif np.isfinite(random) and len(model.learned_.labeled_groups) > 1:
        yield Finding(
            "gain", "labels_look_random" if random > 0.5 else "labels_look_chosen", {"probability": random}
        )


def why_untested(model: Model, overview: Overview) -> dict[str, object]:
    """What a sentence needs that says why labels could not be held out."""
    return {
        "has_groups": model.schema_.has_groups and len(model.learned_.labeled_groups) > 1,
        "examples": int(overview.get("fewest_examples", 2)),
        "rows": int(overview.get("fewest_examples_rows", 0)),
    }


# ---- does the assumption hold? -----------------------------------------------------------------------------------


def assumption_holds(
    model: Model, overview: Overview, tables: Mapping[str, Table]
) -> tuple[str, list[Finding]]:
    """A word, and the findings behind it."""
    tested = (
        model.schema_.has_groups and len(model.learned_.labeled_groups) > 1 and "score_effect" in overview
    )
    level, misfit = independence_level(overview) if tested else None, _misfit(overview)
    # One word is given, so one finding decides it: that one comes first, and the other does not say the opposite.
    by_mixture = misfit > (level or 0)
    if tested:
        values = {**overview, "level": level, "by_mixture": by_mixture}
        labels = [Finding("assumption", "independence", values), *_worst(tables)]
    else:
        labels = [Finding("assumption", "assumption_untested", why_untested(model, overview))]
    mixture = []
    if "mixture_gap" in overview:
        mixture = [Finding("assumption", "mixture", {**overview, "level": misfit, "decides": by_mixture})]
    found = mixture + labels if by_mixture else labels + mixture
    if level is None and misfit == 0:
        # A mixture can always be fitted to too few rows: alone, a good fit proves nothing about groups.
        return "unknown", found
    return ("yes", "roughly", "no")[max(level or 0, misfit)], found


def _misfit(overview: Overview) -> int:
    """How badly mixtures of labeled positives and negatives fit the population: 0, 1 or 2."""
    gap, chance = overview.get("mixture_gap", 0.0), overview.get("mixture_gap_by_chance", 0.0)
    excess = float(np.sqrt(max(gap**2 - chance**2, 0)))
    return 2 if excess > MEDIUM_GAP else 1 if excess > SMALL_GAP else 0


def _effect_level(effect: float, error: float) -> int:
    """0: negligible as far as can be told; 1: small to medium, surely; 2: more than medium, surely."""
    low = effect - 2 * error
    return 2 if low > MEDIUM else 1 if low > SMALL else 0


def independence_level(overview: Overview) -> int | None:
    """The larger level of score and features; None where a serious effect on the score would not have been seen."""
    score, error = overview["score_effect"], overview.get("score_effect_error", np.inf)
    features = overview.get("feature_effect", 0.0), overview.get("feature_effect_error", 0.0)
    level = max(_effect_level(score, error), _effect_level(*features))
    return None if level == 0 and score + 2 * error > MEDIUM else level


def _worst(tables: Mapping[str, Table]) -> Iterator[Finding]:
    features, strata = tables["features"], tables["independence"]
    sure = np.nan_to_num(features["effect"] - 3 * features["std_error"], nan=-1.0) > SMALL
    if sure.any():
        named = zip(
            features["feature"][sure][:3].tolist(), features["effect"][sure][:3].tolist(), strict=True
        )
        values = {
            "named": list(named),
            "n": int(sure.sum()),
            "of": len(sure),
            "is_large": features["effect"][0] > LARGE,
        }
        yield Finding("assumption", "features_differ", values)
    low = np.nan_to_num(strata["score_effect"] - 2 * strata["score_error"], nan=-1.0)
    if len(low) > 2 and low.max() > MEDIUM:
        at = int(low.argmax())
        names = {"cluster": "cluster", "label": "label", "effect": "score_effect"}
        yield Finding("assumption", "fails_most", {key: strata[name][at] for key, name in names.items()})


# ---- what to beware of -------------------------------------------------------------------------------------------


def _cautions(model: Model, overview: Overview, tables: Mapping[str, Table]) -> Iterator[Finding]:
    if identifying := list(named_features(model, model.evidence_.identifying)):
        # It spoils everything else that is said.
        yield Finding("caution", "identifying", {"names": identifying}, 1.0)
    copies = model.evidence_.unmarked_copies
    if copies > MANY_COPIES:
        yield Finding("caution", "copies", {"part": copies}, copies)
    yield from kinds_of_caution(
        tables["cautions"], int(model.estimate_.rows.sum()), model.learned_.n_clusters
    )
    if model.audit_ is not None:
        yield Finding("caution", "audit", {"found": model.audit_, "share": overview["share"]})
    elif len(model.estimate_.groups):
        yield _common_shift(model, overview, tables["sensitivity"])


def what_settles_it(model: Model) -> str:
    """What is known of a common shift.

    "audit", "rate": the labels of an audit, or a known rate of the population, settle it. "random", "by_label": the user says how
    labels were chosen. "features": they agree that it was by the label. "open": nothing in the data tells.
    """
    known, n_classes = model.estimate_.known_overall, len(model.schema_.classes)
    if model.audit_ is not None:
        return "audit"
    if known is not None and (not has_classes(model) or len(known) >= n_classes - 1):
        return "rate"
    common = model.estimate_.common
    is_found = common.probability >= LIKELY and np.abs(common.mean).max() >= WORTH_SAYING
    return "features" if model.selection == "unknown" and is_found else SELECTIONS[model.selection]


def common_values(model: Model) -> dict[str, object]:
    """The numbers that are said of a common shift; of two classes with what scores say beside what is used."""
    estimate, classes, several = model.estimate_, model.schema_.classes, has_classes(model)
    used = log_scores(estimate.common.mean)
    found: dict[str, object] = {
        "probability": estimate.common.probability,
        # Shifts take back what labels have too much of: the class that loses was over-represented.
        "over": f"rows of class {classes[int(used.argmin())]}" if several else "positives",
        "way": "under" if not several and used[-1] > 0 else "over",
        "n_known": len(estimate.known_groups),
        "n_groups": len(estimate.groups),
        "has_classes": several,
        "rate": None,
        "part": 0.0,
    }
    if several:
        return found
    if estimate.known_overall is not None:
        found["rate"] = estimate.known_overall
    in_use, face = float(estimate.common.mean[0]), float(estimate.face_value[0])
    if abs(in_use + face) >= WORTH_SAYING:
        found["part"] = float(np.clip(in_use / (in_use + face), 0, 1))
    return found


def _common_shift(model: Model, overview: Overview, table: Table) -> Finding:
    """What other labeling would do to the overall share; of several classes, to the one that it would change most."""
    code, values = what_settles_it(model), common_values(model)
    n_told = len(told_classes(model))
    if not table or code in ("audit", "rate"):
        return Finding("caution", f"common_{code}", values | {"share": None, "at_face_value": None})
    share, half, twice = (table[name][:n_told] for name in ("share", "if_half", "if_twice"))
    c = int(np.argmax(np.abs(half - twice)))
    values |= {
        "name": "positive" if n_told == 1 else f"of class {model.schema_.classes[c]}",
        "whose": "positives were" if n_told == 1 else f"class {model.schema_.classes[c]} was",
        "share": float(share[c]),
        "half": float(half[c]),
        "twice": float(twice[c]),
        "at_face_value": overview.get("share_at_face_value"),
    }
    cost = IF_SELECTED * max(abs(half[c] - share[c]), abs(twice[c] - share[c]))
    return Finding("caution", f"common_{code}", values, float(cost))


def kinds_of_caution(table: Table, n_rows: int, n_clusters: int) -> Iterator[Finding]:
    """One finding for each kind of caution."""
    for kind in dict.fromkeys(table["kind"].tolist()):
        own, (about, cost) = table["kind"] == kind, KINDS[kind]
        lines = zip(
            *(table[name][own].tolist() for name in ("group", "cluster", "label", "rows")), strict=True
        )
        # A place has a line for each class at fault; its rows count once.
        labels: dict[tuple[str | None, int], list[str]] = {}
        rows = {}
        for group, cluster, label, n in lines:
            labels.setdefault((group, cluster), []).extend([] if label is None else [str(label)])
            rows[group, cluster] = n
        names = []
        for (group, cluster), classes in labels.items():
            name = str(group) if about == "group" or n_clusters == 1 else f"{group} in cluster {cluster}"
            if about == "cluster":
                name = str(cluster) + (f" (class {first_of(classes)})" if classes else "")
            names.append(name)
        part = sum(rows.values()) / n_rows if n_rows else 0.0
        yield Finding(
            "caution", "kind", {"kind": kind, "about": about, "names": names, "part": part}, cost * part
        )


def find_cautions(model: Model, mixture: Table) -> Table:
    """Every reason for caution, one line each: kind, group, cluster, label, rows, value."""
    found = [*_clusters(model), *_unpopulated(model)]
    # A model that makes no shift takes nothing from cells: how little they know does not matter.
    if np.any(model.estimate_.shift):
        found += [*_groups(model), *_cells(model, mixture)]
    return caution_table(found)


def caution_table(found: Sequence[Caution]) -> Table:
    """Cautions as columns."""
    columns = zip(*found, strict=True) if found else ((),) * 6
    dtypes = (object, object, np.int64, object, np.int64, np.float64)
    return {
        name: np.array(values, dtype)
        for name, values, dtype in zip(Caution._fields, columns, dtypes, strict=True)
    }


def _clusters(model: Model) -> Iterator[Caution]:
    rows, held_out, learned = model.estimate_.rows.sum(0), model.evidence_.held_out, model.learned_
    classes = [str(name) for name in model.schema_.classes.tolist()]
    several = has_classes(model)
    for k in range(learned.n_clusters):
        for c, auc in enumerate([] if held_out is None else held_out.auc[k].tolist()):
            if auc < ALIKE_AUC and (not several or learned.class_rows[k, c] >= FEW_LABELED_ROWS):
                yield Caution("classes look alike", None, k, classes[c] if several else None, rows[k], auc)
        if learned.labeled_rows[k] < FEW_LABELED_ROWS:
            yield Caution("few labeled rows in cluster", None, k, None, rows[k], learned.labeled_rows[k])
            continue
        for c in np.flatnonzero(learned.class_rows[k] < FEW_LABELED_ROWS).tolist():
            label = classes[c] if several else None
            yield Caution("few labels of one class", None, k, label, rows[k], learned.class_rows[k, c])


def _unpopulated(model: Model) -> Iterator[Caution]:
    groups, labeled = model.estimate_.groups, model.learned_.labeled_groups
    if not model.schema_.has_groups or not len(groups):
        return
    for g in np.flatnonzero(Codes.of(groups).transform(labeled) < 0):
        yield Caution("no unlabeled rows", str(labeled[g]), -1, None, 0, model.evidence_.groups.rows[g])


def _groups(model: Model) -> Iterator[Caution]:
    """Groups of few rows, and of two classes those beyond what held-out labels could check."""
    estimate = model.estimate_
    rows, weight = estimate.rows.sum(1), estimate.row_weight

    def flagged(kind: str, found: BoolArray, value: FloatArray) -> Iterator[Caution]:
        for g in np.flatnonzero(found):
            yield Caution(kind, str(estimate.groups[g]), -1, None, rows[g], value[g])

    def outside(values: FloatArray, reach: FloatArray, checked: FloatArray) -> BoolArray:
        found: BoolArray = (values - reach > checked.max()) | (values + reach < checked.min())
        return found

    yield from flagged("few rows in group", rows < FEW_GROUP_ROWS, rows.astype(float))
    held_out, points = model.evidence_.held_out, estimate.points
    if held_out is None or held_out.total["groups"] < 2 or has_classes(model):
        return
    mean, error = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    if points is not None:
        group, score = points.cell // model.learned_.n_clusters, points.score
        mean = mean_by(group, score, points.weight, len(rows), empty=0.0)
        square = mean_by(group, (score - mean[group]) ** 2, points.weight, len(rows), empty=0.0)
        error = np.sqrt(square / np.maximum(rows, 1))
    beyond = outside(mean, 2 * error, held_out.by_group["mean_score"][:, 0])
    yield from flagged("scores outside the labeled range", beyond, mean)
    total = np.maximum(weight.sum(1), 1e-300)
    shift = (weight * estimate.shift).sum(1) / total
    # Labeled groups have no common shift by construction, so deviations from the common shift are compared.
    shift = shift - np.average(shift, weights=total)
    spread = np.sqrt((weight * estimate.variance).sum(1) / total)
    beyond = outside(shift, 2 * spread, held_out.by_group["shift"][:, 0])
    yield from flagged("shift outside the labeled range", beyond, shift)


def _cells(model: Model, mixture: Table) -> Iterator[Caution]:
    """Cells of few rows, and of two classes those with shares at the edge or scores that no mixture explains."""
    estimate = model.estimate_
    rows, share = estimate.rows, estimate.share
    found: list[tuple[str, BoolArray, FloatArray]] = [
        (
            "few rows in cell",
            (rows > 0) & (rows < FEW_CELL_ROWS) & (rows.sum(1, keepdims=True) >= FEW_GROUP_ROWS),
            rows.astype(float),
        )
    ]
    if not has_classes(model):
        edge = (rows > 0) & ((share < EDGE_SHARE) | (share > 1 - EDGE_SHARE))
        found.append(("share at the edge", edge, share))
    if mixture:
        excess = np.nan_to_num(mixture["excess"]).reshape(rows.shape)
        sure = mixture["best_distance"] > SURE_MISFIT * mixture["by_chance"]
        found.append(("mixture does not fit", sure.reshape(rows.shape) & (excess > POOR_FIT), excess))
    for kind, is_one, value in found:
        for g, k in zip(*np.nonzero(is_one), strict=True):
            yield Caution(kind, str(estimate.groups[g]), int(k), None, rows[g, k], value[g, k])
