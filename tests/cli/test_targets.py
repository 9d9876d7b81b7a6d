"""``gradtd evaluate`` with targets as users have them, and the log of a bandit."""

from pathlib import Path

import numpy as np
import pytest

import gradtd
from cli.test_evaluate import as_json, typed, write  # noqa: F401 (a fixture)
from cli.test_evaluate_refusals import refused  # noqa: F401 (a fixture)
from logs.test_targets import COLUMNS, EVERY, TAKEN, TARGET, bandit, table
from naive.evaluation import walk

FAST = ["--gamma", "0.9", "--algorithm", "lstd", "--resamples", "0", "--threads", "1"]
POLICIES = f"""
import numpy as np
TABLE = np.array({TARGET.tolist()})

def careful(states):
    return TABLE[states]

def greedy(states):
    return TABLE[states].argmax(axis=1)

def broken(states):
    return TABLE[states] / nothing

limit = 3
"""


@pytest.fixture
def log(tmp_path):
    (tmp_path / "policies.py").write_text(POLICIES)
    (tmp_path / "bad.py").write_text("import nowhere_to_be_found\n")
    return write(table(**COLUMNS, taken=TAKEN), tmp_path / "log.parquet")


def value(target):
    return gradtd.evaluate(
        table(**COLUMNS), gamma=0.9, target=target, algorithm="lstd", inference=gradtd.Inference(resamples=0)
    ).value


@pytest.mark.parametrize(
    "arguments",
    [
        ["--target", "taken"],
        ["--target", "pi_0,pi_1,pi_2"],
        ["--target", "new=pi_0, pi_1, pi_2"],
        ["--target-probabilities", "pi_0,pi_1,pi_2"],
        ["--target-probabilities", "pi_0,pi_1,pi_2", "--next-target-probabilities", "pi_0,pi_1,pi_2"],
        ["--target-probabilities", "a=pi_0,pi_1,pi_2", "--next-target-probabilities", "a=pi_0,pi_1,pi_2"],
        ["--target", "{folder}/policies.py:careful"],
    ],
)
def test_every_way_to_type_a_target(typed, log, tmp_path, arguments):  # noqa: F811
    found = as_json(typed(log, *FAST, "--json", *(a.format(folder=tmp_path) for a in arguments)))
    assert found["value"] == pytest.approx(value(EVERY), rel=1e-12)


def test_words_and_a_deterministic_function(typed, log, tmp_path):  # noqa: F811
    assert as_json(typed(log, *FAST, "--json", "--target", "uniform"))["value"] == value("uniform")
    greedy = as_json(typed(log, *FAST, "--json", "--target", f"{tmp_path}/policies.py:greedy"))
    assert greedy["value"] == value(np.eye(3)[TARGET.argmax(axis=1)])


def test_several_targets_have_names(typed, log, tmp_path):  # noqa: F811
    given = ["--target", f"{tmp_path}/policies.py:careful", "--target", "all=uniform", "--target", "behaviour"]
    found = as_json(typed(log, *FAST, "--json", *given))["targets"]
    assert list(found) == ["careful", "all", "behaviour"]
    assert found["careful"]["value"] == pytest.approx(value(EVERY), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "nowhere.py:careful"], "there is no file 'nowhere.py'"),
        (["--target", "policies.py"], "also needs the name of the function: policies.py:FUNCTION"),
        (["--target", "policies.py:carefull"], "has no function 'carefull'; it has careful, greedy, broken"),
        (["--target", "policies.py:limit"], "has no function 'limit'"),
        (["--target", "policies.py:broken"], "failed: NameError: name 'nothing' is not defined"),
        (["--target", "bad.py:careful"], "the file raised an error: ModuleNotFoundError: No module named"),
        (["--target", "=uniform"], "--target takes a target or NAME=TARGET, got '=uniform'"),
        (["--target", "a=uniform", "--target", "a=behaviour"], "two targets have the name 'a'"),
        (["--target", "pi_0,"], "--target takes one column per action, separated by commas"),
        (["--target-probabilities", "pi_0"], "--target-probabilities takes one column per action"),
        (["--target-probabilities", "pi_0,pi_1"], "at least 3 actions"),
        (["--target", "pi_1"], "give all columns, --target pi_1,..., in the order of the actions"),
        (["--target", "uniform", "--next-target-probabilities", "pi_0,pi_1,pi_2"], "has no target"),
        (["--target", "pi_0,pi_1,pi_7"], "there is no column 'pi_7' to keep; the columns are"),
        (["--observation", "x,v"], "there is no column 'x'"),
        (["--column", "action=none", "--target", "uniform"], "the log has no action column"),
        (["--column", "behaviour=none", "--target", "uniform"], "or --behaviour estimate to fit"),
        (["--target", "uniform", "--algorithm", "is", "--lam", "0.5"], "is has no traces, got --lam 0.5"),
        (["--percentile", "--resamples", "5", "--target", "uniform"], "--percentile needs at least 200 resamples"),
    ],
)
def test_targets_that_are_refused(refused, log, arguments, message):  # noqa: F811
    assert message in refused(log, *FAST, *arguments)


