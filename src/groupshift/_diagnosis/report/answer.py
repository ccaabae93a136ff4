"""The first page: the shares, whether to believe them, what to beware of, what was gained, in sentences."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from groupshift._diagnosis.audit_words import audit_sentences
from groupshift._diagnosis.identified import identified_in
from groupshift._diagnosis.in_common import common_shift, if_selected, remedy, statement
from groupshift._diagnosis.report.facts import COVERAGE, Facts, GroupLines
from groupshift._diagnosis.report.formats import count, percent, percent_range
from groupshift._diagnosis.wording import plural

# The share of a group of fewer rows is mostly chance and the other groups.
FEW_ROWS = 30


class Belief(NamedTuple):
    """Whether to believe the answer: a mark ("yes", "no" or none) and a sentence."""

    mark: str
    sentence: str


# By how far the assumption holds, where it does not fully.
DOUBTS = {
    "no": Belief("no", "Check the shares before you use them: the assumption behind them does not hold."),
    "roughly": Belief("", "Use the shares with care: the assumption behind them holds only roughly."),
    "unknown": Belief(
        "", "Whether to believe the shares could not be tested: labels are too few, or of too few groups."
    ),
}


def tiles(facts: Facts) -> dict[str, str]:
    """The numbers that everyone asks for first."""
    model = facts.model
    pairs = {"labelled positive": percent(facts.labeled_overall)}
    if facts.has_population:
        pairs = {"population positive": percent(facts.overall.share), **pairs}
        if model.has_groups_:
            pairs["groups"] = count(facts.n_groups)
        pairs["population rows"] = count(model.rows_.sum())
    pairs["labelled rows"] = count(model.labeled_rows_.sum())
    pairs["clusters"] = count(facts.n_clusters)
    return pairs


def headline(facts: Facts) -> str:
    """The answer in a sentence: the share of the population."""
    sample = percent(facts.labeled_overall)
    if not facts.has_population:
        return f"A calibrated classifier, from labelled rows of which {sample} are positive."
    overall = facts.overall
    return (
        f"In the population {percent(overall.share)} are positive (interval "
        f"{percent_range(overall.low, overall.high)}), against {sample} of the labelled sample."
    )


def believe(facts: Facts) -> Belief:
    """Whether to believe the shares, in a sentence."""
    diagnosis = facts.diagnosis
    if not facts.has_population:
        return Belief(
            "", "There were no unlabelled rows, so there are no shares of a population to believe or not."
        )
    if diagnosis.worth == "harmful":
        return Belief("no", "Do not believe the shares: on labels that were hidden, the shifts did harm.")
    if diagnosis.holds in DOUBTS:
        return DOUBTS[diagnosis.holds]
    is_confirmed = facts.shifted and diagnosis.worth in ("yes", "little")
    confirmed = ", and hidden labels confirm the shifts" if is_confirmed else ""
    return Belief(
        "yes",
        f"The shares can be believed as far as labels can tell: the assumption behind them holds{confirmed}.",
    )


def common(facts: Facts) -> str | None:
    """What all groups may have in common, and what it would do to the share; None without a population."""
    found, numbers = common_shift(facts.model), facts.diagnosis.overview
    if not facts.has_population:
        return None
    if found.is_settled:
        return statement(found)
    share, half, twice = (numbers[name] for name in ("share", "share_if_half", "share_if_twice"))
    return f"{statement(found)} {if_selected(found, share, half, twice)}"


def common_remedy(facts: Facts) -> str:
    """The same in short, and what would settle it."""
    found = common_shift(facts.model)
    return f"{statement(found)} {remedy(found)}"


def learned(facts: Facts) -> list[str]:
    """What the groups of the population look like, in a few sentences."""
    if not facts.has_population:
        return ["Without unlabelled rows there is no population whose shares could be learned."]
    found = (_extremes(facts.groups), _disagreement(facts), _cluster_words(facts))
    return [sentence for sentence in found if sentence is not None]


def _extremes(groups: GroupLines) -> str | None:
    """The groups of lowest and highest share; those of a few rows are there by chance and left out."""
    many = np.flatnonzero(groups.rows >= FEW_ROWS)
    if len(many) < 2 or not np.ptp(groups.share[many]):
        return None

    def described(i: int) -> str:
        interval = percent_range(groups.low[i], groups.high[i])
        return f"{groups.name[i]} ({percent(groups.share[i])}, interval {interval})"

    lowest, highest = (int(many[find(groups.share[many])]) for find in (np.argmin, np.argmax))
    which = "Groups" if len(many) == len(groups.rows) else f"Groups of {FEW_ROWS} rows or more"
    return f"{which} range from {described(lowest)} to {described(highest)}."


def _disagreement(facts: Facts) -> str | None:
    """In how many groups the labelled sample misleads, by more than the noise of both."""
    groups = facts.groups
    known = np.isfinite(groups.sample_share)
    n, sample = groups.sample_rows, np.nan_to_num(groups.sample_share)
    if known.sum() < 2:
        return None
    margin = ndtri(0.5 + COVERAGE / 2)
    # A row of each class more: the error of a share of 0 or 1 from a handful of rows is not zero.
    drawn_in = (sample * n + 1) / (n + 2)
    variance = drawn_in * (1 - drawn_in) / (n + 2) + ((groups.high - groups.low) / (2 * margin)) ** 2
    differs = known & (np.abs(sample - groups.share) > margin * np.sqrt(variance))
    return (
        f"In {count(differs.sum())} of {plural(int(known.sum()), 'group')} with labelled rows, "
        "the labelled sample differs from the population by more than chance "
        f"({percent(COVERAGE, 0)} confidence)."
    )


def _cluster_words(facts: Facts) -> str:
    if not facts.shifted:
        return "No group is shifted: everyone gets the probabilities of the plain classifier."
    if facts.n_clusters == 1:
        return "Each group has one shift, the same for all of its rows."
    return (
        f"Feature space has {facts.n_clusters} clusters, and each group a shift of its own in each of them."
    )


def first_of_all(facts: Facts) -> str | None:
    """What spoils everything else on the page: features that tell which group a row is of."""
    return identified_in(facts.model)


def worth(facts: Facts) -> list[str]:
    """What it gains, and that the assumption behind it holds where it does."""
    diagnosis = facts.diagnosis
    holds = ["The assumption behind it was tested and holds."] if diagnosis.holds == "yes" else []
    return [diagnosis.verdict, *diagnosis.gain, *holds]


def audit(facts: Facts) -> list[str]:
    """What an audit found, in sentences."""
    model = facts.model
    return [] if model.audit_ is None else list(audit_sentences(model, model.audit_))


def beware(facts: Facts) -> list[str]:
    """Doubts about the assumption, in a sentence, then everything that the diagnosis warns of."""
    diagnosis = facts.diagnosis
    words = {
        "roughly": "The assumption holds only roughly; see the tests below.",
        "no": "The assumption does not hold; see the tests below.",
        "unknown": "Whether the assumption holds is not known.",
    }
    doubt = [words[diagnosis.holds]] if diagnosis.holds in words else []
    # What is said first of all is not said twice.
    caution = [sentence for sentence in diagnosis.caution if sentence != first_of_all(facts)]
    return [*doubt, *caution] or ["Nothing that the tests below could find."]
