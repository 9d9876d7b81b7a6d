"""Many demons at once: one draw of batches, and sums in vectorised loops over demons.

Demons of a horde that differ only in rewards, discounts, ratios and step-sizes have the same steps in the same buffers
and draw the same batches, so each batch is drawn once for all of them. The numbers of a drawn step are adjacent in
memory for all demons, while those of separate windows are a megabyte apart. Every sum has the same order of terms as
for a single demon, so the weights are bit-identical.

A rule with this form has three functions (`Algorithm.lanes`): ``enter(state, stack, i)`` copies what its sums read
into lane i, ``look(stack, stream, first, second)`` makes the sums of all lanes, and ``finish(state, stack, i, now)``
does with those of lane i what its ``update`` does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.linalg import fill
from gradtd.compiled.loop import blend, check_every, step_size, within
from gradtd.compiled.online import DIVERGED, DONE, GIVEN, NEWS, SEEN, SIZE, WAITING, take_step
from gradtd.compiled.prefetch import prefetch_entry, prefetch_row
from gradtd.core.algorithm import Now
from gradtd.core.arrays import Batch, Floats, Integers, Plain
from gradtd.core.stream import StreamView


class Stack(NamedTuple):
    """Vectors of all lanes, (features, lanes), and reward, discount and rho of the steps held, (steps, 3, lanes).

    ``alike`` tells for each whether all lanes have the same number; then only the first is read. ``filled`` is the
    number of steps copied so far; it is reset when steps in the windows move.
    """

    numbers: Floats
    alike: NDArray[np.uint8]
    theta: Floats
    z: Floats
    u: Floats
    v: Floats
    g: Floats
    q: Floats
    loss: Floats
    along: Floats
    filled: Integers


def new_stack(steps: int, n_features: int, lanes: int) -> Stack:
    """A stack for this number of steps and lanes."""
    theta, z, u, v, g, q = np.zeros((6, n_features, lanes))
    loss, along = np.zeros((2, lanes))
    numbers, alike = np.zeros((steps, 3, lanes)), np.zeros((steps, 3), np.uint8)
    return Stack(numbers, alike, theta, z, u, v, g, q, loss, along, np.zeros(1, np.int64))


_AT_ONCE = 64
"""Number of steps copied lane by lane, so that the written numbers stay in the fastest caches."""


def to_lane(stacked: Floats, i: int, vector: Floats) -> None:
    """Lane i = vector"""
    for k in range(vector.shape[0]):
        stacked[k, i] = vector[k]


def from_lane(stacked: Floats, i: int, vector: Floats) -> None:
    """vector = lane i"""
    for k in range(vector.shape[0]):
        vector[k] = stacked[k, i]


def _add_four_multiples(
    out: Floats, numbers: tuple[float, float, float, float], u: Floats, v: Floats, w: Floats, z: Floats
) -> None:
    a, b, c, d = numbers
    for i in range(out.shape[0]):
        out[i] = out[i] + a * u[i] + b * v[i] + c * w[i] + d * z[i]


def _add_multiples(out: Floats, x: float, v: Floats) -> None:
    for i in range(out.shape[0]):
        out[i] += x * v[i]


def _add_differences(out: Floats, discount: Floats, after: float, x: float, v: Floats) -> None:
    for i in range(out.shape[0]):
        out[i] += (discount[i] * after - x) * v[i]


def _add_gradients(out: Floats, c: Floats, discount: Floats, after: float, x: float) -> None:
    for i in range(out.shape[0]):
        out[i] += c[i] * (discount[i] * after - x)


def _add_rewards(out: Floats, reward: Floats, alike: int) -> None:
    if alike:
        one = reward[0]
        for i in range(out.shape[0]):
            out[i] = one + out[i]
    else:
        for i in range(out.shape[0]):
            out[i] = reward[i] + out[i]


def _weigh(out: Floats, scale: float, rho: Floats, alike: int) -> None:
    if alike:
        one = scale * rho[0]
        for i in range(out.shape[0]):
            out[i] = one * out[i]
    else:
        for i in range(out.shape[0]):
            out[i] = scale * rho[i] * out[i]


def _add_products(out: Floats, u: Floats, alike: int, v: Floats) -> None:
    if alike:
        _add_multiples(out, u[0], v)
    else:
        for i in range(out.shape[0]):
            out[i] += u[i] * v[i]


def _clear(stacked: Floats) -> None:
    for k in range(stacked.shape[0]):
        fill(stacked[k], 0.0)


def _is_one_number(values: Floats) -> int:
    """Whether all values have the same bits: -0 and 0 give different sums with -0."""
    first = values[0]
    for i in range(1, values.shape[0]):
        if values[i] != first or np.copysign(1.0, values[i]) != np.copysign(1.0, first):
            return 0
    return 1


def _prefetch(stack: Stack, t: Any) -> None:
    """Prefetch the numbers of a step, because drawn steps are far apart."""
    for j in range(3):
        if stack.alike[t, j]:
            prefetch_entry(stack.numbers[t, j], 0)
        else:
            prefetch_row(stack.numbers[t], np.uint64(j))


def stacked_td_update(stack: Stack, stream: StreamView, batch: Batch, v: Floats, out: Floats, rewarded: bool) -> None:
    """out = A v + b of every lane, averaged over a batch; without b where nothing is rewarded"""
    _clear(out)
    scale, d = 1.0 / batch.shape[0], v.shape[0]
    features, along = stream.features, stack.along
    for j in range(batch.shape[0]):
        if j + 2 < batch.shape[0]:
            _prefetch(stack, batch[j + 2])
        step, numbers, alike = stream.steps[batch[j]], stack.numbers[batch[j]], stack.alike[batch[j]]
        row, after = np.uint64(step.row), np.uint64(step.next_row)
        fill(along, 0.0)
        if alike[1]:
            gamma = numbers[1, 0]
            for k in range(0, d - 3, 4):
                four = (
                    gamma * features[after, k] - features[row, k],
                    gamma * features[after, k + 1] - features[row, k + 1],
                    gamma * features[after, k + 2] - features[row, k + 2],
                    gamma * features[after, k + 3] - features[row, k + 3],
                )
                _add_four_multiples(along, four, v[k], v[k + 1], v[k + 2], v[k + 3])
            for k in range(d - d % 4, d):
                _add_multiples(along, gamma * features[after, k] - features[row, k], v[k])
        else:
            for k in range(d):
                _add_differences(along, numbers[1], features[after, k], features[row, k], v[k])
        if rewarded:
            _add_rewards(along, numbers[0], alike[0])
        _weigh(along, scale, numbers[2], alike[2])
        for k in range(d):
            _add_multiples(out[k], np.float64(features[row, k]), along)


def stacked_transpose_apply(
    stack: Stack, stream: StreamView, batch: Batch, u: Floats, out: Floats, rewarded: bool
) -> None:
    """out = A' u of every lane, averaged over a batch. If ``rewarded``, also loss = b . u."""
    _clear(out)
    scale, d = 1.0 / batch.shape[0], u.shape[0]
    features, along = stream.features, stack.along
    if rewarded:
        fill(stack.loss, 0.0)
    for j in range(batch.shape[0]):
        if j + 2 < batch.shape[0]:
            _prefetch(stack, batch[j + 2])
        step, numbers, alike = stream.steps[batch[j]], stack.numbers[batch[j]], stack.alike[batch[j]]
        row, after = np.uint64(step.row), np.uint64(step.next_row)
        fill(along, 0.0)
        for k in range(0, d - 3, 4):
            four = (
                np.float64(features[row, k]),
                np.float64(features[row, k + 1]),
                np.float64(features[row, k + 2]),
                np.float64(features[row, k + 3]),
            )
            _add_four_multiples(along, four, u[k], u[k + 1], u[k + 2], u[k + 3])
        for k in range(d - d % 4, d):
            _add_multiples(along, np.float64(features[row, k]), u[k])
        _weigh(along, scale, numbers[2], alike[2])
        if rewarded:
            _add_products(stack.loss, numbers[0], alike[0], along)
        if alike[1]:
            gamma = numbers[1, 0]
            for k in range(d):
                _add_multiples(out[k], gamma * features[after, k] - features[row, k], along)
        else:
            for k in range(d):
                _add_gradients(out[k], along, numbers[1], features[after, k], features[row, k])


