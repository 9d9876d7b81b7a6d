"""Traces of values of actions: what of the trace before a step takes over.

The equations hold with any trace, because given an observation and an action the surprise has mean zero, whatever came
before. What suits is how much the target would have gone on like the log: with features of (s_t, a_t) the trace is
e_t = discount_{t-1} lam c_t e_{t-1} + x_t, and c_t is of the action of this very step. Values of observations have
c_{t-1} there. So a step is given what the step after it takes over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.logs import Log, ratios

TREE = "tree"


def as_given(tracing: Tracing) -> Tracing:
    """The traces of a stream that has c of every step where it would have the target's probabilities."""
    return Tracing(tracing.lam, TREE)


def shares(log: Log, target: Any, tracing: Tracing, behaviour: Any, seed: int) -> Floats:
    """c of the step after every step: the target's probability of the action taken, or the ratio clipped at 1.

    The former needs nothing else, the latter the behaviour's probability, too. Ratios above 1 are refused before.
    """
    if not log.discrete_actions:
        raise InputError(
            "traces of values of actions need the target's probability of the action taken, and over real actions "
            "values='action' has none: leave lam out, or take values='state' with densities of both."
        )
    if tracing.kind == TREE:
        found = ratios(log, target, behaviour=np.ones(len(log))).target
        assert found is not None
    elif behaviour is None and log.behaviour is None:
        raise InputError(
            "trace='clipped' needs the behaviour's probability of every action taken, and the log does not say "
            "it: choose trace='tree', which needs the target's only, or give the behaviour."
        )
    else:
        found = np.minimum(ratios(log, target, behaviour=behaviour, seed=seed).rho, 1.0)
    return np.append(found[1:], 0.0)
