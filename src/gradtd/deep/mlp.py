"""A small network to start with. Any other ``apply(params, x)`` also works: flax, equinox, haiku or your own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from gradtd.core.checks import one_of, whole_number

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh, "identity": lambda x: x}


@dataclass(frozen=True)
class Mlp:
    """A network of fully connected layers whose last one is linear in (features, 1).

    Parameters
    ----------
    n_inputs : int
        Number of columns of an observation.
    hidden : tuple of int
        Widths of the hidden layers. Without hidden layers, the value is linear in the observation.
    n_outputs : int
        With 1 the values have shape (m,); with more, for example one per action, (m, n_outputs).
    activation : {"relu", "tanh", "identity"}
        The function after every hidden layer.
    """

    n_inputs: int
    hidden: tuple[int, ...] = (64, 64)
    n_outputs: int = 1
    activation: str = "relu"

    def __post_init__(self) -> None:
        whole_number("n_inputs", self.n_inputs, 1)
        whole_number("n_outputs", self.n_outputs, 1)
        for width in self.hidden:
            whole_number("hidden", width, 1)
        one_of("activation", self.activation, ACTIVATIONS)

    @property
    def n_parameters(self) -> int:
        """The number of parameters."""
        widths = (self.n_inputs, *self.hidden, self.n_outputs)
        return sum((fan_in + 1) * width for fan_in, width in pairwise(widths))

    def init(self, key: Any, dtype: Any = jnp.float32) -> Any:
        """He initialisation, biases 0; the last layer is 0, so that every initial value is 0."""
        widths = (self.n_inputs, *self.hidden)
        layers = []
        for fan_in, width in pairwise(widths):
            key, now = jax.random.split(key)
            weights = jax.random.normal(now, (fan_in, width), dtype) * (2.0 / fan_in) ** 0.5
            layers.append({"weights": weights, "bias": jnp.zeros(width, dtype)})
        head = jnp.zeros((widths[-1] + 1, self.n_outputs), dtype)
        return {"hidden": layers, "head": head}

    def apply(self, params: Any, x: Any) -> tuple[Any, Any]:
        """Values, and the features of the last layer with a constant 1 appended."""
        act = ACTIVATIONS[self.activation]
        for layer in params["hidden"]:
            x = act(x @ layer["weights"] + layer["bias"])
        features = jnp.concatenate([x, jnp.ones((*x.shape[:-1], 1), x.dtype)], axis=-1)
        made = features @ params["head"]
        return (made[..., 0] if self.n_outputs == 1 else made), features
