"""The curves of the theory's picture: exact, bounds, and errors of runs. Computes, draws nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.files import Arrays
from gradtd.running.runs import run
from gradtd.theory.as_printed import printed
from gradtd.theory.corrections import corrected
from gradtd.theory.exact import error_curve
from gradtd.theory.laws import Law, law
from gradtd.theory.simulate import simulate

ALGORITHM = "impression_gtd"
"""The rule that the theory speaks of."""
SHORTEST, LONGEST = 2000, 5000
"""Fewest and most steps of the curves, where nobody says how many."""


def trajectory_settings(alpha: float, m: int, lam: float = 0.0, trace: str = "rho") -> dict[str, Any]:
    """The hyper-parameters with which the rule is run on trajectories: those of the theory, nothing averaged."""
    traces = {"lam": lam, "trace": trace} if lam > 0 else {}
    return {"alpha": alpha, "batch_size": m, "average": "none"} | traces


def theory_curves(
    problem: str, found: Mapping[str, Any], steps: int | None, runs: int, *, threads: int | None = None
) -> Arrays:
    """The exact curve, bounds, and the errors of runs with independent draws and on trajectories.

    Lines have one entry per step of ``at``. ``independent draws`` and ``trajectories`` have one row per run besides.
    Traces of a problem have no finite list of values, so that with them there are no independent draws.

    Parameters
    ----------
    problem
        The name of a problem.
    found
        What `gradtd.theory.summary` says of it.
    steps
        The last step of the curves. None ends them when the error has settled.
    runs
        Independent runs of each measured curve.
    threads
        Threads of the runs on trajectories, by default one per core. They change no number.
    """
    m, alpha = found["batch_size"], found["alpha"]
    last = _horizon(found) if steps is None else checks.whole_number("--steps", steps, 10)
    at = np.unique(np.r_[0, np.geomspace(1, last, 60).astype(np.int64)])
    one = law(problem, found["lam"], found["trace"])
    exact = error_curve(one, alpha, m, steps=at).error
    made: Arrays = {"at": at, "exact": exact, **_bounds(one, found, at, float(exact[0]))}
    if one.square is None:
        made["independent draws"] = simulate(one, alpha, m, steps=at, runs=runs)
    settings = {"runs": runs, "steps": last, "snapshots": at.tolist(), "threads": threads}
    result = run(problem, ALGORITHM, **settings, **trajectory_settings(alpha, m, one.lam, found["trace"]))
    made["trajectories"] = _squared_error(one, result.thetas)
    return made


def _bounds(one: Law, found: Mapping[str, Any], at: Integers, start: float) -> Arrays:
    """The bounds that say something of this setting; ``start`` is the squared error before the first step."""
    m, alpha = found["batch_size"], found["alpha"]
    made: Arrays = {}
    if found["q_paper"] is not None and found["q_paper"] < 1 and found["bias_paper"] is not None:
        paper = printed(one, m)
        made["as printed"] = paper.q(alpha) ** at * start + paper.bias(alpha)
    if found["q_corrected"] is not None:
        right = corrected(one, m)
        powers = [s for s in (0.0, 0.5, 1.0) if alpha < right.alpha_limit(s)]
        made["corrected"] = np.array([min(right.error_bound(alpha, int(t), s=s) for s in powers) for t in at])
    if found["floor_bound"]:
        made["long run"] = np.full(len(at), found["floor_bound"])
    return made


def _squared_error(one: Law, thetas: Floats) -> Floats:
    """|theta - theta*|^2 in the directions that A sees."""
    seen = one.singular_values[1]
    return np.asarray((((thetas - one.theta_star) @ seen.T) ** 2).sum(axis=-1))


def _horizon(found: Mapping[str, Any]) -> int:
    """Steps until the error has settled, within reason."""
    slow = 1.0 - found["rho"]
    return int(np.clip(20.0 / slow if slow > 0 else 0, SHORTEST, LONGEST))
