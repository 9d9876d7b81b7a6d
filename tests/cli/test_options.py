"""What the commands share: settings and numbers as they are typed, completion; and pages that need no other file."""

import subprocess
import sys
import types
from inspect import signature

import pytest
import typer

import gradtd
from gradtd import InputError
from gradtd.cli.evaluate import evaluate as command
from gradtd.cli.options import (
    complete_algorithm,
    complete_any,
    complete_metric,
    complete_problem,
    complete_setting,
    hyper_parameters,
    number,
    step_size,
)
from gradtd.core import parsing
from gradtd.output.pages import render


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
    assert hyper_parameters("tdrc", ["beta=2"], alpha=0.5, lam=None) == {"alpha": 0.5, "beta": 2}
    with pytest.raises(InputError, match="--set alpha is given together with --alpha: leave one of them out"):
        hyper_parameters("td", ["alpha=1"], alpha=0.5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16),
        ("-1", -1),
        ("1/16", 0.0625),
        ("4/2", 2),
        ("1.0/2", 0.5),
        ("1e3", 1000.0),
        ("9007199254740993", 2**53 + 1),
        ("true", True),
        ("None", None),
        ("auto", "auto"),
        ("1/0", "1/0"),
        ("1/2/4", "1/2/4"),
        ("a/b", "a/b"),
    ],
)
def test_values_as_they_are_typed(text, value):
    found = parsing.parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_numbers_as_they_are_typed():
    assert (number("1/16"), number("3"), number(0.95), step_size("auto"), step_size("1/4")) == (
        0.0625,
        3,
        0.95,
        "auto",
        0.25,
    )
    for text in ("x", "true", "1/0", "none"):
        with pytest.raises(typer.BadParameter, match="is not a number; write for example"):
            number(text)
    with pytest.raises(typer.BadParameter, match="beyond the largest number"):
        number("1" + "0" * 400)


def test_the_shell_completes_names():
    assert [name for name, _ in complete_problem("random_walk_")] == [
        *("random_walk_tabular", "random_walk_inverted", "random_walk_dependent")
    ]
    assert complete_algorithm("impression")[0][0] == "impression_gtd"
    assert [name for name, _ in complete_metric("rm")] == ["rmsve", "rmspbe"]
    assert {"td", "tdc", "two_state"} <= {name for name, _ in complete_any("t")}
    context = types.SimpleNamespace(params={"algorithm": "tdrc"})
    assert "beta=" in dict(complete_setting(context, "b"))
    assert "alpha=" not in dict(complete_setting(context, "b"))
    assert list(complete_setting(types.SimpleNamespace(params={"algorithm": "no such"}), "")) == []


def test_a_value_that_a_template_lacks_is_an_error():
    import jinja2

    with pytest.raises(jinja2.UndefinedError):
        render("evaluation.html", command="")


def test_defaults_of_the_command_are_those_of_the_function():
    """The command repeats a default where importing it would load all of the evaluation before any help is shown."""
    records = (gradtd.evaluate, gradtd.LogFormat, gradtd.Inference, gradtd.Machine)
    theirs = {name: one.default for record in records for name, one in signature(record).parameters.items()}
    ours = {name: one.default for name, one in signature(command).parameters.items() if name not in ("log", "gamma")}
    both = (ours.keys() & theirs.keys()) - {
        "log_probabilities",
        "one_step",
        "own_refits",
    }  # flags, where these are words
    assert len(both) > 20
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}


def test_help_loads_nothing_that_computes():
    heavy = ("numba", "scipy", "pyarrow", "matplotlib", "gradtd.evaluation")
    code = f"import sys; from gradtd.cli.app import app; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_list_works_without_docstrings():
    printed = subprocess.run([sys.executable, "-OO", "-m", "gradtd", "list"], capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    assert "impression_gtd" in printed.stdout
