"""Ids and numbers of columns are never merged, wrapped or taken from another column."""

import gzip
import os
from decimal import Decimal

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import ratios, read_log

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table(**changes):
    rows = {"episode": np.arange(40), "obs": np.arange(40.0), "action": np.arange(40) % 2, "reward": np.ones(40)}
    return rows | {"terminated": np.ones(40, bool)} | changes


def test_decimal_ids_are_told_apart():
    ids = pa.array([Decimal(2**53 + k) for k in range(40)], pa.decimal128(38, 0))
    assert read_log(pa.table(table(episode=ids))).n_episodes == 40
    tenths = pa.array([Decimal(2**53 + k) for k in range(40)], pa.decimal128(38, 1))
    with pytest.raises(InputError, match="cannot be told apart"):
        read_log(pa.table(table(episode=tenths)))
    beyond = pa.array([Decimal(2**70 + k) for k in range(40)], pa.decimal128(38, 0))
    with pytest.raises(InputError, match="beyond 64 bits"):
        read_log(pa.table(table(episode=beyond)))


def test_csv_ids_that_grow_beyond_floats_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gradtd.logs.files.BLOCK", 1 << 10)
    rows = [f"{k if k < 200 else 2**53 + k},1.5,1,1" for k in range(400)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,reward,terminated", *rows]))
    with pytest.raises(InputError, match="cannot be told apart"):
        read_log(tmp_path / "log.csv")


@pytest.mark.parametrize("column", ["t", "action"])
def test_unsigned_numbers_do_not_wrap(column):
    large = np.arange(40, dtype=np.uint64) + np.uint64(2**63)
    with pytest.raises(InputError, match=f"'{column}' holds numbers of 2\\*\\*63"):
        read_log(table(**{column: large}))


def test_two_columns_of_one_name_are_refused():
    made = pa.table([pa.array(np.ones(3))] * 3, names=["obs", "reward", "reward"])
    with pytest.raises(InputError, match="several columns of one name"):
        read_log(made)


def test_large_actions_get_dense_codes():
    log = read_log(table(action=10**8 + np.arange(40) % 2 * 7, action_prob=np.full(40, 0.5)))
    assert (log.n_actions, log.action_labels) == (2, (10**8, 10**8 + 7))
    assert ratios(log, "uniform").rho.tolist() == [1.0] * 40


def test_a_colon_in_a_name_is_no_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(table(reward=np.full(40, 7.0))), "other.parquet")
    os.rename("other.parquet", "file:log.parquet")
    pq.write_table(pa.table(table()), "log.parquet")
    assert read_log("file:log.parquet").reward[0] == 7.0


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "log.csv")
    with pytest.raises(InputError, match="is a pipe or a device"):
        read_log(tmp_path / "log.csv")


def test_a_packed_csv_is_read(tmp_path):
    rows = "\n".join(["episode,obs,reward,terminated", "0,0.5,1,0", "0,1.5,2,1"])
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(rows.encode()))
    assert read_log(tmp_path / "log.csv.gz").reward.tolist() == [1.0, 2.0]
