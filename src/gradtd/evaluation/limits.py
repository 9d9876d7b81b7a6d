"""The thresholds of the rules that a verdict is made of."""

from __future__ import annotations

from gradtd.evaluation.trust.enriching import LEAST_STEPS

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
