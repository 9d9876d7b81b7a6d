"""The record of all diagnostics of an evaluation, on which the verdict is based.

`diagnose` computes it, for logs in memory and in parts, from sums over the steps (`StepSums`), the equations and their
solution (`LeastSquares`) and the decision of the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from gradtd.evaluation.limits import Limits

if TYPE_CHECKING:
    from gradtd.evaluation.decide import Decision
    from gradtd.evaluation.estimators.least_squares import LeastSquares
    from gradtd.evaluation.report.step_sums import StepSums
    from gradtd.evaluation.settings import Settings


SINGLE_PRECISION = 1e-6
"""Distance of the mean ratio from 1 that is explained by storing one policy's probabilities in 32 bits."""


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """The diagnostics of an evaluation.

    A field with a default does not apply to every method: None means that it does not apply, NaN that it could not be
    computed. The other fields always apply; None means that the log does not have the information.
    """

    # The question, and the size of the log.
    method: str
    """The requested method."""
    gamma: float
    """The discount factor."""
    episodes: int
    """Number of independent pieces: episodes, or blocks of steps."""
    steps: int
    """Number of steps in the log."""
    features: int
    """Number of features of the map."""
    features_used: int
    """Number of features that are not 0 in every step."""

    lam: float | None = None
    """Lambda of the eligibility traces, if any."""
    trace: str | None = None
    """The kind of ratio in the traces."""

    # The log.
    terminated: int
    """Number of episodes that terminated."""
    truncated: int
    """Number of episodes that were truncated."""
    leading_elsewhere: float
    """Share of steps inside an episode whose next observation is not that of the following row."""
    ends_known: bool
    """Whether the log shows which episodes terminated and which were cut off."""
    rows_alone: bool | None = None
    """Whether gradtd inferred that every row is an episode of one step."""
    strangers: float | None = None
    """Distance of next observations from the following rows: 0 if they match, 1 if they are like random rows."""
    reward_sample: float | None = None
    """Effective number of rewards, (sum r^2)^2 / sum r^4: 1 if one reward dominates."""
    largest_reward: float | None = None
    """The largest absolute reward."""

    drift: float | None = None
    """Student's t of the slope over the order of episodes, for their influences or for the residuals of their rewards,
    whichever is larger; 0 without drift."""
    rewards_late: bool | None = None
    """Whether the previous row explains the rewards better than their row."""
    first_rewards_none: bool | None = None
    """Whether the first reward of every episode is 0 and almost all others are not."""
    repeated: float | None = None
    """Share of the longer episodes that are equal to an earlier one."""

    # The target against the behaviour.
    unseen_mass: float | None
    """The target's probability per step of actions that the log never took."""
    doubt: str | None = None
    """Evidence against the recorded probabilities, given the observation."""
    unseen_pairs: float | None
    """The target's probability per step of actions that the log never took in that state, if observations are
    discrete."""
    values: str | None = None
    """"action" for action values. Their ratios are all 1, and the next three fields describe what the log lacks."""
    never_taken: float | None = None
    """Share of the target's choices, at next observations and starts, that the log never took in that state."""
    never_taken_effect: float | None = None
    """Change of the value if the target never made those choices, in standard errors."""
    outside_range: float | None = None
    """Share of the target's continuous actions outside the range of the log's actions."""
    action_error: float | None = None
    """Estimated error of the value, if ``value_function="auto"`` chose action values."""
    state_value: float | None = None
    """The value from state values in that case. Interval, influences and all other diagnostics are those of the state
    values."""
    clipped: int
    """Number of ratios that were clipped."""
    condition_C: float | None
    """Condition number of C, with every feature scaled to mean square one."""
    on_policy: bool
    """Whether every ratio is 1."""
    ess: float
    """Effective sample size of the ratios, (sum rho)^2 / sum rho^2, in steps."""
    ess_episodes: float
    """Effective sample size of the product of ratios of each episode, in episodes."""
    ess_marginal: float | None = None
    """Effective sample size of the marginal weights, (sum w)^2 / sum w^2 with value = sum of w r, in steps."""
    ess_marginal_episodes: float | None = None
    """Effective sample size of the sum of marginal weights of each episode, in episodes."""
    largest_ratio: float
    """The largest ratio of a step."""
    mean_ratio: float
    """The mean ratio: 1 with correct probabilities."""
    mean_ratio_off: float
    """Distance of the mean ratio from 1, in standard errors over episodes, with its sign."""
    top_hundredth_carries: float
    """Share of total weight held by the largest 1 % of ratios."""
    beyond_cuts: float
    """Share of the discounted time after truncations."""

    # The fit of an algorithm that makes updates.
    updates: int | None = None
    """Number of updates of the fit."""
    hyper: Mapping[str, Any] | None = None
    """The hyper-parameters of the fit that are numbers or strings."""
    moved: float | None = None
    """Change of the value in the second half of the updates, in standard errors."""
    diverged: bool | None = None
    """Whether the weights grew without bound."""
    refits_lost: float | None = None
    """Share of the refits that failed or diverged."""

    # The agreement of the methods.
    resamples: int
    """Number of bootstrap samples of the episodes."""
    sandwich_error: float
    """Sandwich standard error of the least-squares value, clustered by episodes."""
    from_lstd: float | None = None
    """Distance of the value from that of least squares, in standard errors."""
    error_ratio: float | None = None
    """Standard error by refits, divided by the sandwich error."""
    from_dr: float | None = None
    """Distance of the value from the doubly robust one, in standard errors of the difference."""

    # The results of the checks. They do not apply to importance sampling.
    refits: int | None = None
    """Number of refits of the method on resampled episodes."""
    features_named: bool | None = None
    """Whether the user named the features, so that no others could be chosen."""
    not_checked: str | None = None
    """The reason why the features were not checked."""
    undecided: str | None = None
    """The test for which the sample of a log in parts is too small."""
    effective_pieces: float | None = None
    """Effective number of pieces behind the value, (sum psi^2)^2 / sum psi^4 of their influences psi."""
    refit_bias: float | None = None
    """Jackknife bias over tenths of the pieces, in standard errors."""
    lacking: float | None = None
    """Share of the target's choices that the log lacks, measured in the features."""
    lacking_moves: float | None = None
    """Maximum change of the value due to missing choices, if each had a typical TD error, relative to half the width of
    its interval."""
    surprises_met: float | None = None
    """Effective number of steps behind the error, if TD errors were equal at all steps."""
    dependence: float | None = None
    """Variance divided by that of independent pieces."""
    richer_checks: int | None = None
    """Number of richer fits that are precise enough to count."""
    memory_checks: int | None = None
    """Number of fits with memory (earlier steps, traces, doubly robust) that are precise enough to count."""
    complete: bool | None = None
    """Whether the features can represent any function of the observation."""
    hull_times: float | None = None
    """Width of the checked interval relative to that of the chosen features alone."""
    hull_of_limit: float | None = None
    """Width of the checked interval relative to the allowed width."""
    hull_low: float | None = None
    hull_high: float | None = None
    """The ends of the checked interval."""
    differs: str | None = None
    """The name of an imprecise fit that nevertheless differs significantly."""
    hidden_time: float | None = None
    """Distance of the fit with the time since the start, in paired errors, if it shows that the observations hide the
    time.
    """
    hidden_state: float | None = None
    """Distance of the fit with past features, in paired errors, if it shows that the observations hide part of the
    state.
    """
    predicted_by: str | None = None
    """What predicts the next step in addition to the observation and the action: the previous step, earlier steps, the
    time or the ratio.
    """
    predicted_effect: float | None = None
    """The effect of the predicted part over an episode, in standard errors of the value."""
    predicted_chance: float | None = None
    """The p-value of this prediction."""
    behind_cuts: float | None = None
    """Share of the value after truncations, according to the value function."""
    late_steps_differ: float | None = None
    """Distance of the fit to late steps, in paired errors, if it gives a different value after truncations."""
    unseen_after_cuts: float | None = None
    """With a feature for each state, or with the time in the observation: share of the discounted time after
    truncations where the log lacks steps."""
    rarely_visited: float | None = None
    """Share of the target's time in states that the log rarely visited, if it is above its limit."""
    beyond_rewards: float | None = None
    """Distance of the value from the range that the rewards allow, in standard errors."""
    estimated_behaviour: bool | None = None
    """Whether the probabilities of the behaviour policy were estimated."""
    model_moves: float | None = None
    """Change of the value with a different model of the behaviour policy, relative to the larger of two paired errors
    and one error."""

    trained_on: bool | None = None
    """Whether episodes that the target was learned from were left out."""
    time_column: str | None = None
    """The column of times used for discounting."""

    # The equations.
    solved_by: str | None = None
    """The solver of the least-squares equations."""
    condition_A: float | None
    """Condition number of A in the features used for learning, or None if A is sparse."""
    undetermined_directions: int
    """Number of directions of feature space that the log does not determine."""
    neu_start: float
    """NEU = |A theta + b|^2 at zero weights."""
    neu_end: float
    """NEU at the final weights."""

    @property
    def mean_ratio_distance(self) -> float:
        """Distance of the mean ratio from 1, in standard errors.

        It is 0 if two more ratios of the largest size would close the gap, because in a skewed distribution a mean that
        is too low comes with a standard error that is too small. It is also 0 if single precision explains the gap,
        because equal ratios have no standard error.
        """
        if abs(self.mean_ratio - 1) <= SINGLE_PRECISION:
            return 0.0
        if self.steps * (1 - self.mean_ratio) <= 2 * self.largest_ratio and self.mean_ratio_off < 0:
            return 0.0
        return abs(self.mean_ratio_off)

    def to_dict(self) -> dict[str, Any]:
        """A dictionary of the fields that apply. Values that could not be computed are None."""
        told: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.default is MISSING:
                told[entry.name] = value
            elif value is not None:
                told[entry.name] = None if isinstance(value, float) and value != value else value
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Diagnostics:
        """Build from the output of `to_dict`, also after a round trip through JSON."""
        numbers = {entry.name for entry in fields(cls) if entry.default is not MISSING or entry.type == "float"}
        known: dict[str, Any] = {k: float("nan") if v is None and k in numbers else v for k, v in told.items()}
        return cls(**known)


