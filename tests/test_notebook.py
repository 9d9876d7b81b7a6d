"""The notebooks in docs/ run from the first cell to the last, and show what they should: tables, pictures, text."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code" and cell["outputs"]] == []


@pytest.fixture
def outputs(tmp_path):
    """Runs a notebook; gives the outputs of its code cells."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")

    def run(name):
        book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return [cell["outputs"] for cell in book.cells if cell["cell_type"] == "code"]

    return run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_first_look(outputs):
    log, found, printed, picture, both, differences, frame = outputs("first-look")
    assert "150 episodes" in _html(log)
    assert "own value" in _html(found)
    assert "warning" not in _html(found)
    assert _text(printed).startswith(
        "value 3.6704, 95% interval 3.4643 to 3.8022"
    )  # the truth is 4 (.9 + .1 x .5) = 3.8
    assert "\nusable: All required checks ran and passed.\n" in _text(printed)
    assert all(map(_has_picture, (picture, differences)))
    assert "treat more - treat less" in _html(both)
    assert "probability of being best" in _html(both)
    assert "verdict" in _html(frame)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_sepsis_holds_the_true_survival(outputs):
    if find_spec("icu_sepsis") is None:
        pytest.skip("no icu-sepsis here: pip install --no-deps -r requirements-data.txt")
    _, _, answer, picture, careful = outputs("sepsis")
    words = _text(answer).replace(",", "").split()
    truth, low, high = float(words[2]), float(words[4]), float(words[6])
    assert low < truth < high
    assert words[-1] == "usable"
    assert _has_picture(picture)
    assert "with such a cause" in _text(careful)
    assert "- assumed:" in _text(careful)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_recommender_intervals_hold_the_truth(outputs):
    *_, answers, picture, truths = outputs("recommender")
    assert "more video" in _html(answers)
    assert _has_picture(picture)
    lines = _text(truths).splitlines()
    assert len(lines) == 3
    for line in lines:
        low, _, high, _, truth = line.replace(",", "").split()[-5:]
        assert float(low) < float(truth) < float(high)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_heating_is_refused_without_the_hour_and_right_with_it(outputs):
    _, refused, _, truth = outputs("heating")
    assert _text(refused).startswith("not usable")
    words = _text(truth).replace(";", "").split()
    assert float(words[5]) < float(words[1]) < float(words[7])
    assert words[-1] == "(usable)"
    assert _has_picture(truth)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_paper_in_a_quarter_of_an_hour(outputs):
    td, impression, curve, sizes, threshold, learned, exact = outputs("paper")
    assert _plain(td) == "20"  # every run of TD diverges
    assert "0 diverged" in _plain(impression)
    assert _has_picture(curve)
    assert "'chosen'" in _plain(sizes)
    assert "mean-square stable" in _text(threshold)
    numbers = [[float(x) for x in _plain(one)[7:-2].split(",")] for one in (learned, exact)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.03)


def _has_picture(outputs):
    return any("image/png" in one.get("data", {}) for one in outputs)


def _text(outputs):
    return "".join(one["text"] for one in outputs if one.get("name") == "stdout")


def _plain(outputs):
    return "".join("".join(one["data"]["text/plain"]) for one in outputs if one["output_type"] == "execute_result")


def _html(outputs):
    return "".join("".join(one["data"]["text/html"]) for one in outputs if "text/html" in one.get("data", {}))
