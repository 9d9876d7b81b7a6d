"""What speaks against an estimate: the rules that make it not usable."""

from __future__ import annotations

from gradtd.evaluation.estimators.importance_sampling import BEYOND
from gradtd.evaluation.limits import (
    APART,
    ENOUGH_FOR_HEAVY,
    FEW_STEPS,
    FEWEST_EPISODES,
    FEWEST_REWARDS,
    FEWEST_STEPS,
    HEAVY,
    LEAST_MARGINAL,
    LEAST_MARGINAL_EPISODES,
    LEAST_SAMPLE,
    LOST,
    MOVING,
    NARROW,
    NEVER_TAKEN,
    NEVER_TAKEN_EFFECT,
    OUTSIDE,
    OUTSIDE_RANGE,
    ROBUST_REFUSES,
    STRANGERS,
    UNLIKELY,
    UNSEEN,
    UNSEEN_PAIRS,
)
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, OTHER_SOLUTIONS
from gradtd.evaluation.report.rule import (
    Rule,
    above,
    behind_cuts,
    far_from_robust,
    few_pieces,
    heavy_products,
    no_width,
    other_solution,
    small_marginal,
)
from gradtd.evaluation.trust.deciding import FAR, LACK, MET, SMALL, WIDER, WIDER_REAL, WIDEST
from gradtd.evaluation.trust.size import BIAS, DEPENDENT, EFFECTIVE

