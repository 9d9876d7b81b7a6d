"""The section on assumptions: status, what was done, and what happens where one fails."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app

GIVEN = {"gamma": 0.9, "progress": False, "machine": gradtd.Machine(threads=1)}
NAMES = ["probabilities", "cause", "contain", "independent", "learned", "once", "spaced"]


def _log(episodes=200, seed=0):
    """Episodes that end with a chance of .25 after every step, whatever the state."""
    rng = np.random.default_rng(seed)
    length = rng.geometric(0.25, episodes)
    episode, n = np.repeat(np.arange(episodes), length), int(length.sum())
    t = np.arange(n) - np.repeat(np.cumsum(length) - length, length)
    state, action = rng.integers(0, 3, n), rng.integers(0, 2, n)
    return {
        "episode": episode,
        "obs": state,
        "action": action,
        "reward": rng.normal(state + action, 1),
        "terminated": (t == length[episode] - 1).astype(int),
        "action_prob": np.full(n, 0.5),
        "hours": 1.0 * t,
        "pi": np.where(action == 1, 0.7, 0.3),
        "train": episode % 2,
    }


def _status(made):
    assert len(made.assumptions) == len(NAMES)
    assert all(word in one.assumption for word, one in zip(NAMES, made.assumptions, strict=True))
    return dict(zip(NAMES, (one.status for one in made.assumptions), strict=True))


def _evaluate(log, target=((0.3, 0.7), (0.6, 0.4), (0.5, 0.5)), **more):
    return gradtd.evaluate(log, np.array(target) if isinstance(target, tuple) else target, **GIVEN, **more)


def test_what_a_plain_evaluation_assumes():
    made = _evaluate(_log())
    assert _status(made) == {
        "probabilities": "checked",
        "cause": "assumed",
        "contain": "checked",
        "independent": "checked",
        "learned": "assumed",
        "once": "assumed",
        "spaced": "assumed",
    }
    assert made.to_dict()["assumptions"][1]["status"] == "assumed"


def test_what_was_asked_for_is_taken_into_account():
    asked = gradtd.Inference(confounding=1.5, anytime=True, trained_on="train", time_column="hours")
    made = _evaluate(_log(), inference=asked)
    found = _status(made)
    assert [found[name] for name in ("learned", "once", "spaced")] == ["taken into account"] * 3
    assert made.assumptions[1].if_it_fails == made.confounding.tips


@pytest.mark.parametrize("value_function", ["state", "action"])
def test_what_needs_no_probabilities(value_function):
    target = "behaviour" if value_function == "state" else ((0.3, 0.7), (0.6, 0.4), (0.5, 0.5))
    found = _status(_evaluate(_log(), target, value_function=value_function))
    assert found["probabilities"] == "not needed"
    assert found["cause"] == ("not needed" if value_function == "state" else "assumed")


def test_what_fails():
    log = _log()
    wrong = _status(_evaluate(log | {"action_prob": np.where(log["action"] == 1, 0.3, 0.9)}))
    assert wrong["probabilities"] == "failed"
    drifting = _status(_evaluate(log | {"reward": log["reward"] + 0.02 * log["episode"]}))
    assert drifting["independent"] == "failed"
    estimated = {name: values for name, values in log.items() if name != "action_prob"}
    assert _status(_evaluate(estimated, behaviour="estimate"))["probabilities"] == "taken into account"
    assert _status(_evaluate(log, algorithm="wis"))["contain"] == "assumed"


def test_the_text_the_page_and_the_json_have_the_section(tmp_path):
    path = gradtd.write_log(gradtd.read_log(_log(), keep=["pi"]), tmp_path / "log.parquet")
    page = tmp_path / "page.html"
    given = ["evaluate", str(path), "--gamma", ".9", "--target", "pi", "--threads", "1"]
    outcome = CliRunner().invoke(app, [*given, "--page", str(page)])
    assert "Assumptions\n" in outcome.output
    assert "--confounding 1.5 shows how strong" in outcome.output
    assert "--trained-on train." in outcome.output
    assert "No unrecorded cause drives both actions and outcomes." in page.read_text()
    assert len(json.loads(CliRunner().invoke(app, [*given, "--json"]).output)["assumptions"]) == len(NAMES)
