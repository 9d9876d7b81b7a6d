"""The page as a file: whole, offline, and saying what the library says."""

import re
import shutil
import subprocess

import pytest
import typer
from typer.testing import CliRunner

from gradtd.algorithms import ALGORITHMS
from gradtd.cli.reproduce import lab
from gradtd.core.checks import InputError
from gradtd.paper.figures import FIGURES
from gradtd.paper.lab import ASSETS, OFFERED, PAGE, PROBLEMS, WORKER, bundle, defaults, figures, lab_page
from gradtd.running.settings import parameters


@pytest.fixture(scope="module")
def text():
    return lab_page()


def test_it_needs_no_other_file_and_no_network(text):
    addresses = set(re.findall(r"https?://[\w./-]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|link|img)[^>]*\s(src|href)=\"(?!data:)", text)
    assert "{{" not in text
    assert len(text.encode()) < 1_000_000


@pytest.mark.parametrize("names", [WORKER, PAGE])
def test_modules_of_a_bundle_stand_after_those_they_import_and_share_no_name(names):
    seen = {}
    for i, name in enumerate(names):
        code = (ASSETS / f"{name}.mjs").read_text()
        for other in re.findall(r'from "\./(\w+)\.mjs"', code):
            assert other in names[:i], f"{name} imports {other}"
        for top in re.findall(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", code, re.MULTILINE):
            assert top not in seen, f"{top} is in {name} and in {seen[top]}"
            seen[top] = name


def test_every_asset_is_used():
    used = {*WORKER, *PAGE}
    assert {path.stem for path in ASSETS.glob("*.mjs")} == used


@pytest.mark.parametrize("names", [WORKER, PAGE])
def test_bundles_parse(names, tmp_path):
    if shutil.which("node") is None:
        pytest.skip("no Node.js here: make browser installs it")
    path = tmp_path / "bundle.mjs"
    path.write_text(bundle(names))
    assert "import" not in re.findall(r"^\w+", path.read_text(), re.MULTILINE)
    subprocess.run(["node", "--check", str(path)], check=True)


def test_algorithms_and_parameters_are_the_librarys():
    page = (ASSETS / "settings.mjs").read_text()
    table = re.findall(r"^  (\w+): \{\n    label: .*\n    takes: \[(.*)\]", page, re.MULTILINE)
    assert {name for name, _ in table} == set(OFFERED)
    for name, takes in table:
        known = parameters(ALGORITHMS[name.removesuffix("_auto")])
        assert set(re.findall(r"\w+", takes)) <= set(known)


def test_the_papers_figures_are_all_there():
    shown = figures()
    assert [figure["name"] for figure in shown] == [figure.name for figure in FIGURES]
    for figure in shown:
        assert figure["problem"] in PROBLEMS
        assert figure["curves"]
        assert all(curve["algorithm"] in OFFERED for curve in figure["curves"])
    first = shown[0]
    assert {"algorithm": "impression_gtd", "alpha": 10.0, "batch_size": 10} in first["curves"]
    assert first["left_out"] == ["GTD"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_algorithm_has_a_first_step_size(problem):
    first = defaults(problem)
    for name in OFFERED:
        if name not in ("lstd", "impression_gtd_auto"):
            assert first[name]["alpha"] > 0


def _command():
    app = typer.Typer()
    app.command()(lab)
    return app


def test_the_command_writes_the_page(tmp_path, text):
    out = tmp_path / "made" / "lab.html"
    done = CliRunner().invoke(_command(), ["--out", str(out)])
    assert done.exit_code == 0
    assert done.output == f"page: {out}\n"
    assert out.read_text() == text


def test_the_command_opens_the_page_where_asked(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address))
    out = tmp_path / "lab.html"
    done = CliRunner().invoke(_command(), ["--out", str(out), "--open"])
    assert opened == [out.resolve().as_uri()]
    assert "open the page yourself" in done.output


def test_the_command_refuses_another_kind_of_file(tmp_path):
    done = CliRunner().invoke(_command(), ["--out", str(tmp_path / "lab.txt")])
    assert isinstance(done.exception, InputError)
    assert "lab.html" in str(done.exception)
