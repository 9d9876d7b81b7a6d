"""The notebook in docs/ runs from its first cell to its last, and shows what it should: tables, pictures, text."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "first-look.ipynb"


def test_the_notebook_is_kept_without_outputs():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code"] == [[]] * 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_and_shows_its_results(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in book.cells if cell["cell_type"] == "code"]
    log, found, printed, picture, both, differences, frame = (cell["outputs"] for cell in cells)
    assert "150 episodes" in _html(log)
    assert "own value" in _html(found)
    assert "warning" not in _html(found)
    text = "".join(one["text"] for one in printed if one.get("name") == "stdout")
    assert text.startswith("value 3.6704, 95% interval 3.4643 to 3.8022")  # the truth is 4 (.9 + .1 x .5) = 3.8
    assert "\nusable: All required checks ran and passed.\n" in text
    for drawn in (picture, differences):
        assert any("image/png" in one.get("data", {}) for one in drawn)
    assert "treat more - treat less" in _html(both)
    assert "probability of being best" in _html(both)
    assert "verdict" in _html(frame)


def _html(outputs):
    return "".join("".join(one["data"]["text/html"]) for one in outputs if "text/html" in one.get("data", {}))
