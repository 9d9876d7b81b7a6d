"""The core that `Learner` and `Horde` share: steps wait in a queue, and every run learns from them in its turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.stream import STEP, SparseRows, Stream, episode_numbers
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.sparse_rows import (
    SparseTable,
    compressed,
    is_sparse,
    row_bytes,
    scipy_rows,
    sparse_row,
    stacked,
)
from gradtd.running.online.window import Rows


class EpisodeCounter:
    """Numbers the episodes 0, 1, ... as their steps arrive."""

    def __init__(self) -> None:
        self.number = -1
        self.label: int | None = None  # the number that a user gave to an episode, and whether it is the present one
        self.labelled, self.over = False, True

    def number_of(self, episode: int | None, ends: bool) -> int:
        """The episode of the next step; ``ends`` says that nothing follows it."""
        if episode is not None:
            self._check(episode)
            goes_on = self.labelled and episode == self.label
            self.label, self.labelled = episode, True
        else:
            goes_on = not self.over
            self.labelled = self.labelled and goes_on
        self.number += not goes_on
        self.over = ends
        return self.number

    def _check(self, episode: int) -> None:
        if self.label is not None and (episode < self.label or (episode == self.label and not self.labelled)):
            raise InputError(
                f"episode {episode} came back, the latest was {self.label}: the steps of an episode must be contiguous "
                "and episode numbers must not fall; leave episode out to have them counted."
            )

    def numbers_of(self, episode: Integers, ends: bool) -> Integers:
        """The same for a part of a log: its first step goes on with the latest episode, unless that one is over."""
        first = self.number_of(None, ends)
        numbers: Integers = first + episode_numbers(episode)
        self.number = int(numbers[-1])
        self.labelled = self.labelled and self.number == first
        return numbers

    def cut(self) -> None:
        """The next step begins an episode, though the latest one was not ended."""
        self.over, self.labelled = True, False


LONGEST_QUEUE = 512
_QUEUE_NUMBERS = 2**19
_WORTH_A_THREAD = 64
WIDEST_SPARSE = 4096
"""Sparse rows with more features than this are not stored densely."""


def _mark(row: Any) -> bytes:
    return row_bytes(row, 0) if isinstance(row, SparseRows) else row.tobytes()


def _numbers(row: Any) -> NDArray[Any]:
    return row.data if isinstance(row, SparseRows) else row


class StepQueue:
    """Steps that wait, and the runs that learn from them: features are stored once, steps and state once per run."""

    def __init__(self, n_features: int, runs: list[OnlineRun], threads: int) -> None:
        self.n_features, self.runs, self.threads = n_features, runs, threads
        self.episodes = EpisodeCounter()
        self.most = LONGEST_QUEUE
        self.rows: Rows | SparseTable | None = None  # until the first step says how rows are stored
        self.kind: Any = None  # float32 or float64, until then
        self.seen = self.waiting = self._rows_waiting = 0
        self._table = np.zeros((0, n_features))
        self._sparse: list[SparseRows] = []
        self._ends = np.zeros((2, self.most), np.int64)
        self._episode = np.zeros(self.most, np.int64)
        self._numbers = np.zeros((3, self.most, len(runs)))
        self._next = b""
        self._pool: ThreadPoolExecutor | None = None
        self._compiled = self._broken = False

    def store(self, sparse: bool) -> Rows | SparseTable:
        """Rows are stored from now on, as the first of them were given; sparse only where every rule can read that."""
        if self.rows is not None:
            return self.rows
        self.kind = self.kind or np.float64
        if sparse and all(run.keeps_sparse for run in self.runs):
            self._store_traces(True)
            self.rows = SparseTable(self.n_features, self.kind)
            return self.rows
        most = max(1, min(LONGEST_QUEUE, _QUEUE_NUMBERS // self.n_features))
        refuse_beyond_memory(
            8.0 * self.n_features * (6 * most + len(self.runs)),
            f"a learner of {self.n_features} features in dense rows",
            "take fewer features, or give sparse rows",
        )
        self._store_traces(False)
        self.most, self._table = most, np.zeros((2 * most, self.n_features), self.kind)
        self.rows = Rows(self.n_features, 4 * most, self.kind)
        return self.rows

    def _store_traces(self, sparse: bool) -> None:
        for run in self.runs:
            run.window.store(sparse)

    def _take_kind(self, narrow: bool) -> None:
        """Rows are float32 as long as all of them are given so; the first that is not makes all of them float64."""
        if self.kind is None:
            self.kind = np.float32 if narrow else np.float64
        elif self.kind == np.float32 and not narrow:
            self.work_off()
            self.kind, self._table = np.float64, self._table.astype(np.float64)
            if self.rows is not None:
                self.rows.widen()

    def put(
        self, phi: Any, phi_next: Any, reward: Any, discount: Any, rho: Any, ends: bool, episode: int | None
    ) -> None:
        """Put one step into the queue; reward, discount and rho are checked, a number or one per run."""
        row, next_row = self._rows_of(phi, phi_next)
        mark, next_mark = (_mark(found) for found in (row, next_row))
        k = self.waiting
        self._episode[k] = self.episodes.number_of(episode, ends)
        if k == 0 or mark != self._next:
            self._put_row(row)
        self._ends[0, k] = self._rows_waiting - 1
        self._next = next_mark
        self._put_row(next_row)
        self._ends[1, k] = self._rows_waiting - 1
        self._numbers[0, k], self._numbers[1, k], self._numbers[2, k] = reward, discount, rho
        self.waiting += 1
        self.seen += 1
        if self.waiting == self.most:
            self.work_off()

    def _rows_of(self, phi: Any, phi_next: Any) -> tuple[Any, Any]:
        """The two rows of a step, checked, and stored as the first step's were."""
        given = {"phi": phi, "phi_next": phi_next}
        sparse = isinstance(self.rows, SparseTable) if self.rows else any(map(is_sparse, given.values()))
        check = self._sparse_features if sparse else self._dense_features
        found = [check(name, values) for name, values in given.items()]
        self._take_kind(all(_numbers(row).dtype == np.float32 for row in found))
        if sparse and not isinstance(self.store(True), SparseTable):
            found = [self._dense_features(name, values) for name, values in given.items()]
        self.store(False)
        return self._as_stored(found[0]), self._as_stored(found[1])

    def _as_stored(self, row: Any) -> Any:
        """A row in the numbers that rows are stored in, so that equal ones look alike."""
        if _numbers(row).dtype == self.kind:
            return row
        return row._replace(data=row.data.astype(self.kind)) if isinstance(row, SparseRows) else row.astype(self.kind)

    def _sparse_features(self, name: str, values: Any) -> SparseRows:
        return sparse_row(name, values, self.n_features)

    def _dense_features(self, name: str, values: Any) -> Floats:
        if is_sparse(values):
            self.refuse_wide(name)
            values = checks.feature_table(values.reshape(1, -1), narrow=True).toarray()[0]
        row = checks.finite_array(name, values, 1, narrow=True)
        if len(row) != self.n_features:
            raise InputError(f"{name} needs {self.n_features} entries, one per feature; got {len(row)}.")
        return row

    def refuse_wide(self, name: str) -> None:
        """Sparse rows that would be stored densely, where they are wide."""
        if self.n_features > WIDEST_SPARSE:
            raise InputError(
                f"{name} is sparse with {self.n_features} features, and this learner stores rows densely, as its first "
                f"step was or because a rule reads dense rows only: with {WIDEST_SPARSE} features at most. Give sparse "
                "rows from the first step on, and rules that read them."
            )

    def _put_row(self, values: Any) -> None:
        if isinstance(values, SparseRows):
            self._sparse.append(values)
        else:
            self._table[self._rows_waiting] = values
        self._rows_waiting += 1

    def work_off(self) -> None:
        """Learn from the steps in the queue."""
        if self._broken:
            raise InputError(
                "learning was interrupted in the middle of a step, so the weights cannot be trusted: "
                "load what was saved last, or begin anew."
            )
        k, rows = self.waiting, self._rows_waiting
        if k:
            self.waiting = self._rows_waiting = 0
            table = stacked(self._sparse) if self._sparse else self._table[:rows]
            self._sparse = []
            self._learn(table, self._ends[:, :k], self._numbers[:, :k], self._episode[:k])

    def put_stream(self, stream: Stream, numbers: NDArray[np.float64]) -> None:
        """Learn from a part of a log; ``numbers`` holds reward, discount and rho, (3, steps, runs)."""
        self.work_off()
        given_sparse = not isinstance(stream.features, np.ndarray)
        self._take_kind(stream.features.dtype == np.float32)
        sparse = isinstance(self.store(given_sparse), SparseTable)
        if given_sparse and not sparse:
            self.refuse_wide(stream.name)
        steps = stream.steps
        episode = self.episodes.numbers_of(steps["episode"], bool((numbers[1, -1] == 0).all()))
        for begin in range(0, len(stream), self.most):
            part = slice(begin, begin + self.most)
            ends = np.stack([steps["row"][part], steps["next_row"][part]])
            used, index = np.unique(ends, return_inverse=True)
            table: Any = stream.features[used]
            if sparse:
                table = compressed(scipy_rows(table), self.kind)
            else:
                table = np.asarray(table.toarray() if given_sparse else table, self.kind)
            self.seen += ends.shape[1]
            self._learn(table, index.reshape(ends.shape), numbers[:, part], episode[part])

    def _learn(self, table: Any, ends: Integers, numbers: NDArray[np.float64], episode: Integers) -> None:
        self._broken = True
        rows: Any = self.store(False)
        place = rows.add(table, int(ends[0, 0]), [run.window for run in self.runs])
        steps = np.zeros((len(self.runs), len(episode)), STEP)
        steps["row"], steps["next_row"] = place[ends]
        for name, values in zip(("reward", "discount", "rho"), numbers, strict=True):
            steps[name] = values.T
        steps["episode"] = episode
        rows.latest = int(steps["next_row"][0, -1])

        held = rows.table

        def learn(i: int) -> None:
            self.runs[i].learn(held, steps[i])

        self._for_each(learn, len(episode) >= _WORTH_A_THREAD)
        self._broken = False

    def _for_each(self, work: Callable[[int], None], worth_it: bool) -> None:
        """Call for every run, on several threads but for the first time: so each kernel is compiled once."""
        everyone = range(len(self.runs))
        if worth_it and self._compiled and min(self.threads, len(self.runs)) > 1:
            self._pool = self._pool or ThreadPoolExecutor(self.threads)
            list(self._pool.map(work, everyone))
            return
        for i in everyone:
            work(i)
        self._compiled = True

    def thetas(self) -> list[Floats]:
        """The weights of every run, all steps given so far learned from."""
        self.work_off()
        held = self.rows.table if self.rows else None
        return [run.theta(held) for run in self.runs]
