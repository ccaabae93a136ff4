"""The page: sections in reading order, with style, script and data inside it, so that it opens offline."""

import base64
import hashlib
import os
from importlib.resources import files
from string import Template
from typing import Any

from sklearn.utils.validation import check_is_fitted

from groupshift._explain.report.answer import answer_section, tiles
from groupshift._explain.report.assumption_section import assumption_section, candidates_section
from groupshift._explain.report.charts import candidates_figure, gain_figure, shares_figure, shifts_figure
from groupshift._explain.report.facts import Facts, Names
from groupshift._explain.report.hidden_section import any_gain, hidden_section
from groupshift._explain.report.markup import Markup, join, json_block, plural, tag, text
from groupshift._explain.report.provenance import data_section, versions_section
from groupshift._explain.report.sections import clusters_section, shares_section, shifts_section

# Name for links, words of the menu, heading, and what is in it.
SECTIONS = (
    ("answer", "Answer", "The answer", answer_section),
    ("shares", "Shares", "Shares of the groups", shares_section),
    ("shifts", "Shifts", "Shifts by group and cluster", shifts_section),
    ("clusters", "Clusters", "Where the clusters are", clusters_section),
    ("hidden", "Hidden labels", "Calibration and gain on hidden labels", hidden_section),
    ("assumption", "Assumption", "Does the assumption hold?", assumption_section),
    ("candidates", "Candidates", "What the judge weighed", candidates_section),
    ("data", "Data", "Data and settings", data_section),
    ("versions", "Versions", "Versions", versions_section),
)

# Only the page's own script may run, and nothing is fetched: a name taken for HTML could still do nothing.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "script-src 'sha256-{}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
)

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="groupshift">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<a class="skip" href="#answer">Skip to the answer</a>
<header class="top"><div class="wrap">
<p class="kicker">groupshift report</p>
<h1>$title</h1>
$tiles
</div></header>
<div class="bar"><div class="wrap">
<nav aria-label="Sections">$menu</nav>
$finder
</div></div>
<main class="wrap">
$sections
</main>
<footer><div class="wrap">
Made with groupshift. Everything is in this file: it opens offline and sends nothing anywhere.
</div></footer>
$data
<script>$script</script>
</body>
</html>
""")

FINDER = Markup(
    '<div class="finder"><input id="search" type="search" placeholder="Find a group" '
    'aria-label="Find a group in all figures" autocomplete="off" spellcheck="false">'
    '<span id="found" role="status"></span></div>'
)


def render_report(model: Any, *, title: str | None = None, names: Names | None = None) -> str:
    """The report of a fitted model as one HTML page.

    Parameters
    ----------
    model : fitted GroupShiftClassifier
    title : str, optional
        Heading of the page; one is made up from the names of target and groups, where they are known.
    names : Names, optional
        What the columns are called; by default what the frame or series that the model was fitted on says.
    """
    from groupshift._explain.diagnostics import diagnose

    check_is_fitted(model)
    facts = Facts.of(model, diagnose(model), names=names)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return PAGE.substitute(
        title=text(title if title is not None else _title(facts)),
        policy=POLICY.format(digest),
        style=_asset("report.css"),
        tiles=tiles(facts),
        menu=join(tag("a", short, href=f"#{name}") for name, short, _, _ in SECTIONS),
        finder=FINDER if facts.n_groups > 1 else "",
        sections=join((_section(facts, *section) for section in SECTIONS), "\n"),
        data=json_block(_figures(facts), "report-data"),
        script=script,
    )


def write_report(
    model: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    names: Names | None = None,
    force: bool = False,
) -> None:
    """Write the report of a fitted model to one HTML file, whole or not at all.

    Parameters
    ----------
    model : fitted GroupShiftClassifier
    path : path
        Left as it is where it exists, unless `force` is true.
    title, names
        As in `render_report`.
    """
    from groupshift._io.files import check_output, whole_file

    check_output(path, force=force)
    page = render_report(model, title=title, names=names).encode("utf-8", "replace")
    with whole_file(path, force=force) as file:
        file.write(page)


def _section(facts: Facts, name: str, short: str, heading: str, content: Any) -> Markup:
    title = tag("h2", heading, id=f"{name}-heading")
    return tag("section", title, content(facts), id=name, aria_labelledby=f"{name}-heading")


def _title(facts: Facts) -> str:
    if not facts.has_population:
        return "A calibrated classifier" + (f" of {facts.names.positives}" if facts.names.target else "")
    if (named := facts.names.title()) is not None:
        return named
    if not facts.model.has_groups_ or facts.n_groups == 1:
        return "Share of positives in the population"
    return f"Share of positives in {plural(facts.n_groups, 'group')}"


def _figures(facts: Facts) -> dict[str, dict]:
    """Data of the figures that the script draws."""
    figures = {}
    if facts.has_population:
        figures["shares"] = shares_figure(facts.groups, coverage=facts.coverage, overall=facts.overall)
        if facts.shifted:
            figures["shifts"] = shifts_figure(
                facts.cells, facts.model.evidence_.labeled_clusters.share, coverage=facts.coverage
            )
    if any_gain(facts):
        figures["gain"] = gain_figure(facts.hidden)
    if facts.model.candidates_ is not None:
        figures["candidates"] = candidates_figure(facts.model.candidates_)
    return figures


def _asset(name: str) -> str:
    return files("groupshift._explain.report").joinpath(name).read_text(encoding="utf-8")
