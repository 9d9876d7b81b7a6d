"""Sums of one pass, against NumPy's over whole columns."""

import numpy as np
import pytest
from gradtd.evaluation.parts.numbers import BINS, COUNTED, LOWEST, PER_OCTAVE, counted
from gradtd.evaluation.trust.records import Record

from gradtd.logs import read_log


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_one_pass_counts_what_columns_say(interpret, monkeypatch):
    monkeypatch.setenv("GRADTD_INTERPRET", interpret)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 30)
    n, begins = int(lengths.sum()), np.r_[0, np.cumsum(lengths)].astype(np.int64)
    ends = np.isin(np.arange(n) + 1, begins)
    told = {"episode": np.repeat(np.arange(30), lengths), "obs": rng.standard_normal(n), "terminated": ends}
    log = read_log(told | {"reward": rng.integers(0, 3, n).astype(float)})
    rho, weights = rng.choice([0.0, 0.5, 1.0, 3.0], n), rng.random(n)
    record = Record(log.row, log.next_row, log.reward, np.where(ends, 0.5, 0.9), rho, begins, False)
    with np.errstate(divide="ignore"):
        numbers, ratios, by_time = counted(log, record, weights)
        logs = np.log2(rho)
    first, reward = begins[:-1], log.reward
    whole, off = np.multiply.reduceat(rho, first), np.add.reduceat(rho, first) - lengths
    wanted = {
        "elsewhere": 0,
        "r2": (reward**2).sum(),
        "r4": (reward**4).sum(),
        "early_rewards": (reward != 0).sum(),
        "rho": rho.sum(),
        "rho2": (rho**2).sum(),
        "not_one": (rho != 1).sum(),
        "weights": whole.sum(),
        "weights2": (whole**2).sum(),
        "off": off.sum(),
        "off2": (off**2).sum(),
        "beyond": np.multiply.reduceat(record.discount, first).sum(),
    }
    np.testing.assert_allclose(numbers, [wanted[name] for name in COUNTED], rtol=1e-12, atol=1e-12)
    place = ((logs - LOWEST) * PER_OCTAVE).clip(0, BINS - 1).astype(int)
    np.testing.assert_allclose(ratios, [np.bincount(place, w, BINS) for w in (np.ones(n), rho)])
    since = np.arange(n) - np.repeat(first, lengths)
    np.testing.assert_allclose(by_time, [np.bincount(since, weights), np.bincount(since, weights**2)])
