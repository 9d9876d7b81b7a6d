"""Runs rules: a `Session` sets everything up once, then begins and drives runs.

`gradtd.learn`, `run` and `sweep`, the `Learner` and the `Horde`, the fits and refits of `gradtd.evaluate` and the
reproduction of the paper all use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gradtd.algorithms import as_algorithm
from gradtd.compiled import random
from gradtd.compiled.buffers import Buffers, Seed
from gradtd.compiled.loop import code_of, compile_run
from gradtd.compiled.plan import Run, Snapshots, new_clock, record
from gradtd.compiled.sparse_state import sparse_state
from gradtd.compiled.traces import traces_of
from gradtd.core.algorithm import Algorithm, Storage
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.core.checks import InputError, NeverLearnsError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.stream import Stream, StreamView
from gradtd.running.settings import Setup, set_up

MANY_FEATURES = 1000
"""With fewer features, a rule's state is always small."""


def _bytes(arrays: Mapping[str, Any]) -> int:
    return sum(array.nbytes for array in arrays.values())


class Session:
    """A rule with its hyper-parameters, ready to run. Shared parts are created once.

    ``n_steps`` is the number of steps of a run, 0 if unknown. ``block`` is the number of steps that count as one
    episode, if the problem has no episodes and the user gives no block.
    """

    def __init__(
        self,
        algorithm: Algorithm | str,
        hyper: Mapping[str, Any],
        *,
        n_steps: int,
        block: int | None = None,
        compile: bool | None = None,
    ) -> None:
        self.rule = as_algorithm(algorithm)
        self.given = dict(hyper)
        self.setup: Setup = set_up(self.rule, hyper, n_steps=n_steps, block=block)
        self.drawing = self.setup.draws.drawing(self.setup.split)
        self._compile = compile

    @cached_property
    def kernel(self) -> Plain:
        """The compiled loop around the rule."""
        return compile_run(self.setup.algorithm, self.drawing, compile=self._compile)

    @cached_property
    def _hyper(self) -> Any:
        return record(**self.setup.numbers)

    @property
    def code(self) -> str:
        """A digest of all the code that a run executes."""
        return code_of(self.setup.algorithm, self.drawing)

    @property
    def updates_per_step(self) -> float:
        """Approximate cost of a step in TD updates: one per entry of a batch, per direction."""
        directions = 1 if self.setup.hyper.get("directions", "one") == "one" else 2
        return 1.0 + directions * self.setup.m1

    def lasting(self, n_steps: int) -> Session:
        """A copy of the session for runs with a different number of steps."""
        other = object.__new__(Session)
        other.__dict__.update(self.__dict__, setup=self.setup.lasting(n_steps))
        return other

    def buffers(self, stream: Stream, seed: Seed, *, unit: Integers | None = None, filled: bool = False) -> Buffers:
        """The buffers of one run over a stream; see `gradtd.compiled.buffers.Split.buffers`."""
        hyper, plan = self.setup.hyper, self.setup.plan
        return self.setup.split.buffers(
            stream,
            seed,
            block=hyper.get("block"),
            unit=unit,
            capacity=hyper.get("capacity"),
            replacement=plan.replacement,
            fill=plan.fill,
            filled=filled,
        )

    def state_bytes(self, n_features: int, n_steps: int = 0, sparse: bool = False) -> int:
        """Memory of the rule's state, extrapolated from few features, since it grows with their square.

        With ``sparse`` rows, cleared vectors take no memory between updates.
        """
        storage = self.setup.algorithm.storage if sparse else {}
        cleared = {name for name, kind in storage.items() if kind is Storage.CLEARED}
        hyper = {**self.setup.hyper, "n_steps": n_steps}
        try:
            # A quadratic through three small cases, because the full arrays would take the memory in question.
            made = [self.setup.algorithm.init(k, hyper) for k in (1, 2, 3)]
        except InputError:  # a given matrix fixes the number of features
            return 8 * n_features
        one, two, three = (_bytes({n: a for n, a in arrays.items() if n not in cleared}) for arrays in made)
        bend = (three - 2 * two + one) / 2
        return int(8 * n_features + one + (n_features - 1) * (two - one + bend * (n_features - 2)))

    def refuse_many_features(self, n_features: int, n_steps: int = 0) -> None:
        """Refuse a run whose weights and algorithm state exceed the available memory."""
        if n_features > MANY_FEATURES:
            refuse_beyond_memory(
                self.state_bytes(n_features, n_steps),
                f"what {self.rule.name} stores for {n_features} features",
                "use fewer features, or an algorithm that stores only vectors, such as td and impression_gtd",
            )

    def begin(self, theta0: Floats, seed: Seed, n_steps: int = 0, sparse: bool = False) -> Run:
        """A run before its first step; rules that read stored steps by number get the number of future steps.

        For ``sparse`` features, the rule's vectors are stored so that only entries in use have a cost.
        """
        setup = self.setup
        self.refuse_many_features(len(theta0), n_steps)
        state = {"theta": theta0.copy(), **setup.algorithm.init(len(theta0), {**setup.hyper, "n_steps": n_steps})}
        lazy = sparse and setup.algorithm.reads_rows_only
        own = None
        if lazy:
            own = sparse_state(state, setup.algorithm.storage, setup.plan.average_from >= 0, setup.plan.limit)
            state = own.fields
        return Run(
            state=record(**state),
            hyper=self._hyper,
            first=np.zeros(setup.m1, np.uint32),
            second=np.zeros(setup.m2, np.uint32),
            rng=random.seeded(*seed, random.DRAWS) if setup.m1 else np.zeros(1, np.uint64),
            average=np.zeros(0 if lazy else len(theta0)),
            clock=new_clock(),
            table=own and own.table,
            touched=own and own.touched,
            cleared=own and own.cleared,
        )

    def drive(self, run: Run, stream: StreamView, buffers: Buffers, wanted: Snapshots, begin: int, count: int) -> int:
        """Take ``count`` steps of a stream from ``begin`` on; returns the step of divergence or -1."""
        try:
            return int(self.kernel(stream, buffers, run, self.setup.plan, wanted, begin, count, True))
        except ZeroDivisionError:
            raise InputError(
                f"{self.rule.name} divided by zero because of its settings or its loaded state: change the "
                "settings, or load another file."
            ) from None

    def over(
        self,
        stream: Stream,
        theta0: Floats,
        seed: Seed,
        wanted: Snapshots,
        *,
        count: int | None = None,
        unit: Integers | None = None,
        filled: bool = False,
    ) -> int:
        """One run over one stream; fills the snapshots, returns the step of divergence or -1.

        ``count`` is the number of steps, by default one pass over the stream. ``unit`` numbers the independent pieces
        that two buffers must not share, if those are not the episodes. With ``filled`` the buffers hold the whole
        stream from the first step on.
        """
        steps = len(stream) if count is None else count
        self.refuse_sparse(stream)
        self._refuse_off_policy(stream)
        self._refuse_other_rows(stream)
        self._refuse_wide_batch(stream, steps)
        buffers = self.buffers(stream, seed, unit=unit, filled=filled)
        if self.setup.algorithm.watches:
            # Rules that observe before they learn need more steps after the buffers are full.
            waits = 0 if filled else self.setup.split.filled_after(buffers, self.setup.plan.fill)
            self._refuse_too_short(stream, steps, waits)
        run = self.begin(theta0, seed, len(stream), not isinstance(stream.features, np.ndarray))
        return self.drive(run, self.view(stream), buffers, wanted, 0, steps)

    def view(self, stream: Stream) -> StreamView:
        """The stream in the form that the algorithm reads, with traces if it uses them."""
        if self.setup.tracing is None:
            return stream.view
        return stream.view._replace(traces=traces_of(stream, self.setup.tracing, self._compile))

    def refuse_sparse(self, stream: Stream) -> None:
        """Refuse sparse features for rules that read whole rows."""
        if self.setup.algorithm.dense_only and not isinstance(stream.features, np.ndarray):
            name = self.setup.algorithm.name
            raise InputError(f"{name} as set here needs dense features, but those of {stream.name} are sparse.")

    def _refuse_off_policy(self, stream: Stream) -> None:
        """Check ratios for rules that are valid only if all ratios are 1."""
        if self.setup.algorithm.on_policy and (stream.steps["rho"] != 1).any():
            name = self.setup.algorithm.name
            raise InputError(
                f"alpha='auto' of {name} needs a stream whose ratios are all one, but those of {stream.name} are not, "
                "and "
                f"off-policy {name} may diverge with every step-size. Give alpha a number, or use impression_gtd or "
                f"krylov_gtd."
            )

    def _refuse_other_rows(self, stream: Stream) -> None:
        """Check next rows for a control rule, which reads n_actions rows from there: compiled code does not check
        them."""
        actions = int(self.setup.numbers.get("n_actions", 1))
        if actions == 1:  # for other rules a pass over the steps would cost as much as several hundred updates
            return
        first = np.asarray(stream.steps["next_row"]) % actions
        if first.any() or stream.features.shape[0] % actions:
            raise InputError(
                f"{self.rule.name} with n_actions={actions} needs rows of features by state and action: row is "
                f"state * {actions} + action, and next_row is next_state * {actions}. {stream.name} has "
                f"{stream.features.shape[0]} rows, and a next_row that is "
                f"{stream.steps['next_row'][int(np.argmax(first > 0))]}."
            )

    def _refuse_wide_batch(self, stream: Stream, steps: int) -> None:
        """Check that the stream has enough steps for a rule whose batch is the latest steps."""
        if not self.setup.split.stores and len(stream) < self.setup.m1 <= steps:
            raise NeverLearnsError(f"{stream.name} has {len(stream)} steps, too few for a batch of {self.setup.m1}.")

    def _refuse_too_short(self, stream: Stream, steps: int, filled_at: int) -> None:
        """Check that the stream is long enough for a rule that observes before it learns."""
        left = steps - max(self.setup.plan.start, filled_at)
        watches = self.setup.algorithm.watches
        if left <= watches:
            raise NeverLearnsError(
                f"alpha='auto' needs {watches} pairs of batches before its first update, and {stream.name} with its "
                f"{steps} steps has {max(left, 0)}: take more steps, a smaller batch, or give alpha a number."
            )
