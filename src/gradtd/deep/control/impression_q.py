"""Impression Q: the corrected form of Impression GTD with the target policy's next value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradtd.deep.control.agent import Agent
from gradtd.deep.impression import Batch, impression_loss


@dataclass(frozen=True)
class ImpressionQ(Agent):
    """d = mean_1 (discount h grad q(s', pi) - delta grad q(s, a)), with h from batch 2.

    h(s, a) = K12 (K22 + ridge kbar I)^-1 delta_2, with the similarity k = (psi . psi' + 1) 1[a = a'] of the last layer
    psi. No target network, no second network, one step-size. It is not the gradient of any objective, and there is no
    convergence guarantee (`docs/control.md`).

    Parameters
    ----------
    ridge : float or "auto"
        Strength of the correction: near 0 the correction is full, but learning is slow; a large ridge gives
        semi-gradient Q-learning (see `gradtd.deep.impression_loss`).
    """

    ridge: Any = 1.0

    def loss(self, params: Any, target: Any, first: Batch, second: Batch) -> Any:
        """The corrected form of `impression_loss`, of pairs."""
        net = params["net"]
        first, second = (self.with_target_policy(net, batch) for batch in (first, second))
        return impression_loss(self.pair_values, net, first, second, ridge=self.ridge)
