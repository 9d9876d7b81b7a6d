"""The core that `Learner` and `Horde` share: steps wait in a queue, and every demon learns from them in its turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd import checks
from gradtd.algorithms import as_algorithm
from gradtd.arena import Rows, Window
from gradtd.checks import InputError
from gradtd.loop import Clock, compile_run, copy_to
from gradtd.runner import Run, drive, new_run, start_weights
from gradtd.settings import Setup, parameters, set_up
from gradtd.types import STEP, Algorithm, Floats, Integers, Stream, StreamView

LONGEST_QUEUE = 512
_QUEUE_NUMBERS = 2**19
_WORTH_A_THREAD = 64
_NEVER = np.zeros(0, np.int64)


class Demon:
    """One rule with its settings, its state and the steps it may still draw."""

    def __init__(
        self,
        algorithm: Algorithm | str,
        hyper: dict[str, Any],
        n_features: int,
        capacity: int | None,
        seed: int,
        theta0: Any,
        compile: bool | None,
    ) -> None:
        self.rule = as_algorithm(algorithm)
        self.setup = _set_up(self.rule, hyper, capacity)
        self.seed = checks.whole_number("seed", seed, 0)
        start = start_weights(theta0, np.zeros(n_features))
        self.run = new_run(self.setup, start, self.seed, 0)
        self.window = Window(self.setup, self.seed)
        self.kernel = compile_run(self.setup.algorithm, self.setup.split, compile=compile)
        self.weights, self._alphas = start[None].copy(), np.full(1, np.nan)
        self.diverged_at = -1

    def learn(self, features: Floats, steps: NDArray[Any]) -> None:
        """Take new steps; the weights after the last of them are in ``weights``."""
        if self.diverged_at >= 0:
            return
        begin = self.window.append(steps)
        counts = self.run.clock.counts
        counts[3] = 0
        # A rule that reads changes its state by being asked: it is asked on a copy, when somebody wants to know.
        at = _NEVER if self.setup.algorithm.read else counts[:1] + len(steps)
        self.diverged_at = self._drive(self.run, features, at, begin, len(steps))
        if self.diverged_at >= 0:
            copy_to(self.weights[0], self.run.state.theta, self.setup.plan.limit)
            self.window.clear()

    def theta(self, features: Floats) -> Floats:
        """The weights now; before learning starts, those of the start."""
        if self.setup.algorithm.read and self.diverged_at < 0 and self.window.size:
            state = type(self.run.state)(*(array.copy() for array in self.run.state))
            counts = self.run.clock.counts.copy()
            counts[3] = 0
            copy = self.run._replace(state=state, clock=Clock(counts, self.run.clock.alpha.copy()))
            self._drive(copy, features, counts[:1].copy(), self.window.size - 1, 0)
        return np.array(self.weights[0])

    def _drive(self, run: Run, features: Floats, at: Integers, begin: int, count: int) -> int:
        view = StreamView(features, self.window.steps)
        buffers, weights, alphas = self.window.buffers, self.weights, self._alphas
        return drive(self.kernel, self.setup, run, view, buffers, at, weights, alphas, begin, count)

    @property
    def updates(self) -> int:
        return int(self.run.clock.counts[1])


def _set_up(rule: Algorithm, hyper: dict[str, Any], capacity: int | None) -> Setup:
    if rule.stored:
        raise InputError(
            f"{rule.name} reads all steps again by their number, and a learner keeps the latest only: "
            "collect the steps in a Stream and give it to gradtd.learn, or choose another algorithm."
        )
    if hyper.get("average") == "tail" and hyper.get("average_from") is None:
        raise InputError(
            "average='tail' begins at half of the steps, and nobody knows how many will come: "
            "give average_from as well, or average='polynomial'."
        )
    bounded = {"capacity": capacity} if "capacity" in parameters(rule) else {}
    return set_up(rule, bounded | hyper, n_steps=0, block=None)


class Calendar:
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
        numbers: Integers = first + np.cumsum(np.r_[False, episode[1:] != episode[:-1]])
        self.number = int(numbers[-1])
        self.labelled = self.labelled and self.number == first
        return numbers

    def cut(self) -> None:
        """The next step begins an episode, though the latest one was not ended."""
        self.over, self.labelled = True, False


class Demons:
    """Demons that learn from one stream: features are stored once; steps and state, one a demon."""

    def __init__(self, n_features: int, demons: list[Demon], threads: int) -> None:
        self.n_features, self.demons, self.threads = n_features, demons, threads
        self.calendar = Calendar()
        self.most = max(1, min(LONGEST_QUEUE, _QUEUE_NUMBERS // n_features))
        self.rows = Rows(n_features, 4 * self.most)
        self.seen = self.waiting = self._rows_waiting = 0
        self._table = np.zeros((2 * self.most, n_features))
        self._ends = np.zeros((2, self.most), np.int64)
        self._episode = np.zeros(self.most, np.int64)
        self._numbers = np.zeros((3, self.most, len(demons)))
        self._next = b""
        self._pool: ThreadPoolExecutor | None = None
        self._compiled = self._broken = False

    def put(
        self, phi: Any, phi_next: Any, reward: Any, discount: Any, rho: Any, ends: bool, episode: int | None
    ) -> None:
        """Put one step into the queue; reward, discount and rho are checked, a number or one a demon."""
        phi, phi_next = self.features("phi", phi), self.features("phi_next", phi_next)
        k = self.waiting
        self._episode[k] = self.calendar.number_of(episode, ends)
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
            raise InputError(f"{name} needs {self.n_features} entries, one a feature; got {len(row)}.")
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
        """Learn from a part of a log; ``numbers`` holds reward, discount and rho, (3, steps, demons)."""
        self.work_off()
        sparse = not isinstance(stream.features, np.ndarray)
        steps = stream.steps
        episode = self.calendar.numbers_of(steps["episode"], bool((numbers[1, -1] == 0).all()))
        for begin in range(0, len(stream), self.most):
            part = slice(begin, begin + self.most)
            ends = np.stack([steps["row"][part], steps["next_row"][part]])
            used, index = np.unique(ends, return_inverse=True)
            table = stream.features[used].toarray() if sparse else stream.features[used]
            self.seen += ends.shape[1]
            self._learn(table, index.reshape(ends.shape), numbers[:, part], episode[part])

    def _learn(self, table: Floats, ends: Integers, numbers: NDArray[np.float64], episode: Integers) -> None:
        self._broken = True
        place = self.rows.add(table, int(ends[0, 0]), [demon.window for demon in self.demons])
        steps = np.zeros((len(self.demons), len(episode)), STEP)
        steps["row"], steps["next_row"] = place[ends]
        for name, values in zip(("reward", "discount", "rho"), numbers, strict=True):
            steps[name] = values.T
        steps["episode"] = episode
        self.rows.latest = int(steps["next_row"][0, -1])

        def learn(i: int) -> None:
            self.demons[i].learn(self.rows.table, steps[i])

        self._for_each(learn, len(episode) >= _WORTH_A_THREAD)
        self._broken = False

    def _for_each(self, work: Callable[[int], None], worth_it: bool) -> None:
        """Call for every demon, on several threads but for the first time: so each kernel is compiled once."""
        everyone = range(len(self.demons))
        if worth_it and self._compiled and min(self.threads, len(self.demons)) > 1:
            self._pool = self._pool or ThreadPoolExecutor(self.threads)
            list(self._pool.map(work, everyone))
            return
        for i in everyone:
            work(i)
        self._compiled = True

    def thetas(self) -> list[Floats]:
        """The weights of every demon, all steps given so far learned from."""
        self.work_off()
        return [demon.theta(self.rows.table) for demon in self.demons]
