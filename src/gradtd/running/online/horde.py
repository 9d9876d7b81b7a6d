"""Learning the values of many policies from one stream, while the data arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.executors import n_threads
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.learner import OnlineLearner, discount_number, ratio_number
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.queue import StepQueue


class Horde(OnlineLearner):
    """Many demons learn from one stream: each its own policy (rho), reward and discount, and its own weights.

    Every demon has the weights that a `Learner` with its settings has. Features are stored once.

    Parameters
    ----------
    n_features : int
        How many features a step has.
    demons : list of str, or dict
        Their names, or for each name its settings: hyper-parameters, ``seed``, ``theta0``, ``capacity``, ``algorithm``.
    algorithm : Algorithm or str
        The rule of all demons that have none of their own.
    **hyper
        The hyper-parameters of all demons, except that one with an ``algorithm`` of its own takes its own only.
    capacity, seed, theta0, compile
        As in `gradtd.Learner`, for all demons that do not set it themselves.
    threads : int, optional
        Threads that work off the queue of steps, by default one for each core. The result does not depend on it.

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
            made[name] = OnlineRun(rule, settings, d, capacity=room, seed=key, theta0=start, compile=compile)
        super().__init__(list(made), StepQueue(d, list(made.values()), n_threads(threads)))

    def update(
        self, phi: Any, reward: Any, phi_next: Any, rho: Any = 1.0, discount: Any = None, episode: int | None = None
    ) -> None:
        """Take one step.

        Without ``episode`` the episode goes on until a step had discount 0 for every demon, or `new_episode` is called.

        Parameters
        ----------
        phi, phi_next : array or SciPy sparse row
            The features that the step started from, and those that it led to.
        reward, rho, discount : float, dict or array
            A number for all demons, a number for each name, or one number per demon.
        episode : int, optional
            A number that stays the same while an episode lasts and grows from one to the next.
        """
        reward = self._each("reward", reward, checks.number)
        discount, rho = self._each("discount", discount, discount_number), self._each("rho", rho, ratio_number)
        self._put(phi, phi_next, reward, discount, rho, episode)

    def partial_fit(
        self,
        stream: Stream,
        *,
        reward: Mapping[str, Any] | None = None,
        rho: Mapping[str, Any] | None = None,
        discount: Mapping[str, Any] | None = None,
    ) -> Horde:
        """Take all steps of a stream, a part of a log (see `Learner.partial_fit`); returns the horde.

        ``reward``, ``rho`` and ``discount`` map a demon to one entry per step, or one number; else the stream's hold.
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
        return dict(zip(self._names, self._queue.thetas(), strict=True))

    @property
    def updates(self) -> dict[str, int]:
        """How many updates every demon made."""
        self._queue.work_off()
        return {name: run.updates for name, run in zip(self._names, self._queue.runs, strict=True)}

    @property
    def diverged_at(self) -> dict[str, int]:
        """The step at which a demon was found diverged, -1 where it was not."""
        self._queue.work_off()
        return {name: run.diverged_at for name, run in zip(self._names, self._queue.runs, strict=True)}

    def __repr__(self) -> str:
        return f"Horde({', '.join(self._names)}; {self.n_features} features: {self.seen} steps seen)"

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None, compile: bool | None = None) -> Horde:
        """The horde that was saved to a file."""
        horde = cls.__new__(cls)
        OnlineLearner.__init__(horde, *saving.load(path, "Horde", n_threads(threads), compile))
        return horde

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
    """The settings of every demon, under its name."""
    if isinstance(demons, str) or not isinstance(demons, Iterable):
        raise InputError(f"demons must be a list of names, or map names to settings; got {demons!r}.")
    names = list(demons)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"demons need names, words that differ from each other; got {names!r}.")
    named = dict(demons) if isinstance(demons, Mapping) else {name: {} for name in names}
    for name, settings in named.items():
        if not isinstance(settings, Mapping):
            raise InputError(f"the settings of demon {name!r} must be a mapping, for example {{'alpha': 0.1}}.")
    return named
