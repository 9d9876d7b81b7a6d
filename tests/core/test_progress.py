"""The progress bar: shown where somebody watches, once the work takes long, and never twice."""

import io
import sys
import time
import types

import numpy as np
import pytest

import gradtd
from gradtd.compiled import engine
from gradtd.core import progress
from gradtd.core.progress import progress_bar, stage


class Watcher(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Somebody watches a terminal that shows a bar at once."""
    shown = Watcher()
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=shown, modules={}))
    monkeypatch.setattr(progress, "WAIT", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return shown


def _until(condition):
    """Wait for the bar's thread; 20 seconds are far more than it takes."""
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_a_bar_says_what_is_done_and_how_far_it_is(terminal):
    with progress_bar("my log", what=True) as report:
        report("refitting", 5, 20)
        assert _until(lambda: "refitting" in terminal.getvalue() and "25%" in terminal.getvalue())
    with progress_bar("td on boyan_chain") as report:
        report(15, 20)
        assert _until(lambda: "td on boyan_chain" in terminal.getvalue() and "75%" in terminal.getvalue())


def test_a_bar_appears_before_the_first_piece_is_done(terminal):
    with progress_bar("compiling, maybe [for long]"):
        assert _until(lambda: "compiling, maybe [for long]" in terminal.getvalue())


def test_no_bar_where_the_work_is_short(terminal, monkeypatch):
    monkeypatch.setattr(progress, "WAIT", 3600.0)
    with progress_bar("td") as report:
        report(1, 2)
    assert terminal.getvalue() == ""
    with progress_bar("td", progress=True) as report:
        report(1, 2)
        assert _until(lambda: "50%" in terminal.getvalue())


def test_no_bar_where_none_is_wanted(terminal):
    with progress_bar("td", progress=False) as report:
        assert report is None
    told = []
    gradtd.run("boyan_chain", "lstd", runs=3, steps=20, threads=1, progress=lambda *now: told.append(now))
    gradtd.run("boyan_chain", "lstd", runs=3, steps=20, threads=1, progress=False)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert terminal.getvalue() == ""
    with pytest.raises(gradtd.InputError, match="progress must be True, False, None or a function, got 'yes'"):
        gradtd.run("boyan_chain", "lstd", runs=1, steps=20, progress="yes")


def test_no_bar_where_nobody_watches(capsys):
    with progress_bar("my log", what=True) as report:
        assert report is None
    assert capsys.readouterr() == ("", "")


def test_no_bar_inside_another(terminal):
    with progress_bar("outer") as outer:
        assert outer is not None
        with progress_bar("inner") as inner:
            assert inner is None
    with progress_bar("next") as after:
        assert after is not None


def test_a_display_that_fails_does_not_end_the_work(terminal, monkeypatch):
    def broken():
        tried.append(True)
        raise RuntimeError("another display is there")

    tried = []
    monkeypatch.setattr(progress, "Terminal", broken)
    with progress_bar("td") as report:
        assert _until(lambda: tried)
        report(1, 2)


def test_a_bar_in_a_notebook(monkeypatch):
    pages = []
    handle = types.SimpleNamespace(update=lambda page, raw: pages.append(page["text/html"]))
    shell = type("ZMQInteractiveShell", (), {})()
    display = types.SimpleNamespace(display=lambda page, raw, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell, display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with progress_bar("a < b", progress=True) as report:
        assert _until(lambda: pages)
        report(3, 4)
    assert pages[0] == "a &lt; b <progress></progress>"
    assert pages[-2:] == ['a &lt; b <progress value="3" max="4"></progress> 3 of 4', ""]


def test_one_stage_of_several():
    told = []
    report = stage(lambda *now: told.append(now), "reading")
    report(1, 2)
    assert told == [("reading", 1, 2)]
    assert stage(None, "reading") is None


def test_no_bar_stands_at_the_end_of_a_stage(terminal):
    """What comes after a stage may take long, and says nothing of how far it is."""
    with progress_bar("my log", what=True) as report:
        report("refitting", 1, 4)
        assert _until(lambda: "25%" in terminal.getvalue())
        report("refitting", 4, 4)
        time.sleep(0.3)
    assert "100%" not in terminal.getvalue()


def test_a_bar_says_what_is_compiled(terminal):
    """The function is compiled here and now: the number that it reads is another one in every run."""
    other = time.time_ns()

    def double(values):
        values[0] = 2.0 * values[0] + 0.0 * other

    compiled = engine.compile_function(double, compile=True)
    with progress_bar("my log") as report:
        report(1, 4)
        assert _until(lambda: "25%" in terminal.getvalue())
        compiled(np.ones(3))
        assert "compiling double (once, about 1 s)" in terminal.getvalue()
        before = terminal.getvalue().count("compiling")
        compiled(np.ones(4))
        report(2, 4)
        assert _until(lambda: "50%" in terminal.getvalue())
    assert terminal.getvalue().count("compiling") == before
