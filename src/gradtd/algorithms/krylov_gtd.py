"""Krylov GTD: exact line searches on the NEU of all stored steps, along directions made conjugate to each other.

The stored steps give A = sum of rho e y' and b = sum of rho r e, with y = discount x_next - x and the trace e, which is
x where lam is 0. No matrix is formed: the rule keeps the residual u = A theta + b, and the images q = A p of up to K
directions p. Each new step changes all of them by a multiple of e. Along a direction with a known image, an exact line
search takes two inner products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.algorithms import krylov_sums
from gradtd.algorithms.krylov_sums import can_solve, solve
from gradtd.compiled.linalg import add_scaled, copy, fill, line_sums, scale_by, weighted, weighted_dot
from gradtd.compiled.rows import difference_dot, four_difference_dots, four_row_dots, trace_place
from gradtd.compiled.sums import add_squares, difference_sums, entries_a_row, row_square, usual_squares
from gradtd.core.algorithm import Algorithm, Now, Parameter
from gradtd.core.arrays import Floats, Hyper, Index, State
from gradtd.core.checks import at_least, whole
from gradtd.core.stream import StreamView
from gradtd.estimates import add_gradient, add_trace, traced

IDLE, GRADIENT, IMAGE = 0, 1, 2
STAGE, NEXT, STARTED, KEPT, WAITING = 0, 1, 2, 3, 4
"""Indices of ``state.counters``: the current computation, the next step to read, directions begun, directions kept,
steps since the last search."""
ROUNDING, TRUSTED, NOTHING = 1e-16, 1e-8, 1e-12
"""An image is kept if the bound on its rounding error is below ``TRUSTED`` times its length. A residual or a gradient
shorter than ``NOTHING`` times the sum of its terms counts as rounding error."""
SPARSE = 4.0
"""Features count as sparse if less than a quarter of their entries are nonzero."""
MOST, SHARE = 32, 0.01
"""Searches along A^{-1} u wait for at most this number of steps, and this share of all steps."""


def krylov_gtd(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
    """Krylov GTD: theta -= <q, u> / <q, q> p along directions p, with q = A p and u = A theta + b.

    A and b are sums over all stored steps (the latest ``window`` ones, if given). The inner product
    <a, c> = sum of w_i a_i c_i has weights w_i = n / sum of x_i^2, so the units of a feature do not matter. The sum is
    at least the usual square of the feature, sum of x_i^4 / sum of x_i^2 over the rows of the table, so a feature with
    only tiny values so far does not get a large weight. Each step is added to u and to every q. Then, or once ``every``
    steps have accumulated (earlier if their reads complete a pass over the stored steps), the rule

    1. begins a direction if there is no current one: alternately p = w u, the direction of TD, and p = w A' w u, the
       direction of Impression GTD, against the gradient of NEU;
    2. reads at most M stored steps for it per new step, first for A' w u if needed, then for its image q = A p; when
       all are read, q is made orthogonal to the K kept images, p is transformed in the same way, and the pair replaces
       the oldest one;
    3. searches along the kept directions, the oldest first. The denominator is
       <q, q> + eps d^2 (sum of rho^2 <e, e> <y, y>) sum of p_i^2 / w_i + 1e-6 n sum of p_i^2 usual_i. The second term
       bounds the noise in q. It grows like n, the first term like n^2, so only early steps are damped, for longer if d
       is large. The last term matters for rows in which all entries are tiny. If steps were accumulated, each search is
       repeated once per accumulated step.

    With up to 512 features, once there are 16 effective steps per feature and A^{-1} u is not dominated by noise, the
    rule keeps A itself and searches along p = A^{-1} u, with factors of A that are out of date by at most a quarter of
    the data (`krylov_sums`). This converges to the weights of LSTD. A search then follows after d / 2 or 32 steps, or
    ``every``, or 1 % of all steps. M, K and eps are not used there.

    If a trace has z entries and 4 z < d, d^2 is replaced by (4 z)^2, and ``every`` is by default d / (4 z); otherwise
    1. No step-size. Cost O((M + K) d); with sparse features O((M + K) z), as the searches, O(K d), run once every d /
       (4 z) steps and once per pass. With A kept O(d^2). Memory: (2 K + 9) d numbers besides the stream, and with up to
       512 features 2 d^2 more.

    Proven: for fixed data no search along any direction increases the empirical NEU <u, u>, so convergence does not
    need TD to be stable; with A kept the same holds for NEU with a ridge. The rate at which the rule approaches LSTD
    without A is measured, not proven (docs/krylov.md). Conjugate directions amplify rounding: in an ill-conditioned
    problem a change of the last bit may be visible in the weights after some hundred steps, but not in their error.
    """
    if now.seen == 1:
        usual_squares(stream.features, state.least, state.v)
        scale_by(state.least, state.floor[0])
    add_step(state, stream, now)
    oldest = 0
    if hyper.window > 0.0 and now.seen > hyper.window:
        oldest = now.seen - int(hyper.window)
        remove_step(state, stream, np.uint64(oldest - 1), 1.0 / hyper.window)
    if can_solve(state, stream, oldest, now.seen):
        take_turns_solving(state, stream, hyper, oldest, now.seen)
        return
    d = float(state.u.shape[0])
    left, _ = trace_place(stream.traces, stream.features, stream.steps[now.t].row, now.t)
    filled = min(d, max(1.0, SPARSE * entries_a_row(left)))
    every = int(hyper.every) if hyper.every > 0.0 else int(d / filled)
    waiting = take_turn(state, oldest, now.seen, every, int(hyper.M))
    if waiting == 0:
        return
    if state.counters[STAGE] == IDLE:
        begin_direction(state, oldest, float(now.seen))
    if state.counters[STAGE] != IDLE:
        read_steps(state, stream, waiting * int(hyper.M), oldest, now.seen)
    for i in range(state.counters[KEPT]):
        search_line(state, state.p[i], state.q[i], float(now.seen), hyper.eps * filled**2, waiting)


def take_turns_solving(state: State, stream: StreamView, hyper: Hyper, oldest: int, seen: int) -> None:
    """Search along A^{-1} u, for several steps at a time; all other directions are dropped."""
    state.counters[KEPT] = 0
    state.counters[STAGE] = IDLE
    state.counters[WAITING] += 1
    most = int(hyper.every) if hyper.every > 0.0 else min(MOST, state.u.shape[0] // 2)
    if state.counters[WAITING] >= min(most, int(SHARE * (seen - oldest))):
        state.counters[WAITING] = 0
        solve(state, stream, oldest, seen)


def take_turn(state: State, oldest: int, seen: int, every: int, reads: int) -> int:
    """The number of accumulated steps if it is time to search (``every`` is reached, or the pass is complete), else
    0."""
    state.counters[WAITING] += 1
    waiting = state.counters[WAITING]
    begin = oldest if state.counters[STAGE] == IDLE else state.counters[NEXT]
    if waiting < every and waiting * reads < seen - begin:
        return 0
    state.counters[WAITING] = 0
    return int(waiting)


def add_step(state: State, stream: StreamView, now: Now) -> None:
    """u += rho (r + y.theta) e;  q += rho (y.p) e for every kept pair;  noise += rho^2 <e, e> <y, y>.

    ``terms`` is the sum of the lengths of the terms of u.
    """
    step = stream.steps[now.t]
    count_ratio(state, step.rho, 1.0)
    add_squares(stream.features, step.row, state.least, state.squares, state.s, state.inverse)
    size, length_y = add_multiples(state, stream, now.t, 1.0)
    left, row = trace_place(stream.traces, stream.features, step.row, now.t)
    length_e = row_square(left, row, state.inverse)
    state.noise[0] += (step.rho * now.seen) ** 2 * length_e * length_y
    state.terms[0] += step.rho * (abs(step.reward) + size) * np.sqrt(now.seen * length_e)


def count_ratio(state: State, rho: float, sign: float) -> None:
    """Add a ratio and its square to their sums, or subtract them."""
    state.ratios[0] += sign * rho
    state.ratios[1] += sign * rho * rho


def add_multiples(state: State, stream: StreamView, t: Index, sign: float) -> tuple[float, float]:
    """u += sign rho (r + y.theta) e and q += sign rho (y.p) e; returns the sum of |y theta| and <y, y> / n."""
    step = stream.steps[t]
    kept = state.counters[KEPT]
    along, size, length_y = difference_sums(
        stream.features, step, state.theta, state.inverse, state.p, kept, state.along
    )
    add_trace(stream, t, sign * step.rho * (step.reward + along), state.u)
    for i in range(kept):
        add_trace(stream, t, sign * step.rho * state.along[i], state.q[i])
    return size, length_y


def remove_step(state: State, stream: StreamView, t: Index, share: float) -> None:
    """Subtract step t from u, every image, the noise and the current direction, even if the latter has not read step t.

    A direction is complete only when all steps since its beginning were read.
    """
    step = stream.steps[t]
    count_ratio(state, step.rho, -1.0)
    add_multiples(state, stream, t, -1.0)
    if state.counters[STAGE] == IMAGE:
        along = difference_dot(stream.features, step.row, step.next_row, step.discount, state.new_p)
        add_trace(stream, t, -step.rho * along, state.new_q)
    elif state.counters[STAGE] == GRADIENT:
        add_gradient(stream, t, -step.rho * traced(stream, t, state.v), state.g)
    state.noise[0] *= 1.0 - share


def begin_direction(state: State, oldest: int, n: float) -> None:
    """v = w u, scaled: the direction is v, or A'v."""
    if not set_weighted(state, state.v, state.u, n, state.terms[0]):
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


