"""The page: its templates filled with a model's facts; style, script and data inside it, so that it opens offline."""

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

from sklearn.utils.validation import check_is_fitted

from groupshift._data.extras import need
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.identified import importance_of
from groupshift._diagnosis.report import answer, charts, formats, provenance, report_tables
from groupshift._diagnosis.report.class_page import SECTIONS as CLASS_SECTIONS
from groupshift._diagnosis.report.class_page import ClassFacts, class_facts
from groupshift._diagnosis.report.facts import Facts, Names
from groupshift._diagnosis.wording import plural, tidy

if TYPE_CHECKING:
    from jinja2 import Environment

# Only the page's own script may run, and nothing is fetched: a name taken for HTML could still do nothing.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
PACKAGE = "groupshift._diagnosis.report"


def render_report(model: FittedModel, *, title: str | None = None, names: Names | None = None) -> str:
    """The report of a fitted model as one HTML page.

    Parameters
    ----------
    model : fitted GroupShiftClassifier
    title : str, optional
        Heading of the page; one is made up from the names of target and groups, where they are known.
    names : Names, optional
        What the columns are called; by default what the frame or series that the model was fitted on says.
    """
    check_is_fitted(model)
    if model.is_multiclass_:
        of_classes = class_facts(cast("ClassModel", model), names)
        title = of_classes.title if title is None else title
        # This page has no script.
        without_script = POLICY.replace("script-src 'sha256-{}'; ", "")
        return _filled("class_page.html", of_classes, title, without_script, of_classes.tiles, CLASS_SECTIONS)
    facts = Facts.of(model, model.diagnose(), names)
    title = _title(facts) if title is None else title
    return _filled("page.html", facts, title, policy(), answer.tiles(facts), _sections(facts))


def _filled(
    template: str,
    facts: Facts | ClassFacts,
    title: str,
    policy: str,
    tiles: Mapping[str, str],
    sections: Mapping[str, str],
) -> str:
    environment = templates()
    from markupsafe import Markup  # comes with Jinja

    page = environment.get_template(template).render(
        facts=facts,
        model=facts.model,
        diagnosis=facts.diagnosis,
        title=title,
        policy=policy,
        tiles=tiles,
        sections=sections,
        # These two are ours, and the only text that is not escaped.
        style=Markup(_asset("report.css")),
        script=Markup(_asset("report.js")),
    )
    # A lone surrogate, which Python's strings may hold, has no place in a file.
    return page.encode("utf-8", "replace").decode("utf-8")


def policy() -> str:
    """The Content-Security-Policy of the page, which names its script by what it holds."""
    digest = base64.b64encode(hashlib.sha256(_asset("report.js").encode()).digest()).decode()
    return POLICY.format(digest)


def write_report(
    model: FittedModel,
    path: str | os.PathLike[str],
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
    from groupshift.tables.files import check_output, whole_file

    check_output(path, force=force)
    page = render_report(model, title=title, names=names).encode()
    with whole_file(path, force=force) as file:
        file.write(page)


@cache
def templates() -> "Environment":
    """The templates of the page. Every value is escaped on its way into it, whoever named it; a misspelt one fails."""
    jinja2 = need("jinja2")
    environment: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE, "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": formats.count, "percent": formats.percent, "tidy": tidy}
    environment.globals |= {
        "answer": answer,
        "charts": charts,
        "plural": plural,
        "provenance": provenance,
        "tables": report_tables,
    }
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
        "allow_nan": False,
    }
    return environment


def _sections(facts: Facts) -> dict[str, str]:
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


def _title(facts: Facts) -> str:
    if not facts.has_population:
        return "A calibrated classifier" + (f" of {facts.names.positives}" if facts.names.target else "")
    if (named := facts.names.title()) is not None:
        return named
    if not facts.model.has_groups_ or facts.n_groups == 1:
        return "Share of positives in the population"
    return f"Share of positives in {plural(facts.n_groups, 'group')}"


def _asset(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")
