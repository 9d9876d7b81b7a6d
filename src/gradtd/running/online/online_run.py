"""A rule that learns while its steps arrive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradtd.algorithms import as_algorithm
from gradtd.compiled.loop import reported
from gradtd.compiled.online import DIVERGED, Shared
from gradtd.compiled.plan import Run, Snapshots
from gradtd.compiled.sparse_state import share_cleared
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.running.online.value_interval import EpisodeMoments
from gradtd.running.online.window import Window
from gradtd.running.runs import start_weights
from gradtd.running.session import Session
from gradtd.running.settings import parameters

_NEVER = np.zeros(0, np.int64)


class OnlineRun:
    """A session with the state of its run and the steps for replay."""

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
        intervals: bool = False,
    ) -> None:
        self.session = online_session(as_algorithm(algorithm), hyper, capacity, compile)
        self.seed = checks.seed_number(seed)
        refuse_beyond_memory(
            self.session.state_bytes(n_features) + 8.0 * n_features * 6,
            f"what {self.rule.name} stores for {n_features} features",
            "use fewer features, or an algorithm that stores only vectors, such as td and impression_gtd",
        )
        start = start_weights(theta0, np.zeros(n_features))
        self.run: Run | None = None
        self.window = Window(self.session.setup, self.seed, n_features, compile)
        self.moments = EpisodeMoments(n_features) if intervals else None
        self.weights, self._alphas = start[None].copy(), np.full(1, np.nan)

    @property
    def rule(self) -> Algorithm:
        """The algorithm as requested."""
        return self.session.rule

    @property
    def keeps_sparse(self) -> bool:
        """Whether the algorithm reads sparse rows unchanged, and no moments of dense ones are needed."""
        return not self.session.setup.algorithm.dense_only and self.moments is None

    def begin(self, sparse: bool) -> Run:
        """Allocate the rule's state, once the storage of rows is known."""
        self.window.store(sparse)
        self.run = self.session.begin(self.weights[0], (self.seed, 0), sparse=sparse)
        return self.run

    def arguments(self, features: Any, shared: Shared, place: int) -> tuple[Any, ...]:
        """Arguments of compiled code for this run, without snapshots."""
        run = self.run = share_cleared(self.run or self.begin(not isinstance(features, np.ndarray)))
        plan, wanted = self.session.setup.plan, Snapshots(_NEVER, self.weights, self._alphas)
        window = self.window
        return window.view(features), window.buffers, run, plan, wanted, window.own(place), shared

    def lane_key(self) -> Any:
        """An equal key for all runs that can learn together (`gradtd.compiled.lanes`), or None if this run cannot."""
        setup, window, run = self.session.setup, self.window, self.run
        if setup.algorithm.lanes is None or run is None or window.tracing is not None or self.diverged_at >= 0:
            return None
        if not isinstance(run.state.theta, np.ndarray):
            return None
        plan, sizes = setup.plan, (setup.m1, setup.m2, window.keeps, window.size, window.given, len(window.steps))
        drawn = (setup.split.name, self.seed, window.block, plan.fill, plan.replacement, plan.start)
        return drawn, sizes, *window.buffers.arrived.tolist(), int(run.rng[0]), int(run.clock["seen"][0])

    def note_episodes(self, table: Any) -> None:
        """Add the steps since the last call to the moments, before the window drops them. ``table`` holds their
        rows."""
        window, moments = self.window, self.moments
        new = 0 if moments is None else window.given - int(moments.counts[0])
        if moments is None or not new or self.diverged_at >= 0:
            return
        part = slice(window.size - new, window.size)
        steps = window.steps[part]
        x, after = (np.asarray(table[steps[end]], np.float64) for end in ("row", "next_row"))
        moments.take(steps, x, after, x if window.traces is None else window.traces[part])  # type: ignore[index]

    def hear(self) -> None:
        """React to divergence: freeze the weights and drop the steps."""
        if self.diverged_at >= 0 and self.run is not None and self.window.size:
            self.weights[0] = reported(self.run.state.theta, self.session.setup.plan.limit, average=False)
            self.window.clear()

    @property
    def diverged_at(self) -> int:
        """The step at which the weights diverged, -1 if they did not."""
        return int(self.window.counts[DIVERGED])

    @property
    def live(self) -> Floats | None:
        """The live array of the reported weights, or None if there is none."""
        if self.run is None or self.diverged_at >= 0:
            start: Floats = self.weights[0]
            return start
        if self.session.setup.algorithm.read or isinstance(self.run.state.theta, tuple):
            return None
        theta: Floats = self.run.average if self.run.clock["averaged"][0] > 0 else self.run.state.theta
        return theta

    def theta(self, ask: Callable[[tuple[Any, ...]], Any]) -> Floats:
        """The current weights, initially the start weights. For a rule that computes weights on request, ``ask`` is
        called.
        """
        live = self.live
        if live is not None:
            limit = self.session.setup.plan.limit
            return np.array(live) if self.diverged_at >= 0 else reported(live, limit)
        run: Any = self.run
        if isinstance(run.state.theta, tuple):
            self.weights[0] = reported(run.state.theta, self.session.setup.plan.limit)
        if self.session.setup.algorithm.read and self.window.size:
            self._read(ask)
        return np.array(self.weights[0])

    def _read(self, ask: Callable[[tuple[Any, ...]], Any]) -> None:
        """Compute weights on a copy of the state, because some rules change their state when they compute weights."""
        run: Any = self.run
        state = type(run.state)(*(array.copy() for array in run.state))
        clock = run.clock.copy()
        clock["taken"] = 0
        ask((run._replace(state=state, clock=clock), Snapshots(clock["seen"].copy(), self.weights, self._alphas)))

    @property
    def updates(self) -> int:
        return int(self.run.clock["updates"][0]) if self.run else 0


def online_session(rule: Algorithm, hyper: Mapping[str, Any], capacity: int | None, compile: bool | None) -> Session:
    """Prepare a rule to learn online. Refuses rules that need all steps at once."""
    if rule.stored:
        raise InputError(
            f"{rule.name} rereads all steps by number, but a learner stores only the latest: "
            "collect the steps in a Stream and give it to gradtd.learn, or choose another algorithm."
        )
    if hyper.get("trace") == "tree":
        raise InputError(
            "trace='tree' needs the target's probabilities, but a learner gets only ratios: "
            "collect the steps in a Stream and give it to gradtd.learn, or choose trace='rho' or trace='clipped'."
        )
    if hyper.get("average") == "tail" and hyper.get("average_from") is None:
        raise InputError(
            "average='tail' begins at half of the steps, but the number of steps is not known in advance: "
            "also give average_from, or use average='polynomial'."
        )
    bounded = {"capacity": capacity} if "capacity" in parameters(rule) else {}
    session = Session(rule, bounded | dict(hyper), n_steps=0, compile=compile)
    if session.setup.numbers.get("n_actions", 1) > 1:
        raise InputError(
            f"{rule.name} with n_actions above 1 reads the rows of all next actions, but a learner gets only one: "
            "collect the steps in a Stream and give it to gradtd.learn."
        )
    if session.setup.algorithm.on_policy:
        raise InputError(
            f"alpha='auto' of {rule.name} needs all ratios to be one, which a learner cannot know in advance: give "
            f"alpha a number, or use impression_gtd."
        )
    return session
