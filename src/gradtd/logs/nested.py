"""Turns in-memory data (rows, episodes, batches over environments, replay buffers) into columns.

Objects of any library are recognised by their attributes (``episodes``, ``rewards``, ``batch_size``), so no library is
imported. The result is a dictionary of columns, which is read through `gradtd.logs.tables.ArrayTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.core.parsing import whole_numbers
from gradtd.logs.column_names import SEVERAL, listed, role_of
from gradtd.logs.columns import TRUTHS
from gradtd.logs.row_episodes import refuse_padding
from gradtd.logs.tables import ArrayTable, plain_array, refuse_cut_text
from gradtd.logs.time_axis import time_axis

CONTAINERS = (
    *("episodes", "trajectories", "trajs", "rollouts", "paths"),
    *("data", "steps", "transitions", "records", "rows"),
)
"""Common keys of a dictionary that contains only the log."""
FLAGS = ("terminated", "truncated")
OF_BUFFERS = (
    *("observations", "next_observations", "actions", "rewards"),
    *("dones", "timeouts", "episode_starts", "log_probs"),
)
"""Attributes of Stable-Baselines3 replay and rollout buffers: one row per step, one column per environment."""
FLATTENED = {"observations", "actions", "log_probs"}
"""Rollout buffer attributes that its method ``get`` rearranges."""
OF_EPISODES = (
    *("observations", "next_observations", "actions", "rewards", "terminated", "terminations", "truncated"),
    *("truncations", "terminals", "timeouts", "dones", "obs", "acts", "rews", "id"),
)
"""Attributes of episode objects in Minari, d3rlpy and imitation."""
LINE = (
    'give each entry a name first: [dict(zip(("observation", "action", "reward", "next_observation", "done"), step)) '
    "for step in steps]."
)


@dataclass
class Columns:
    """Columns by name, notes about how they were made, and warnings about guesses."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def table(self, name: str) -> ArrayTable:
        table = ArrayTable(self.values, name)
        table.notes, table.warnings = tuple(self.notes), tuple(self.warnings)
        return table


def open_data(source: Any, name: str = "data") -> ArrayTable | None:
    """The table for data in memory, or None if their type is unknown."""
    found = columns_of(source)
    return None if found is None else found.table(name)


def open_mapping(source: Mapping[Any, Any]) -> ArrayTable:
    """The table for a dictionary."""
    if _is_tensordict(source):
        return _of_tensordict(source).table("TensorDict")
    found: dict[Any, Any] = {}
    for key in source:
        try:
            found[key] = source[key]
        except ValueError as error:  # pickled objects in a file that NumPy opened
            raise InputError(
                f"column {str(key)!r} must be an array of numbers or text: {str(error).rstrip('.')}."
            ) from None
    return _of_mapping(found).table("arrays")


def columns_of(source: Any) -> Columns | None:
    """Turn rows, episodes, a batch or a buffer into columns."""
    if _is_tensordict(source):
        return _of_tensordict(source)
    if isinstance(source, Mapping):
        return _of_mapping(dict(source))
    if all(hasattr(source, name) for name in ("extend", "sample", "storage")):  # a replay buffer of TorchRL
        return columns_of(source[_in_order(source)])
    if isinstance(source, np.ndarray) and source.dtype.names:
        return Columns({name: source[name] for name in source.dtype.names})
    if isinstance(source, list | tuple) and not hasattr(source, "_fields"):
        return _of_sequence(source)
    if _is_buffer(source):
        return _of_buffer(source)
    episodes = getattr(source, "episodes", None)
    if isinstance(episodes, Sequence) and len(episodes):  # a ReplayBuffer or MDPDataset of d3rlpy
        return _of_sequence(list(episodes))
    return None


# Mappings: columns, episodes by name, a batch, or a wrapper around one of these.


def _of_mapping(source: dict[Any, Any]) -> Columns:
    source = dict(_as_mapping(source) or source)
    flat = flattened(source)
    if key := _key_of(flat, "reward"):
        rewards = _array(flat[key])
        if rewards is not None and rewards.ndim == 2 and rewards.shape[1] > 1:
            return _unstacked(flat, rewards.shape)
        return Columns(flat)
    parts = [_as_mapping(value) for value in source.values()]
    if source and all(part is not None and _key_of(flattened(part), "reward") for part in parts):
        return _of_named([part for part in parts if part is not None], [str(key) for key in source])
    inside = [key for key in source if str(key).lower() in CONTAINERS]
    if len(inside) == 1 and (found := columns_of(source[inside[0]])) is not None:
        return found
    return Columns(flat)


