"""Logs in Parquet files, small enough to be in memory and in many parts."""

from dataclasses import astuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.evaluation import kept_units, part_sums
from gradtd.evaluation.part_sums import MOST_GROUPS
from gradtd.logs import parts
from gradtd.logs.row_episodes import hash_of


@pytest.fixture(scope="session")
def ids_apart():
    """Increasing ids of episodes, a group each in the same order: tenths of groups are tenths of the log in memory."""

    def make(episodes, groups=MOST_GROUPS):
        group, ids = hash_of(np.arange(2 * groups * episodes)) % np.uint64(groups), [-1]
        for k in range(episodes):
            after = ids[-1] + 1
            ids.append(after + int(np.flatnonzero(group[after:] == k * groups // episodes)[0]))
        return np.array(ids[1:])

    return make


@pytest.fixture(scope="session")
def evaluate_both():
    """In parts, and in memory."""

    def run(log, **more):
        given = {"gamma": 0.9, "progress": False, "threads": 1} | more
        return tuple(gradtd.evaluate(str(log), machine=gradtd.Machine(in_parts=way), **given) for way in (True, False))

    return run


@pytest.fixture(scope="session")
def same_behaviour():
    """The behaviour's own value and the gain, with their intervals, are those of memory; both have them, or neither."""

    def check(ours, memory):
        own, other = ours.behaviour, memory.behaviour
        assert (own is None) == (other is None)
        if own is not None:
            assert astuple(own) == pytest.approx(astuple(other), rel=1e-6, abs=1e-7)
            assert own.gain == pytest.approx(ours.value - own.value)

    return check


@pytest.fixture(scope="session")
def some_episodes():
    """A table of episodes of 1 to 20 steps of AR(1) observations, from one number to another; some are cut off."""

    def make(first, last):
        columns = {name: [] for name in ("episode", "reward", "terminated", "truncated", "rho", "obs_0", "obs_1")}
        for one in range(first, last):
            rng = np.random.default_rng(one)
            n = int(rng.integers(1, 21))
            seen = np.cumsum(rng.standard_normal((n, 2)), axis=0) * 0.3
            ends, cut = np.arange(n) == n - 1, rng.random() < 0.2
            told = (np.full(n, 7 * one), 1 + seen[:, 0] + rng.standard_normal(n), ends & (not cut), ends & cut)
            for name, values in zip(columns, (*told, rng.choice([0.5, 1.5], n), *seen.T), strict=True):
                columns[name].append(values)
        return pa.table({name: np.concatenate(values) for name, values in columns.items()})

    return make


@pytest.fixture
def small_parts(monkeypatch):
    """Several parts, and chunks in each, though logs are small."""
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 700)
    monkeypatch.setattr(parts, "BATCH", 300)


@pytest.fixture
def small_units(monkeypatch):
    """Several parts and units, though logs are small; few groups, whose sums are quick to write."""
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 150)
    monkeypatch.setattr(kept_units, "ROWS_OF_A_UNIT", 400)
    monkeypatch.setattr(part_sums, "MOST_GROUPS", 60)


@pytest.fixture
def three(some_episodes, tmp_path):
    """A folder with three files of a log, and one beside it for the files that come later."""
    for name, first, last in (("b", 0, 30), ("c", 30, 70), ("e", 70, 110)):
        (tmp_path / "log").mkdir(exist_ok=True)
        pq.write_table(some_episodes(first, last), tmp_path / "log" / f"{name}.parquet", row_group_size=97)
    return tmp_path / "log"
