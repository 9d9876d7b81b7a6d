"""The queue of `Learner` and `Horde`: stores rows and steps for compiled code, and lets all runs learn."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.online import (
    DONE,
    EPISODE,
    FREE,
    FULL,
    LATEST,
    NEWS,
    NO_STEP,
    OVER,
    ROWS,
    SEEN,
    TRACES_FULL,
    WAITING,
    Shared,
    put_kernel,
)
from gradtd.compiled.packing import Packed
from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.stream import SparseRows
from gradtd.running.online.given import EpisodeCounter, IndexRow, dense_row
from gradtd.running.online.groups import Group, Grouping, may_have_lanes
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.sparse_rows import SparseTable, is_sparse, sparse_row
from gradtd.running.online.window import UNBOUNDED, Rows


def _numbers(row: Any) -> NDArray[Any]:
    return row.data if isinstance(row, SparseRows) else row


LONGEST_QUEUE = 512
_QUEUE_NUMBERS = 2**19
_WORTH_A_THREAD = 64
WIDEST_SPARSE = 4096
"""Sparse rows with more features than this are not stored densely."""
RECENT = 20_000
"""Number of steps stored for `standing` if the rule does not replay steps."""


class StepQueue:
    """Steps, and the runs that learn from them: features are stored once, steps and state once per run.

    The single run of a learner learns from each step at once. The runs of a horde let up to ``LONGEST_QUEUE`` steps
    wait, or until weights are requested.
    """

    def __init__(self, n_features: int, runs: list[OnlineRun], threads: int, compile: bool | None = None) -> None:
        self.n_features, self.runs, self.threads, self.compile = n_features, runs, threads, compile
        self.counts = np.zeros(7, np.int64)
        self.counts[[LATEST, EPISODE]], self.counts[OVER] = -1, 1
        self.episodes = EpisodeCounter(self.counts)
        self.most, self.pause_at = LONGEST_QUEUE, UNBOUNDED
        self.rows: Rows | SparseTable | None = None  # set by the first step
        self.kind: Any = None  # float32 or float64, set by the first step
        self.given = np.zeros((3, len(runs)))
        self._allocate()
        self.groups: list[Group] = []
        self._grouping = Grouping(n_features, compile)
        self._packed_at: Any = None
        self.shape = (len(runs),)
        self._pool: ThreadPoolExecutor | None = None
        self._compiled = self.broken = self._changing = False

    def _allocate(self) -> None:
        self._numbers = np.zeros((3, self.most, len(self.runs)))
        self._places = np.zeros((self.most, 3), np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """The state without packed arguments: a copy has new arrays and must pack them again."""
        return self.__dict__ | {
            "groups": [],
            "_grouping": Grouping(self.n_features, self.compile),
            "_packed_at": None,
            "_put": None,
            "_shared": None,
            "_pool": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.episodes.counts = self.counts
        if self.rows is not None:
            self.rows.counts = self.counts
            if isinstance(self.rows, SparseTable):
                self.rows.count = self.counts[ROWS : ROWS + 1]
        self.counts[FREE] = 0

    @property
    def seen(self) -> int:
        return int(self.counts[SEEN])

    @property
    def waiting(self) -> int:
        return int(self.counts[WAITING])

    # How rows are stored

    def store(self, sparse: bool) -> Rows | SparseTable:
        """Fix the storage of rows at the first step; it is sparse only if every rule can read sparse rows."""
        if self.rows is not None:
            return self.rows
        self.kind = self.kind or np.float64
        if sparse and all(run.keeps_sparse for run in self.runs):
            self._store_traces(True)
            self.rows = SparseTable(self.n_features, self.kind, self.counts)
            return self.rows
        most = max(1, min(LONGEST_QUEUE, _QUEUE_NUMBERS // self.n_features))
        refuse_beyond_memory(
            8.0 * self.n_features * (6 * most + len(self.runs)),
            f"a learner of {self.n_features} features in dense rows",
            "use fewer features, or give sparse rows",
        )
        self._store_traces(False)
        self.most = most
        self._allocate()
        self.rows = Rows(self.n_features, 4 * most, self.kind, self.counts)
        return self.rows

    def _store_traces(self, sparse: bool) -> None:
        for run in self.runs:
            run.window.store(sparse)

    def take_kind(self, narrow: bool) -> None:
        """Keep rows in float32 until the first float64 row, which converts all of them."""
        if self.kind is None:
            self.kind = np.float32 if narrow else np.float64
        elif self.kind == np.float32 and not narrow:
            self.work_off()
            self.kind = np.float64
            if self.rows is not None:
                self.rows.widen()
            self.make_room(1)

    def refuse_wide(self, name: str) -> None:
        """Refuse wide sparse rows that would be stored densely."""
        if self.n_features > WIDEST_SPARSE:
            raise InputError(
                f"{name} is sparse with {self.n_features} features, but this learner stores rows densely, because its "
                f"first step was dense or a rule reads only dense rows. That is limited to {WIDEST_SPARSE} features. "
                "Give "
                "sparse rows from the first step on, and use rules that read them."
            )

    # One step

    def stage(self, phi: Any, phi_next: Any) -> None:
        """Check the two rows of a step, and stage them in the storage of the first step."""
        self.refuse_broken()
        given = {"phi": phi, "phi_next": phi_next}
        sparse = isinstance(self.rows, SparseTable) if self.rows else any(map(is_sparse, given.values()))
        check = self._sparse_features if sparse else self.dense_features
        found: list[Any] = [check(name, values) for name, values in given.items()]
        self.take_kind(all(_numbers(row).dtype == np.float32 for row in found))
        if sparse and not isinstance(self.store(True), SparseTable):
            found = [self.dense_features(name, values) for name, values in given.items()]
        rows: Any = self.store(False)
        if isinstance(rows, SparseTable):
            rows.stage_rows([(row.indices, row.data) for row in found])
        else:
            rows.staged[0], rows.staged[1] = found
        self.pack()

    def stage_indices(self, rows: list[IndexRow]) -> None:
        """`stage` for checked rows given by indices."""
        self.take_kind(False)
        table: Any = self.store(True)
        if isinstance(table, SparseTable):
            for indices, _ in rows:
                table.stage_room(len(indices))
            if all(data is None for _, data in rows):
                for i, (indices, _) in enumerate(rows):
                    table.stage_ones(i, indices)
            else:
                table.stage_rows([(at, np.ones(len(at)) if data is None else data) for at, data in rows])
        else:
            self.refuse_wide("phi")
            table.staged[0], table.staged[1] = (dense_row(row, self.n_features) for row in rows)
        self.pack()

    def _sparse_features(self, name: str, values: Any) -> SparseRows:
        return sparse_row(name, values, self.n_features)

    def dense_features(self, name: str, values: Any) -> Floats:
        if is_sparse(values):
            self.refuse_wide(name)
            values = checks.feature_table(values.reshape(1, -1), narrow=True).toarray()[0]
        row = checks.finite_array(name, values, 1, narrow=True)
        if len(row) != self.n_features:
            raise InputError(f"{name} needs {self.n_features} entries, one per feature; got {len(row)}.")
        return row

    def put(self, cut: int) -> None:
        """Queue the staged step, whose checked numbers are in ``given``."""
        if not self.try_put(cut):
            raise RuntimeError("a checked step was refused")

    def try_put(self, cut: int) -> bool:
        """`put` for numbers that compiled code checks. Returns False if compiled code refuses them."""
        self._pack_rows()
        code = self._put(self._shared.address(), cut)
        if code == FULL:
            self.make_room(1)
            code = self._put(self._shared.address(), cut)
        return bool(code >= 0)

    def take(self, reward: float, discount: float, rho: float, cut: int) -> int:
        """Put the staged step and learn from it, in one call. Returns the code of `put`."""
        group = self.groups[0]
        code = self.guarded(group.kernel, group.packed.address(), 1, reward, discount, rho, cut)
        if code == FULL:
            self.make_room(1)
            group = self.groups[0]
            code = self.guarded(group.kernel, group.packed.address(), 1, reward, discount, rho, cut)
        if code == TRACES_FULL:
            self.work_off()
        elif code == NEWS:
            self.hear()
        return DONE if code in (TRACES_FULL, NEWS) else code

    def guarded(self, kernel: Plain, *arguments: Any) -> int:
        """Call compiled code. After an error in it, the state is no longer valid."""
        try:
            return int(kernel(*arguments))
        except BaseException as error:
            self.interrupted(error)
            raise

    def interrupted(self, error: BaseException) -> None:
        """Mark the state as invalid after an error within a step, and raise an error that explains it."""
        if isinstance(error, KeyboardInterrupt) and self.groups and self.groups[0].packed.compiled:
            return
        self.broken = True
        if isinstance(error, ZeroDivisionError):
            rule = self.runs[0].rule.name
            raise InputError(
                f"{rule} divided by zero because of its settings or its loaded state: change the settings, or load "
                "another file."
            ) from None

    @contextmanager
    def _storage_changes(self) -> Iterator[None]:
        """Stored steps and rows move: until this ends, compiled code must not run on them.

        Ctrl-C, or a signal handler that uses the learner, can come between any two lines. Half moved steps would give
        wrong weights, and packed addresses would lead to freed arrays.
        """
        self._changing = True
        try:
            yield
        except (InputError, MemoryError):  # too little memory: what has moved is packed again by the next step
            raise
        except BaseException:
            self.broken = True
            raise
        finally:
            self._changing = False

    def refuse_broken(self) -> None:
        if self._changing:
            raise RuntimeError("the learner was used by a signal handler while it was in the middle of a step.")
        if self.broken:
            raise InputError(
                "learning was interrupted in the middle of a step, so the weights cannot be trusted: "
                "load the last saved file, or start again."
            )

    # All queued steps

    def work_off(self) -> None:
        """Learn from the queued steps."""
        self.refuse_broken()
        if self.waiting:
            self.pack()
            while not self._learn():
                self._lengthen_traces()
            self.counts[WAITING] = 0
            self.hear()

    def _learn(self) -> bool:
        """Whether every run has processed the queue. False if a run needs memory for its traces."""
        pieces = [(group, k, len(group.runs)) for group in self.groups for k in [0]]
        if self.waiting >= _WORTH_A_THREAD and self._compiled and min(self.threads, len(self.runs)) > 1:
            self._pool = self._pool or ThreadPoolExecutor(self.threads)
            pieces = [piece for group in self.groups for piece in group.pieces()]
            codes = list(self._pool.map(self._learn_piece, pieces))
        else:
            codes = list(map(self._learn_piece, pieces))
            self._compiled = True
        return TRACES_FULL not in codes

    def _learn_piece(self, piece: tuple[Group, int, int]) -> int:
        group, first, count = piece
        return self.guarded(group.kernel, group.packed.address(first), count, 0.0, 0.0, 0.0, NO_STEP)

    def _lengthen_traces(self) -> None:
        rows: Any = self.rows
        for run in self.runs:
            waits = self.seen - run.window.given
            if waits and run.diverged_at < 0:
                row = int(self._places[self.waiting - waits, 0])
                run.window.lengthen_traces(rows.held, row)
        self.pack()

    def hear(self) -> None:
        """React to the latest steps: a run may have diverged."""
        for run in self.runs:
            run.hear()

    def make_room(self, more: int) -> None:
        """Learn from the queue, and reserve capacity for ``more`` steps."""
        self.work_off()
        self.note_episodes()
        rows: Any = self.store(False)
        windows = [run.window for run in self.runs]
        episode = int(self.counts[EPISODE])
        with self._storage_changes():
            self.counts[FREE] = 0
            if rows.room() < more or (isinstance(rows, SparseTable) and not rows.has_room(0, rows.staged_entries)):
                rows.make_room(2 * more, windows)
            free = [window.make_room(more, episode) for window in windows]
            self.pack()
            self.counts[FREE] = min(self.most, rows.room(), max(1, self.pause_at - self.seen), *free)

    def pack(self) -> StepQueue:
        """Pack the arguments of all runs again if an array was replaced."""
        rows: Any = self.store(False)
        wide = may_have_lanes(len(self.runs), self.n_features)
        version = (rows.version, *(r.window.version + (r.window.moves if wide else 0) for r in self.runs))
        if version == self._packed_at:
            return self
        shared = Shared(self.counts, rows.stage, self.given, self._numbers, self._places)
        arguments = [run.arguments(rows.held, shared, i) for i, run in enumerate(self.runs)]
        self.groups = self._grouping.groups(self.runs, arguments, self.threads if wide else 0)
        self._put, self._shared = self._grouping.kernel(put_kernel, "put", [shared])
        self._packed_at = version
        return self

    def _pack_rows(self) -> None:
        """`pack` only what a new step needs: the data that all runs share, because asking each of a hundred runs takes
        longer."""
        if self._packed_at is None or self.rows is None or self._packed_at[0] != self.rows.version:
            self.pack()

    def put_block(self, table: Any, ends: Integers, numbers: NDArray[np.float64], episode: Integers) -> None:
        """Learn from steps whose checked rows are in a table. ``ends`` holds the row and the next row of each step."""
        rows: Any = self.store(False)
        n = len(episode)
        self.note_episodes()
        windows = [run.window for run in self.runs]
        with self._storage_changes():
            place = rows.add(table, int(ends[0, 0]), windows)
            for window in windows:
                window.make_room(n, int(episode[0]) - 1)
            self.counts[FREE] = 0  # forces a check of the free capacity
            self._places[:n, 0], self._places[:n, 1] = place[ends]
            self._places[:n, 2], self._numbers[:, :n] = episode, numbers
            self.counts[LATEST] = self._places[n - 1, 1]
            self.counts[WAITING] = n
            self.counts[SEEN] += n
        self.work_off()

    def note_episodes(self) -> None:
        """Let runs that record moments add the steps that they have learned from, because the next step may drop
        these."""
        for run in self.runs:
            if run.moments is not None and self.rows is not None:
                run.note_episodes(self.rows.table)

    def thetas(self) -> list[Floats]:
        """The weights of every run after all steps so far."""
        self.work_off()
        return [run.theta(partial(self._ask, i)) for i, run in enumerate(self.runs)]

    def _ask(self, i: int, told: tuple[Any, ...]) -> None:
        """Compute weights on request, on a copy of the state."""
        self.pack()
        group = next(group for group in self.groups if i in group.runs)
        found = list(group.packed.arguments[group.runs.index(i)])
        found[2], found[4] = told
        packed = Packed([tuple(found)], group.packed.compiled)
        self.guarded(group.kernel, packed.address(), 1, 0.0, 0.0, 0.0, NO_STEP)
