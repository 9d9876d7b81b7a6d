"""Learning while the data arrive: `Learner` for one policy, `Horde` for many from the same stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd import checks, saved
from gradtd.checks import InputError
from gradtd.demons import Demon, Demons
from gradtd.types import Algorithm, Floats, Stream

WIDEST_SPARSE = 4096
"""Sparse rows with more features than this are refused: they would be stored densely."""
_NUMBERS = ("reward", "discount", "rho")


class _Shell:
    """What `Learner` and `Horde` have in common."""

    def __init__(self, names: list[str], demons: Demons) -> None:
        self._names, self._demons = names, demons

    @property
    def n_features(self) -> int:
        return self._demons.n_features

    @property
    def seen(self) -> int:
        """How many steps were given."""
        return self._demons.seen

    def new_episode(self) -> None:
        """Say that the episode was cut off (truncated): the next step begins another one."""
        self._demons.calendar.cut()

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file, without pickle; what is loaded goes on as if it had never stopped."""
        saved.save(path, type(self).__name__, self._names, self._demons)

    def _put(self, phi: Any, phi_next: Any, reward: Any, discount: Any, rho: Any, episode: Any) -> None:
        if episode is not None:
            episode = checks.whole_number("episode", episode, -(2**62), 2**62)
        ends = discount == 0 if isinstance(discount, float) else bool((discount == 0).all())
        self._demons.put(phi, phi_next, reward, discount, rho, ends, episode)

    def _put_stream(self, stream: Any, given: Mapping[str, Any]) -> None:
        if not isinstance(stream, Stream):
            raise InputError(f"partial_fit takes a Stream (see Stream.from_arrays), got {type(stream).__name__}.")
        if stream.n_features != self.n_features:
            raise InputError(f"{stream.name} has {stream.n_features} features, this learner {self.n_features}.")
        if not isinstance(stream.features, np.ndarray) and self.n_features > WIDEST_SPARSE:
            raise InputError(
                f"{stream.name} is sparse with {self.n_features} features, and a learner stores rows densely, "
                f"with {WIDEST_SPARSE} features at most: use gradtd.learn."
            )
        numbers = np.empty((3, len(stream), len(self._names)))
        for i, name in enumerate(_NUMBERS):
            numbers[i] = stream.steps[name][:, None]
            for demon, values in (given.get(name) or {}).items():
                label = f"{name}[{demon!r}]"
                column = checks.number_a_step(label, values, len(stream))
                if len(column) != len(stream):
                    raise InputError(f"{label} needs one entry a step ({len(stream)}), got {len(column)}.")
                _CHECK_COLUMNS[name](label, column)
                numbers[i, :, self._names.index(checks.known_name("demon", demon, self._names))] = column
        self._demons.put_stream(stream, numbers)

    def _values(self, phi: Any) -> list[Any]:
        try:
            ndim = np.ndim(phi)
        except ValueError:
            ndim = 2
        table = checks.finite_array("phi", phi, 2 if ndim == 2 else 1)
        if table.shape[-1] != self.n_features:
            raise InputError(f"phi needs {self.n_features} features in its last axis, got shape {table.shape}.")
        values = [table @ theta for theta in self._demons.thetas()]
        return values if ndim == 2 else [float(value) for value in values]


def _any_number(label: str, column: Floats) -> None:
    """A reward may be any finite number."""


def _not_negative(label: str, column: Floats) -> None:
    checks.refuse_where(label, column < 0, column, "must not be negative")


def _fractions(label: str, column: Floats) -> None:
    checks.refuse_where(label, (column < 0) | (column > 1), column, "must lie in [0, 1]")


_CHECK_COLUMNS = {"reward": _any_number, "discount": _fractions, "rho": _not_negative}


def _discount(name: str, value: Any) -> float:
    if value is None:
        raise InputError("discount must be given: gamma, or 0 where the episode terminated.")
    return checks.fraction(name, value)


def _rho(name: str, value: Any) -> float:
    return checks.number_at_least(name, value, 0)


