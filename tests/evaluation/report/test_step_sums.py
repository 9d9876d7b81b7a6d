"""Sums over steps: what chunks say together is what the whole log says."""

import numpy as np
import pytest

from gradtd.evaluation.report.step_sums import StepSums, sum_steps
from gradtd.logs import Ratios, read_log
from naive.evaluation import walk


def sums_of(log, rho, gamma=0.9):
    """Sums of a log whose pieces are its episodes."""
    read = read_log(log)
    begins = np.r_[np.flatnonzero(np.diff(read.episode, prepend=-1)), len(read)].astype(np.int64)
    discount = np.where(read.terminated, 0.0, gamma)
    return sum_steps(read, Ratios(rho, notes=("ratios were clipped: 2.",)), discount, begins, np.cumsum(rho))


def test_chunks_add_up_to_the_log():
    log = walk(60)
    rho = log["target"] / log["action_prob"]
    whole, added = sums_of(log, rho), StepSums()
    for some in (log["episode"] < 25, log["episode"] >= 25):
        added.add(sums_of({name: column[some] for name, column in log.items()}, rho[some]))
    alike, wanted = added.diagnostics(), whole.diagnostics()
    exact, in_bins = wanted.pop("top_hundredth_carries"), alike.pop("top_hundredth_carries")
    assert in_bins == pytest.approx(exact, rel=0.05)  # chunks have a histogram only
    assert alike == pytest.approx(wanted)
    np.testing.assert_allclose(added.ratios, whole.ratios)
    assert added.ratios[0].sum() == len(rho)
    assert added.told()[1] == ["ratios were clipped: 4."]


def test_sums_are_those_of_a_loop():
    log = walk(30, 3, cut=6)
    rho = log["target"] / log["action_prob"]
    found, read = sums_of(log, rho), read_log(log)
    wanted = dict.fromkeys(("r2", "r4", "rho", "rho2", "early_rewards", "not_one", "weights", "off2", "beyond"), 0.0)
    for e in range(30):
        steps = np.flatnonzero(read.episode == e)
        product, left = 1.0, 1.0
        for t in steps:
            over = bool(read.terminated[t])
            wanted["r2"] += read.reward[t] ** 2
            wanted["r4"] += read.reward[t] ** 4
            wanted["rho"] += rho[t]
            wanted["rho2"] += rho[t] ** 2
            wanted["early_rewards"] += read.reward[t] != 0 and not over
            wanted["not_one"] += rho[t] != 1
            product, left = product * rho[t], left * (0.0 if over else 0.9)
        wanted["weights"] += product
        wanted["off2"] += (rho[steps].sum() - len(steps)) ** 2
        wanted["beyond"] += left
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("early", [0.0, 1.0])
def test_a_value_that_rewards_do_not_allow(early):
    """With rewards at the end alone a return is at most the largest; with others as much more as gamma allows."""
    log = walk(20, 3)
    log["reward"] = np.where(log["terminated"], 1.0, early)
    found = sums_of(log, np.ones(len(log["t"])))
    most = 10.0 if early else 1.0
    assert found.beyond_rewards(0.9, most, 0.5) == pytest.approx(0.0, abs=1e-9)
    assert found.beyond_rewards(0.9, most + 1.0, 0.5) == pytest.approx(2.0)
    assert found.beyond_rewards(0.9, -1.0, 0.5) == pytest.approx(2.0)


def test_ratios_that_are_all_zero_leave_no_sample():
    """No step says anything about the target, so the effective sample size is 0, not 1."""
    log = walk(20)
    found = sums_of(log, np.zeros(len(log["t"]))).diagnostics()
    assert (found["ess"], found["ess_episodes"], found["top_hundredth_carries"]) == (0.0, 0.0, 1.0)
