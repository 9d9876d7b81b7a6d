"""A result as a table, in a notebook, as a frame, a picture and a page."""

import builtins
import io
import re

import numpy as np
import pytest
from rich.console import Console

import gradtd
from gradtd.output.tables import Table


@pytest.fixture(scope="module")
def result():
    return gradtd.run("boyan_chain", "td", alpha=1 / 16, runs=4, steps=300, snapshots=50)


@pytest.fixture(scope="module")
def diverged():
    return gradtd.run("two_state", "td", alpha=0.5, runs=3, steps=1000, snapshots=[1, 1000])


def test_the_table_holds_means_and_errors(result):
    table = result.table("neu", [100, 300])
    values = gradtd.measure(result, "neu")[:, [1, 5]]
    assert list(table.columns) == ["step", "neu", "se"]
    assert [row[0] for row in table.rows] == ["100", "300"]
    assert [row[1] for row in table.rows] == [f"{x:.5g}" for x in values.mean(axis=0)]
    assert [row[2] for row in table.rows] == [f"{x:.2g}" for x in values.std(axis=0, ddof=1) / 2]
    assert table.text().splitlines()[0] == "td(alpha=0.0625) on boyan_chain, 4 runs, seed 0"
    with pytest.raises(gradtd.InputError, match="there is none at 120"):
        result.table("neu", [50, 120])


def test_ten_rows_at_most_the_last_step_among_them():
    table = gradtd.run("boyan_chain", "td", alpha=0.1, runs=2, steps=995, snapshots=5).table()
    assert len(table.rows) == 10
    assert table.rows[-1][0] == "995"


def test_a_notebook_and_a_terminal_show_the_table(result, diverged):
    page = result._repr_html_()
    assert "<th" in page
    assert f"{gradtd.measure(result).mean(axis=0)[-1]:.5g}</td>" in page
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(diverged)
    assert "3 of 3 runs diverged; each is frozen from its step of divergence on." in console.export_text()


def test_a_table_says_where_traces_have_an_infinite_variance():
    common = {"alpha": 1e-3, "runs": 2, "steps": 50, "compile": False, "threads": 1}
    (note,) = gradtd.run("baird", "td", lam=0.9, **common).table().notes
    assert "the traces of baird have an infinite variance" in note
    assert "finite for lam below 0.42; trace='clipped' or trace='tree' may help." in note
    assert not gradtd.run("baird", "td", lam=0.4, **common).table().notes
    assert not gradtd.run("baird", "td", lam=0.9, trace="tree", **common).table().notes


def test_html_is_escaped():
    page = Table("a < b", ["<i>"], [["&"]], words=1, notes=["c > d"]).html()
    assert "<i>" not in page
    for word in ("a &lt; b", "&lt;i&gt;", "&amp;", "c &gt; d"):
        assert word in page


def test_a_tidy_frame(result, diverged):
    pytest.importorskip("pandas")
    frame = result.to_frame(["rmsve", "neu"])
    assert list(frame.columns) == ["run", "step", "rmsve", "neu", "alpha", "diverged"]
    assert len(frame) == 4 * 6
    np.testing.assert_array_equal(frame.query("run == 2").rmsve, gradtd.measure(result)[2])
    np.testing.assert_array_equal(frame.query("run == 3").step, result.steps)
    assert list(diverged.to_frame().diverged) == [False, True] * 3


def test_without_pandas_that_is_said(result, monkeypatch):
    normal = builtins.__import__

    def without(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return normal(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(gradtd.InputError, match="to_frame needs pandas: pip install"):
        result.to_frame()


def test_a_picture_and_a_page(result, tmp_path):
    axes = result.plot(tmp_path / "curve.svg", "neu")
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), gradtd.measure(result, "neu").mean(axis=0))
    assert "NEU" in (tmp_path / "curve.svg").read_text()
    assert result.plot().get_ylabel() == "RMSVE"
    text = result.page(tmp_path / "run.html").read_text()
    for word in ("td on boyan_chain", "0.0625", "data:image/svg+xml", "numpy"):
        assert word in text
    assert "http" not in re.sub(r'src="data:[^"]*"', "", text)  # but for the names of SVG's own vocabulary
    with pytest.raises(gradtd.InputError, match=r"path takes a file that ends in .png, .svg or .pdf"):
        result.plot(tmp_path / "curve.gif")


def test_over_a_stream_there_is_no_exact_error(tmp_path):
    result = gradtd.learn(gradtd.sample("boyan_chain", 200), "impression_gtd", alpha=1, snapshots=100)
    assert list(result.table().columns) == ["step", "alpha"]
    assert "data:image" not in result.page(tmp_path / "run.html").read_text()
    pytest.importorskip("pandas")
    assert list(result.to_frame().columns) == ["run", "step", "alpha", "diverged"]
    with pytest.raises(gradtd.InputError, match="the exact metrics need a problem"):
        result.to_frame("rmsve")


def test_a_problem_without_values_still_has_a_table():
    endless = gradtd.Problem(
        "endless",
        gradtd.FiniteMDP(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.array([False]), np.ones(1)),
        np.ones((1, 1)),
        np.ones((1, 1)),
        np.ones((1, 1)),
        1.0,
        block=10,
    )
    result = gradtd.run(endless, "td", alpha=0.1, runs=2, steps=50)
    assert "alpha" in result._repr_html_()
