"""The table of rules that a verdict is made of, with their thresholds.

A rule is added by a row of `RULES`. `gradtd.evaluation.verdict.markdown` makes the table in docs/evaluate.md of them.
"""

from __future__ import annotations

from gradtd.evaluation.importance import BEYOND, ENDED_BY_A_CUT, ESTIMATORS
from gradtd.evaluation.methods import OTHER_SOLUTIONS
from gradtd.evaluation.rule import Evidence, Kind, Rule
from gradtd.evaluation.trust.deciding import FAR, LACK, RICHER, SMALL, WIDER, WIDER_REAL
from gradtd.evaluation.trust.size import BIAS, DEPENDENT, EFFECTIVE, WIDTH, least_effective

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
APART = 1.0
"""Standard errors that a rule may be away from the least-squares solution it should converge to."""
LOST = 0.1
"""Part of the resamples on which a refit may fail."""
NARROW = 2 / 3
"""A refitted interval narrower than this part of the sandwich's did not follow its resamples."""
FEWEST_STEPS, FEW_STEPS = 5, 20
"""Steps that there must be for every feature in use, at least, and below which there is a warning."""
ROBUST_WARNS, ROBUST_REFUSES = 2.0, 4.0
"""Standard errors that doubly robust may be away: the second where at least `FEWEST_EPISODES` carry its weights."""
ILL_CONDITIONED = 1e8
"""Condition number of A from which on there is a warning."""
MOVED = 0.25
"""Standard errors that the value may move in the second half of the updates."""
OUTSIDE = 1.0
"""Standard errors that a value may be outside of what the rewards allow."""
PLAIN = 1.1
"""Times the width of a plain interval from which on that of the checks is named beside it."""
ELSEWHERE = 0.5
"""Part of the steps that may lead elsewhere than to the observation of the row after."""


def _above(value: float | None, limit: float) -> bool:
    """Whether a number that may not be known is above a limit."""
    return value is not None and value > limit


def _other_solution(e: Evidence) -> bool:
    return e.d.method in OTHER_SOLUTIONS


def _far_from_robust(e: Evidence) -> bool:
    return e.d.lacking is None and _above(e.d.from_dr, ROBUST_REFUSES) and e.d.ess_episodes >= FEWEST_EPISODES


def _no_width(e: Evidence) -> bool:
    value, low, high = e.row.value, e.row.low, e.row.high
    return value is not None and low is not None and high is not None and high - low <= WIDTH * abs(value)


def _few_pieces(e: Evidence) -> bool:
    found = e.d.effective_pieces
    return found is not None and found < least_effective(e.d.episodes) and not _no_width(e)


def _narrower(e: Evidence) -> bool:
    """Whether an interval by refits is narrower than the hull of the checks."""
    low, high = e.row.low, e.row.high
    if not e.d.refits or e.d.hull_low is None or e.d.hull_high is None or low is None or high is None:
        return False
    return e.d.hull_high - e.d.hull_low > PLAIN * (high - low)