class Learner(_Shell):
    """A value estimate that learns step by step, in bounded memory.

    After n steps it has the weights, to the last bit, that `gradtd.learn` finds on a stream of these n steps with the
    same ``capacity``: the number of steps each of its buffers holds, the oldest leaving first. Rules that draw no old
    steps keep a few only. ``hyper`` are the algorithm's hyper-parameters.

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
        demon = Demon(algorithm, hyper, d, capacity, seed, theta0, compile)
        super().__init__([demon.rule.name], Demons(d, [demon], 1))

    def update(
        self, phi: Any, reward: Any, phi_next: Any, rho: Any = 1.0, discount: Any = None, episode: int | None = None
    ) -> None:
        """Take one step: phi, reward, phi_next, the ratio and the discount (0 where the episode terminated).

        The episode goes on until a step with discount 0 was given or `new_episode` is called. Or give ``episode``, a
        number that stays the same while an episode lasts and grows from one to the next.
        """
        reward, discount = checks.number("reward", reward), _discount("discount", discount)
        self._put(phi, phi_next, reward, discount, _rho("rho", rho), episode)

    def partial_fit(self, stream: Stream) -> Learner:
        """Take all steps of a stream, a part of a log; returns the learner.

        Its first step goes on with the latest episode unless that ended with discount 0: call `new_episode` first
        where the log was cut between two episodes of which the former was truncated. Sparse features of up to 4096
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
        return self._demons.thetas()[0]

    @property
    def updates(self) -> int:
        """How many updates the steps given so far have led to."""
        self._demons.work_off()
        return self._demons.demons[0].updates

    @property
    def diverged_at(self) -> int:
        """The step at which the weights were found diverged, -1 where they were not. From then on it is frozen."""
        self._demons.work_off()
        return self._demons.demons[0].diverged_at

    def __repr__(self) -> str:
        episodes = self._demons.calendar.number + 1
        return f"Learner({self._names[0]}, {self.n_features} features: {self.seen} steps seen, {episodes} episodes)"

    @classmethod
    def load(cls, path: str | Path, *, compile: bool | None = None) -> Learner:
        """The learner that was saved to a file."""
        learner = cls.__new__(cls)
        _Shell.__init__(learner, *saved.load(path, "Learner", 1, compile))
        return learner


class Horde(_Shell):
    """Many demons learn from one stream: each its own policy (rho), reward and discount, and its own weights.

    ``demons`` lists their names, or maps each name to its settings: hyper-parameters, ``seed``, ``theta0``,
    ``capacity``, ``algorithm``. The settings beside it hold for all demons, except that one with an ``algorithm`` of
    its own takes its own hyper-parameters only. Every demon has the weights that a `Learner` with its settings has.
    Features are stored once; a queue of steps is worked off on several ``threads``, with the same result.

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
            made[name] = Demon(rule, settings, d, room, key, start, compile)
        super().__init__(list(made), Demons(d, list(made.values()), _workers(threads)))

    def update(
        self, phi: Any, reward: Any, phi_next: Any, rho: Any = 1.0, discount: Any = None, episode: int | None = None
    ) -> None:
        """Take one step; reward, rho and discount are a number for all demons, a mapping, or one number a demon.

        Without ``episode`` the episode goes on until a step had discount 0 for every demon, or `new_episode` is called.
        """
        reward = self._each("reward", reward, checks.number)
        discount, rho = self._each("discount", discount, _discount), self._each("rho", rho, _rho)
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

        ``reward``, ``rho`` and ``discount`` map a demon to one entry a step, or one number; else the stream's hold.
        """
        given = {"reward": reward, "rho": rho, "discount": discount}
        for name, values in given.items():
            if values is not None and not isinstance(values, Mapping):
                raise InputError(f"{name} must map demons to one entry a step, got {type(values).__name__}.")
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
        return dict(zip(self._names, self._demons.thetas(), strict=True))

    @property
    def updates(self) -> dict[str, int]:
        """How many updates every demon made."""
        self._demons.work_off()
        return {name: demon.updates for name, demon in zip(self._names, self._demons.demons, strict=True)}

    @property
    def diverged_at(self) -> dict[str, int]:
        """The step at which a demon was found diverged, -1 where it was not."""
        self._demons.work_off()
        return {name: demon.diverged_at for name, demon in zip(self._names, self._demons.demons, strict=True)}

    def __repr__(self) -> str:
        return f"Horde({', '.join(self._names)}; {self.n_features} features: {self.seen} steps seen)"

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None, compile: bool | None = None) -> Horde:
        """The horde that was saved to a file."""
        horde = cls.__new__(cls)
        _Shell.__init__(horde, *saved.load(path, "Horde", _workers(threads), compile))
        return horde

    def _each(self, name: str, value: Any, check: Callable[[str, Any], float]) -> Any:
        """A checked number for all demons, or an array with one a demon."""
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


def _workers(threads: int | None) -> int:
    return (os.cpu_count() or 1) if threads is None else checks.whole_number("threads", threads, 1)
