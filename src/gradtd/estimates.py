"""Estimates of (A, b), as the two maps that rules use: ``theta -> A theta + b`` and ``u -> A' u``.

A = E[rho e y'], b = E[rho r e] with y = discount x_next - x. The trace e equals the features x if lam is 0; otherwise
see `gradtd.compiled.traces`. An estimate uses the latest step, the average over a batch of step indices (O(m d), no
matrix), or a sum of matrices (O(d^2)). Authors of rules need no other module: it also exports the vector operations
that rules use.
"""

from __future__ import annotations

import numpy as np

from gradtd.compiled.linalg import copy, matrix_apply, matrix_transpose_apply
from gradtd.compiled.prefetch import AHEAD, prefetch_first_steps, prefetch_step
from gradtd.compiled.rows import (
    add_difference,
    add_difference_to_two,
    add_outer,
    add_row,
    add_row_to_two,
    add_trace_and_row,
    add_two_rows,
    copy_read,
    difference_dot,
    four_two_difference_dots,
    four_two_row_dots,
    row_dot,
    scale_and_add_trace_and_row,
    trace_and_row_dot,
    trace_place,
    two_difference_dots,
    two_row_dots,
)
from gradtd.compiled.vectors import add_scaled, dot, fill, scale_by
from gradtd.core.arrays import Batch, Floats, Index
from gradtd.core.stream import StreamView

__all__ = [
    "add_features",
    "add_gradient",
    "add_next_features",
    "add_next_pairs",
    "add_scaled",
    "add_to_sums",
    "add_trace",
    "add_trace_and_next",
    "add_trace_less_features",
    "batch_td_update",
    "batch_td_update_and_apply",
    "batch_transpose_apply",
    "batch_transpose_apply_to_two",
    "copy",
    "copy_where_read",
    "dot",
    "fill",
    "greedy_action",
    "matrix_apply",
    "matrix_transpose_apply",
    "pair_td_error",
    "projected",
    "sample_td_update",
    "sample_transpose_apply",
    "scale_and_add_trace_less_features",
    "scale_by",
    "sums_td_update",
    "sums_transpose_apply",
    "td_error",
    "traced",
    "traced_and_projected",
]


def td_error(stream: StreamView, t: Index, theta: Floats) -> float:
    """delta = r + y . theta at step t, without its ratio"""
    step = stream.steps[t]
    return step.reward + difference_dot(stream.features, step.row, step.next_row, step.discount, theta)


def projected(stream: StreamView, t: Index, u: Floats) -> float:
    """x . u at step t"""
    return row_dot(stream.features, stream.steps[t].row, u)


def add_features(stream: StreamView, t: Index, c: float, out: Floats) -> None:
    """out += c x of step t"""
    add_row(stream.features, stream.steps[t].row, c, out)


def add_next_features(stream: StreamView, t: Index, c: float, out: Floats) -> None:
    """out += c discount x_next of step t"""
    step = stream.steps[t]
    add_row(stream.features, step.next_row, c * step.discount, out)


def greedy_action(stream: StreamView, t: Index, n_actions: int, theta: Floats) -> int:
    """The action with the largest value by theta after step t, whose next row is the first of n_actions rows; the first
    one of equals

    gradtd has already checked that these rows exist.
    """
    row = stream.steps[t].next_row
    best, highest = 0, row_dot(stream.features, row, theta)
    for a in range(1, n_actions):
        value = row_dot(stream.features, np.uint64(row + a), theta)
        if value > highest:
            best, highest = a, value
    return best


def pair_td_error(stream: StreamView, t: Index, n_actions: int, epsilon: float, best: int, theta: Floats) -> float:
    """delta = r + discount (1 - epsilon) q'_best + discount epsilon mean(q') - q at step t, without its ratio"""
    step = stream.steps[t]
    ahead = 0.0
    for a in range(n_actions):
        weight = _share(a, n_actions, epsilon, best)
        if weight > 0.0:
            ahead += weight * row_dot(stream.features, np.uint64(step.next_row + a), theta)
    return step.reward + step.discount * ahead - row_dot(stream.features, step.row, theta)


