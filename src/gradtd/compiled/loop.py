"""The one loop: insert, draw, update, average, snapshot. Every algorithm runs through it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gradtd.compiled import engine, linalg
from gradtd.compiled.buffers import Buffers
from gradtd.compiled.dispatch import by_type
from gradtd.compiled.draws import Drawing
from gradtd.compiled.plan import Plan, Run, Snapshots
from gradtd.compiled.prefetch import prefetch_batch, prefetch_coming_step
from gradtd.compiled.vectors import FAR, OUTSIDE, WEIGHT, Weights, begin_update
from gradtd.core.algorithm import Algorithm, Now
from gradtd.core.arrays import Floats, Hyper, Plain, State
from gradtd.core.stream import StreamView


def compile_run(algorithm: Algorithm, drawing: Drawing, compile: bool | None = None) -> Plain:
    """The loop with an algorithm's rule inside, compiled and cached on disk; also for custom rules."""
    return engine.compile_function(driver_of(algorithm, drawing), compile)


def driver_of(algorithm: Algorithm, drawing: Drawing) -> Plain:
    """The loop with an algorithm's rule inside, as a plain function."""
    return _driver(*_parts(algorithm, drawing))


def used_of(algorithm: Algorithm) -> Plain:
    """A function that returns the step-size of the latest update."""
    return _given_step_size if algorithm.chosen is None else _chosen_step_size(algorithm.chosen)


def code_of(algorithm: Algorithm, drawing: Drawing) -> str:
    """A digest of all the code that a run of an algorithm executes."""
    return engine.fingerprint(driver_of(algorithm, drawing), algorithm.init)


def _parts(algorithm: Algorithm, drawing: Drawing) -> tuple[Plain, ...]:
    rule = (algorithm.update, used_of(algorithm), algorithm.observe or _nothing, algorithm.read or _nothing)
    return (*rule, drawing.insert, drawing.draw)


