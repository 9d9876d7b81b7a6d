"""Minari's datasets: whatever is damaged in one, it is read as it is or refused in a sentence, never shifted."""

import json
import shutil
import warnings

import numpy as np
import pytest

from gradtd import InputError, read_log

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")
LENGTHS = (4, 3, 5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A dataset of three episodes, made once."""
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    folder, patch = tmp_path_factory.mktemp("minari"), pytest.MonkeyPatch()
    patch.setenv("MINARI_DATASETS_PATH", str(folder))
    rng = np.random.default_rng(0)
    buffers = [
        EpisodeBuffer(
            id=number,
            observations=rng.standard_normal((n + 1, 2)),
            actions=rng.integers(0, 3, n),
            rewards=rng.standard_normal(n).tolist(),
            terminations=[k == n - 1 for k in range(n)],
            truncations=[False] * n,
            infos={},
        )
        for number, n in enumerate(LENGTHS)
    ]
    told = dict.fromkeys(("algorithm_name", "author", "author_email", "code_permalink", "description"), "a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "gradtd/whole-v0",
            buffers,
            observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64),
            action_space=gymnasium.spaces.Discrete(3),
            data_format="hdf5",
            **told,
        )
    log = read_log("gradtd/whole-v0")
    patch.undo()
    return folder, log


def _data(folder):
    return next(folder.rglob("main_data.hdf5"))


def _metadata(folder):
    return next(folder.rglob("metadata.json"))


def _cut(name, rows, episode="episode_1"):
    def spoil(folder):
        with h5py.File(_data(folder), "r+") as file:
            group = file[episode]
            values = group[name][...]
            del group[name]
            group[name] = values[:rows] if rows < 99 else np.concatenate([values, values])

    return spoil  # fmt: skip


def _put(name, values, episode="episode_1"):
    def spoil(folder):
        with h5py.File(_data(folder), "r+") as file:
            if (known := name.split("/")[0]) in file[episode]:
                del file[episode][known]
            if values is not None:
                file[episode][name] = values

    return spoil  # fmt: skip


def _told(name, value):
    def spoil(folder):
        path = _metadata(folder)
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))

    return spoil  # fmt: skip


def _bytes(change, which=_data):
    def spoil(folder):
        path = which(folder)
        path.write_bytes(change(path.read_bytes()))

    return spoil  # fmt: skip


def _attribute(name, value, episode="episode_1"):
    def spoil(folder):
        with h5py.File(_data(folder), "r+") as file:
            file[episode].attrs[name] = value

    return spoil  # fmt: skip


def _without_episode(folder):
    with h5py.File(_data(folder), "r+") as file:
        del file["episode_1"]


def _move_an_action(folder):
    """One action too few here and one too many there: all in all there are as many as there should be."""
    with h5py.File(_data(folder), "r+") as file:
        for episode, more in (("episode_0", -1), ("episode_1", 1)):
            values = np.resize(file[episode]["actions"][...], len(file[episode]["rewards"]) + more)
            del file[episode]["actions"]
            file[episode]["actions"] = values


DAMAGES = {
    **{f"{name} cut": _cut(name, 2) for name in ("observations", "actions", "rewards", "terminations", "truncations")},
    **{f"{name} twice": _cut(name, 99) for name in ("observations", "actions", "rewards", "terminations")},
    **{f"no {name}": _put(name, None) for name in ("observations", "actions", "rewards", "truncations")},
    "actions of another episode": _move_an_action,
    "no last observation": _cut("observations", 3),
    "text for rewards": _put("rewards", np.array([b"a", b"b", b"c"])),
    "text for observations": _put("observations", np.array([b"a", b"b", b"c", b"d"])),
    "wider observations": _put("observations", np.zeros((4, 3))),
    "wider rewards": _put("rewards", np.zeros((3, 2))),
    "real flags": _put("terminations", np.array([0.0, 0.5, 1.0])),
    "a group for rewards": _put("rewards/inside", np.zeros(3)),
    "a number for rewards": _put("rewards", 1.0),
    "an id twice": _attribute("id", 0),
    "an id that is none": _attribute("id", "x"),
    "an id of halves": _attribute("id", 0.5),
    "no episode": _without_episode,
    "cut file": _bytes(lambda content: content[: len(content) // 2]),
    "empty file": _bytes(lambda content: b""),
    "another file": _bytes(lambda content: b"no HDF5" * 100),
    "cut metadata": _bytes(lambda content: content[:40], _metadata),
    "metadata of another kind": _bytes(lambda content: b"[]", _metadata),
    "more steps than there are": _told("total_steps", 10**6),
    "steps that are no number": _told("total_steps", "many"),
    "more episodes than there are": _told("total_episodes", 10),
    "episodes that are no number": _told("total_episodes", "many"),
    "another space": _told("observation_space", '{"type": "Discrete", "dtype": "int64", "start": 0, "n": 2}'),
    "no space": _told("action_space", "{"),
    "another version": _told("minari_version", "99.0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_dataset_is_refused_in_a_sentence_or_read_as_it_was(whole, tmp_path, monkeypatch, damage):
    folder, log = whole
    shutil.copytree(folder, tmp_path / "data")
    DAMAGES[damage](tmp_path / "data")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    try:
        found = read_log("gradtd/whole-v0")
    except InputError as error:
        said = str(error)
    else:
        said = None
    if said is not None:
        assert "the Minari dataset 'gradtd/whole-v0'" in said
        assert "\n" not in said
        return
    for name in ("observations", "row", "next_row", "action", "reward", "episode", "terminated"):
        np.testing.assert_array_equal(getattr(found, name), getattr(log, name), err_msg=name)


def test_actions_that_belong_to_another_episode_are_not_shifted(whole, tmp_path, monkeypatch):
    shutil.copytree(whole[0], tmp_path / "data")
    _move_an_action(tmp_path / "data")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    with pytest.raises(InputError, match="in episode 0 there are 3 actions for 4 rewards, not 4"):
        read_log("gradtd/whole-v0")
