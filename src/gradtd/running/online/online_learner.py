"""The common base of `Learner` and `Horde`: the input of rows and numbers, and predictions."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.engine import compile_once
from gradtd.compiled.online import EPISODE, OVER, sum_at, sums_at
from gradtd.compiled.vectors import WEIGHT, Weights
from gradtd.core import checks
from gradtd.core.arrays import Floats, Plain
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays
from gradtd.core.fork_locks import fork_lock
from gradtd.core.quantiles import level_of
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.given import (
    NUMBERS,
    checked_column,
    checked_table,
    discount_number,
    ends_of_many,
    index_row,
)
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.sparse_rows import SparseTable, compressed, is_sparse, scipy_rows
from gradtd.running.online.value_interval import ValueInterval


class OnlineLearner:
    """The common base of `Learner` and `Horde`."""

    def __init__(self, names: list[str], queue: StepQueue, sparse: Any = False, gamma: Any = None) -> None:
        self._names, self._queue = names, queue
        self._lock = fork_lock()
        self._sparse = checks.yes_or_no("sparse", sparse)
        self._gamma = None if gamma is None else checks.fraction("gamma", gamma)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=fork_lock())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = object.__new__(type(self))
        with self._lock:
            made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle contains what a file does, because compiled functions cannot be pickled."""
        with self._lock:
            beside = (self._more(), self._arrays())
            try:
                header, arrays = saving.contents(type(self).__name__, self._names, self._queue, beside)
                arrays = {name: array.copy() for name, array in arrays.items()}
            finally:
                self._changed()
        return _unpickled, (type(self), (header, arrays), self._queue.threads, self._queue.compile)

    def _take(self, loaded: saving.Loaded) -> Self:
        """Begin with the contents of a file or a pickle."""
        names, queue, more, _ = loaded
        OnlineLearner.__init__(self, names, queue, more.get("indices", False), more.get("gamma"))
        return self

    @property
    def n_features(self) -> int:
        return self._queue.n_features

    @property
    def seen(self) -> int:
        """Number of steps so far."""
        return self._queue.seen

    @property
    def gamma(self) -> float | None:
        """The discount of steps without a given discount."""
        return self._gamma

    def new_episode(self) -> None:
        """End the episode as truncated: the next step begins a new one."""
        with self._lock:
            self._queue.episodes.cut()

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file, without pickle. A loaded learner continues exactly."""
        self._save(path, {}, {})

    def _save(self, path: str | Path, more: dict[str, Any], arrays: Arrays) -> None:
        """`save` with additional contents."""
        with self._lock:
            beside = (self._more() | more, self._arrays() | arrays)
            try:
                saving.save(path, type(self).__name__, self._names, self._queue, beside)
            finally:  # saving may have moved steps to other arrays
                self._changed()

    def _changed(self) -> None:
        """Drop cached references, since arrays may have moved."""

    def _more(self) -> dict[str, Any]:
        """The learner's own header entries of a file."""
        return ({"gamma": self._gamma} if self._gamma is not None else {}) | ({"indices": True} if self._sparse else {})

    def _stage(self, phi: Any, phi_next: Any) -> None:
        """Check the rows of a step, and store them for compiled code."""
        queue = self._queue
        queue.refuse_broken()
        if not self._sparse or is_sparse(phi) or is_sparse(phi_next):
            queue.stage(phi, phi_next)
            return
        queue.stage_indices(
            [index_row(name, row, self.n_features) for name, row in (("phi", phi), ("phi_next", phi_next))]
        )

    def _episode(self, episode: Any) -> int | None:
        return None if episode is None else checks.whole_number("episode", episode, -(2**62), 2**62)

    def _put_stream(self, stream: Any, given: Mapping[str, Any]) -> None:
        if not isinstance(stream, Stream):
            raise InputError(f"partial_fit takes a Stream (see Stream.from_arrays), got {type(stream).__name__}.")
        if stream.n_features != self.n_features:
            raise InputError(f"{stream.name} has {stream.n_features} features, this learner {self.n_features}.")
        numbers = np.empty((3, len(stream), len(self._names)))
        for i, name in enumerate(NUMBERS):
            numbers[i] = stream.steps[name][:, None]
            for demon, values in (given.get(name) or {}).items():
                column = checked_column(name, f"{name}[{demon!r}]", values, len(stream))
                numbers[i, :, self._names.index(checks.known_name("demon", demon, self._names))] = column
        with self._lock:
            self._learn_stream(stream, numbers)

    def _learn_stream(self, stream: Stream, numbers: Floats) -> None:
        put_stream(self._queue, stream, numbers)

    def _learn_many(self, tables: list[NDArray[Any]], numbers: Floats, over: NDArray[np.bool_]) -> None:
        put_many(self._queue, tables, numbers, over)

    def _interval(self, i: int, phi: Any, level: Any, anytime: Any) -> ValueInterval:
        run, queue = self._queue.runs[i], self._queue
        if run.moments is None:
            raise InputError("interval needs moments from the first step on: create the learner with intervals=True.")
        level = level_of(level)
        row = None if phi is None else self._interval_row(phi)
        queue.work_off()
        queue.note_episodes()
        if run.diverged_at >= 0:
            raise InputError(
                f"the weights diverged at step {run.diverged_at}, and later steps were dropped: there is no interval. "
                "Use a smaller step-size."
            )
        if queue.episodes.over:
            run.moments.finish()
        return run.moments.interval(row, level, checks.yes_or_no("anytime", anytime))

    def _interval_row(self, phi: Any) -> Floats:
        return self._queue.dense_features("phi", phi)

    def _thetas(self) -> list[Floats]:
        """The weights of every run."""
        return self._queue.thetas()

    def _read_only(self) -> list[Floats]:
        """`_thetas` without a copy, for immediate use."""
        self._queue.work_off()
        live = [run.live for run in self._queue.runs]
        found = [theta for theta in live if theta is not None]
        return found if len(found) == len(live) else self._thetas()

    def _arrays(self) -> Arrays:
        """The arrays of a file in addition to those of the queue."""
        return {}

    def _put_many(self, rows: tuple[Any, Any], numbers: Mapping[str, Any], ends: tuple[Any, Any]) -> None:
        """Take consecutive steps, with their rows in two tables."""
        tables = [checks.finite_array(name, table, 2, narrow=True) for name, table in zip(_ENDS, rows, strict=True)]
        for name, table in zip(_ENDS, tables, strict=True):
            if table.shape != (len(tables[0]), self.n_features):
                raise InputError(
                    f"{name} needs shape {(len(tables[0]), self.n_features)}, one row of features per step; "
                    f"got {table.shape}."
                )
        steps = len(tables[0])
        if not steps:
            return
        given = dict(numbers)
        if given["discount"] is None:
            given["discount"] = discount_number("discount", self._gamma)
        columns = np.stack([checked_table(name, given[name], steps, self._names) for name in NUMBERS])
        terminated, truncated = ends_of_many(ends[0], ends[1], steps)
        columns[1][terminated] = 0.0
        over = (columns[1] == 0).all(axis=1) | truncated
        with self._lock:
            self._learn_many(tables, columns, over)

    def _values(self, phi: Any) -> list[Any]:
        with self._lock:
            if self._sparse and not is_sparse(phi):
                return self._values_at(phi)
            if is_sparse(phi):
                given = checks.feature_table(phi)
                if given.shape[1] != self.n_features:
                    raise InputError(f"phi needs {self.n_features} features in its last axis, got shape {given.shape}.")
                return [given @ theta for theta in self._thetas()]
            try:
                ndim = np.ndim(phi)
            except ValueError:
                ndim = 2
            table = checks.finite_array("phi", phi, 2 if ndim == 2 else 1)
            if table.shape[-1] != self.n_features:
                raise InputError(f"phi needs {self.n_features} features in its last axis, got shape {table.shape}.")
            values = [table @ theta for theta in self._read_only()]
            return values if ndim == 2 else [float(value) for value in values]

    def _values_at(self, phi: Any) -> list[Any]:
        """The values of rows given by their indices: one row, or many rows with equal numbers of entries."""
        self._queue.work_off()
        if isinstance(phi, np.ndarray) and phi.ndim == 2:
            indices, _ = index_row("phi", phi.ravel(), self.n_features)
            table = indices.reshape(phi.shape)
            many = self._compiled(sums_at)
            out = [np.empty(len(table)) for _ in self._queue.runs]
            for i, run in enumerate(self._queue.runs):
                many(*self._lagging(run, i), table, out[i])
            return out
        indices, data = index_row("phi", phi, self.n_features)
        data = np.zeros(0) if data is None else data
        one = self._compiled(sum_at)
        return [float(one(*self._lagging(run, i), indices, data)) for i, run in enumerate(self._queue.runs)]

    def _compiled(self, function: Plain) -> Plain:
        return function if self._queue.compile is False else compile_once(function)

    def _lagging(self, run: OnlineRun, i: int) -> tuple[Floats, Floats, float]:
        """The weights of a run in lazy form: values minus a share of a lag."""
        theta = None if run.run is None else run.run.state.theta
        if isinstance(theta, Weights) and run.diverged_at < 0 and not run.session.setup.algorithm.read:
            weight = float(theta.numbers[WEIGHT])
            return theta.values, theta.lag, 1.0 / weight if weight > 0 and len(theta.lag) else 0.0
        live = run.live
        return (self._queue.thetas()[i] if live is None else live), np.zeros(0), 0.0


