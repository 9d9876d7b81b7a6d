"""Learns the values of many policies from one stream, while the data arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled.online import GOES_ON
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.executors import n_threads
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.given import discount_number, ended, ratio_number
from gradtd.running.online.online_learner import OnlineLearner
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.standing import Standing, standing_of
from gradtd.running.online.value_interval import ValueInterval, intervals_of
from gradtd.running.online.window import Rows


class Horde(OnlineLearner):
    """Many demons that learn from one stream, each with its own policy (rho), reward, discount and weights.

    Every demon gets the weights of a `Learner` with the same settings. Features are stored once.

    Parameters
    ----------
    n_features : int
        Number of features.
    demons : list of str, or dict
        Their names, or for each name its settings: hyper-parameters, ``seed``, ``theta0``, ``capacity``, ``algorithm``.
    algorithm : Algorithm or str
        The rule of all demons without an ``algorithm`` setting.
    **hyper
        The hyper-parameters of all demons. A demon with an ``algorithm`` setting uses only its own.
    gamma, sparse, intervals, compile
        As in `gradtd.Learner`.
    capacity, seed, theta0
        As in `gradtd.Learner`, for all demons without this setting.
    threads : int, optional
        Number of threads that process the queue of steps, by default one per core. The result does not depend on it.

    >>> horde = Horde(1, {"soon": {"alpha": 0.5}, "late": {"alpha": 0.25}}, "td")
    >>> for _ in range(60):
    ...     horde.update(phi=[1.0], reward=1.0, phi_next=[1.0], rho=1.0, discount={"soon": 0.0, "late": 0.5})
    >>> {name: round(value, 3) for name, value in horde.predict([1.0]).items()}
    {'soon': 1.0, 'late': 1.999}
    """

    def __init__(
        self,
        n_features: int,
        demons: Mapping[str, Mapping[str, Any]] | Iterable[str],
        algorithm: Algorithm | str = "impression_gtd",
        *,
        gamma: float | None = None,
        sparse: bool = False,
        intervals: bool = False,
        capacity: int | None = 100_000,
        seed: int = 0,
        theta0: Any = None,
        threads: int | None = None,
        compile: bool | None = None,
        **hyper: Any,
    ) -> None:
        d = checks.whole_number("n_features", n_features, 1)
        common = {"algorithm": algorithm, "capacity": capacity, "seed": seed, "theta0": theta0}
        made = {}
        for name, own in _named(demons).items():
            settings = common | ({} if "algorithm" in own else hyper) | dict(own)
            rule, room, key, start = (settings.pop(label) for label in common)
            kept = {"capacity": room, "seed": key, "theta0": start, "intervals": intervals_of(intervals, sparse)}
            made[name] = OnlineRun(rule, settings, d, compile=compile, **kept)
        queue = StepQueue(d, list(made.values()), n_threads(threads), compile)
        super().__init__(list(made), queue, sparse, gamma)

    def update(
        self,
        phi: Any,
        reward: Any,
        phi_next: Any,
        rho: Any = 1.0,
        discount: Any = None,
        episode: int | None = None,
        *,
        terminated: bool | None = None,
        truncated: bool | None = None,
    ) -> None:
        """Take one step. Demons learn from queued steps together, at the latest when a value is requested.

        Without ``episode``, the episode continues until a step has discount 0 for every demon, a step is truncated, or
        `new_episode` is called.

        Parameters
        ----------
        phi, phi_next : array, or SciPy sparse row; with ``sparse=True`` indices
            The features before and after the step.
        reward, rho, discount : float, dict or array
            A number for all demons, a number for each name, or one number per demon.
        episode : int, optional
            A number that is constant within an episode and increases from one to the next.
        terminated, truncated : bool, optional
            As in `gradtd.Learner.update`, for all demons.
        """
        cut = GOES_ON
        if discount is None:
            discount = self._gamma
        with self._lock:
            queue = self._queue
            if terminated is not None or truncated is not None:
                over, cut = ended(0.0, terminated, truncated)
                discount = over if terminated else discount
            if not (episode is None and self._put_fast(phi, phi_next, (reward, discount, rho), cut)):
                numbers = [
                    self._each(name, value, check)
                    for name, value, check in (
                        ("reward", reward, checks.number),
                        ("discount", discount, discount_number),
                        ("rho", rho, ratio_number),
                    )
                ]
                number = self._episode(episode)
                self._stage(phi, phi_next)
                queue.episodes.begin_step(number)
                queue.given[0], queue.given[1], queue.given[2] = numbers
                queue.put(cut)
            if cut:
                queue.episodes.cut()

    def _put_fast(self, phi: Any, phi_next: Any, numbers: tuple[Any, Any, Any], cut: int) -> bool:
        """Take a step with rows in the stored form and numbers as floats or arrays, which compiled code checks. Returns
        False if that is impossible."""
        queue = self._queue
        rows = queue.rows
        if (
            queue.broken
            or not isinstance(rows, Rows)
            or queue.episodes.label is not None
            or type(phi) is not np.ndarray
            or type(phi_next) is not np.ndarray
            or phi.dtype is not rows.staged.dtype
            or phi_next.dtype is not rows.staged.dtype
            or phi.shape != rows.staged[0].shape
            or phi_next.shape != rows.staged[0].shape
        ):
            return False
        for i, value in enumerate(numbers):
            kind = type(value)
            if kind is not float and not (
                kind is np.ndarray and value.shape == queue.shape and value.dtype.kind == "f"
            ):
                return False
            queue.given[i] = value
        rows.staged[0], rows.staged[1] = phi, phi_next
        return queue.try_put(cut)

    def update_many(
        self,
        phi: Any,
        reward: Any,
        phi_next: Any,
        rho: Any = 1.0,
        discount: Any = None,
        *,
        terminated: Any = None,
        truncated: Any = None,
    ) -> Horde:
        """Take many steps in order, given as tables (steps, features). Returns the horde.

        ``reward``, ``rho`` and ``discount`` are a number or one entry per step, a mapping of these by demon, or a table
        (steps, demons).
        """
        if self._sparse:
            raise InputError(
                "update_many of a horde takes rows of numbers: with sparse=True, call update for each step."
            )
        numbers = {"reward": reward, "discount": discount, "rho": rho}
        self._put_many((phi, phi_next), numbers, (terminated, truncated))
        return self

    def partial_fit(
        self,
        stream: Stream,
        *,
        reward: Mapping[str, Any] | None = None,
        rho: Mapping[str, Any] | None = None,
        discount: Mapping[str, Any] | None = None,
    ) -> Horde:
        """Take all steps of a stream, a part of a log (see `Learner.partial_fit`); returns the horde.

        ``reward``, ``rho`` and ``discount`` map a demon to one entry per step, or one number; by default those of the
        stream are used.
        """
        given = {"reward": reward, "rho": rho, "discount": discount}
        for name, values in given.items():
            if values is not None and not isinstance(values, Mapping):
                raise InputError(f"{name} must map demons to one entry per step, got {type(values).__name__}.")
        self._put_stream(stream, given)
        return self

    def predict(self, phi: Any) -> dict[str, Any]:
        """The value phi . theta of every demon: numbers for one row of features, arrays for several."""
        return dict(zip(self._names, self._values(phi), strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    @property
    def theta(self) -> dict[str, Floats]:
        """The weights of every demon."""
        with self._lock:
            return dict(zip(self._names, self._queue.thetas(), strict=True))

    @property
    def updates(self) -> dict[str, int]:
        """The number of updates of every demon."""
        with self._lock:
            self._queue.work_off()
        return {name: run.updates for name, run in zip(self._names, self._queue.runs, strict=True)}

    @property
    def diverged_at(self) -> dict[str, int]:
        """The step at which each demon diverged, -1 if it did not."""
        with self._lock:
            self._queue.work_off()
        return {name: run.diverged_at for name, run in zip(self._names, self._queue.runs, strict=True)}

    def interval(self, phi: Any = None, *, level: float = 0.95, anytime: bool = False) -> dict[str, ValueInterval]:
        """The value and interval of every demon; see `gradtd.Learner.interval`."""
        with self._lock:
            return {name: self._interval(i, phi, level, anytime) for i, name in enumerate(self._names)}

    def standing(self, steps: int | None = None) -> dict[str, Standing]:
        """The status of every demon; see `gradtd.Learner.standing`."""
        most = None if steps is None else checks.whole_number("steps", steps, 2)
        with self._lock:
            return {name: standing_of(self._queue, i, most) for i, name in enumerate(self._names)}

    def __repr__(self) -> str:
        return f"Horde({', '.join(self._names)}; {self.n_features} features: {self.seen} steps seen)"

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None, compile: bool | None = None) -> Horde:
        """The horde that was saved to a file."""
        return cls.__new__(cls)._take(saving.load(path, "Horde", n_threads(threads), compile))

    def _each(self, name: str, value: Any, check: Callable[[str, Any], float]) -> Any:
        """A checked number for all demons, or an array with one per demon."""
        if value is None or (np.ndim(value) == 0 and not isinstance(value, Mapping)):
            return check(name, value)
        if isinstance(value, Mapping):
            if value.keys() != set(self._names):
                raise InputError(
                    f"{name} needs one number for every demon ({', '.join(self._names)}), "
                    f"got {', '.join(map(str, value)) or 'none'}."
                )
            return np.array([check(f"{name}[{demon!r}]", value[demon]) for demon in self._names])
        numbers = checks.finite_array(name, value, 1)
        if len(numbers) != len(self._names):
            raise InputError(
                f"{name} needs one number for all demons or one for each of {len(self._names)}, got {len(numbers)}."
            )
        return np.array([check(f"{name}[{i}]", number) for i, number in enumerate(numbers)])


def _named(demons: Any) -> dict[str, Mapping[str, Any]]:
    """The settings of every demon by name."""
    if isinstance(demons, str) or not isinstance(demons, Iterable):
        raise InputError(f"demons must be a list of names, or map names to settings; got {demons!r}.")
    names = list(demons)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"the names of demons must be text, without duplicates; got {names!r}.")
    named = dict(demons) if isinstance(demons, Mapping) else {name: {} for name in names}
    for name, settings in named.items():
        if not isinstance(settings, Mapping):
            raise InputError(f"the settings of demon {name!r} must be a mapping, for example {{'alpha': 0.1}}.")
    return named
