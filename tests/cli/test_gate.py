"""Conditions that set the exit code of `gradtd evaluate`, and the card."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gradtd
from commands import refused
from gradtd.cli.app import app

FAST = ("--gamma", "1", "--resamples", "5", "--threads", "1")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Episodes of two steps; action 1 earns 1. The behaviour takes it half of the time, the target in 60 %: 1.2."""
    rng, n = np.random.default_rng(0), 800
    action = rng.integers(0, 2, n)
    table = {
        "episode": np.arange(n) // 2,
        "obs": np.arange(n) % 2,
        "action": action,
        "reward": action + 0.1 * rng.normal(size=n),
        "terminated": np.arange(n) % 2 == 1,
        "behaviour": np.full(n, 0.5),
        "target": np.where(action == 1, 0.6, 0.4),
    }
    path = tmp_path_factory.mktemp("gate") / "log.parquet"
    pq.write_table(pa.table(table), path)
    return str(path)


def run(log, *options):
    return CliRunner().invoke(app, ["evaluate", log, *FAST, *options])


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--require", "usable", "--at-least", "1.0"), 0, ""),
        (("--at-least", "1.2"), 3, "below --at-least 1.2"),
        (("--better-than", "behaviour"), 0, ""),
        (("--target", "a=target", "--target", "b=target", "--better-than", "b"), 3, "a is not shown to be better"),
    ],
)
def test_conditions_set_the_exit_code(log, options, code, sentence):
    outcome = run(log, *options)
    assert outcome.exit_code == code, outcome.output
    assert sentence in " ".join(outcome.output.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--better-than", "elsewhere"), "also give that target"),
        (("--card", "card.html"), "--card needs --question"),
        (("--question", "why?"), "add --card"),
        (("--require", "perfect"), "--require must be"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused_before_the_work(log, options, sentence):
    outcome = run(log, *options)
    assert isinstance(outcome.exception, gradtd.InputError)
    assert sentence in str(outcome.exception)


def test_two_failed_conditions_are_both_named(log):
    outcome = run(log, "--at-least", "1.9", "--clip", "0.6", "--require", "usable")
    assert outcome.exit_code == 3
    assert "--require usable" in outcome.output
    assert "--at-least 1.9" in outcome.output


def test_the_card_has_the_log_and_the_command(log, tmp_path):
    card = tmp_path / "card.html"
    assert run(log, "--card", str(card), "--question", "Deploy?").exit_code == 0
    told = json.loads(card.with_suffix(".json").read_text())
    assert told["question"] == "Deploy?"
    assert told["data"]["files"][0]["name"] == "log.parquet"
    assert told["command"].startswith("gradtd ")


@pytest.mark.parametrize("text", ["raise SystemExit(0)", "def f(seen):\n    raise SystemExit(0)"])
def test_a_target_that_exits_does_not_pass_the_gate(log, tmp_path, text):
    (tmp_path / "exits.py").write_text(text + "\n")
    outcome = run(log, "--target", f"{tmp_path / 'exits.py'}:f", "--require", "usable")
    assert isinstance(outcome.exception, gradtd.InputError)
    assert "SystemExit" in str(outcome.exception)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--target", "behaviour", "--better-than", "behaviour"), "is the only target"),
        (("--target", "behaviour=target", "--better-than", "behaviour"), "give the target another name"),
        (("--at-least", "nan"), "--at-least must be finite"),
    ],
)
def test_a_condition_that_compares_nothing_is_refused(log, options, sentence):
    """It would be met by every log."""
    outcome = run(log, *options)
    assert sentence in str(outcome.exception)


@pytest.mark.parametrize("condition", [("--at-least", "-9"), ("--better-than", "behaviour")])
def test_what_is_not_usable_meets_no_condition(log, tmp_path, condition):
    few = tmp_path / "few.parquet"
    pq.write_table(pq.read_table(log).slice(0, 12), few)
    outcome = run(str(few), *condition)
    assert outcome.exit_code == 3
    assert "not usable" in outcome.output.splitlines()[-1]


def test_a_card_does_not_replace_the_log(log, tmp_path):
    rows = tmp_path / "log.json"
    rows.write_text(pq.read_table(log).to_pandas().to_json(orient="records"))
    before = rows.read_text()
    outcome = run(str(rows), "--card", str(tmp_path / "log.html"), "--question", "why?")
    assert "is not an evaluation card" in str(outcome.exception)
    assert rows.read_text() == before
    again = ("--card", str(tmp_path / "card.html"), "--question", "why?")
    assert [run(str(rows), *again).exit_code for _ in range(2)] == [0, 0]


def test_what_is_saved_does_not_replace_the_log(log, tmp_path):
    path = tmp_path / "log.npz"
    table = pq.read_table(log)
    np.savez(path, **{name: table[name].to_numpy() for name in table.column_names})
    before = path.read_bytes()
    assert "is the log" in str(run(str(path), "--save", str(path)).exception)
    improved = CliRunner().invoke(app, ["improve", str(path), "--gamma", "1", "--save", str(path)])
    assert "is the log" in str(improved.exception)
    assert path.read_bytes() == before


def test_outputs_do_not_replace_each_other_or_the_target(log, monkeypatch, capsys, tmp_path):
    """The card replaced the page, and the saved evaluation the policy that it is about."""
    both, policy = str(tmp_path / "both.html"), tmp_path / "policy.npz"
    gradtd.improve(log, 1.0, least=5, progress=False).policy.save(policy)
    given = ("evaluate", str(log), "--gamma", "1")
    said = refused(monkeypatch, capsys, *given, "--page", both, "--card", both, "--question", "Which?")
    assert "--page and --card are the same file" in said
    said = refused(monkeypatch, capsys, *given, "--target", f"new={policy}", "--save", str(policy))
    assert "is the target, which it would replace" in said
