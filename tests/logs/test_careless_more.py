"""Careless inputs that strangers found: warned of, matched by name, or refused."""

import numpy as np
import pandas as pd
import pytest

import gradtd


@pytest.fixture
def bandit():
    """Action 1 earns 10; the behaviour takes it half of the time."""
    rng, n = np.random.default_rng(1), 400
    action = rng.integers(0, 2, n)
    return {
        "obs.x": rng.normal(size=n),
        "action": action,
        "reward": action * 10.0 + rng.normal(size=n),
        "behaviour_prob": np.full(n, 0.5),
        "done": np.ones(n, bool),
    }


def test_whole_number_names_of_a_policys_frame_are_matched(bandit):
    def policy(seen):
        return pd.DataFrame(np.tile([0.9, 0.1], (len(seen), 1)), columns=[1, 0])

    found = gradtd.evaluate(bandit, policy, 0.0)
    assert found.interval[0] < 9 < found.interval[1]


def test_unsigned_actions_do_not_wrap(bandit):
    with pytest.raises(gradtd.InputError, match="must be actions"):
        gradtd.evaluate(bandit, lambda seen: np.full(len(seen), 2**64 - 2, np.uint64), 0.0)


@pytest.mark.parametrize("missing", [-999.0, 9999.0])
def test_a_reward_that_seems_to_mean_missing_is_a_warning(bandit, missing):
    bandit["reward"][::20] = missing
    log = gradtd.read_log(bandit)
    assert any(f"Column 'reward' is {missing:g} in 20 rows" in warning for warning in log.understood.warnings)


def steps(**more):
    n = 60
    ends = np.arange(n) % 6 == 5
    return (
        {"episode": np.arange(n) // 6, "obs": np.arange(n) % 6, "reward": np.ones(n), "rho": np.ones(n)}
        | more
        | {"truncated": ends & (np.arange(n) % 12 == 5)}
    )


def test_cuts_that_are_all_ends_are_a_warning():
    over = np.arange(60) % 6 == 5
    log = gradtd.read_log(steps(terminated=over))
    assert any("All 5 truncated rows are also terminated" in warning for warning in log.understood.warnings)
    apart = gradtd.read_log(steps(terminated=over & ~(np.arange(60) % 12 == 5)))
    assert not any("also terminated" in warning for warning in apart.understood.warnings)


def test_a_log_shows_names_as_text():
    log = gradtd.read_log({"obs.\x1b[2J": [1.0, 2.0], "reward": [1, 2], "done": [1, 1]})
    assert "\x1b" not in repr(log)
    assert "\n" in repr(log)
