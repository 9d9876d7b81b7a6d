"""Computes the curves of the theory's figure, without drawing: exact errors, bounds, and errors of runs.

Some runs are simulated under the assumption of the exact theory: two new independent batches at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays
from gradtd.running.runs import run, start_weights
from gradtd.theory.as_printed import printed
from gradtd.theory.corrections import corrected
from gradtd.theory.exact import Source, error_curve, step_numbers
from gradtd.theory.laws import Law, law


def simulate(
    source: Source,
    alpha: float,
    m1: int,
    m2: int | None = None,
    *,
    steps: int | Iterable[int],
    runs: int = 100,
    seed: int = 0,
    theta0: Any = None,
    symmetric: bool = False,
) -> Floats:
    """|theta_t - theta*|^2 of each run after each of ``steps`` updates: shape (runs, steps).

    The mean over runs is an unbiased estimate of `error_curve`. Cost: O(runs (m1 + m2) d) per step, in NumPy. A
    diverged run keeps its last finite error.

    >>> errors = simulate("boyan_chain", 10, 10, steps=[0, 200], runs=50)
    >>> errors.shape, round(float(errors[0, 0]), 6)
    ((50, 2), 896.0)
    """
    one, at = law(source), step_numbers(steps)
    if one.square is not None:
        raise InputError(
            f"the traces of {one.name} take infinitely many values, so they cannot be drawn: use the law of a long "
            "stream, gradtd.theory.law(gradtd.sample(...), lam=...)."
        )
    alpha = checks.number_above("alpha", alpha, 0.0)
    m1, runs = checks.whole_number("m1", m1, 1), checks.whole_number("runs", runs, 1)
    m2 = m1 if m2 is None else checks.whole_number("m2", m2, 1)
    rng = np.random.default_rng(checks.seed_number(seed))
    bounds, last = np.cumsum(one.p), len(one.p) - 1
    seen = one.singular_values[1]
    theta = np.tile(start_weights(theta0, one.theta0), (runs, 1))

    def draw(m: int) -> Any:
        return np.minimum(np.searchsorted(bounds, rng.random((runs, m))), last)

    def vectors(k: Any) -> tuple[Floats, Floats]:
        x, after = one.features[one.row[k]], one.features[one.next_row[k]]
        return one.left[one.row[k]], one.rho[k][..., None] * (one.discount[k][..., None] * after - x)

    def direction(outer: tuple[Floats, Floats], inner: tuple[Floats, Floats], c: Floats) -> Floats:
        delta = np.einsum("rmd,rd->rm", inner[1], theta) + c
        u = np.einsum("rm,rmd->rd", delta, inner[0]) / delta.shape[1]
        along = np.einsum("rmd,rd->rm", outer[0], u) / outer[0].shape[1]
        return np.asarray(np.einsum("rm,rmd->rd", along, outer[1]))

    out, place = np.empty((runs, len(at))), 0
    for t in range(int(at[-1]) + 1):
        if t == at[place]:
            out[:, place] = (((theta - one.theta_star) @ seen.T) ** 2).sum(axis=1)
            place += 1
        if place == len(at):
            break
        k1, k2 = draw(m1), draw(m2)
        first, second = vectors(k1), vectors(k2)
        with np.errstate(over="ignore", invalid="ignore"):
            g = direction(first, second, one.c[k2])
            if symmetric:
                g = (g + direction(second, first, one.c[k1])) / 2
            moved = theta - alpha * g
        theta = np.where(np.isfinite(moved).all(axis=1, keepdims=True) & (np.abs(moved) < 1e150), moved, theta)
    return out


ALGORITHM = "impression_gtd"
"""The rule that the theory describes."""
SHORTEST, LONGEST = 2000, 5000
"""Minimum and maximum number of steps of the curves, if not given."""


def trajectory_settings(alpha: float, m: int, lam: float = 0.0, trace: str = "rho") -> dict[str, Any]:
    """The hyper-parameters with which the rule is run on trajectories: those of the theory, without averaging."""
    traces = {"lam": lam, "trace": trace} if lam > 0 else {}
    return {"alpha": alpha, "batch_size": m, "average": "none"} | traces


def theory_curves(
    problem: str, found: Mapping[str, Any], steps: int | None, runs: int, *, threads: int | None = None
) -> Arrays:
    """The exact curve, bounds, and the errors of runs with independent draws and on trajectories.

    Exact curves and bounds have one entry per step of ``at``; ``independent draws`` and ``trajectories`` have one row
    per run. With traces there are no independent draws, because traces of a problem take infinitely many values.

    Parameters
    ----------
    problem
        The name of a problem.
    found
        The result of `gradtd.theory.summary` for it.
    steps
        The last step of the curves. With None they end when the error has converged.
    runs
        Number of independent runs of each measured curve.
    threads
        Number of threads for the runs on trajectories, by default one per core. The result does not depend on it.
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
    """The bounds that apply to this setting; ``start`` is the squared error before the first step."""
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
    """|theta - theta*|^2 in the row space of A."""
    seen = one.singular_values[1]
    return np.asarray((((thetas - one.theta_star) @ seen.T) ** 2).sum(axis=-1))


def _horizon(found: Mapping[str, Any]) -> int:
    """Number of steps until the error has converged, within limits."""
    slow = 1.0 - found["rho"]
    return int(np.clip(20.0 / slow if slow > 0 else 0, SHORTEST, LONGEST))
