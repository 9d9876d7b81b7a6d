"""The thresholds of the rules that a verdict is made of, and the questions that several of them ask."""

from __future__ import annotations

from gradtd.evaluation.importance import BEYOND, ENDED_BY_A_CUT, ESTIMATORS
from gradtd.evaluation.methods import OTHER_SOLUTIONS, ROUNDING
from gradtd.evaluation.rule import Evidence
from gradtd.evaluation.trust.enriching import LEAST_STEPS
from gradtd.evaluation.trust.size import EFFECTIVE, NO_WIDTH

FEWEST_EPISODES = 20
LEAST_SAMPLE = 50
"""Steps that the ratios must be worth, at least."""
HEAVY, ENOUGH_FOR_HEAVY = 0.5, 100
"""Part of the weight that the largest hundredth of the ratios may carry, in logs of so many steps or more."""
UNLIKELY = 4.0
"""Standard errors that the mean ratio may be away from one."""
UNSEEN = 0.01
"""Part of the target's choices that the log may never have taken."""
UNSEEN_PAIRS = 0.05
"""The same for actions in the very state, where observations are discrete; rare ones are missing by chance."""
NEVER_TAKEN, NEVER_TAKEN_EFFECT = 0.2, 0.5
"""With values of actions: part of the target's choices that the log may never have taken in that state, and standard
errors that the value may move if the target never made them."""
OUTSIDE_RANGE = 0.05
"""Part of the target's real actions that may lie beyond the range of the log's."""
APART = 1.0
"""Standard errors that a rule may be away from the least-squares solution it should converge to."""
LOST = 0.1
"""Part of the resamples on which a refit may fail."""
NARROW = 2 / 3
"""A refitted interval narrower than this part of the sandwich's did not follow its resamples."""
FEWEST_STEPS, FEW_STEPS = LEAST_STEPS, 20
"""Steps that there must be for every feature in use, at least, and below which there is a warning."""
ROBUST_WARNS, ROBUST_REFUSES = 2.0, 4.0
"""Standard errors that doubly robust may be away: the second where at least `FEWEST_EPISODES` carry its weights."""
ILL_CONDITIONED = 1e8
"""Condition number of A from which on there is a warning."""
MOVED, MOVING = 0.25, 0.5
"""Standard errors that the value may move in the second half of the updates: a warning, a reason."""
OUTSIDE = 1.0
"""Standard errors that a value may be outside of what the rewards allow."""
PLAIN = 1.1
"""Times the width of a plain interval from which on that of the checks is named beside it."""
STRANGERS = 0.4
"""How far next observations may be from those of the rows after, where rows drawn at random are 1 apart."""
LEAST_MARGINAL, LEAST_MARGINAL_EPISODES = 50, 10
"""Steps, and episodes, that the marginal weights must be worth."""
FEWEST_REWARDS = 3
"""Effective number of rewards that a log must have, at least."""
ELSEWHERE = 0.5
"""Part of the steps that may lead elsewhere than to the observation of the row after."""


def above(value: float | None, limit: float) -> bool:
    """Whether a number that may not be known is above a limit."""
    return value is not None and value > limit


def other_solution(e: Evidence) -> bool:
    return e.d.method in OTHER_SOLUTIONS


def far_from_robust(e: Evidence) -> bool:
    return e.d.lacking is None and above(e.d.from_dr, ROBUST_REFUSES) and e.d.ess_episodes >= FEWEST_EPISODES


def heavy_products(e: Evidence) -> bool:
    return e.d.method in ESTIMATORS and e.d.ess_episodes < FEWEST_EPISODES <= e.d.episodes


def behind_cuts(e: Evidence) -> bool:
    return e.d.method in ENDED_BY_A_CUT and e.d.beyond_cuts > BEYOND


def small_marginal(e: Evidence) -> bool:
    if e.d.method in ESTIMATORS or e.d.ess_marginal is None or e.d.ess_marginal_episodes is None:
        return False
    return e.d.ess_marginal < LEAST_MARGINAL or e.d.ess_marginal_episodes < LEAST_MARGINAL_EPISODES


def no_width(e: Evidence) -> bool:
    value, low, high = e.row.value, e.row.low, e.row.high
    return (
        value is not None
        and low is not None
        and high is not None
        and high - low <= (NO_WIDTH if e.d.values is None else ROUNDING) * abs(value)
    )


def few_pieces(e: Evidence) -> bool:
    found = e.d.effective_pieces
    return found is not None and found < EFFECTIVE and not no_width(e)


def narrower(e: Evidence) -> bool:
    """Whether an interval by refits is narrower than the hull of the checks."""
    low, high = e.row.low, e.row.high
    if not e.d.refits or e.d.hull_low is None or e.d.hull_high is None or low is None or high is None:
        return False
    return e.d.hull_high - e.d.hull_low > PLAIN * (high - low)
