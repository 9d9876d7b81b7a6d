"""Bounds the effect of an unrecorded cause on the value, by the marginal sensitivity model.

A cause u of action and outcome, drawn independently at every step, may change the odds of every action by a factor of
at most L: odds(a | s, u) / odds(a | s) is between 1 / L and L. Then the true probability of an outcome Y = r + discount
V(s'), relative to that observed after a, is between l = b + (1 - b) / L and h = b + (1 - b) L, with b the behaviour's
probability of a, and has mean one. The smallest mean of Y uses h below the quantile q of share 1 / (1 + L) and l above
it:

    min E[w Y] = l E[Y] + (1 - l) (q - E[max(q - Y, 0)] (1 + L)),

and any other q gives a smaller value (Kallus and Zhou 2020, arXiv 2002.04518; Bruns-Smith and Zhou, arXiv 2302.00662).
The bound is therefore the solution of the log's equations with other rewards and discounts, which depend on the
solution, so it is solved a few times. Its influences are those of these equations, because the derivative with respect
to q is zero. Each half of the episodes uses quantiles fitted to the other half, so that no quantile depends on its own
outcome.

`anytime` is the other extension of an interval: a confidence sequence, which is valid at every look at a growing log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.quantiles import boundary, normal
from gradtd.core.stream import Stream
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.estimators.least_squares import LeastSquares, least_squares, of_behaviour
from gradtd.evaluation.estimators.products import values_of
from gradtd.evaluation.intervals import interval
from gradtd.evaluation.limits import DEFAULT, Limits

GRID = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""The strengths at which the tipping point and the plot are computed."""
MOST_SOLVES, STILL = 60, 0.01
"""Maximum number of solves per bound, and convergence threshold in standard errors."""


@dataclass(frozen=True)
class Confounding:
    """The possible effect of an unrecorded cause on the value.

    Parameters
    ----------
    strength
        The requested strength L: the factor by which the cause may change the odds of every action.
    low, high
        The interval with a cause of that strength. It includes the bounds of the value and their statistical error.
    bounds
        The bounds of the value without their statistical error.
    against, against_name
        The reference value of the tipping point, and its name.
    tipping
        The smallest strength at which the interval contains the reference: 1 if it does so without a cause, infinite if
        no strength up to 10 suffices.
    each
        "action" if the strength bounds the odds of every action; "transition" if the behaviour's probabilities are
        unknown and it bounds the probability of every outcome.
    curve
        Rows (strength, low, high) of the plot.
    """

    strength: float
    low: float
    high: float
    bounds: tuple[float, float]
    against: float
    against_name: str
    tipping: float
    each: str
    curve: tuple[tuple[float, float, float], ...] = ()

    @property
    def tips(self) -> str:
        """The tipping point in a sentence."""
        what = f"{self.against_name} ({self.against:.5g})"
        if self.tipping <= 1:
            return f"The interval contains {what} even without such a cause."
        if self.tipping == float("inf"):
            return f"No factor up to {self.curve[-1][0]:g} makes the interval contain {what}."
        return f"From a factor of {self.tipping:.2f} on, the interval contains {what}."


@dataclass(frozen=True, eq=False)
class Bounded:
    """One target's equations, ready to be solved for bounds."""

    stream: Stream
    starts: Any
    begins: Integers
    C: Any  # stream, starts, begins and C: the steps over features, as `least_squares` takes them
    chance: Floats  # the behaviour's probability of every action taken; zeros if unknown
    given: Conditioning  # the conditioning variables of outcomes
    still: float = STILL

    def solve(self, strength: float, sign: int, guess: LeastSquares) -> LeastSquares:
        """The smallest possible value, computed from an initial guess. With sign -1, rewards are negated."""
        steps = np.asarray(self.stream.steps)
        reward, discount = sign * steps["reward"], steps["discount"]
        low = self.chance + (1 - self.chance) / strength
        found = guess
        for _ in range(MOST_SOLVES):
            outcome = reward + discount * values_of(self.stream.features, found.theta)[steps["next_row"]]
            q = self.given.quantile(outcome, 1 / (1 + strength), sign)
            below = (1 + strength) * (outcome < q)
            weight = low + (1 - low) * below
            made = self._solved(weight * reward + (1 - low) * q * (1 - below), weight * discount)
            moved, found = abs(made.value - found.value), made
            if not moved > self.still * made.error:
                break
        return found

    def both(self, strength: float, guess: list[LeastSquares]) -> list[LeastSquares]:
        """The lower and the upper bound of the value. The upper one has the opposite sign."""
        return [self.solve(strength, sign, found) for sign, found in zip((1, -1), guess, strict=True)]

    def _solved(self, reward: Floats, discount: Floats) -> LeastSquares:
        other = self.stream.changed(reward=reward, discount=discount)
        return least_squares(other, self.starts, self.begins, C=self.C)

    def nominal(self, sign: int) -> LeastSquares:
        """The solution without an unrecorded cause."""
        steps = np.asarray(self.stream.steps)
        return self._solved(sign * steps["reward"], np.array(steps["discount"]))

    def behaviour(self) -> LeastSquares:
        """The value of the behaviour policy, in the same features."""
        return of_behaviour(self.stream, self.starts, self.begins, self.C)


