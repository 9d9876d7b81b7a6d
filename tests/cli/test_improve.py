"""``gradtd improve``: the answer, the policy in a file, and that file as a target."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=400)
    columns = {"obs": rng.integers(3, size=400), "action": action, "action_prob": np.full(400, 0.5)}
    columns["reward"] = 0.3 * action + rng.normal(0, 0.5, 400)
    names = list(columns)
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "log.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    return "log.csv"


def typed(*arguments):
    made = CliRunner().invoke(app, list(arguments))
    assert made.exit_code == 0, made.output
    return made.output


def test_the_answer_and_the_policy_as_a_target(log):
    said = typed("improve", log, "--gamma", "1", "--one-step", "--save", "policy.npz")
    assert said.startswith("Better by 0.")
    assert "verdict: usable" in said
    assert "Where the policies differ" in said
    assert said.rstrip().endswith("saved: policy.npz")
    assert gradtd.load_policy("policy.npz").actions == (0, 1)
    value = json.loads(typed("evaluate", log, "--gamma", "1", "--one-step", "--target", "policy.npz", "--json"))[
        "value"
    ]
    assert 0.15 < value < 0.45


def test_json_has_the_answer(log):
    told = json.loads(typed("improve", log, "--gamma", "1", "--one-step", "--least", "5,20", "--json"))
    assert told["answer"] == "better"
    assert told["saved"] is None
    assert [one["least"] for one in told["candidates"]] == [5, 20]


def test_a_file_that_is_no_policy_is_one_sentence(log):
    np.savez("other.npz", table=np.eye(2))
    made = CliRunner().invoke(app, ["evaluate", log, "--gamma", "1", "--one-step", "--target", "other.npz"])
    assert isinstance(made.exception, gradtd.InputError)
    assert "is not a policy that gradtd saved" in str(made.exception)


def test_real_actions_become_bins(log):
    rng = np.random.default_rng(1)
    state, action = rng.integers(2, size=500), rng.normal(0, 0.7, 500)
    reward = -((action - np.array([-0.7, 0.7])[state]) ** 2)
    rows = [f"{s},{a},{r}" for s, a, r in zip(state, action, reward, strict=True)]
    with open("real.csv", "w") as file:
        file.write("\n".join(["obs,action,reward", *rows]) + "\n")
    said = typed("improve", "real.csv", "--gamma", "1", "--one-step", "--bins", "-0.4,0.4", "--save", "policy.npz")
    assert said.startswith("Better by")
    assert "-> below -0.4" in said
    told = json.loads(typed("improve", "real.csv", "--gamma", "1", "--one-step", "--bins", "3", "--json"))
    assert len({change["more"] for change in told["changes"]}) == 2
    again = typed("evaluate", "real.csv", "--gamma", "1", "--one-step", "--target", "policy.npz", "--json")
    assert json.loads(again)["value"] > reward.mean() + 0.2


def test_iterations_are_candidates(log):
    told = json.loads(
        typed("improve", log, "--gamma", "1", "--one-step", "--least", "5", "--iterations", "1,3", "--json")
    )
    assert [one["iterations"] for one in told["candidates"]] == [1, 3]
