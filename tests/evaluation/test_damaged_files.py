"""Files of strangers, read in parts: each try ends well, or with one sentence."""

import errno

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.core.checks import InputError
from gradtd.logs.files import MARK, mark_of


def table(episodes=12, length=4):
    rng, n = np.random.default_rng(0), episodes * length
    return {
        "episode": np.repeat(np.arange(episodes), length),
        "observation": rng.integers(0, 3, n),
        "reward": rng.normal(size=n),
        "terminated": np.arange(1, n + 1) % length == 0,
        "rho": rng.choice([0.5, 1.5], n),
    }


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table(table()), file, row_group_size=24, compression="snappy")
    return file


def test_flipped_bits_are_told_in_a_sentence(path):
    whole, rng, refused = path.read_bytes(), np.random.default_rng(1), 0
    for _ in range(30):
        damaged = bytearray(whole)
        damaged[int(rng.integers(4, len(whole)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            gradtd.evaluate(str(path), gamma=0.9, progress=False, machine=gradtd.Machine(in_parts=True, threads=1))
        except InputError:
            refused += 1
    assert refused > 5


@pytest.mark.parametrize("features", [None, "one-hot"])
def test_two_episodes_are_enough_for_a_sentence(tmp_path, features):
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table(table(2)), file)
    result = gradtd.evaluate(
        str(file), gamma=0.9, features=features, progress=False, machine=gradtd.Machine(in_parts=True, threads=1)
    )
    assert result.verdict == "not usable"


def test_a_log_of_ours_whose_episodes_are_scattered_is_brought_together(tmp_path):
    """Its files have a digest of their columns and rows, which the sorted ones must not inherit."""
    file = gradtd.write_log(gradtd.read_log(table(60)), tmp_path / "whole.parquet")
    whole = pq.read_table(file)
    file.unlink()
    for k in range(2):  # every second step
        rows = whole.take(np.arange(k, len(whole), 2))
        said = {MARK: mark_of(rows.schema, len(rows))}
        pq.write_table(rows.replace_schema_metadata(said), tmp_path / f"{k}.parquet")
    result = gradtd.evaluate(str(tmp_path), gamma=0.9, progress=False, machine=gradtd.Machine(in_parts=True, threads=1))
    assert result.steps == 240
    assert any("were not consecutive" in note for note in result.notes), result.notes


def _evaluate(log, **more):
    given = {"gamma": 0.9, "in_parts": True, "threads": 1, "progress": False}
    return gradtd.evaluate(str(log), **(given | more))


def _changed(rows, name, values):
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def _real(rows):
    return _changed(rows, "reward", rows["reward"].cast(pa.float32()).cast(pa.float64()))


@pytest.mark.parametrize("scattered", [False, True])
def test_files_may_differ_in_the_types_the_order_and_the_number_of_columns(tmp_path, scattered):
    """Float32 and float64, 32 and 64 bits, words and codes of words: as in memory."""
    rows = _real(pa.table(table(40) | {"t": np.tile(np.arange(4), 40)}))
    rows = _changed(rows, "episode", pa.array([f"e{k}" for k in rows["episode"].to_pylist()]))
    rows = rows.take(np.random.default_rng(0).permutation(160)) if scattered else rows
    other = _changed(rows, "episode", rows["episode"].dictionary_encode())
    other = _changed(other, "reward", other["reward"].cast(pa.float32()))
    other = _changed(other, "t", other["t"].cast(pa.int8()))
    other = other.select(other.column_names[::-1]).append_column("beside", pa.array(np.arange(160)))
    for name, first, second in (("same", rows, rows), ("mixed", rows, other)):
        (tmp_path / name).mkdir()
        pq.write_table(first.slice(0, 61), tmp_path / name / "a.parquet")  # an episode goes on in the next file
        pq.write_table(second.slice(61), tmp_path / name / "b.parquet", row_group_size=30)
    same, mixed = _evaluate(tmp_path / "same"), _evaluate(tmp_path / "mixed")
    assert (same.value, same.interval) == (mixed.value, mixed.interval)
    assert mixed.value == pytest.approx(_evaluate(tmp_path / "mixed", in_parts=False).value, rel=1e-9)


def test_whole_numbers_in_one_file_and_real_ones_in_the_next_are_real(tmp_path):
    rows = pa.table(table(40))
    pq.write_table(rows.slice(0, 61), tmp_path / "a.parquet")
    rest = _changed(rows.slice(61), "observation", rows.slice(61)["observation"].cast(pa.float64()))
    pq.write_table(rest, tmp_path / "b.parquet")
    found, whole = (_evaluate(tmp_path, features="identity", in_parts=how) for how in (True, False))
    assert found.value == pytest.approx(whole.value, rel=1e-9)


@pytest.mark.parametrize("ends", [False, True])
def test_episodes_that_begin_anew_in_every_file_are_not_taken_for_one(tmp_path, ends):
    for name in ("a", "b"):
        rows = table(12)
        if not ends:
            del rows["terminated"]
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match="must be consecutive, but some ids occur in several files"):
        _evaluate(tmp_path)


def test_ids_that_are_no_numbers_and_a_single_episode_are_refused(tmp_path):
    rows = table(12)
    pq.write_table(
        pa.table(rows | {"episode": np.where(np.arange(48) == 5, np.nan, rows["episode"])}), tmp_path / "a.pq"
    )
    with pytest.raises(InputError, match="has missing episode ids"):
        _evaluate(tmp_path / "a.pq")
    pq.write_table(pa.table(table(1)), tmp_path / "b.pq")
    with pytest.raises(InputError, match="has a single episode"):
        _evaluate(tmp_path / "b.pq")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_is_told_by_its_episode(tmp_path, bad):
    """Whoever reads a part, or a sample in another order, does not know the number of a row in the log."""
    rows = table(12)
    rows["reward"][30] = bad
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"row \d+ is .*this row belongs to episode 7\."):
        _evaluate(tmp_path / "log.parquet")


def test_a_temporary_folder_without_room_is_told(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    rows = pa.table(table(12) | {"t": np.tile(np.arange(4), 12)}).take(np.random.default_rng(0).permutation(48))
    pq.write_table(rows, tmp_path / "log.parquet")
    monkeypatch.setattr(pq, "ParquetWriter", full)
    with pytest.raises(InputError, match=r"No space left on device\. Set TMPDIR to"):
        _evaluate(tmp_path / "log.parquet")