@dataclass(frozen=True, eq=False)
class Against:
    """The reference of a tipping point: a number, its name, and its influences if it is estimated."""

    value: float
    name: str
    psi: Floats | float = 0.0


def beyond_own(decision: Decision, level: float, limits: Limits) -> tuple[float, float]:
    """How far the reported interval extends below and above that of its fit, because of the bias that checks found."""
    low, high = interval(decision.fit, level, limits)
    return max(0.0, low - decision.shown.low), max(0.0, decision.shown.high - high)


def confounding(
    log: Bounded, decision: Decision, strength: float, against: Against, level: float, limits: Limits = DEFAULT
) -> Confounding:
    """The interval at a strength, and the strength at which the interval contains a value."""
    down, up = beyond_own(decision, level, limits)

    def ends(bounds: list[LeastSquares], psi: Floats | float = 0.0) -> tuple[float, float]:
        low = _side(bounds[0], psi, decision, level, limits) - down
        return low, -(_side(bounds[1], -psi, decision, level, limits) - up)

    bounds = [log.nominal(1), log.nominal(-1)]
    gaps = {1.0: _gap(ends(bounds, against.psi), against.value)}
    rows, asked = [(1.0, *ends(bounds))], bounds
    for one in sorted({*GRID, strength}):
        bounds = log.both(one, bounds)
        # A factor of at most L includes every smaller one. Where an action always has the same outcome, a quantile is
        # that outcome, and the influences of the bound alone would leave its error out.
        (_, before, after), (low, high) = rows[-1], ends(bounds)
        rows.append((one, min(before, low), max(after, high)))
        gaps[one] = min(gaps[max(gaps)], _gap(ends(bounds, against.psi), against.value))
        asked = bounds if one <= strength else asked
        if one >= strength and gaps[one] <= 0:
            break
    tipping = tipping_point(gaps)
    if 1 < tipping < np.inf:  # refine the interpolated tipping point
        gaps[tipping] = _gap(ends(log.both(tipping, bounds), against.psi), against.value)
        tipping = tipping_point(gaps)
    shown = next(row for row in rows if row[0] == strength)
    each = "action" if log.chance.any() else "transition"
    pair = (asked[0].value, -asked[1].value)
    return Confounding(strength, shown[1], shown[2], pair, against.value, against.name, tipping, each, tuple(rows))


def _side(bound: LeastSquares, psi: Floats | float, decision: Decision, level: float, limits: Limits) -> float:
    """The lower end of the interval of a bound. ``psi`` holds the influences of the reference."""
    fit = replace(decision.fit, value=bound.value, psi=bound.psi - psi)
    return interval(fit, level, limits)[0]


def _gap(ends: tuple[float, float], value: float) -> float:
    """Distance of a value from an interval. It is 0 or less inside the interval."""
    return max(ends[0] - value, value - ends[1])


def tipping_point(gaps: Mapping[float, float]) -> float:
    """The smallest strength at which the gap is closed, interpolated over log strengths. Infinite if no strength closes
    it.

    >>> tipping_point({1.0: 3.0, 2.0: 1.0, 4.0: -1.0})
    2.82842712474619
    """
    strengths = np.array(sorted(gaps))
    apart = np.array([gaps[float(one)] for one in strengths])
    closed = np.flatnonzero(apart <= 0)
    if not len(closed):
        return float("inf")
    k = int(closed[0])
    if k == 0:
        return 1.0
    before, after = np.log(strengths[k - 1 : k + 1])
    share = apart[k - 1] / (apart[k - 1] - apart[k])
    return float(np.exp(before + share * (after - before)))


