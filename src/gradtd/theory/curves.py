"""The curves of the theory's picture: exact, bounds, and means of runs. Computes, draws nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.files import Arrays
from gradtd.running.runs import run
from gradtd.theory.as_printed import printed
from gradtd.theory.corrections import corrected
from gradtd.theory.exact import error_curve
from gradtd.theory.laws import law
from gradtd.theory.simulate import simulate


def theory_curves(problem: str, found: dict[str, Any], steps: int | None, runs: int) -> Arrays:
    """The exact curve, bounds, and the errors of runs with independent draws and on trajectories.

    ``found`` is what `gradtd.theory.summary` says of the problem. ``steps`` ends the curves, by default when the
    error has settled. Lines have one entry per step of ``at``; ``independent draws`` and ``trajectories`` one row per
    run besides.
    """
    m, alpha = found["batch_size"], found["alpha"]
    last = _horizon(found) if steps is None else checks.whole_number("--steps", steps, 10)
    at = np.unique(np.r_[0, np.geomspace(1, last, 60).astype(np.int64)])
    one = law(problem)
    exact = error_curve(one, alpha, m, steps=at).error
    made: Arrays = {"at": at, "exact": exact}
    if found["q_paper"] is not None and found["q_paper"] < 1 and found["bias_paper"] is not None:
        paper = printed(one, m)
        made["as printed"] = paper.q(alpha) ** at * exact[0] + paper.bias(alpha)
    if found["q_corrected"] is not None:
        right = corrected(one, m)
        powers = [s for s in (0.0, 0.5, 1.0) if alpha < right.alpha_limit(s)]
        made["corrected"] = np.array([min(right.error_bound(alpha, int(t), s=s) for s in powers) for t in at])
    if found["floor_bound"]:
        made["long run"] = np.full(len(at), found["floor_bound"])
    made["independent draws"] = simulate(one, alpha, m, steps=at, runs=runs)
    settings = {"alpha": alpha, "batch_size": m, "average": "none"}
    result = run(problem, "impression_gtd", runs=runs, steps=last, snapshots=at.tolist(), **settings)
    seen = one.singular_values[1]
    made["trajectories"] = (((result.thetas - one.theta_star) @ seen.T) ** 2).sum(axis=-1)
    return made


def _horizon(found: dict[str, Any]) -> int:
    """Steps until the error has settled, within reason."""
    slow = 1.0 - found["rho"]
    return int(np.clip(20.0 / slow if slow > 0 else 0, 2000, 5000))
