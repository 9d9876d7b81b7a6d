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
from gradtd.core.memory import refuse_beyond_memory
from gradtd.core.stream import STEP, Stream
from gradtd.running.online.episodes import EpisodeCounter
from gradtd.running.online.memory import Rows
from gradtd.running.online.run import OnlineRun

LONGEST_QUEUE = 512
_QUEUE_NUMBERS = 2**19
_WORTH_A_THREAD = 64


class StepQueue:
    """Steps that wait, and the runs that learn from them: features are stored once, steps and state once per run."""

    def __init__(self, n_features: int, runs: list[OnlineRun], threads: int) -> None:
        self.n_features, self.runs, self.threads = n_features, runs, threads
        self.episodes = EpisodeCounter()
        self.most = max(1, min(LONGEST_QUEUE, _QUEUE_NUMBERS // n_features))
        refuse_beyond_memory(
            8.0 * n_features * (6 * self.most + len(runs)), f"a learner of {n_features} features", "take fewer features"
        )
        self.rows = Rows(n_features, 4 * self.most)
        self.seen = self.waiting = self._rows_waiting = 0
        self._table = np.zeros((2 * self.most, n_features))
        self._ends = np.zeros((2, self.most), np.int64)
        self._episode = np.zeros(self.most, np.int64)
        self._numbers = np.zeros((3, self.most, len(runs)))
        self._next = b""
        self._pool: ThreadPoolExecutor | None = None
        self._compiled = self._broken = False

    def put(
        self, phi: Any, phi_next: Any, reward: Any, discount: Any, rho: Any, ends: bool, episode: int | None
    ) -> None:
        """Put one step into the queue; reward, discount and rho are checked, a number or one per run."""
        phi, phi_next = self.features("phi", phi), self.features("phi_next", phi_next)
        k = self.waiting
        self._episode[k] = self.episodes.number_of(episode, ends)
        if k == 0 or phi.tobytes() != self._next:
            self._put_row(phi)
        self._ends[0, k] = self._rows_waiting - 1
        self._next = phi_next.tobytes()
        self._put_row(phi_next)
        self._ends[1, k] = self._rows_waiting - 1
        self._numbers[0, k], self._numbers[1, k], self._numbers[2, k] = reward, discount, rho
        self.waiting += 1
        self.seen += 1
        if self.waiting == self.most:
            self.work_off()

    def features(self, name: str, values: Any) -> Floats:
        """One checked row of features."""
        row = checks.finite_array(name, values, 1)
        if len(row) != self.n_features:
            raise InputError(f"{name} needs {self.n_features} entries, one per feature; got {len(row)}.")
        return row

    def _put_row(self, values: Floats) -> None:
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
            self._learn(self._table[:rows], self._ends[:, :k], self._numbers[:, :k], self._episode[:k])

    def put_stream(self, stream: Stream, numbers: NDArray[np.float64]) -> None:
        """Learn from a part of a log; ``numbers`` holds reward, discount and rho, (3, steps, runs)."""
        self.work_off()
        sparse = not isinstance(stream.features, np.ndarray)
        steps = stream.steps
        episode = self.episodes.numbers_of(steps["episode"], bool((numbers[1, -1] == 0).all()))
        for begin in range(0, len(stream), self.most):
            part = slice(begin, begin + self.most)
            ends = np.stack([steps["row"][part], steps["next_row"][part]])
            used, index = np.unique(ends, return_inverse=True)
            table = stream.features[used].toarray() if sparse else stream.features[used]
            self.seen += ends.shape[1]
            self._learn(table, index.reshape(ends.shape), numbers[:, part], episode[part])

    def _learn(self, table: Floats, ends: Integers, numbers: NDArray[np.float64], episode: Integers) -> None:
        self._broken = True
        place = self.rows.add(table, int(ends[0, 0]), [run.window for run in self.runs])
        steps = np.zeros((len(self.runs), len(episode)), STEP)
        steps["row"], steps["next_row"] = place[ends]
        for name, values in zip(("reward", "discount", "rho"), numbers, strict=True):
            steps[name] = values.T
        steps["episode"] = episode
        self.rows.latest = int(steps["next_row"][0, -1])

        def learn(i: int) -> None:
            self.runs[i].learn(self.rows.table, steps[i])

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
        return [run.theta(self.rows.table) for run in self.runs]
