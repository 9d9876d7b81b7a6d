"""Frames of odd types, and files that unpack to more than there is: read, or refused in one sentence."""

import contextlib
import datetime
import decimal
import gzip
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd import InputError, read_log
from gradtd.core import memory_limits

N = 24
BASE = {
    "episode": np.repeat(np.arange(6), 4),
    "t": np.tile(np.arange(4), 6),
    "reward": np.linspace(0, 1, N),
    "terminated": np.tile(np.arange(4) == 3, 6),
    "action": np.arange(N) % 2,
    "behaviour": np.full(N, 0.5),
    "obs": np.arange(N) * 0.5,
}
KINDS = {
    "null in a dictionary": pa.DictionaryArray.from_arrays(np.arange(N) % 3, pa.array(["a", None, "b"])),
    "a label twice in a dictionary": pa.DictionaryArray.from_arrays(np.arange(N) % 3, pa.array(["a", "a", "b"])),
    "numbers in a dictionary": pa.array(np.arange(N) % 3).dictionary_encode(),
    "months": pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval()),
    "halves": pa.array(np.arange(N).astype(np.float16)),
    "views of text": pa.array([f"x{k % 3}" for k in range(N)], pa.string_view()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([N], pa.int32()), pa.array([1.5])),
    "records": pa.array([{"a": 1.0}] * N),
    "maps": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "a union": pa.UnionArray.from_sparse(pa.array([0] * N, pa.int8()), [pa.array(np.arange(N))]),
    "nulls": pa.nulls(N),
    "bytes": pa.array([b"x"] * N),
    "large decimals": pa.array([decimal.Decimal(10**40 + k) for k in range(N)], pa.decimal256(60, 0)),
    "lists of several lengths": pa.array([[1.0] * (k % 3) for k in range(N)]),
    "durations": pa.array(range(N), pa.duration("ms")),
}


@pytest.mark.parametrize("role", BASE)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_odd_types(kind, role, tmp_path):
    table = pa.table(BASE)
    table = table.set_column(table.column_names.index(role), role, KINDS[kind])
    sources = [table]
    with contextlib.suppress(pa.ArrowException):  # Parquet does not have every type
        pq.write_table(table, tmp_path / "log.parquet")
        sources.append(tmp_path / "log.parquet")
    for source in sources:
        with contextlib.suppress(InputError):
            read_log(source)
    if len(sources) == 2 and kind in ("views of text", "halves"):
        machine = gradtd.Machine(in_parts=True, threads=1)
        with contextlib.suppress(InputError):
            gradtd.evaluate(sources[1], gamma=0.9, target="behaviour", machine=machine, progress=False)


def test_a_label_that_stands_twice_in_a_dictionary_is_one():
    labels = pa.DictionaryArray.from_arrays(np.arange(N) % 3, pa.array(["a", "a", "b"]))
    log = read_log(pa.table(BASE | {"action": labels}))
    assert log.action_labels == ("a", "b")
    assert log.action.tolist() == [int(k % 3 == 2) for k in range(N)]


def test_a_null_in_a_dictionary_is_missing():
    labels = pa.DictionaryArray.from_arrays(np.arange(N) % 3, pa.array(["a", None, "b"]))
    with pytest.raises(InputError, match="missing"):
        read_log(pa.table(BASE | {"action": labels}))


@pytest.mark.parametrize("role", ["episode", "action", "reward", "obs"])
def test_python_numbers_beyond_64_bits(role):
    frame = pd.DataFrame(BASE)
    frame[role] = pd.Series([2**70 + k for k in range(N)], dtype=object)
    with pytest.raises(InputError):
        read_log(frame)
    with pytest.raises(InputError):
        read_log(frame.set_index(role))


def test_polars_numbers_of_128_bits_are_refused_where_they_are_asked_for():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(BASE).with_columns(polars.Series(range(N), dtype=polars.Int128).alias("other"))
    assert len(read_log(frame)) == N
    with pytest.raises(InputError, match="'action'"):
        read_log(frame.with_columns(polars.Series(range(N), dtype=polars.Int128).alias("action")))
    with pytest.raises(InputError, match="got Series"):
        read_log(polars.Series([1.0]))


def test_data_that_hold_themselves_are_refused():
    data = {}
    data["episodes"] = data
    with pytest.raises(InputError, match="nested too deeply"):
        read_log(data)


def test_a_name_that_no_file_can_have_is_refused():
    with pytest.raises(InputError, match="too long"):
        read_log("x" * 5000)


def test_dates_of_python_are_times():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in range(N)]
    assert len(read_log(pd.DataFrame(BASE | {"t": np.array(days, object)}))) == N


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(memory_limits, "_SMALL", 2**16)
    monkeypatch.setattr(memory_limits, "available", lambda: 2**20)


def test_packed_json_that_unpacks_to_more_than_there_is(tmp_path, little_memory):
    rows = json.dumps([{"reward": 0.0, "obs": 0.0, "episode": 0}] * 20_000)
    (tmp_path / "log.json.gz").write_bytes(gzip.compress(rows.encode()))
    with pytest.raises(InputError, match=r"'log.json.gz', unpacked, would take"):
        read_log(tmp_path / "log.json.gz")


