"""Semi-gradient Q-learning with a network, without a target network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradtd.deep.baselines import joined, semi_gradient_loss
from gradtd.deep.control.agent import Agent
from gradtd.deep.impression import Batch


@dataclass(frozen=True)
class SemiGradientQ(Agent):
    """d = -mean delta grad q(s, a) over both batches, with delta = r + discount q(s', pi) - q(s, a)."""

    def loss(self, params: Any, target: Any, first: Batch, second: Batch) -> Any:
        """`semi_gradient_loss`, of pairs."""
        net = params["net"]
        return semi_gradient_loss(self.pair_values, net, self.with_target_policy(net, joined(first, second)))
