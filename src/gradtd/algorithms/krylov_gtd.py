"""Krylov GTD: exact line searches on the NEU of all stored steps, along directions made conjugate to each other.

The stored steps give A = sum of rho x y' and b = sum of rho r x, with y = discount x_next - x. No matrix is formed: the
rule keeps the residual u = A theta + b, and for up to K directions p their images q = A p. One arriving step changes
each of them by a multiple of x. Along a direction whose image is known, the best step is two inner products away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms.parameters import at_least, whole
from gradtd.estimates import add_features, add_gradient, projected
from gradtd.linalg import (
    add_scaled,
    add_squares,
    copy,
    difference_dot,
    dot,
    fill,
    line_sums,
    weighted,
    weighted_dot,
)
from gradtd.types import Algorithm, Floats, Hyper, Index, Now, Parameter, State, StreamView

IDLE, GRADIENT, IMAGE = 0, 1, 2
STAGE, NEXT, STARTED, KEPT = 0, 1, 2, 3
"""Places in ``state.counters``: what is being computed, the next step to read, directions begun, directions kept."""
ROUNDING, TRUSTED = 1e-16, 1e-8
"""An image is kept while the bound on its rounding error is below ``TRUSTED`` times its length."""


def krylov_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Krylov GTD: theta -= <q, u> / <q, q> p along each of K kept directions p, with q = A p and u = A theta + b.

    A and b are sums over all stored steps (the latest ``window`` ones, where that is given), and the inner product
    <a, c> = sum of w_i a_i c_i has the weights w_i = n / sum of x_i^2, so the scale of a feature does not matter. Each step

    1. adds the arriving step to u and to every q;
    2. where no direction is under way, begins one: in turn p = w u, as TD would go, and p = w A' w u, against the
       gradient of NEU, as Impression GTD would;
    3. reads at most M stored steps for it, first for A' w u where that is asked for, then for its image q = A p; when
       all are read, q is made orthogonal to the kept images, p changes alike, and the pair is kept, the oldest leaving;
    4. searches along the kept directions, the oldest first. The denominator is
       <q, q> + eps (sum of rho^2 <x, x> <y, y>) sum of p_i^2 / w_i: the second part bounds the noise in q. It grows like n,
       the first like n^2, so it damps the first steps only.

    No step-size. Cost O((M + K) d); with sparse features M reads of their entries and O(K d). Memory 2 (K + 1) d besides
    the stream. For fixed data every search lowers the empirical NEU <u, u>, whatever the direction: that is proven, and so
    is that theta never moves where <u, u> cannot fall. How fast it comes near LSTD is only measured (docs/krylov.md). It
    does not rest on TD being stable. The chaos of conjugate directions is its own, too: a change in the last bit is
    seen in the digits after some hundred steps, though not in the error.
    """
    fill(state.x, 0.0)
    add_features(stream, now.t, 1.0, state.x)
    fill(state.y, 0.0)
    add_gradient(stream, now.t, 1.0, state.y)
    add_squares(state.s, state.inverse, state.x)
    add_step(state, stream, now)
    oldest = 0
    if hyper.window > 0.0 and now.seen > hyper.window:
        oldest = now.seen - int(hyper.window)
        remove_step(state, stream, oldest - 1, 1.0 / hyper.window)
    if state.counters[STAGE] == IDLE:
        begin_direction(state, oldest)
    if state.counters[STAGE] != IDLE:
        read_steps(state, stream, int(hyper.M), oldest, now.seen)
    for i in range(state.counters[KEPT]):
        search_line(state, state.p[i], state.q[i], float(now.seen), hyper.eps)


def add_step(state: State, stream: StreamView, now: Now) -> None:
    """u += rho (r + y.theta) x;  q += rho (y.p) x for every kept pair;  noise += rho^2 <x, x> <y, y>."""
    step = stream.steps[now.t]
    add_scaled(state.u, step.rho * (step.reward + dot(state.y, state.theta)), state.x)
    for i in range(state.counters[KEPT]):
        add_scaled(state.q[i], step.rho * dot(state.y, state.p[i]), state.x)
    length_x = weighted_dot(state.inverse, state.x, state.x)
    length_y = weighted_dot(state.inverse, state.y, state.y)
    state.noise[0] += (step.rho * now.seen) ** 2 * length_x * length_y


def remove_step(state: State, stream: StreamView, t: int, share: float) -> None:
    """Take step t out of u, of every image and of the direction under way, which has read it; noise loses its share."""
    step = stream.steps[t]
    fill(state.y, 0.0)
    add_gradient(stream, t, 1.0, state.y)
    add_features(stream, t, -step.rho * (step.reward + dot(state.y, state.theta)), state.u)
    for i in range(state.counters[KEPT]):
        add_features(stream, t, -step.rho * dot(state.y, state.p[i]), state.q[i])
    if state.counters[STAGE] == IMAGE:
        add_features(stream, t, -step.rho * dot(state.y, state.new_p), state.new_q)
    elif state.counters[STAGE] == GRADIENT:
        add_scaled(state.g, -step.rho * projected(stream, t, state.v), state.y)
    state.noise[0] *= 1.0 - share


