"""Tables of the theory: the three layers side by side, and the effect of lambda on Impression GTD for a problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.exact import exact
from gradtd.problems.metrics import rmsve
from gradtd.theory.as_printed import Printed, printed
from gradtd.theory.corrections import Corrected, corrected
from gradtd.theory.exact import Source, best_alpha, moments
from gradtd.theory.laws import Law, law
from gradtd.theory.moments import refuse_long_problem

PRINTED = (
    *("norm_Sigma_b", "L1", "L2", "L", "lambda", "sigma2", "sigma_v2", "L_max", "smoothness_holds", "m_paper"),
    *("alpha_paper", "alpha_paper_at_m_paper", "alpha_theorem_1", "q_paper", "bias_paper"),
)
"""Entries that exist only for the paper's constants."""


def summary(
    source: Source, m: int = 32, alpha: float | None = None, *, t: int = 1000, lam: float = 0.0, trace: str = "rho"
) -> dict[str, Any]:
    """Constants, step-sizes, rates and floors of the three layers for two batches of m steps.

    ``alpha`` is by default the paper's step-size, 1 / (5 S/m + 4 |A|^2). Table 1 is computed for ``t`` steps. Values
    that a layer does not have are None, and ``notes`` says why. The paper has no constants for eligibility traces
    (``lam`` above 0); ``alpha`` is then by default a quarter of the exact threshold.

    >>> found = summary("boyan_chain", 10, 10.0)
    >>> round(found["alpha"] / found["alpha_star"], 3), found["m_paper"]
    (0.126, 26)
    >>> summary("boyan_chain", 10, 100.0)["floor"] is None
    True
    """
    refuse_long_problem(source)
    one = law(source, lam, trace)
    paper = None if one.lam > 0 else printed(one, checks.whole_number("batch size", m, 1))
    exact = moments(one, checks.whole_number("batch size", m, 1))
    usual = exact.threshold / 4 if paper is None else paper.alpha_paper
    alpha = usual if alpha is None else checks.number_above("alpha", alpha, 0.0)
    stable = alpha < exact.threshold
    fastest = best_alpha(one, m)
    found: dict[str, Any] = {
        "problem": one.name,
        "features": one.n_features,
        "rank": one.rank,
        "lam": one.lam,
        "trace": trace,
        "batch_size": m,
        "alpha": alpha,
        "norm_A": one.norm_A,
        "mu": one.mu,
        "S": one.S,
        **_printed_numbers(one, paper, alpha, t),
        **_corrected_numbers(one, m, alpha),
        "alpha_star": exact.threshold,
        "rho": exact.rate(alpha),
        "floor": float(exact.stationary(alpha).trace()) if stable else None,
        "mean_rate": exact.mean_rate(alpha),
        "alpha_fastest": fastest,
        "rho_fastest": exact.rate(fastest),
    }
    found["notes"] = [*_remarks(found), *(one.notes if paper is None else paper.notes)]
    return found


def _printed_numbers(one: Law, paper: Printed | None, alpha: float, t: int) -> dict[str, Any]:
    if paper is None:
        return dict.fromkeys(PRINTED) | {"table_1": []}
    covered = alpha <= paper.alpha_paper * (1 + 1e-12)
    return {
        "norm_Sigma_b": paper.norm_Sigma_b,
        "L1": paper.L1,
        "L2": paper.L2,
        "L": paper.L,
        "lambda": paper.lam,
        "sigma2": paper.sigma2,
        "sigma_v2": paper.sigma_v2,
        "L_max": paper.L_max,
        "smoothness_holds": paper.smoothness().holds,
        "m_paper": paper.m_paper,
        "alpha_paper": paper.alpha_paper,
        "alpha_paper_at_m_paper": printed(one, paper.m_paper).alpha_paper,
        "alpha_theorem_1": paper.alpha_theorem_1,
        "q_paper": _finite(paper.q(alpha)) if covered else None,
        "bias_paper": _finite(paper.bias(alpha)) if covered else None,
        "table_1": [asdict(row) for row in paper.table_1(t)],
    }


def _corrected_numbers(one: Law, m: int, alpha: float) -> dict[str, Any]:
    if one.left_over.any():
        names = ("alpha_lemma_a", "kappa_0", "kappa_half", "kappa_1", "alpha_corrected", "q_corrected", "floor_bound")
        return dict.fromkeys(names)
    right = corrected(one, m)
    return {
        "alpha_lemma_a": right.alpha_lemma_a,
        "kappa_0": right.kappa(0.0),
        "kappa_half": right.kappa(0.5),
        "kappa_1": right.kappa(1.0),
        "alpha_corrected": right.alpha_limit(0.5),
        "q_corrected": _best_q(right, alpha),
        "floor_bound": right.floor_bound(alpha) if alpha < right.alpha_limit(1.0) else None,
    }


def _best_q(right: Corrected, alpha: float) -> float | None:
    """The smallest factor of Theorem C over s = 0, 1/2 and 1."""
    factors = [right.q(alpha, s) for s in (0.0, 0.5, 1.0) if alpha < right.alpha_limit(s)]
    return min(factors, default=None)


def _remarks(found: dict[str, Any]) -> list[str]:
    alpha, m = found["alpha"], found["batch_size"]
    remarks = []
    if found["floor"] is None:
        remarks.append(
            f"alpha = {alpha:.4g} is not stable in mean square with batches of {m}: E|error|^2 grows without bound, "
            "although a typical run may not show it for a long time; choose alpha below "
            f"alpha* = {found['alpha_star']:.4g}, or larger batches."
        )
    if found["lam"] > 0:
        remarks.append("the paper has no constants for lambda above 0, so its column is empty.")
    elif found["q_paper"] is None:
        remarks.append(
            f"Theorem 2 does not apply to alpha = {alpha:.4g}: it needs alpha <= {found['alpha_paper']:.4g}."
        )
    elif found["q_paper"] >= 1:
        remarks.append(
            f"Theorem 2 gives no rate for batches of {m}: lambda > L mu; Theorem 3 requires m >= {found['m_paper']}."
        )
    if found["alpha_corrected"] is not None and found["q_corrected"] is None:
        remarks.append(f"Theorem C covers alpha below {found['alpha_corrected']:.4g} with batches of {m}.")
    return remarks


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class LambdaRow:
    """The results for one lambda. Values that need a finite variance of the traces are None if it is infinite.

    ``bias`` is the RMSVE of the solution itself; ``alpha_star`` the threshold of stability, ``alpha`` the given
    step-size, or a quarter of the threshold; ``rate`` and ``floor`` belong to ``alpha``; ``error`` is the root of the
    mean squared RMSVE in the limit, with bias and noise; ``fastest`` the step-size with the best rate.
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
