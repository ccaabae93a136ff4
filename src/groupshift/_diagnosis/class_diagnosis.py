"""The diagnosis of a model of several classes: the same questions, answered by log loss and accuracy on hidden labels."""

from collections.abc import Iterator

import numpy as np

from groupshift._diagnosis.assumption import LARGE, MEDIUM, SMALL
from groupshift._diagnosis.assumption_words import pooled_effect
from groupshift._diagnosis.caution import FEW_GROUP_ROWS, FEW_LABELED_ROWS, Caution, caution_table
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.class_sensitivity import class_sensitivity, selected_sentence
from groupshift._diagnosis.class_share_tables import group_class_shares
from groupshift._diagnosis.cluster_profile import describe_clusters
from groupshift._diagnosis.diagnostics import Diagnosis, features_table, strata_table
from groupshift._diagnosis.verdict import judged, not_asked
from groupshift._diagnosis.wording import first_of, percent, plural
from groupshift._math.arrays import Table

ONE_AGAINST_REST = (
    "Theorem 1, which tells the gain in AUC from the shares, is for two classes; with more, each class against the rest can be "
    "asked by a model of its own."
)


def diagnose_classes(model: ClassModel) -> Diagnosis:
    """Is the fitted model worth it, does its assumption hold, and where should it not be trusted?"""
    overview = _overview(model)
    worth, verdict = _is_worth_it(model, overview)
    holds, assumption = _assumption_holds(model, overview)
    cautions, sensitivity = _cautions(model), class_sensitivity(model)
    selected = selected_sentence(model, sensitivity)
    return Diagnosis(
        worth=worth,
        holds=holds,
        verdict=verdict,
        gain=tuple(_gain(model, overview)),
        assumption=(assumption,),
        caution=(*_caution_sentences(model, cautions), selected, ONE_AGAINST_REST),
        overview=overview,
        hidden_labels=_hidden_labels(model),
        independence=_independence(model),
        features=_features(model),
        mixture={},
        sensitivity=sensitivity,
        cautions=cautions,
        clusters=describe_clusters(model.evidence_.clusters, model.encoder_),
        calibration=_calibration(model),
        frame_library=model.frame_library_,
    )


def _overview(model: ClassModel) -> dict[str, float]:
    evidence = model.evidence_
    found = evidence.independence
    numbers = dict(evidence.hidden.total) if evidence.hidden is not None else {}
    effect, error = pooled_effect(found.score_effect[..., None], found.score_error[..., None], found.rows)
    numbers |= {"score_effect": float(effect[0]), "score_effect_error": float(error[0])}
    numbers |= {"random_labels": model.estimate_.random_labels, "classes": float(len(model.classes_))}
    numbers |= {name: float(value) for name, value in vars(evidence.examples).items()}
    return {name: value for name, value in numbers.items() if np.isfinite(value)}


def _is_worth_it(model: ClassModel, overview: dict[str, float]) -> tuple[str, str]:
    if "loss_gain" not in overview or overview["groups"] < 2:
        return "unknown", (
            "Whether it is worth it is not known: labels of fewer than two groups could be hidden, so nothing was checked."
        )
    if not len(model.groups_):
        return "unknown", (
            "Nothing is shifted yet, for lack of unlabelled rows: predictions are those of the plain classifier, calibrated."
        )
    if not np.any(model.estimate_.shift):
        why = not_asked(model.get_params()) or "Neither labels nor scores show a shift between groups"
        return "no", f"{why}, so predictions are those of the plain classifier, calibrated."
    losses = (
        f"on hidden labels of {plural(int(overview['groups']), 'group')}, log loss {overview['loss_global']:.4f} without shifts, "
        f"{overview['loss_model']:.4f} with them"
    )
    sentences = {
        "yes": f"Worth it: {losses}.",
        "little": f"Worth a little: {losses}.",
        "harmful": f"Harmful: {losses}. Pass shares=None for the plain classifier, or known shares.",
        "noise": f"Perhaps worth it: {losses}, which may be chance.",
        "same": f"Perhaps worth it, not shown: {losses}, which is as good as no difference.",
    }
    code = judged(overview)
    return ("perhaps" if code in ("noise", "same") else code), sentences[code]


