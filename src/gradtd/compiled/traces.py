"""Eligibility traces: one row per step, computed in one pass over a known stream, or as steps arrive.

    e_t = discount_{t-1} lam c_{t-1} e_{t-1} + x_t,        e_t = x_t at the start of an episode

and a rule uses rho_t delta_t e_t instead of rho_t delta_t x_t. So z = rho e is the trace in the literature. ``trace``
names c: the ratio rho, the ratio clipped at one (Retrace), or the target's probability of the action taken (Tree
Backup). A trace depends neither on weights nor on other episodes, so stored traces stay valid. A trace ends when the
episode terminates or is truncated, and at a discount of 0 within an episode. It continues across blocks of a long
episode.

With ``emphatic`` the features enter as (lam + (1 - lam) F_t) x_t, with the follow-on F_t = discount_{t-1} rho_{t-1}
F_{t-1} + 1 and F = 1 at the start of an episode.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Index, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import SparseRows, Stream

KINDS = ("rho", "clipped", "tree")
DROPPED = 1e-16
"""Entries of a sparse trace up to this multiple of the largest feature since the trace began are dropped.

Entry by entry the kept trace then differs from the full trace by at most as much times s, where s is the trace that a
constant feature 1 would have, s_t = discount_{t-1} lam c_{t-1} s_{t-1} + 1. The dropped part decays like the rest. No
later step is used, so steps that arrive one by one have the same traces as a known stream."""

PIECE = 2**18
"""Number of steps per block of traces: traces of a stream on disk are written to disk, block by block."""


class Tracing(NamedTuple):
    """Which traces a rule uses."""

    lam: float
    kind: str = "rho"
    emphatic: bool = False

    @property
    def numbers(self) -> Floats:
        """The settings as an array for compiled code: `LAM`, `CLIPPED`, `EMPHATIC`."""
        return np.array([self.lam, float(self.kind == "clipped"), float(self.emphatic)])

    def ratios(self, steps: Any, target: Floats | None, name: str) -> Floats:
        """The factor c of every step."""
        if self.kind == "tree":
            if target is None:
                raise InputError(
                    f"trace='tree' needs the target's probability of every action taken, and {name} does not have "
                    "them: give target= to Stream.from_arrays, or choose trace='rho' or trace='clipped'."
                )
            return target
        rho = np.asarray(steps["rho"])
        return np.minimum(rho, 1.0) if self.kind == "clipped" else rho


class Room(Protocol):
    """Storage of sparse traces, with ``size`` rows in use."""

    size: int

    @property
    def whole(self) -> SparseRows:
        """The arrays including spare capacity."""

    def lengthen(self, entries: int) -> None:
        """Reserve capacity for this total number of entries."""


class Tracer:
    """Computes the traces of steps as they arrive. A whole stream can be passed at once.

    It stores the latest trace and its factor for the next step: ``carried`` holds that factor, the factor of the
    follow-on, and the follow-on. With sparse features the latest trace is the last row, so ``n_features`` is 0, and
    ``largest`` holds the largest feature since the trace began.
    """

    def __init__(self, tracing: Tracing, n_features: int, compile: bool | None = None) -> None:
        self.tracing = tracing
        self.latest = np.zeros(n_features)
        self.carried = np.zeros(3)
        self.largest = np.zeros(1)
        self.episode = np.full(1, -1)
        self._compile = compile

    def weights(self, steps: NDArray[Any], target: Floats | None, name: str) -> tuple[Floats, Floats]:
        """Two arrays with one entry per step: the factor of the previous trace, and the weight of the step's
        features."""
        tracing, taken, weight = self.tracing, np.empty(len(steps)), np.empty(len(steps))
        columns = [steps["discount"], steps["rho"], tracing.ratios(steps, target, name)]
        told = tuple(np.array(column, np.float64) for column in columns)
        write = engine.compile_function(write_shares, self._compile)
        write(tracing.numbers, self.carried, self.episode, np.array(steps["episode"]), told, taken, weight)
        return taken, weight

    def add(self, features: Floats, steps: NDArray[Any], target: Floats | None, name: str, out: Floats) -> None:
        """Fill ``out`` with the traces of new steps, one row per step. Features are dense."""
        taken, weight = self.weights(steps, target, name)
        rows = np.ascontiguousarray(steps["row"])
        engine.compile_function(write_dense_traces, self._compile)(features, rows, taken, weight, self.latest, out)

    def add_sparse(
        self, features: SparseRows, steps: NDArray[Any], target: Floats | None, name: str, out: Room
    ) -> None:
        """Append the traces of new steps to ``out``, which has capacity for the rows and reserves entries."""
        merge = engine.compile_function(write_sparse_traces, self._compile)
        told = [np.ascontiguousarray(steps["row"]), *self.weights(steps, target, name)]
        first, done = out.size, 0
        while True:
            done = int(merge(features, *told, self.largest, out.whole, first, done))
            if done == len(steps):
                break
            out.lengthen(int(most_entries(features, told[0][done], out.whole, first + done)))
        out.size += len(steps)


def traces_of(stream: Stream, tracing: Tracing, compile: bool | None = None) -> Floats | SparseRows:
    """The traces of all steps of a stream, stored as its features are.

    The stream caches the latest table, so that many settings over one stream share it.
    """
    kept = kept_traces(stream)
    if kept is not None and kept[0] == tracing:
        return kept[1]
    del kept
    stream.__dict__.pop("_traces", None)  # free the old table before allocating a new one
    made = _traces_of(stream, tracing, compile)
    keep_traces(stream, tracing, made)
    return made


def kept_traces(stream: Stream) -> tuple[Tracing, Floats | SparseRows] | None:
    """The cached traces of a stream, if any."""
    return stream.__dict__.get("_traces")


def keep_traces(stream: Stream, tracing: Tracing, made: Floats | SparseRows) -> None:
    """Store traces that cannot be computed from the stream's episodes alone."""
    stream.__dict__["_traces"] = (tracing, made)


