"""The pages in docs/: their commands run, their links lead somewhere, and the reference names everything.

Their Python examples are doctests. `make docs` builds the site, with every warning an error, and checks its links.
"""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
WALKED = ["index.md", "start/log.md", "start/paper.md"]
"""Pages that a newcomer follows: their commands are run as printed."""


@pytest.mark.parametrize("page", WALKED)
def test_commands_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("gradtd ")]
    assert lines
    for line in lines:
        outcome = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
        assert outcome.exit_code == 0, f"{line}\n{outcome.output}"


FOLLOWED = [
    *("tutorials/click-logs.md", "tutorials/better-policy.md"),
    *("howto/propensities.md", "howto/compare.md", "howto/larger-than-memory.md"),
]
"""Pages whose commands take files that the Python above them has written."""


@pytest.mark.parametrize("page", FOLLOWED)
def test_commands_find_the_files_that_their_page_has_written(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried > failed == 0
    lines = [line.strip() for line in (DOCS / page).read_text().splitlines() if line.startswith("    gradtd ")]
    assert lines
    for line in lines:
        outcome = CliRunner().invoke(app, shlex.split(line)[1:])
        assert outcome.exit_code == 0, f"{line}\n{outcome.output}"


def _links(text):
    """Links to files, of a page without its code."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not link.startswith(("http", "#", "mailto:"))]


def test_links_of_the_pages_lead_to_files():
    missing = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in _links(page.read_text())
        if not (page.parent / link.partition("#")[0]).exists()
    ]
    assert missing == []


def test_the_reference_names_everything_public():
    told = "".join(path.read_text() for path in (DOCS / "reference").glob("*.rst"))
    named = set(re.findall(r"[\w.]+", told))
    lists = {"estimates", "features", "logs", "theory", "PROBLEMS", "ALGORITHMS", "METRICS"}
    assert set(gradtd.__all__) - lists - named == set(), "name it in docs/reference/index.rst"
    for module in (gradtd.estimates, gradtd.theory):
        assert set(module.__all__) - named == set(), f"name it in docs/reference, {module.__name__}"


def test_every_page_is_in_the_contents():
    """Sphinx would warn; this says so without it."""
    trees = "".join(
        block
        for path in [*DOCS.rglob("index.md"), *DOCS.rglob("index.rst")]
        for block in re.findall(r"\{toctree\}.*?```|\.\. toctree::.*?\n\n\S", path.read_text(), re.DOTALL)
    )
    named = {Path(line.strip()).name for line in trees.splitlines()}
    assert {page.stem for page in DOCS.rglob("*.md")} - named - {"index"} == set()


def test_pictures_of_the_concepts_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "figures").glob("*.svg")}
    assert sizes
    assert max(sizes.values()) < 100_000
