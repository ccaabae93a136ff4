"""Which sections the page has: only those that have something to show."""

from groupshift._explain.identified import importance_of
from groupshift._explain.report import charts
from groupshift._explain.report.facts import Facts


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