def set_weighted(state: State, out: Floats, v: Floats, n: float, terms: float) -> bool:
    """out = w v / sqrt <v, v>, with w = n / s; False where v is zero to rounding.

    By Cauchy and Schwarz neither A out nor A'out is longer than sqrt(n noise).
    """
    length = np.sqrt(n * weighted_dot(state.inverse, v, v))
    if not length > NOTHING * terms:
        return False
    weighted(out, n / length, state.inverse, v)
    return True


def read_steps(state: State, stream: StreamView, most: int, oldest: int, seen: int) -> None:
    """Read the next stored steps for the current direction; after the last one, start the next computation."""
    begin = state.counters[NEXT]
    end = min(begin + most, seen)
    state.counters[NEXT] = end
    if state.counters[STAGE] == GRADIENT:
        add_to_gradient(stream, begin, end, state.v, state.g)
        if end == seen:
            state.counters[NEXT] = oldest
            fill(state.new_q, 0.0)
            clear = set_weighted(state, state.new_p, state.g, float(seen), np.sqrt(seen * state.noise[0]))
            state.counters[STAGE] = IMAGE if clear else IDLE
    else:
        add_to_image(stream, begin, end, state.new_p, state.new_q)
        if end == seen:
            keep_direction(state, float(seen))
            state.counters[STAGE] = IDLE


