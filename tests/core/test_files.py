"""The file format: every damage is noticed, and nothing is given room that the file does not hold."""

import json
import os
import struct
import zipfile

import numpy as np
import pytest

import gradtd
from gradtd import InputError
from gradtd.core.files import read_arrays, reading, write_arrays

ARRAYS = {
    "a": np.arange(12.0).reshape(3, 4),
    "empty": np.zeros((0, 5)),
    "one": np.array(3),
    "words": np.array(["x", "yz"]),
    "records": np.zeros(2, [("k", np.int32), ("x", np.float64)]),
    "turned": np.asfortranarray(np.arange(6).reshape(2, 3)),
}
HEADER = {"made_by": "a test", "numbers": [1, 2.5, None]}


def read(path):
    with reading(path, "a file of ours"):
        return read_arrays(path)


@pytest.fixture
def path(tmp_path):
    return write_arrays(tmp_path / "it.npz", ARRAYS, HEADER)


def test_what_is_written_is_read_back(path):
    header, arrays = read(path)
    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].flags.writeable
    with np.load(path, allow_pickle=False) as found:  # anybody can read it
        np.testing.assert_array_equal(found["a"], ARRAYS["a"])


def test_every_flipped_bit_is_noticed_or_changes_nothing(path):
    """Times and attributes of a zip's members are the only bits that do not matter."""
    content = path.read_bytes()
    wanted = {name: (array.dtype.descr, array.shape, array.tobytes()) for name, array in ARRAYS.items()}
    silent = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            header, arrays = read(path)
        except InputError:
            continue
        silent += 1
        found = {name: (array.dtype.descr, array.shape, array.tobytes("A")) for name, array in arrays.items()}
        assert header == HEADER
        assert {name: found[name] for name in wanted if name != "turned"} == {
            name: wanted[name] for name in wanted if name != "turned"
        }
        np.testing.assert_array_equal(arrays["turned"], ARRAYS["turned"])
    assert silent < len(content) / 3 / 4


def test_a_file_cut_anywhere_is_refused(path):
    content = path.read_bytes()
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="is not a file of ours, or it is damaged"):
            read(path)


def _npy(shape, descr="<f8", data=b""):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def _zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)


@pytest.mark.parametrize(
    "member",
    [
        _npy((10**12,)),
        _npy((10**9, 10**9, 10**9)),
        _npy((-1,)),
        _npy((10**12,), "|V0"),
        _npy((1,), "|O", b"8 bytes."),
        _npy((2,), data=bytes(8)),
        b"\x93NUMPY\x03\x00" + bytes(100),
        b"no array",
        _npy((2,), data=bytes(16)).replace(b"(2,), }", b"(2,   "),
    ],
)
def test_an_array_that_says_it_is_larger_than_it_is_gets_no_room(tmp_path, member):
    _zip(tmp_path / "it.npz", {"a.npy": member})
    with pytest.raises(InputError, match="is not a file of ours, or it is damaged"):
        read(tmp_path / "it.npz")


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    _zip(tmp_path / "it.npz", {"a.npy": bytes(10**7)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="is compressed, so it was not written by gradtd"):
        read(tmp_path / "it.npz")


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """A table of contents that names one array many times would make much of little."""
    path = tmp_path / "it.npz"
    _zip(path, {"a.npy": _npy((1000,), data=bytes(8000))})
    content = path.read_bytes()
    begin = content.index(b"PK\x01\x02")
    end = content.index(b"PK\x05\x06")
    entry = content[begin:end]
    entries = b"".join(entry.replace(b"a.npy", b"%c.npy" % name) for name in b"abcdefgh")
    tail = bytearray(content[end:])
    struct.pack_into("<HHL", tail, 8, 8, 8, len(entries))
    path.write_bytes(content[:begin] + entries + bytes(tail))
    with pytest.raises(InputError, match="is not a file of ours, or it is damaged"):
        read(path)


@pytest.mark.parametrize("text", ["[" * 10**5, '{"a": ' * 10**5, "1" * 10**5, "[1, 2]", "{", '"text"', "NaN"])
def test_a_header_of_another_kind_is_refused(tmp_path, text):
    np.savez(tmp_path / "it.npz", header=np.frombuffer(text.encode(), np.uint8))
    with pytest.raises(InputError, match="is not a file of ours, or it is damaged"):
        read(tmp_path / "it.npz")


@pytest.mark.parametrize("content", [_npy((3,), data=bytes(24)), _npy((10**13,)), b""])
def test_a_plain_array_is_refused(tmp_path, content):
    (tmp_path / "it.npz").write_bytes(content)
    with pytest.raises(InputError, match="is not a file of ours, or it is damaged"):
        read(tmp_path / "it.npz")


def test_a_file_without_a_checksum_is_read(tmp_path):
    """Files of earlier versions have none."""
    np.savez(tmp_path / "it.npz", header=np.frombuffer(json.dumps(HEADER).encode(), np.uint8), a=ARRAYS["a"])
    header, arrays = read(tmp_path / "it.npz")
    assert header == HEADER
    np.testing.assert_array_equal(arrays["a"], ARRAYS["a"])


@pytest.mark.parametrize("name", ["pipe", "device"])
def test_pipes_and_devices_are_refused_at_once(name, tmp_path):
    """A pipe waits for its other end, past Ctrl-C in compiled libraries; /dev/zero never ends."""
    path = tmp_path / "it.npz"
    if name == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for load in (gradtd.Learner.load, gradtd.Horde.load, gradtd.load_evaluation, gradtd.Sweep.from_file):
        with pytest.raises(InputError, match="it is a pipe or a device, not a file"):
            load(path)
    stream = tmp_path / "stream"
    stream.mkdir()
    (stream / "header.json").symlink_to(path)
    with pytest.raises(InputError, match="it is a pipe or a device, not a file"):
        gradtd.Stream.open(stream)


@pytest.mark.parametrize("text", ["problems = " + "[" * 5000 + "]" * 5000, "runs = " + "9" * 5000])
def test_a_sweep_whose_file_python_cannot_parse_is_refused(tmp_path, text):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(InputError, match="is not TOML"):
        gradtd.Sweep.from_file(tmp_path / "grid.toml")
