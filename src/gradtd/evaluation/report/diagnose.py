"""Measuring what the verdict is judged from: the one place where `Diagnostics` are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.estimators.double_rl import marginal_weights
from gradtd.evaluation.estimators.importance_sampling import DR, beyond_cuts, episode_weights
from gradtd.evaluation.estimators.methods import ROUNDING, Case, Solved
from gradtd.evaluation.preparing import Prepared
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ESTIMATORS, Estimate
from gradtd.evaluation.settings import STATE
from gradtd.evaluation.trust.deciding import Decision
from gradtd.evaluation.trust.size import WIDTH
from gradtd.logs import Ratios


def diagnose(ready: Prepared, found: Ratios, case: Case, solved: Solved) -> Diagnostics:
    """Everything that is measured about one target on one log.

    Parameters
    ----------
    ready
        The log in features.
    found
        The ratios of its steps.
    case
        The target's stream, with its least-squares solution.
    solved
        The estimates, and the fit that the first of them comes from.
    """
    rho, begins, sums = found.rho, case.begins, case.square.sums
    fitted, settings = solved.fitted, case.settings
    marginal, marginal_episodes = _marginal_sizes(case)
    return Diagnostics(
        method=settings.method,
        gamma=settings.gamma,
        lam=None if settings.tracing is None else settings.tracing.lam,
        trace=None if settings.tracing is None else settings.tracing.kind,
        episodes=case.n_episodes,
        steps=len(case.stream),
        features=ready.features.n_features,
        features_used=int((sums.C.diagonal() > 0).sum()),
        terminated=int(ready.log.terminated.sum()),
        truncated=int(ready.log.truncated.sum()),
        leading_elsewhere=ready.leading_elsewhere,
        ends_known=ready.log.ends_known,
        rows_alone=ready.log.rows_alone or None,
        strangers=ready.log.strangers,
        reward_sample=effective_size(np.square(ready.log.reward)),
        largest_reward=float(np.abs(ready.log.reward).max()),
        unseen_mass=found.unseen_mass,
        unseen_pairs=found.unseen_pairs,
        clipped=found.clipped,
        condition_C=ready.condition_C,
        on_policy=case.on_policy,
        ess=effective_size(rho),
        ess_episodes=effective_size(episode_weights(case.stream, begins)),
        ess_marginal=marginal,
        ess_marginal_episodes=marginal_episodes,
        largest_ratio=float(rho.max()),
        mean_ratio=float(rho.mean()),
        mean_ratio_off=mean_ratio_off(rho, begins),
        top_hundredth_carries=top_hundredth(rho),
        beyond_cuts=beyond_cuts(case.stream, begins),
        updates=None if fitted is None else fitted.updates,
        hyper=None if fitted is None else fitted.told,
        moved=None if fitted is None else fitted.moved / case.error,
        diverged=None if fitted is None else fitted.diverged,
        refits_lost=None if fitted is None or not solved.refits else lost(solved.resampled),
        resamples=solved.resamples,
        sandwich_error=case.square.error,
        from_lstd=from_least_squares(case, solved),
        error_ratio=error_ratio(case, solved),
        from_dr=from_doubly_robust(solved) if settings.values == STATE else None,
        refits=solved.refits,
        estimated_behaviour=found.estimated or None,
        beyond_rewards=beyond_rewards(case, solved.headline),
        **checked(case.decision),
        solved_by=case.square.how,
        **ready.measured(case),
        condition_A=case.square.condition,
        undetermined_directions=case.square.singular,
        neu_start=float(sums.b @ sums.b),
        neu_end=neu(sums.A @ solved.theta + sums.b),
    )


def checked(decision: Decision | None) -> dict[str, Any]:
    """What the checks found, for the rules; counts of checks only where they were made."""
    if decision is None:
        return {}
    fit, sound = decision.fit, not decision.faults
    error = max(fit.error, 1e-300)
    return {
        "effective_pieces": fit.effective,
        "refit_bias": abs(fit.bias) / error if fit.error > WIDTH * abs(fit.value) else 0.0,
        "lacking": fit.lack,
        "lacking_moves": fit.missed / max(decision.own.width / 2, 1e-300),
        "surprises_met": min(fit.met, float(len(fit.psi))),
        "dependence": decision.dependent,
        "complete": not decision.needs_richer,
        "richer_checks": decision.richer if sound else None,
        "memory_checks": decision.memory if sound else None,
        "hull_times": decision.hull.width / max(decision.own.width, 1e-300),
        "hull_of_limit": decision.hull.width / max(decision.limit, 1e-300) if sound else 0.0,
        "hull_low": decision.hull.low,
        "hull_high": decision.hull.high,
        "differs": decision.differs or None,
        "hidden_time": decision.hides or None,
    }


def beyond_rewards(case: Case, row: Estimate) -> float | None:
    """How far a value is outside of what the log's rewards allow, in standard errors; None where they allow all.

    With gamma below 1 a return is at most the largest reward times 1 / (1 - gamma), and 0 where that is negative. Where
    only last steps of episodes that terminated have rewards, it is at most the largest of them.
    """
    if row.value is None:
        return None
    reward, discount = np.asarray(case.stream.steps["reward"]), np.asarray(case.stream.steps["discount"])
    at_the_end = not reward[discount != 0].any()
    if case.settings.gamma == 1 and not at_the_end:
        return None
    times = 1.0 if at_the_end else 1 / (1 - case.settings.gamma)
    low, high = times * min(float(reward.min()), 0.0), times * max(float(reward.max()), 0.0)
    outside = max(low - row.value, row.value - high, 0.0)
    return outside / case.error


def effective_size(weights: Floats) -> float:
    """(sum w)^2 / sum w^2: of how many equal weights these are worth as much.

    >>> float(effective_size(np.array([1.0, 1.0, 1.0, 0.0])))
    3.0
    """
    largest = max(weights.max(initial=0.0), -weights.min(initial=0.0))  # marginal weights may be negative
    if not 0 < largest < np.inf:
        return 0.0 if largest == 0 else 1.0
    part = weights / largest
    return float(part.sum() ** 2 / (part**2).sum())


def _marginal_sizes(case: Case) -> tuple[float, float]:
    """Effective samples of the marginal weights, in steps and in episodes; the weights themselves are let go."""
    weights = marginal_weights(case.stream, case.square.left, case.traces)
    return effective_size(weights), effective_size(np.add.reduceat(weights, case.begins[:-1]))


def top_hundredth(rho: Floats) -> float:
    """Part of the weight that the largest hundredth of the ratios carries."""
    largest = max(1, len(rho) // 100)
    return float(np.partition(rho, -largest)[-largest:].sum() / rho.sum()) if rho.sum() > 0 else 1.0


def mean_ratio_off(rho: Floats, begins: Integers) -> float:
    """How far the mean ratio is from one, in standard errors over episodes."""
    off = np.add.reduceat(rho, begins[:-1]) - np.diff(begins)
    error = float(np.sqrt((off**2).sum()))
    return float(off.sum() / error) if error > 0 else 0.0


def neu(residual: Floats) -> float:
    """The squared length of A theta + b."""
    return float(residual @ residual)


def lost(refits: Floats) -> float:
    """Part of the refits that failed."""
    return float(np.isnan(refits).mean()) if len(refits) else 0.0


def from_least_squares(case: Case, solved: Solved) -> float | None:
    """How many standard errors a fitted value is away from that of least squares."""
    if solved.fitted is None or solved.headline.value is None:
        return None
    return abs(solved.headline.value - case.square.value) / case.error


def error_ratio(case: Case, solved: Solved) -> float | None:
    """The error by refits over the sandwich's; NaN where one of them is missing, or is rounding only."""
    if solved.fitted is None or solved.headline.value is None or not solved.refits:
        return None
    error = solved.headline.error
    if error is None or not len(solved.resampled) or case.square.error < case.error:
        return float("nan")
    return error / case.error


def from_doubly_robust(solved: Solved) -> float | None:
    """How many standard errors of the difference a value is away from the doubly robust one; NaN where it has none."""
    row, refits = solved.headline, solved.resampled
    if row.value is None or row.method in ESTIMATORS or not len(refits):
        return None
    robust = solved.drawn.resampled[:, DR]
    apart = (refits - robust)[np.isfinite(refits) & np.isfinite(robust)]
    spread = max(float(apart.std()), ROUNDING * abs(row.value)) if len(apart) > 1 else 0.0
    return abs(row.value - float(solved.drawn.values[DR])) / spread if spread > 0 else float("nan")