@lru_cache(maxsize=64)  # the same function for the same rule and types: it is compiled once
def lanes_kernel(parts: tuple[Plain, ...], unpack: Plain) -> Plain:
    """A kernel that lets all runs learn from the queued steps together. (`step_kernel` does one run after the other.)

    ``parts`` are the rule's ``enter``, ``look`` and ``finish``, the function that reports the step-size of a run, and
    the functions that insert and draw steps. The buffers of the first run that has not diverged are used for all.
    """
    enter_lane, look, finish, used, insert, draw = parts

    def enter(packed: Any, runs: int, reward: float, discount: float, rho: float, cut: int) -> int:
        lead = -1
        for i in range(runs):
            stream, buffers, run, plan, _, own, shared, stack = unpack(packed, i)
            if own.counts[DIVERGED] >= 0:
                continue
            lead = i if lead < 0 else lead
            waiting = shared.counts[SEEN] - own.counts[GIVEN]
            for k in range(shared.counts[WAITING] - waiting, shared.counts[WAITING]):
                take_step(stream, buffers, own, shared, k)
            enter_lane(run.state, stack, i)
        if lead < 0:
            return DONE
        found = DONE
        stream, buffers, first, plan, _, leader, shared, stack = unpack(packed, lead)
        for begin in range(stack.filled[0], leader.counts[SIZE], _AT_ONCE):
            end = min(begin + _AT_ONCE, leader.counts[SIZE])
            for i in range(runs):
                lane, _, _, _, _, _, _, _ = unpack(packed, i)
                for t in range(begin, end):
                    step = lane.steps[t]
                    stack.numbers[t, 0, i] = step.reward
                    stack.numbers[t, 1, i] = step.discount
                    stack.numbers[t, 2, i] = step.rho
            for t in range(begin, end):
                for j in range(3):
                    stack.alike[t, j] = _is_one_number(stack.numbers[t, j])
        stack.filled[0] = leader.counts[SIZE]
        begun = first.clock[0].seen
        count = leader.counts[GIVEN] - begun
        for s in range(count):
            t, seen = leader.counts[SIZE] - count + s, begun + s + 1
            now = Now(np.uint64(t), insert(buffers, t), seen, 1.0, first.first, first.second)
            drawn = draw(buffers, first.rng, plan, now) and seen > plan.start
            if drawn:
                look(stack, stream, now.first, now.second)
            for i in range(runs):
                _, _, run, own_plan, _, own, _, _ = unpack(packed, i)
                if own.counts[DIVERGED] >= 0:
                    continue
                clock, theta = run.clock[0], run.state.theta
                clock.seen = seen
                if drawn:
                    alpha = step_size(own_plan, clock.updates)
                    finish(run.state, stack, i, Now(now.t, now.side, seen, alpha, now.first, now.second))
                    taken = used(run.state, Now(now.t, now.side, seen, alpha, now.first, now.second))
                    if taken != 0.0:
                        clock.alpha = taken
                        clock.updates += 1
                if 0 <= own_plan.average_from < seen and clock.updates > 0:
                    clock.averaged += 1
                    power = own_plan.average_power
                    blend(theta, run.average, (power + 1.0) / (clock.averaged + power))
                if seen % check_every(theta) == 0 and not within(theta, own_plan.limit):
                    own.counts[DIVERGED] = seen
                    found = NEWS
        for i in range(runs):
            _, own_buffers, run, _, _, own, _, _ = unpack(packed, i)
            if i != lead and own.counts[GIVEN] == leader.counts[GIVEN]:  # one that diverged earlier holds no steps
                own_buffers.arrived[:] = buffers.arrived
                run.rng[:] = first.rng
                run.first[:] = first.first
                run.second[:] = first.second
        return found

    return enter
