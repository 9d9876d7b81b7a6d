"""`Learner`: one policy's values, learned while the data arrive, and what it shares with `Horde`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.sparse_rows import is_sparse

_NUMBERS = ("reward", "discount", "rho")


class OnlineLearner:
    """What `Learner` and `Horde` have in common."""

    def __init__(self, names: list[str], queue: StepQueue) -> None:
        self._names, self._queue = names, queue

    @property
    def n_features(self) -> int:
        return self._queue.n_features

    @property
    def seen(self) -> int:
        """How many steps were given."""
        return self._queue.seen

    def new_episode(self) -> None:
        """Say that the episode was cut off (truncated): the next step begins another one."""
        self._queue.episodes.cut()

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file, without pickle; what is loaded goes on as if it had never stopped."""
        saving.save(path, type(self).__name__, self._names, self._queue)

    def _put(self, phi: Any, phi_next: Any, reward: Any, discount: Any, rho: Any, episode: Any) -> None:
        if episode is not None:
            episode = checks.whole_number("episode", episode, -(2**62), 2**62)
        ends = discount == 0 if isinstance(discount, float) else bool((discount == 0).all())
        self._queue.put(phi, phi_next, reward, discount, rho, ends, episode)

    def _put_stream(self, stream: Any, given: Mapping[str, Any]) -> None:
        if not isinstance(stream, Stream):
            raise InputError(f"partial_fit takes a Stream (see Stream.from_arrays), got {type(stream).__name__}.")
        if stream.n_features != self.n_features:
            raise InputError(f"{stream.name} has {stream.n_features} features, this learner {self.n_features}.")
        numbers = np.empty((3, len(stream), len(self._names)))
        for i, name in enumerate(_NUMBERS):
            numbers[i] = stream.steps[name][:, None]
            for demon, values in (given.get(name) or {}).items():
                label = f"{name}[{demon!r}]"
                column = checks.number_a_step(label, values, len(stream))
                if len(column) != len(stream):
                    raise InputError(f"{label} needs one entry per step ({len(stream)}), got {len(column)}.")
                _CHECK_COLUMNS[name](label, column)
                numbers[i, :, self._names.index(checks.known_name("demon", demon, self._names))] = column
        self._queue.put_stream(stream, numbers)

    def _values(self, phi: Any) -> list[Any]:
        if is_sparse(phi):
            given = checks.feature_table(phi)
            if given.shape[1] != self.n_features:
                raise InputError(f"phi needs {self.n_features} features in its last axis, got shape {given.shape}.")
            return [given @ theta for theta in self._queue.thetas()]
        try:
            ndim = np.ndim(phi)
        except ValueError:
            ndim = 2
        table = checks.finite_array("phi", phi, 2 if ndim == 2 else 1)
        if table.shape[-1] != self.n_features:
            raise InputError(f"phi needs {self.n_features} features in its last axis, got shape {table.shape}.")
        values = [table @ theta for theta in self._queue.thetas()]
        return values if ndim == 2 else [float(value) for value in values]


def _any_number(label: str, column: Floats) -> None:
    """A reward may be any finite number."""


def _not_negative(label: str, column: Floats) -> None:
    checks.refuse_where(label, column < 0, column, "must not be negative")


def _fractions(label: str, column: Floats) -> None:
    checks.refuse_where(label, (column < 0) | (column > 1), column, "must lie in [0, 1]")


_CHECK_COLUMNS = {"reward": _any_number, "discount": _fractions, "rho": _not_negative}


def discount_number(name: str, value: Any) -> float:
    if value is None:
        raise InputError("discount must be given: gamma, or 0 where the episode terminated.")
    return checks.fraction(name, value)


def ratio_number(name: str, value: Any) -> float:
    return checks.number_at_least(name, value, 0)