RULES: tuple[Rule, ...] = (
    Rule(
        "diverged",
        "the weights grew beyond all bounds",
        lambda e: bool(e.d.diverged),
        "{d.method} diverged on this log: its weights mean nothing.",
    ),
    Rule(
        "no value",
        "the method gives no value",
        lambda e: e.row.low is None and e.row.value is None,
        "{row.method} gives no value: {row.note}.",
    ),
    Rule(
        "no interval",
        "the method gives a value without an interval",
        lambda e: e.row.low is None and e.row.value is not None,
        "{row.method} gives no interval: {row.note}.",
    ),
    Rule(
        "few episodes",
        f"fewer than {FEWEST_EPISODES} episodes or blocks",
        lambda e: e.d.episodes < FEWEST_EPISODES,
        f"the log has {{d.episodes}} independent pieces, and an interval from fewer than {FEWEST_EPISODES} "
        "cannot be trusted: collect more episodes, or take shorter blocks.",
    ),
    Rule(
        "small sample",
        f"(sum rho)^2 / sum rho^2 is below {LEAST_SAMPLE}",
        lambda e: e.d.ess < LEAST_SAMPLE,
        "the ratios leave an effective sample of {d.ess:.0f} of {d.steps} steps: the log says too little about the "
        "target.",
    ),
    Rule(
        "heavy ratios",
        f"the largest hundredth of the ratios carries more than {HEAVY:.0%} of the weight, in a log of "
        f"{ENOUGH_FOR_HEAVY} steps or more",
        lambda e: e.d.top_hundredth_carries > HEAVY and e.d.steps >= ENOUGH_FOR_HEAVY,
        "the largest hundredth of the ratios carries {d.top_hundredth_carries:.0%} of the weight: the estimate rests "
        "on a few steps.",
    ),
    Rule(
        "clipped ratios",
        f"the mean ratio is more than {UNLIKELY:g} standard errors from 1, and ratios were clipped",
        lambda e: e.d.mean_ratio_distance > UNLIKELY and e.d.clipped > 0,
        "the mean ratio is {d.mean_ratio:.3g}, {d.mean_ratio_distance:.0f} standard errors from 1, where ratios of "
        "right probabilities have it: clip less.",
    ),
    Rule(
        "wrong ratios",
        f"the mean ratio is more than {UNLIKELY:g} standard errors from 1, and no ratio was clipped",
        lambda e: e.d.mean_ratio_distance > UNLIKELY and e.d.clipped == 0,
        "the mean ratio is {d.mean_ratio:.3g}, {d.mean_ratio_distance:.0f} standard errors from 1, where ratios of "
        "right probabilities have it: check the probability columns.",
    ),
    Rule(
        "unseen actions",
        f"the target takes actions that the log never took, with a probability above {UNSEEN:.0%}",
        lambda e: _above(e.d.unseen_mass, UNSEEN),
        "the target takes actions that the log never took, with probability {d.unseen_mass:.2g} per step: nothing in "
        "the log says what they lead to.",
    ),
    Rule(
        "unseen in the state",
        f"the target takes actions that the log never took in that state, with a probability above {UNSEEN_PAIRS:.0%}, "
        "and no check says what that does to the value",
        lambda e: _above(e.d.unseen_pairs, UNSEEN_PAIRS) and e.d.lacking is None,
        "in the states it visited the log never took what the target would do {d.unseen_pairs:.1%} of the time: "
        "nothing in it says what that leads to.",
    ),
    Rule(
        "ends not known",
        "no column says whether episodes terminated or were cut off",
        lambda e: not e.d.ends_known,
        "nothing in the log says whether its episodes terminated or were cut off, and the value depends on it: give a "
        "column terminated, or truncated.",
    ),
    Rule(
        "other equations",
        f"{', '.join(OTHER_SOLUTIONS)}: more than {APART:g} standard error from least squares",
        lambda e: _other_solution(e) and _above(e.d.from_lstd, APART),
        "{d.method} solves other equations than those of the target's value, and is {d.from_lstd:.1f} standard errors "
        "away from their solution by least squares.",
    ),
    Rule(
        "not converged",
        f"any other rule: more than {APART:g} standard error from least squares",
        lambda e: not _other_solution(e) and _above(e.d.from_lstd, APART),
        "{d.method} is {d.from_lstd:.1f} standard errors away from the least-squares solution: it has not converged; "
        "give it more updates, or take algorithm='lstd'.",
    ),
    Rule(
        "refits lost",
        f"more than {LOST:.0%} of the refits failed or diverged",
        lambda e: _above(e.d.refits_lost, LOST),
        "{d.refits_lost:.0%} of the refits failed or diverged: the interval is not to be trusted.",
    ),
    Rule(
        "narrow refits",
        f"the interval is less than {NARROW:.0%} as wide as the sandwich's",
        lambda e: e.d.error_ratio is not None and e.d.error_ratio < NARROW,
        "the interval is {d.error_ratio:.0%} as wide as the sandwich's: the refits did not follow their resamples; "
        "give more updates, or take algorithm='lstd'.",
    ),
    Rule(
        "too many features",
        f"fewer than {FEWEST_STEPS} steps for every feature in use",
        lambda e: e.d.steps < FEWEST_STEPS * e.d.features_used,
        "the log has {d.steps} steps for {d.features_used} features: they fit its noise, and an interval would be too "
        f"narrow; take fewer features, {FEW_STEPS} steps or more for each.",
    ),
    Rule(
        "features cannot represent it",
        f"more than {ROBUST_REFUSES:g} standard errors from doubly robust, whose weights are worth {FEWEST_EPISODES} "
        "episodes or more, and nothing else was checked",
        _far_from_robust,
        "the doubly robust estimate is {d.from_dr:.1f} standard errors away: these features cannot represent the value "
        "of the target; take others, or algorithm='dr'.",
    ),
    Rule(
        "a sum without end",
        "gamma is 1 and no episode terminated",
        lambda e: e.d.gamma == 1 and e.d.terminated == 0,
        "gamma is 1 and no episode terminated, so the value is a sum without end: give gamma below 1, or check the "
        "column terminated.",
    ),
    Rule(
        "heavy products",
        f"{', '.join(ESTIMATORS)}: products of ratios that are worth fewer than {FEWEST_EPISODES} episodes",
        lambda e: e.d.method in ESTIMATORS and e.d.ess_episodes < FEWEST_EPISODES <= e.d.episodes,
        "the products of ratios leave {d.method} an effective sample of {d.ess_episodes:.1f} of {d.episodes} episodes, "
        f"and an interval from fewer than {FEWEST_EPISODES} cannot be trusted: take an algorithm that learns a value "
        "function.",
    ),
    Rule(
        "rewards behind the cuts",
        f"{', '.join(ENDED_BY_A_CUT)}: more than {BEYOND:.0%} of the discounted time lies behind the cuts",
        lambda e: e.d.method in ENDED_BY_A_CUT and e.d.beyond_cuts > BEYOND,
        "{d.method} ends its sums where episodes were cut off, with {d.beyond_cuts:.0%} of the discounted time still "
        "to come: take algorithm='dr', or one that learns a value function.",
    ),
    Rule(
        "no width",
        "the interval has no width",
        _no_width,
        "the interval has no width: every episode says the same, so the log does not tell how far the value may be "
        "off; check the rewards, and collect episodes that differ.",
    ),
    Rule(
        "few pieces carry it",
        f"the value rests on fewer than {EFFECTIVE:g} episodes or blocks by their influence, or a fifth of them",
        _few_pieces,
        "the value rests on {d.effective_pieces:.1f} of {d.episodes} episodes by their influence, too few for an "
        "interval: collect more; where rewards are rare, episodes with one are what counts.",
    ),
    Rule(
        "biased refits",
        f"leaving out a tenth of the episodes at a time shows a bias of more than {BIAS:g} standard errors",
        lambda e: _above(e.d.refit_bias, BIAS) and not _no_width(e),
        "the log is too small for its {d.features_used} features: with a tenth of the episodes left out the value "
        "moves one way, a bias of {d.refit_bias:.1f} standard errors; collect more episodes, or take fewer features "
        "(states that are many: their own columns, or groups of them).",
    ),
    Rule(
        "choices missing",
        f"the log lacks more than {LACK:.0%} of the target's choices, as the features see it",
        lambda e: _above(e.d.lacking, LACK),
        "the log lacks {d.lacking:.0%} of what the target would do in the states visited: collect episodes that do it, "
        "or evaluate a target nearer to the behaviour.",
    ),
    Rule(
        "dependent blocks",
        f"the variance is more than {DEPENDENT:g} times that of independent blocks (Newey-West)",
        lambda e: _above(e.d.dependence, DEPENDENT),
        "neighbouring blocks depend on each other, the variance is {d.dependence:.1f} times that of independent ones: "
        "take longer blocks.",
    ),
    Rule(
        "features named are too poor",
        f"features were named, and the hull of the intervals of richer fits is more than {WIDER:g} times "
        f"({WIDER_REAL:g} for real observations) as wide as their own, and than {SMALL:g} deviations of the value "
        "over states",
        lambda e: _above(e.d.hull_of_limit, 1.0) and e.d.features_named is True,
        "fits with richer features or with memory differ, their intervals together are {d.hull_times:.1f} times as "
        "wide: these features cannot represent the value; take features='auto', or richer ones.",
    ),
    Rule(
        "fits differ",
        "the same, where features were chosen",
        lambda e: _above(e.d.hull_of_limit, 1.0) and e.d.features_named is not True,
        "fits with other features or with memory differ, their intervals together are {d.hull_times:.1f} times as "
        "wide: the observations may hide what matters, or the log may be too small; collect more episodes, add "
        "what the observation lacks (the one before, the time), or name features that suit the problem.",
    ),
    Rule(
        "a check is far away",
        f"a fit too wide to say much is more than {FAR:g} paired errors away",
        lambda e: bool(e.d.differs),
        "the fit {d.differs} says something else, more than its error allows: the features may be too poor; take "
        "features='auto', or collect more episodes.",
    ),
    Rule(
        "beyond the rewards",
        f"the value is more than {OUTSIDE:g} standard error outside of what the rewards allow",
        lambda e: _above(e.d.beyond_rewards, OUTSIDE),
        "the value is {d.beyond_rewards:.1f} standard errors outside of what the log's rewards allow: take fewer "
        "features, and check the rewards and the ends of episodes.",
    ),
    Rule(
        "not checked",
        "no fits could be made to check the features",
        lambda e: bool(e.d.not_checked),
        "whether the features can represent the value was not checked: {d.not_checked}.",
        Kind.UNCHECKED,
    ),
    Rule(
        "no richer features",
        f"no fit with {RICHER:g} times the columns is sound and narrow enough to check the features",
        lambda e: e.d.richer_checks == 0 and e.d.complete is False,
        "whether the features can represent the value is not known: the log is too small for any richer ones; collect "
        "more episodes, or take fewer features.",
        Kind.UNCHECKED,
    ),
    Rule(
        "no memory",
        "neither a fit with traces nor doubly robust is sound and narrow enough",
        lambda e: e.d.memory_checks == 0,
        "whether the observations tell all that matters is not known: the ratios are too wild for fits that look "
        "several steps ahead; collect more episodes, or evaluate a target nearer to the behaviour.",
        Kind.UNCHECKED,
    ),
    Rule(
        "a plain interval",
        f"the interval by refits is less than one in {PLAIN:g} times as wide as that of the checks",
        _narrower,
        "this interval is about the solution in these features; with what the checks leave open it is "
        "{d.hull_low:.5g} to {d.hull_high:.5g}, which algorithm='auto' reports.",
        Kind.WARNING,
    ),
    Rule(
        "estimated behaviour",
        "the behaviour was estimated from the log",
        lambda e: e.d.estimated_behaviour is True,
        "the behaviour's probabilities are estimated: the interval takes them for known, and what the model of them "
        "cannot represent is not in it.",
        Kind.WARNING,
    ),
    Rule(
        "rarely seen in the state",
        f"the target takes actions that the log never took in that state, with a probability above {UNSEEN_PAIRS:.0%}",
        lambda e: _above(e.d.unseen_pairs, UNSEEN_PAIRS) and e.d.lacking is not None,
        "in the states it visited the log never took what the target would do {d.unseen_pairs:.1%} of the time: the "
        "features fill that in from other states.",
        Kind.WARNING,
    ),
    Rule(
        "undetermined directions",
        "the log does not determine some directions of feature space",
        lambda e: e.d.undetermined_directions > 0,
        "{d.undetermined_directions} of the {d.features_used} directions of feature space are not determined by the "
        "log; the solution of least norm is taken.",
        Kind.WARNING,
    ),
    Rule(
        "ill-conditioned",
        f"the condition number of A is above {ILL_CONDITIONED:g}",
        lambda e: _above(e.d.condition_A, ILL_CONDITIONED),
        "the equations are ill-conditioned ({d.condition_A:.1e}): fewer features would do.",
        Kind.WARNING,
    ),
    Rule(
        "still moving",
        f"the value moved by more than {MOVED:g} standard errors in the second half of the updates",
        lambda e: _above(e.d.moved, MOVED),
        "the value still moved by {d.moved:.2f} standard errors in the second half of the updates.",
        Kind.WARNING,
    ),
    Rule(
        "leading elsewhere",
        f"more than {ELSEWHERE:.0%} of the steps do not lead to the observation of the row after",
        lambda e: e.d.leading_elsewhere > ELSEWHERE,
        "the next observation of {d.leading_elsewhere:.0%} of the steps is not the observation of the row after: check "
        "that the two columns are not mixed up, and that no rows are missing.",
        Kind.WARNING,
    ),
    Rule(
        "many features",
        f"{FEWEST_STEPS} to {FEW_STEPS} steps for every feature in use",
        lambda e: FEWEST_STEPS * e.d.features_used <= e.d.steps < FEW_STEPS * e.d.features_used,
        "the log has {d.steps} steps for {d.features_used} features: fewer features would make the interval more "
        "reliable.",
        Kind.WARNING,
    ),
    Rule(
        "features not checked",
        "a value function without refits",
        lambda e: e.d.lacking is None and e.d.from_dr is None and e.d.method not in ESTIMATORS,
        "without refits the value was not compared with the doubly robust estimate: whether the features can represent "
        "it is not known; give resamples, or fewer features.",
        Kind.WARNING,
    ),
    Rule(
        "features may not represent it",
        f"more than {ROBUST_WARNS:g} standard errors from doubly robust",
        lambda e: e.d.lacking is None and _above(e.d.from_dr, ROBUST_WARNS) and not _far_from_robust(e),
        "the doubly robust estimate is {d.from_dr:.1f} standard errors away: the features may not be able to represent "
        "the value, and the interval is then about the best fit in these features.",
        Kind.WARNING,
    ),
    Rule(
        "every episode cut off",
        "no episode terminated, and the method goes on behind the cuts with a value function",
        lambda e: e.d.truncated > 0 and e.d.terminated == 0 and e.d.method not in ENDED_BY_A_CUT,
        "every episode was cut off: rewards beyond the cut are known through the value function only; where episodes "
        "do end by themselves, the value is wrong, and the log needs a column terminated.",
        Kind.WARNING,
    ),
)
"""Every rule, in the order in which their sentences are shown."""