def _gain(model: ClassModel, overview: dict[str, float]) -> Iterator[str]:
    if "loss_gain" not in overview or not np.any(model.estimate_.shift):
        return
    yield (
        f"On hidden labels the log loss falls by {overview['loss_gain']:.4f} ± {overview['loss_gain_error']:.4f}, and accuracy "
        f"goes from {percent(overview['accuracy_global'])} to {percent(overview['accuracy_model'])}."
    )


def _assumption_holds(model: ClassModel, overview: dict[str, float]) -> tuple[str, str]:
    """Do rows of one class look alike in every group inside a cluster? By their scores, which is what shares are made of."""
    effect, error = overview.get("score_effect"), overview.get("score_effect_error", np.inf)
    if effect is None or len(model.labeled_groups_) < 2 or error > MEDIUM:
        return (
            "unknown",
            "Whether a class looks alike in every group could not be tested: labelled rows are too few.",
        )
    part = (
        f"the group explains {percent(max(effect, 0))} of how scores vary inside a class (± {percent(error)})"
    )
    if effect - 2 * error < SMALL:
        return "yes", f"The assumption holds as far as labels show: {part}."
    if effect < LARGE:
        return "roughly", f"The assumption holds roughly: {part}."
    return (
        "no",
        f"The assumption does not hold: {part}. Shares of groups that look unlike the others may be off.",
    )


def _cautions(model: ClassModel) -> Table:
    estimate, learned = model.estimate_, model.learned_
    found = []
    rows = estimate.rows.sum(1)
    for g in np.flatnonzero(rows < FEW_GROUP_ROWS):
        found.append(Caution("few rows in group", str(model.groups_[g]), -1, int(rows[g]), float(rows[g])))
    for k, own in enumerate(learned.class_rows):
        for c in np.flatnonzero(own < FEW_LABELED_ROWS):
            kind = f"few labels of class {model.classes_[c]}"
            found.append(Caution(kind, None, k, int(estimate.rows[:, k].sum()), float(own[c])))
    return caution_table(found)


def _caution_sentences(model: ClassModel, table: Table) -> Iterator[str]:
    groups = table["group"][table["kind"] == "few rows in group"].tolist()
    if groups and np.any(model.estimate_.shift):
        yield (
            f"{plural(len(groups), 'group')} ({first_of(groups)}): fewer than 50 rows, so the shares lean on other groups."
        )
    few = sorted(
        {kind.removeprefix("few labels of class ") for kind in table["kind"]} - {"few rows in group"}
    )
    if few:
        noun = "class" if len(few) == 1 else "classes"
        yield (
            f"{len(few)} {noun} ({first_of(few)}): fewer than 20 labelled rows in a cluster, so unlabelled rows say nothing of "
            "the share there."
        )
    copies = model.evidence_.examples.unmarked_copies
    if copies > 0:
        yield f"{percent(copies)} of the labelled rows repeat another: pass example_ids, or what is held out is not."


def _hidden_labels(model: ClassModel) -> Table:
    hidden = model.evidence_.hidden
    if hidden is None or not model.has_groups_:
        return {}
    names = ("rows", "loss_global", "loss_model", "accuracy_global", "accuracy_model")
    off = {
        f"share_error_{kind}": np.abs(mean - hidden.share).mean(1)
        for kind, mean in (("global", hidden.mean_global), ("model", hidden.mean_model))
    }
    return {
        "group": model.labeled_groups_[hidden.group],
        **{name: getattr(hidden, name) for name in names},
        **off,
    }


def _independence(model: ClassModel) -> Table:
    found = model.evidence_.independence
    counts = {"rows": found.rows}
    return strata_table(model, counts, found.score_effect, found.score_error, found.feature_effect)


def _features(model: ClassModel) -> Table:
    found = model.evidence_.independence
    return features_table(model, found.feature_effect, found.feature_error, found.rows)


def _calibration(model: ClassModel) -> Table:
    """Each class against the rest, all of them together."""
    hidden = model.evidence_.hidden
    if hidden is None:
        return {}
    both = np.concatenate([hidden.calibration_global, hidden.calibration_model])
    n_bins = len(hidden.calibration_global)
    return {
        "method": np.repeat(np.array(["global", "model"], object), n_bins),
        "group": np.full(2 * n_bins, None, object),
        "bin": np.tile(np.arange(n_bins), 2),
        **dict(zip(("weight", "probability", "share"), both.T, strict=True)),
    }


def range_over_groups(model: ClassModel) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest share of each class among the groups."""
    share = group_class_shares(model)[0]
    return share.min(0), share.max(0)