def traces_at(made: Floats | SparseRows, rows: Integers) -> Floats | SparseRows:
    """Select the traces of the given steps."""
    return made[rows] if isinstance(made, np.ndarray) else sparse_rows_at(made, rows)


def sparse_rows_at(made: SparseRows, rows: Integers) -> SparseRows:
    """Select rows of a sparse table. The cost is proportional to their number of entries."""
    lengths = made.begin[rows + 1] - made.begin[rows]
    begin = np.r_[0, np.cumsum(lengths)]
    at = np.repeat(made.begin[rows] - begin[:-1], lengths) + np.arange(begin[-1])
    return SparseRows(made.data[at], made.indices[at], begin, made.n_columns)


def _traces_of(stream: Stream, tracing: Tracing, compile: bool | None) -> Floats | SparseRows:
    features, steps = stream.view.features, stream.view.steps
    if isinstance(features, np.ndarray):
        tracer = Tracer(tracing, stream.n_features, compile)
        out = stream.room(len(stream) * stream.n_features, np.float64).reshape(len(stream), stream.n_features)
        for first in range(0, len(stream), PIECE):
            some = slice(first, first + PIECE)
            target = None if stream.target is None else stream.target[some]
            tracer.add(features, steps[some], target, stream.name, out[some])
        return out
    return _sparse_traces(stream, Tracer(tracing, 0, compile))


class _StreamRoom:
    """Growing storage for the traces of all steps of a stream, in memory or on disk as the stream requires."""

    def __init__(self, stream: Stream) -> None:
        self.size, self._stream, entries = 0, stream, max(1024, 4 * len(stream))
        data, indices = stream.room(entries, np.float64), stream.room(entries, np.uint32)
        self.whole = SparseRows(data, indices, stream.room(len(stream) + 1, np.int64), stream.n_features)

    def lengthen(self, entries: int) -> None:
        self._resize(entries + len(self.whole.data))

    def cut(self) -> SparseRows:
        """The rows that were filled."""
        self._resize(int(self.whole.begin[-1]))
        return self.whole

    def _resize(self, entries: int) -> None:
        data, indices = (self._stream.resized(array, entries) for array in self.whole[:2])
        self.whole = self.whole._replace(data=data, indices=indices)


def _sparse_traces(stream: Stream, tracer: Tracer) -> SparseRows:
    """The traces as compressed rows, computed in pieces."""
    room = _StreamRoom(stream)
    for first in range(0, len(stream), PIECE):
        some = slice(first, first + PIECE)
        target = None if stream.target is None else stream.target[some]
        tracer.add_sparse(stream.view.features, stream.view.steps[some], target, stream.name, room)
    return room.cut()


LAM, CLIPPED, EMPHATIC = 0, 1, 2
"""Numbers of `Tracing.numbers`."""
SHARE, FOLLOW, FOLLOW_ON = 0, 1, 2
"""Numbers of `Tracer.carried`."""


