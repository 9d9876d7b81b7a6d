"""From measurements to `Diagnostics`: the one place that makes them, for logs in memory and in parts.

Four things are measured: sums over the steps (`StepSums`), the equations and their solution (`Equations`), the decision
of the checks, and, for methods that are fitted to a log in memory, how they agree with the others (`compare_methods`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.estimators.importance_sampling import DR, marginal_weights
from gradtd.evaluation.estimators.methods import Case, Solved
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ESTIMATORS, Estimate
from gradtd.evaluation.report.step_sums import StepSums
from gradtd.evaluation.settings import STATE, Settings


@dataclass(frozen=True, kw_only=True)
class Equations:
    """The log's equations A theta + b = 0, and their least-squares solution.

    Parameters
    ----------
    value, error
        The value of the start states, and its sandwich error.
    features, features_used
        Features of the map, and those that are not 0 in every step.
    condition_A, condition_C
        Condition numbers; None where the matrix is sparse.
    undetermined_directions
        Directions of feature space that the log does not determine.
    neu_start, neu_end
        |A theta + b|^2 at zero weights, and at the final weights.
    ess_marginal, ess_marginal_episodes
        Effective sample size of the marginal weights, in steps and in episodes.
    solved_by
        The solver.
    """

    value: float
    error: float
    features: int
    features_used: int
    condition_A: float | None
    condition_C: float | None
    undetermined_directions: int
    neu_start: float
    neu_end: float
    ess_marginal: float
    ess_marginal_episodes: float
    solved_by: str | None = None

    def diagnostics(self) -> dict[str, Any]:
        """The fields of `Diagnostics` that these are."""
        told = {name: number for name, number in vars(self).items() if name not in ("value", "error")}
        return told | {"sandwich_error": self.error}


def diagnose(
    steps: StepSums,
    equations: Equations,
    decision: Decision | None,
    settings: Settings,
    headline: Estimate,
    *,
    limits: Limits = DEFAULT,
    **more: Any,
) -> Diagnostics:
    """Everything that is measured about one target on one log.

    Parameters
    ----------
    steps
        Sums over the steps of the log.
    equations
        The equations, and their solution.
    decision
        What the checks decided; None where there were none.
    settings
        How to evaluate.
    headline
        The estimate asked for.
    limits
        The thresholds.
    **more
        Fields of `Diagnostics` that are measured elsewhere: of the method's own fit, of the target's choices.
    """
    # Errors below rounding would turn any difference into many standard errors.
    error = max(equations.error, limits.rounding * abs(equations.value), 1e-300)
    tracing = settings.tracing
    return Diagnostics(
        method=settings.method,
        gamma=settings.gamma,
        lam=None if tracing is None else tracing.lam,
        trace=None if tracing is None else tracing.kind,
        episodes=int(steps["episodes"]),
        beyond_rewards=steps.beyond_rewards(settings.gamma, headline.value, error),
        **steps.diagnostics(),
        **equations.diagnostics(),
        **_checked(decision, limits),
        **more,
    )


def _checked(decision: Decision | None, limits: Limits) -> dict[str, Any]:
    """What the checks found. Checks are counted only where the fit itself has no fault."""
    if decision is None:
        return {}
    fit, sound = decision.fit, not decision.faults
    error = max(fit.error, 1e-300)
    return {
        "effective_pieces": fit.effective,
        "refit_bias": abs(fit.bias) / error if fit.error > limits.no_error * abs(fit.value) else 0.0,
        "lacking": fit.lack,
        "lacking_moves": fit.missed / max(decision.own.width / 2, 1e-300),
        "surprises_met": min(fit.met, float(len(fit.psi))),
        "dependence": decision.dependent,
        "complete": not decision.needs_richer,
        "richer_checks": decision.richer if sound else None,
        "memory_checks": decision.memory if sound else None,
        "hull_times": decision.hull.width / max(decision.own.width, 1e-300),
        "hull_of_limit": decision.hull.width / max(decision.limit, 1e-300) if sound else 0.0,
        "hull_low": decision.shown.low,
        "hull_high": decision.shown.high,
        "differs": decision.differs or None,
        "hidden_time": decision.hides or None,
    }


def equations_of(case: Case, theta: Floats, features: int, condition_C: float | None) -> Equations:
    """The equations of a log in memory.

    Parameters
    ----------
    case
        The target's stream, with its least-squares solution.
    theta
        The final weights.
    features
        Features of the map, also those that were left out.
    condition_C
        Condition number of C before whitening.
    """
    square, sums = case.square, case.square.sums
    residual = sums.A @ theta + sums.b
    weights = marginal_weights(case.stream, square.left, case.traces)
    return Equations(
        value=square.value,
        error=square.error,
        features=features,
        features_used=int((sums.C.diagonal() > 0).sum()),
        condition_A=square.condition,
        condition_C=condition_C,
        undetermined_directions=square.singular,
        neu_start=float(sums.b @ sums.b),
        neu_end=float(residual @ residual),
        ess_marginal=effective_size(weights),
        ess_marginal_episodes=effective_size(np.add.reduceat(weights, case.begins[:-1])),
        solved_by=square.how,
    )


def compare_methods(case: Case, solved: Solved, limits: Limits = DEFAULT) -> dict[str, Any]:
    """How the method asked for agrees with the others, and how its own fit went; fields of `Diagnostics`."""
    told: dict[str, Any] = {"resamples": solved.resamples, "refits": solved.refits}
    if case.settings.values == STATE:
        told["from_dr"] = _from_doubly_robust(solved, limits)
    fitted, value = solved.fitted, solved.headline.value
    if fitted is None:
        return told
    told |= {"updates": fitted.updates, "hyper": fitted.told, "diverged": fitted.diverged}
    told["moved"] = fitted.moved / case.error
    if solved.refits:
        told["refits_lost"] = float(np.isnan(solved.resampled).mean()) if len(solved.resampled) else 0.0
    if value is not None:
        told["from_lstd"] = abs(value - case.square.value) / case.error
        told["error_ratio"] = _error_ratio(case, solved) if solved.refits else None
    return told


def _error_ratio(case: Case, solved: Solved) -> float:
    """The error by refits over the sandwich error; NaN where one of them is missing, or is rounding only."""
    error = solved.headline.error
    if error is None or not len(solved.resampled) or case.square.error < case.error:
        return float("nan")
    return error / case.error


def _from_doubly_robust(solved: Solved, limits: Limits) -> float | None:
    """Standard errors of the difference between the value and the doubly robust one; NaN where that has none."""
    row, refits = solved.headline, solved.resampled
    if row.value is None or row.method in ESTIMATORS or not len(refits):
        return None
    robust = solved.drawn.resampled[:, DR]
    apart = (refits - robust)[np.isfinite(refits) & np.isfinite(robust)]
    spread = max(float(apart.std()), limits.rounding * abs(row.value)) if len(apart) > 1 else 0.0
    return abs(row.value - float(solved.drawn.values[DR])) / spread if spread > 0 else float("nan")


def effective_size(weights: Floats) -> float:
    """(sum w)^2 / sum w^2: the number of equal weights with the same variance of a mean.

    >>> float(effective_size(np.array([1.0, 1.0, 1.0, 0.0])))
    3.0
    """
    largest = max(weights.max(initial=0.0), -weights.min(initial=0.0))  # marginal weights may be negative
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else 1.0
    part = weights / largest  # squares of the weights themselves might overflow
    return float(part.sum() ** 2 / (part**2).sum())
