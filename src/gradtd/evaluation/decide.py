"""The decision: which rung's value is reported, and with which interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gradtd.core.blas import one_thread
from gradtd.evaluation.checks import Equations, Fits, all_fits
from gradtd.evaluation.designs.base import GIVEN, Ladder
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import faults, interval, paired_error
from gradtd.evaluation.limits import DEFAULT, Limits

JUDGED = 0.95
"""The level at which fits are compared."""


class Interval(NamedTuple):
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


NO_INTERVAL = Interval(np.nan, np.nan)


@dataclass(frozen=True)
class Check:
    """One row of the table of rungs and checkers.

    Parameters
    ----------
    name
        The features.
    kind
        "rung", "checker", "memory" (with traces), "time" (with the time since the start) or "doubly robust".
    columns
        Directions that the features have.
    value, low, high
        What it says of the value, with its own interval.
    fault
        Why the log is too small for it; empty where it is sound.
    chosen
        Whether its value is the one reported.
    """

    name: str
    kind: str
    columns: int
    value: float
    low: float
    high: float
    fault: str
    chosen: bool


@dataclass(frozen=True, eq=False)
class Decision:
    """A rung, its fit, its own interval, the hull of it and of its checkers', and what was found on the way.

    Parameters
    ----------
    own, hull
        Both at the level `JUDGED`.
    limit
        How wide the hull may be.
    differs
        The name of a checker that says little and is far away even so.
    hides
        How many paired errors the fit with the time is away, where that says that the observations hide it; else 0.
    richer, memory
        How many checks of each kind had power.
    needs_richer
        Whether the features could be too poor, so that a richer check is needed.
    shown
        The hull at the level asked for.
    """

    rung: str
    fit: Fit
    own: Interval
    hull: Interval
    limit: float
    differs: str
    richer: int
    memory: int
    needs_richer: bool
    faults: tuple[str, ...]
    dependent: float
    checks: tuple[Check, ...] = ()
    hides: float = 0.0
    shown: Interval = NO_INTERVAL

    @property
    def word(self) -> str:
        """The verdict of the checks alone."""
        if self.faults or self.differs or self.hides or self.hull.width > self.limit:
            return "not usable"
        return "usable" if self.memory and (self.richer or not self.needs_richer) else "unchecked"


@one_thread()
def decide(equations: Equations, level: float = 0.95, limits: Limits = DEFAULT) -> Decision:
    """The first rung that may be the headline and that nothing speaks against; else what speaks against one.

    Fits are judged at `JUDGED`, whatever level is asked for: the verdict is about the log, not about the level.
    """
    lam = equations.other_lambda(limits)
    with np.errstate(all="ignore"):  # what is no number is a fault of the fit
        best, judge = _decide_with(equations, lam, limits)
        if best.word == "unchecked" and not best.memory and lam >= 2 * limits.least_retry_lambda:
            again, other = _decide_with(equations, lam / 2, limits)  # less memory, and less variance
            best, judge = (again, other) if again.word == "usable" else (best, judge)
        return judge.shown(best, level)


def _decide_with(equations: Equations, lam: float, limits: Limits) -> tuple[Decision, _Judge]:
    judge = _Judge(all_fits(equations, lam, limits), equations.ladder, JUDGED, limits)
    return judge.decision(), judge


@dataclass(frozen=True, eq=False)
class _Judge:
    """Compares fits."""

    fits: Fits
    ladder: Ladder
    level: float
    limits: Limits

    def decision(self) -> Decision:
        """The first headline that is usable, else the first that is unchecked, else the first.

        Discrete observations: one that a sound fit with the time refuses leaves no poorer one. Beside fewer features
        the time has less to say, and what the richer ones show stays true.
        """
        best: Decision | None = None
        for name in self.ladder.headlines:
            one = self.judged(name)
            if best is None or one.word == "usable" or (one.word == "unchecked" and best.word == "not usable"):
                best = one
            if one.word == "usable" or (one.hides and not self.ladder.endless):
                best = one
                break
        assert best is not None
        return best

    def shown(self, made: Decision, level: float) -> Decision:
        """The decision with its interval at the level asked for, and the table of all fits."""
        if level == self.level:
            return replace(made, shown=made.hull, checks=self.table(made.rung))
        other = replace(self, level=level)
        return replace(made, shown=other.judged(made.rung).hull, checks=other.table(made.rung))

    def interval(self, fit: Fit) -> Interval:
        return Interval(*interval(fit, self.level, self.limits))

    def sound(self, fit: Fit) -> bool:
        return not faults(fit, self.limits)

    def judged(self, name: str) -> Decision:
        """What speaks against one rung."""
        fits, ladder, limits = self.fits, self.ladder, self.limits
        fit = fits.plain[name]
        own = self.interval(fit)
        why = faults(fit, limits)
        if fit.lack > limits.most_lacking and fit.missed > own.width / 2:
            why.append("the target's choices are missing")
        if fit.met < limits.fewest_surprises:
            why.append("the most heavily weighted steps show no TD error yet")
        if fits.dependence > limits.most_dependence:
            why.append("blocks depend on each other")
        wider = limits.hull_times_real if ladder.endless else limits.hull_times
        # A hull that is small against how much values differ from state to state may be wider.
        limit = max(wider * own.width, min(limits.hull_deviations * fit.spread, limits.hull_times_widest * own.width))
        complete = ladder.complete and name == GIVEN
        needs_richer = not (complete or self._saturated(fit))
        made = Decision(name, fit, own, own, limit, "", 0, 0, needs_richer, tuple(why), fits.dependence)
        return made if why else self.against(made)

    def _saturated(self, fit: Fit) -> bool:
        """Whether many more columns have no more directions: the features tell all observations apart."""
        most = max(len(columns) for columns in self.ladder.sets.values())
        return most >= 2 * fit.columns and all(other.columns <= fit.columns for other in self.fits.plain.values())

    def against(self, made: Decision) -> Decision:
        """The hull of the intervals of the fit and of its checkers that say enough, and what speaks against it."""
        fit, low, high, differs = made.fit, made.own.low, made.own.high, ""
        endless, limits = self.ladder.endless, self.limits
        counted = {"richer": 0, "memory": 0}
        memory = [group[made.rung] for group in (self.fits.traced, self.fits.robust) if made.rung in group]
        for kind, group in (("richer", self._ahead(made)), ("memory", memory)):
            for other in filter(self.sound, group):
                its, apart = self.interval(other), other.value - fit.value
                if its.width > made.limit:  # says too little, unless it is far away
                    if abs(apart) > max(limits.far * paired_error(fit, other), fit.error):
                        differs = differs or other.name
                    continue
                close = kind == "richer" and endless and fit.columns < other.columns < limits.step_columns * fit.columns
                counted[kind] += not close  # it widens the hull, and is too close to be the only check
                low, high = min(low, its.low), max(high, its.high)
                if endless and kind == "richer":  # what richer features would add, if they add as much again
                    more = apart * self.beyond(fit.columns, other.columns)
                    low, high = min(low, made.own.low + more), max(high, made.own.high + more)
        for other in self._just_below(fit) if endless and counted["richer"] else ():
            more = (other.value - fit.value) * self.beyond(fit.columns, other.columns)
            low, high = min(low, made.own.low + more), max(high, made.own.high + more)
        hides, late = self._with_time(made, Interval(low, high))
        hull = made.own if differs else late
        return replace(
            made, hull=hull, differs=differs, hides=hides, richer=counted["richer"], memory=counted["memory"]
        )

    def _with_time(self, made: Decision, hull: Interval) -> tuple[float, Interval]:
        """How far the fit with the time is away, where the others do not say the same; and the hull with its interval.

        Where features could always be richer the time stands in for the state, the more the poorer they are. So it is
        put beside the richest that the log can carry, and counts as it stands there.
        """
        name = made.rung
        if self.ladder.endless:
            name = next((n for n in reversed(self.ladder.headlines) if self._is_timed(n)), "")
        if not self._is_timed(name):
            return 0.0, hull
        fit, other = self.fits.plain[name], self.fits.timed[name]
        apart, error = abs(other.value - fit.value), paired_error(fit, other)
        outside = not hull.low <= other.value <= hull.high
        if apart > max(self.limits.far * error, fit.error) and outside:
            return apart / max(error, 1e-300), hull
        its = self.interval(other)
        if its.width > made.limit:
            return 0.0, hull
        return 0.0, Interval(min(hull.low, its.low), max(hull.high, its.high))

    def _is_timed(self, name: str) -> bool:
        """Whether there are sound fits with the time and without it."""
        timed, plain = self.fits.timed, self.fits.plain
        return name in timed and self.sound(timed[name]) and self.sound(plain[name])

    def _just_below(self, fit: Fit) -> list[Fit]:
        """The richest rung with at most so many columns that the step from it still says how fast the value moves."""
        step, richer = self.limits.step_columns, self.limits.richer_columns
        rungs = [self.fits.plain[name] for name in self.ladder.rungs]
        below = [f for f in rungs if step * f.columns <= fit.columns]
        return [f for f in below[-1:] if self.sound(f) and 2 * richer * f.columns >= fit.columns]

    def _ahead(self, made: Decision) -> list[Fit]:
        """Richer fits; for the last rung that the log can carry, those not far below."""
        fit, names, richer = made.fit, list(self.ladder.rungs), self.limits.richer_columns
        later = (*names[names.index(made.rung) + 1 :], *self.ladder.checkers)
        plain = self.fits.plain
        ahead = [f for f in map(plain.get, later) if f and (f.columns >= richer * fit.columns or not made.needs_richer)]
        if not made.needs_richer or any(map(self.sound, ahead)):
            return ahead
        poorer = [f for f in plain.values() if f.columns < fit.columns]
        return [f for f in poorer if 2 * richer * f.columns >= fit.columns >= richer * f.columns]

    def beyond(self, columns: int, other: int) -> float:
        """`extrapolation` from one number of columns to another, at most as far as the limits allow."""
        most = self.limits.most_extrapolation
        return float(np.clip(extrapolation(columns, other), 1 - most, most))

    def table(self, rung: str) -> tuple[Check, ...]:
        """The rows of all fits."""
        fits = self.fits
        rows = [self._row(fit, "rung" if name in self.ladder.rungs else "checker") for name, fit in fits.plain.items()]
        rows = [replace(row, chosen=(row.kind, row.name) == ("rung", rung)) for row in rows]
        for kind, group in (("memory", fits.traced), ("time", fits.timed), ("doubly robust", fits.robust)):
            rows += [self._row(fit, kind) for fit in group.values()]
        return tuple(rows)

    def _row(self, fit: Fit, kind: str) -> Check:
        low, high = self.interval(fit) if np.isfinite(fit.error) else (np.nan, np.nan)
        fault = ", ".join(faults(fit, self.limits))
        return Check(fit.name, kind, fit.columns, fit.value, low, high, fault, False)


def extrapolation(columns: int, other: int) -> float:
    """How far the limit of ever more columns is, in steps from one number of columns to the other.

    As if what is missing fell with one over the number of columns (Richardson's extrapolation).

    >>> extrapolation(10, 20), extrapolation(20, 10)
    (2.0, -1.0)
    """
    ratio = max(other, 1) / max(columns, 1)
    return ratio / (ratio - 1) if ratio > 1 else -ratio / max(1 - ratio, 1e-9)