@dataclass(frozen=True)
class Anytime:
    """A confidence interval that is valid at every look.

    Parameters
    ----------
    low, high
        The ends of the interval.
    times
        Width of its statistical part relative to a single-look interval.
    """

    low: float
    high: float
    times: float


def anytime(decision: Decision, episodes: float, level: float, limits: Limits = DEFAULT) -> Anytime:
    """Widen the interval of a decision so that it is valid at every look.

    Both sides of the interval from influences are scaled by the ratio of the sequence to a normal interval, which keeps
    the corrections for skew and few effective episodes. The bias shown by the checks is added unscaled.
    """
    fit = decision.fit
    times = boundary(episodes, level) / normal(0.5 + level / 2)
    low, high = interval(fit, level, limits)
    down, up = max(0.0, low - decision.shown.low), max(0.0, decision.shown.high - high)
    return Anytime(fit.value - times * (fit.value - low) - down, fit.value + times * (high - fit.value) + up, times)


FEWEST = 10
"""If the other half has fewer outcomes than this, a group uses the quantile of all groups."""
MOST_FITTED = 5000
"""Maximum number of outcomes in a regression."""
ROUNDS, WARM_ROUNDS, SMOOTH = 40, 8, 1e-3
"""Number of iterations of the regression, of iterations after a warm start, and its smoothing relative to the standard
deviation."""


@dataclass(eq=False)
class Conditioning:
    """The conditioning variables: a group for every step, or columns with one regression per group."""

    group: Integers  # the group of every step
    half: Integers  # the half (0 or 1) of every step's episode
    columns: Floats | None = None  # (steps, k), including a constant, or None if groups suffice
    _last: dict[tuple[int, int, float], Floats] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def quantile(self, outcome: Floats, share: float, sign: int = 1) -> Floats:
        """The conditional quantile of every step's outcome, fitted to the other half."""
        out = np.empty(len(outcome))
        for own in np.unique(self.half):
            inside, outside = np.flatnonzero(self.half == own), np.flatnonzero(self.half != own)
            outside = outside if len(outside) else inside
            if self.columns is None:
                out[inside] = _by_group(outcome, self.group, inside, outside, share)
            else:
                self._regress(outcome, inside, outside, share, sign, out)
        return out

    def _regress(
        self, outcome: Floats, inside: Integers, outside: Integers, share: float, sign: int, out: Floats
    ) -> None:
        assert self.columns is not None
        overall = float(np.quantile(outcome[outside], share))
        for g in range(self.n_groups):
            mine, other = inside[self.group[inside] == g], outside[self.group[outside] == g]
            if len(other) < FEWEST * self.columns.shape[1]:
                out[mine] = overall
                continue
            some = other[:: max(1, len(other) // MOST_FITTED)]
            key = (sign, g, float(self.half[mine[0]]) if len(mine) else -1.0)
            beta = regress_quantile(self.columns[some], outcome[some], share, self._last.get(key))
            self._last[key] = beta
            out[mine] = self.columns[mine] @ beta


def _by_group(outcome: Floats, group: Integers, inside: Integers, outside: Integers, share: float) -> Floats:
    order = outside[np.lexsort((outcome[outside], group[outside]))]
    n = int(group.max()) + 1
    counts = np.bincount(group[outside], minlength=n)
    first = np.r_[0, np.cumsum(counts)[:-1]]
    at = first + np.clip(np.ceil(share * counts).astype(np.int64) - 1, 0, np.maximum(counts - 1, 0))
    found = outcome[order[np.minimum(at, len(order) - 1)]]
    few = counts < min(FEWEST, len(outside))
    return np.asarray(np.where(few, np.quantile(outcome[outside], share), found)[group[inside]])


def regress_quantile(x: Floats, y: Floats, share: float, beta: Floats | None = None) -> Floats:
    """Weights of linear quantile regression, by majorising (Hunter and Lange 2000)."""
    rounds = ROUNDS if beta is None else WARM_ROUNDS
    ridge = 1e-9 * len(y) * np.eye(x.shape[1])
    smooth = SMOOTH * max(float(y.std()), 1e-300)
    found = np.asarray(np.linalg.solve(x.T @ x + ridge, x.T @ y) if beta is None else beta, np.float64)
    for _ in range(rounds):
        weight = smooth / (smooth + np.abs(y - x @ found))
        weighted = x * weight[:, None]
        found = np.linalg.solve(weighted.T @ x + ridge, weighted.T @ y + smooth * (2 * share - 1) * x.sum(axis=0))
    return found
