"""Tests whether recorded probabilities fit the actions, by bets against them that are learned on half of the steps.

If b is the probability of the action taken, any distribution q over actions has E[q(a) / b(a)] <= 1 at every step,
given the observation. Betting capital that is multiplied by 1 + lambda (q(a) / b(a) - 1) therefore grows only by
chance: it exceeds 1 / p with a probability of at most p (Ville's inequality). q is learned on one half of the steps,
from the dependence of 1[action] / b on the observation, and is used for bets on the other half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Floats, Integers
from gradtd.logs.log import Log

if TYPE_CHECKING:
    from gradtd.logs.ratios import Ratios

MOST_STEPS = 20_000
"""Maximum number of steps to use; from longer logs, the first steps are used."""
FEWEST_STEPS = 100
MOST_COLUMNS, MOST_SQUARES = 40, 8
"""Maximum number of continuous columns in the regressions, and of columns for squares and products."""
ADDED = 5.0
"""A state's mean is shrunk towards the overall mean, which counts as this number of steps."""
STAKES = (0.05, 0.15, 0.4, 0.8)
CAPITAL = float(np.log(1e5))
"""Logarithm of the capital that counts as evidence: by chance, 1 log in 100,000 reaches it."""
LEAST_GAIN = 0.05
"""Mean gain below which a difference is a rounding effect that hardly changes a value."""
MOST_INVERSE = 100.0
"""Upper limit of inverse probabilities when bets are learned."""
UNRELATED = 3.0
"""Correlation on the other half, in standard errors, below which numbers are unrelated to their rows."""
CLOSER = 0.3
"""Factor by which numbers must correlate better with the neighbouring rows to count as shifted."""


def with_doubt(log: Log, found: Ratios, by_row: bool) -> Ratios:
    """The ratios, with any evidence against the probabilities that they were computed from.

    ``by_row`` says that the target's probabilities were given by row and not by a function.
    """
    if len(log) < FEWEST_STEPS or found.estimated:
        return found
    table = RowTable.of(log)
    doubt = None
    if found.behaviour is not None and table.beats(found.behaviour):
        doubt = BEHAVIOUR_DOUBT
    elif not found.clipped and table.beats_ratios(found.rho):
        doubt = RATIO_DOUBT
    if doubt is not None:
        return replace(found, doubt=doubt)
    moved = _against_rows(table, found.rho if found.target is None else found.target) if by_row else None
    return found if moved is None else replace(found, notes=(*found.notes, moved))


def fits(log: Log, behaviour: Floats, rho: Floats | None = None) -> bool:
    """Whether no bet wins against the probabilities of the actions taken, or against the ratios."""
    table = RowTable.of(log)
    return len(log) < FEWEST_STEPS or not (table.beats(behaviour) or (rho is not None and table.beats_ratios(rho)))


BEHAVIOUR_DOUBT = (
    "The behaviour's probabilities do not fit the actions, which were taken more often or less often than recorded"
)
RATIO_DOUBT = "The importance ratios do not have mean 1, as correct ratios do"


def _against_rows(table: RowTable, numbers: Floats) -> str | None:
    """A warning if the target's numbers are unrelated to their rows, or fit the neighbouring rows better."""
    if table.action is None:  # they depend on an unrecorded action, whose effect the next observation shows
        return None
    numbers = numbers[: len(table)]
    apart = within(table.action, numbers)
    if float(apart @ apart) <= 1e-9 * float(numbers @ numbers):  # they depend only on the action
        return None
    own, before, after = (table.explained(numbers, by) for by in (0, 1, -1))
    if max(before, after) > own + CLOSER:
        return (
            f"The target's probabilities fit the observations and actions of the "
            f"{'previous' if before > after else 'next'} rows better than those of their own rows: they seem to "
            f"be shifted by one row. Shift them back."
        )
    if own * np.sqrt(len(table)) < UNRELATED:
        return (
            "The target's probabilities are unrelated to the observations and actions of their rows, so they may be "
            "in another order. Give them as a column of the log, or as a Series with the index of its frame."
        )
    return None


def within(action: Integers | None, numbers: Floats) -> Floats:
    """Numbers minus their mean over the steps with the same action."""
    codes = np.zeros(len(numbers), np.int64) if action is None else action
    return np.asarray(numbers - (np.bincount(codes, numbers) / np.maximum(np.bincount(codes), 1))[codes])


