"""What files of logs in parts share."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gradtd.evaluation.parts import job as jobs
from gradtd.evaluation.parts.kept import plan
from gradtd.evaluation.trust import enriching

from gradtd.logs import parts as cutting


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    """The module's table, in a file of several row groups."""
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, file, row_group_size=500)
    return file


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
def small_units(monkeypatch):
    """Several parts and units, though logs are small; a narrow ladder, where the checks' time is."""
    monkeypatch.setattr(cutting, "ROWS_OF_A_PART", 150)
    monkeypatch.setattr(plan, "ROWS_OF_A_UNIT", 400)
    monkeypatch.setattr(enriching, "MOST_COLUMNS", 30)
    monkeypatch.setattr(jobs, "MOST_GROUPS", 60)


@pytest.fixture
def three(some_episodes, tmp_path):
    """A folder with three files of a log, and one beside it for the files that come later."""
    for name, first, last in (("b", 0, 30), ("c", 30, 70), ("e", 70, 110)):
        (tmp_path / "log").mkdir(exist_ok=True)
        pq.write_table(some_episodes(first, last), tmp_path / "log" / f"{name}.parquet", row_group_size=97)
    return tmp_path / "log"