_ENDS = ("phi", "phi_next")


def _unpickled(kind: Any, contents: saving.Contents, threads: int, compile: bool | None) -> Any:
    return kind.__new__(kind)._take(saving.restored("the pickle", contents, kind.__name__, threads, compile))


def put_stream(queue: StepQueue, stream: Stream, numbers: NDArray[np.float64]) -> None:
    """Learn from a part of a log. ``numbers`` holds reward, discount and rho, (3, steps, runs)."""
    queue.work_off()
    given_sparse = not isinstance(stream.features, np.ndarray)
    queue.take_kind(stream.features.dtype == np.float32)
    sparse = isinstance(queue.store(given_sparse), SparseTable)
    if given_sparse and not sparse:
        queue.refuse_wide(stream.name)
    steps = stream.steps
    episode = queue.episodes.numbers_of(steps["episode"], bool((numbers[1, -1] == 0).all()))
    for begin in range(0, len(stream), queue.most):
        part = slice(begin, begin + queue.most)
        ends = np.stack([steps["row"][part], steps["next_row"][part]])
        used, index = np.unique(ends, return_inverse=True)
        table: Any = stream.features[used]
        if sparse:
            table = compressed(scipy_rows(table), queue.kind)
        else:
            table = np.asarray(table.toarray() if given_sparse else table, queue.kind)
        queue.put_block(table, index.reshape(ends.shape), numbers[:, part], episode[part])