def flattened(source: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested dictionaries with dotted names. Entries under "next" follow the step, as in TorchRL.

    >>> flattened({"obs": {"x": [1], "v": [2]}, "next": {"obs": {"x": [3]}, "reward": [0]}})
    {'obs.x': [1], 'obs.v': [2], 'next_obs.x': [3], 'reward': [0]}
    """
    flat: dict[str, Any] = {}
    follow: dict[str, Any] = {}  # replaces entries of the same name, which belong to the previous step
    for key, value in source.items():
        name, inside = f"{before}{key}", value if isinstance(value, Mapping) else None
        if inside is not None and name == "next":
            after = flattened(inside)
            follow |= {f"next_{k}" if role_of(k) == "observation" else k: v for k, v in after.items()}
            continue
        if inside is None or role_of(name) not in (None, *SEVERAL):  # refused later, because the column is nested
            made = {name: value}
        else:
            made = flattened(inside, f"{name}.")
        if twice := [one for one in flat.keys() & made.keys() if role_of(one)]:
            raise InputError(f"two entries are called {twice[0]!r}, like nested entries: rename one of them.")
        flat |= made
    return flat | follow


def _key_of(columns: Iterable[str], role: str) -> str | None:
    """The first column recognised for this role."""
    return next((name for name in columns if role_of(name) == role), None)


def _as_mapping(item: Any) -> Mapping[Any, Any] | None:
    """A dictionary, named tuple, data class or episode as a mapping. None for other types."""
    if _is_tensordict(item):
        return dict(item.to_dict())
    if isinstance(item, Mapping):
        batches = item.get("policy_batches")  # RLlib's
        return _as_mapping(next(iter(batches.values()))) if isinstance(batches, Mapping) and len(batches) == 1 else item
    if hasattr(item, "_asdict"):
        return dict(item._asdict())
    if hasattr(item, "rewards") or hasattr(item, "rews"):
        return {name: getattr(item, name) for name in OF_EPISODES if getattr(item, name, None) is not None}
    if hasattr(item, "__dataclass_fields__"):
        return {name: getattr(item, name) for name in item.__dataclass_fields__}
    return None


# Sequences: rows, episodes, or lists of rows.


def _of_sequence(source: Sequence[Any]) -> Columns:
    if not len(source):
        raise InputError("the list has no rows: give one dictionary per step, or one per episode.")
    items = [_as_mapping(item) for item in source]
    if all(item is not None for item in items):
        maps = [flattened(item) for item in items if item is not None]
        key = _key_of(maps[0], "reward")
        if key is not None and np.ndim(plain_array(maps[0][key])) > 0:
            return _of_episodes(maps, None)
        return Columns(_rows(maps))
    if all(isinstance(item, list | tuple) for item in source):
        rows = [[_as_mapping(step) for step in episode] for episode in source]
        if all(step is not None for episode in rows for step in episode):
            return _of_lists(rows)
        raise InputError(f"the steps are tuples or lists without field names: {LINE}")
    kinds = sorted({type(item).__name__ for item in source})
    raise InputError(
        f"a list must have one dictionary per step, or one per episode, got {', '.join(kinds[:3])}. With tuples {LINE}"
    )


def _rows(maps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Turn rows into columns. Absent entries become missing values."""
    names = dict.fromkeys(name for row in maps for name in row)
    return {name: [row.get(name) for row in maps] for name in names}


def _of_lists(episodes: Sequence[Sequence[Any]]) -> Columns:
    """Columns from episodes given as lists of steps."""
    rows = [flattened(step) for episode in episodes for step in episode]
    columns = _rows(rows)
    if not _key_of(columns, "episode"):
        columns["episode"] = np.repeat(np.arange(len(episodes)), [len(episode) for episode in episodes])
    return Columns(columns)


def _of_named(parts: Sequence[Mapping[Any, Any]], names: Sequence[str]) -> Columns:
    """Columns from episodes by name, or from rows by number, as pandas writes them with orient="index"."""
    maps = [flattened(part) for part in parts]
    if np.ndim(plain_array(maps[0][_key_of(maps[0], "reward") or ""])) > 0:
        return _of_episodes(parts, names)
    numbers = whole_numbers(names)
    return Columns(_rows(maps if numbers is None else [maps[k] for k in np.argsort(numbers, kind="stable")]))


def _of_episodes(episodes: Sequence[Mapping[Any, Any]], names: Sequence[str] | None) -> Columns:
    """Columns from episodes given as arrays, one entry per step. Observations may have one more, the final one."""
    parts = [_episode(number, flattened(episode)) for number, episode in enumerate(episodes)]
    joined: dict[str, Any] = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        there = [key in part for part in parts]
        if all(there):
            joined[key] = _joined(key, [part[key] for part in parts])
        elif role_of(key) is not None:
            lacks, has = there.index(False), there.index(True)
            raise InputError(f"episode {lacks} lacks {key!r}, which episode {has} has: add it to all episodes.")
    if not _key_of(joined, "episode"):
        lengths = [len(part[_key_of(part, "reward") or ""]) for part in parts]
        if names is not None:
            refuse_cut_text("episode", names)
            if len(set(names)) < len(names):
                raise InputError(f"several episodes have the same name, as text: {listed(names)}. Rename them.")
        joined["episode"] = np.repeat(np.arange(len(parts)) if names is None else np.array(names), lengths)
    return Columns(joined)


def _episode(number: int, given: dict[str, Any]) -> dict[str, Any]:
    """The columns of one episode, each as long as its rewards."""
    key = _key_of(given, "reward")
    if key is None:
        raise InputError(
            f"episode {number} has no rewards, only {', '.join(given) or 'nothing'}: add them as 'rewards'."
        )
    length = len(plain_array(given[key]))
    made: dict[str, Any] = {}
    for name, value in given.items():
        array, role = _array(value), role_of(name)
        if array is None:
            continue
        if isinstance(value, str | list | tuple):
            refuse_cut_text(name, [value] if isinstance(value, str) else value)
        if array.ndim == 0:  # one value for the whole episode; an end belongs to its last step
            if role in FLAGS:
                made[name] = (np.arange(length) == length - 1) & _is_true(name, number, array)
            else:
                made[name] = np.full(length, array)
        elif len(array) == length:
            made[name] = array
        elif role == "observation" and len(array) == length + 1:
            made[name] = array[:-1]
            made.setdefault(f"next_{name}", array[1:])
        elif role is not None:
            more = " or one more" if role == "observation" else ""
            raise InputError(
                f"episode {number} has {length} rewards and {len(array)} entries of {name!r}: give the same "
                f"number{more}."
            )
    return made


def _is_true(name: str, number: int, value: NDArray[Any]) -> bool:
    """Whether an episode ended in this way, from one value for the whole episode."""
    word = str(value).strip().lower()
    if word not in TRUTHS:
        raise InputError(f"{name!r} of episode {number} must be true or false, or 1 or 0, got {str(value)!r}.")
    return TRUTHS[word]


# Batches and buffers.


def _is_tensordict(source: Any) -> bool:
    """Whether an object is a TensorDict, a mapping that iterates over its rows."""
    return hasattr(source, "batch_size") and hasattr(source, "to_dict")


def _of_tensordict(source: Any) -> Columns:
    """The columns of a TensorDict of rows or of (environments, steps), as collectors return it."""
    columns, size = flattened(source.to_dict()), tuple(source.batch_size)
    if len(size) != 2 or not _key_of(columns, "reward"):
        return _of_mapping(columns)
    arrays = {name: array for name, value in columns.items() if (array := _array(value)) is not None}
    turned = {name: array.swapaxes(0, 1) for name, array in arrays.items() if array.shape[:2] == size}
    return _unstacked(turned, size[::-1])


def _in_order(buffer: Any) -> Any:
    """The rows of a ring buffer, the oldest first."""
    cursor = int(getattr(getattr(buffer, "writer", None), "_cursor", 0)) % max(len(buffer), 1)
    return np.r_[cursor : len(buffer), :cursor].tolist() if cursor else slice(None)


def _unstacked(columns: dict[str, Any], shape: tuple[int, ...], time: int | None = None) -> Columns:
    """Arrays (T, N, ...) of N environments as rows, ordered by environment."""
    found = Columns()
    arrays = {name: array for name, value in columns.items() if (array := _array(value)) is not None and array.ndim}
    for name, array in arrays.items():
        if array.shape[:2] != shape[:2] and role_of(name) is not None:
            raise InputError(
                f"the rewards have the shape {shape[:2]}, steps by environments, and {name!r} has {array.shape}: give "
                "all arrays the same first two axes."
            )
    arrays = {name: array for name, array in arrays.items() if array.shape[:2] == shape[:2]}
    if time is None:
        now, after = (arrays.get(_key_of(arrays, role) or "") for role in SEVERAL[:2])
        marks = [array for name, array in arrays.items() if role_of(name) in FLAGS]
        time, guess = time_axis(now, after, marks, next(iter(arrays.values())).shape)
        found.warnings += [guess] if guess else []
    if time == 0:
        arrays = {name: np.swapaxes(array, 0, 1) for name, array in arrays.items()}
    n, steps = next(iter(arrays.values())).shape[:2]
    for name, array in arrays.items():
        rest = array.reshape(n * steps, *array.shape[2:])
        found.values[name] = rest[:, 0] if rest.ndim == 2 and rest.shape[1] == 1 else rest
    if not _key_of(arrays, "episode"):
        ends = np.zeros((n, steps), bool)
        for name in arrays:
            if role_of(name) in FLAGS:
                ends |= found.values[name].reshape(n, steps).astype(bool)
        refuse_padding(ends)
        begins = np.c_[np.ones(n, bool), ends[:, :-1]]
        for name in arrays:
            if role_of(name) == "start":
                begins |= found.values[name].reshape(n, steps).astype(bool)
        found.values["episode"] = np.cumsum(begins) - 1
    return found


def _is_buffer(source: Any) -> bool:
    return all(hasattr(source, name) for name in ("observations", "actions", "rewards", "pos", "full"))


def _of_buffer(source: Any) -> Columns:
    """A Stable-Baselines3 replay or rollout buffer, oldest steps first."""
    filled = len(source.rewards) if source.full else int(source.pos)
    if not filled:
        raise InputError(f"the {type(source).__name__} is empty: collect steps first.")
    order = np.arange(filled)
    if source.full and type(source).__name__.endswith("ReplayBuffer"):
        order = np.roll(order, -int(source.pos))
    given = {name: getattr(source, name, None) for name in OF_BUFFERS}
    if getattr(source, "optimize_memory_usage", False):  # next observations are those of the following rows
        given["next_observations"] = None
    flat = flattened({name: value for name, value in given.items() if value is not None})
    arrays = {name: array for name, value in flat.items() if (array := _array(value)) is not None and array.ndim}
    if getattr(source, "generator_ready", False):  # training has already rearranged some of them by environment
        steps, environments = source.rewards.shape
        for name in FLATTENED & set(arrays):
            rest = arrays[name].reshape(environments, steps, *arrays[name].shape[1:])
            arrays[name] = np.swapaxes(rest, 0, 1)
    found = _unstacked({name: array[order] for name, array in arrays.items()}, (filled, source.rewards.shape[1]), 0)
    return _without_beginnings(found, source.rewards.shape[1]) if len(order) and order[0] else found


def _without_beginnings(found: Columns, environments: int) -> Columns:
    """Drop episodes that began before the oldest step, because their start was overwritten."""
    episode = found.values["episode"].reshape(environments, -1)
    begun = (episode == episode[:, :1]).reshape(-1)
    if begun.all():
        found.warnings.append(
            "The buffer has no complete episode: its oldest step was read as a start. If it is not, use a larger one."
        )
        return found
    found.values = {name: values[~begun] for name, values in found.values.items()}
    found.notes.append(f"Rows dropped, because the start of their episode was overwritten: {int(begun.sum())}.")
    return found


# Values.


def _array(value: Any) -> NDArray[Any] | None:
    """An array of numbers, text or truth values, or None if that is impossible."""
    try:
        array = np.asanyarray(plain_array(value))
    except ValueError:
        return None
    return array if array.dtype.kind in "biufUM" or array.dtype == object else None


def _joined(name: str, parts: Sequence[NDArray[Any]]) -> Any:
    if len({part.dtype.kind if part.dtype.kind in "UM" else "" for part in parts}) > 1:
        # NumPy would turn numbers into text, and merge the ids 1 and "1".
        raise InputError(f"{name!r} is text or a time in some episodes and not in others: use one type.")
    try:
        return np.concatenate(parts)
    except ValueError:
        shapes = sorted({str(part.shape[1:]) for part in parts})
        raise InputError(f"episodes have entries of different shapes, {' and '.join(shapes[:3])}.") from None