def _nothing(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Stands for an optional function that the rule does not have."""


def _given_step_size(state: State, now: Now) -> float:
    """The step-size that the loop handed to the rule."""
    return now.alpha


@lru_cache(maxsize=64)
def _chosen_step_size(chosen: Plain) -> Plain:
    def used(state: State, now: Now) -> float:
        return chosen(state)

    return used


def step_size(plan: Plan, n: int) -> float:
    """alpha / (1 + n / t0)^p"""
    if plan.p == 0.0:
        return plan.alpha
    return plan.alpha * (1.0 + n / plan.t0) ** -plan.p


def take(wanted: Snapshots, place: int, theta: Any, average: Floats, averaged: int, alpha: float, limit: float) -> None:
    """Take one snapshot: the weights that are reported, and the step-size of the latest update."""
    report(theta, average, averaged, wanted.thetas[place], limit)
    wanted.alphas[place] = alpha


@lru_cache(maxsize=256)  # the same function for the same rule: it is compiled once
def _driver(update: Plain, used: Plain, observe: Plain, read: Plain, insert: Plain, draw: Plain) -> Plain:
    # ``final``: weights are always checked after the last step.
    def drive(
        stream: StreamView,
        buffers: Buffers,
        run: Run,
        plan: Plan,
        wanted: Snapshots,
        begin: int,
        count: int,
        final: bool,
    ) -> int:
        state, hyper, first, second, rng, average = run.state, run.hyper, run.first, run.second, run.rng, run.average
        clock = run.clock[0]
        theta, at = state.theta, wanted.at
        interval = check_every(theta)
        seen, updates, averaged, taken, alpha = clock.seen, clock.updates, clock.averaged, clock.taken, clock.alpha
        last = seen + count
        diverged_at = -1
        t = begin
        while taken < at.shape[0] and at[taken] == seen:
            if seen > 0:
                latest = Now(np.uint64(begin), 0, seen, step_size(plan, updates), first, second)
                read(state, stream, latest, hyper)
            take(wanted, taken, theta, average, averaged, alpha, plan.limit)
            taken += 1
        for _ in range(count):
            seen += 1
            side = insert(buffers, t)
            now = Now(np.uint64(t), side, seen, step_size(plan, updates), first, second)
            prefetch_coming_step(stream.features, stream.steps, t, run.table)
            observe(state, stream, now, hyper)
            if draw(buffers, rng, plan, now) and seen > plan.start:
                begin_update(run.touched, run.cleared)
                prefetch_batch(stream.features, stream.traces, stream.steps, first, run.table)
                prefetch_batch(stream.features, stream.traces, stream.steps, second, run.table)
                update(state, stream, now, hyper)
                step = used(state, now)
                if step != 0.0:
                    alpha = step
                    updates += 1
            if 0 <= plan.average_from < seen and updates > 0:
                averaged += 1
                blend(theta, average, (plan.average_power + 1.0) / (averaged + plan.average_power))
            if taken < at.shape[0] and at[taken] == seen:
                read(state, stream, now, hyper)
                take(wanted, taken, theta, average, averaged, alpha, plan.limit)
                taken += 1
            if (seen % interval == 0 or (final and seen == last)) and not within(theta, plan.limit):
                for place in range(taken, at.shape[0]):
                    take(wanted, place, theta, average, 0, alpha, plan.limit)
                diverged_at = seen
                break
            t += 1
            if t == stream.steps.shape[0]:
                t = 0
        clock.seen, clock.updates, clock.averaged, clock.taken, clock.alpha = seen, updates, averaged, taken, alpha
        return diverged_at

    return drive


# Theta, an array or `Weights`: checks of bounds, averaging, and the weights that are reported


def _dense_check_every(theta: Floats) -> int:
    """Number of steps between checks of the weights: with many features, a check costs more than an update"""
    return 1 + theta.shape[0] // 1000


def _weights_check_every(theta: Any) -> int:
    return 1


def _dense_within(theta: Floats, limit: float) -> bool:
    """Whether every weight lies in [-limit, limit]. NaN does not."""
    inside = True
    for k in range(theta.shape[0]):
        inside = inside and abs(theta[k]) <= limit
    return inside


def _weights_within(theta: Weights, limit: float) -> bool:
    if theta.numbers[OUTSIDE] == 0.0:
        return True
    theta.numbers[OUTSIDE] = 0.0
    return _dense_within(theta.values, limit)


def _dense_blend(theta: Floats, average: Floats, weight: float) -> None:
    """average = (1 - weight) average + weight theta"""
    linalg.scale_by(average, 1.0 - weight)
    linalg.add_scaled(average, weight, theta)


def _weights_blend(theta: Weights, average: Floats, weight: float) -> None:
    # Only the first average has a weight of one.
    theta.numbers[WEIGHT] = 1.0 if weight == 1.0 else theta.numbers[WEIGHT] / (1.0 - weight)
    if theta.numbers[WEIGHT] > FAR:
        linalg.scale_by(theta.lag, 1.0 / theta.numbers[WEIGHT])
        theta.numbers[WEIGHT] = 1.0


def copy_to(out: Floats, theta: Floats, limit: float) -> None:
    """Copy weights, cut at the limit so that snapshots are always finite."""
    for k in range(theta.shape[0]):
        out[k] = cut(theta[k], limit)


def cut(value: float, limit: float) -> float:
    """Clip to [-limit, limit]; NaN becomes the limit"""
    if not value <= limit:
        return limit
    if value < -limit:
        return -limit
    return value


def _dense_report(theta: Floats, average: Floats, averaged: int, out: Floats, limit: float) -> None:
    """out = the average if there is one, else theta"""
    copy_to(out, average if averaged > 0 else theta, limit)


def _weights_report(theta: Weights, average: Floats, averaged: int, out: Floats, limit: float) -> None:
    if averaged == 0:
        copy_to(out, theta.values, limit)
        return
    for k in range(out.shape[0]):
        out[k] = cut(theta.values[k] - theta.lag[k] / theta.numbers[WEIGHT], limit)


def reported(theta: Any, limit: float, *, average: bool = True) -> Floats:
    """The reported weights, outside compiled code: theta, or its lazy average if there is one."""
    values = theta
    if isinstance(theta, Weights):
        lags = average and theta.numbers[WEIGHT] > 0.0
        values = theta.values - theta.lag / theta.numbers[WEIGHT] if lags else theta.values
    values = np.where(values <= limit, values, limit)
    return np.where(values < -limit, -limit, values)


check_every = by_type(0, _dense_check_every, {Weights: _weights_check_every})
within = by_type(0, _dense_within, {Weights: _weights_within})
blend = by_type(0, _dense_blend, {Weights: _weights_blend})
report = by_type(0, _dense_report, {Weights: _weights_report})
