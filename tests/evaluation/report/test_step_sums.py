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
    assert added.told()[1] == ["ratios were clipped: 4."]


def test_ratios_that_are_all_zero_leave_no_sample():
    """No step says anything about the target, so the effective sample size is 0, not 1."""
    log = walk(20)
    found = sums_of(log, np.zeros(len(log["t"]))).diagnostics()
    assert (found["ess"], found["ess_episodes"], found["top_hundredth_carries"]) == (0.0, 0.0, 1.0)