def add_to_gradient(stream: StreamView, begin: int, end: int, v: Floats, out: Floats) -> None:
    """out += A_t'v = rho (e.v) y, for t from begin to end, four at a time"""
    t = begin
    while t + 4 <= end:
        a, b, c, e = np.uint64(t), np.uint64(t + 1), np.uint64(t + 2), np.uint64(t + 3)
        steps = stream.steps
        left, row_a = trace_place(stream.traces, stream.features, steps[a].row, a)
        _, row_b = trace_place(stream.traces, stream.features, steps[b].row, b)
        _, row_c = trace_place(stream.traces, stream.features, steps[c].row, c)
        _, row_e = trace_place(stream.traces, stream.features, steps[e].row, e)
        along = four_row_dots(left, row_a, row_b, row_c, row_e, v)
        add_gradient(stream, a, steps[a].rho * along[0], out)
        add_gradient(stream, b, steps[b].rho * along[1], out)
        add_gradient(stream, c, steps[c].rho * along[2], out)
        add_gradient(stream, e, steps[e].rho * along[3], out)
        t += 4
    for last in range(t, end):
        a = np.uint64(last)
        add_gradient(stream, a, stream.steps[a].rho * traced(stream, a, v), out)


def add_to_image(stream: StreamView, begin: int, end: int, p: Floats, out: Floats) -> None:
    """out += A_t p = rho (y.p) e, for t from begin to end, four at a time"""
    t = begin
    while t + 4 <= end:
        a, b, c, e = np.uint64(t), np.uint64(t + 1), np.uint64(t + 2), np.uint64(t + 3)
        steps = stream.steps
        along = four_difference_dots(stream.features, steps[a], steps[b], steps[c], steps[e], p)
        add_trace(stream, a, steps[a].rho * along[0], out)
        add_trace(stream, b, steps[b].rho * along[1], out)
        add_trace(stream, c, steps[c].rho * along[2], out)
        add_trace(stream, e, steps[e].rho * along[3], out)
        t += 4
    for last in range(t, end):
        a = np.uint64(last)
        step = stream.steps[a]
        along_one = difference_dot(stream.features, step.row, step.next_row, step.discount, p)
        add_trace(stream, a, step.rho * along_one, out)


