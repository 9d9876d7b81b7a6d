"""The base of every control agent: a network with one value per action, a target policy, and a step of Adam.

A *pair* is a row ``[observation, w_1, ..., w_n]`` with a weight for each of the n actions. Its value is
sum_a w_a q(observation, a). With weight 1 for the taken action it is q(s, a); with the target policy's probabilities it
is the expectation that the update bootstraps from. So every loss for state values also works for action values: x of a
`Batch` is the pair of the taken action, next_x the next observation with the target policy's probabilities. The
features of a pair are those of the last layer times the weights, so the similarity of different actions is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradtd.core.checks import InputError, number_at_least
from gradtd.deep.impression import Batch


class AgentState(NamedTuple):
    """The state of an agent. ``params["net"]`` is the network; ``target`` is None without a target network."""

    params: Any
    target: Any
    optimiser: Any
    updates: Any


@dataclass(frozen=True)
class Agent:
    """An agent: pure functions of its state, for `jax.jit` and `jax.vmap` over seeds.

    Parameters
    ----------
    net : Mlp
        The network, or any object with ``init``, ``apply`` and ``n_outputs``, the number of actions (at least 2).
    step_size : float
        The step-size of Adam.
    temperature : float
        With 0 the target policy is greedy; above 0 it is softmax(q / temperature).
    """

    net: Any
    step_size: float = 1e-3
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.net.n_outputs < 2:
            raise InputError(
                f"an agent needs a network with one value per action, but n_outputs is {self.net.n_outputs}."
            )
        for name in ("step_size", "temperature"):
            given = getattr(self, name)
            # not for traced values, when a caller compiles over several temperatures
            if isinstance(given, int | float):
                number_at_least(name, given, 0)

    def init(self, key: Any) -> AgentState:
        """The initial state, in which all values are 0."""
        params = {"net": self.net.init(key)}
        return AgentState(params, None, self.adam().init(params), 0)

    def adam(self) -> optax.GradientTransformation:
        """The optimiser."""
        return optax.adam(self.step_size)

    def loss(self, params: Any, target: Any, first: Batch, second: Batch) -> Any:
        """A scalar whose gradient with respect to ``params`` is the update's direction, for two batches from different
        episodes."""
        raise NotImplementedError

    def update(self, state: AgentState, first: Batch, second: Batch) -> AgentState:
        """One step of Adam down the loss."""
        slope = jax.grad(self.loss)(state.params, state.target, first, second)
        change, optimiser = self.adam().update(slope, state.optimiser, state.params)
        return AgentState(optax.apply_updates(state.params, change), state.target, optimiser, state.updates + 1)

    def values(self, state: AgentState, x: Any) -> Any:
        """The values of all actions, (m, n_actions), at m observations."""
        return self.net.apply(state.params["net"], x)[0]

    def pair_values(self, params: Any, pairs: Any) -> tuple[Any, Any]:
        """Values of pairs and their features: an ``apply`` as in `gradtd.deep`."""
        x, weights = self._split(pairs)
        q, features = self.net.apply(params, x)
        of_pairs = features[:, :, None] * weights[:, None, :]
        return jnp.sum(q * weights, axis=1), of_pairs.reshape(len(pairs), -1)

    def with_target_policy(self, params: Any, batch: Batch) -> Batch:
        """The batch with next pairs weighted by the target policy under ``params``, without gradient."""
        x, _ = self._split(batch.next_x)
        q = jax.lax.stop_gradient(self.net.apply(params, x)[0])
        if isinstance(self.temperature, int | float) and self.temperature == 0:
            weights = jax.nn.one_hot(jnp.argmax(q, axis=1), q.shape[1], dtype=q.dtype)
        else:
            weights = jax.nn.softmax(q / self.temperature, axis=1)
        return batch._replace(next_x=jnp.concatenate([x, weights], axis=1))

    def _split(self, pairs: Any) -> tuple[Any, Any]:
        return pairs[:, : -self.net.n_outputs], pairs[:, -self.net.n_outputs :]
