"""The rules that make an estimate not usable: what is wrong, and what to do about it."""

from __future__ import annotations

from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, OTHER_SOLUTIONS
from gradtd.evaluation.report.rule import Rule, above, below

REASONS: tuple[Rule, ...] = (
    Rule(
        "diverged",
        "the weights grew without bound",
        lambda e: bool(e.d.diverged),
        "{d.method} diverged on this log, so its weights are meaningless. Use a smaller step-size, or "
        "algorithm='lstd'.",
    ),
    Rule(
        "no value",
        "the method returned no value",
        lambda e: e.row.low is None and e.row.value is None,
        "{row.method} returned no value: {row.note}.",
    ),
    Rule(
        "no interval",
        "the method returned a value without an interval",
        lambda e: e.row.low is None and e.row.value is not None,
        "{row.method} returned no interval: {row.note}.",
    ),
    Rule(
        "few episodes",
        "fewer than {limits.fewest_episodes} episodes or blocks",
        lambda e: e.d.episodes < e.limits.fewest_episodes,
        "The log has {d.episodes} independent episodes or blocks; an interval needs at least "
        "{limits.fewest_episodes}. Collect about {needed} episodes, or use shorter blocks.",
    ),
    Rule(
        "poor behaviour model",
        "another model of the estimated behaviour moves the value by more than two paired errors and one error",
        lambda e: above(e.d.model_moves, 1.0),
        "The value depends on how the behaviour policy is modelled: another model moves it by {d.model_moves:.1f} "
        "times the allowed distance. Record the probabilities, or give a better model of them as behaviour.",
    ),
    Rule(
        "small sample",
        "(sum rho)^2 / sum rho^2 is below {limits.fewest_effective_steps:g}",
        lambda e: e.d.ess < e.limits.fewest_effective_steps,
        "The importance ratios leave an effective sample size of {d.ess:.0f} of {d.steps} steps; an interval needs at "
        "least {limits.fewest_effective_steps:g}. Collect about {needed} episodes, or evaluate a target closer to the "
        "behaviour policy.",
    ),
    Rule(
        "small marginal sample",
        "a value function whose marginal weights have an effective sample size below "
        "{limits.fewest_marginal_steps:g} steps, or {limits.fewest_marginal_episodes:g} episodes",
        lambda e: e.small_marginal,
        "The value depends on few steps of the log: its marginal weights have an effective sample size of "
        "{d.ess_marginal:.0f} steps in {d.ess_marginal_episodes:.1f} episodes. Collect about {needed} episodes, or "
        "more data in the states that the target visits.",
    ),
    Rule(
        "heavy ratios",
        "the largest 1% of the ratios hold more than {limits.most_top_weight:.0%} of the total weight, in a log of "
        "{limits.fewest_steps_for_top_weight} steps or more",
        lambda e: (
            e.d.top_hundredth_carries > e.limits.most_top_weight and e.d.steps >= e.limits.fewest_steps_for_top_weight
        ),
        "The largest 1% of the ratios hold {d.top_hundredth_carries:.0%} of the total weight, so the estimate "
        "depends on a few steps. Collect more steps, or evaluate a target closer to the behaviour policy.",
    ),
    Rule(
        "clipped ratios",
        "the mean ratio is more than {limits.most_mean_ratio_errors:g} standard errors from 1, and ratios were clipped",
        lambda e: e.d.mean_ratio_distance > e.limits.most_mean_ratio_errors and e.d.clipped > 0,
        "The mean importance ratio is {d.mean_ratio:.6g}; with correct probabilities it is 1 "
        "({d.mean_ratio_distance:.0f} standard errors off). Clip less.",
    ),
    Rule(
        "wrong ratios",
        "the mean ratio is more than {limits.most_mean_ratio_errors:g} standard errors from 1, and no ratio was "
        "clipped",
        lambda e: e.d.mean_ratio_distance > e.limits.most_mean_ratio_errors and e.d.clipped == 0,
        "The mean importance ratio is {d.mean_ratio:.6g}; with correct probabilities it is 1 "
        "({d.mean_ratio_distance:.0f} standard errors off). Check the probability columns.",
    ),
    Rule(
        "doubtful probabilities",
        "a bet against the recorded probabilities, based on the observation and learned on half of the steps, wins "
        "100,000 times its stake on the other half",
        lambda e: e.d.doubt is not None,
        "{d.doubt}, given the observation. Check that each probability is that of the action taken in its row, and "
        "that the observation was made before the action and contains nothing that came later; or use "
        "behaviour='estimate'.",
    ),
    Rule(
        "unseen actions",
        "the target takes actions that the log never took, with a probability above {limits.most_unseen:.0%}",
        lambda e: above(e.d.unseen_mass, e.limits.most_unseen),
        "The target takes actions that the log never took, with probability {d.unseen_mass:.2g} per step. The log has "
        "no data on their effect: collect episodes with these actions.",
    ),
    Rule(
        "unseen in the state",
        "the target takes actions that the log never took in that state, with a probability above "
        "{limits.most_unseen_in_state:.0%}, and no check tests the effect on the value",
        lambda e: above(e.d.unseen_pairs, e.limits.most_unseen_in_state) and not e.checked,
        "The target takes actions that the log never took in that state, with probability {d.unseen_pairs:.1%} per "
        "step. The log has no data on their effect: collect episodes with these actions.",
    ),
    Rule(
        "pairs never taken",
        "action values: the log never took more than {limits.most_never_taken:.0%} of the target's choices in that "
        "state",
        lambda e: above(e.d.never_taken, e.limits.most_never_taken),
        "{d.never_taken:.1%} of the target's next actions were never taken in that state, so the log has no data on "
        "their value. Use value_function='state' with ratios, coarser features, or collect episodes with these "
        "actions.",
    ),
    Rule(
        "pairs never taken matter",
        "action values: without those choices the value is more than {limits.most_never_taken_effect:g} standard "
        "errors away",
        lambda e: above(e.d.never_taken_effect, e.limits.most_never_taken_effect),
        "The value depends on actions that the log never took: without them it is {d.never_taken_effect:.1f} standard "
        "errors away. Use value_function='state', coarser features, or collect more episodes.",
    ),
    Rule(
        "actions out of range",
        "more than {limits.most_out_of_range:.0%} of the target's actions lie outside the range of the log's",
        lambda e: above(e.d.outside_range, e.limits.most_out_of_range),
        "{d.outside_range:.0%} of the target's actions lie outside the range of the log's actions, where the features "
        "extrapolate. Collect episodes with such actions.",
    ),
    Rule(
        "ends not known",
        "no column says whether episodes terminated or were cut off, or no end is marked in it",
        lambda e: not e.d.ends_known,
        "The log does not say whether its episodes terminated or were cut off, and the value depends on it. Give the "
        "columns terminated and truncated, with a mark at the end of every episode.",
    ),
    Rule(
        "wrong next observations",
        "next observations are more than {limits.most_foreign:.0%} as far from the following rows as random rows are",
        lambda e: above(e.d.strangers, e.limits.most_foreign),
        "next_observation does not match the following row (its distance is {d.strangers:.0%} of that of random "
        "rows). Check that "
        "column, and check that no rows are missing.",
    ),
    Rule(
        "few rewards",
        "(sum r^2)^2 / sum r^4 is below {limits.fewest_effective_rewards:g}: one or two rewards are much larger "
        "than all others",
        lambda e: e.d.reward_sample is not None and 0 < e.d.reward_sample < e.limits.fewest_effective_rewards,
        "One or two rewards (the largest is {d.largest_reward:.3g}) are much larger than all others, and the value "
        "depends on them. Check them, or collect more episodes.",
    ),
    Rule(
        "still moving",
        "the value moved by more than {limits.most_moved:g} standard errors in the second half of the updates",
        lambda e: above(e.d.moved, e.limits.most_moved),
        "The value still moved by {d.moved:.2f} standard errors in the second half of the updates. Give more updates, "
        "or use algorithm='lstd'.",
    ),
    Rule(
        "other equations",
        f"{', '.join(OTHER_SOLUTIONS)}: more than {{limits.most_from_lstd:g}} standard error from least squares",
        lambda e: e.other_solution and above(e.d.from_lstd, e.limits.most_from_lstd),
        "{d.method} does not solve the equations of the target's value, and is {d.from_lstd:.1f} standard errors "
        "away from their least-squares solution. Use algorithm='auto'.",
    ),
    Rule(
        "not converged",
        "any other algorithm: more than {limits.most_from_lstd:g} standard error from least squares",
        lambda e: not e.other_solution and above(e.d.from_lstd, e.limits.most_from_lstd),
        "{d.method} has not converged: it is {d.from_lstd:.1f} standard errors away from the least-squares solution. "
        "Give more updates, or use algorithm='lstd'.",
    ),
    Rule(
        "refits lost",
        "more than {limits.most_refits_lost:.0%} of the refits failed or diverged",
        lambda e: above(e.d.refits_lost, e.limits.most_refits_lost),
        "{d.refits_lost:.0%} of the refits failed or diverged, so the interval cannot be trusted. Use "
        "algorithm='auto', which needs no refits.",
    ),
    Rule(
        "narrow refits",
        "the error by refits is less than {limits.least_error_ratio:.0%} of the sandwich error",
        lambda e: below(e.d.error_ratio, e.limits.least_error_ratio),
        "The interval is {d.error_ratio:.0%} as wide as the sandwich interval, because the refits did not follow "
        "their bootstrap samples. Give more updates, or use algorithm='lstd'.",
    ),
    Rule(
        "too many features",
        "fewer than {limits.fewest_steps_per_feature:g} steps for every feature in use",
        lambda e: e.d.steps < e.limits.fewest_steps_per_feature * e.d.features_used,
        "The log has {d.steps} steps for {d.features_used} features, so they fit its noise, and the interval is "
        "too narrow. Use fewer features, with at least {limits.few_steps_per_feature:g} steps for each.",
    ),
    Rule(
        "features cannot represent it",
        "more than {limits.most_from_dr:g} standard errors from doubly robust, whose weights have an effective "
        "sample size of at least {limits.fewest_episodes} episodes, and nothing else was checked",
        lambda e: e.far_from_robust,
        "The doubly robust estimate is {d.from_dr:.1f} standard errors away: these features cannot represent the value "
        "of the target. Use other features, or algorithm='dr'.",
    ),
    Rule(
        "an infinite sum",
        "gamma is 1 and no episode terminated",
        lambda e: e.d.gamma == 1 and e.d.terminated == 0,
        "gamma is 1 and no episode terminated, so the value is an infinite sum. Give gamma below 1, or check the "
        "column terminated.",
    ),
    Rule(
        "heavy products",
        f"{', '.join(ESTIMATORS)}: products of ratios with an effective sample size below {{limits.fewest_episodes}} "
        "episodes",
        lambda e: e.heavy_products,
        "The products of ratios leave {d.method} an effective sample size of {d.ess_episodes:.1f} of {d.episodes} "
        "episodes; an interval needs at least {limits.fewest_episodes}. Use an algorithm that learns a value function.",
    ),
    Rule(
        "weak interval",
        "the row of the requested method is marked weak, for a reason that no other rule covers",
        lambda e: e.row.mark == "weak" and e.row.low is not None and not e.heavy_products and not e.cut_short,
        "The interval of {row.method} cannot be trusted: {row.reason}.",
    ),
    Rule(
        "rewards after truncations",
        f"{', '.join(ENDED_BY_A_CUT)}: more than {{limits.most_beyond_cuts:.0%}} of the discounted time lies after "
        "truncations",
        lambda e: e.cut_short,
        "{d.method} ends its sums at truncations, but {d.beyond_cuts:.0%} of the discounted time comes "
        "later. Use algorithm='dr', or one that learns a value function.",
    ),
    Rule(
        "no width",
        "the interval has no width",
        lambda e: e.no_width,
        "The interval has no width: all episodes agree exactly, so the log does not show how uncertain the value "
        "is. Check the rewards, and collect episodes that differ.",
    ),
    Rule(
        "few influential episodes",
        "the effective number of episodes or blocks behind the value is below {limits.fewest_effective_pieces:g}",
        lambda e: below(e.d.effective_pieces, e.limits.fewest_effective_pieces) and not e.no_width,
        "The value depends on {d.effective_pieces:.1f} of {d.episodes} episodes (effective number by their "
        "influence), too few for an interval. Collect about {needed} episodes; if rewards are rare, collect more "
        "episodes with a reward.",
    ),
    Rule(
        "biased refits",
        "leaving out a tenth of the episodes at a time shows a bias of more than {limits.most_bias:g} standard errors",
        lambda e: above(e.d.refit_bias, e.limits.most_bias) and not e.no_width,
        "The log is too small for its {d.features_used} features: leaving out a tenth of the episodes at a time shows "
        "a bias of {d.refit_bias:.1f} standard errors. Collect about {needed} episodes, or use fewer features (for "
        "many states: columns that describe them, or groups of states).",
    ),
    Rule(
        "choices missing",
        "the log lacks more than {limits.most_lacking:.0%} of the target's choices, in terms of the features, and "
        "these could move the value by more than half its interval",
        lambda e: above(e.d.lacking, e.limits.most_lacking) and above(e.d.lacking_moves, 1.0),
        "The log lacks {d.lacking:.0%} of the target's choices in the visited states. Collect episodes with them, "
        "or evaluate a target closer to the behaviour policy.",
    ),
    Rule(
        "no TD error yet",
        "with equal TD errors at all steps, the effective number of steps behind the error would be below "
        "{limits.fewest_surprises:g}",
        lambda e: below(e.d.surprises_met, e.limits.fewest_surprises) and not e.no_width,
        "The steps with the largest weights show no TD error yet, so the interval is too narrow. Collect more "
        "episodes, "
        "or evaluate a target closer to the behaviour policy.",
    ),
    Rule(
        "dependent blocks",
        "the variance is more than {limits.most_dependence:g} times that of independent blocks (Newey-West)",
        lambda e: above(e.d.dependence, e.limits.most_dependence),
        "Neighbouring blocks depend on each other: the variance is {d.dependence:.1f} times that of independent "
        "blocks. Use longer blocks.",
    ),
    Rule(
        "named features are too poor",
        "the user named the features, and with the bias that other fits show the interval is more than "
        "{limits.hull_times:g} times as wide as their own, and wider than {limits.hull_deviations:g} standard "
        "deviations of the value over states or {limits.hull_times_widest:g} times their own",
        lambda e: above(e.d.hull_of_limit, 1.0) and e.d.features_named is True,
        "These features cannot represent the value: fits with richer features or with memory disagree, and "
        "including their differences makes the interval {d.hull_times:.1f} times as wide. Use features='auto', or "
        "richer features.",
    ),
    Rule(
        "fits differ",
        "the same limits are exceeded by features that gradtd chose",
        lambda e: above(e.d.hull_of_limit, 1.0) and e.d.features_named is not True,
        "Fits with other features or with memory disagree: including their differences makes the interval "
        "{d.hull_times:.1f} times as wide. The observations may not be Markov states, or the log may be too small. "
        "Collect more episodes, "
        "add what the observation lacks (the previous observation, the time), or name features that suit the problem.",
    ),
    Rule(
        "an imprecise check is far away",
        "an imprecise fit is more than {limits.far:g} paired errors away",
        lambda e: bool(e.d.differs),
        "The fit '{d.differs}' gives a different value, and its error does not explain the difference: the features "
        "may "
        "be too poor. Use features='auto', or collect more episodes.",
    ),
    Rule(
        "hidden time",
        "with features of the time since the start the value is more than {limits.far:g} paired errors and a standard "
        "error away",
        lambda e: e.d.hidden_time is not None,
        "The value depends on the time since the start, which the observations do not contain: with features of "
        "the time it changes by {d.hidden_time:.0f} paired errors. Add the time to the observations (with_time=True), "
        "and mark episodes that end by a time limit as truncated.",
    ),
    Rule(
        "hidden state",
        "with earlier steps (ratio, reward, observation) as extra features the value is more than {limits.far:g} "
        "paired errors and a standard error away",
        lambda e: e.d.hidden_state is not None,
        "Earlier steps change the value, so the observation, or its features, hide part of the state: with the "
        "past as extra features the value changes by {d.hidden_state:.0f} paired errors. Add previous observations "
        "and actions to the observation (history=2), or use richer features.",
    ),
    Rule(
        "not Markov",
        "given the observation and the action, the next step still depends on the previous step, earlier steps, the "
        "time or the ratio (p-value below {limits.most_chance:g}, or {limits.most_chance_of_real:g} for continuous "
        "observations), and over an episode this amounts to more than {limits.most_predicted:g} standard errors",
        lambda e: e.d.predicted_by is not None,
        "The observations are not Markov states: given the observation and the action, the next step still depends "
        "on {d.predicted_by}. Over an episode this amounts to {d.predicted_effect:.0f} standard errors of the value "
        "(p = {d.predicted_chance:.1g}). Add what the observation lacks: previous observations and actions "
        "(history=2) or the time (with_time=True).",
    ),
    Rule(
        "value after truncations",
        "a fit to late steps gives a different value after truncations, more than {limits.far:g} paired errors and a "
        "standard error away",
        lambda e: e.d.late_steps_differ is not None,
        "{d.behind_cuts:.0%} of the value comes after truncations, and late steps give a different value for it than "
        "all steps do ({d.late_steps_differ:.0f} paired errors away). The observations may lack something that "
        "changes with time. Collect longer episodes, or add the time to the observations (with_time=True).",
    ),
    Rule(
        "unseen after cuts",
        "more than {limits.most_beyond_cuts:.0%} of the discounted time lies after truncations in states (with "
        "one-hot features) or at times (if added to the observation) where the log has fewer steps than truncated "
        "episodes",
        lambda e: above(e.d.unseen_after_cuts, e.limits.most_beyond_cuts),
        "{d.unseen_after_cuts:.0%} of the discounted time comes after truncations, in states or at times for which the "
        "log has few or no steps, so it does not show the value there. Collect longer episodes, or leave the time out "
        "of the observation. If the task ends at that step, mark these ends as terminated.",
    ),
    Rule(
        "rarely visited",
        "the target spends more than {limits.most_rarely_visited:.0%} of its time in states with fewer than "
        "{limits.fewest_visits} visits, beyond the log's own share there",
        lambda e: e.d.rarely_visited is not None,
        "The target spends {d.rarely_visited:.0%} of its time in states that the log rarely visited (fewer than "
        "{limits.fewest_visits} times each), and the log may lack the rewards there. Collect episodes in these "
        "states, or evaluate a target closer to the behaviour policy.",
    ),
    Rule(
        "drift",
        "the influences of episodes increase or decrease over the log, with Student's t of their slope above "
        "{limits.most_drift:g}",
        lambda e: e.d.drift is not None and abs(e.d.drift) > e.limits.most_drift,
        "The value drifts over the log (t = {d.drift:.1f} for the trend over the order of episodes), so one number "
        "does not describe it. Evaluate the recent episodes alone (since=0.7), and find out what changed.",
    ),
    Rule(
        "outside the possible range",
        "the value is more than {limits.most_beyond_rewards:g} standard error outside the range that the rewards allow",
        lambda e: above(e.d.beyond_rewards, e.limits.most_beyond_rewards),
        "The value is {d.beyond_rewards:.1f} standard errors outside the range that the log's rewards allow. Use "
        "fewer features, and check the rewards and the ends of episodes.",
    ),
)
