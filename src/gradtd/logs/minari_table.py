"""Minari datasets as tables, one episode at a time: T + 1 observations, T actions and rewards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.logs.tables import Piece

_ID = re.compile(r"[-\w/]+-v\d+")


def is_dataset_id(source: str) -> bool:
    """Whether a string looks like namespace/name-v0."""
    return _ID.fullmatch(source) is not None


def is_dataset(source: Any) -> bool:
    return hasattr(source, "iterate_episodes") and hasattr(source, "spec")


class MinariTable:
    """A dataset, given itself or as the id of a local one; nothing is downloaded."""

    sure = True

    def __init__(self, source: Any) -> None:
        self.dataset = _load(source) if isinstance(source, str) else source
        self.name = str(self.dataset.spec.dataset_id)
        first = next(iter(self.dataset.iterate_episodes()), None)
        if first is None:
            raise InputError(f"the Minari dataset {self.name!r} has no episodes.")
        self.kinds = dict.fromkeys(("episode", "t"), "whole") | {"reward": "real"}
        self.kinds |= dict.fromkeys(("terminated", "truncated"), "truth")
        for name, values in (("observation", first.observations), ("action", first.actions)):
            flat = _flat(values)
            self.kinds[name] = "list" if flat.ndim == 2 else "whole" if flat.dtype.kind in "iu" else "real"
        self.kinds["next_observation"] = self.kinds["observation"]

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        for episode in self.dataset.iterate_episodes():
            length = len(episode.rewards)
            if length:
                yield {name: Piece(_column(name, episode, length)) for name in columns}


def _column(name: str, episode: Any, length: int) -> NDArray[Any]:
    if name == "episode":
        return np.full(length, int(episode.id), np.int64)
    if name == "t":
        return np.arange(length, dtype=np.int64)
    if name in ("observation", "next_observation"):
        every = _flat(episode.observations)
        return every[:length] if name == "observation" else every[1 : length + 1]
    if name == "action":
        return _flat(episode.actions)
    attribute = {"reward": "rewards", "terminated": "terminations", "truncated": "truncations"}[name]
    return np.asarray(getattr(episode, attribute))


def _flat(values: Any) -> NDArray[Any]:
    """Whatever the space: (steps,) for one number, (steps, k) for several, dictionaries and tuples side by side."""
    if isinstance(values, dict):
        return _flat(tuple(values[key] for key in sorted(values)))
    if isinstance(values, tuple):
        return np.column_stack([_flat(part) for part in values]).astype(np.float64)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"a Minari dataset must hold numbers, got {array.dtype}.")
    return array.reshape(len(array), -1) if array.ndim > 2 else array


def _load(name: str) -> Any:
    try:
        import minari
    except ImportError:
        raise InputError(
            f"{name!r} looks like a Minari dataset, but Minari is not installed: pip install gradtd[minari]."
        ) from None
    try:
        return minari.load_dataset(name)
    except (FileNotFoundError, ValueError, ImportError) as error:
        gist = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"the Minari dataset {name!r} cannot be opened: {gist}.") from None