def keep_direction(state: State, n: float) -> None:
    """Keep the new pair, its image orthogonal to the others; if rounding prevents that, drop the others.

    ``error`` bounds the rounding error of an image, which grows when nearly equal images are subtracted.
    """
    p, q = state.new_p, state.new_q
    error = ROUNDING * np.sqrt(n * state.noise[0])
    if not error < TRUSTED * np.sqrt(n * weighted_dot(state.inverse, q, q)):
        return
    if state.counters[KEPT] == state.p.shape[0]:
        drop_oldest(state)
    kept = state.counters[KEPT]
    copy(state.v, p)
    copy(state.g, q)
    alone = error
    for i in range(kept):
        square = weighted_dot(state.inverse, state.q[i], state.q[i])
        if square > 0.0:
            c = weighted_dot(state.inverse, q, state.q[i]) / square
            add_scaled(p, -c, state.p[i])
            add_scaled(q, -c, state.q[i])
            error += abs(c) * state.error[i]
    if not error < TRUSTED * np.sqrt(n * weighted_dot(state.inverse, q, q)):
        kept, error = 0, alone
        p, q = state.v, state.g
    copy(state.p[kept], p)
    copy(state.q[kept], q)
    state.error[kept] = error
    state.counters[KEPT] = kept + 1


def drop_oldest(state: State) -> None:
    """Drop the oldest pair and move the others one place towards the front."""
    for i in range(1, state.counters[KEPT]):
        copy(state.p[i - 1], state.p[i])
        copy(state.q[i - 1], state.q[i])
        state.error[i - 1] = state.error[i]
    state.counters[KEPT] -= 1


def search_line(state: State, p: Floats, q: Floats, n: float, damping: float, times: int) -> None:
    """theta -= a p and u -= a q, with a = <q, u> / (<q, q> + damping noise sum of p^2 / w), w = n / s.

    This equals ``times`` searches, each of which removes the share f = <q, q> / (...) of the remainder along p.
    """
    along, square, size, small = line_sums(p, q, state.u, state.s, state.inverse, state.least)
    below = n * square + damping * state.noise[0] * size / n + n * krylov_sums.RIDGE**2 * small
    if below > 0.0:
        a = n * along / below
        share = n * square / below
        if times > 1 and share > 0.0:
            a *= (1.0 - (1.0 - share) ** times) / share
        add_scaled(state.theta, -a, p)
        add_scaled(state.u, -a, q)
        state.terms[0] += abs(a) * np.sqrt(n * square)


def _fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    names = ("u", "least", "squares", "s", "inverse", "v", "g", "new_p", "new_q")
    vectors = {name: np.zeros(n_features) for name in names}
    pairs = {name: np.zeros((hyper["K"], n_features)) for name in "pq"}
    numbers = {"along": np.zeros(hyper["K"]), "error": np.zeros(hyper["K"]), "noise": np.zeros(1), "terms": np.zeros(1)}
    counters = {"counters": np.zeros(12, np.int64), "floor": np.ones(1)}
    return vectors | pairs | numbers | counters | krylov_sums.fields(n_features)


ALGORITHMS = (
    Algorithm(
        "krylov_gtd",
        krylov_gtd,
        _fields,
        stored=True,
        step_size=False,
        traces=True,
        parameters={
            "M": Parameter(64, "stored steps read at each step", whole(2)),
            "K": Parameter(5, "directions kept", whole(1)),
            "eps": Parameter(4e-4, "damping of the first steps", at_least(0)),
            "every": Parameter(0, "steps processed at a time; 0: 1, or more if features are sparse", whole(0)),
            "window": Parameter(0, "number of latest steps to use; 0: all", whole(0)),
        },
    ),
)
