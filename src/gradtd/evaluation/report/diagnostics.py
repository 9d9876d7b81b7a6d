"""The record of everything measured about an evaluation. `diagnose` makes it, and the verdict is judged from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """What was measured about an evaluation.

    A field with a default does not apply to every method: None says that it does not, NaN that it does and could not be
    computed. The others apply always, and None says that the log does not tell.
    """

    # What was asked for, and how much there is of it.
    method: str
    """The method asked for."""
    gamma: float
    """The discount factor."""
    episodes: int
    """Independent pieces: episodes, or blocks of steps."""
    steps: int
    """Steps of the log."""
    features: int
    """Features of the map."""
    features_used: int
    """Features that are not 0 in every step."""

    lam: float | None = None
    """Lambda, where the value is one with traces."""
    trace: str | None = None
    """The ratio in them."""

    # The log.
    terminated: int
    """Episodes that ended by themselves."""
    truncated: int
    """Episodes that were cut off."""
    leading_elsewhere: float
    """Part of the steps inside an episode that do not lead to the observation of the row after."""
    ends_known: bool
    """Whether the log says which episodes terminated and which were cut off."""
    rows_alone: bool | None = None
    """Whether it was found out, and not said, that every row is an episode of one step."""
    strangers: float | None = None
    """How far next observations are from those of the rows after: 1 where no nearer than rows drawn at random."""
    reward_sample: float | None = None
    """Effective number of rewards, (sum r^2)^2 / sum r^4: 1 where a single one dwarfs all others."""
    largest_reward: float | None = None
    """The largest reward in size."""

    # The target against the behaviour.
    unseen_mass: float | None
    """The target's probability of actions that the log never took."""
    unseen_pairs: float | None
    """The same for actions in the very state, where observations are discrete."""
    values: str | None = None
    """"action" where values are of actions: ratios are all one then, and these say what the log lacks."""
    never_taken: float | None = None
    """Part of the target's choices, at next observations and starts, that the log never took in that state."""
    never_taken_effect: float | None = None
    """How far the value moves if the target never made those choices, in standard errors."""
    outside_range: float | None = None
    """Part of the target's real actions that lie beyond the range of the log's."""
    clipped: int
    """Ratios that were cut."""
    condition_C: float | None
    """Condition number of C, with every feature scaled to mean square one."""
    on_policy: bool
    """Whether every ratio is 1."""
    ess: float
    """Effective sample of the ratios, (sum rho)^2 / sum rho^2, in steps."""
    ess_episodes: float
    """The same for the product of the ratios of each episode, in episodes."""
    ess_marginal: float | None = None
    """Effective sample of the marginal weights, (sum w)^2 / sum w^2 with value = sum of w r, in steps: on how many of
    them the value rests, without products of ratios."""
    ess_marginal_episodes: float | None = None
    """The same for the sum of the weights of each episode, in episodes."""
    largest_ratio: float
    """The largest ratio of a step."""
    mean_ratio: float
    """The mean ratio: 1 for right probabilities."""
    mean_ratio_off: float
    """Its distance from 1, in standard errors over episodes, with its sign."""
    top_hundredth_carries: float
    """Part of the weight that the largest hundredth of the ratios carries."""
    beyond_cuts: float
    """Part of the discounted time that lies behind the cuts."""

    # The fit of a rule that makes updates.
    updates: int | None = None
    """Updates of the fit."""
    hyper: Mapping[str, Any] | None = None
    """Hyper-parameters of the fit that are numbers or words."""
    moved: float | None = None
    """How far the value moved in the second half of the updates, in standard errors."""
    diverged: bool | None = None
    """Whether the weights grew beyond all bounds."""
    refits_lost: float | None = None
    """Part of the resamples on which the refit failed or diverged."""

    # How the methods agree.
    resamples: int
    """Resamples of the episodes."""
    sandwich_error: float
    """Standard error of the least-squares value by the sandwich, clustered by episodes."""
    from_lstd: float | None = None
    """Distance of the value from that of least squares, in standard errors."""
    error_ratio: float | None = None
    """Error by refits over the sandwich's."""
    from_dr: float | None = None
    """Distance of the value from the doubly robust one, in standard errors of the difference."""

    # What the checks found. They do not apply to importance sampling.
    refits: int | None = None
    """Times that the method itself was fitted again, on resampled episodes."""
    features_named: bool | None = None
    """Whether features were named, so that no others could be chosen."""
    not_checked: str | None = None
    """Why nothing was checked."""
    undecided: str | None = None
    """What was looked for in a sample of a log that was read in parts, and the sample does not tell."""
    effective_pieces: float | None = None
    """On how many pieces' influence the value rests, (sum psi^2)^2 / sum psi^4."""
    refit_bias: float | None = None
    """Bias by leaving out a tenth of the pieces at a time, in standard errors."""
    lacking: float | None = None
    """Part of the target's choices that the log lacks, as the features see it."""
    lacking_moves: float | None = None
    """How far these could move the value, if each were off by a usual surprise, over half the width of its interval."""
    surprises_met: float | None = None
    """Effective number of steps that the error rests on, if surprises fell on any of them alike."""
    dependence: float | None = None
    """How many times larger the variance is than that of independent pieces."""
    richer_checks: int | None = None
    """Fits with richer features that could say something."""
    memory_checks: int | None = None
    """Fits with memory (traces, doubly robust) that could say something."""
    complete: bool | None = None
    """Whether the features can represent any function of the observation."""
    hull_times: float | None = None
    """Width of the hull of all fits that say something, over that of the value's own interval."""
    hull_of_limit: float | None = None
    """The same over what is allowed."""
    hull_low: float | None = None
    hull_high: float | None = None
    """The hull."""
    differs: str | None = None
    """A check that says little, and is far away even so."""
    hidden_time: float | None = None
    """Paired errors that the fit with the time since the start is away, where the observations hide it."""
    beyond_rewards: float | None = None
    """How far the value is outside of what the rewards allow, in standard errors."""
    estimated_behaviour: bool | None = None
    """Whether the behaviour's probabilities are a model's."""

    # The equations.
    solved_by: str | None = None
    """What the least-squares equations were solved by."""
    condition_A: float | None
    """Condition number of A in the features learned on; None where A is sparse."""
    undetermined_directions: int
    """Directions of feature space that the log does not determine."""
    neu_start: float
    """NEU = |A theta + b|^2 at zero weights."""
    neu_end: float
    """NEU at the weights found."""

    @property
    def mean_ratio_distance(self) -> float:
        """How many standard errors the mean ratio is away from 1."""
        return abs(self.mean_ratio_off)

    def to_dict(self) -> dict[str, Any]:
        """Every field that applies, by name; None for what could not be computed."""
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
        """The record that `to_dict` told, also where it went through JSON."""
        numbers = {entry.name for entry in fields(cls) if entry.default is not MISSING or entry.type == "float"}
        known: dict[str, Any] = {k: float("nan") if v is None and k in numbers else v for k, v in told.items()}
        return cls(**known)
