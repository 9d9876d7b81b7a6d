"""The rows that episodes start in, where they are not those of first steps, in a folder and in parts."""

import hashlib
import json
import pickle

import numpy as np
import pytest

import gradtd
from gradtd.core.stream_folder import HEADER, STARTS

STREAM = gradtd.sample("boyan_chain", 3000, seed=3)


def _write(path, array):
    """Rows of a stranger, with the right checksum."""
    array.tofile(path / STARTS)
    header = json.loads((path / HEADER).read_text())
    header["sha256"][STARTS] = hashlib.sha256((path / STARTS).read_bytes()).hexdigest()
    (path / HEADER).write_text(json.dumps(header))


def _flip(path):
    content = bytearray((path / STARTS).read_bytes())
    content[len(content) // 2] ^= 1
    (path / STARTS).write_bytes(content)


def with_starts():
    """Every episode starts in a row of its own, which no step points to."""
    table = np.concatenate([STREAM.features, np.arange(4.0 * STREAM.n_episodes).reshape(-1, 4)])
    return gradtd.Stream(table, STREAM.steps, starts=len(STREAM.features) + np.arange(STREAM.n_episodes)[::-1])


def test_the_rows_that_episodes_start_in_are_stored(tmp_path):
    stream = with_starts()
    stream.save(tmp_path / "here")
    opened = gradtd.Stream.open(tmp_path / "here")
    assert opened.starts.tolist() == stream.starts.tolist()
    assert pickle.loads(pickle.dumps(opened)).starts.tolist() == stream.starts.tolist()
    STREAM.save(tmp_path / "without")
    assert not (tmp_path / "without" / STARTS).exists()
    assert gradtd.Stream.open(tmp_path / "without").starts is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: _flip(p), "damaged|must"),
        (lambda p: _write(p, np.zeros(3, np.int64)), "or it is damaged"),
        (lambda p: _write(p, np.full(STREAM.n_episodes, 10**6)), "starts must be a row of features"),
        (lambda p: _write(p, np.full(STREAM.n_episodes, -1)), "starts must be a row of features"),
    ],
)
def test_rows_that_episodes_start_in_are_not_believed(tmp_path, change, sentence):
    with_starts().save(tmp_path / "here")
    change(tmp_path / "here")
    with pytest.raises(gradtd.InputError, match=sentence):
        gradtd.Stream.open(tmp_path / "here")


def test_parts_know_the_rows_that_their_episodes_start_in():
    stream = with_starts()
    late = stream.with_steps(stream.steps[stream.begins[5] :], starts=stream.starts[5:])  # numbered from 5 on
    for whole in (stream, late):
        found = [part.features[part.starts] for part in whole.parts(100)]
        assert len(found) > 5
        np.testing.assert_array_equal(np.concatenate(found), whole.features[whole.starts])
