"""Faults that practitioners have in a log: each is named, and sound logs are not."""

import numpy as np
import pytest

from gradtd import Inference, Machine, evaluate
from naive.evaluation import walk


def noisy(episodes=100, seed=0):
    """A walk with a reward in every step."""
    log = walk(episodes, seed)
    return log | {"reward": log["reward"] + np.random.default_rng(seed).normal(0.5, 0.2, len(log["reward"]))}


def found(log, **more):
    return evaluate(log, gamma=0.9, machine=Machine(threads=1), **more)


def test_a_sound_log_has_none():
    """One seed; of 200 sound logs of trust_cases at most 2 % are named."""
    told = found(noisy())
    assert told.numbers["repeated"] == 0.0
    assert abs(told.numbers["drift"]) < 4
    assert "rewards_late" not in told.numbers
    assert "first_rewards_none" not in told.numbers


@pytest.mark.parametrize("name", ["action_prob", "target"])
def test_probabilities_in_single_precision(name):
    """Equal ratios of 1 + 3e-8 have no error, so they were any number of errors from 1."""
    log = noisy()
    for share in (0.6, 0.7):  # one is rounded up, one down
        equal = np.full(len(log["reward"]), share)
        assert found(log | {"action_prob": equal, "target": equal, name: equal.astype(np.float32)}).verdict == "usable"


def test_probabilities_in_half_precision_move_the_value():
    log = noisy()
    equal = np.full(len(log["reward"]), 1 / 3)
    told = found(log | {"action_prob": equal.astype(np.float16), "target": equal})
    assert told.verdict == "not usable"
    assert "The mean importance ratio is 1.00024;" in told.reasons[0]


def test_rewards_that_drift():
    log = noisy()
    order = np.unique(log["episode"], return_inverse=True)[1]
    told = found(log | {"reward": log["reward"] + 0.02 * order})
    assert told.verdict == "not usable"
    assert any("drifts over the log" in reason for reason in told.reasons)


def late(log):
    first = np.r_[True, log["episode"][1:] != log["episode"][:-1]]
    return log | {"reward": np.where(first, 0.0, np.r_[0.0, log["reward"][:-1]])}


def test_rewards_one_row_late():
    """Rewards by the state: the row before explains them, and their own does not."""
    log = noisy()
    log["reward"] = log["reward"] + np.random.default_rng(1).normal(0, 1, 10)[log["obs"]]
    assert "rewards_late" not in found(log).numbers
    told = found(late(log))
    assert told.numbers["rewards_late"] is True
    assert told.verdict != "usable"
    assert any("one row too late" in reason for reason in told.reasons)


@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_rewards_shifted_by_a_row(seed):
    """The first reward of an episode is the last one of the episode before. Rewards with much noise: their rows tell a
    fifth of them, which was too little for a test within episodes."""
    log = noisy(60, seed)
    of_state = np.linspace(-0.5, 0.5, 5)[log["obs"]] + 0.5 * np.random.default_rng(seed).normal(size=len(log["obs"]))
    log["reward"] = of_state
    assert "rewards_late" not in found(log).numbers
    told = found(log | {"reward": np.roll(of_state, 1)})
    assert told.numbers["rewards_late"] is True


def test_first_rewards_that_are_all_zero():
    """Rewards that are noise fit any row. That the first of each episode is 0 is a warning, where the time is known."""
    log = late(noisy())
    told = found(log, inference=Inference(with_time=True))
    assert any("The first reward of every episode is 0" in warning for warning in told.warnings)
    told = found(log)
    assert told.verdict != "usable"
    assert any("one row too late" in reason for reason in told.reasons)


def test_episodes_that_appear_twice():
    log = noisy()
    again = {name: np.r_[values, values] for name, values in log.items()}
    again["episode"] = np.r_[log["episode"], log["episode"] + 1 + log["episode"].max()]
    told = found(again)
    assert any("equal to an earlier one" in warning for warning in told.warnings)
