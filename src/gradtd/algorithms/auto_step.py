"""``alpha="auto"`` of Impression GTD: a step-size chosen from the data.

Write G = A1' W A2 for the step's two batches, so that g = G theta + A1' W b2 is the direction of the update.
Two quantities are estimated from every pair of batches, in the same passes that compute g:

* **the stability threshold.** A unit vector z follows z <- normalise(z - alpha_th G z), the recursion of the error, and
  so aligns with the direction that becomes unstable first. There the mean square of z - alpha G z stays below one for
  alpha below alpha_th = 2 <z.Gz> / <|Gz|^2>.
* **the one-step-optimal step size**, after which theta is closest to the solution in mean square:
  <theta.g + b1.W(A2 theta + b2)> / <|g|^2>. The numerator is u1' W u2 with u = A theta + b: the batches are
  independent, so it is an unbiased estimate of the loss (Polyak's step size, with one batch in each factor).

<.> are moving averages over recent updates. The step-size of an update uses averages up to the previous update, so it
is independent of the batches it multiplies:

    alpha = clip(one-step-optimal less two standard errors of its numerator, lowest, alpha_th / 2)

lowest is alpha_th / 6, times n / 3000 for the first 3000 pairs of batches: until the data clearly support a larger
step, a short step is used. If averaged weights are reported, noise matters less later on, so the standard errors are
multiplied by (500 / n)^2 after the first 500 pairs. If the last weights are reported, the standard errors count in
full, and lowest decays as (1 + n / 300)^(-3/4), so that the noise in the weights vanishes.

If the |g|^2 of a batch exceeds a quarter of the sum over the window, the averages do not reflect it yet: its step is
shortened to that size. The share of such batches goes to zero as the window grows. Nothing depends on the scale of
features or rewards. The cost stays O((m1 + m2) d).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from gradtd.compiled.vectors import add_scaled, dot, scale_by
from gradtd.core.algorithm import Now, Storage
from gradtd.core.arrays import Batch, Floats, Hyper, State
from gradtd.core.checks import InputError, number_above
from gradtd.core.stream import StreamView
from gradtd.estimates import batch_td_update_and_apply, batch_transpose_apply_to_two

WATCHES = 75
"""Number of pairs of batches observed before the first update."""
LOWEST, HIGHEST = 1 / 6, 1 / 2
"""Bounds of the step-size, as parts of the threshold."""
CAREFUL, FADES, GROWN = 2.0, 500.0, 3000.0
"""Number of standard errors subtracted from the estimate of the loss; the number of pairs after which this number
decreases if an average is reported; the number of pairs until the lower bound has its full size."""
DECAYS, POWER = 300.0, 0.75
"""Without averaging, the lower bound of the step-size decays as (1 + n / ``DECAYS``)^-``POWER``."""
SURPRISE = 1 / 4
"""A |g|^2 above this share of the sum over the window shortens its step."""


@lru_cache(maxsize=64)
def with_chosen_step(weigh: Callable[..., Any], directions: str) -> Callable[..., Any]:
    """The update of Impression GTD with an automatic step-size; ``weigh(state, now, u)`` replaces u by W u."""
    share = 0.5 if directions == "averaged" else 1.0

    def look(state: State, stream: StreamView, now: Now, first: Batch, second: Batch, g: Floats, q: Floats) -> float:
        """g = A1' W (A2 theta + b2) and q = A1' W A2 z, one pass over each batch; returns b1' W (A2 theta + b2)"""
        batch_td_update_and_apply(stream, second, state.theta, state.z, state.u, state.v)
        weigh(state, now, state.u)
        weigh(state, now, state.v)
        return batch_transpose_apply_to_two(stream, first, state.u, state.v, g, q)

    def one_direction(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
        loss = look(state, stream, now, now.first, now.second, state.g, state.q)
        step_and_learn(state, now, loss + dot(state.theta, state.g))

    def both_directions(state: State, stream: StreamView, now: Now, hyper: Hyper) -> None:
        loss = look(state, stream, now, now.first, now.second, state.g, state.q)
        loss += look(state, stream, now, now.second, now.first, state.h, state.r)
        for out, other in ((state.g, state.h), (state.q, state.r)):
            add_scaled(out, 1.0, other)
            scale_by(out, share)
        step_and_learn(state, now, share * loss + dot(state.theta, state.g))

    return one_direction if directions == "one" else both_directions


def step_and_learn(state: State, now: Now, loss: float) -> None:
    """theta -= alpha g with the previous alpha; then update the averages with g, q = G z and the loss estimate."""
    n = state.seen[0]
    squared = dot(state.g, state.g)
    if n >= WATCHES:
        alpha = state.next_alpha[0] * now.alpha
        known = SURPRISE * (n / 2.0 + 100.0) * state.squared[0]
        if squared > known:
            alpha *= np.sqrt(known / squared)
        state.alpha[0] = alpha
        add_scaled(state.theta, -alpha, state.g)
    n += 1.0
    state.seen[0] = n
    weight = 1.0 / min(n, n / 4.0 + 20.0)
    _blend(state.along, weight, dot(state.z, state.q))
    _blend(state.length, weight, dot(state.q, state.q))
    weight = 1.0 / min(n, n / 2.0 + 100.0)
    _blend(state.loss, weight, loss)
    _blend(state.loss_squared, weight, loss * loss)
    _blend(state.squared, weight, squared)
    threshold = 0.0
    if state.along[0] > 0.0 and state.length[0] > 0.0:
        threshold = 2.0 * state.along[0] / state.length[0]
    alpha = LOWEST * threshold * min(1.0, n / GROWN) * (1.0 + n / DECAYS) ** -state.decay[0]
    spread = max(0.0, state.loss_squared[0] - state.loss[0] * state.loss[0])
    sure = state.loss[0] - _standard_errors(n, state.decay[0]) * np.sqrt(weight * spread)
    if state.squared[0] > 0.0 and sure / state.squared[0] > alpha:
        alpha = min(sure / state.squared[0], HIGHEST * threshold)
    state.next_alpha[0] = alpha
    add_scaled(state.z, -threshold, state.q)
    size = np.sqrt(dot(state.z, state.z))
    if size > 0.0:
        scale_by(state.z, 1.0 / size)


def _standard_errors(n: float, decay: float) -> float:
    """Number of standard errors to subtract after n pairs of batches: the full number if the last weights are
    reported."""
    if decay > 0.0 or n <= FADES:
        return CAREFUL
    return CAREFUL * (FADES / n) * (FADES / n)


def _blend(mean: Floats, weight: float, value: float) -> None:
    mean[0] += weight * (value - mean[0])


def chosen(state: State) -> float:
    """The step-size of the latest update, 0 before the first one."""
    return state.alpha[0]  # type: ignore[no-any-return]


def auto_fields(n_features: int, hyper: Mapping[str, Any]) -> dict[str, Any]:
    """State besides theta: the probe z, directions, moving averages, the step-size."""
    z = np.random.default_rng(0).standard_normal(n_features)
    vectors = {name: np.zeros(n_features) for name in ("u", "v", "g", "q", "h", "r")}
    names = ("seen", "along", "length", "loss", "loss_squared", "squared", "next_alpha", "alpha")
    numbers = {name: np.zeros(1) for name in names} | {"decay": np.zeros(1)}
    if hyper.get("average") == "none":
        numbers["decay"][0] = POWER
    return vectors | {"z": z / np.linalg.norm(z)} | numbers


AUTO_STORAGE = {
    "theta": Storage.ROWS,
    "z": Storage.SCALED,
    **dict.fromkeys(("u", "v", "g", "q", "h", "r"), Storage.CLEARED),
}


def number_or_auto(name: str, value: Any) -> Any:
    """A step-size above zero, or "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise InputError(f"{name} must be a number above 0 or 'auto', got {value!r}.")
        return value
    return number_above(name, value, 0)
