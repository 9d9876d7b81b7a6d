"""Claims, and the criteria that test them: statements about mean curves, with bootstrap intervals over runs.

In each run all algorithms of a figure use the same experience, so resampling runs preserves the pairing. A criterion
that compares errors holds if its 95 % interval implies it, fails if the interval excludes it, and is otherwise
undecided. Criteria about the shape of a curve use the mean curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import pairwise
from typing import Any, Concatenate, ParamSpec

import numpy as np

from gradtd.core.arrays import Floats, Integers

RESAMPLES = 1000


@dataclass(frozen=True)
class Outcome:
    """The outcome of a criterion: True, False or None (undecided), and the measurement in words."""

    holds: bool | None
    measured: str

    @staticmethod
    def of(interval: tuple[float, float], low: float, high: float, measured: str) -> Outcome:
        """Whether an interval lies inside [low, high]."""
        if low <= interval[0] and interval[1] <= high:
            return Outcome(True, measured)
        outside = interval[1] < low or interval[0] > high
        return Outcome(False if outside else None, measured)


class Curves:
    """The curves of a figure under one reading: ``values[label]`` has shape (runs, recorded steps)."""

    def __init__(self, steps: Integers, values: Mapping[str, Floats], diverged: Mapping[str, int]) -> None:
        self.steps, self.values, self.diverged = steps, values, diverged
        runs = next(iter(values.values())).shape[0]
        rng = np.random.default_rng(0)
        self.weights = rng.multinomial(runs, np.full(runs, 1 / runs), size=RESAMPLES) / runs

    def mean(self, label: str) -> Floats:
        return np.asarray(self.values[label].mean(axis=0))

    def resampled(self, label: str) -> Floats:
        """Mean curves of the bootstrap samples, shape (bootstrap samples, steps)."""
        return np.asarray(self.weights @ self.values[label])

    def window(self, first: float, last: float) -> Any:
        return (self.steps >= first) & (self.steps <= last)

    def over(self, label: str, first: float, last: float) -> tuple[float, Floats]:
        """The mean error over a window of steps, and its bootstrap samples."""
        each = self.values[label][:, self.window(first, last)].mean(axis=1)
        return float(each.mean()), np.asarray(self.weights @ each)


Criterion = Callable[[Curves], Outcome]
P = ParamSpec("P")


def criterion(judge: Callable[Concatenate[Curves, P], Outcome]) -> Callable[P, Criterion]:
    """A decorator that turns a function of curves into a factory of criteria with its other arguments."""

    @wraps(judge)
    def of(*arguments: P.args, **settings: P.kwargs) -> Criterion:
        return lambda curves: judge(curves, *arguments, **settings)

    return of


def interval(resamples: Floats) -> tuple[float, float]:
    """The 95 % percentile interval."""
    low, high = np.percentile(resamples, [2.5, 97.5])
    return float(low), float(high)


def _ratio(curves: Curves, a: str, b: str, window: tuple[float, float]) -> tuple[tuple[float, float], str]:
    (value_a, many_a), (value_b, many_b) = curves.over(a, *window), curves.over(b, *window)
    found = interval(many_a / many_b)
    span = f"{window[0]:g}-{min(window[1], float(curves.steps[-1])):g}"
    text = f"{a} / {b} = {value_a / value_b:.3g} [{found[0]:.3g}, {found[1]:.3g}] over steps {span}"
    return found, text


@criterion
def lower(
    curves: Curves, a: str, *others: str, after: float = 0, until: float = np.inf, factor: float = 1.0
) -> Outcome:
    """The mean error of ``a`` over the window is below ``factor`` times that of each of the others."""
    return _all_below(curves, [(a, b) for b in others], (after, until), factor)


def _all_below(
    curves: Curves, pairs: Sequence[tuple[str, str]], window: tuple[float, float], limit: float = 1.0
) -> Outcome:
    """Whether all ratios are below a limit; the text is that of the deciding ratio."""
    found = [_ratio(curves, a, b, window) for a, b in pairs]
    outcomes = [Outcome.of(pair, -np.inf, limit, text) for pair, text in found]
    together = combined(outcomes)
    deciding = [k for k, outcome in enumerate(outcomes) if outcome.holds == together.holds]
    return outcomes[max(deciding, key=lambda k: found[k][0][1])]


@criterion
def close(curves: Curves, a: str, b: str, *, within: float) -> Outcome:
    """The mean errors of two lines differ by less than the share ``within``."""
    found, text = _ratio(curves, a, b, (0, np.inf))
    return Outcome.of(found, 1 - within, 1 + within, text)


@criterion
def top(curves: Curves, best: Sequence[str], rest: Sequence[str], *, after: float) -> Outcome:
    """Each of ``best`` has a lower mean error than each of ``rest``."""
    return _all_below(curves, [(a, b) for a in best for b in rest], (after, np.inf))


@criterion
def ordered(curves: Curves, labels: Sequence[str], *, after: float) -> Outcome:
    """The mean error increases along the list."""
    return _all_below(curves, [*pairwise(labels)], (after, np.inf))


@criterion
def overtaken(curves: Curves, a: str, b: str, *, about: float, within: float = 0.3) -> Outcome:
    """``a`` is ahead of ``b`` at first and falls behind near the step ``about``."""

    def crossing(mean_a: Floats, mean_b: Floats, steps: Integers) -> float:
        behind = mean_a > mean_b
        ahead = np.flatnonzero(~behind)
        if len(ahead) == 0 or ahead[-1] == len(steps) - 1:
            return np.nan
        return float(steps[ahead[-1] + 1])

    steps = curves.steps
    smooth = _smoother(len(steps))
    point = crossing(smooth @ curves.mean(a), smooth @ curves.mean(b), steps)
    pairs = zip(curves.resampled(a) @ smooth.T, curves.resampled(b) @ smooth.T, strict=True)
    many = np.array([crossing(x, y, steps) for x, y in pairs])
    crossed = np.isfinite(many)
    if np.isnan(point) or crossed.mean() < 0.5:
        ratio = _ratio(curves, a, b, (float(steps[-1]) * 0.9, np.inf))[1]
        return Outcome(False, f"no crossing within {steps[-1]} steps; {ratio}")
    found = interval(many[crossed])
    text = f"{a} is overtaken by {b} at step {point:g} [{found[0]:g}, {found[1]:g}] (paper: about {about:g})"
    return Outcome.of(found, about * (1 - within), about * (1 + within), text)


def _smoother(n: int) -> Floats:
    """A moving average over recorded steps, as a matrix."""
    distance = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    kernel = (distance <= 4).astype(float)
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


@criterion
def falls_to(curves: Curves, a: str, share: float) -> Outcome:
    """The final error is below a share of the initial error."""
    last = float(curves.steps[-1])
    (end, many), start = curves.over(a, last, last), float(curves.mean(a)[0])
    found = interval(many / start)
    text = f"{a} is at {end:.3g} after {last:g} steps, {end / start:.2g} of its start [{found[0]:.2g}, {found[1]:.2g}]"
    return Outcome.of(found, 0.0, share, text)


@criterion
def dips(curves: Curves, a: str, by: float) -> Outcome:
    """The mean error falls to a minimum and then rises by more than the share ``by``."""
    mean = curves.mean(a)
    lowest = int(mean.argmin())
    end = curves.window(0.95 * curves.steps[-1], np.inf)
    rise = curves.resampled(a)[:, end].mean(axis=1) / curves.resampled(a)[:, lowest] - 1
    found = interval(rise)
    value = mean[end].mean() / mean[lowest] - 1
    text = f"{a}: lowest {mean[lowest]:.3g} at step {curves.steps[lowest]}, then {100 * value:+.0f} %"
    return Outcome.of(found, by, np.inf, f"{text} [{100 * found[0]:.0f}, {100 * found[1]:.0f}]")


@criterion
def deeper(curves: Curves, labels: Sequence[str]) -> Outcome:
    """The minimum of the mean curve decreases along the list."""
    outcomes = []
    for a, b in pairwise(labels):
        least_a, least_b = curves.mean(a).min(), curves.mean(b).min()
        many = curves.resampled(b).min(axis=1) / curves.resampled(a).min(axis=1)
        text = f"lowest of {b} / of {a} = {least_b / least_a:.3g} [{interval(many)[0]:.3g}, {interval(many)[1]:.3g}]"
        outcomes.append(Outcome.of(interval(many), -np.inf, 1.0, text))
    return combined(outcomes)


@criterion
def steeper(curves: Curves, labels: Sequence[str], rivals: Sequence[str]) -> Outcome:
    """After learning starts, each line needs fewer steps than each rival to reach a tenth of its initial error."""

    def needed(mean: Floats, steps: Integers) -> float:
        moved = np.flatnonzero(np.abs(mean - mean[0]) > 0.01 * mean[0])
        fallen = np.flatnonzero(mean < 0.1 * mean[0])
        return float(steps[fallen[0]] - steps[max(moved[0] - 1, 0)]) if len(moved) and len(fallen) else np.inf

    times = {a: needed(curves.mean(a), curves.steps) for a in (*labels, *rivals)}
    slowest = max(labels, key=lambda a: times[a])
    quickest = min(rivals, key=lambda a: times[a])
    text = f"to a tenth of the start: {slowest} {times[slowest]:g} steps, {quickest} {times[quickest]:g}"
    return Outcome(times[slowest] < times[quickest], text)


@criterion
def starts_later(curves: Curves, labels: Sequence[str]) -> Outcome:
    """The first recorded step with a change of the mean comes later along the list."""
    first = [int(curves.steps[np.flatnonzero(curves.mean(a) != curves.mean(a)[0])[0]]) for a in labels]
    text = ", ".join(f"{a.split()[-1]} at {k}" for a, k in zip(labels, first, strict=True))
    return Outcome(all(a <= b for a, b in pairwise(first)) and first[0] < first[-1], text)


@criterion
def shrinking_gain(curves: Curves, labels: Sequence[str], after: float) -> Outcome:
    """Of three lines, the gain from the first to the second is larger than from the second to the third."""
    x, y, z = (curves.over(a, after, np.inf) for a in labels)
    gain_1, gain_2 = x[1] - y[1], y[1] - z[1]
    text = f"gains {x[0] - y[0]:.3g} and {y[0] - z[0]:.3g}"
    return Outcome.of(interval(gain_1 - gain_2), 0.0, np.inf, text)


@criterion
def unsteady(curves: Curves, a: str, calm: str, factor: float) -> Outcome:
    """Runs of ``a`` diverge, or their maximum spread is more than ``factor`` times that of ``calm``."""
    ratio = curves.values[a].std(axis=0).max() / curves.values[calm].std(axis=0).max()
    text = f"{a}: {curves.diverged[a]} diverged, standard deviation {ratio:.3g} times that of {calm}"
    return Outcome(bool(curves.diverged[a] > 0 or ratio > factor), text)


@criterion
def linear_rate(curves: Curves, a: str, *, after: float, share: float) -> Outcome:
    """log error against steps is a straight line (R^2 at least .98), and falls to a share of the initial error."""
    mean = curves.mean(a)
    end = int(np.argmax(mean < share * mean[0])) or len(mean)
    chosen = curves.window(after, curves.steps[end - 1])
    x, y = curves.steps[chosen].astype(float), np.log(np.maximum(mean[chosen], 1e-300))
    r2 = float(np.corrcoef(x, y)[0, 1] ** 2) if chosen.sum() > 2 else np.nan
    fallen = mean.min() / mean[0]
    text = f"{a}: R^2 of log error on steps {r2:.3f}, falls to {fallen:.2g} of its start"
    return Outcome(bool(r2 >= 0.98 and fallen <= share), text)


@criterion
def straight_after_bias(curves: Curves, a: str) -> Outcome:
    """After subtracting .8 of the final error, log error against steps is a straight line (R^2 at least .95)."""
    logarithm = np.log(np.maximum(minus_bias(curves.steps, curves.mean(a)), 1e-12))
    r2 = float(np.corrcoef(curves.steps, logarithm)[0, 1] ** 2)
    return Outcome(bool(r2 >= 0.95), f"{a} with its bias subtracted: R^2 of log error on steps {r2:.2f}")


@criterion
def not_straight_after_bias(curves: Curves, a: str) -> Outcome:
    """After subtracting .8 of the final error, log error against steps is not a straight line."""
    found = straight_after_bias(a)(curves)
    return Outcome(not found.holds, found.measured)


@criterion
def stays_near(curves: Curves, a: str, value: float, factor: float, after: float) -> Outcome:
    """After subtracting .8 of the final error, the mean error stays within a factor of a value."""
    level = float(minus_bias(curves.steps, curves.mean(a))[curves.window(after, np.inf)].mean())
    text = f"{a} with its bias subtracted: {level:.3g} after step {after:g} (paper: about {value:g})"
    return Outcome(bool(value / factor <= level <= value * factor), text)


@criterion
def like(curves: Curves, a: str, b: str, factor: float, after: float) -> Outcome:
    """After subtracting .8 of the final error, two mean curves are within a factor of each other."""
    levels = [minus_bias(curves.steps, curves.mean(x))[curves.window(after, np.inf)].mean() for x in (a, b)]
    ratio = float(levels[0] / levels[1])
    text = f"with their bias subtracted, {a} / {b} = {ratio:.3g} after step {after:g}"
    return Outcome(bool(1 / factor <= ratio <= factor), text)


def minus_bias(steps: Integers, mean: Floats) -> Floats:
    """A mean curve minus .8 of its mean over the last 100 steps."""
    return np.asarray(mean - 0.8 * mean[..., steps > steps[-1] - 100].mean(axis=-1, keepdims=True))


def power_of(curves: Curves, a: str) -> float:
    """The slope of log error on log steps."""
    chosen = curves.window(1000, np.inf)
    return float(np.polyfit(np.log(curves.steps[chosen]), np.log(curves.mean(a)[chosen]), 1)[0])


@criterion
def beside(curves: Curves, main: Criterion, *others: tuple[str, Criterion]) -> Outcome:
    """The verdict of ``main``, with the other measurements listed after it."""
    found = main(curves)
    shown = [f"({words}: {other(curves).measured})" for words, other in others]
    return Outcome(found.holds, " ".join([found.measured, *shown]))


@criterion
def leads_since(curves: Curves, a: str, *others: str) -> Outcome:
    """Only reports the recorded step from which on the smoothed mean of ``a`` is below all others."""
    smooth = _smoother(len(curves.steps))
    best = np.min([smooth @ curves.mean(b) for b in others], axis=0)
    behind = np.flatnonzero(smooth @ curves.mean(a) >= best)
    names = " and ".join(others)
    if len(behind) == 0:
        return Outcome(None, f"{a} is ahead of {names} throughout")
    if behind[-1] == len(curves.steps) - 1:
        return Outcome(None, f"{a} is not ahead of {names} at the end")
    return Outcome(None, f"{a} is ahead of {names} from step {curves.steps[behind[-1] + 1]} on")


@criterion
def every(curves: Curves, *criteria: Criterion) -> Outcome:
    return combined([judge(curves) for judge in criteria])


def combined(outcomes: Sequence[Outcome]) -> Outcome:
    """True if all outcomes hold, False if one fails, else undecided; the text lists those that do not hold, or all."""
    verdicts = [o.holds for o in outcomes]
    holds = False if False in verdicts else (None if None in verdicts else True)
    failing = [o.measured for o in outcomes if o.holds is not True]
    return Outcome(holds, "; ".join(failing or [o.measured for o in outcomes]))


IM = "Impression GTD"
TWO = ("TD", "TDRC")
BASELINES = ("TD", "TDRC", "TDC", "GTD2", "GTD", "HTD", "Vtrace")
Sweeps = Mapping[str, Mapping[str, Any]]

MUCH, FAR = 0.8, 0.5
"""The factors for "much lower" (at most .8 of the other error) and "far off" or "biased" (at least twice)."""
INITIAL = 5000
"""The paper gives no step for the end of "the initial stage". Here the stage is at most half of the curve."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, paraphrased, and its criteria."""

    id: str
    statement: str  # id and statement: the claim's number in the list, and its text
    parts: tuple[tuple[str, Criterion], ...] = ()
    """Pairs of a figure's label and a criterion. The claim holds if all of them do."""
    sweep: Callable[[Sweeps], Outcome] | None = None  # uses the step-size sweeps instead
    explain: Callable[[Mapping[str, Curves]], str] | None = None  # the explanation if it does not hold

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(figure for figure, _ in self.parts)

    def judge(self, curves: Mapping[str, Curves]) -> Outcome:
        outcomes = [criterion(curves[figure]) for figure, criterion in self.parts]
        if len(outcomes) > 1:
            names = [figure.partition(":")[2] for figure in self.figures]
            outcomes = [replace(o, measured=f"{n}: {o.measured}") for n, o in zip(names, outcomes, strict=True)]
        return combined(outcomes)


def at(figure: str, criterion: Criterion) -> tuple[tuple[str, Criterion], ...]:
    """The criteria of a claim for one figure."""
    return ((figure, criterion),)


def sizes(*each: int) -> list[str]:
    """Labels of Impression GTD at these batch sizes."""
    return [f"{IM} m={m}" for m in each]


def alphas(*each: float) -> list[str]:
    """Labels of Impression GTD at these step-sizes."""
    return [f"{IM} alpha={alpha:g}" for alpha in each]
