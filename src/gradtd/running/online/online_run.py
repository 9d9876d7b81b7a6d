"""One rule that learns while its steps arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.algorithms import as_algorithm
from gradtd.compiled.loop import reported
from gradtd.compiled.plan import Run, Snapshots
from gradtd.compiled.sparse_state import share_cleared
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.running.online.window import Window
from gradtd.running.runs import start_weights
from gradtd.running.session import Session
from gradtd.running.settings import parameters

_NEVER = np.zeros(0, np.int64)


class OnlineRun:
    """A session with the state of its one run and the steps that it may still draw."""

    def __init__(
        self,
        algorithm: Algorithm | str,
        hyper: Mapping[str, Any],
        n_features: int,
        *,
        capacity: int | None,
        seed: int,
        theta0: Any,
        compile: bool | None,
    ) -> None:
        self.session = online_session(as_algorithm(algorithm), hyper, capacity, compile)
        self.seed = checks.whole_number("seed", seed, 0)
        refuse_beyond_memory(
            self.session.state_bytes(n_features) + 8.0 * n_features * 6,
            f"what {self.rule.name} keeps for {n_features} features",
            "take fewer features, or a rule that keeps vectors only, as td and impression_gtd do",
        )
        start = start_weights(theta0, np.zeros(n_features))
        self.run: Run | None = None
        self.window = Window(self.session.setup, self.seed, n_features, compile)
        self.weights, self._alphas = start[None].copy(), np.full(1, np.nan)
        self.diverged_at = -1

    @property
    def rule(self) -> Algorithm:
        """The algorithm as it was asked for."""
        return self.session.rule

    @property
    def keeps_sparse(self) -> bool:
        """Whether the rule reads sparse rows as they are."""
        return not self.session.setup.algorithm.dense_only

    def begin(self, sparse: bool) -> Run:
        """Make what the rule keeps, now that it is known how rows are stored."""
        self.window.store(sparse)
        self.run = self.session.begin(self.weights[0], (self.seed, 0), sparse=sparse)
        return self.run

    def learn(self, features: Any, steps: NDArray[Any]) -> None:
        """Take new steps; the weights after the last of them are in ``weights``."""
        if self.diverged_at >= 0:
            return
        run = self.run = share_cleared(self.run or self.begin(not isinstance(features, np.ndarray)))
        begin = self.window.append(steps)
        self.window.trace(features, begin)
        clock = run.clock
        clock["taken"] = 0
        # A rule that reads changes its state by being asked: it is asked on a copy, when somebody wants to know. And
        # where rows are sparse nobody looks at all weights before.
        later = self.session.setup.algorithm.read or isinstance(run.state.theta, tuple)
        at = _NEVER if later else clock["seen"] + len(steps)
        self.diverged_at = self._drive(run, features, at, begin, len(steps))
        if self.diverged_at >= 0:
            self.weights[0] = reported(run.state.theta, self.session.setup.plan.limit, average=False)
            self.window.clear()

    def theta(self, features: Any) -> Floats:
        """The weights now; before learning starts, those of the start."""
        if self.run is None or self.diverged_at >= 0:
            return np.array(self.weights[0])
        if isinstance(self.run.state.theta, tuple):
            self.weights[0] = reported(self.run.state.theta, self.session.setup.plan.limit)
        if self.session.setup.algorithm.read and self.diverged_at < 0 and self.window.size:
            state = type(self.run.state)(*(array.copy() for array in self.run.state))
            clock = self.run.clock.copy()
            clock["taken"] = 0
            copy = self.run._replace(state=state, clock=clock)
            self._drive(copy, features, clock["seen"].copy(), self.window.size - 1, 0)
        return np.array(self.weights[0])

    def _drive(self, run: Run, features: Any, at: Integers, begin: int, count: int) -> int:
        wanted = Snapshots(at, self.weights, self._alphas)
        return self.session.drive(run, self.window.view(features), self.window.buffers, wanted, begin, count)

    @property
    def updates(self) -> int:
        return int(self.run.clock["updates"][0]) if self.run else 0


def online_session(rule: Algorithm, hyper: Mapping[str, Any], capacity: int | None, compile: bool | None) -> Session:
    """A rule that learns while its steps arrive, ready to run; refused where it needs all of them at once."""
    if rule.stored:
        raise InputError(
            f"{rule.name} reads all steps again by their number, and a learner keeps the latest only: "
            "collect the steps in a Stream and give it to gradtd.learn, or choose another algorithm."
        )
    if hyper.get("trace") == "tree":
        raise InputError(
            "trace='tree' needs the target's probabilities, and a learner is given ratios only: "
            "collect the steps in a Stream and give it to gradtd.learn, or choose trace='rho' or trace='clipped'."
        )
    if hyper.get("average") == "tail" and hyper.get("average_from") is None:
        raise InputError(
            "average='tail' begins at half of the steps, and nobody knows how many will come: "
            "give average_from as well, or average='polynomial'."
        )
    bounded = {"capacity": capacity} if "capacity" in parameters(rule) else {}
    session = Session(rule, bounded | dict(hyper), n_steps=0, compile=compile)
    if session.setup.algorithm.on_policy:
        raise InputError(
            f"alpha='auto' of {rule.name} needs all ratios to be one, which a learner cannot know in advance: "
            "give alpha a number, or take impression_gtd."
        )
    return session
