"""Logs whose observations hide the time: the fits with the time beside the features, and what they refuse."""

import numpy as np
import pytest

from gradtd import Machine, evaluate, read_log, write_log

LENGTH, EPISODES, GAMMA = 20, 300, 0.9
TRUTH = (1 - GAMMA**LENGTH) / (1 - GAMMA)


def of_fixed_length(kind, seed=0, ended=True, told=False):
    """A reward of one per step, with noise, for 20 steps; observations that have nothing to do with it."""
    rng = np.random.default_rng(seed)
    n = LENGTH * EPISODES
    last = np.tile(np.arange(LENGTH) == LENGTH - 1, EPISODES)
    log = {
        "episode": np.repeat(np.arange(EPISODES), LENGTH),
        "reward": rng.normal(1, 1, n),
        "terminated": last & ended,
        "truncated": last & (not ended),
        "rho": rng.choice([0.5, 1.5], n),
    }
    if kind == "states":
        return log | {"obs": rng.integers(0, 8, n)}
    time = np.tile(np.arange(LENGTH), EPISODES) / LENGTH
    return log | {"obs_0": rng.normal(size=n), "obs_1": time if told else rng.normal(size=n)}


@pytest.mark.parametrize("kind", ["states", "numbers"])
def test_a_hidden_time_is_refused(kind):
    """The truth is 8.78. LSTD's own interval is [6.8, 7.3], and was usable before the time was looked at."""
    named = {"states": "one-hot", "numbers": "polynomial"}[kind]
    found = evaluate(of_fixed_length(kind), gamma=GAMMA, features=named, machine=Machine(threads=1))
    assert found.verdict == "not usable"
    assert next(row for row in found.estimates if row.method == "lstd").high < TRUTH
    assert any("do not contain" in reason and "truncated" in reason for reason in found.reasons), found.reasons
    timed = [check for check in found.checks if check.kind == "time" and check.low <= TRUTH <= check.high]
    assert timed
    cured = evaluate(of_fixed_length(kind), gamma=GAMMA, machine=Machine(threads=1))  # takes the time by itself
    assert cured.verdict == "usable"
    assert cured.interval[0] <= TRUTH <= cured.interval[1]


@pytest.mark.parametrize("kind", ["states", "numbers"])
def test_a_time_that_does_not_matter_is_not(kind):
    """Cut off at the same length the value is 10 at any time."""
    found = evaluate(of_fixed_length(kind, ended=False), gamma=GAMMA, machine=Machine(threads=1))
    assert (found.verdict, found.reasons) == ("usable", ())
    assert found.interval[0] < 1 / (1 - GAMMA) < found.interval[1]


def test_a_time_that_is_told_is_not():
    found = evaluate(of_fixed_length("numbers", told=True), gamma=GAMMA, machine=Machine(threads=1))
    assert (found.verdict, found.reasons) == ("usable", ())
    assert found.interval[0] < TRUTH < found.interval[1]


def test_a_hidden_time_is_refused_in_parts_and_for_values_of_actions(tmp_path):
    made = of_fixed_length("numbers", 1)
    path = write_log(read_log(made), tmp_path / "log.parquet")
    found = evaluate(str(path), gamma=GAMMA, features="identity", machine=Machine(in_parts=True, threads=1))
    whole = evaluate(str(path), gamma=GAMMA, features="identity", machine=Machine(threads=1))
    for one in (found, whole):
        assert one.verdict == "not usable"
        assert any("do not contain" in reason for reason in one.reasons)
    both = [next(check for check in one.checks if check.kind == "time") for one in (found, whole)]
    assert both[0].value == pytest.approx(both[1].value, rel=1e-6)
    rng, states = np.random.default_rng(2), of_fixed_length("states", 2)
    del states["rho"]
    actions = evaluate(
        states | {"action": rng.integers(0, 2, len(states["obs"]))},
        target=np.tile([0.3, 0.7], (8, 1)),
        value_function="action",
        gamma=GAMMA,
        machine=Machine(threads=1),
    )
    assert actions.verdict == "not usable"  # without ratios the fit with memory finds it too
    assert "the time" in actions.reasons[0]
    assert any(check.kind == "time" and check.low <= TRUTH <= check.high for check in actions.checks)
