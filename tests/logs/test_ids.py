"""Ids and numbers of columns are never merged, wrapped or taken from another column."""

import gzip
import json
import os
from decimal import Decimal

import numpy as np
import pytest

from gradtd.cli.options import listed_actions
from gradtd.core.checks import InputError
from gradtd.logs import ratios, read_log
from gradtd.logs.calibration import RowTable
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import survey

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table(**changes):
    rows = {"episode": np.arange(40), "obs": np.arange(40.0), "action": np.arange(40) % 2, "reward": np.ones(40)}
    return rows | {"terminated": np.ones(40, bool)} | changes


def test_decimal_ids_are_told_apart():
    ids = pa.array([Decimal(2**53 + k) for k in range(40)], pa.decimal128(38, 0))
    assert read_log(pa.table(table(episode=ids))).n_episodes == 40
    tenths = pa.array([Decimal(2**53 + k) for k in range(40)], pa.decimal128(38, 1))
    with pytest.raises(InputError, match="which are not exact"):
        read_log(pa.table(table(episode=tenths)))
    beyond = pa.array([Decimal(2**70 + k) for k in range(40)], pa.decimal128(38, 0))
    with pytest.raises(InputError, match="beyond 64 bits"):
        read_log(pa.table(table(episode=beyond)))


def test_csv_ids_that_grow_beyond_floats_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gradtd.logs.files.BLOCK", 1 << 10)
    rows = [f"{k if k < 200 else 2**53 + k},1.5,1,1" for k in range(400)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,reward,terminated", *rows]))
    with pytest.raises(InputError, match="which are not exact"):
        read_log(tmp_path / "log.csv")


@pytest.mark.parametrize("column", ["t", "action"])
def test_unsigned_numbers_do_not_wrap(column):
    large = np.arange(40, dtype=np.uint64) + np.uint64(2**63)
    with pytest.raises(InputError, match=f"'{column}' contains numbers of 2\\*\\*63"):
        read_log(table(**{column: large}))


def test_two_columns_of_one_name_are_refused():
    made = pa.table([pa.array(np.ones(3))] * 3, names=["obs", "reward", "reward"])
    with pytest.raises(InputError, match="several columns with the same name"):
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


def episodes(ids):
    return [{"id": one, "obs": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "terminated": [0, 1]} for one in ids]


@pytest.mark.parametrize("ids", [[1, "1"], [np.datetime64("2024-01-01"), 1]])
def test_ids_of_several_types_in_a_list_of_episodes_are_refused(ids):
    with pytest.raises(InputError, match="is text or a time in some episodes and not in others"):
        read_log(episodes(ids))
    one = dict(episodes([0])[0])
    del one["id"]
    with pytest.raises(InputError, match="several episodes have the same name"):
        read_log({1: one, "1": one})


def test_text_that_arrays_would_cut_is_refused(tmp_path):
    ids = ["a"] * 20 + ["a\0"] * 20
    for source in (table(episode=ids), table(episode=np.array(ids, object)), episodes(["a", "a\0"])):
        with pytest.raises(InputError, match="ends in a NUL character"):
            read_log(source)
    assert read_log(pa.table(table(episode=ids, terminated=np.arange(40) % 20 == 19))).n_episodes == 2
    pq.write_table(pa.table(table(episode=ids)), tmp_path / "log.parquet")
    with pytest.raises(InputError, match="ends in a NUL character"):
        survey(ParquetTable("log", [tmp_path / "log.parquet"]), "episode")


@pytest.mark.parametrize(("first", "second"), [("007", "7"), ("7", "007"), ("1.0", "1"), ("-0", "0")])
def test_csv_ids_that_are_one_number_in_two_spellings_are_refused(first, second, tmp_path, monkeypatch):
    def write(*ids):
        rows = [f"{one},{k % 2},{k % 2}.5,{k % 2}" for one in ids for k in range(200)]
        (tmp_path / "log.csv").write_text("\n".join(["episode,obs,reward,terminated", *rows]))
        return read_log(tmp_path / "log.csv", one_step=False)

    monkeypatch.setattr("gradtd.logs.files.BLOCK", 1 << 10)  # the second is in another block
    with pytest.raises(InputError, match="one number in two spellings"):
        write(first, second)


def test_csv_ids_that_are_written_alike_are_read(tmp_path):
    for ids, count in ((["007", "08"], 2), ([" 7", "7"], 1), (["1.5", "2.0"], 2)):
        rows = [f"{one},{k},0.5,0" for one in ids for k in range(2)]
        (tmp_path / "log.csv").write_text("\n".join(["episode,obs,reward,terminated", *rows]))
        assert read_log(tmp_path / "log.csv").n_episodes == count


@pytest.mark.parametrize("word", ["9" * 5000, "--3", "\u00b2"])
def test_text_that_looks_like_a_number_and_is_none_stays_text(word, tmp_path):
    ids = [word, "2"] * 20
    assert read_log(pa.table(table(episode=ids, action=ids)), one_step=True).n_actions == 2
    rest = {name: values for name, values in table().items() if name != "obs"}
    assert read_log(pa.table(rest | {f"obs_{name}": np.arange(40.0) for name in (word, "1")})).n_episodes == 40
    (tmp_path / "log.json").write_text(json.dumps({"obs": {word: 1, "1": 2}, "reward": {word: 1, "1": 2}}))
    with pytest.raises(InputError, match="contains bytes or nested"):
        read_log(tmp_path / "log.json")
    assert listed_actions(f"{word},1") == [word, "1"]


def test_observations_whose_squares_overflow_are_looked_at_without_a_warning():
    seen = np.where(np.arange(40) % 3 == 0, 1e300, np.arange(40.0))
    with np.errstate(all="raise"):
        assert RowTable.of(read_log(table(obs=seen[:, None]))).x.shape[0] == 40


def test_ids_in_single_precision_are_refused_where_it_is_not_exact():
    ids = np.arange(40) + 2**24
    assert read_log(table(episode=ids.astype(np.float64))).n_episodes == 40
    with pytest.raises(InputError, match=r"2\*\*24"):
        read_log(table(episode=ids.astype(np.float32)))


def test_states_of_a_csv_that_no_float_holds_are_refused(tmp_path):
    """Two states became one."""
    rows = [f"{k // 2},{2**53 + k % 2},1,{k % 2}" for k in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,obs,reward,terminated", *rows]))
    with pytest.raises(InputError, match="which are not exact"):
        read_log(tmp_path / "log.csv")
