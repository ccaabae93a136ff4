"""Findings in words: the one place where sentences about a fitted model are made."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from groupshift._audit.found import ENOUGH_LABELS, AuditFound
from groupshift._audit.inference import LEVEL
from groupshift._diagnosis.assumption import MEDIUM, SMALL
from groupshift._diagnosis.findings import Finding
from groupshift._diagnosis.wording import first_of, percent, percent_range, plural, short
from groupshift._math.arrays import Table

# Groups that are named beside what an audit moved them by.
MOST_GROUPS = 3
COVERAGE = 0.9

PLAIN = "Probabilities are those of the plain classifier."
HOLDS = (
    "The assumption holds as far as labeled rows can tell",
    "The assumption holds only roughly",
    "The assumption does not hold",
)
# What is wrong with each kind of caution, and what to do; it fits one place as well as many.
REASONS = {
    "few rows in group": "fewer than 50 rows, so the share leans on other groups. Read the interval.",
    "few rows in cell": "fewer than 20 rows, so the share leans on other cells.",
    "classes look alike": "scores hardly tell the classes apart (AUC below 0.6). Add features that do.",
    "few labeled rows in cluster": "fewer than 20 labeled rows, so scores are guesses. Label more such rows.",
    "few labels of one class": "fewer than 20 labels of a class, too few to estimate shares. Label more such rows.",
    "share at the edge": "a share below 2 % or above 98 %, where small errors of calibration weigh most.",
    "scores outside the labeled range": "scores beyond those of all labeled groups, so the shift is unchecked. Label some rows.",
    "shift outside the labeled range": "a larger shift than held-out labels could check. Label some rows.",
    "mixture does not fit": "scores look like no mixture of labeled positives and negatives. Treat with care.",
    "no unlabeled rows": "no unlabeled rows, so predictions use the shift common to all groups until an update.",
}


def words(finding: Finding) -> tuple[str, ...]:
    """The sentences of a finding: one, but for an audit."""
    said = SENTENCES[finding.code](dict(finding.values))
    return (said,) if isinstance(said, str) else tuple(said)


def brief(finding: Finding) -> str:
    """A caution in two or three lines of a screen: what may be off, by how much, and what to do."""
    values: dict[str, Any] = dict(finding.values)
    if finding.code == "kind":
        return _kind(values, most=1)
    if values.get("share") is not None and finding.code in STATEMENTS:
        settled = (
            "A known rate settles it." if values["has_classes"] else "A known rate or an audit settles it."
        )
        if values["n_known"]:
            settled = _remedy(values).partition(".")[0] + "."
        return (
            f"If {values['whose']} twice as likely to be labeled, the share would be {percent(values['twice'])}; if half as "
            f"likely, {percent(values['half'])}. {settled}"
        )
    # Of an audit the bets are left out.
    return words(finding)[0].partition(" Bets against")[0]


def _effect(value: float) -> str:
    """An effect as a percentage; less what chance explains it may come out below nothing."""
    return percent(max(value, 0))


# ---- verdict and gain --------------------------------------------------------------------------------------------


def _expected(v: dict[str, Any]) -> str:
    """The gain in the population, with its interval; that on held-out labels where it is not known."""
    if "expected" not in v:
        return f"on held-out groups the log loss falls by {percent(v['gain'])} (± {percent(v['error'])})"
    gain, low, high = v["expected"]
    return (
        f"in the population the log loss is expected to fall by {percent(gain)} ({percent_range(low, high)})"
    )


def _no_shift(v: dict[str, Any]) -> str:
    why = (
        "Neither labels nor scores show a shift between groups"
        if v["is_asked"]
        else "Shares were not asked for (shares=None)"
    )
    return f"No correction made: {why[0].lower()}{why[1:]}. {PLAIN}"


def _harmful(v: dict[str, Any]) -> str:
    remedy = "Pass shares=None for the plain classifier, or known shares."
    if not v["is_pooled"]:
        remedy = "Use the default settings (shrinkage='hierarchical', partition='validated')."
    return (
        f"Harmful: on held-out groups the correction raises the log loss by {percent(-v['gain'])}. {remedy}"
    )


def _untested(v: dict[str, Any]) -> str:
    return f"Not known: the correction could not be checked on held-out labels, because {_why_untested(v)}."


def _why_untested(v: dict[str, Any]) -> str:
    if not v["has_groups"]:
        return "it takes labeled rows of two groups or more"
    if v["examples"] >= 2:
        return "labeled rows are too few for that"
    if v["rows"] == 1:
        return "one class has a single labeled row"
    return f"all {v['rows']:,} labeled rows of one class have the same example id, and copies are held out together"


def _held_out_gain(v: dict[str, Any]) -> str:
    kind = "auc" if "auc_gain" in v else "accuracy"
    name, show = ("AUC", "{:.4f}".format) if kind == "auc" else ("accuracy", percent)
    gain, error = v[f"{kind}_gain"], v[f"{kind}_gain_error"]
    off = f"{gain:+.4f} ± {error:.4f}" if kind == "auc" else f"{100 * gain:+.1f} ± {100 * error:.1f} points"
    return (
        f"On {v['groups']:,.0f} held-out groups the log loss goes from {v['loss_global']:.4f} to {v['loss_model']:.4f} "
        f"({-v['loss_gain']:+.4f} ± {v['loss_gain_error']:.4f}) and the {name} from {show(v[f'{kind}_global'])} to "
        f"{show(v[f'{kind}_model'])} ({off}). Groups that volunteers label may gain more than the population."
    )


def _expected_auc(v: dict[str, Any]) -> str:
    return (
        f"In the population, knowing the group is expected to add {v['expected_auc_gain']:.4f} "
        f"({v['expected_auc_gain_low']:.4f} to {v['expected_auc_gain_high']:.4f}) to an AUC of "
        f"{v['expected_auc_without_group']:.4f}, by Theorem 1."
    )


# ---- assumption --------------------------------------------------------------------------------------------------


def _independence(v: dict[str, Any]) -> str:
    score, level, chance = v["score_effect"], v["level"], ""
    if level is None:
        start = "Labeled rows are too few to tell whether the assumption holds"
    else:
        start = "Labeled rows alone look better" if v["by_mixture"] else HOLDS[level]
        larger = max(score, v.get("feature_effect", 0.0))
        # Two models with the same number may get two verdicts, where only noise decides between them: say so.
        if level < 2 and larger > (SMALL, MEDIUM)[level]:
            chance = f"; that it is above {(1, 6)[level]} % may be chance"
    features = (
        f", and {_effect(v['feature_effect'])} of a feature's on average" if "feature_effect" in v else ""
    )
    return (
        f"{start}: within a cluster and class, the group explains {_effect(score)} ± {_effect(v['score_effect_error'])} of the "
        f"variance of the score{features} (below 1 % is negligible, above 6 % serious{chance})."
    )


def _features_differ(v: dict[str, Any]) -> str:
    named = ", ".join(f"{name} ({_effect(effect)})" for name, effect in v["named"])
    more = f", {v['n']} of {v['of']} features in all" if v["n"] > 3 else ""
    return f"Features that differ {'much ' if v['is_large'] else ''}between groups within a class: {named}{more}."


def _fails_most(v: dict[str, Any]) -> str:
    where = f"cluster {v['cluster']} for class {v['label']}"
    return f"It fails most in {where}, where the group explains {_effect(v['effect'])} of the variance of the score."


def _mixture(v: dict[str, Any]) -> str:
    fits = ("explain", "roughly explain", "do not explain")[v["level"]]
    start = f"{HOLDS[v['level']]} in the population: m" if v["decides"] else "M"
    return (
        f"{start}ixtures of labeled positives and negatives {fits} the scores of the population: observed and fitted "
        f"distributions are {v['mixture_gap']:.2f} apart on a scale of 0 to 1, and chance alone makes "
        f"{v['mixture_gap_by_chance']:.2f}."
    )


# ---- cautions ----------------------------------------------------------------------------------------------------


def identified(names: Iterable[str]) -> str | None:
    """What is wrong with features that identify the group, and what to type; None where there are none.

    >>> identified(["lat", "lon"]).split(", so")[0]
    "'lat' and 'lon' tell which group a row is of"
    """
    names = list(names)
    if not names:
        return None
    *first, last = map(repr, names[:4])
    listed, verb = (f"{', '.join(first)} and {last}", "tell") if first else (last, "tells")
    typed = ",".join(names)
    typed = f'"{typed}"' if re.search(r"[\s'&;$()<>|*?]", typed) else typed
    it = "them" if first else "it"
    return (
        f"{listed} {verb} which group a row is of, so gains on held-out labels and intervals are too good to be true. Leave {it} "
        f"out (--exclude {typed}) and compare."
    )


def _kind(v: dict[str, Any], most: int = 3) -> str:
    part = percent(v["part"], 0) if v["part"] >= 0.01 else "less than 1 %"
    among = f" ({part} of the population)" if v["part"] > 0 else ""
    about = f"{v['about'].capitalize()}{'' if len(v['names']) == 1 else 's'}"
    named = first_of([short(name, 20) if v["about"] == "group" else name for name in v["names"]], most)
    return f"{about} {named}{among}: {REASONS[v['kind']]}"


def _common(statement: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """What settles a common shift, or what other labeling would do to the share and what would settle it."""

    def sentence(v: dict[str, Any]) -> str:
        parts = [statement(v)]
        if v.get("share") is not None:
            parts.append(_if_selected(v))
            if v["at_face_value"] is not None:
                used = f"{percent(v['part'], 0) if v['part'] >= 0.005 else 'none'} of this shift is used"
                trusted = f"Trusting the scores fully would give {percent(v['at_face_value'])}."
                parts.append(f"{trusted} Selection on features would look the same, so {used}.")
            parts.append(_remedy(v))
        return " ".join(parts)

    return sentence


def _if_selected(v: dict[str, Any]) -> str:
    return (
        f"If {v['whose']} twice as likely to be labeled in every group, {percent(v['twice'])} would be {v['name']} instead of "
        f"{percent(v['share'])}; if half as likely, {percent(v['half'])}."
    )


def _remedy(v: dict[str, Any]) -> str:
    if v["n_known"]:
        known = f"Known shares settle it for {v['n_known']:,} of {v['n_groups']:,} groups."
        return f"{known} The others follow as far as these agree."
    audit = "" if v["has_classes"] else " or label a small random sample (audit)"
    return f"To settle this, give a known rate of the population or of some groups{audit}."


def _rate(v: dict[str, Any]) -> str:
    if v["rate"] is None:
        return "The known shares of the population settle what all groups have in common."
    share, error = v["rate"]
    rate = f"{percent(share)} ± {percent(error)}" if error else percent(share)
    return f"The known rate of the population, {rate}, settles what all groups have in common."


def _features(v: dict[str, Any]) -> str:
    return (
        f"The features agree ({percent(v['probability'], 0)}) that {v['over']} were {v['way']}-represented among labels in every "
        "group; the estimates include this correction."
    )


def _open(v: dict[str, Any]) -> str:
    whose = "one class was" if v["has_classes"] else "positives were"
    return f"If {whose} over-represented by the same factor in every group, labeled data cannot reveal it."


STATEMENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "common_audit": lambda v: "The labels of the audit settle what all groups have in common.",
    "common_rate": _rate,
    "common_features": _features,
    "common_random": lambda v: (
        "You said that labels are a random sample of each group, so no shift of all groups alike is "
        "used; no labeled row can check this."
    ),
    "common_by_label": lambda v: (
        "You said that labels were chosen by the label: a shift of all groups alike that features and "
        "scores suggest is used."
    ),
    "common_open": _open,
}


# ---- audit -------------------------------------------------------------------------------------------------------


def audit_sentences(found: AuditFound, share: float) -> Iterator[str]:
    """Verdicts, the two estimates of the overall share, the common shift, groups, and labels that are missing."""
    verdicts, claimed, labels = found.verdicts, percent(found.claimed_share), plural(found.labels, "label")
    left = f"Shares from {percent_range(verdicts.low[-1], verdicts.high[-1])} remain possible (95 %)."
    enough = f"{1 / LEVEL:.0f} is enough; by chance one audit in {1 / LEVEL:.0f} gets there"
    shown = f"shows that the overall share is not the {claimed} that was estimated"
    if not verdicts.share_is_wrong:
        shown = f"does not show that the estimated overall share of {claimed} is wrong"
    grew = _money(verdicts.share_money.max(initial=1.0))
    yield f"The audit of {labels} {shown}. Bets against it grew {grew} ({enough}). {left}"
    shows = "shows" if verdicts.is_miscalibrated else "does not show"
    yield (
        f"It {shows} that the probabilities before the audit were not calibrated: bets against them grew "
        f"{_money(verdicts.calibration_money.max(initial=1.0))}."
    )
    yield (
        f"With these labels the model puts the overall share at {percent(share)} "
        f"({percent_range(*found.posterior.interval(COVERAGE))}, {percent(COVERAGE, 0)} interval). The design of the sample "
        f"alone, whatever the model, gives {percent(found.design.share)} ({percent_range(*found.design.interval(COVERAGE))})."
    )
    common, tail = found.common, (1 - COVERAGE) / 2
    factor, low, high = (np.exp(-v) for v in (common.mean, common.quantile(1 - tail), common.quantile(tail)))
    yield (
        f"The labels settle what all groups have in common: positives were {factor:.2g} times as likely to be labeled, against "
        f"negatives, as the model had estimated ({low:.2g} to {high:.2g}). All probabilities and intervals include this."
    )
    many = np.flatnonzero(found.group_labels >= ENOUGH_LABELS)
    far = many[np.argsort(-np.abs(found.common.own_shift[many]), kind="stable")][:MOST_GROUPS]
    if len(far):
        named = ", ".join(
            f"{found.groups[g]!s} ({found.group_labels[g]} labels, odds times {np.exp(found.common.own_shift[g]):.2f})"
            for g in far
        )
        yield f"Groups with {ENOUGH_LABELS} labels or more also moved on their own, most of all {named}."
    if found.missing:
        yield _missing(found)


def _missing(found: AuditFound) -> str:
    design, has = found.design, "has" if found.missing == 1 else "have"
    serious = (
        " More than half are missing: take the verdicts as provisional."
        if found.missing > found.labels
        else ""
    )
    possible = ""
    if design.highest - design.lowest > 1e-9:
        possible = (
            f" If all of those that were passed over are negative, the design-based share is {percent(design.lowest)}; if all "
            f"are positive, {percent(design.highest)}."
        )
    return (
        f"{found.missing} of {found.labels + found.missing} rows that were asked for {has} no label. They are taken to be like "
        f"labeled rows of the same score; if rows lack a label because of what it is, the answers are off.{possible}{serious}"
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


SENTENCES: dict[str, Callable[[dict[str, Any]], str | Iterable[str]]] = {
    "no_population": lambda v: (
        "Not known: there are no unlabeled rows yet, so nothing is corrected. Add unlabeled rows (update). "
        + PLAIN
    ),
    "no_shift": _no_shift,
    "untested": _untested,
    "worth_yes": lambda v: f"Worth it: {_expected(v)}.",
    "worth_little": lambda v: f"Worth a little: {_expected(v)}.",
    "worth_unsure": lambda v: f"Perhaps: {_expected(v)}. Held-out groups gain, but the population may not.",
    "worth_noise": lambda v: f"Perhaps: {_expected(v)}; on held-out groups the change is within noise.",
    "worth_same": lambda v: (
        f"Perhaps: no measurable difference on held-out groups ({v['before']:.4f} both); {_expected(v)}."
    ),
    "worth_harmful": _harmful,
    "held_out_gain": _held_out_gain,
    "plain_auc": lambda v: (
        f"The plain classifier has a cross-fitted AUC of {v['auc_global']:.4f} on labeled rows."
    ),
    "expected_auc": _expected_auc,
    "labels_chosen": lambda v: (
        "You said that labels were chosen "
        f"{'at random' if v['selection'] == 'random' else 'by the label'} within a group."
    ),
    "labels_look_random": lambda v: (
        f"Labels look like a random sample of each group ({percent(v['probability'], 0)}), so a "
        "group's own labels count toward its share."
    ),
    "labels_look_chosen": lambda v: (
        "Labels do not look like a random sample of each group (probability "
        f"{percent(v['probability'], 0)}), so a group's share follows the scores of its unlabeled rows more than its labels."
    ),
    "independence": _independence,
    "features_differ": _features_differ,
    "fails_most": _fails_most,
    "mixture": _mixture,
    "assumption_untested": lambda v: (
        f"Whether the assumption holds could not be tested on labeled rows, because {_why_untested(v)}."
    ),
    "identifying": lambda v: identified(v["names"]) or "",
    "copies": lambda v: (
        f"{percent(v['part'], 0)} of labeled rows are exact copies of another, so figures on held-out labels are too good. "
        "Give the copies of an example one id (example_ids)."
    ),
    "kind": _kind,
    "audit": lambda v: audit_sentences(v["found"], v["share"]),
    **{code: _common(statement) for code, statement in STATEMENTS.items()},
}
