"""Decides which rung's value is reported, and with which interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gradtd.core.blas import one_thread
from gradtd.evaluation.checks import Equations, Fits, all_fits
from gradtd.evaluation.designs.base import GIVEN, Ladder
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import NO_INTERVAL, Compared, Interval, extrapolation, faults, interval, paired_error
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.markov import Predicted

JUDGED = 0.95
"""The level at which fits are compared."""


@dataclass(frozen=True)
class Check:
    """One row of the table of rungs and checks.

    Parameters
    ----------
    name
        The features.
    kind
        "rung", "checker", "memory" (with traces), "time" (with the time since the start), "past" (with earlier steps),
        "cut" (the value after truncations, from late steps) or "doubly robust".
    columns
        Rank of the features.
    value, low, high
        Its value and interval.
    fault
        Why the log is too small for it; empty if the log is large enough.
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
    """The chosen rung, its fit, its interval with and without the bias shown by checks, and the results of the checks.

    Parameters
    ----------
    own, hull
        Intervals at the level `JUDGED`: from the influences alone, and extended on each side by the bias that checks
        show.
    limit
        The largest allowed width of the hull.
    differs
        The name of an imprecise check that nevertheless differs significantly.
    hides, hides_past
        Distance of the fit with the time, or with the past, in paired errors, if it shows that the observations hide
        something; else 0. ``hides_cut`` is the same for the value after truncations, fitted to late steps.
    richer, memory
        Number of precise enough checks of each kind.
    needs_richer
        Whether a richer check is needed because the features could be too poor.
    behind
        The share of the value after truncations, or None if few pieces are truncated.
    bias
        The largest bias shown by a check, beyond its own error.
    rare
        Share of the target's time in states that the log rarely visited, if it is above the limit; else 0.
    predicted
        What predicts the next step in addition to the observation and the action, if anything.
    added
        For continuous observations, the fits with the "time" and with the "past" beside those without, on the richest
        features that the log supports.
    shown
        The hull at the requested level.
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
    hides_past: float = 0.0
    hides_cut: float = 0.0
    behind: float | None = None
    bias: float = 0.0
    shown: Interval = NO_INTERVAL
    rare: float = 0.0
    predicted: Predicted | None = None
    added: Mapping[str, Compared] = field(default_factory=dict)

    @property
    def hidden(self) -> bool:
        """Whether a check shows that observations hide the time or part of the state."""
        return self.hides > 0 or self.hides_past > 0 or self.hides_cut > 0

    def within(self, low: float, high: float) -> Decision:
        """The decision with its interval limited to the range of possible returns, unless it lies outside entirely."""
        shown = Interval(max(self.shown.low, low), min(self.shown.high, high))
        return replace(self, shown=shown) if shown.low < shown.high else self

    def refutes(self, repaired: Decision, kind: str, limits: Limits = DEFAULT) -> bool:
        """Whether the fit with "time" or "past" features contradicts the value that was estimated with the time or the
        past added to the observations.

        It does if that value is far from it, and this decision shows nothing hidden or the two move the value in
        opposite directions. With more columns of observations features are poorer, and no check may see that.
        """
        shown = self.added.get(kind)
        if shown is None or not Compared(kind, shown.fit, repaired.fit).is_far(repaired.fit, limits):
            return False
        back = (repaired.fit.value - shown.base.value) * shown.apart <= 0
        return back or not (self.hidden or self.predicted)

    @property
    def word(self) -> str:
        """The verdict of the checks alone."""
        if self.faults or self.differs or self.hidden or self.predicted or self.rare or self.hull.width > self.limit:
            return "not usable"
        return "usable" if self.memory and (self.richer or not self.needs_richer) else "unchecked"


@one_thread()
def decide(equations: Equations, level: float = 0.95, limits: Limits = DEFAULT) -> Decision:
    """The rung with the smallest estimated error, if possible one without objections.

    Fits are judged at `JUDGED`, whatever the requested level: the verdict is about the log, not about the level.
    """
    with np.errstate(all="ignore"):  # non-finite values count as faults of the fit
        fits = all_fits(equations, equations.other_lambda(limits), limits)
        judge = _Judge(fits, equations.ladder, JUDGED, limits)
        return judge.shown(judge.decision(), level)


@dataclass(frozen=True, eq=False)
class _Judge:
    """Compares the fits of one target, and decides which value is reported."""

    fits: Fits
    ladder: Ladder
    level: float
    limits: Limits

    def decision(self) -> Decision:
        """The usable headline with the smallest estimated error, else the first unchecked one, else the first.

        With discrete observations, if a sound fit with the time or the past contradicts a headline, headlines with
        fewer features are also excluded, because the check has less power there.
        """
        made: list[Decision] = []
        for name in self.ladder.headlines:
            made.append(self.judged(name))
            if made[-1].hidden and not self.ladder.endless:
                break

        def score(one: Decision) -> float:
            return self.likely_error(one.fit) * (1.0 if one.word == "usable" else self.limits.prefer_usable)

        rare = self.fits.rare if self.fits.rare > self.limits.most_rarely_visited else 0.0
        predicted = next((one for one in self.fits.markov if one.is_far(self.limits, self.ladder.endless)), None)
        kinds = ("time", "past") if self.ladder.endless else ()
        added = {kind: one for kind in kinds for one in self._added(kind, self.ladder.headlines)}
        return replace(min(made, key=score), rare=rare, predicted=predicted, added=added)

    def likely_error(self, fit: Fit) -> float:
        """The estimated error of a value: its standard error, jackknife bias and feature bias.

        The feature bias is the distance from the richest fit that the log supports, beyond two paired errors. It is
        that of the focused information criterion (Claeskens and Hjort, 2003), which subtracts one: with one, chance
        decides between sets of features that do not differ significantly.
        """
        apart = 0.0
        if self.richest is not None and fit is not self.richest:
            chance = self.limits.apart_by_chance * paired_error(fit, self.richest)
            apart = max(0.0, (fit.value - self.richest.value) ** 2 - chance**2)
        made = float(np.sqrt(fit.error**2 + fit.bias**2 + apart))
        return made if np.isfinite(made) else np.inf

    @cached_property
    def richest(self) -> Fit | None:
        """The fit with the most columns whose jackknife bias does not exceed its error, and whose error is not far
        larger than that of other fits.
        """
        carried = [f for f in self.fits.plain.values() if self.carried(f)]
        if not carried:
            return None
        most = self.limits.most_imprecise * float(np.median([f.error for f in carried]))
        return max((f for f in carried if f.error <= most), key=lambda f: f.columns)

    def carried(self, fit: Fit) -> bool:
        return np.isfinite(fit.value) and 0 < fit.error < np.inf and abs(fit.bias) <= fit.error

    def shown(self, made: Decision, level: float) -> Decision:
        """The decision with its interval at the requested level, and the table of all fits."""
        if level == self.level:
            return replace(made, shown=made.hull, checks=self.table(made.rung))
        other = replace(self, level=level)
        return replace(made, shown=other.judged(made.rung).hull, checks=other.table(made.rung))

    def interval(self, fit: Fit) -> Interval:
        return Interval(*interval(fit, self.level, self.limits))

    def sound(self, fit: Fit) -> bool:
        return not faults(fit, self.limits)

    def judged(self, name: str) -> Decision:
        """The decision for one rung, with the objections to it."""
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
        # The hull may be wider if the interval is small relative to the spread of values over states.
        widest = min(limits.hull_deviations * fit.spread, limits.hull_times_widest * own.width)
        limit = max(limits.hull_times * own.width, widest)
        complete = ladder.complete and name == GIVEN
        chosen = fits.alone and (name != GIVEN or self._spans_constant(fit))
        needs_richer = not (complete or chosen or self._saturated(fit))
        made = Decision(name, fit, own, own, limit, "", 0, 0, needs_richer, tuple(why), fits.dependence)
        made = replace(made, behind=None if fits.behind is None else fits.behind.share)
        return made if why else self.against(made)

    def _spans_constant(self, fit: Fit) -> bool:
        """Whether the features contain a constant, so that the value equals the doubly robust one.

        One-step episodes need no other features: with a constant, the value is weighted importance sampling, and other
        features only reduce its variance.
        """
        robust = self.fits.robust.get(fit.name)
        return robust is not None and abs(robust.value - fit.value) <= self.limits.rounding * fit.error

    def _saturated(self, fit: Fit) -> bool:
        """Whether adding many columns adds no rank, because the features already separate all observations."""
        most = max(len(columns) for columns in self.ladder.sets.values())
        return most >= 2 * fit.columns and all(other.columns <= fit.columns for other in self.fits.plain.values())

    def against(self, made: Decision) -> Decision:
        """The interval, extended by the bias that precise checks show, and the objections."""
        fit, limits = made.fit, self.limits
        up, down, differs = 0.0, 0.0, ""
        counted = {"richer": 0, "memory": 0}
        hides = {"time": 0.0, "past": 0.0, "cut": 0.0}
        for other in self._others(made):
            if not self.sound(other.fit):
                continue
            kind, error = other.kind, other.error
            far = other.is_far(fit, limits)
            if error > limits.most_blind * fit.error:  # too imprecise, unless it is far away
                differs = differs or (other.fit.name if far else "")
                continue
            if kind in hides and other.times == 1:
                hides[kind] = max(hides[kind], other.apart_errors) if far else hides[kind]
            if kind in counted:
                counted[kind] += self._counts(other)
            counted["memory"] += kind == "past"
            up, down = max(up, other.bias), max(down, -other.bias)
        hull = Interval(made.own.low - down, made.own.high + up)
        return replace(
            made,
            hull=made.own if differs else hull,
            differs=differs,
            hides=hides["time"],
            hides_past=hides["past"],
            hides_cut=hides["cut"],
            richer=counted["richer"],
            memory=counted["memory"] + self.fits.alone,
            bias=max(up, down),
        )

    def _counts(self, other: Compared) -> bool:
        """Whether a check is sufficient if it is precise. Checks with similar features or shortened traces are not."""
        if other.kind == "memory":
            return other.fit is self.fits.robust.get(other.fit.name) or not self._short_traces
        columns = other.base.columns
        return not (self.ladder.endless and columns < other.fit.columns < self.limits.step_columns * columns)

    @property
    def _short_traces(self) -> bool:
        """Whether ratios forbid traces, so that lambda is at its minimum, which reduces a bias only partly."""
        return 0 < self.fits.lam <= self.limits.least_lambda

    def _others(self, made: Decision) -> list[Compared]:
        """All fits that are used to check a rung.

        If features could always be richer, features of the time and the past may substitute for missing features of the
        state. They are therefore added to the richest features that the log supports.
        """
        name, fit, endless = made.rung, made.fit, self.ladder.endless
        if self.fits.alone and not made.needs_richer:
            return []
        others = self._richer(made)
        if endless and any(self.sound(one.fit) for one in others):
            others += [Compared("below", fit, f, self.beyond(fit.columns, f.columns)) for f in self._just_below(fit)]
        for group in (self.fits.traced, self.fits.robust):
            others += [Compared("memory", fit, group[name])] if name in group else []
        names = self.ladder.headlines if endless else (name,)
        cut = [] if self.fits.behind is None else [Compared("cut", self.fits.behind.plain, self.fits.behind.late)]
        return [*others, *self._added("time", names), *self._added("past", names), *cut]

    def _richer(self, made: Decision) -> list[Compared]:
        """Comparisons with richer fits. If features could always be richer, the bias is extrapolated from the richest
        precise one: where a still richer fit is precise, no extrapolation to it is needed.
        """
        fit, ahead = made.fit, self._ahead(made)
        if not self.ladder.endless:
            return [Compared("richer", fit, f) for f in ahead]
        most = self.limits.most_blind * fit.error
        precise = [f for f in ahead if self.sound(f) and paired_error(fit, f) <= most]
        last = max((f.columns for f in precise), default=0)
        between = [fit.columns < f.columns < last for f in ahead]
        times = [1.0 if b else self.beyond(fit.columns, f.columns) for f, b in zip(ahead, between, strict=True)]
        return [Compared("richer", fit, f, t) for f, t in zip(ahead, times, strict=True)]

    def _added(self, kind: str, names: Iterable[str]) -> list[Compared]:
        """Compare every named headline to the same fit with "time" or "past" features added, and return the comparison
        that counts, if there is one."""
        plain, timed, past = self.fits.plain, self.fits.timed, self.fits.past
        if kind == "time":
            beside = [Compared(kind, plain[n], timed[n]) for n in names if n in timed and self.sound(plain[n])]
        else:
            beside = [Compared(kind, *past[n]) for n in names if n in past and self.sound(plain[n])]
        return self._of_richest(beside)

    def _of_richest(self, beside: list[Compared]) -> list[Compared]:
        """The comparison for the richest features. It counts less if adding the time or the past shifts richer features
        less.

        Information that observations hide shifts every fit equally, while poor features shift the richest fits least.
        """
        sound = [other for other in beside if self.sound(other.fit)]
        if not sound:
            return []
        moved = [abs(other.apart) for other in sound]
        left = moved[-1] / max(float(np.median(moved)), 1e-300)
        return [sound[-1]._replace(times=left if left < self.limits.least_left else 1.0)]

    def _just_below(self, fit: Fit) -> list[Fit]:
        """The richest rung small enough that the step from it still shows how fast the value changes."""
        step, richer = self.limits.step_columns, self.limits.richer_columns
        rungs = [self.fits.plain[name] for name in self.ladder.rungs]
        below = [f for f in rungs if step * f.columns <= fit.columns]
        return [f for f in below[-1:] if self.sound(f) and 2 * richer * f.columns >= fit.columns]

    def _ahead(self, made: Decision) -> list[Fit]:
        """The fits with more columns. For the largest rung that the log supports, the fits with slightly fewer
        columns."""
        fit, names, richer = made.fit, list(self.ladder.rungs), self.limits.richer_columns
        later = (*names[names.index(made.rung) + 1 :], *self.ladder.checkers)
        plain = self.fits.plain
        ahead = [f for f in map(plain.get, later) if f and (f.columns >= richer * fit.columns or not made.needs_richer)]
        if not made.needs_richer or any(map(self.sound, ahead)):
            return ahead
        poorer = [f for f in plain.values() if f.columns < fit.columns]
        return [f for f in poorer if 2 * richer * f.columns >= fit.columns >= richer * f.columns]

    def beyond(self, columns: int, other: int) -> float:
        """The result of `extrapolation` from one number of columns to another, limited to the allowed range."""
        most = self.limits.most_extrapolation
        return float(np.clip(extrapolation(columns, other), 1 - most, most))

    def table(self, rung: str) -> tuple[Check, ...]:
        """The rows of the table of checks, one per fit."""
        fits = self.fits
        rows = [self._row(fit, "rung" if name in self.ladder.rungs else "checker") for name, fit in fits.plain.items()]
        rows = [replace(row, chosen=(row.kind, row.name) == ("rung", rung)) for row in rows]
        past = {name: both.past for name, both in fits.past.items()}
        behind = {} if fits.behind is None else {"late": fits.behind.late}
        groups = {"memory": fits.traced, "time": fits.timed, "past": past, "cut": behind, "doubly robust": fits.robust}
        for kind, group in groups.items():
            rows += [self._row(fit, kind) for fit in group.values()]
        return tuple(rows)

    def _row(self, fit: Fit, kind: str) -> Check:
        low, high = self.interval(fit) if np.isfinite(fit.error) else (np.nan, np.nan)
        fault = ", ".join(faults(fit, self.limits))
        return Check(fit.name, kind, fit.columns, fit.value, low, high, fault, False)
