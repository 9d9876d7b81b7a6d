"""A rule of the verdict (a condition and its sentence), and the conditions that several rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from string import Formatter

from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS, OTHER_SOLUTIONS, Estimate


class Kind(Enum):
    """The effect of a rule on an estimate."""

    REASON = "not usable"
    UNCHECKED = "unchecked"
    WARNING = "a warning"


@dataclass(frozen=True)
class Evidence:
    """The inputs of a rule."""

    d: Diagnostics  # the diagnostics
    estimates: Sequence[Estimate]  # the rows of the methods, the requested one first
    limits: Limits = DEFAULT  # the thresholds

    @property
    def row(self) -> Estimate:
        """The row of the requested method."""
        return self.estimates[0]

    @property
    def learns(self) -> bool:
        """Whether the method learns a value function."""
        return self.d.method not in ESTIMATORS

    @property
    def other_solution(self) -> bool:
        """Whether the method converges to a different solution by design."""
        return self.d.method in OTHER_SOLUTIONS

    @property
    def checked(self) -> bool:
        """Whether other fits checked the features. Otherwise the doubly robust estimate checks them."""
        return self.d.lacking is not None

    @property
    def far_from_robust(self) -> bool:
        """Whether the doubly robust estimate contradicts features that no other fit checked."""
        enough = self.d.ess_episodes >= self.limits.fewest_episodes
        return not self.checked and above(self.d.from_dr, self.limits.most_from_dr) and enough

    @property
    def heavy_products(self) -> bool:
        """Whether the log has enough episodes, but products of ratios leave too few effective ones."""
        return not self.learns and self.d.ess_episodes < self.limits.fewest_episodes <= self.d.episodes

    @property
    def cut_short(self) -> bool:
        """Whether the method ends its sums at truncations although more rewards would follow."""
        return self.d.method in ENDED_BY_A_CUT and self.d.beyond_cuts > self.limits.most_beyond_cuts

    @property
    def small_marginal(self) -> bool:
        """Whether the marginal weights of a value function concentrate on too few steps or episodes."""
        steps, episodes = self.limits.fewest_marginal_steps, self.limits.fewest_marginal_episodes
        return self.learns and (below(self.d.ess_marginal, steps) or below(self.d.ess_marginal_episodes, episodes))

    @property
    def episodes_needed(self) -> str:
        """Approximate number of episodes needed, if new ones resemble the log: two digits, rounded up."""
        d, limits = self.d, self.limits
        shares = [limits.fewest_episodes / max(d.episodes, 1)]
        for has, needs in (
            (d.ess, limits.fewest_effective_steps),
            (d.ess_marginal, limits.fewest_marginal_steps),
            (d.ess_marginal_episodes, limits.fewest_marginal_episodes),
            (d.effective_pieces, limits.fewest_effective_pieces),
        ):
            shares += [needs / has] if has else []
        if d.refit_bias is not None and d.refit_bias < float("inf"):
            shares.append((d.refit_bias / limits.most_bias) ** 2)  # the bias falls with the square root of their number
        needed = max(shares) * d.episodes
        unit = 10 ** max(0, len(str(int(needed))) - 2)
        return f"{-(-int(needed + 1) // unit) * unit:,}"

    @property
    def no_width(self) -> bool:
        """Whether the interval is as narrow as rounding errors, so that rules about the influences do not apply."""
        row = self.row
        if row.value is None or row.low is None or row.high is None:
            return False
        least = self.limits.no_width if self.d.values is None else self.limits.rounding
        return row.high - row.low <= least * abs(row.value)

    @property
    def unchecked_interval(self) -> bool:
        """Whether the reported interval does not cover the checked one."""
        row, low, high = self.row, self.d.hull_low, self.d.hull_high
        if low is None or high is None or row.low is None or row.high is None or self.no_width:
            return False
        slack = self.limits.most_uncovered * (high - low)
        return row.low > low + slack or row.high < high - slack


def above(value: float | None, limit: float) -> bool:
    """Whether a number is known and above a limit."""
    return value is not None and value > limit


def below(value: float | None, limit: float) -> bool:
    """Whether a number is known and below a limit."""
    return value is not None and value < limit


@dataclass(frozen=True)
class Rule:
    """One row of the table of rules."""

    name: str  # two or three words
    when: str  # the condition in words, for the docs. ``{limits.far:g}`` stands for a threshold.
    test: Callable[[Evidence], bool]  # the condition
    sentence: str
    """The sentence of the report: the problem, and what to do. ``{d.ess:.0f}`` stands for a number of the diagnostics,
    ``{row.method}`` for one of the estimate, ``{limits.far:g}`` for a threshold."""
    kind: Kind = Kind.REASON  # whether it makes the estimate unusable, leaves it unchecked, or is only a warning

    def said(self, evidence: Evidence) -> str:
        """The sentence, filled in for this evaluation."""
        needed = evidence.episodes_needed if "{needed}" in self.sentence else ""
        return self.sentence.format(d=evidence.d, row=evidence.row, limits=evidence.limits, needed=needed)

    def in_table(self, limits: Limits) -> str:
        """The rule as one row of the table in the docs. Names in italics stand for numbers of an evaluation."""
        sentence = ""
        for text, field, form, _ in Formatter().parse(self.sentence):
            record, _, name = (field or "").partition(".")
            known = record == "limits"
            name = name or record
            sentence += text + (format(getattr(limits, name), form or "") if known else f"*{name}*" if name else "")
        return f"| {self.name} | {self.when.format(limits=limits)} | {sentence} |"