def add_next_pairs(
    stream: StreamView, t: Index, n_actions: int, epsilon: float, best: int, c: float, out: Floats
) -> None:
    """out += c discount times the mean of the next rows of step t over the epsilon-greedy policy"""
    step = stream.steps[t]
    for a in range(n_actions):
        weight = _share(a, n_actions, epsilon, best)
        if weight > 0.0:
            add_row(stream.features, np.uint64(step.next_row + a), c * step.discount * weight, out)


def _share(a: int, n_actions: int, epsilon: float, best: int) -> float:
    """The probability of an action under the epsilon-greedy policy"""
    return epsilon / n_actions + (1.0 - epsilon if a == best else 0.0)


def add_gradient(stream: StreamView, t: Index, c: float, out: Floats) -> None:
    """out += c y of step t: y is the gradient of its TD error"""
    step = stream.steps[t]
    add_difference(stream.features, step.row, step.next_row, step.discount, c, out)


def traced(stream: StreamView, t: Index, u: Floats) -> float:
    """e . u at step t"""
    table, row = trace_place(stream.traces, stream.features, stream.steps[t].row, t)
    return row_dot(table, row, u)


def add_trace(stream: StreamView, t: Index, c: float, out: Floats) -> None:
    """out += c e of step t"""
    table, row = trace_place(stream.traces, stream.features, stream.steps[t].row, t)
    add_row(table, row, c, out)


def add_trace_and_next(stream: StreamView, t: Index, c: float, e: float, out: Floats) -> None:
    """out += c times the trace, then out += e discount x_next, of step t"""
    step = stream.steps[t]
    table, row = trace_place(stream.traces, stream.features, step.row, t)
    add_two_rows(stream.features, step.next_row, e * step.discount, table, row, c, out)


def traced_and_projected(stream: StreamView, t: Index, u: Floats) -> tuple[float, float]:
    """e . u and x . u at step t"""
    return trace_and_row_dot(stream.traces, stream.features, stream.steps[t].row, t, u)


def add_trace_less_features(stream: StreamView, t: Index, scale: float, a: float, b: float, out: Floats) -> None:
    """out += scale (a e - b x) of step t"""
    add_trace_and_row(stream.traces, stream.features, stream.steps[t].row, t, scale, a, b, out)


def scale_and_add_trace_less_features(
    stream: StreamView, t: Index, s: float, scale: float, a: float, b: float, out: Floats
) -> None:
    """out = s out + scale (a e - b x) of step t"""
    row = stream.steps[t].row
    scale_and_add_trace_and_row(stream.traces, stream.features, row, t, s, (scale, a, b), out)


def copy_where_read(stream: StreamView, t: Index, out: Floats, v: Floats) -> None:
    """out = v in the entries that step t reads; with sparse features, only there"""
    copy_read(stream.features, stream.traces, stream.steps[t], t, out, v)


def sample_td_update(stream: StreamView, t: Index, theta: Floats, out: Floats) -> None:
    """out = A_t theta + b_t = rho delta e, from step t alone"""
    fill(out, 0.0)
    add_trace(stream, t, stream.steps[t].rho * td_error(stream, t, theta), out)


def sample_transpose_apply(stream: StreamView, t: Index, u: Floats, out: Floats) -> None:
    """out = A_t' u = rho (e . u) y, from step t alone"""
    fill(out, 0.0)
    add_gradient(stream, t, stream.steps[t].rho * traced(stream, t, u), out)


def batch_td_update(stream: StreamView, batch: Batch, theta: Floats, out: Floats) -> None:
    """out = A theta + b, averaged over a batch of step indices"""
    fill(out, 0.0)
    scale = 1.0 / batch.shape[0]
    prefetch_first_steps(stream.features, stream.traces, stream.steps, batch)
    for j in range(batch.shape[0]):
        prefetch_step(stream.features, stream.traces, stream.steps, batch, j + AHEAD)
        t = batch[j]
        add_trace(stream, t, scale * stream.steps[t].rho * td_error(stream, t, theta), out)


def batch_transpose_apply(stream: StreamView, batch: Batch, u: Floats, out: Floats) -> None:
    """out = A' u, averaged over a batch of step indices"""
    fill(out, 0.0)
    scale = 1.0 / batch.shape[0]
    prefetch_first_steps(stream.features, stream.traces, stream.steps, batch)
    for i in range(batch.shape[0]):
        prefetch_step(stream.features, stream.traces, stream.steps, batch, i + AHEAD)
        t = batch[i]
        add_gradient(stream, t, scale * stream.steps[t].rho * traced(stream, t, u), out)


