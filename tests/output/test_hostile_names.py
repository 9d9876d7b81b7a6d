"""Names of columns, targets and files are what their author likes: no terminal, picture or page obeys them."""

from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.cli.messages import typed
from gradtd.core.checks import printable
from gradtd.output.evaluation_page import differences_figure
from gradtd.output.plots import canvas, learning_curves, plain, save
from gradtd.output.svg import svg
from gradtd.output.tables import Table
from naive.evaluation import real_walk

ESCAPE = "\x1b]0;mine\x07\x1b[2J"
NAMES = (
    ESCAPE,
    "$\\frac{$",
    "<script>alert(1)</script>",
    "[red]x[/]",
    "a\nvalue 9, usable",
    "\udcff",
    "_hidden",
    "\u202ex",
)
BAD = ("\x1b", "\x07", "\u202e", "<script>alert")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A file with an escape in its name and in that of a column."""
    path = tmp_path_factory.mktemp("hostile") / f"log{ESCAPE[:4]}.parquet"
    table = real_walk(30)
    table[f"obs_{ESCAPE}"] = np.random.default_rng(0).normal(size=len(table["t"]))
    del table["next_obs_0"], table["next_obs_1"]
    pq.write_table(pa.table(table), path)
    return str(path)


@pytest.mark.parametrize(
    "words", [["inspect"], ["evaluate", "--gamma", "0.9"], ["evaluate", "--gamma", "0.9", "--verbose"]]
)
def test_the_terminal_sees_no_escape(log, words):
    made = CliRunner().invoke(app, ["--log-level", "debug", words[0], log, *words[1:]])
    assert made.exit_code == 0, made.output
    assert not any(bad in made.output for bad in BAD)
    if words == ["inspect"]:
        assert r"\x1b" in made.output


def test_targets_of_any_name_are_compared_drawn_and_shown(log, tmp_path, capsys):
    table = real_walk(30)
    rng = np.random.default_rng(1)
    targets = {name: np.clip(table["target"] + 0.01 * rng.normal(size=len(table["t"])), 0.01, 0.99) for name in NAMES}
    found = gradtd.evaluate(table, gamma=0.9, target=targets, features="identity", machine=gradtd.Machine(threads=1))
    compared = found.compare()
    assert svg(differences_figure(compared)).isprintable()
    page = found.page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert not any(bad in page for bad in BAD)
    from rich.console import Console

    Console(force_terminal=True, width=200).print(compared)
    shown = capsys.readouterr().out
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert "\nvalue 9" not in shown
    assert "[red]x[/]" in shown


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_picture_is_no_formula(name, tmp_path):
    curves = {name: (np.arange(3), np.ones((2, 3)))}
    figure = learning_curves(curves, title=name, metric="rmsve")
    save(figure, tmp_path / "picture.png")
    ElementTree.fromstring(svg(figure))
    (legend,) = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == plain(name)


def test_a_name_in_a_picture_ends():
    _, axes = canvas("x" * 5000)
    assert len(axes.get_title("left")) == 80


def test_an_error_is_one_line_that_nothing_obeys():
    said = str(gradtd.InputError(f"column {ESCAPE} is\nbad."))
    assert said == r"column \x1b]0;mine\x07\x1b[2J is\nbad."
    assert printable("plain, \u00e9") == "plain, \u00e9"


def test_a_table_of_words_is_plain():
    table = Table(ESCAPE, [ESCAPE], [[ESCAPE]], notes=[ESCAPE])
    assert "\x1b" not in table.text() + table.html()


@pytest.mark.parametrize("inside", ["{", "__import__('os')", "'a': ", "'a': b", "("])
def test_a_name_that_looks_like_a_parameter_is_left_as_it_is(inside):
    message = "column 'columns={" + inside + "}' is twice."
    assert typed(message) == message


def test_long_names_leave_room_for_the_differences():
    table = real_walk(30)
    rng = np.random.default_rng(1)
    names = ("V" * 90, "W" * 90)
    targets = {name: np.clip(table["target"] + 0.01 * rng.normal(size=len(table["t"])), 0.01, 0.99) for name in names}
    found = gradtd.evaluate(table, gamma=0.9, target=targets, features="identity", machine=gradtd.Machine(threads=1))
    figure = differences_figure(found.compare())
    svg(figure)  # a warning of Matplotlib, that there is no room, fails the test
    assert figure.axes[0].get_position().width > 0.1