def step_shares(numbers: Floats, carried: Floats, latest: Any, episode: int, step: Any) -> tuple[float, float]:
    """The factor of the previous trace, and the weight of the step's features.

    ``step`` has its discount, its ratio, and the ratio c of its trace. ``carried`` keeps the factors for the next step.
    """
    discount, rho, c = step
    same = latest[0] == episode
    taken, weight = carried[SHARE] if same else 0.0, 1.0
    if numbers[EMPHATIC] != 0.0:
        carried[FOLLOW_ON] = (carried[FOLLOW] if same else 0.0) * carried[FOLLOW_ON] + 1.0
        weight = numbers[LAM] + (1.0 - numbers[LAM]) * carried[FOLLOW_ON]
        carried[FOLLOW] = discount * rho
    carried[SHARE], latest[0] = discount * (numbers[LAM] * c), episode
    return taken, weight


def write_shares(
    numbers: Floats, carried: Floats, latest: Any, episode: Any, steps: Any, taken: Floats, weight: Floats
) -> None:
    """`step_shares` of many steps"""
    discount, rho, c = steps
    for t in range(taken.shape[0]):
        taken[t], weight[t] = step_shares(numbers, carried, latest, episode[t], (discount[t], rho[t], c[t]))


def write_dense_traces(features: Floats, rows: Any, taken: Floats, weight: Floats, latest: Floats, out: Floats) -> None:
    """`write_dense_trace` of many steps"""
    for t in range(rows.shape[0]):
        write_dense_trace(features, rows[t], taken[t], weight[t], latest, out, t)


def write_dense_trace(
    features: Floats, row: Any, taken: float, weight: float, latest: Floats, out: Floats, t: int
) -> None:
    """out[t] = taken e + weight x; ``latest`` holds e of the previous step, and on return that of this step"""
    for k in range(latest.shape[0]):
        e = weight * features[row, k]
        if taken != 0.0:  # a trace that overflowed ends with its episode
            e += taken * latest[k]
        latest[k] = e
        out[t, k] = e


def write_sparse_traces(
    features: Any, rows: Any, taken: Floats, weight: Floats, largest: Floats, out: Any, first: int, t: int
) -> Any:
    """Write the traces of steps from t on after row ``first`` of ``out``; returns the first step that did not fit"""
    while t < rows.shape[0]:
        if most_entries(features, rows[t], out, first + t) > out.data.shape[0]:
            return t
        write_sparse_trace(features, rows[t], taken[t], weight[t], largest, out, first + t)
        t += 1
    return t


def write_sparse_trace(features: Any, row: Any, taken: float, weight: float, largest: Floats, out: Any, t: int) -> None:
    """Write row t of ``out``, which has enough capacity"""
    largest[0] = largest_entry(features, row, largest[0] if taken != 0.0 else 0.0)
    out.begin[t + 1] = merge_row(features, row, taken, weight, DROPPED * largest[0], out, t)


def most_entries(features: Any, row: Index, out: Any, t: int) -> Any:
    """Upper bound of the number of entries after row t is written."""
    before = out.begin[t] - out.begin[t - 1] if t > 0 else 0
    return out.begin[t] + before + features.begin[row + 1] - features.begin[row]


def largest_entry(features: Any, row: Index, largest: float) -> Any:
    """The larger of ``largest`` and the largest absolute entry of a row."""
    for k in range(features.begin[row], features.begin[row + 1]):
        largest = max(largest, abs(features.data[k]))
    return largest


def merge_row(features: Any, row: Index, taken: float, weight: float, least: float, out: Any, t: int) -> Any:
    """Write row t, taken e + weight x, both read in the order of their columns; returns the end of the row."""
    begin, data, indices = out.begin, out.data, out.indices
    j, end = (begin[t - 1], begin[t]) if t > 0 and taken != 0.0 else (begin[t], begin[t])
    k, next_end = features.begin[row], features.begin[row + 1]
    place = begin[t]
    while j < end or k < next_end:
        column = np.int64(indices[j]) if j < end else features.n_columns
        own = np.int64(features.indices[k]) if k < next_end else features.n_columns
        at = min(column, own)
        e = 0.0
        if own == at:
            e = weight * features.data[k]
            k += 1
        if column == at:
            e += taken * data[j]
            j += 1
        if not abs(e) <= least:  # true for NaN, too, so that NaN is kept
            data[place], indices[place] = e, at
            place += 1
    return place
