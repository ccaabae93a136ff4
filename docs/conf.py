"""Sphinx configuration. The gallery, printed results and the help of the commands are made while building."""

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

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples"]
# Transcripts mix a shell with plain words; functions in a configuration cannot be kept for the next build.
suppress_warnings = ["misc.highlighting_failure", "config.cache"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Scripts that print tables for other pages are run by build_parts.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"^(?!plot_)",
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "reference/backreferences",
    "doc_module": ("groupshift",),
    "prefer_full_module": {r"groupshift\."},
    "capture_repr": (),
    "show_memory": False,
    "min_reported_time": 10_000,
    "download_all_examples": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "remove_config_comments": True,
}

# One page for each public name: reference/index.md lists them, docs/_templates has the form.
autosummary_generate = True
templates_path = ["_templates"]

toc_object_entries_show_parents = "hide"

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
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {page: [] for page in ("index", "install", "faq", "glossary")}


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
