"""What the lab's tests share: Node, a browser and the page."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from browsing import INSTALL, browser  # noqa: F401
from gradtd.paper.lab import ASSETS, PROBLEMS, problem_tables, write_lab
from paper.lab.both import HERE


@pytest.fixture(scope="session")
def tables():
    return {name: problem_tables(name) for name in PROBLEMS}


@pytest.fixture(scope="session")
def node(tables):
    """Run one of the scripts here in Node with the problems' tables and a list of jobs; its answers."""
    if shutil.which("node") is None:
        pytest.skip(f"no Node.js here: {INSTALL}")

    def ask(script, jobs, *words):
        given = json.dumps({"tables": tables, "jobs": jobs})
        done = subprocess.run(
            ["node", str(HERE / script), str(ASSETS), *words], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The lab as a file, and its address."""
    return write_lab(tmp_path_factory.mktemp("lab") / "lab.html").as_uri()