def test_an_npz_that_unpacks_to_more_than_there_is(tmp_path, little_memory):
    np.savez_compressed(tmp_path / "log.npz", reward=np.zeros(10**6), obs=np.zeros(10**6))
    with pytest.raises(InputError, match=r"'log.npz', unpacked, would take"):
        read_log(tmp_path / "log.npz")


def test_an_array_of_hdf5_that_nobody_wrote(tmp_path, little_memory):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file.create_dataset("rewards", shape=(10**12,), chunks=(1000,), dtype="f8")
    assert (tmp_path / "log.h5").stat().st_size < 10_000
    with pytest.raises(InputError, match="the array 'rewards' would take"):
        read_log(tmp_path / "log.h5")


def test_an_npz_that_lies_about_its_size(tmp_path):
    """The table of contents says few bytes, and the header of the array many."""
    with zipfile.ZipFile(tmp_path / "log.npz", "w") as file, file.open("reward.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    with pytest.raises(InputError, match=r"cannot be read as .npz"):
        read_log(tmp_path / "log.npz")


def test_a_pipe_in_a_folder_of_json_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    os.mkfifo(tmp_path / "b.json")
    with pytest.raises(InputError, match=r"'b.json' in the folder .* is not a file"):
        read_log(tmp_path)


ROWS = [{"episode": k, "reward": 1.0, "obs": k * 0.5, "terminated": True} for k in range(3)]


def _json(folder, text):
    (folder / "log.json").write_text(text if isinstance(text, str) else json.dumps(text))
    return read_log(folder / "log.json")


def test_a_name_twice_in_an_object_of_json_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"'log.json': the name 'reward' occurs twice"):
        _json(tmp_path, json.dumps(ROWS).replace('"obs": 0.5', '"reward": 2.0, "obs": 0.5'))
    lines = "\n".join(json.dumps(row) for row in ROWS).replace('"obs": 0.5', '"reward": 2.0, "obs": 0.5')
    with pytest.raises(InputError, match=r"'log.json', line 2: the name 'reward' occurs twice"):
        _json(tmp_path, lines)


def test_rows_of_columns_go_by_their_number(tmp_path):
    columns = {name: {str(k): row[name] for k, row in enumerate(ROWS)} for name in ROWS[0]}
    columns["obs"] = dict(reversed(columns["obs"].items()))
    assert _json(tmp_path, columns).observations.ravel().tolist() == [0.0, 0.5, 1.0]
    columns["obs"]["7"] = columns["obs"].pop("1")
    with pytest.raises(InputError, match="the column 'obs' has different row numbers from 'episode'"):
        _json(tmp_path, columns)


@pytest.mark.parametrize("data", [[[1, 2], 3], [[1]], [[1, 2, 3]]])
def test_split_rows_that_do_not_fit_are_refused(tmp_path, data):
    with pytest.raises(InputError, match="every row of data must be a list"):
        _json(tmp_path, {"columns": ["reward", "obs"], "data": data})
    with pytest.raises(InputError, match="occurs twice"):
        _json(tmp_path, {"columns": ["reward", "reward"], "data": [[1, 2]]})


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_in_an_npz_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "log.npz", "w") as file:
        for value in (1.0, 2.0):
            with file.open("reward.npy", "w") as member:
                np.lib.format.write_array(member, np.full(3, value))
    with pytest.raises(InputError, match="two arrays with the same name"):
        read_log(tmp_path / "log.npz")


@pytest.mark.parametrize("ids", [["1", 1, "2", 2], [1, "1", None, 2]])
def test_ids_that_are_text_and_numbers_are_not_merged(ids):
    log = {"episode": ids, "reward": np.ones(4), "obs": np.arange(4.0), "truncated": np.ones(4, bool)}
    with pytest.raises(InputError, match="'episode'"):
        read_log(log)


def test_columns_without_rows_and_text_beside_numbers_are_one_sentence():
    empty = {name: np.zeros(0) for name in ("episode", "t", "reward", "terminated", "obs_0")}
    with pytest.raises(InputError):
        read_log(empty | {"next_obs_0": np.zeros(0, "U1")})


def test_series_with_other_indices_are_refused():
    frame = pd.DataFrame(BASE)
    columns = {name: frame[name] for name in frame}
    wanted = read_log(BASE).reward
    assert np.array_equal(read_log(columns).reward, wanted)
    assert np.array_equal(read_log(columns | {"obs": BASE["obs"]}).reward, wanted)
    for reward in (frame.reward.iloc[::-1], frame.reward.set_axis(range(1, N + 1))):
        with pytest.raises(InputError, match="the index of 'reward' differs from that of 'episode'"):
            read_log(columns | {"reward": reward})
        assert np.array_equal(read_log(columns | {"reward": reward.to_numpy()}).reward, reward.to_numpy())
