"""Where episodes begin in files, and parts of whole episodes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import parts
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Part, survey
from gradtd.logs.row_episodes import hash_of

EPISODES = 60


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    length = rng.integers(1, 31, EPISODES)
    t = np.concatenate([np.arange(n) for n in length])
    return pa.table({"episode": np.repeat(7 * np.arange(EPISODES), length), "t": t, "obs_0": rng.normal(size=len(t))})


@pytest.fixture
def path(table, tmp_path):
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=150)
    return tmp_path / "log.parquet"


@pytest.mark.parametrize("batch", [40, 100_000])
def test_parts_hold_every_episode_once(path, table, monkeypatch, batch):
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 200)
    monkeypatch.setattr(parts, "BATCH", batch)
    seen = survey(ParquetTable("log", [path]), "episode")
    assert (seen.episodes, seen.rows, seen.grouped) == (EPISODES, len(table), True)
    made = seen.parts()
    assert max(abs(len(part) - 200) for part in made[:-1]) <= 30
    assert np.concatenate([part.hashes for part in made]).tolist() == seen.hashes.tolist()
    rows = []
    for part in made:
        for chunk, begins, hashes in part.chunks(["episode", "t"]):
            assert len(begins) == len(hashes) + 1
            assert begins[-1] == len(chunk)
            assert (chunk["t"].to_numpy()[begins[:-1]] == 0).all()
            rows.append(chunk)
    assert pa.concat_tables(rows).equals(table.select(["episode", "t"]))
    assert len(rows) > 10 or batch > 40


def test_a_sample_keeps_its_own_rows_alone(path):
    """A slice would keep the whole batch that it was read with."""
    rows, begins = survey(ParquetTable("log", [path]), "episode").sample(5, ["episode", "t", "obs_0"])
    assert len(rows) == begins[-1]
    assert rows.get_total_buffer_size() == rows.nbytes


def test_a_row_group_with_fewer_rows_than_it_says_is_refused(path):
    seen = survey(ParquetTable("log", [path]), "episode")
    more = seen.stretches[1]._replace(rows=200)
    part = Part((seen.stretches[0], more), np.array([0, 350]), seen.hashes[:1])
    with pytest.raises(InputError, match=r"'log\.parquet' has fewer rows than its metadata state"):
        list(part.batches(["t"]))


def test_the_hash_of_an_id_does_not_depend_on_the_ids_beside_it():
    ids = np.array([3.0, 0.5, -7.0, 1e300, np.inf, 2.0**63])
    alone = np.concatenate([hash_of(ids[k : k + 1]) for k in range(len(ids))])
    np.testing.assert_array_equal(hash_of(ids), alone)
    np.testing.assert_array_equal(alone[[0, 2]], hash_of(np.array([3, -7])))
    assert len(set(alone.tolist())) == len(ids)
