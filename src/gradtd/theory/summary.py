"""The three layers side by side, as one dictionary of plain numbers."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from gradtd.core import checks
from gradtd.theory.as_printed import Printed, printed
from gradtd.theory.corrections import Corrected, corrected
from gradtd.theory.exact import Source, best_alpha, moments
from gradtd.theory.laws import Law, law
from gradtd.theory.moments import refuse_long_problem

PRINTED = (
    *("norm_Sigma_b", "L1", "L2", "L", "lambda", "sigma2", "sigma_v2", "L_max", "smoothness_holds", "m_paper"),
    *("alpha_paper", "alpha_paper_at_m_paper", "alpha_theorem_1", "q_paper", "bias_paper"),
)
"""What only the paper's constants say."""


def summary(
    source: Source, m: int = 32, alpha: float | None = None, *, t: int = 1000, lam: float = 0.0, trace: str = "rho"
) -> dict[str, Any]:
    """Constants, step-sizes, rates and floors of the three layers for two batches of m steps.

    ``alpha`` is by default the paper's step-size, 1 / (5 S/m + 4 |A|^2); Table 1 is that after ``t`` steps. What a
    layer cannot say is None, and ``notes`` says why. With eligibility traces (``lam`` above 0) the paper prints
    nothing, and ``alpha`` is by default a quarter of the exact threshold.

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
    """Theorem C's factor, the least of those for s = 0, 1/2 and 1."""
    factors = [right.q(alpha, s) for s in (0.0, 0.5, 1.0) if alpha < right.alpha_limit(s)]
    return min(factors, default=None)


def _remarks(found: dict[str, Any]) -> list[str]:
    alpha, m = found["alpha"], found["batch_size"]
    remarks = []
    if found["floor"] is None:
        remarks.append(
            f"alpha = {alpha:.4g} is not stable in mean square with batches of {m}: E|error|^2 grows without bound, "
            "though a typical run may not show it for long; choose alpha below "
            f"alpha* = {found['alpha_star']:.4g}, or larger batches."
        )
    if found["lam"] > 0:
        remarks.append("the paper prints nothing for lambda above 0: its column is empty.")
    elif found["q_paper"] is None:
        remarks.append(f"Theorem 2 says nothing for alpha = {alpha:.4g}: it needs alpha <= {found['alpha_paper']:.4g}.")
    elif found["q_paper"] >= 1:
        remarks.append(
            f"Theorem 2 gives no rate for batches of {m}: lambda > L mu; Theorem 3 asks for m >= {found['m_paper']}."
        )
    if found["alpha_corrected"] is not None and found["q_corrected"] is None:
        remarks.append(f"Theorem C covers alpha below {found['alpha_corrected']:.4g} with batches of {m}.")
    return remarks


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
