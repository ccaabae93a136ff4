"""From numbers to plain sentences: is it worth it, and what can no diagnosis check?"""

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.special import stdtrit

from groupshift._diagnosis.assumption_words import Overview, why_untested
from groupshift._diagnosis.caution import Weighed
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.wording import percent

# Below this part of the plain classifier's loss a gain is real but hardly felt; below the other it reads 0.0 %.
LITTLE, NOTHING = 0.005, 0.0005
# Log-odds: a shift below this moves no probability by more than a hundredth.
NO_SHIFT = 0.04
# Labelled rows that are copies of others, by chance or mistake: below this part they do little harm.
MANY_COPIES = 0.05


def noise_margin(n_groups: int, level: float = 0.975) -> float:
    """How many standard errors a gain must exceed: Student's quantile, wide when groups are few.

    >>> round(noise_margin(100), 2), round(noise_margin(5), 2)
    (1.98, 2.78)
    """
    return float(stdtrit(max(n_groups - 1, 1), level))


def is_shifted(model: FittedModel) -> bool:
    """Whether any shift is worth the name."""
    return bool(np.abs(model.shift_).max(initial=0.0) > NO_SHIFT)


def judged(overview: Overview) -> str:
    """What hidden labels say: "yes", "little", "harmful", "noise", or "same" where the two losses are as good as equal."""
    gain, error, before = (overview[name] for name in ("loss_gain", "loss_gain_error", "loss_global"))
    is_sure = abs(gain) > noise_margin(int(overview["groups"])) * error
    looks_equal = f"{before:.4f}" == f"{before - gain:.4f}"
    if (looks_equal or abs(gain) < NOTHING * before) and (is_sure or error < NOTHING * before):
        return "same"
    if not is_sure:
        return "noise"
    return "harmful" if gain < 0 else "yes" if gain >= LITTLE * before else "little"


def not_asked(settings: Mapping[str, object]) -> str | None:
    """Why there is no shift, where the settings ask for none."""
    if settings["shares"] is None:
        return "No shift is made: shares were not asked for (shares=None)"
    return None


def is_worth_it(model: FittedModel, overview: Overview) -> tuple[str, str]:
    """A word and a sentence for the whole model."""
    shifted = is_shifted(model)
    if "loss_gain" not in overview or overview["groups"] < 2:
        return "unknown", _unknown(model, overview, shifted)
    gain, error = overview["loss_gain"], overview["loss_gain_error"]
    before, after = overview["loss_global"], overview["loss_model"]
    compared = (
        f"with the labels of each of {overview['groups']:,.0f} labelled groups hidden in turn, its log loss "
        f"is {after:.4f} against {before:.4f} of a plain classifier"
    )
    relative, relative_error = gain / before, error / before
    amount = f"{percent(abs(relative))} ± {percent(relative_error)}"
    if not len(model.groups_):
        is_lower = judged(overview) in ("yes", "little")
        found = f"lower the log loss by {amount}: add such rows" if is_lower else "did not lower the log loss"
        return "unknown", (
            "Nothing is shifted yet, for lack of unlabelled rows. On labelled groups with hidden labels, shifts "
            f"{found}."
        )
    if not shifted:
        why = not_asked({"shares": model.shares}) or "Neither labels nor scores show a shift between groups"
        return "no", f"{why}, so the probabilities are those of a plain calibrated classifier."
    way = "lower" if gain > 0 else "higher"
    sentences = {
        "yes": f"Worth it: {compared}, {amount} lower.",
        "little": f"Worth a little: {compared}, {amount} lower.",
        "harmful": f"Do not use it like this: {compared}, {amount} higher. {_remedy(model)}",
        "noise": f"Perhaps worth it, not shown: {compared}, {amount} {way}, which is within noise.",
        "same": f"Perhaps worth it, not shown: {compared}, which is as good as no difference. Labelled groups do not "
        "show what the shifts of the population are worth.",
    }
    code = judged(overview)
    return ("perhaps" if code in ("noise", "same") else code), sentences[code]


def gain_sentences(model: FittedModel, overview: Overview) -> Iterator[str]:
    """What it gains on hidden labels and, by Theorem 1, in the population."""
    shifted = is_shifted(model)
    if "auc_gain" in overview and overview["groups"] >= 2 and (shifted or not len(model.groups_)):
        gain, error = overview["auc_gain"], overview["auc_gain_error"]
        yield (
            f"On the same hidden labels the AUC goes from {overview['auc_global']:.4f} to "
            f"{overview['auc_model']:.4f} ({gain:+.4f} ± {error:.4f}; ± is one standard error over groups)."
        )
    elif "auc_global" in overview:
        yield f"The plain classifier has a cross-fitted AUC of {overview['auc_global']:.4f} on labelled rows."
    if "expected_auc_gain" in overview and shifted:
        yield (
            f"In the population, knowing the group is expected to add {overview['expected_auc_gain']:.4f} to "
            f"an AUC of {overview['expected_auc_without_group']:.4f} (Theorem 1, if scores and shares are "
            f"right; {overview['expected_auc_gain_low']:.4f} to {overview['expected_auc_gain_high']:.4f} "
            "given how well shares are known)."
        )
    if "expected_loss_gain" in overview and shifted:
        yield (
            f"In the population its log loss is expected to be {overview['expected_loss_gain']:.4f} lower than a plain "
            f"classifier's ({overview['expected_loss_gain_low']:.4f} to {overview['expected_loss_gain_high']:.4f} given "
            "how well shifts are known)."
        )
    yield from _selection_sentences(model)


def _selection_sentences(model: FittedModel) -> Iterator[str]:
    """How labels were chosen inside the groups, and what follows for the groups' own labels."""
    random = model.random_labels_
    if model.selection != "unknown":
        chosen = "at random" if model.selection == "random" else "by the label"
        yield f"You said that labels were chosen {chosen} within a group."
    elif not np.isfinite(random) or len(model.labeled_groups_) < 2:
        return
    elif random > 0.5:
        yield (
            f"Labels look like a random sample of each group (probability {percent(random, 0)}), so a group's own labels count "
            "towards its share."
        )
    else:
        yield (
            f"Labels do not look like a random sample of each group (probability {percent(random, 0)}), so a group's own labels "
            "count for little and the scores of its unlabelled rows for more."
        )


def copies_among_labels(overview: Overview) -> Iterator[Weighed]:
    """Copies that nobody marked: a label that is hidden in one can be read in another."""
    copies = overview.get("unmarked_copies", 0.0)
    if copies > MANY_COPIES:
        yield Weighed(
            copies,
            f"{percent(copies, 0)} of labelled rows repeat another one exactly (features, label and group), too many "
            "for chance. A label that is hidden in one row can be read in its copy, so the model and all figures here "
            "are too sure of themselves. Give the copies of an example one id (example_ids).",
        )


def _unknown(model: FittedModel, overview: Overview, shifted: bool) -> str:
    if not len(model.groups_):
        return (
            "Nothing to judge: without unlabelled rows no shares can be learned, and this is a plain "
            "calibrated classifier."
        )
    if not shifted:
        return "No shift is made: the probabilities are those of a plain calibrated classifier."
    return (
        f"Not known: the shifts could not be checked on hidden labels, as {why_untested(model, overview)}. Use the "
        "shifts only if you have other reasons to believe the assumption."
    )


def _remedy(model: FittedModel) -> str:
    if model.shrinkage != "hierarchical":
        return "The default settings (shrinkage='hierarchical', partition='validated') guard against this."
    return "Pass shares=None for the plain classifier."
