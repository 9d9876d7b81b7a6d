"""What the commands share: settings as they are typed, the progress bar; and pages that need no other file."""

import base64
import io

import pytest
from rich.console import Console

from gradtd import InputError
from gradtd.cli.options import hyper_parameters
from gradtd.core import progress as terminal
from gradtd.core.progress import progress_bar
from gradtd.output.pages import embedded, render


def test_settings_of_an_algorithm():
    assert hyper_parameters("tdrc", ["alpha=1/16", "beta=2"]) == {"alpha": 0.0625, "beta": 2}
    assert hyper_parameters("td", []) == {}
    for texts, message in (
        (["alhpa=1"], "did you mean 'alpha'"),
        (["alpha=1", "alpha=2"], "--set alpha is given twice"),
        (["alpha="], "--set takes name=value, got 'alpha='"),
        (["=1"], "--set takes name=value"),
    ):
        with pytest.raises(InputError, match=message):
            hyper_parameters("td", texts)
    with pytest.raises(InputError, match="unknown algorithm 'tdd'"):
        hyper_parameters("tdd", ["alpha=1"])


def watched(monkeypatch, seconds):
    """Somebody watches, and so many seconds have gone by."""
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=100))
    times = iter([0.0] + [seconds] * 100)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(times))
    return shown


@pytest.mark.parametrize(("seconds", "visible"), [(0.5, False), (2.0, True)])
def test_a_bar_is_shown_once_the_work_takes_long(monkeypatch, seconds, visible):
    shown = watched(monkeypatch, seconds)
    with progress_bar("my log", what=True) as report:
        report("refitting", 5, 20)
    assert ("refitting" in shown.getvalue()) == visible
    assert ("25%" in shown.getvalue()) == visible
    shown = watched(monkeypatch, seconds)
    with progress_bar("td on boyan_chain") as report:
        report(5, 20)
    assert ("td on boyan_chain" in shown.getvalue()) == visible
    assert ("5/20" in shown.getvalue()) == visible


def test_no_bar_where_nobody_watches(capsys):
    with progress_bar("my log", what=True) as report:
        assert report is None
    assert capsys.readouterr() == ("", "")


def test_pictures_become_text(tmp_path):
    (tmp_path / "p.png").write_bytes(b"\x89PNG and more")
    assert base64.b64decode(embedded(tmp_path / "p.png")) == b"\x89PNG and more"
    assert embedded(b"\x89PNG and more") == embedded(tmp_path / "p.png")


def test_a_value_that_a_template_lacks_is_an_error():
    import jinja2

    with pytest.raises(jinja2.UndefinedError):
        render("evaluation.html", command="")
