"""How Sphinx builds the site: `make docs` leaves it in build/site.

The pages are the Markdown in this folder, which also reads well where nothing is built. What only a site can show, such
as the lab, is put in at a comment of the form ``<!-- site: lab -->``.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import site_parts  # noqa: E402

MADE = HERE.parent / "build" / "made"
"""What is made for the site and belongs to no source: copied into it as it is."""

project, author = "gradtd", "the authors of gradtd"
version = release = installed("gradtd")
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["*.py", "static"]
suppress_warnings = ["misc.highlighting_failure"]

nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
"""Notebooks are kept without outputs and run when the site is built."""

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
linkcheck_timeout = 20

html_theme = "furo"
html_title = "gradtd"
html_static_path = ["static"]
html_extra_path = [str(MADE)]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00588c", "color-brand-content": "#00588c"},
    "dark_css_variables": {"color-brand-primary": "#6cb8ea", "color-brand-content": "#6cb8ea"},
}


def make_extras(app: Any, config: Any) -> None:
    site_parts.make_extras(MADE, HERE.parent)


def put_in(app: Any, name: str, source: list[str]) -> None:
    """Put a part of the site where a comment asks for it, find the files above this folder, name pages by titles."""
    up = "../" * name.count("/")
    for part, make in site_parts.PARTS.items():
        if (mark := f"<!-- site: {part} -->") in source[0]:
            source[0] = source[0].replace(mark, make(up, MADE))
    source[0] = re.sub(r"\]\((?:\.\./)+CONTRIBUTING\.md", f"]({up}contributing.md", source[0])
    # A link named by its file is a fine one where nothing is built. Here an empty name becomes the title of the page.
    source[0] = re.sub(r"\[[\w/.-]+\.md\]\(", "[](", source[0])


def readable(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: equations stand indented, and |x|, * and a last _ mean themselves."""
    told, plain, before = [], True, ""
    for line in lines:
        indented, doctest = line.startswith("    "), line.lstrip().startswith((">>>", "..."))
        if line.startswith(">>>") and "Parameters" in told and "Examples" not in told:
            told += ["Examples", "--------"]  # or they would be taken for parameters
        if indented and not before.strip() and plain and not doctest:
            told += ["::", ""]
            plain = False
        elif line.strip() and not indented:
            plain = True
        verbatim = doctest or (indented and not plain)
        told.append(line if verbatim else _escaped(line))
        before = line
    lines[:] = told


def _escaped(line: str) -> str:
    """A line of text whose signs mean nothing to reStructuredText; what stands between backticks is left."""
    parts = re.split(r"(``.*?``|`.*?`)", line)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"(?<!\\)([|*])", r"\\\1", parts[k])
        parts[k] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[k])
    return "".join(parts)


def heard(app: Any, name: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Captions of the contents are headings to a screen reader, which asks for their level."""
    if "furo_navigation_tree" in context:
        text = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = text.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Any) -> None:
    app.connect("html-page-context", heard, priority=900)  # after the theme
    # Before Sphinx looks whether the folder of extras is there.
    app.connect("config-inited", make_extras, priority=100)
    app.connect("source-read", put_in)
    app.connect("autodoc-process-docstring", readable, priority=400)
