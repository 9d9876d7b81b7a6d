"""An evaluation kept and read back, called on observations, told as a dictionary."""

import json
import pickle
import zipfile

import numpy as np
import pytest

from gradtd import InputError, Machine, evaluate, load_evaluation
from gradtd.core.files import read_arrays, write_arrays
from naive.evaluation import real_walk, walk

FEATURES = ["identity", "polynomial", "fourier:order=2", "rbf:n=5", "tiles:tilings=2", "aggregation:bins=3", "one-hot"]
SEEN = np.array([[0.25, 0.5], [0.0, -0.5], [1.0, 0.25]])


def evaluation(**how):
    return evaluate(real_walk(40), **{"gamma": 0.9, "algorithm": "lstd", "resamples": 10, "threads": 1} | how)


@pytest.mark.parametrize("features", FEATURES)
def test_saved_and_loaded_it_is_the_same(features, tmp_path):
    made = evaluation(features=features)
    path = made.save(tmp_path / "it.npz")
    assert [entry.name for entry in tmp_path.iterdir()] == ["it.npz"]
    again = load_evaluation(path)
    for name in ("value", "interval", "level", "method", "gamma", "episodes", "steps", "verdict", "target", "log"):
        assert getattr(again, name) == getattr(made, name), name
        assert type(getattr(again, name)) is type(getattr(made, name)), name
    for name in ("reasons", "warnings", "notes", "estimates"):
        assert getattr(again, name) == getattr(made, name), name
    assert again.theta.tobytes() == made.theta.tobytes()
    assert again.resampled.tobytes() == made.resampled.tobytes()
    assert {k: v.tobytes() for k, v in again.pictured.items()} == {k: v.tobytes() for k, v in made.pictured.items()}
    assert again.to_dict() == made.to_dict()
    assert repr(again) == repr(made)
    seen = real_walk(40)
    rows = np.c_[seen["obs_0"], seen["obs_1"]][:7]
    assert again(rows).tobytes() == made(rows).tobytes()
    with np.load(path, allow_pickle=False) as file:
        assert "header" in file.files
        assert all(not file[name].dtype.hasobject for name in file.files)
    again.save(tmp_path / "again.npz")
    assert load_evaluation(tmp_path / "again.npz").to_dict() == made.to_dict()


def test_what_is_not_known_stays_so(tmp_path):
    """Without a value: NaN in the object, null in JSON, NaN again when it was read back."""
    made = evaluation(algorithm="monte_carlo")
    assert np.isnan([made.value, *made.interval]).all()
    assert made.to_dict()["value"] is None
    again = load_evaluation(made.save(tmp_path / "none.npz"))
    assert isinstance(again.value, float)
    assert np.isnan([again.value, *again.interval]).all()
    assert again.verdict == "not usable"


def test_called_on_observations_it_gives_their_values():
    made = evaluation(features="identity")
    wanted = made.features.transform(SEEN) @ made.theta
    assert made(SEEN) == pytest.approx(wanted)
    assert made(SEEN).shape == (3,)
    table = real_walk(40)
    first = np.c_[table["obs_0"], table["obs_1"]][table["t"] == 0]
    assert made(first).mean() == pytest.approx(made.value)  # the value is the mean over the starts
    with pytest.raises(InputError, match="column"):
        made([[1.0, 2.0, 3.0]])
    discrete = evaluate(walk(40), gamma=0.9, algorithm="lstd", machine=Machine(threads=1))
    assert discrete([2, 2]).tolist() == pytest.approx([discrete.value] * 2)


def test_as_a_dictionary_it_is_strict_json():
    told = json.loads(json.dumps(evaluation().to_dict(), allow_nan=False))
    assert {"value", "interval", "method", "gamma", "episodes", "steps", "ess", "verdict", "reasons"} <= set(told)
    made = evaluation()
    assert told["value"] == made.value
    assert told["interval"] == list(made.interval)
    assert told["ess"] == made.ess == made.numbers["ess"]
    assert f"{made.verdict}; lstd" in repr(made)
    assert "40 episodes" in repr(made)


def _single(path):
    with path.open("wb") as file:
        np.save(file, np.arange(3))


def _truncated(path):
    evaluation().save(path)
    path.write_bytes(path.read_bytes()[:-200])


def _encrypted(path):
    evaluation().save(path)
    data = bytearray(path.read_bytes())
    data[data.find(b"PK\x01\x02") + 8] |= 1  # the flag of an encrypted member, in the list at the end of the file
    path.write_bytes(data)


def _damaged(path):
    evaluation().save(path)
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[half : half + 40] = bytes(byte ^ 255 for byte in content[half : half + 40])
    path.write_bytes(bytes(content))


def _without(path, key):
    """The same file, with a part of its header missing."""
    evaluation().save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    arrays.pop(key, None)
    header.pop(key, None)
    header.pop("sha256", None)
    header["evaluation"].pop(key, None) if "evaluation" in header else None
    if key != "header":
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)


def _pickled_inside(path):
    np.savez(path, header=np.array([{"format": "gradtd evaluation 1"}], dtype=object))


def _later_format(path):
    np.savez(path, header=np.frombuffer(b'{"format": "gradtd evaluation 99"}', np.uint8))