@dataclass(frozen=True, eq=False)
class RowTable:
    """The observations of a set of steps, as cells or as columns, and the actions taken."""

    state: Integers | None
    x: Floats
    action: Integers | None
    episode: Integers

    @classmethod
    def of(cls, log: Log) -> RowTable:
        n = min(len(log), MOST_STEPS)
        rows, state, x = log.row[:n], None, np.zeros((n, 0))
        if log.discrete_observations:
            state = np.unique(log.observations[rows], return_inverse=True)[1]
        else:
            x = _columns(np.asarray(log.observations[rows], np.float64).reshape(n, -1)[:, :MOST_COLUMNS])
        codes = None if log.action is None or not log.discrete_actions else log.action[:n]
        action = None if codes is None else np.unique(codes, return_inverse=True)[1]
        return cls(state, x, action, log.episode[:n])

    def __len__(self) -> int:
        return len(self.episode)

    def predicted(self, fit: Integers, at: Integers, wanted: Floats) -> Floats:
        """Means of ``wanted`` given the observation, learned on the steps ``fit``, for the steps ``at``."""
        y = wanted[fit]
        if self.state is not None:
            states = int(self.state.max()) + 1
            count = np.bincount(self.state[fit], minlength=states)
            sums = np.stack([np.bincount(self.state[fit], column, states) for column in y.T], axis=1)
            return np.asarray(((sums + ADDED * y.mean(axis=0)) / (count + ADDED)[:, None])[self.state[at]])
        x = self.x[fit]
        C = x.T @ x + 1e-3 * len(x) * np.eye(x.shape[1])
        return np.asarray(self.x[at] @ np.linalg.solve(C, x.T @ y))

    def beats(self, behaviour: Floats) -> bool:
        """Whether a bet on the action with the largest ratio of frequency to probability wins."""
        if self.action is None:
            return False
        taken = self.action
        inverse = 1 / np.maximum(behaviour[: len(self)], 1 / MOST_INVERSE)
        wanted = inverse[:, None] * np.eye(int(taken.max()) + 1)[taken]

        def bet(fit: Integers, at: Integers) -> Floats:
            choice = self.predicted(fit, at, wanted).argmax(axis=1)
            return np.where(choice == taken[at], 1 / behaviour[at], 0.0) - 1

        return self.wins(bet)

    def beats_ratios(self, rho: Floats) -> bool:
        """Whether a bet against the ratios wins: their mean given any observation is 1, or less if the log lacks
        actions."""
        if (rho == 1).all():
            return False
        capped = np.minimum(rho[: len(self)], MOST_INVERSE)[:, None]

        def bet(fit: Integers, at: Integers) -> Floats:
            return np.where(self.predicted(fit, at, capped)[:, 0] > 1, rho[at] - 1, 0.0)

        return self.wins(bet)

    def wins(self, bet: Callable[[Integers, Integers], Floats]) -> bool:
        """Whether bets that are learned on one half of the steps and made on the other half win in total."""
        halves = self.halves()
        gains = [bet(*halves), bet(*halves[::-1])]
        logs = [np.log1p(np.multiply.outer(STAKES, gain)).sum(axis=1) for gain in gains]
        capital = np.logaddexp.reduce(np.concatenate(logs)) - np.log(2 * len(STAKES))
        return bool(capital > CAPITAL and np.concatenate(gains).mean() > LEAST_GAIN)

    def expected(self, numbers: Floats, some: NDArray[np.bool_]) -> Floats:
        """Predictions of the numbers at the steps ``some`` from observation and action. Each is learned on the other
        half of the steps."""
        found, wanted = np.zeros(numbers.shape), numbers.reshape(len(self), -1)
        action = np.zeros(len(self), np.int64) if self.action is None else self.action
        halves = self.halves()
        for code in np.unique(action[some]):
            for fit, at in (halves, halves[::-1]):
                fit, at = (steps[some[steps] & (action[steps] == code)] for steps in (fit, at))
                if len(fit) and len(at):
                    found[at] = self.predicted(fit, at, wanted).reshape(found[at].shape)
        return found

    def explained(self, numbers: Floats, by: int = 0) -> float:
        """The correlation of numbers, within an action, with predictions for rows shifted by ``by``."""
        state, action = (None if one is None else np.roll(one, by) for one in (self.state, self.action))
        moved = replace(self, state=state, x=np.roll(self.x, by, axis=0), action=action)
        apart = within(action, numbers)
        expected = moved.expected(apart, np.ones(len(self), bool))
        return float(np.corrcoef(expected, apart)[0, 1]) if np.ptp(expected) > 0 else 0.0

    def halves(self) -> tuple[Integers, Integers]:
        """Two halves of the log: even and odd episodes or, with few episodes, the first and second half of the
        steps."""
        number = np.unique(self.episode, return_inverse=True)[1]
        second = number % 2 == 1 if number[-1] >= 10 else np.arange(len(number)) >= len(number) // 2
        return np.flatnonzero(~second), np.flatnonzero(second)


def _columns(seen: Floats) -> Floats:
    """A constant, the standardised columns, and squares and products of the first ones."""
    largest = np.abs(seen).max(axis=0, initial=0.0)
    seen = seen / np.where(largest > 1e100, largest, 1.0)  # squares of larger numbers would overflow
    spread = seen.std(axis=0)
    z = np.clip((seen - seen.mean(axis=0)) / np.where(spread > 0, spread, 1.0), -3, 3)
    few = min(z.shape[1], MOST_SQUARES)
    products = [z[:, i] * z[:, j] for i in range(few) for j in range(i + 1)]
    return np.column_stack([np.ones(len(z)), z, *products])
