"""Files of strangers, read in parts: each try ends well, or with one sentence."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.core.checks import InputError
from gradtd.evaluation.resamples import poisson_weights
from gradtd.evaluation.solvers import SparseSolver
from gradtd.logs.files import MARK, ParquetTable, mark_of
from gradtd.logs.parts import Part, hash_of, survey


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
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[int(rng.integers(4, len(whole)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            gradtd.evaluate(str(path), gamma=0.9, in_parts=True, threads=1, progress=False)
        except InputError:
            refused += 1
    assert refused > 10


def test_a_row_group_with_fewer_rows_than_it_says_is_refused(path):
    seen = survey(ParquetTable("log", [path]), "episode")
    more = seen.stretches[1]._replace(rows=30)
    part = Part((seen.stretches[0], more), np.array([0, 54]), seen.hashes[:1])
    with pytest.raises(InputError, match=r"'log\.parquet' has fewer rows than it says"):
        list(part.batches(["reward"]))


def test_the_hash_of_an_id_does_not_depend_on_the_ids_beside_it():
    ids = np.array([3.0, 0.5, -7.0, 1e300, np.inf, 2.0**63])
    alone = np.concatenate([hash_of(ids[k : k + 1]) for k in range(len(ids))])
    np.testing.assert_array_equal(hash_of(ids), alone)
    np.testing.assert_array_equal(alone[[0, 2]], hash_of(np.array([3, -7])))
    assert len(set(alone.tolist())) == len(ids)


def test_no_resample_is_empty():
    weights = poisson_weights(np.array([1.0, 0.0, 2.0]), 500, 0)
    assert (weights @ [1.0, 0.0, 2.0] > 0).all()
    share = np.exp(-2) / (1 - np.exp(-2))  # of one and none among those with any; three standard errors
    found = ((weights[:, 0] == 1) & (weights[:, 2] == 0)).mean()
    assert abs(found - share) < 3 * (share * (1 - share) / 500) ** 0.5


def test_equations_of_no_features_have_the_solution_zero():
    from scipy.sparse import csr_array

    nothing = csr_array((4, 4))
    np.testing.assert_array_equal(SparseSolver(nothing, nothing).solve(np.ones(4), guess=np.ones(4)), 0.0)


@pytest.mark.parametrize("features", [None, "one-hot"])
def test_two_episodes_are_enough_for_a_sentence(tmp_path, features):
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table(table(2)), file)
    result = gradtd.evaluate(str(file), gamma=0.9, features=features, in_parts=True, threads=1, progress=False)
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
    result = gradtd.evaluate(str(tmp_path), gamma=0.9, in_parts=True, threads=1, progress=False)
    assert result.steps == 240
    assert any("did not stand together" in note for note in result.notes), result.notes
