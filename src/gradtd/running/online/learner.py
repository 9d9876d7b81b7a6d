"""Learning one policy's values while the data arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.run import OnlineRun
from gradtd.running.online.shell import Shell, discount_number, ratio_number


class Learner(Shell):
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
        Shell.__init__(learner, *saving.load(path, "Learner", 1, compile))
        return learner
