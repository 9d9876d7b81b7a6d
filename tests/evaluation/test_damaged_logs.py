"""Logs that are damaged or carelessly made through `evaluate`: refused, or not usable, with a sentence that helps."""

import numpy as np
import pytest

from gradtd import InputError, Machine, evaluate
from naive.evaluation import real_walk, walk


def judged(log, **how):
    return evaluate(log, **{"gamma": 0.9, "algorithm": "lstd", "resamples": 20, "threads": 1} | how)


def refused(log, sentence, **how):
    """Not usable, for this reason."""
    result = judged(log, **how)
    assert result.verdict != "usable"
    assert any(sentence in reason for reason in result.reasons), result.reasons
    return result


def test_no_end_is_marked_anywhere():
    log = {k: v for k, v in walk(60).items() if k not in ("terminated", "next_obs")}
    refused(log, "The log does not say whether its episodes terminated or were cut off")
    refused(log | {"terminated": log["truncated"]}, "The log does not say whether its episodes terminated")


@pytest.mark.parametrize("make", [walk, real_walk])
def test_next_observations_of_something_else(make):
    log = make(200)
    after = [name for name in log if name.startswith("next_obs")]
    constant = {name: np.full_like(log[name], log[name][0]) for name in after}
    order = np.random.default_rng(2).permutation(len(log["t"]))
    how = {} if make is walk else {"features": "polynomial"}
    refused(log | constant, "next_observation does not match the following row", **how)
    refused(log | {name: log[name][order] for name in after}, "next_observation does not match", **how)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("size", [1e3, 1e20])
def test_a_reward_that_dwarfs_all_others(n, size):
    log = walk(100)
    log["reward"][[50, 200][:n]] = size
    result = refused(log, f"One or two rewards (the largest is {size:.3g}) are much larger than all others")
    assert result.numbers["reward_sample"] < 2.1
    assert judged(walk(100)).numbers["reward_sample"] == pytest.approx(100)


def test_masked_rewards_are_not_read_as_numbers():
    log = walk(60)
    log["reward"] = np.ma.array(np.where(log["t"] == 1, 9999.0, log["reward"]), mask=log["t"] == 1)
    with pytest.raises(InputError, match="column 'reward' has no value in row 1"):
        judged(log)


def test_an_interval_without_width_is_none():
    log = walk(60)
    result = refused(log | {"reward": np.zeros(len(log["t"]))}, "The interval has no width: all episodes agree exactly")
    assert result.interval == (0.0, 0.0)


@pytest.mark.parametrize("resamples", [0, 2, 5, 199])
def test_percentiles_of_few_refits(resamples):
    with pytest.raises(InputError, match=rf"'percentile' needs at least 200 resamples, got {resamples}: with few"):
        judged(walk(60), interval="percentile", resamples=resamples)


def test_a_value_that_still_moves_is_not_usable():
    result = refused(
        walk(60), "in the second half of the updates. Give more updates", algorithm="td", alpha=0.002, updates=1000
    )
    assert result.numbers["moved"] > 0.5


def test_ratios_that_disagree_with_probabilities():
    log = walk(60)
    with pytest.raises(InputError, match="the log's ratios disagree with its probabilities"):
        judged(log | {"rho": np.ones(len(log["t"]))})


def test_the_columns_of_one_policy_as_targets():
    log = {k: v for k, v in walk(60).items() if k != "target"}
    log |= {"pi_0": np.full(len(log["t"]), 0.3), "pi_1": np.full(len(log["t"]), 0.7)}
    for target in ("pi_1", {"pi_0": "pi_0", "pi_1": "pi_1"}):
        with pytest.raises(
            InputError, match=r"so it contains the probability of one particular action, and target needs"
        ):
            judged(log, target=target)


def test_one_ratio_beyond_all_others_is_refused():
    """Without its episode nothing is left of the equations but rounding: no bias can be told, and no traceback."""
    rng = np.random.default_rng(0)
    log = {
        "episode": np.array([0, 0, 1, 1, 1, 1, 1, 2, 3]),
        "obs": rng.standard_normal((9, 2)),
        "reward": rng.standard_normal(9),
        "terminated": np.array([0, 1, 0, 0, 0, 0, 1, 1, 1], bool),
        "rho": np.array([0.5, 1.5, 0.5, 1, 0.5, 1.5, 2.0**64, 0.5, 0.5]),
    }
    found = evaluate(log, gamma=1.0, features="one-hot", machine=Machine(threads=1))
    assert found.verdict == "not usable"
