"""Every threshold of the checks and of the verdict, in one record that a test or a user can replace.

Most values were chosen on the tuning seeds of `benchmarks/trust.py` and confirmed on others (docs/trust.md). The others
are conventions, which their comments state. A "piece" is an episode, or a block of steps.

>>> from dataclasses import replace
>>> replace(DEFAULT, fewest_episodes=50).fewest_episodes
50
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The thresholds. Errors are standard errors, shares lie between 0 and 1."""

    # The size of the log. Beyond these limits the verdict is "not usable".
    fewest_episodes: int = 20
    """Minimum number of pieces for an interval. A convention: with fewer, the standard error is mostly noise."""
    fewest_effective_steps: float = 50
    """Minimum effective sample size of the ratios, (sum rho)^2 / sum rho^2, in steps."""
    fewest_marginal_steps: float = 50
    """Effective sample size of the marginal weights, in steps."""
    fewest_marginal_episodes: float = 10
    """Effective sample size of the marginal weights, in episodes."""
    fewest_effective_rewards: float = 3
    """Minimum effective number of rewards, (sum r^2)^2 / sum r^4. Sound logs had 24 or more; one huge reward gives
    about 1."""
    fewest_steps_per_feature: float = 5
    """Minimum number of steps per feature in use. With fewer, the features fit the noise of the log."""
    few_steps_per_feature: float = 20
    """Number of steps per feature in use below which there is a warning."""

    # The ratios.
    most_top_weight: float = 0.5
    """Maximum share of the total weight in the largest 1 % of the ratios."""
    fewest_steps_for_top_weight: int = 100
    """Minimum number of steps for this test: in a smaller log 1 % is less than one step."""
    most_mean_ratio_errors: float = 4.0
    """Maximum distance of the mean ratio from 1, in standard errors. By chance it is larger in 1 of 16,000 logs."""

    # Actions of the target that the log lacks.
    most_unseen: float = 0.01
    """Maximum probability per step of actions that the log never took."""
    most_unseen_in_state: float = 0.05
    """Maximum probability of actions never taken in that state. It is higher, because rare actions are missing in a
    state by chance.
    """
    most_never_taken: float = 0.2
    """Action values: maximum share of the target's choices that the log never took in that state."""
    most_never_taken_effect: float = 0.5
    """Action values: maximum change of the value, in standard errors, if the target never made those choices."""
    most_out_of_range: float = 0.05
    """Maximum share of the target's continuous actions outside the range of the log's actions."""

    # value_function="auto": when the value is that of action values.
    most_compared_steps: int = 1_000_000
    """Maximum number of steps for also computing action values. A log in parts is then read into memory."""
    least_agreement: float = 0.9
    """Share of repeated visits to a pair that lead to the same next observation. Below it action values are rarely more
    precise, and are not computed."""
    most_lacking_pairs: float = 0.01
    """Share of the target's choices that the log never took in that state."""
    most_error_of_pairs: float = 1.0
    """Maximum estimated error of action values, in standard errors of the state values. Their estimate includes biases,
    and up to 1 their error on the tuning seeds was smaller."""
    most_contradiction: float = 3.0
    """Maximum distance between the two values, in standard errors of the state values."""

    # The rows of the log.
    most_foreign: float = 0.4
    """Maximum distance of next observations from the following rows; 1 for random rows. Sound logs had at most .17,
    shuffled ones at least .54."""
    most_leading_elsewhere: float = 0.5
    """Share of steps whose next observation is not that of the following row, above which there is a warning."""
    most_beyond_cuts: float = 0.01
    """Maximum share of the discounted time after truncations, for estimators whose sums end there."""
    most_behind_cuts: float = 0.2
    """Share of the value after truncations, above which there is a warning."""
    most_beyond_rewards: float = 1.0
    """Maximum distance of a value from the range that the rewards allow, in standard errors."""

    most_drift: float = 4.0
    """Student's t of the slope of episodes' influences over their order. By chance it is larger in 1 of 16,000 logs."""
    most_repeated: float = 0.05
    """Maximum share of the longer episodes that are equal to an earlier one."""

    # Agreement of a method with least squares, with its own refits and with doubly robust.
    most_from_lstd: float = 1.0
    """Maximum distance of an algorithm's value from the least-squares solution, in standard errors."""
    most_moved: float = 0.5
    """Maximum change of the value in the second half of the updates, in standard errors."""
    warn_moved: float = 0.25
    """The limit above which there is a warning."""
    most_refits_lost: float = 0.1
    """Maximum share of refits that fail or diverge."""
    least_error_ratio: float = 2 / 3
    """Minimum standard error by refits, relative to the sandwich error. Below it the refits did not follow their
    bootstrap samples."""
    most_from_dr: float = 4.0
    """Maximum distance of the value from doubly robust, in standard errors, if the effective number of episodes of its
    weights is at least ``fewest_episodes``."""
    warn_from_dr: float = 2.0
    """The limit above which there is a warning."""
    warn_condition: float = 1e8
    """Maximum condition number of A: above it a solution loses half of its digits."""
    most_uncovered: float = 0.05
    """Maximum share of the checked interval that a method's interval may miss on one side. A convention."""
    rounding: float = 1e-6
    """A standard error below this share of the value counts as zero: all episodes agree."""

    # Rows of the other methods: weak beyond these.
    row_fewest_products: float = 20.0
    """Minimum effective number of episodes of products of ratios."""
    row_most_product_errors: float = 3.0
    """Maximum distance of the mean product from 1, in standard errors."""
    row_fewest_episodes: float = 8.0
    """Minimum effective number of episodes behind the error of a row, (sum psi^2)^2 / sum psi^4."""
    row_most_error_ratio: float = 1.5
    """Maximum cross-fitted error, relative to the sandwich error. Above it the folds are too small for the features."""

    # Is the log large enough for a fit?
    fewest_effective_pieces: float = 2.5
    """Minimum effective number of pieces behind the value. A small number makes the interval wide, which is sufficient.
    Below this limit the number itself is unreliable, because it depends on the same few pieces."""
    most_bias: float = 0.5
    """Maximum jackknife bias over tenths of the pieces, in standard errors."""
    freedom_share: float = 1 / 3
    """Fraction of the degrees of freedom implied by the observed kurtosis. It is below 1 because samples underestimate
    kurtosis."""
    skew_share: float = 1.45
    """The interval is longer on the side of the skew by this number of standard errors per unit of skewness."""
    no_error: float = 1e-8
    """A standard error, as a share of the value, that counts as zero: fits are regularised by 1e-9."""
    most_lags: int = 20
    """Lags of the correlation between neighbouring blocks (Newey-West)."""
    most_dependence: float = 3.0
    """Maximum variance relative to that of independent blocks. Above it the blocks are too short."""

    # The decision between features.
    hull_times: float = 2.0
    """Maximum width of the checked interval relative to that of the chosen features alone."""
    most_blind: float = 2.0
    """Maximum paired error of a check, in standard errors of the value: above it the check has no power."""
    hull_deviations: float = 0.4
    """A checked interval of this width, in standard deviations of the value over the visited states, is also
    allowed."""
    hull_times_widest: float = 4.5
    """The maximum width of such an interval, relative to that of the chosen features alone. Above it the features are
    too poor."""
    most_extrapolation: float = 3.5
    """Number of steps to richer features by which the interval is extended, if features could always be richer."""
    richer_columns: float = 1.15
    """A fit counts as richer if it has at least this factor more columns."""
    step_columns: float = 1.5
    """Factor in the number of columns between two rungs at which their difference shows how fast the value changes."""
    most_lacking: float = 0.2
    """Maximum share of the target's choices that the log lacks, unless they can move the value by at most half an
    interval."""
    fewest_surprises: float = 0.5
    """Effective number of steps behind the error, if TD errors were equal at all steps. All 15 Open Bandit logs that do
    not support an interval lie below it, and none of 189 usable logs."""
    far: float = 3.0
    """Number of paired errors at which a fit with the time or the past, or an imprecise fit, contradicts the value."""
    most_rarely_visited: float = 0.1
    """Share of the target's time that may go to states with fewer than ``fewest_visits`` visits, beyond the log's own
    share there. Logs whose goal was never reached had .14 to .64, sound ones at most .05."""
    most_chance: float = 0.003
    """P-value below which the next step depends on the past, given a discrete observation and the action."""
    most_chance_of_real: float = 1e-4
    """The p-value for continuous observations, for which regressions on their features are not exact."""
    most_predicted: float = 2.0
    """Minimum effect of the predicted part over an episode, in standard errors of the value, for it to count."""
    least_left: float = 0.75
    """Minimum shift by time or past features added to the richest rung, relative to the median over all rungs."""
    apart_by_chance: float = 2.0
    """Paired errors by which the values of two sets of features may differ without a bias."""
    most_imprecise: float = 2.0
    """Maximum error of the richest fit that the others are compared with, relative to the median over all fits."""
    prefer_usable: float = 1.5
    """A usable value is preferred unless its estimated error is larger than that of an unusable one by this factor."""
    sample_errors: float = 2.0
    """Minimum distance of a share measured on a sample from its limit, in standard errors."""

    # Fits with memory: traces and doubly robust.
    least_lambda: float = 0.4
    """Minimum lambda of the fits with traces. If ratios allow no longer traces, such a fit is not sufficient as a
    check."""
    largest_lambda: float = 0.9
    """Maximum lambda of the fits with traces."""
    least_growth: float = 1.5
    """Maximum second moment of products of ratios over a trace, in small logs."""
    largest_growth: float = 4.0
    """Maximum second moment of products of ratios over a trace, in large logs."""
    pieces_per_growth: float = 50
    """In logs between small and large, the maximum second moment is the number of pieces divided by this number."""
    fewest_products: float = 20.0
    """Minimum effective number of pieces of products of ratios for the doubly robust estimate to be a check."""
    late_weight: float = 0.05
    """Share of the weight at the start above which the weights of a later time matter."""

    # The ladder of features, and richer ones that check them.
    fewest_visits: int = 10
    """Minimum visits for a state to have its own feature; a pair of states needs twice as many."""
    fewest_states: int = 30
    """Number of states that may always have their own feature."""
    pieces_per_state: int = 8
    """Number of pieces per additional state."""
    fewest_grouped_states: int = 8
    """Number of states with their own feature on the smallest rung on which rare states share one."""
    most_grouped_rungs: int = 4
    """Number of rungs on which rare states share a feature."""
    fewest_columns: int = 30
    """Minimum number of columns of the widest rung."""
    most_columns: int = 220
    """Maximum number of columns of the widest rung."""
    steps_per_column: float = 20
    """The widest rung has one more column per this number of steps."""
    fewest_waves: int = 20
    """Number of random waves that check a ladder of cosines."""
    most_waves: int = 80
    """Maximum number of random waves."""
    most_work: float = 2e10
    """Maximum number of multiplications for reading the log for all fits, which limits the width of their table."""
    rung_share: float = 0.66
    """Share of that width for rungs; the rest is for random waves."""
    rung_growth: float = 1.5
    """Minimum factor in the number of columns between two rungs."""

    @property
    def no_width(self) -> float:
        """Width of an interval, as a share of the value, whose error counts as zero.

        It corresponds to 30 errors: Student's t with one degree of freedom on both sides, and some skew.
        """
        return 30 * self.no_error


DEFAULT = Limits()
"""The limits that `gradtd.evaluate` uses."""
