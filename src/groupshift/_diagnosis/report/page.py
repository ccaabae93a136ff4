"""The page: its templates filled with a model's facts; style, script and data inside it, so that it opens offline."""

import base64
import hashlib
import os
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from groupshift._data.extras import need
from groupshift._diagnosis.diagnosis import diagnose
from groupshift._diagnosis.features import importance_table
from groupshift._diagnosis.fitted import Model
from groupshift._diagnosis.report import charts, formats, report_tables
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


def render_report(model: Model, *, title: str | None = None, names: Names | None = None) -> str:
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
    facts = Facts.of(model, diagnose(model), names)
    environment = templates()
    from markupsafe import Markup  # comes with Jinja

    page = environment.get_template("page.html").render(
        facts=facts,
        model=model,
        diagnosis=facts.diagnosis,
        title=facts.title() if title is None else title,
        policy=policy(),
        sections=_sections(facts),
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
    model: Model,
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
    environment.globals |= {"charts": charts, "plural": plural, "tables": report_tables}
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
        "shifts": facts.has_population and facts.shifted and not facts.has_classes,
        "drivers": bool(len(importance_table(facts.model)["feature"])),
        "clusters": facts.n_clusters > 1,
        "held-out": bool(charts.calibration_squares(facts)),
        "audit": facts.model.audit_ is not None,
        "candidates": facts.model.candidates_ is not None,
    }
    names = {
        "answer": "Answer",
        "shares": "Shares",
        "notes": "Notes",
        "shifts": "Shifts",
        "drivers": "Features",
        "clusters": "Clusters",
        "held-out": "Held-out labels",
        "assumption": "Assumption",
        "audit": "Audit",
        "candidates": "Candidates",
        "words": "Words",
        "data": "Data",
    }
    return {name: title for name, title in names.items() if has.get(name, True)}


def _asset(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")