def put_many(
    queue: StepQueue, tables: list[NDArray[Any]], numbers: NDArray[np.float64], over: NDArray[np.bool_]
) -> None:
    """Learn from consecutive steps. ``over`` marks steps that end an episode."""
    queue.work_off()
    queue.take_kind(all(table.dtype == np.float32 for table in tables))
    sparse = isinstance(queue.store(False), SparseTable)
    first, after = (np.asarray(table, queue.kind) for table in tables)
    goes_on = np.r_[False, (first[1:] == after[:-1]).all(axis=1)]
    queue.episodes.begin_step(None)
    episode = queue.episodes.number + np.cumsum(np.r_[queue.episodes.over, over[:-1]])
    for begin in range(0, len(over), queue.most):
        part = slice(begin, begin + queue.most)
        fresh = np.r_[True, ~goes_on[part][1:]]
        # Each step's next row, preceded by its own row if that is not the previous next row.
        place = np.cumsum(1 + fresh) - 1
        table = np.empty((place[-1] + 1, queue.n_features), queue.kind)
        table[place], table[place[fresh] - 1] = after[part], first[part][fresh]
        held = compressed(scipy_rows(table), queue.kind) if sparse else table
        queue.put_block(held, np.stack([place - 1, place]), numbers[:, part], episode[part])
    queue.counts[EPISODE], queue.counts[OVER] = episode[-1], over[-1]
    queue.episodes.labelled = False
