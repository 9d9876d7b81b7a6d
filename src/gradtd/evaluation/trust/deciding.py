"""The decision: which rung's value is reported, and with which interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gradtd.core.blas import one_thread
from gradtd.evaluation.trust.checking import LEAST_TRACE, Fits, all_fits
from gradtd.evaluation.trust.enriching import STEP
from gradtd.evaluation.trust.fits import Fit
from gradtd.evaluation.trust.records import GIVEN, Record, Wide
from gradtd.evaluation.trust.size import DEPENDENT, faults, interval

WIDER, WIDER_REAL = 2.5, 3.0
"""Times that the hull may be wider than the interval of the features chosen: discrete and real observations."""
CREEPS = 3.5
"""Most times the step to richer features that the interval reaches, where no rung is the last."""
SMALL = 0.4
"""A hull of this width, in deviations of the value over the states visited, is not too wide."""
WIDEST = 4.5
"""Times that such a hull may be wider than the interval of the features chosen even so: beyond, they are too poor."""
RICHER = 1.15
"""Times the columns that a checker must have to count as richer."""
LACK = 0.2
"""Part of the target's choices that the log may lack, unless that can move the value by half an interval at most."""
MET = 0.5
"""Least effective number of steps that the error rests on, if surprises fell on any of them alike."""
FAR = 3.0
"""Paired errors from which on a checker that is too wide to say much speaks against a value even so."""


class Interval(NamedTuple):
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


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

    @property
    def word(self) -> str:
        """The verdict of the checks alone."""
        if self.faults or self.differs or self.hides or self.hull.width > self.limit:
            return "not usable"
        return "usable" if self.memory and (self.richer or not self.needs_richer) else "unchecked"


@one_thread()
def decide(record: Record, wide: Wide, level: float = 0.95) -> Decision:
    """The first rung that may be the headline and that nothing speaks against; else what speaks against one."""
    with np.errstate(all="ignore"):  # what is no number is a fault of the fit
        fits = all_fits(record, wide)
        found = decide_from(fits, wide, level)
        if found.word == "unchecked" and not found.memory and fits.lam >= 2 * LEAST_TRACE:
            again = decide_from(all_fits(record, wide, fits.lam / 2), wide, level)  # less memory, and less variance
            found = again if again.word == "usable" else found
        return found


def decide_from(fits: Fits, wide: Wide, level: float) -> Decision:
    """The same, from fits that were made already."""
    best: Decision | None = None
    for name in wide.headlines:
        found = _judged(name, fits, wide, level)
        if best is None or found.word == "usable" or (found.word == "unchecked" and best.word == "not usable"):
            best = found
        if found.word == "usable":
            break
    assert best is not None
    return _with_checks(best, fits, wide, level)


def _judged(name: str, fits: Fits, wide: Wide, level: float) -> Decision:
    fit = fits.plain[name]
    own = Interval(*interval(fit, level))
    why = faults(fit)
    if fit.lack > LACK and fit.missed > own.width / 2:
        why.append("the target's choices are missing")
    if fit.met < MET:
        why.append("the largest weights have met no surprise")
    if fits.times > DEPENDENT:
        why.append("blocks depend on each other")
    limit = max((WIDER_REAL if wide.endless else WIDER) * own.width, min(SMALL * fit.spread, WIDEST * own.width))
    complete = wide.complete and name == GIVEN
    needs_richer = not (complete or _saturated(fit, fits, wide))
    found = Decision(name, fit, own, own, limit, "", 0, 0, needs_richer, tuple(why), fits.times)
    return found if why else _against(found, fits, wide, level)


def _saturated(fit: Fit, fits: Fits, wide: Wide) -> bool:
    """Whether many more columns have no more directions: the features tell all observations apart."""
    most = max(len(columns) for columns in (wide.rungs | wide.checkers).values())
    return most >= 2 * fit.columns and all(other.columns <= fit.columns for other in fits.plain.values())


def _against(found: Decision, fits: Fits, wide: Wide, level: float) -> Decision:
    """The hull of the intervals of the fit and of its checkers that say enough, and what speaks against it."""
    fit, low, high, differs = found.fit, found.own.low, found.own.high, ""
    counted = {"richer": 0, "memory": 0}
    memory = [group[found.rung] for group in (fits.traced, fits.robust) if found.rung in group]
    for kind, group in (("richer", _ahead(found, fits, wide)), ("memory", memory)):
        for other in group:
            if faults(other):
                continue
            its = Interval(*interval(other, level))
            apart = other.value - fit.value
            if its.width > found.limit:  # says too little, unless it is far away
                if abs(apart) > max(FAR * paired_error(fit, other), fit.error):
                    differs = differs or other.name
                continue
            near = kind == "richer" and wide.endless and fit.columns < other.columns < STEP * fit.columns
            counted[kind] += not near  # it widens the hull, and is too near to be the only check
            low, high = min(low, its.low), max(high, its.high)
            if wide.endless and kind == "richer":  # what richer features would add, if they add as much again
                more = apart * beyond(fit.columns, other.columns)
                low, high = min(low, found.own.low + more), max(high, found.own.high + more)
    for other in _just_below(fit, fits, wide) if wide.endless and counted["richer"] else ():
        more = (other.value - fit.value) * beyond(fit.columns, other.columns)
        low, high = min(low, found.own.low + more), max(high, found.own.high + more)
    hides, late = _with_time(found, Interval(low, high), fits, wide, level)
    hull = found.own if differs else late
    richer, memory_checks = counted["richer"], counted["memory"]
    return replace(found, hull=hull, differs=differs, hides=hides, richer=richer, memory=memory_checks)


