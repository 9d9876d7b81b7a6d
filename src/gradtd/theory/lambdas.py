"""What lambda does to Impression GTD on a problem: its solution, its bias, its threshold, its rate and its floor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gradtd.core import checks
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmsve
from gradtd.theory.exact import best_alpha, moments
from gradtd.theory.laws import law


@dataclass(frozen=True)
class LambdaRow:
    """One lambda. What does not exist where the traces have an infinite variance is None.

    ``bias`` is the RMSVE of the solution itself; ``alpha_star`` the threshold of stability, ``alpha`` the step-size
    given, or a quarter of the threshold; ``rate`` and ``floor`` those of ``alpha``, ``error`` the square root of
    the mean squared RMSVE in the long run, bias and noise together; ``fastest`` the step-size with the best rate.
    """

    lam: float
    finite_variance: bool
    norm_A: float
    smallest: float
    bias: float
    alpha_star: float | None = None
    alpha: float | None = None
    rate: float | None = None
    floor: float | None = None
    error: float | None = None
    fastest: float | None = None


def lambdas(
    problem: Problem | str,
    m: int = 32,
    lams: Iterable[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0),
    *,
    alpha: float | None = None,
    trace: str = "rho",
) -> list[LambdaRow]:
    """Impression GTD(lam) on a problem for several lambdas, by the exact theory.

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name.
    m : int
        The size of each of the two batches.
    lams : list of float
        The lambdas.
    alpha : float, optional
        The step-size; by default a quarter of the threshold of each lambda.
    trace : str
        The ratio in a trace, as in `gradtd.exact`.

    >>> for row in lambdas("random_walk_dependent", 16, [0, 0.8]):
    ...     print(row.lam, round(row.bias, 3), round(row.alpha_star, 2), round(row.error, 3))
    0.0 0.108 43.28 0.214
    0.8 0.083 0.49 0.16
    """
    task = as_problem(problem)
    m = checks.whole_number("m", m, 1)
    return [_row(task, m, lam, alpha, trace) for lam in checks.fractions("lam", lams)]


def _row(problem: Problem, m: int, lam: float, alpha: float | None, trace: str) -> LambdaRow:
    known = exact(problem, lam, trace)
    values = np.linalg.svd(known.A, compute_uv=False)
    bias = float(rmsve(known, known.theta_star))
    plain = LambdaRow(lam, known.traces.finite, float(values[0]), float(values[-1]), bias)
    if not known.traces.finite:
        return plain
    one = law(problem, lam, trace)
    found = moments(one, m)
    step = found.threshold / 4 if alpha is None else checks.number_above("alpha", alpha, 0.0)
    stable = step < found.threshold
    noise = found.basis @ found.stationary(step) @ found.basis.T if stable else None
    rows = problem.features[known.states]
    spread = None if noise is None else float(np.einsum("si,ij,sj->s", rows, noise, rows).mean())
    return LambdaRow(
        *(lam, True, plain.norm_A, plain.smallest, bias),
        alpha_star=found.threshold,
        alpha=step,
        rate=found.rate(step),
        floor=None if noise is None else float(np.trace(noise)),
        error=None if spread is None else float(np.sqrt(bias**2 + spread)),
        fastest=best_alpha(one, m) if found.threshold > 0 else None,
    )