class Learner(OnlineLearner):
    """A value estimate that learns step by step, in bounded memory.

    After n steps it has the weights, to the last bit, that `gradtd.learn` finds on a stream of these n steps with the
    same ``capacity``. Rules that draw no old steps keep a few only.

    Parameters
    ----------
    n_features : int
        How many features a step has.
    algorithm : Algorithm or str
        The rule, or its name in `gradtd.ALGORITHMS`.
    **hyper
        The hyper-parameters of the rule, for example ``alpha=0.1``.
    capacity : int, optional
        How many steps each of its buffers holds, the oldest leaving first. None keeps all of them.
    seed : int
        Fixes the batches that are drawn.
    theta0 : array, optional
        The weights of the start, by default zeros.
    compile : bool, optional
        False runs plain Python, which is slow and can be debugged.

    >>> learner = Learner(2, "td", alpha=0.5)
    >>> for _ in range(50):
    ...     learner.update(phi=[1, 0], reward=0, phi_next=[0, 1], discount=0.9)
    ...     learner.update(phi=[0, 1], reward=1, phi_next=[0, 0], discount=0)
    >>> learner.theta.round(3), round(learner.predict([0, 1]), 3)
    (array([0.9, 1. ]), 1.0)
    >>> learner
    Learner(td, 2 features: 100 steps seen, 50 episodes)
    """

    def __init__(
        self,
        n_features: int,
        algorithm: Algorithm | str = "impression_gtd",
        *,
        capacity: int | None = 100_000,
        seed: int = 0,
        theta0: Any = None,
        compile: bool | None = None,
        **hyper: Any,
    ) -> None:
        d = checks.whole_number("n_features", n_features, 1)
        run = OnlineRun(algorithm, hyper, d, capacity=capacity, seed=seed, theta0=theta0, compile=compile)
        super().__init__([run.rule.name], StepQueue(d, [run], 1))

    def update(
        self, phi: Any, reward: Any, phi_next: Any, rho: Any = 1.0, discount: Any = None, episode: int | None = None
    ) -> None:
        """Take one step.

        The episode goes on until a step with discount 0 was given or `new_episode` is called.

        Parameters
        ----------
        phi : array or SciPy sparse row
            The features that the step started from. The first step decides how all are stored: float32 as long as
            all are given so, in half the memory, else float64.
        reward : float
            Its reward.
        phi_next : array or SciPy sparse row
            The features that it led to.
        rho : float
            The target's probability of the action taken over the behaviour's.
        discount : float
            Gamma, and 0 where the episode terminated.
        episode : int, optional
            A number that stays the same while an episode lasts and grows from one to the next.
        """
        reward, discount = checks.number("reward", reward), discount_number("discount", discount)
        self._put(phi, phi_next, reward, discount, ratio_number("rho", rho), episode)

    def partial_fit(self, stream: Stream) -> Learner:
        """Take all steps of a stream, a part of a log; returns the learner.

        Its first step goes on with the latest episode unless that ended with discount 0: call `new_episode` first
        where the log was cut between two episodes of which the former was truncated. Sparse features stay sparse,
        and so do their traces, unless the first step was dense or the rule reads dense rows only: then up to 4096
        columns are stored densely.
        """
        self._put_stream(stream, {})
        return self

    def predict(self, phi: Any) -> Any:
        """The value phi . theta, a number for one row of features and an array for several."""
        return self._values(phi)[0]

    @property
    def theta(self) -> Floats:
        """The weights (or their average, where one is reported); before learning starts, those of the start."""
        return self._queue.thetas()[0]

    @property
    def updates(self) -> int:
        """How many updates the steps given so far have led to."""
        self._queue.work_off()
        return self._queue.runs[0].updates

    @property
    def diverged_at(self) -> int:
        """The step at which the weights were found diverged, -1 where they were not. From then on it is frozen."""
        self._queue.work_off()
        return self._queue.runs[0].diverged_at

    def __repr__(self) -> str:
        episodes = self._queue.episodes.number + 1
        return f"Learner({self._names[0]}, {self.n_features} features: {self.seen} steps seen, {episodes} episodes)"

    @classmethod
    def load(cls, path: str | Path, *, compile: bool | None = None) -> Learner:
        """The learner that was saved to a file."""
        learner = cls.__new__(cls)
        OnlineLearner.__init__(learner, *saving.load(path, "Learner", 1, compile))
        return learner
