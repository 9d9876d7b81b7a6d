"""What `Learner` and `Horde` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.sparse_rows import is_sparse

_NUMBERS = ("reward", "discount", "rho")


class Shell:
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
