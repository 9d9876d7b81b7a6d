"""`DeepLearner`: a network that learns the values of a stream, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.files import read_arrays, reading, write_arrays
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.deep.impression import Batch, impression_loss
from gradtd.deep.mlp import Mlp
from gradtd.deep.replay import EpisodeReplay

MADE_BY = "gradtd deep learner"
FORMAT = 1
PLAIN = ("similarity", "whiten", "form", "hessian", "directions", "ridge")


class DeepLearner:
    """A network that learns values step by step, with Adam and the corrected form of Impression GTD.

    On one machine the same steps and the same seed give the same bytes, and a loaded learner continues exactly where
    the saved one stopped.

    Parameters
    ----------
    n_inputs : int
        Number of columns of an observation.
    hidden : tuple of int
        Widths of the hidden layers.
    activation : {"relu", "tanh", "identity"}
        The function after every hidden layer.
    step_size : float
        The step-size of Adam.
    batch : (int, int)
        Sizes of the two batches.
    capacity : int
        Number of steps stored; the oldest are dropped first.
    split : {"odd_even", "coin", "episode"}
        How episodes are assigned to the two batches.
    seed : int
        Seed of the initial network and of all draws.
    **options
        Options of `gradtd.deep.impression_loss`, for example ``ridge=1.0``.
    """

    def __init__(
        self,
        n_inputs: int,
        *,
        hidden: tuple[int, ...] = (64, 64),
        activation: str = "relu",
        step_size: float = 1e-3,
        batch: tuple[int, int] = (32, 32),
        capacity: int = 100_000,
        split: str = "odd_even",
        seed: int = 0,
        **options: Any,
    ) -> None:
        for name in options:
            checks.known_name("option", name, PLAIN)
        self.net = Mlp(n_inputs, tuple(hidden), activation=activation)
        self.step_size = float(checks.number_at_least("step_size", step_size, 0))
        _refuse_beyond_single("step_size", self.step_size)
        self.batch = (checks.whole_number("batch", batch[0], 1), checks.whole_number("batch", batch[1], 1))
        room = 4.0 * sum(self.batch) * (2 * self.net.n_inputs + sum(self.net.hidden))
        refuse_beyond_memory(room, "the two batches", "use smaller ones, for example batch=(32, 32)")
        self.replay = EpisodeReplay(capacity, split, seed)
        self.options: Mapping[str, Any] = options
        self.params = self.net.init(jax.random.key(self.replay.seed % 2**63))
        self.optimiser = optax.adam(self.step_size)
        self.state = self.optimiser.init(self.params)
        self.updates = 0
        self._update = jax.jit(self._step)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("optimiser", "_update")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.optimiser = optax.adam(self.step_size)  # functions, which neither pickle nor a copy carries over
        self._update = jax.jit(self._step)

    def _step(self, params: Any, state: Any, first: Batch, second: Batch) -> tuple[Any, Any]:
        slope = jax.grad(lambda p: impression_loss(self.net.apply, p, first, second, **self.options))(params)
        change, state = self.optimiser.update(slope, state, params)
        return optax.apply_updates(params, change), state

    def update(
        self,
        x: Any,
        reward: float,
        next_x: Any,
        *,
        gamma: float,
        terminated: bool = False,
        truncated: bool = False,
        rho: float = 1.0,
    ) -> None:
        """Take one step, and learn from two batches once there are two episodes."""
        for name, one in (("x", x), ("next_x", next_x)):
            if np.shape(one) != (self.net.n_inputs,):
                raise InputError(f"{name} needs shape ({self.net.n_inputs},), got {np.shape(one)}.")
        for name, number in (("reward", reward), ("rho", rho)):
            _refuse_beyond_single(name, checks.number(name, number))
        with np.errstate(over="ignore"):  # what overflows is refused as infinite
            x, next_x = np.asarray(x, np.float32), np.asarray(next_x, np.float32)
        self.replay.add(x, reward, next_x, gamma=gamma, terminated=terminated, truncated=truncated, rho=rho)
        if self.replay.ready():
            pair = (Batch(*(np.asarray(a, np.float32) for a in one)) for one in self.replay.pair(*self.batch))
            self.params, self.state = self._update(self.params, self.state, *pair)
            self.updates += 1

    def partial_fit(
        self, x: Any, reward: Any, next_x: Any, *, gamma: float, terminated: Any, truncated: Any = None, rho: Any = None
    ) -> DeepLearner:
        """Take many steps in order, as arrays with one entry per step; returns the learner."""
        n = len(reward)
        truncated = np.zeros(n, bool) if truncated is None else truncated
        rho = np.ones(n) if rho is None else rho
        for name, one in (
            ("x", x),
            ("next_x", next_x),
            ("terminated", terminated),
            ("truncated", truncated),
            ("rho", rho),
        ):
            if len(one) != n:
                raise InputError(f"{name} needs one entry per step ({n}), got {len(one)}.")
        for k in range(n):
            ends = {"terminated": bool(terminated[k]), "truncated": bool(truncated[k])}
            self.update(x[k], float(reward[k]), next_x[k], gamma=gamma, rho=float(rho[k]), **ends)
        return self

    def new_episode(self) -> None:
        """End the episode as truncated: the next step begins a new one."""
        self.replay.new_episode()

    def predict(self, x: Any) -> Any:
        """The value of one observation (a number), or of several (an array)."""
        table = np.asarray(x, np.float32)
        made = np.asarray(self.net.apply(self.params, jnp.atleast_2d(table))[0])
        return float(made[0]) if table.ndim == 1 else made

    def save(self, path: str | Path) -> None:
        """Write everything to one .npz file with a checksum, without pickle."""
        if any(callable(value) for value in self.options.values()):
            raise InputError("similarity is a function, and code is not saved: keep the parameters instead.")
        flat = {"params": self.params, "state": self.state}
        arrays = {name: np.asarray(ravel_pytree(tree)[0]) for name, tree in flat.items()}
        arrays |= {f"steps.{name}": column[: len(self.replay)] for name, column in self.replay.steps.items()}
        header = {
            "made_by": MADE_BY,
            "format": FORMAT,
            "n_inputs": self.net.n_inputs,
            "settings": {
                "hidden": list(self.net.hidden),
                "activation": self.net.activation,
                "step_size": self.step_size,
                "batch": list(self.batch),
                "capacity": self.replay.capacity,
                "split": self.replay.split,
                "seed": self.replay.seed,
            }
            | dict(self.options),
            "replay": self.replay.memory(),
            "updates": self.updates,
        }
        write_arrays(Path(path), arrays, header)

    @classmethod
    def load(cls, path: str | Path) -> DeepLearner:
        """Load the learner from a file."""
        with reading(path, "a file that DeepLearner.save wrote"):
            header, arrays = read_arrays(Path(path))
            if header["made_by"] != MADE_BY:
                raise KeyError("made_by")
            if header["format"] != FORMAT:
                raise InputError(f"{str(path)!r} has format {header['format']!r}, this version reads {FORMAT}.")
            _refuse_other_size(header, len(arrays["params"]))
            made = cls(header["n_inputs"], **header["settings"])
            for name in ("params", "state"):
                flat, back = ravel_pytree(getattr(made, name))
                found = arrays[name]
                if found.shape != flat.shape or found.dtype.kind != "f" or not np.isfinite(found).all():
                    raise InputError(f"the file's {name} do not fit the network: it is damaged.")
                setattr(made, name, back(jnp.asarray(found, flat.dtype)))
            steps = {name.removeprefix("steps."): a for name, a in arrays.items() if name.startswith("steps.")}
            made.replay.restore(header["replay"], steps, (made.net.n_inputs,))
            made.updates = checks.whole_number("updates", header["updates"], 0)
        return made

    def __repr__(self) -> str:
        layers = " x ".join(map(str, self.net.hidden)) or "no hidden"
        return f"DeepLearner({layers} units: {self.replay.seen} steps seen, {self.updates} updates)"


def _refuse_beyond_single(name: str, number: float) -> None:
    """Refuse a number that is infinite in the network's single precision: every weight would become NaN."""
    if abs(number) > float(np.finfo(np.float32).max):
        raise InputError(f"{name} must be at most 3.4e38 in size, the largest number of the network, got {number:g}.")


def _refuse_other_size(header: Mapping[str, Any], n_parameters: int) -> None:
    """Refuse a file whose parameters do not match its network, before creating the network."""
    told = header["settings"]
    net = Mlp(header["n_inputs"], tuple(told["hidden"]), activation=told["activation"])
    if net.n_parameters != n_parameters:
        raise InputError(
            f"the file's network has {net.n_parameters} parameters, but the file holds {n_parameters}: it is damaged."
        )
