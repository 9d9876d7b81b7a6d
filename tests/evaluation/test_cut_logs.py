"""Logs whose episodes were all cut after a few steps: where they were cut, no step has that time or that past."""

import numpy as np
import pytest

from gradtd import Inference, evaluate

GAMMA = 0.95


def walk(episodes, seed, longest, noise=0.0):
    """Steps of a walk on 1 to 5 that begins at 2 or 3, at most so many of each episode. Its end at 6 earns 1."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        state = int(rng.integers(2, 4))
        for t in range(longest):
            right = 0.4 + 0.04 * state
            action = int(rng.random() < right)
            after = state + (1 if action else -1)
            reward = (after == 6) + 0.1 * (state == 4)
            own = (right, 0.7) if action else (1 - right, 0.3)
            rows.append((episode, t, state + noise * rng.normal(), action, reward, after in (0, 6), *own))
            state = after
            if after in (0, 6):
                break
    names = ("episode", "t", "obs", "action", "reward", "terminated", "behaviour", "target")
    table = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return table if noise else table | {"obs": table["obs"].astype(int)}


def truth():
    value = np.zeros(7)
    for _ in range(1000):
        for s in range(1, 6):
            value[s] = 0.1 * (s == 4) + 0.7 * ((s == 5) + GAMMA * value[s + 1]) + 0.3 * GAMMA * value[s - 1]
            value[[0, 6]] = 0
    return value[2:4].mean()


@pytest.mark.parametrize(("longest", "noise"), [(3, 0.0), (5, 0.0), (4, 0.01)])
def test_a_cut_is_not_taken_for_an_end_because_the_past_was_added(longest, noise):
    """The last row of a cut episode has no next observation. gradtd added the past, found 0 after the cut, and called
    a value of 0.26 of 0.79 usable.
    """
    found = evaluate(walk(1500, 5, longest, noise), gamma=GAMMA)
    low, high = found.interval
    assert low <= truth() <= high or found.verdict == "not usable"
    assert abs(found.value - truth()) < 0.05


def test_a_time_that_was_asked_for_is_not_usable_behind_a_common_cut():
    found = evaluate(walk(300, 1, 5), gamma=GAMMA, inference=Inference(with_time=True))
    assert found.verdict == "not usable"
    assert any("after truncations, in states or at times" in reason for reason in found.reasons), found.reasons


def test_a_time_that_was_asked_for_is_fine_where_later_steps_are_known():
    found = evaluate(walk(300, 1, 60), gamma=GAMMA, inference=Inference(with_time=True))
    assert found.diagnostics.unseen_after_cuts < 0.01


@pytest.mark.parametrize("told", [True, False])
def test_states_that_contain_the_time_are_not_usable_behind_a_common_cut(told):
    """gradtd called 0.34 of 0.79 usable, without a warning."""
    log = walk(800, 5, 4)
    log["obs"] = 10 * log["obs"] + log["t"]
    if told:
        after = np.r_[log["obs"][1:], 0] // 10  # the last of an episode is not its own: any state of the time after
        log["next_obs"] = 10 * np.where(np.diff(log["episode"], append=-1) == 0, after, 3) + log["t"] + 1
        log["truncated"] = (log["t"] == 3) & ~log["terminated"]
    found = evaluate(log, gamma=GAMMA)
    assert found.verdict == "not usable"
    assert any("after truncations, in states" in reason for reason in found.reasons)


def test_a_log_that_is_cut_anywhere_is_usable():
    """Every episode is cut at a time of its own, often before its end."""
    log = walk(800, 5, 60)
    cut = np.random.default_rng(0).geometric(0.15, 800)
    kept = log["t"] <= cut[log["episode"]]
    found = evaluate({name: values[kept] for name, values in log.items()}, gamma=GAMMA)
    assert found.diagnostics.unseen_after_cuts < 0.01
    assert found.verdict == "usable"
