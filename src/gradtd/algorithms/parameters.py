"""The hyper-parameters that several algorithms share."""

from __future__ import annotations

from gradtd.core.algorithm import Parameter
from gradtd.core.checks import above, choice

ETA = Parameter(1.0, "second step-size over the first", above(0))
RIDGE = Parameter(1.0, "multiple of the identity added to the sum over steps", above(0))
ONLY_RHO = Parameter("rho", "the ratio in a trace: rho", choice("rho"))
ONLY_CLIPPED = Parameter("clipped", "the ratio in a trace: clipped at 1", choice("clipped"))
