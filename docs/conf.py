"""Sphinx configuration. Figures, printed results and the help of the commands are made while building."""

import sys
from pathlib import Path

# Scripts beside this file, and the article's experiments at the root.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import build_parts

import groupshift

project = "groupshift"
author = "The groupshift developers"
copyright = "The groupshift developers"
version = release = groupshift.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
# Transcripts mix a shell with plain words.
suppress_warnings = ["misc.highlighting_failure"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Types stand in the docstrings, in words.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

# A reference to a name of ours that does not exist is an error; names of other packages have no page here.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!groupshift).*")]

html_theme = "pydata_sphinx_theme"
html_title = "groupshift"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}


def _formula(display):
    """Formulas as MathML, which browsers draw by themselves: the pages need no network."""

    def visit(translator, node):
        from docutils.nodes import SkipNode
        from latex2mathml.converter import convert

        drawn = convert(node.astext(), display=display)
        translator.body.append(f'<div class="math">{drawn}</div>' if display == "block" else drawn)
        raise SkipNode

    return visit, None


html_math_renderer = "mathml"


def setup(app):
    app.add_html_math_renderer("mathml", _formula("inline"), _formula("block"))
    app.connect("builder-inited", lambda app: build_parts.make_all(Path(app.srcdir)))