def batch_td_update_and_apply(
    stream: StreamView, batch: Batch, theta: Floats, z: Floats, out: Floats, out_z: Floats
) -> None:
    """out = A theta + b and out_z = A z, averaged over a batch in one pass"""
    fill(out, 0.0)
    fill(out_z, 0.0)
    m = batch.shape[0]
    scale = 1.0 / m
    steps = stream.steps
    prefetch_first_steps(stream.features, stream.traces, stream.steps, batch)
    j = 0
    while j + 4 <= m:
        four = steps[batch[j]], steps[batch[j + 1]], steps[batch[j + 2]], steps[batch[j + 3]]
        on_theta, on_z = four_two_difference_dots(stream.features, four[0], four[1], four[2], four[3], theta, z)
        for k in range(4):
            prefetch_step(stream.features, stream.traces, stream.steps, batch, j + k + AHEAD)
            c = scale * four[k].rho
            table, row = trace_place(stream.traces, stream.features, four[k].row, batch[j + k])
            add_row_to_two(table, row, c * (four[k].reward + on_theta[k]), c * on_z[k], out, out_z)
        j += 4
    for last in range(j, m):
        step = steps[batch[last]]
        at_theta, at_z = two_difference_dots(stream.features, step.row, step.next_row, step.discount, theta, z)
        c = scale * step.rho
        table, row = trace_place(stream.traces, stream.features, step.row, batch[last])
        add_row_to_two(table, row, c * (step.reward + at_theta), c * at_z, out, out_z)


def batch_transpose_apply_to_two(
    stream: StreamView, batch: Batch, u: Floats, v: Floats, out: Floats, out_v: Floats
) -> float:
    """out = A' u and out_v = A' v, averaged over a batch in one pass; returns b . u"""
    fill(out, 0.0)
    fill(out_v, 0.0)
    total = 0.0
    m = batch.shape[0]
    scale = 1.0 / m
    steps = stream.steps
    prefetch_first_steps(stream.features, stream.traces, stream.steps, batch)
    i = 0
    while i + 4 <= m:
        four = steps[batch[i]], steps[batch[i + 1]], steps[batch[i + 2]], steps[batch[i + 3]]
        table, p = trace_place(stream.traces, stream.features, four[0].row, batch[i])
        _, q = trace_place(stream.traces, stream.features, four[1].row, batch[i + 1])
        _, r = trace_place(stream.traces, stream.features, four[2].row, batch[i + 2])
        _, s = trace_place(stream.traces, stream.features, four[3].row, batch[i + 3])
        along, along_v = four_two_row_dots(table, p, q, r, s, u, v)
        for k in range(4):
            prefetch_step(stream.features, stream.traces, stream.steps, batch, i + k + AHEAD)
            step = four[k]
            c, e = scale * step.rho * along[k], scale * step.rho * along_v[k]
            total += step.reward * c
            add_difference_to_two(stream.features, step.row, step.next_row, step.discount, c, e, out, out_v)
        i += 4
    for last in range(i, m):
        step = steps[batch[last]]
        table, row = trace_place(stream.traces, stream.features, step.row, batch[last])
        on_u, on_v = two_row_dots(table, row, u, v)
        c, e = scale * step.rho * on_u, scale * step.rho * on_v
        total += step.reward * c
        add_difference_to_two(stream.features, step.row, step.next_row, step.discount, c, e, out, out_v)
    return total


def add_to_sums(stream: StreamView, t: Index, A: Floats, b: Floats) -> None:
    """A += rho e y' and b += rho r e of step t"""
    step = stream.steps[t]
    table, row = trace_place(stream.traces, stream.features, step.row, t)
    add_outer(stream.features, table, row, step.row, step.next_row, step.discount, step.rho, A)
    add_row(table, row, step.rho * step.reward, b)


def sums_td_update(A: Floats, b: Floats, n: int, theta: Floats, out: Floats) -> None:
    """out = A theta + b, from sums over n steps"""
    matrix_apply(A, theta, out)
    add_scaled(out, 1.0, b)
    scale_by(out, 1.0 / n)


def sums_transpose_apply(A: Floats, n: int, u: Floats, out: Floats) -> None:
    """out = A' u, from a sum over n steps"""
    matrix_transpose_apply(A, u, out)
    scale_by(out, 1.0 / n)