def diagnose(
    steps: StepSums,
    square: LeastSquares,
    decision: Decision | None,
    settings: Settings,
    value: float | None,
    **more: Any,
) -> Diagnostics:
    """Compute all diagnostics of one target on one log.

    ``more`` are the other fields of `Diagnostics`: about the method's fit and the target's choices.
    """
    limits, tracing = settings.limits, settings.tracing
    # With a standard error below rounding, any difference would be many standard errors.
    error = max(square.error, limits.rounding * abs(square.value), 1e-300)
    return Diagnostics(
        method=settings.method,
        gamma=settings.gamma,
        trained_on=True if settings.trained_on is not None else None,
        time_column=settings.time_column,
        lam=None if tracing is None else tracing.lam,
        trace=None if tracing is None else tracing.kind,
        episodes=int(steps["episodes"]),
        beyond_rewards=steps.beyond_rewards(settings.most_discount, value, error),
        sandwich_error=square.error,
        condition_A=square.condition,
        undetermined_directions=square.singular,
        solved_by=square.how,
        features_used=int((square.sums.C.diagonal() > 0).sum()),
        neu_start=float(square.sums.b @ square.sums.b),
        **steps.diagnostics(),
        **(_checked(decision, limits) | more),
    )


def _checked(decision: Decision | None, limits: Limits) -> dict[str, Any]:
    """The results of the checks. Checks count only if the fit itself has no fault."""
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
        "hidden_state": decision.hides_past or None,
        "predicted_by": None if decision.predicted is None else decision.predicted.what,
        "predicted_effect": None if decision.predicted is None else decision.predicted.effect,
        "predicted_chance": None if decision.predicted is None else decision.predicted.p,
        "behind_cuts": decision.behind,
        "late_steps_differ": decision.hides_cut or None,
        "rarely_visited": decision.rare or None,
    }
