"""DQN and double DQN: semi-gradient Q-learning with a target network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gradtd.core.checks import whole_number
from gradtd.deep.baselines import joined, semi_gradient_loss
from gradtd.deep.control.agent import Agent, AgentState
from gradtd.deep.impression import Batch


@dataclass(frozen=True)
class DQN(Agent):
    """d = -mean delta grad q(s, a) over both batches; the next value in delta is that of the target network.

    Mnih et al. (2015), with the squared error and Adam. With ``double=True`` the network chooses the next action and
    the target network gives its value (van Hasselt, Guez and Silver 2016).

    Parameters
    ----------
    period : int
        Number of updates between copies to the target network.
    double : bool
        Whether the network, instead of the target network, chooses the next action.
    """

    period: int = 200
    double: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("period", self.period, 1)

    def init(self, key: Any) -> AgentState:
        """The initial state, whose target network is a copy."""
        start = super().init(key)
        return start._replace(target=start.params["net"])

    def loss(self, params: Any, target: Any, first: Batch, second: Batch) -> Any:
        """`semi_gradient_loss` with a target network, of pairs."""
        batch = self.with_target_policy(params["net"] if self.double else target, joined(first, second))
        return semi_gradient_loss(self.pair_values, params["net"], batch, target)

    def update(self, state: AgentState, first: Batch, second: Batch) -> AgentState:
        """One step of Adam, and a copy to the target network every ``period`` updates."""
        moved = super().update(state, first, second)
        due = moved.updates % self.period == 0
        copied = jax.tree.map(lambda old, new: jnp.where(due, new, old), state.target, moved.params["net"])
        return moved._replace(target=copied)
