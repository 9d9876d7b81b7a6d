"""Tables and the page of `benchmarks/control.py`."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from control_cases.report import Runs, difference_tables, markdown, middle_tables, write_page

STEPS = (3e-4, 1e-3, 3e-3)


@pytest.fixture
def runs():
    """Two worlds; the second agent lacks one step-size in the second world; a third world was not run."""
    made, spread = {}, 0.001 * (np.arange(12)[:, None] - 5.5)
    for number, agent in enumerate(("ours", "theirs")):
        for world in ("one", "two"):
            for step in STEPS:
                made[world, agent, step] = np.full((12, 10), 0.5 - 0.1 * number) + spread
    del made["two", "theirs", 3e-3]
    return Runs(made, ("one", "two", "three"), ("ours", "theirs"), STEPS)


def test_a_missing_cell_is_missing_from_all_worlds_too(runs):
    together, one, two = middle_tables(runs)
    assert together.rows[1][3] == two.rows[1][3] == "-"
    assert one.rows[1][3].startswith("0.400")
    assert together.rows[0][1].startswith("0.500")


def test_differences_are_of_the_first_agent(runs):
    together = difference_tables(runs)[0]
    assert together.rows[0][0] == "theirs"
    assert together.rows[0][1].startswith("+0.100 [")
    assert together.rows[0][3] == "-"
    assert "| theirs | +0.100 [" in markdown(together)


def test_the_page_has_a_wide_and_a_narrow_picture_of_every_world(runs, tmp_path):
    write_page(runs, tmp_path / "page.html", "About.\n\n    a command\n\nSettings <stated> before the run.")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<h2>") == 4  # all worlds, two worlds, settings
    assert text.count('<img class="wide only"') == text.count('<img class="tall"') == 2
    assert "Settings &lt;stated&gt; before the run." in text
    assert "a command" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
