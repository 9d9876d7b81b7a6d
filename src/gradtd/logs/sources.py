"""Opens every kind of source as a table: paths, frames, arrays, nested data, datasets and buffers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.logs.files import open_path
from gradtd.logs.nested import open_data, open_mapping
from gradtd.logs.tables import FrameTable, Piece, Table


def open_table(source: Any) -> Table:
    """The table for any supported source."""
    try:
        return _open(source)
    except RecursionError:
        raise InputError("the data are nested too deeply for a log. Give a dictionary of arrays.") from None
    except OSError as error:  # an invalid file name
        raise InputError(f"cannot read {str(source)[:80]!r}: {error.strerror or error}.") from None


def _open(source: Any) -> Table:
    if isinstance(source, str) and is_dataset_id(source) and not Path(source).exists():
        return MinariTable(source)
    if isinstance(source, (str, os.PathLike)):
        return open_path(Path(source))
    if hasattr(source, "pieces") and hasattr(source, "kinds"):  # already open
        return source  # type: ignore[no-any-return]
    if isinstance(source, Mapping):
        _refuse_other_indices(source)
        return open_mapping(source)
    if is_dataset(source):
        return MinariTable(source)
    kind = type(source)
    library = kind.__module__.split(".")[0]
    if (library in ("pandas", "polars") and kind.__name__ in ("DataFrame", "LazyFrame")) or (
        library == "pyarrow" and kind.__name__ == "Table"
    ):
        return FrameTable(source)
    if (found := open_data(source, kind.__name__ if library != "builtins" else "data")) is not None:
        return found
    # A RecordBatch, a Hugging Face Dataset, a DuckDB relation. A Series is a single column, so it is refused.
    if hasattr(source, "to_pandas") and hasattr(frame := source.to_pandas(), "columns"):
        return FrameTable(frame)
    raise InputError(
        "a log is read from a path, a pandas or polars frame, an Arrow table, a dictionary of arrays, a list of steps "
        f"or episodes, a Minari dataset or a replay buffer, got {kind.__name__}: {_conversion(source)}"
    )


def _refuse_other_indices(source: Mapping[Any, Any]) -> None:
    """Refuse Series of one length whose indices differ: their rows would be matched by position."""
    if type(source) is not dict:  # reading an entry of another mapping, as of a file, may be slow or fail
        return
    of_pandas = [name for name, one in source.items() if type(one).__module__.split(".")[0] == "pandas"]
    series = {name: source[name] for name in of_pandas if type(source[name]).__name__ == "Series"}
    for name, other in series.items():
        first, one = next(iter(series.items()))
        if len(one) == len(other) and not one.index.equals(other.index):
            raise InputError(
                f"the index of {name!r} differs from that of {first!r}, so their rows cannot be matched: give a "
                "DataFrame, pandas.DataFrame(columns), which matches rows by index, or .to_numpy() of each Series if "
                "their rows are in the same order."
            )


def _conversion(source: Any) -> str:
    """A line of code that converts an unsupported source."""
    if isinstance(source, np.ndarray):
        columns = 'columns=["x", "v", "action", "reward", "done"]'
        return f"name its columns, gradtd.read_log(pandas.DataFrame(array, {columns}), ...)."
    if hasattr(source, "compute"):
        return "gradtd.read_log(frame.compute()), or write it as Parquet."
    if hasattr(source, "__next__") or hasattr(source, "__iter__"):
        return "gradtd.read_log(list(source)), with one dictionary per step."
    return 'give a dictionary of arrays, {"episode": ..., "observation": ..., "action": ..., "reward": ...}.'


_ID = re.compile(r"[-\w/]+-v\d+")
PARTS = {
    "observation": "observations",
    "action": "actions",
    "reward": "rewards",
    "terminated": "terminations",
    "truncated": "truncations",
}
"""gradtd's column names, and Minari's."""


def is_dataset_id(source: str) -> bool:
    """Whether a string looks like namespace/name-v0."""
    return _ID.fullmatch(source) is not None


def is_dataset(source: Any) -> bool:
    return hasattr(source, "iterate_episodes") and hasattr(source, "spec")


class MinariTable:
    """The table of a Minari dataset, given as an object or as the id of a local one. Nothing is downloaded."""

    sure = True

    def __init__(self, source: Any) -> None:
        self.dataset = _load(source) if isinstance(source, str) else source
        try:
            self.name = str(self.dataset.spec.dataset_id)
        except Exception as error:  # Minari parses its metadata on access
            gist = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"the Minari dataset {str(source)!r} cannot be read; it may be damaged: {gist}.") from None
        first = next(self._episodes(), None)
        if first is None:
            raise InputError(f"the Minari dataset {self.name!r} has no episodes.")
        self.kinds = dict.fromkeys(("episode", "t"), "whole") | {"reward": "real"}
        self.kinds |= dict.fromkeys(("terminated", "truncated"), "truth")
        for name in ("observation", "action"):
            flat = first[name]
            self.kinds[name] = "list" if flat.ndim == 2 else "whole" if flat.dtype.kind in "iu" else "real"
        self.kinds["next_observation"] = self.kinds["observation"]

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        seen: set[int] = set()
        steps = 0
        for episode in self._episodes():
            number = int(episode["episode"][0]) if len(episode["episode"]) else None
            if number in seen:
                raise self._damaged(f"two episodes have the id {number}")
            if number is not None:
                seen.add(number)
                steps += len(episode["episode"])
                yield {name: Piece(episode[name]) for name in columns}
        told = getattr(self.dataset, "total_steps", steps)
        if told != steps:
            raise self._damaged(f"its header says {told} steps, but its episodes have {steps}")

    def _episodes(self) -> Iterator[dict[str, NDArray[Any]]]:
        """The columns of each episode, checked for consistency."""
        kinds: dict[str, Any] = {}
        for number, raw in enumerate(self._raw()):
            try:
                episode = _columns(raw)
            except InputError as error:
                raise self._damaged(f"in episode {number} {str(error).removesuffix('.')}") from None
            for name in ("observation", "action"):
                kind = (episode[name].shape[1:], episode[name].dtype.kind == "f")
                if len(episode["reward"]) and kinds.setdefault(name, kind) != kind:
                    raise self._damaged(
                        f"in episode {number} {PARTS[name]} have a different type from earlier episodes"
                    )
            yield episode

    def _raw(self) -> Iterator[Any]:
        """The episodes from Minari. Any error on a damaged file becomes one message."""
        try:
            yield from self.dataset.iterate_episodes()
        except Exception as error:
            raise self._damaged(f"Minari says {_gist(error)}") from None

    def _damaged(self, what: str) -> InputError:
        return InputError(f"the Minari dataset {self.name!r} is damaged: {what}. Make or download it again.")


def _columns(raw: Any) -> dict[str, NDArray[Any]]:
    """All columns of an episode, each of the right length."""
    made = {name: _flat(getattr(raw, label, None), label) for name, label in PARTS.items()}
    length = len(made["reward"])
    for name, label in PARTS.items():
        wanted = length + (name == "observation")
        if length and len(made[name]) != wanted:
            raise InputError(f"there are {len(made[name])} {label} for {length} rewards, not {wanted}.")
    if made["reward"].ndim != 1:
        raise InputError("a step has several rewards.")
    for name in ("terminated", "truncated"):
        if made[name].ndim != 1 or not np.isin(made[name], (0, 1)).all():
            raise InputError(f"{PARTS[name]} are not true or false.")
        made[name] = made[name].astype(bool)
    try:
        number = np.int64(raw.id)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the id {raw.id!r} is not a whole number.") from None
    if number != raw.id:
        raise InputError(f"the id {raw.id!r} is not a whole number.")
    every = made["observation"]
    made |= {"observation": every[:length], "next_observation": every[1 : length + 1]}
    return made | {"episode": np.full(length, number), "t": np.arange(length, dtype=np.int64)}


def _flat(values: Any, label: str) -> NDArray[Any]:
    """Flatten values of any space: (steps,) for one number, (steps, k) for several. Dictionaries and tuples are
    concatenated."""
    if isinstance(values, dict):
        return _flat(tuple(values[key] for key in sorted(values)), label)
    if isinstance(values, tuple):
        parts = [_flat(part, label) for part in values]
        if len({len(part) for part in parts}) != 1:
            raise InputError(f"parts of {label} have different lengths.")
        return np.column_stack(parts).astype(np.float64)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{label} have different lengths.") from None
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise InputError(f"{label} are not numbers but {array.dtype if array.ndim else type(values).__name__}.")
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
    except Exception as error:
        raise InputError(f"the Minari dataset {name!r} cannot be opened: {_gist(error)}.") from None


def _gist(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300] or type(error).__name__
