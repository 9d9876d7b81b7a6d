"""Experience: what a step is, and a `Stream` of steps that point into a table of features.

Signs are fixed here once: ``A = E[rho phi (gamma phi' - phi)']``, ``b = E[rho r phi]``,
and the TD solution solves ``A theta + b = 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError

if TYPE_CHECKING:
    import scipy.sparse


STEP = np.dtype(
    [
        ("row", np.uint32),
        ("next_row", np.uint32),
        ("reward", np.float64),
        ("discount", np.float64),
        ("rho", np.float64),
        ("episode", np.int64),
    ],
    align=True,
)
"""One step of experience; ``row`` and ``next_row`` point into the stream's features.

``discount`` is per step: gamma, and 0 where the episode *terminated*. Where an episode was only
cut off (*truncated*) it stays gamma and ``next_row`` is the observation that followed, so the
update bootstraps as it should."""


def begins_episode(episode: NDArray[Any]) -> NDArray[np.bool_]:
    """For every step, whether an episode begins with it; ``episode`` has its number, or any other label of it.

    >>> begins_episode(np.array([7, 7, 2])).tolist()
    [True, False, True]
    """
    begins = np.ones(len(episode), bool)
    begins[1:] = episode[1:] != episode[:-1]
    return begins


def episode_begins(episode: NDArray[Any]) -> Integers:
    """The first step of each episode, and behind them the number of steps.

    >>> episode_begins(np.array([7, 7, 2])).tolist()
    [0, 2, 3]
    """
    return np.append(np.flatnonzero(begins_episode(episode)), len(episode)).astype(np.int64)


def episode_numbers(episode: NDArray[Any]) -> Integers:
    """The episodes numbered 0, 1, ... in the order in which they come.

    >>> episode_numbers(np.array([7, 7, 2])).tolist()
    [0, 0, 1]
    """
    return np.cumsum(begins_episode(episode)).astype(np.int64) - 1


def _in_one_piece(episode: Integers) -> Integers:
    """The same, with an episode that comes back later refused."""
    begins = begins_episode(episode)
    first_seen, count = np.unique(episode[begins], return_counts=True)
    if (count > 1).any():
        again = first_seen[count > 1][0]
        at = np.flatnonzero(begins & (episode == again))[1]
        raise InputError(
            f"the steps of an episode must be contiguous: episode {again} comes back at step {at}; "
            "sort the steps by episode and time."
        )
    return episode_numbers(episode)


class SparseRows(NamedTuple):
    """A sparse feature matrix in compressed rows, the form compiled code reads; columns increase along a row."""

    data: Floats
    indices: NDArray[np.uint32]
    begin: NDArray[np.int64]
    n_columns: int


class StreamView(NamedTuple):
    """What a rule sees of a stream: ``stream.features`` and ``stream.steps[t].reward`` and so on.

    ``traces`` holds the eligibility trace of step t in row t, stored as the features are; None where lam is 0, and the
    trace of a step is its features.
    """

    features: Any
    steps: Any
    traces: Any = None


@dataclass(frozen=True, eq=False)
class Stream:
    """Experience in the order it happened: features, and steps that point into them.

    Make one with `Stream.from_arrays` or `gradtd.sample`, which check what they are given.

    Parameters
    ----------
    features : array or SciPy sparse matrix
        One row per observation.
    steps : record array
        One record of type `STEP` per step.
    name : str
        A name for tables and pictures.
    target : array, optional
        The target's probability of each action taken, where it is known.
    starts : array of int, optional
        The row of features that every episode starts in, where it is not that of its first step: with features of
        actions an episode starts in a state, before the first action is chosen.
    """

    features: Floats | scipy.sparse.csr_array
    steps: np.recarray[Any, Any]
    name: str = "stream"
    target: Floats | None = None
    starts: Integers | None = None

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
        """Build a stream from arrays, one entry per step, and check every one of them.

        Parameters
        ----------
        features : array or SciPy sparse matrix
            One row per observation. A dense array is not copied.
        row, next_row : array of int
            The row of features that a step started from, and the row that it led to.
        reward : array
            The reward of the step.
        discount : array or float
            Gamma; 0 where the episode terminated. Where it was only cut off it stays gamma.
        episode : array of int
            Numbers the episodes. Each must be in one piece.
        rho : array or float
            The target's probability of the action taken over the behaviour's.
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
        table = checks.feature_table(features)
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
        discounts, ratios = columns["discount"], columns["rho"]
        checks.refuse_where("discount", (discounts < 0) | (discounts > 1), discounts, "must lie in [0, 1]")
        checks.refuse_where("rho", ratios < 0, ratios, "must not be negative")
        probabilities = columns.get("target")
        if probabilities is not None:
            outside = (probabilities < 0) | (probabilities > 1)
            checks.refuse_where("target", outside, probabilities, "must lie in [0, 1]")
        steps = np.zeros(n_steps, STEP)
        steps["row"] = rows
        for label in ("next_row", "reward", "discount", "rho"):
            steps[label] = columns[label]
        steps["episode"] = _in_one_piece(episodes)
        return cls(table, steps.view(np.recarray), name, probabilities)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        kind = "dense" if isinstance(self.features, np.ndarray) else "sparse"
        return f"Stream({self.name}: {len(self)} steps, {self.n_episodes} episodes, {self.n_features} features, {kind})"

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_episodes(self) -> int:
        return int(self.steps["episode"][-1]) + 1

    @property
    def begins(self) -> Integers:
        """The first step of each episode, and behind them the number of steps."""
        return episode_begins(self.steps["episode"])

    @property
    def view(self) -> StreamView:
        """The stream in the form that rules and compiled code read."""
        return StreamView(compiled_features(self.features), self.steps)


def compiled_features(features: Floats | scipy.sparse.csr_array) -> Floats | SparseRows:
    """A feature table as compiled code reads it."""
    if isinstance(features, np.ndarray):
        return features
    return SparseRows(
        np.ascontiguousarray(features.data, dtype=np.float64),
        np.ascontiguousarray(features.indices, dtype=np.uint32),
        np.ascontiguousarray(features.indptr, dtype=np.int64),
        int(features.shape[1]),
    )
