"""Every threshold of the checks and of the verdict, in one record that a test or a user can replace.

Most values were chosen on the tuning seeds of `benchmarks/trust.py` and confirmed on others (docs/trust.md). The
rest are
conventions, and their comments say so. A "piece" is an episode, or a block of steps.

>>> from dataclasses import replace
>>> replace(DEFAULT, fewest_episodes=50).fewest_episodes
50
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The thresholds. Errors are standard errors, shares lie between 0 and 1."""

    # How much the log must hold. Not usable beyond these.
    fewest_episodes: int = 20
    """Minimum number of pieces for an interval. A convention: with fewer, the standard error is mostly noise."""
    fewest_effective_steps: float = 50
    """Effective sample size of the ratios, (sum rho)^2 / sum rho^2, in steps."""
    fewest_marginal_steps: float = 50
    """Effective sample size of the marginal weights, in steps."""
    fewest_marginal_episodes: float = 10
    """The same, in episodes."""
    fewest_effective_rewards: float = 3
    """Effective number of rewards, (sum r^2)^2 / sum r^4. Sound logs had 24 or more; one huge reward gives about 1."""
    fewest_steps_per_feature: float = 5
    """Steps for every feature in use. With fewer, the features fit the noise of the log."""
    few_steps_per_feature: float = 20
    """Steps for every feature in use, below which there is a warning."""

    # The ratios.
    most_top_weight: float = 0.5
    """Share of the total weight that the largest 1 % of the ratios may hold."""
    fewest_steps_for_top_weight: int = 100
    """Steps from which on that share is judged: in a smaller log 1 % is less than one step."""
    most_mean_ratio_errors: float = 4.0
    """Errors that the mean ratio may be away from 1. By chance it is further away in 1 of 16,000 logs."""

    # What the target does and the log lacks.
    most_unseen: float = 0.01
    """Probability per step of actions that the log never took."""
    most_unseen_in_state: float = 0.05
    """The same for actions never taken in that state. It is larger, because rare actions are missing in a state by
    chance.
    """
    most_never_taken: float = 0.2
    """Action values: share of the target's choices that the log never took in that state."""
    most_never_taken_effect: float = 0.5
    """Action values: errors that the value may move if the target never made those choices."""
    most_out_of_range: float = 0.05
    """Share of the target's real actions outside the range of the log's."""

    # The rows of the log.
    most_foreign: float = 0.4
    """Distance of next observations from the following rows; 1 for random rows. Sound logs had .17 at most, shuffled
    ones .54 at least."""
    most_leading_elsewhere: float = 0.5
    """Share of steps whose next observation is not that of the following row; above it there is a warning."""
    most_beyond_cuts: float = 0.01
    """Share of the discounted time after truncations, for estimators that end their sums there."""
    most_behind_cuts: float = 0.2
    """Share of the value after truncations, above which there is a warning."""
    most_beyond_rewards: float = 1.0
    """Errors that a value may lie outside what the rewards allow."""

    most_drift: float = 4.0
    """Student's t of the slope of episodes' influences over their order. By chance it is larger in 1 of 16,000 logs."""
    most_repeated: float = 0.05
    """Share of the longer episodes that may be equal to an earlier one."""

    # Agreement of a method with least squares, with its own refits and with doubly robust.
    most_from_lstd: float = 1.0
    """Errors between the value of an algorithm and the least-squares solution."""
    most_moved: float = 0.5
    """Errors that the value may move in the second half of the updates."""
    warn_moved: float = 0.25
    """The same, for a warning."""
    most_refits_lost: float = 0.1
    """Share of the refits that may fail or diverge."""
    least_error_ratio: float = 2 / 3
    """Error by refits over the sandwich error. Below it the refits did not follow their resamples."""
    most_from_dr: float = 4.0
    """Errors between the value and doubly robust, where at least ``fewest_episodes`` carry its weights."""
    warn_from_dr: float = 2.0
    """The same, for a warning."""
    warn_condition: float = 1e8
    """Condition number of A: above it half of the digits of a solution are lost."""
    most_uncovered: float = 0.05
    """Share of the checked interval that the interval of a method may leave out on one side. A convention."""
    rounding: float = 1e-6
    """An error below this share of the value counts as none: all episodes say the same."""

    # Rows of the other methods: weak beyond these.
    row_fewest_products: float = 20.0
    """Episodes that the products of ratios must be worth."""
    row_most_product_errors: float = 3.0
    """Errors that the mean product may be away from 1."""
    row_fewest_episodes: float = 8.0
    """Episodes that must carry the error of a row, (sum psi^2)^2 / sum psi^4."""
    row_most_error_ratio: float = 1.5
    """Cross-fitted error over the sandwich error. Above it the folds are too small for the features."""

    # Is the log large enough for a fit?
    fewest_effective_pieces: float = 2.5
    """Pieces that the value must rest on, by their influence. With few of them the interval is wide, and that is
    enough; below this limit their number itself is not known, because it rests on the same few pieces."""
    most_bias: float = 0.5
    """Bias by the jackknife over tenths of the pieces, in errors."""
    freedom_share: float = 1 / 3
    """Share of the degrees of freedom that the observed kurtosis gives: samples show too little kurtosis."""
    skew_share: float = 1.45
    """The side of the skew is longer by this many errors for every unit of skewness."""
    no_error: float = 1e-8
    """An error, as a share of the value, that counts as none: fits are regularised by 1e-9."""
    most_lags: int = 20
    """Lags of the correlation between neighbouring blocks (Newey-West)."""
    most_dependence: float = 3.0
    """Variance over that of independent blocks. Above it the blocks are too short."""

    # The decision between features.
    hull_times: float = 2.0
    """Width of the checked interval over that of the chosen features alone."""
    most_blind: float = 2.0
    """Paired error of a check, in errors of the value: with a larger one it has no power."""
    hull_deviations: float = 0.4
    """A checked interval this wide, in deviations of the value over the states visited, is allowed too."""
    hull_times_widest: float = 4.5
    """Width of even such an interval over that of the chosen features alone. Above it the features are too poor."""
    most_extrapolation: float = 3.5
    """Steps to richer features by which the interval is extended, where features could always be richer."""
    richer_columns: float = 1.15
    """Factor in columns at which a fit counts as richer."""
    step_columns: float = 1.5
    """Factor in columns between two rungs at which their difference shows how fast the value changes."""
    most_lacking: float = 0.2
    """Share of the target's choices that the log may lack, unless they can move the value by half an interval only."""
    fewest_surprises: float = 0.5
    """Effective number of steps behind the error, if TD errors were equal at all steps. All 15 Open Bandit logs that
    cannot carry an interval lie below it, and none of 189 usable logs."""
    far: float = 3.0
    """Paired errors at which a fit with the time or the past, or an imprecise fit, refutes the value."""
    most_rarely_visited: float = 0.1
    """Share of the target's time that may go to states with fewer than ``fewest_visits`` visits, beyond the log's own
    share there. Logs whose goal was never reached had .14 to .64, sound ones .05 at most."""
    most_chance: float = 0.003
    """Probability by chance below which the past predicts what comes next."""
    most_predicted: float = 2.0
    """Errors of the value that the predicted part must be worth over an episode besides."""
    least_left: float = 0.75
    """Minimum shift by time or past features added to the richest rung, relative to the median over all rungs."""
    prefer_usable: float = 1.5
    """Factor by which a usable value's estimated error may exceed that of an unusable one."""
    sample_errors: float = 2.0
    """Errors that a share measured on a sample must be away from its limit."""

    # Fits with memory: traces and doubly robust.
    least_lambda: float = 0.4
    """Least lambda of the fits with traces. Where ratios allow no longer ones, such a fit is not enough as a check."""
    largest_lambda: float = 0.9
    """Largest lambda of the fits with traces."""
    least_growth: float = 1.5
    """Second moment that products of ratios may reach over a trace, in small logs."""
    largest_growth: float = 4.0
    """The same in large logs."""
    pieces_per_growth: float = 50
    """Between the two, the second moment may be the number of pieces over this number."""
    fewest_products: float = 20.0
    """Effective pieces that products of ratios must leave for doubly robust to be a check."""
    late_weight: float = 0.05
    """Share of the weight at the start above which the weights of a later time matter."""

    # The ladder of features, and richer ones that check them.
    fewest_visits: int = 10
    """Visits that give a state a feature of its own; a pair of states needs twice as many."""
    fewest_states: int = 30
    """States that may always have a feature of their own."""
    pieces_per_state: int = 8
    """Pieces per additional state."""
    fewest_grouped_states: int = 8
    """States with a feature of their own, on the least rung on which rare states share one."""
    most_grouped_rungs: int = 4
    """Rungs on which rare states share a feature."""
    fewest_columns: int = 30
    """Columns of the widest rung: never fewer,"""
    most_columns: int = 220
    """never more,"""
    steps_per_column: float = 20
    """and one per this many steps."""
    fewest_waves: int = 20
    """Random waves that check a ladder of cosines."""
    most_waves: int = 80
    """Their maximum number."""
    most_work: float = 2e10
    """Multiplications that reading the log for all fits may take: it bounds the width of their table."""
    rung_share: float = 0.66
    """Share of that width for rungs; the rest is for random waves."""
    rung_growth: float = 1.5
    """Times the columns of a rung that the next one has at least."""

    @property
    def no_width(self) -> float:
        """Width of an interval, as a share of the value, whose error counts as none.

        30 errors: Student's t with one degree of freedom on both sides, and some skew.
        """
        return 30 * self.no_error


DEFAULT = Limits()
"""The limits that `gradtd.evaluate` uses."""
