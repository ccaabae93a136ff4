"""Which sections the page has: only those that have something to show; and what words of the field mean."""

from groupshift._explain.identified import importance_of
from groupshift._explain.report import charts
from groupshift._explain.report.facts import Facts

WORDS = {
    "AUC": "the chance that a random positive row has a higher probability than a random negative one; 0.5 is guessing",
    "Cell": "the rows of one group in one cluster",
    "Cluster": "a region of feature space in which positives are taken to look alike in every group, and negatives too",
    "Hidden labels": "labels of a labelled group that were put aside while its shift was estimated, to check it",
    "Interval": "holds the true share with the probability that stands beside it, if the assumption holds",
    "Judge": "the test that chooses how to cut feature space: by how well hidden labels are predicted",
    "Log loss": "how far probabilities are from what happened, averaged over rows; lower is better, and 0.69 is guessing",
    "Log-odds": "the scale on which shifts are added: 0.7 doubles the odds of being positive",
    "Mixture": "what scores of a group would look like if its rows were labelled positives and negatives in some proportion",
    "Plain classifier": "the same classifier, calibrated, without any shift: blind to groups",
    "Population": "the unlabelled rows, whose shares are wanted",
    "Score": "what the classifier says of a row from its features alone",
    "Shift": "what a row's group adds to its log-odds",
    "Theorem 1": "the paper's formula for the AUC that knowing the group adds, from scores and shares",
}


def sections(facts: Facts) -> dict[str, str]:
    """Sections that have something to show, in reading order, and their names in the menu."""
    has = {
        "shares": facts.has_population,
        "shifts": facts.has_population and facts.shifted,
        "drivers": bool(importance_of(facts.model)),
        "clusters": facts.n_clusters > 1,
        "hidden": bool(charts.calibration_squares(facts)),
        "audit": facts.model.audit_ is not None,
        "candidates": facts.model.candidates_ is not None,
    }
    names = {
        "answer": "Answer",
        "shares": "Shares",
        "shifts": "Shifts",
        "drivers": "Features",
        "clusters": "Clusters",
        "hidden": "Hidden labels",
        "assumption": "Assumption",
        "audit": "Audit",
        "candidates": "Candidates",
        "words": "Words",
        "data": "Data",
        "versions": "Versions",
    }
    return {name: title for name, title in names.items() if has.get(name, True)}