def test_a_column_that_is_not_to_be_used(typed, log):  # noqa: F811
    found = as_json(typed(log, *FAST, "--json", "--target", "taken", "--column", "truncated=none"))
    assert found["value"] == value(EVERY)  # what is not terminated is taken as cut off


def test_the_log_of_a_bandit(typed, tmp_path):  # noqa: F811
    path = write(bandit(), tmp_path / "clicks.csv")
    found = as_json(typed(path, "--gamma", "0", "--target", "uniform", "--json"))
    assert found["episodes"] == found["steps"] == 400
    said = typed(path, "--gamma", "1/2", "--target", "uniform")
    assert said.splitlines()[1] == "unchecked"
    assert "pass --one-step; otherwise name" in said
    assert typed(path, "--gamma", "1/2", "--target", "uniform", "--one-step").splitlines()[1].startswith("usable")


def test_reasons_speak_of_options(typed, tmp_path):  # noqa: F811
    path = write(walk(40), tmp_path / "log.parquet")
    said = typed(path, *FAST, "--algorithm", "td", "--set", "alpha=0.001", "--n-updates", "2")
    assert "use --algorithm lstd." in said


@pytest.mark.slow
def test_several_targets_end_with_paired_differences(typed, log, tmp_path):  # noqa: F811
    picture, page = tmp_path / "it.png", tmp_path / "it.html"
    given = ["--target", "new=pi_0,pi_1,pi_2", "--target", "uniform", "--target", "behaviour"]
    said = typed(log, *FAST, *given, "--plot", str(picture), "--page", str(page))
    end = said[said.index("paired differences on the same episodes") :]
    assert all(pair in end for pair in ("new - uniform", "new - behaviour", "uniform - behaviour", "being best"))
    assert picture.stat().st_size > 1000
    assert all(
        part in page.read_text() for part in ("Paired differences", ">new</h2>", ">uniform</h2>", ">behaviour</h2>")
    )
    found = as_json(typed(log, *FAST, *given, "--json"))
    targets, rows = found["targets"], found["comparison"]["differences"]
    assert rows[1]["value"] == targets["new"]["value"] - targets["behaviour"]["value"]
    assert sum(place["best"] for place in found["comparison"]["ranking"]) == pytest.approx(1)


def test_values_of_actions_need_no_probabilities_of_the_behaviour(typed, log, tmp_path):  # noqa: F811
    asked = [*FAST, "--value-function", "action", "--column", "behaviour=none", "--json"]
    by_function = as_json(typed(log, *asked, "--target", f"{tmp_path}/policies.py:careful"))
    by_columns = as_json(typed(log, *asked, "--target-probabilities", "pi_0,pi_1,pi_2"))
    assert by_columns["value"] == pytest.approx(by_function["value"], rel=1e-8)
    both = as_json(typed(log, *asked, "--target", "pi_0,pi_1,pi_2", "--target", "behaviour"))
    assert both["comparison"]["differences"][0]["low"] is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--value-function", "action", "--target", "taken"], "needs the target's probabilities of every action"),
        (["--value-function", "actions", "--target", "uniform"], "value_function must be one of auto, state, action"),
        (
            ["--value-function", "action", "--target", "uniform", "--clip", "3"],
            "--value-function action does not use ratios",
        ),
        (["--target", "uniform", "--action-features", "identity"], "add --value-function action"),
        (
            ["--value-function", "action", "--target", "uniform", "--action-samples", "0"],
            "action_samples must be at least 1",
        ),
    ],
)
def test_values_of_actions_that_are_refused(refused, log, arguments, message):  # noqa: F811
    assert message in refused(log, *FAST, *arguments)


@pytest.mark.slow
def test_the_command_lines_of_the_docs_on_a_table_like_open_bandit(typed, tmp_path, monkeypatch):  # noqa: F811
    """Six commands on a small table with the columns of those logs, an index and text among them."""
    page = (Path(__file__).parents[2] / "docs" / "bandits.md").read_text()
    commands = [line.split()[2:] for line in page.splitlines() if line.startswith("    gradtd evaluate obp/")]
    assert len(commands) == 4
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    n, items = 600, 3
    made = {"": np.arange(n), "timestamp": np.full(n, "2019-11-24 00:01:03.979311+00:00")}
    made |= {"item_id": rng.integers(0, items, n), "position": rng.integers(1, 4, n)}
    made |= {"click": (rng.random(n) < 0.2) * 1, "propensity_score": np.full(n, 1 / items)}
    made |= {f"user_feature_{k}": np.full(n, "cef3390ed299c09874189c387777674a") for k in range(4)}
    for command in commands:
        path = tmp_path / command[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        write(made, path)
        found = as_json(typed(*command, "--json"))
        assert found["episodes"] == n
        assert found["interval"][0] < 0.2 < found["interval"][1]