def begin_direction(state: State, oldest: int) -> None:
    """v = w u, scaled; it is the direction itself, or A'v will be."""
    if not set_weighted(state, state.v, state.u):
        return
    state.counters[NEXT] = oldest
    state.counters[STARTED] += 1
    if state.counters[STARTED] % 2 == 1:
        copy(state.new_p, state.v)
        fill(state.new_q, 0.0)
        state.counters[STAGE] = IMAGE
    else:
        fill(state.g, 0.0)
        state.counters[STAGE] = GRADIENT


def set_weighted(state: State, out: Floats, v: Floats) -> bool:
    """out = v / s, scaled so that the sum of out^2 s is one; False where v is zero."""
    size = weighted_dot(state.inverse, v, v)
    if not size > 0.0:
        return False
    weighted(out, 1.0 / np.sqrt(size), state.inverse, v)
    return True


def read_steps(state: State, stream: StreamView, most: int, oldest: int, seen: int) -> None:
    """Read the next stored steps for the direction under way; after the last one, go on to what comes next."""
    begin = state.counters[NEXT]
    end = min(begin + most, seen)
    state.counters[NEXT] = end
    if state.counters[STAGE] == GRADIENT:
        for t in range(begin, end):
            add_to_gradient(stream, np.uint64(t), state.v, state.g)
        if end == seen:
            state.counters[NEXT] = oldest
            fill(state.new_q, 0.0)
            state.counters[STAGE] = IMAGE if set_weighted(state, state.new_p, state.g) else IDLE
    else:
        for t in range(begin, end):
            add_to_image(stream, np.uint64(t), state.new_p, state.new_q)
        if end == seen:
            keep_direction(state)
            state.counters[STAGE] = IDLE


def add_to_gradient(stream: StreamView, t: Index, v: Floats, out: Floats) -> None:
    """out += A_t' v = rho (x.v) y"""
    add_gradient(stream, t, stream.steps[t].rho * projected(stream, t, v), out)


def add_to_image(stream: StreamView, t: Index, p: Floats, out: Floats) -> None:
    """out += A_t p = rho (y.p) x"""
    step = stream.steps[t]
    along = difference_dot(stream.features, step.row, step.next_row, step.discount, p)
    add_features(stream, t, step.rho * along, out)


def keep_direction(state: State) -> None:
    """Keep the new pair, its image orthogonal to the others; where rounding spoils that, keep it alone and as it was.

    ``error`` bounds the rounding error of an image, which subtractions of nearly equal images blow up.
    """
    p, q = state.new_p, state.new_q
    length = weighted_dot(state.inverse, q, q)
    if not length > 0.0:
        return
    if state.counters[KEPT] == state.p.shape[0]:
        drop_oldest(state)
    kept = state.counters[KEPT]
    copy(state.v, p)
    copy(state.g, q)
    error = ROUNDING * np.sqrt(length)
    for i in range(kept):
        square = weighted_dot(state.inverse, state.q[i], state.q[i])
        if square > 0.0:
            c = weighted_dot(state.inverse, q, state.q[i]) / square
            add_scaled(p, -c, state.p[i])
            add_scaled(q, -c, state.q[i])
            error += abs(c) * state.error[i]
    if not error < TRUSTED * np.sqrt(weighted_dot(state.inverse, q, q)):
        kept, error = 0, ROUNDING * np.sqrt(length)
        p, q = state.v, state.g
    copy(state.p[kept], p)
    copy(state.q[kept], q)
    state.error[kept] = error
    state.counters[KEPT] = kept + 1


def drop_oldest(state: State) -> None:
    """Move every kept pair one place towards the front."""
    for i in range(1, state.counters[KEPT]):
        copy(state.p[i - 1], state.p[i])
        copy(state.q[i - 1], state.q[i])
        state.error[i - 1] = state.error[i]
    state.counters[KEPT] -= 1


def search_line(state: State, p: Floats, q: Floats, n: float, eps: float) -> None:
    """theta -= a p and u -= a q, with a = <q, u> / (<q, q> + eps noise sum of p^2 / w), w = n / s."""
    along, square, size = line_sums(p, q, state.u, state.s, state.inverse)
    below = n * square + eps * state.noise[0] * size / n
    if below > 0.0:
        a = n * along / below
        add_scaled(state.theta, -a, p)
        add_scaled(state.u, -a, q)


def _fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    names = ("u", "s", "inverse", "x", "y", "v", "g", "new_p", "new_q")
    vectors = {name: np.zeros(n_features) for name in names}
    pairs = {name: np.zeros((hyper["K"], n_features)) for name in "pq"}
    return vectors | pairs | {"error": np.zeros(hyper["K"]), "noise": np.zeros(1), "counters": np.zeros(4, np.int64)}


ALGORITHMS = (
    Algorithm(
        "krylov_gtd",
        krylov_gtd,
        _fields,
        step_size=False,
        parameters={
            "M": Parameter(64, "stored steps read each step", whole(2)),
            "K": Parameter(3, "directions kept", whole(1)),
            "eps": Parameter(0.01, "damping of the first steps", at_least(0)),
            "window": Parameter(0, "use the latest steps only, this many; 0 for all", whole(0)),
        },
    ),
)
