"""Datasets of Minari with arrays, attributes, metadata or bytes changed: read as they are, or refused."""

import contextlib
import json
import os
import shutil
import warnings

import gymnasium
import h5py
import minari
import numpy as np
from fuzz_files import ODD, WORDS, flipped, spoil_header
from minari.data_collector import EpisodeBuffer

import gradtd

NAME = "gradtd/whole-v0"
ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations")
_kept = {}


def prepare(folder):
    """One dataset of some episodes, made once."""
    rng = np.random.default_rng(0)
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "whole")
    (folder / "whole").mkdir()
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
        for number, n in enumerate((4, 3, 5, 1))
    ]
    told = dict.fromkeys(("algorithm_name", "author", "author_email", "code_permalink", "description"), "a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            NAME,
            buffers,
            observation_space=gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64),
            action_space=gymnasium.spaces.Discrete(3),
            data_format="hdf5",
            **told,
        )


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    place = folder / "it"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / "whole", place)
    data, metadata = next(place.rglob("main_data.hdf5")), next(place.rglob("metadata.json"))
    kind = rng.random()
    if kind < 0.15:
        data.write_bytes(flipped(rng, data.read_bytes()))
    elif kind < 0.25:
        metadata.write_bytes(flipped(rng, metadata.read_bytes()))
    elif kind < 0.4:
        told = json.loads(metadata.read_text())
        spoil_header(rng, told)
        metadata.write_text(json.dumps(told))
    else:
        with h5py.File(data, "r+") as file:
            for _ in range(int(rng.integers(1, 4))):
                spoil(rng, file)
    shown = steps_of(data) if kind >= 0.4 else None
    os.environ["MINARI_DATASETS_PATH"] = str(place)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari's own, of versions
        log = gradtd.read_log(NAME)
    if shown is not None:
        found = list(zip(log.action.tolist(), log.reward.tolist(), log.terminated.tolist(), strict=True))
        assert sorted(found) == sorted(shown), "steps are not those of the dataset"


def spoil(rng, file):
    episode = file[str(rng.choice(list(file)))] if len(file) else None
    if episode is None:
        return
    kind, name = rng.random(), str(rng.choice(ARRAYS))
    if kind < 0.05:
        del file[episode.name]
        return
    if kind < 0.2:
        value = (*ODD, *WORDS)[int(rng.integers(len(ODD) + len(WORDS)))]
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            episode.attrs[str(rng.choice(list(episode.attrs) or ["id"]))] = value
        return
    if name not in episode or not isinstance(episode[name], h5py.Dataset):
        return
    values = episode[name][...]
    del episode[name]
    if kind < 0.3:
        return
    if kind < 0.5 and values.ndim:
        values = np.resize(values, (max(0, len(values) + int(rng.integers(-2, 3))), *values.shape[1:]))
    elif kind < 0.6:
        with contextlib.suppress(ValueError):  # text that is no number
            values = values.astype(rng.choice([np.float32, np.int8, np.uint64, np.complex64, bool]))
    elif kind < 0.7 and values.ndim:
        values = values.reshape(*values.shape, 1) if rng.random() < 0.5 else values.reshape(-1)
    elif kind < 0.8:
        episode.create_group(name)["inside"] = values
        return
    elif kind < 0.9 and values.size and values.dtype.kind in "if":
        values.reshape(-1)[int(rng.integers(values.size))] = (
            3 if values.dtype.kind == "i" else rng.choice([np.nan, np.inf])
        )
    else:
        values = np.array([b"a"] * (len(values) if values.ndim else 1))
    episode[name] = values


def steps_of(data):
    """The steps as the file has them; None where it is not clear what they are."""
    found = []
    with h5py.File(data, "r") as file:
        for episode in file.values():
            arrays = [episode.get(name) for name in ("actions", "rewards", "terminations")]
            if any(not isinstance(array, h5py.Dataset) or array.ndim != 1 for array in arrays):
                return None
            actions, rewards, ends = (array[...].tolist() for array in arrays)
            if len({len(actions), len(rewards), len(ends)}) > 1:
                return None
            found += [(a, r, bool(e)) for a, r, e in zip(actions, rewards, ends, strict=True)]
    return found
