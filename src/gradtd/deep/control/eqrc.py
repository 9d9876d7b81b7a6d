"""EQRC: gradient Q-learning with a regularised second head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import optax

from gradtd.core.checks import number_at_least
from gradtd.deep.baselines import correction_loss, joined
from gradtd.deep.control.agent import Agent, AgentState
from gradtd.deep.impression import Batch


@dataclass(frozen=True)
class EQRC(Agent):
    """d = mean (discount h grad q(s', pi) - delta grad q(s, a)) over both batches, with h = w_a . features.

    The second head w minimises mean (h - delta)^2 / 2 on the last layer's features, without a gradient to them, and
    decays by step_size beta w in every update. Patterson, White and White (2022).

    Parameters
    ----------
    beta : float
        The head's decay. With 0 it is gradient Q-learning without regularisation.
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number_at_least("beta", self.beta, 0)

    def init(self, key: Any) -> AgentState:
        """The initial state, with all values and the head 0."""
        net = self.net.init(key)
        n_features = self.pair_values(net, jnp.zeros((1, self.net.n_inputs + self.net.n_outputs)))[1].shape[1]
        params = {"net": net, "head": jnp.zeros(n_features)}
        return AgentState(params, None, self.adam().init(params), 0)

    def adam(self) -> optax.GradientTransformation:
        """Adam, with a separate decay of the head, which Adam must not rescale."""
        return optax.adamw(self.step_size, weight_decay=self.beta, mask={"net": False, "head": True})

    def loss(self, params: Any, target: Any, first: Batch, second: Batch) -> Any:
        """`correction_loss` without its regularisation, of pairs."""
        batch = self.with_target_policy(params["net"], joined(first, second))
        return correction_loss(self.pair_values, params["net"], params["head"], batch, regularised=False)