def _zip_of_text(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.npy", "no array")


def _told(path, **changed):
    """A file whose header says something else, and has no checksum."""
    evaluation().save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes())
    header.pop("sha256")
    header["evaluation"] |= changed
    np.savez(path, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})


def _cut_histogram(path):
    evaluation().save(path)
    header, arrays = read_arrays(path)
    name = next(name for name in arrays if name.startswith("pictured.") and name.endswith("_edges"))
    write_arrays(path, arrays | {name: arrays[name][:-1]}, header)


BAD_FILES = {
    "a verdict of another kind": lambda path: _told(path, verdict="<b>"),
    "estimates of text": lambda path: _told(path, estimates=[{"method": "a", "value": "x", "low": 0, "high": 1}]),
    "a histogram that does not fit": _cut_histogram,
    "no number for gamma": lambda path: _told(path, gamma=None),
    "a level beyond all numbers": lambda path: _told(path, level=10**400),
    "an interval without ends": lambda path: _told(path, interval=[]),
    "foreign arrays": lambda path: np.savez(path, a=np.arange(3)),
    "a single array": _single,
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    "a pickle inside": _pickled_inside,
    "cut short": _truncated,
    "damaged": _damaged,
    "encrypted": _encrypted,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("value,low,high\n"),
    "a later format": _later_format,
    "a zip of text": _zip_of_text,
    "no header": lambda path: _without(path, "header"),
    "no value": lambda path: _without(path, "value"),
    "no theta": lambda path: _without(path, "theta"),
    "no features": lambda path: _without(path, "features"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_other_files_are_refused_in_one_sentence(kind, tmp_path):
    path = tmp_path / "other.npz"
    BAD_FILES[kind](path)
    with pytest.raises(InputError) as error:
        load_evaluation(path)
    assert str(error.value) == f"{str(path)!r} is not an evaluation that gradtd saved, or it is damaged."


def test_what_cannot_be_saved_or_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        load_evaluation(tmp_path / "none.npz")
    with pytest.raises(InputError, match=r"ends in \.npz"):
        evaluation().save(tmp_path / "it.pkl")
    with pytest.raises(InputError, match="cannot be stored, because it is code"):
        evaluation(features=lambda x: np.c_[np.ones(len(x)), x]).save(tmp_path / "it.npz")
    with pytest.raises(InputError, match="there is no folder"):
        evaluation().save(tmp_path / "no" / "it.npz")
    assert not list(tmp_path.iterdir())


ODD_ARRAYS = {
    "theta of text": ("theta", lambda x: x.astype("U8")),
    "complex values": ("resampled", lambda x: x.astype(complex)),
    "a theta for other features": ("theta", lambda x: np.r_[x, 1.0]),
    "values whose range overflows": ("resampled", lambda x: np.where(np.arange(len(x)) % 2, 1e308, -1e308)),
    "falling edges": ("pictured.starts_edges", lambda x: x[::-1]),
    "counts below zero": ("pictured.rho", lambda x: -1 - x),
    "a histogram in two dimensions": ("pictured.rho", lambda x: x[:, None]),
    "lambdas in two dimensions": ("pictured.lambda_values", lambda x: x[:, None]),
    "intervals without an end": ("pictured.lambda_intervals", lambda x: x[:, :1]),
    "lambdas that are no numbers": ("pictured.lambda_errors", lambda x: x * np.nan),
    "a level of five": ("pictured.lambda_level", lambda x: x * 5),
    "no level": ("pictured.lambda_level", lambda x: x[:0]),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return read_arrays(evaluation(features="identity").save(tmp_path_factory.mktemp("saved") / "it.npz"))


@pytest.mark.parametrize("kind", ODD_ARRAYS)
def test_arrays_that_no_page_can_show_are_refused(kind, saved, tmp_path):
    (header, arrays), (name, change) = saved, ODD_ARRAYS[kind]
    assert arrays[name].size
    write_arrays(tmp_path / "it.npz", arrays | {name: change(arrays[name])}, header)
    with pytest.raises(InputError, match="not an evaluation that gradtd saved"):
        load_evaluation(tmp_path / "it.npz")


@pytest.mark.parametrize("odd", [{"low": None}, {"value": "1"}, {"high": 1e300}, {"note": ["a"]}, {"value": True}])
def test_rows_that_no_page_can_show_are_refused(odd, saved, tmp_path):
    header, arrays = saved
    told = header["evaluation"]
    rows = [told["estimates"][0] | odd, *told["estimates"][1:]]
    write_arrays(tmp_path / "it.npz", arrays, header | {"evaluation": told | {"estimates": rows}})
    with pytest.raises(InputError, match="not an evaluation that gradtd saved"):
        load_evaluation(tmp_path / "it.npz")


@pytest.mark.parametrize("change", [{"steps": np.nan}, {"episodes": None}, {"gamma": np.nan}, {"estimates": []}])
def test_a_file_without_its_sizes_or_rows_is_refused(saved, tmp_path, change):
    """It would be loaded, and fail when it is shown."""
    header, arrays = saved
    write_arrays(tmp_path / "it.npz", arrays, header | {"evaluation": header["evaluation"] | change})
    with pytest.raises(InputError, match="not an evaluation that gradtd saved"):
        load_evaluation(tmp_path / "it.npz")
