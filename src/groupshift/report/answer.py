"""The first page: what was learned, is it worth it, what to beware of, in sentences."""

import numpy as np

from groupshift.report.facts import Facts
from groupshift.report.markup import (
    Markup,
    bullets,
    count,
    join,
    paragraphs,
    percent,
    percent_range,
    plural,
    tag,
    tidy,
)

TONE = {"yes": "yes", "little": "yes", "no": "no", "harmful": "no"}


def tiles(facts: Facts) -> Markup:
    """The numbers that everyone asks for first."""
    model = facts.model
    pairs = {}
    if facts.has_population:
        pairs["positive in the population"] = percent(facts.overall)
    pairs["positive in the labelled sample"] = percent(facts.labeled_overall)
    if facts.has_population:
        if model.has_groups_:
            pairs["groups"] = count(facts.n_groups)
        pairs["population rows"] = count(model.rows_.sum())
    pairs["labelled rows"] = count(model.labeled_rows_.sum())
    pairs["clusters"] = count(facts.n_clusters)
    if facts.shifted:
        pairs["of each shift trusted"] = percent(model.trust_, 0)
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items()),
        class_="tiles",
    )


def answer_section(facts: Facts) -> Markup:
    """The verdict, then the three answers side by side."""
    diagnosis = facts.diagnosis
    columns = {
        "What was learned": paragraphs(learned(facts)),
        "Is it worth it?": paragraphs(diagnosis.gain)
        if diagnosis.gain
        else tag("p", "There is no more to say than the above."),
        "What to beware of": bullets(beware(facts)),
    }
    verdict = tag("p", tidy(diagnosis.verdict), class_=f"verdict {TONE.get(diagnosis.worth, '')}".strip())
    return join(
        [
            verdict,
            tag(
                "div",
                *(tag("div", tag("h3", title), body) for title, body in columns.items()),
                class_="answers",
            ),
        ]
    )


def learned(facts: Facts) -> list[str]:
    """What the population looks like, in a few sentences."""
    sample = percent(facts.labeled_overall)
    if not facts.has_population:
        return [
            f"A calibrated classifier, from labelled rows of which {sample} are positive. Without unlabelled rows it has no shares."
        ]
    sentences = [
        f"In the population {percent(facts.overall)} are positive, against {sample} of the labelled sample."
    ]
    if len(facts.groups["name"]) > 1:
        sentences.append(_extremes(facts))
    if (words := _disagreement(facts)) is not None:
        sentences.append(words)
    sentences.append(_cluster_words(facts))
    return sentences


def _extremes(facts: Facts) -> str:
    groups = facts.groups

    def told(i: int) -> str:
        return f"{groups['name'][i]} ({percent(groups['share'][i])}, interval {percent_range(groups['low'][i], groups['high'][i])})"

    return f"Groups range from {told(int(np.argmin(groups['share'])))} to {told(int(np.argmax(groups['share'])))}."


def _disagreement(facts: Facts) -> str | None:
    """In how many groups the labelled sample misleads."""
    groups = facts.groups
    known = np.isfinite(groups["sample_share"])
    if known.sum() < 2:
        return None
    outside = known & ((groups["sample_share"] < groups["low"]) | (groups["sample_share"] > groups["high"]))
    return (
        f"In {count(outside.sum())} of {plural(int(known.sum()), 'group')} with labelled rows, the share of the labelled sample lies outside "
        f"the {percent(facts.coverage, 0)} interval of the population."
    )


def _cluster_words(facts: Facts) -> str:
    if not facts.shifted:
        return "No group is shifted: everyone gets the probabilities of the plain classifier."
    if facts.n_clusters == 1:
        return "Each group has one shift, the same for all of its rows."
    return f"Shifts differ by region of feature space: there are {facts.n_clusters} clusters, each with its own shift in each group."


def beware(facts: Facts) -> list[str]:
    """Whether the assumption holds, in a sentence, then everything that the diagnosis warns of."""
    diagnosis = facts.diagnosis
    words = {
        "yes": "The assumption was tested and holds.",
        "roughly": "The assumption holds only roughly; see the tests below.",
        "no": "The assumption does not hold on the labelled rows; see the tests below.",
        "unknown": "The assumption could not be tested.",
    }
    return [words[diagnosis.holds], *diagnosis.caution]