def _with_time(found: Decision, hull: Interval, fits: Fits, wide: Wide, level: float) -> tuple[float, Interval]:
    """How far the fit with the time is away, where the others do not say the same; and the hull with its interval.

    Where features could always be richer the time stands in for the state, the more the poorer they are. So it is put
    beside the richest that the log can carry, and what it moves there is what it would move here.
    """
    name = next((n for n in reversed(wide.headlines) if _is_timed(n, fits)), "") if wide.endless else found.rung
    if not _is_timed(name, fits):
        return 0.0, hull
    fit, other = fits.plain[name], fits.timed[name]
    apart, error, shift = abs(other.value - fit.value), paired_error(fit, other), found.fit.value - fit.value
    if apart > max(FAR * error, fit.error) and not hull.low <= other.value + shift <= hull.high:
        return apart / max(error, 1e-300), hull
    its = Interval(*interval(other, level))
    if its.width > found.limit:
        return 0.0, hull
    return 0.0, Interval(min(hull.low, its.low + shift), max(hull.high, its.high + shift))


def _is_timed(name: str, fits: Fits) -> bool:
    """Whether there are sound fits with the time and without it."""
    return name in fits.timed and not faults(fits.timed[name]) and not faults(fits.plain[name])


def _just_below(fit: Fit, fits: Fits, wide: Wide) -> list[Fit]:
    """The richest rung with at most so many columns that the step from it still says how fast the value moves."""
    below = [fits.plain[name] for name in wide.rungs if STEP * fits.plain[name].columns <= fit.columns]
    return [f for f in below[-1:] if not faults(f) and 2 * RICHER * f.columns >= fit.columns]


def _ahead(found: Decision, fits: Fits, wide: Wide) -> list[Fit]:
    """Richer fits; for the last rung that the log can carry, those not far below."""
    fit, names = found.fit, list(wide.rungs)
    later = (*names[names.index(found.rung) + 1 :], *wide.checkers)
    ahead = [
        f for f in map(fits.plain.get, later) if f and (f.columns >= RICHER * fit.columns or not found.needs_richer)
    ]
    if not found.needs_richer or any(not faults(f) for f in ahead):
        return ahead
    poorer = [f for f in fits.plain.values() if f.columns < fit.columns]
    return [f for f in poorer if 2 * RICHER * f.columns >= fit.columns >= RICHER * f.columns]


def beyond(columns: int, other: int) -> float:
    """How far the limit of ever more columns is, in steps from one number of columns to the other.

    As if what is missing fell with one over the number of columns (Richardson's extrapolation).

    >>> beyond(10, 20), beyond(20, 10)
    (2.0, -1.0)
    """
    ratio = max(other, 1) / max(columns, 1)
    return min(ratio / (ratio - 1), CREEPS) if ratio > 1 else -min(ratio / max(1 - ratio, 1e-9), CREEPS - 1)


def paired_error(a: Fit, b: Fit) -> float:
    """The standard error of the difference of two values on the same pieces."""
    E = len(a.psi)
    return float(np.sqrt(((a.psi - b.psi) ** 2).sum() / (E * max(E - 1, 1))))


def _with_checks(found: Decision, fits: Fits, wide: Wide, level: float) -> Decision:
    rows = [_check(fit, "rung" if name in wide.rungs else "checker", level) for name, fit in fits.plain.items()]
    rows += [_check(fit, "memory", level) for fit in fits.traced.values()]
    rows += [_check(fit, "time", level) for fit in fits.timed.values()]
    rows += [_check(fit, "doubly robust", level) for fit in fits.robust.values()]
    chosen = [replace(row, chosen=(row.kind, row.name) == ("rung", found.rung)) for row in rows]
    return replace(found, checks=tuple(chosen))


def _check(fit: Fit, kind: str, level: float) -> Check:
    fault = ", ".join(faults(fit))
    low, high = interval(fit, level) if np.isfinite(fit.error) else (np.nan, np.nan)
    return Check(fit.name, kind, fit.columns, fit.value, low, high, fault, False)
