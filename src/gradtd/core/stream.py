"""Experience: the definition of a step, and a `Stream` of steps that point into a table of features.

The sign conventions are: ``A = E[rho phi (gamma phi' - phi)']``, ``b = E[rho r phi]``,
and the TD solution solves ``A theta + b = 0``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.stream_arrays import STEP as STEP
from gradtd.core.stream_arrays import SparseRows as SparseRows
from gradtd.core.stream_arrays import StreamView as StreamView
from gradtd.core.stream_arrays import (
    TrustedTable,
    copied_steps,
    read_only,
    refuse_bad_numbers,
    trusted_features,
    trusted_starts,
    trusted_steps,
)

if TYPE_CHECKING:
    import scipy.sparse


def begins_episode(episode: NDArray[Any]) -> NDArray[np.bool_]:
    """For every step, whether an episode begins with it; ``episode`` has its number, or any other label.

    >>> begins_episode(np.array([7, 7, 2])).tolist()
    [True, False, True]
    """
    begins = np.ones(len(episode), bool)
    begins[1:] = episode[1:] != episode[:-1]
    return begins


def episode_begins(episode: NDArray[Any]) -> Integers:
    """The first step of each episode, followed by the number of steps.

    >>> episode_begins(np.array([7, 7, 2])).tolist()
    [0, 2, 3]
    """
    return np.append(np.flatnonzero(begins_episode(episode)), len(episode)).astype(np.int64)


def episode_numbers(episode: NDArray[Any]) -> Integers:
    """The episodes numbered 0, 1, ... in order of appearance.

    >>> episode_numbers(np.array([7, 7, 2])).tolist()
    [0, 0, 1]
    """
    return np.cumsum(begins_episode(episode)).astype(np.int64) - 1


def _in_one_piece(episode: Integers) -> Integers:
    """The episodes numbered 0, 1, ...; an episode that occurs again later is refused."""
    begins = begins_episode(episode)
    first_seen, count = np.unique(episode[begins], return_counts=True)
    if (count > 1).any():
        again = first_seen[count > 1][0]
        at = np.flatnonzero(begins & (episode == again))[1]
        raise InputError(
            f"the steps of an episode must be contiguous, but episode {again} occurs again at step {at}: sort the "
            f"steps by episode and time."
        )
    return episode_numbers(episode)


@dataclass(frozen=True, eq=False)
class Stream:
    """Steps in the order in which they happened, which point into a table of features.

    Create one with `Stream.from_arrays` or `gradtd.sample`. In every case everything in it is validated, and its
    episodes are renumbered 0, 1, ... in order. Its steps cannot be changed afterwards: `with_steps` creates a stream of
    other steps over the same features.

    Parameters
    ----------
    features : array or SciPy sparse matrix
        One row per observation. float32 is stored as float32, everything else as float64.
    steps : record array
        One record of type `STEP` per step. They are copied.
    name : str
        A name for tables and plots.
    target : array, optional
        The target's probability of each action taken, if known.
    starts : array of int, optional
        The row of features in which every episode starts, if it is not the row of its first step: with action features
        an episode starts in a state, before the first action is chosen.
    """

    features: Floats | scipy.sparse.csr_array
    steps: np.recarray[Any, Any]
    name: str = "stream"
    target: Floats | None = None
    starts: Integers | None = None
    _view: StreamView = field(init=False, repr=False)

    def __post_init__(self) -> None:
        steps, target = copied_steps(self.steps, self.target)
        steps["episode"] = _in_one_piece(steps["episode"])
        table = trusted_features(checks.feature_table(self.features, narrow=True))
        self._keep(table, trusted_steps(steps, table), target, self.starts)

    def _keep(self, table: TrustedTable, steps: Any, target: Floats | None, starts: Any) -> None:
        """Use trusted parts: a table of features, and steps over it that no caller can modify."""
        rows = None if starts is None else trusted_starts(starts, steps["episode"], table)
        kept = {"features": table.seen, "steps": read_only(steps), "target": target, "starts": rows}
        for label, value in (kept | {"_view": StreamView(table.compiled, steps)}).items():
            object.__setattr__(self, label, value)

    def _like(self, steps: Any, target: Floats | None, starts: Any) -> Stream:
        made = object.__new__(Stream)  # its steps are in memory, even where these are mapped from a folder
        object.__setattr__(made, "name", self.name)
        made._keep(self._table, steps, target, starts)
        return made

    @property
    def _table(self) -> TrustedTable:
        return TrustedTable(self.features, self.view.features)

    @classmethod
    def of_own(
        cls,
        features: Any,
        steps: NDArray[Any],
        name: str,
        highest: int,
        target: Floats | None = None,
        starts: Integers | None = None,
    ) -> Self:
        """A stream of newly created arrays that no caller holds, without copies.

        ``highest`` is the highest row that a step points to, which the caller knows without reading the steps.
        """
        made = object.__new__(cls)
        object.__setattr__(made, "name", name)
        table = trusted_features(features)
        made._keep(table, trusted_steps(steps, table, highest), target, starts)
        return made

    def taken(self, places: Integers, episode: Integers, starts: Any = None) -> Stream:
        """The same features with the steps at these positions, renumbered."""
        steps = np.asarray(self.view.steps[places])
        steps["episode"] = episode
        return self._like(steps.view(np.recarray), None, starts)

    def changed(self, **columns: Any) -> Stream:
        """The same stream with other numbers in these columns of its steps, without validation and without
        ``target``."""
        steps = np.array(self.view.steps)
        for name, values in columns.items():
            steps[name] = values
        return self._like(steps.view(np.recarray), None, self.starts)

    def with_steps(self, steps: Any, target: Any = None, starts: Any = None) -> Stream:
        """The same features with other steps, for example a selection: ``stream.with_steps(stream.steps[:1000])``.

        Parameters
        ----------
        steps : record array
            One record of type `STEP` per step. They are validated and copied, and their episodes are renumbered.
        target : array, optional
            The target's probability of each action taken, where it is known.
        starts : array of int, optional
            The row of features in which every episode starts, if it is not the row of its first step.
        """
        copied, probabilities = copied_steps(steps, target)
        copied["episode"] = _in_one_piece(copied["episode"])
        return self._like(trusted_steps(copied, self._table), probabilities, starts)

    def save(self, folder: str | Path) -> None:
        """Write it to a folder that `Stream.open` memory-maps; `gradtd.store_stream` does this for a log of any size.

        Parameters
        ----------
        folder : str or Path
            A folder that does not exist yet.
        """
        from gradtd.core.stream_folder import save_stream

        save_stream(self, folder)

    @staticmethod
    def open(folder: str | Path) -> Stream:
        """The stream in a folder. It is memory-mapped instead of read into memory, but fully validated once.

        No process should write to the folder while the stream is in use.

        Parameters
        ----------
        folder : str or Path
            What `Stream.save` or `gradtd.store_stream` wrote.
        """
        from gradtd.core.stream_folder import open_stream

        return open_stream(folder)

    def parts(self, steps: int) -> Iterator[Stream]:
        """The stream in parts of whole episodes, each with a copy of its rows.

        Parameters
        ----------
        steps : int
            A part has at least that number of steps, except the last one.
        """
        least, episode, begin = checks.whole_number("steps", steps, 1), self.view.steps["episode"], 0
        left = self.starts
        while begin < len(self):
            end = min(begin + least, len(self))
            while end < len(self) and episode[end] == episode[begin + least - 1]:
                ahead = np.flatnonzero(episode[end : end + least] != episode[begin + least - 1])
                end = end + int(ahead[0]) if len(ahead) else min(end + least, len(self))
            part = np.array(self.view.steps[begin:end], STEP)
            needed = [part["row"], part["next_row"]]
            if left is not None:
                here = int(np.count_nonzero(begins_episode(part["episode"])))
                needed, left = [*needed, left[:here]], left[here:]
            rows, place = np.unique(np.concatenate(needed), return_inverse=True)
            part["row"], part["next_row"], starts_at = np.split(place, [len(part), 2 * len(part)])
            starts = None if left is None else starts_at
            target = None if self.target is None else self.target[begin:end]
            yield Stream(self.features[rows], part.view(np.recarray), self.name, target, starts)
            begin = end

    def room(self, n: int, dtype: Any) -> NDArray[Any]:
        """Zeros for what a run stores for every step."""
        what = f"what a run stores for every step of {self.name}"
        advice = "save it, and learn from what Stream.open returns"
        refuse_beyond_memory(float(n) * np.dtype(dtype).itemsize, what, advice)
        return np.zeros(n, dtype)

    def resized(self, kept: NDArray[Any], n: int) -> NDArray[Any]:
        """A new array of another length that begins with the same numbers."""
        return np.resize(kept, n)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.features, np.asarray(self.steps), self.name, self.target, self.starts)

    @classmethod
    def from_arrays(
        cls,
        *,
        features: Any,
        row: Any,
        next_row: Any,
        reward: Any,
        discount: Any,
        episode: Any,
        rho: Any = 1.0,
        target: Any = None,
        name: str = "stream",
    ) -> Stream:
        """Build a stream from arrays, one entry per step, and validate all of them.

        Parameters
        ----------
        features : array or SciPy sparse matrix
            One row per observation. A dense array is not copied. float32 is stored as float32, everything else as
            float64; weights and sums are always float64.
        row, next_row : array of int
            The row of features from which a step started, and the row to which it led.
        reward : array
            The reward of the step.
        discount : array or float
            Gamma; 0 where the episode terminated. If it was only truncated, it stays gamma.
        episode : array of int
            A whole number for each episode, whose steps must be contiguous. The stream numbers them 0, 1, ...
        rho : array or float
            The target's probability of the action taken, divided by the behaviour's.
        target : array or float, optional
            The target's probability of the action taken. Only ``trace="tree"`` needs it.
        name : str
            A name for tables and pictures.

        >>> import numpy as np
        >>> stream = Stream.from_arrays(
        ...     features=np.eye(3), row=[0, 1, 0], next_row=[1, 2, 1], reward=[0, 1, 0],
        ...     discount=[0.9, 0, 0.9], rho=[1, 1, 0.5], episode=[7, 7, 8])
        >>> stream
        Stream(stream: 3 steps, 2 episodes, 3 features, dense)
        """
        table = checks.feature_table(features, narrow=True)
        rows = checks.whole_numbers("row", row)
        n_steps = len(rows)
        if n_steps == 0:
            raise InputError("a stream needs at least one step, got row of length 0.")
        columns: dict[str, NDArray[Any]] = {
            "next_row": checks.whole_numbers("next_row", next_row),
            "reward": checks.number_a_step("reward", reward, n_steps),
            "discount": checks.number_a_step("discount", discount, n_steps),
            "rho": checks.number_a_step("rho", rho, n_steps),
        }
        if target is not None:
            columns["target"] = checks.number_a_step("target", target, n_steps)
        episodes = checks.whole_numbers("episode", episode)
        for label, values in [*columns.items(), ("episode", episodes)]:
            if len(values) != n_steps:
                raise InputError(
                    f"every column needs one entry per step: row has {n_steps}, {label} has {len(values)}."
                )
        for label, values in (("row", rows), ("next_row", columns["next_row"])):
            outside = (values < 0) | (values >= table.shape[0])
            checks.refuse_where(label, outside, values, f"must be a row of features, 0 to {table.shape[0] - 1}")
        refuse_bad_numbers(columns)
        steps = np.zeros(n_steps, STEP)
        steps["row"] = rows
        for label in ("next_row", "reward", "discount", "rho"):
            steps[label] = columns[label]
        steps["episode"] = _in_one_piece(episodes)
        highest = int(max(rows.max(), columns["next_row"].max()))
        return cls.of_own(table, steps, name, highest, columns.get("target"))

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        kind = "dense" if isinstance(self.features, np.ndarray) else "sparse"
        kind += " float32" * (self.features.dtype == np.float32)
        return f"Stream({self.name}: {len(self)} steps, {self.n_episodes} episodes, {self.n_features} features, {kind})"

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_episodes(self) -> int:
        return int(self.steps["episode"][-1]) + 1

    @property
    def begins(self) -> Integers:
        """The first step of each episode, followed by the number of steps."""
        return episode_begins(self.steps["episode"])

    @property
    def view(self) -> StreamView:
        """The stream in the form that algorithms and compiled code read, validated when it was created."""
        return self._view