REASONS: tuple[Rule, ...] = (
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
        "small marginal sample",
        f"a value function whose marginal weights are worth fewer than {LEAST_MARGINAL} steps, or "
        f"{LEAST_MARGINAL_EPISODES} episodes",
        small_marginal,
        "the value rests on few steps of the log: its marginal weights are worth {d.ess_marginal:.0f} steps in "
        "{d.ess_marginal_episodes:.1f} episodes; collect more where the target goes.",
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
        lambda e: above(e.d.unseen_mass, UNSEEN),
        "the target takes actions that the log never took, with probability {d.unseen_mass:.2g} per step: nothing in "
        "the log says what they lead to.",
    ),
    Rule(
        "unseen in the state",
        f"the target takes actions that the log never took in that state, with a probability above {UNSEEN_PAIRS:.0%}, "
        "and no check says what that does to the value",
        lambda e: above(e.d.unseen_pairs, UNSEEN_PAIRS) and e.d.lacking is None,
        "in the states it visited the log never took what the target would do {d.unseen_pairs:.1%} of the time: "
        "nothing in it says what that leads to.",
    ),
    Rule(
        "pairs never taken",
        f"values of actions: the log never took more than {NEVER_TAKEN:.0%} of the target's choices in that state",
        lambda e: above(e.d.never_taken, NEVER_TAKEN),
        "{d.never_taken:.1%} of what the target would do next was never done in that state: nothing in the log says "
        "what it is worth; take values='state' with ratios, coarser features, or collect episodes that do it.",
    ),
    Rule(
        "pairs never taken matter",
        f"values of actions: without those choices the value is more than {NEVER_TAKEN_EFFECT:g} standard errors away",
        lambda e: above(e.d.never_taken_effect, NEVER_TAKEN_EFFECT),
        "the value depends on what the log never took: if the target did not do it either, it would be "
        "{d.never_taken_effect:.1f} standard errors away; take values='state', coarser features, or more episodes.",
    ),
    Rule(
        "actions out of range",
        f"more than {OUTSIDE_RANGE:.0%} of the target's real actions lie beyond those of the log",
        lambda e: above(e.d.outside_range, OUTSIDE_RANGE),
        "{d.outside_range:.0%} of the target's actions lie beyond the range of the log's: what they are worth would be "
        "guessed by the features; collect episodes with such actions.",
    ),
    Rule(
        "ends not known",
        "no column says whether episodes terminated or were cut off, or no end is marked in it",
        lambda e: not e.d.ends_known,
        "nothing in the log says whether its episodes terminated or were cut off, and the value depends on it: give "
        "the columns terminated and truncated, with a mark at the end of every episode.",
    ),
    Rule(
        "foreign next observations",
        f"next observations are more than {STRANGERS:.0%} as far from those of the rows after as random rows are",
        lambda e: above(e.d.strangers, STRANGERS),
        "next observations are not the observations of the rows after, but {d.strangers:.0%} as far from them as "
        "random rows are: check that column, and that no rows are missing.",
    ),
    Rule(
        "few rewards",
        f"(sum r^2)^2 / sum r^4 is below {FEWEST_REWARDS}: one or two rewards dwarf all others",
        lambda e: e.d.reward_sample is not None and 0 < e.d.reward_sample < FEWEST_REWARDS,
        "one or two rewards ({d.largest_reward:.3g} the largest) dwarf all others, and the value rests on them: check "
        "them, or collect more episodes.",
    ),
    Rule(
        "still moving",
        f"the value moved by more than {MOVING:g} standard errors in the second half of the updates",
        lambda e: above(e.d.moved, MOVING),
        "the value still moved by {d.moved:.2f} standard errors in the second half of the updates: give more of them, "
        "or take algorithm='lstd'.",
    ),
    Rule(
        "other equations",
        f"{', '.join(OTHER_SOLUTIONS)}: more than {APART:g} standard error from least squares",
        lambda e: other_solution(e) and above(e.d.from_lstd, APART),
        "{d.method} solves other equations than those of the target's value, and is {d.from_lstd:.1f} standard errors "
        "away from their solution by least squares.",
    ),
    Rule(
        "not converged",
        f"any other rule: more than {APART:g} standard error from least squares",
        lambda e: not other_solution(e) and above(e.d.from_lstd, APART),
        "{d.method} is {d.from_lstd:.1f} standard errors away from the least-squares solution: it has not converged; "
        "give it more updates, or take algorithm='lstd'.",
    ),
    Rule(
        "refits lost",
        f"more than {LOST:.0%} of the refits failed or diverged",
        lambda e: above(e.d.refits_lost, LOST),
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
        far_from_robust,
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
        heavy_products,
        "the products of ratios leave {d.method} an effective sample of {d.ess_episodes:.1f} of {d.episodes} episodes, "
        f"and an interval from fewer than {FEWEST_EPISODES} cannot be trusted: take an algorithm that learns a value "
        "function.",
    ),
    Rule(
        "weak interval",
        "the row of the method asked for is marked weak, for another reason than the two beside",
        lambda e: e.row.mark == "weak" and e.row.low is not None and not heavy_products(e) and not behind_cuts(e),
        "the interval of {row.method} cannot be trusted: {row.reason}.",
    ),
    Rule(
        "rewards behind the cuts",
        f"{', '.join(ENDED_BY_A_CUT)}: more than {BEYOND:.0%} of the discounted time lies behind the cuts",
        behind_cuts,
        "{d.method} ends its sums where episodes were cut off, with {d.beyond_cuts:.0%} of the discounted time still "
        "to come: take algorithm='dr', or one that learns a value function.",
    ),
    Rule(
        "no width",
        "the interval has no width",
        no_width,
        "the interval has no width: every episode says the same, so the log does not tell how far the value may be "
        "off; check the rewards, and collect episodes that differ.",
    ),
    Rule(
        "few pieces carry it",
        f"the value rests on fewer than {EFFECTIVE:g} episodes or blocks by their influence",
        few_pieces,
        "the value rests on {d.effective_pieces:.1f} of {d.episodes} episodes by their influence, too few for an "
        "interval: collect more; where rewards are rare, episodes with one are what counts.",
    ),
    Rule(
        "biased refits",
        f"leaving out a tenth of the episodes at a time shows a bias of more than {BIAS:g} standard errors",
        lambda e: above(e.d.refit_bias, BIAS) and not no_width(e),
        "the log is too small for its {d.features_used} features: with a tenth of the episodes left out the value "
        "moves one way, a bias of {d.refit_bias:.1f} standard errors; collect more episodes, or take fewer features "
        "(states that are many: their own columns, or groups of them).",
    ),
    Rule(
        "choices missing",
        f"the log lacks more than {LACK:.0%} of the target's choices, as the features see it, and these could move the "
        "value by more than half its interval",
        lambda e: above(e.d.lacking, LACK) and above(e.d.lacking_moves, 1.0),
        "the log lacks {d.lacking:.0%} of what the target would do in the states visited: collect episodes that do it, "
        "or evaluate a target nearer to the behaviour.",
    ),
    Rule(
        "surprises not met",
        f"if surprises fell on any step alike, the error would rest on fewer than {MET:g} of them",
        lambda e: e.d.surprises_met is not None and e.d.surprises_met < MET and not no_width(e),
        "a few steps have by far the largest weights, and nothing surprising has happened in them yet: the error is "
        "larger than the log shows; collect more, or evaluate a target nearer to the behaviour.",
    ),
    Rule(
        "dependent blocks",
        f"the variance is more than {DEPENDENT:g} times that of independent blocks (Newey-West)",
        lambda e: above(e.d.dependence, DEPENDENT),
        "neighbouring blocks depend on each other, the variance is {d.dependence:.1f} times that of independent ones: "
        "take longer blocks.",
    ),
    Rule(
        "features named are too poor",
        f"features were named, and the hull of the intervals of richer fits is more than {WIDER:g} times "
        f"({WIDER_REAL:g} for real observations) as wide as their own, and than {SMALL:g} deviations of the value "
        f"over states or {WIDEST:g} times",
        lambda e: above(e.d.hull_of_limit, 1.0) and e.d.features_named is True,
        "fits with richer features or with memory differ, their intervals together are {d.hull_times:.1f} times as "
        "wide: these features cannot represent the value; take features='auto', or richer ones.",
    ),
    Rule(
        "fits differ",
        "the same, where features were chosen",
        lambda e: above(e.d.hull_of_limit, 1.0) and e.d.features_named is not True,
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
        "hidden time",
        f"with the time since the start beside the features the value is more than {FAR:g} paired errors away, outside "
        "of what all other fits say",
        lambda e: e.d.hidden_time is not None,
        "the value depends on the time since the start, and the observations do not tell it: with the time beside the "
        "features it is {d.hidden_time:.0f} paired errors away; add the time to the observations, and mark ends by a "
        "time limit as truncated.",
    ),
    Rule(
        "beyond the rewards",
        f"the value is more than {OUTSIDE:g} standard error outside of what the rewards allow",
        lambda e: above(e.d.beyond_rewards, OUTSIDE),
        "the value is {d.beyond_rewards:.1f} standard errors outside of what the log's rewards allow: take fewer "
        "features, and check the rewards and the ends of episodes.",
    ),
)
