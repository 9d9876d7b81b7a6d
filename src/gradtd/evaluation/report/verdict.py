"""Decides whether an estimate can be trusted: `judge` tests every rule and reports the sentences of those that hold.

To add a rule, add a row to `REASONS` or `WARNINGS`; `markdown` generates the tables of docs/evaluate.md from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, Estimate
from gradtd.evaluation.report.reasons import REASONS
from gradtd.evaluation.report.rule import Evidence, Kind, Rule, above

WARNINGS: tuple[Rule, ...] = (
    Rule(
        "not checked",
        "no fits could be made to check the features",
        lambda e: bool(e.d.not_checked),
        "gradtd could not check whether the features can represent the value: {d.not_checked}.",
        Kind.UNCHECKED,
    ),
    Rule(
        "one-step episodes assumed",
        "no column says which rows form an episode, and gamma is above 0",
        lambda e: e.d.rows_alone is True and e.d.gamma > 0,
        "No column of the log says which rows form an episode, so gradtd read each row as an episode of one step. If "
        "that is right, pass one_step=True; otherwise name the column that numbers the episodes.",
        Kind.UNCHECKED,
    ),
    Rule(
        "no richer features",
        "no fit with {limits.richer_columns:g} times the columns is sound and narrow enough to check the features",
        lambda e: e.d.richer_checks == 0 and e.d.complete is False,
        "The log is too small to check whether the features can represent the value: no richer fit is precise enough. "
        "Collect more episodes, or use fewer features.",
        Kind.UNCHECKED,
    ),
    Rule(
        "no memory",
        "no fit with earlier steps or long traces and no doubly robust estimate is sound and precise enough",
        lambda e: e.d.memory_checks == 0,
        "The log is too small to check whether the observations are Markov states: the ratios vary too much for fits "
        "over more than one step. Collect more episodes, or evaluate a target closer to the behaviour policy.",
        Kind.UNCHECKED,
    ),
    Rule(
        "the sample is too small",
        "a log was read in parts, and its sample is too small to test for missing choices and rare TD errors",
        lambda e: bool(e.d.undecided),
        "The log was read in parts, and {d.undecided}, because the sample of its episodes is too small. Read the "
        "log into "
        "memory with in_parts=False, or evaluate a target closer to the behaviour policy.",
        Kind.UNCHECKED,
    ),
    Rule(
        "a plain interval",
        "on one side, the interval of the requested method covers less of the checked interval than it should, by more "
        "than {limits.most_uncovered:.0%}",
        lambda e: e.unchecked_interval,
        "The interval of {row.method} does not include the bias that checks found. With it, the interval is "
        "{d.hull_low:.5g} to {d.hull_high:.5g}, which algorithm='auto' reports.",
        Kind.UNCHECKED,
    ),
    Rule(
        "products of ratios",
        "importance sampling was requested, for a target other than the behaviour policy, and episodes have several "
        "steps",
        lambda e: not e.learns and not e.d.on_policy and e.d.steps > e.d.episodes,
        "The interval of {row.method} comes from products of importance ratios over an episode, and no other fit "
        "checks it. Use algorithm='auto', which reports a checked interval.",
        Kind.UNCHECKED,
    ),
    Rule(
        "rewards in the wrong row",
        "the previous row explains the rewards better than their own row, by 30 % of the explained variance and "
        "four standard errors over episodes (20 % and three standard errors if first rows are included, whose "
        "previous row belongs to another episode)",
        lambda e: e.d.rewards_late is True,
        "The rewards fit the observation and action of the previous row better than those of their row: they may be "
        "one row too late. Move each reward to the row of the action that earned it. If rewards really "
        "come later than their actions, add previous observations and actions to the observation (history=2).",
        Kind.UNCHECKED,
    ),
    Rule(
        "first rewards are 0",
        "the first reward of every episode is 0, and at least 90 % of the others are not",
        lambda e: e.d.first_rewards_none is True,
        "The first reward of every episode is 0, and few others are: the rewards may be one row too late. Move "
        "each reward to the row of the action that earned it, unless the first step cannot earn one.",
        Kind.WARNING,
    ),
    Rule(
        "much after truncations",
        "more than {limits.most_behind_cuts:.0%} of the value comes after truncations",
        lambda e: above(e.d.behind_cuts, e.limits.most_behind_cuts),
        "{d.behind_cuts:.0%} of the value comes after truncations, where the log has no data: it is the value function "
        "at the last observations. Collect longer episodes to reduce it.",
        Kind.WARNING,
    ),
    Rule(
        "episodes that appear twice",
        "more than {limits.most_repeated:.0%} of the longer episodes are equal to an earlier one",
        lambda e: above(e.d.repeated, e.limits.most_repeated),
        "{d.repeated:.0%} of the longer episodes are equal to an earlier one, row by row. If they were read twice, the "
        "interval is too narrow: drop the copies.",
        Kind.WARNING,
    ),
    Rule(
        "estimated behaviour",
        "the behaviour policy was estimated from the log",
        lambda e: e.d.estimated_behaviour is True,
        "The behaviour policy's probabilities are estimated. The interval includes their error if the model is "
        "correct; with traces or another method it treats them as known.",
        Kind.WARNING,
    ),
    Rule(
        "rarely seen in the state",
        "the target takes actions that the log never took in that state, with a probability above "
        "{limits.most_unseen_in_state:.0%}",
        lambda e: above(e.d.unseen_pairs, e.limits.most_unseen_in_state) and e.checked and e.d.values is None,
        "The target takes actions that the log never took in that state, with probability {d.unseen_pairs:.1%} per "
        "step. The features extrapolate their values from other states.",
        Kind.WARNING,
    ),
    Rule(
        "undetermined directions",
        "the log does not determine some directions of feature space",
        lambda e: e.d.undetermined_directions > 0,
        "The log does not determine {d.undetermined_directions} of the {d.features_used} directions of feature "
        "space; gradtd uses the solution of minimum norm.",
        Kind.WARNING,
    ),
    Rule(
        "ill-conditioned",
        "the condition number of A is above {limits.warn_condition:g}",
        lambda e: above(e.d.condition_A, e.limits.warn_condition),
        "The equations are ill-conditioned (condition number {d.condition_A:.1e}). Use fewer features.",
        Kind.WARNING,
    ),
    Rule(
        "moving a little",
        "the value moved by {limits.warn_moved:g} to {limits.most_moved:g} standard errors in the second half of the "
        "updates",
        lambda e: above(e.d.moved, e.limits.warn_moved) and not above(e.d.moved, e.limits.most_moved),
        "The value still moved by {d.moved:.2f} standard errors in the second half of the updates.",
        Kind.WARNING,
    ),
    Rule(
        "unexpected next observations",
        "the next observation of more than {limits.most_leading_elsewhere:.0%} of the steps is not the observation "
        "of the following row",
        lambda e: e.d.leading_elsewhere > e.limits.most_leading_elsewhere,
        "The next observation of {d.leading_elsewhere:.0%} of the steps is not the observation of the following row. "
        "Check that the two columns are not swapped and that no rows are missing.",
        Kind.WARNING,
    ),
    Rule(
        "many features",
        "{limits.fewest_steps_per_feature:g} to {limits.few_steps_per_feature:g} steps for every feature in use",
        lambda e: (
            e.limits.fewest_steps_per_feature * e.d.features_used
            <= e.d.steps
            < e.limits.few_steps_per_feature * e.d.features_used
        ),
        "The log has {d.steps} steps for {d.features_used} features. Fewer features would make the interval more "
        "reliable.",
        Kind.WARNING,
    ),
    Rule(
        "features not checked",
        "a value function without refits",
        lambda e: not e.checked and e.d.from_dr is None and e.learns,
        "Without refits the value was not compared with the doubly robust estimate, so it is unknown whether the "
        "features can represent it. Give resamples, or use fewer features.",
        Kind.WARNING,
    ),
    Rule(
        "features may not represent it",
        "more than {limits.warn_from_dr:g} standard errors from doubly robust",
        lambda e: not e.checked and above(e.d.from_dr, e.limits.warn_from_dr) and not e.far_from_robust,
        "The doubly robust estimate is {d.from_dr:.1f} standard errors away. The features may not be able to "
        "represent the value; the interval then covers only the best fit for these features.",
        Kind.WARNING,
    ),
    Rule(
        "every episode truncated",
        "no episode terminated, and the method estimates the rewards after truncations with a value function",
        lambda e: e.d.truncated > 0 and e.d.terminated == 0 and e.d.method not in ENDED_BY_A_CUT,
        "Every episode was truncated, so later rewards come only from the value function. If some episodes "
        "terminated, the value is wrong: add a column terminated.",
        Kind.WARNING,
    ),
)


RULES: tuple[Rule, ...] = (*REASONS, *WARNINGS)
"""All rules, in the order of the report."""


@dataclass(frozen=True)
class Verdict:
    """The reasons against an estimate, what could not be checked, and warnings."""

    against: tuple[str, ...]
    unchecked: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def word(self) -> str:
        """The verdict: usable, unchecked or not usable. A check that could not run does not count as passed."""
        return "not usable" if self.against else "unchecked" if self.unchecked else "usable"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is not "usable"."""
        return self.against + self.unchecked


def judge(diagnostics: Diagnostics, estimates: Sequence[Estimate], limits: Limits = DEFAULT) -> Verdict:
    """The verdict on an evaluation.

    Parameters
    ----------
    diagnostics
        The diagnostics of the evaluation.
    estimates
        The rows of the methods, the requested one first.
    limits
        The thresholds.
    """
    evidence = Evidence(diagnostics, estimates, limits)
    holding = [rule for rule in RULES if rule.test(evidence)]
    said = {kind: tuple(rule.said(evidence) for rule in holding if rule.kind is kind) for kind in Kind}
    return Verdict(said[Kind.REASON], said[Kind.UNCHECKED], said[Kind.WARNING])


def markdown(limits: Limits = DEFAULT) -> str:
    """The rules as the tables of docs/evaluate.md, one table for each kind."""
    lines = []
    for kind in Kind:
        lines += [f"| {kind.value} | when | the report says |", "|---|---|---|"]
        lines += [rule.in_table(limits) for rule in RULES if rule.kind is kind]
        lines.append("")
    return "\n".join(lines)
