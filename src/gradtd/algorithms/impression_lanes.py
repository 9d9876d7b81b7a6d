"""Impression GTD for many demons of a horde at once (`gradtd.compiled.lanes`): the sums of its updates in lanes."""

from __future__ import annotations

from gradtd.algorithms.auto_step import step_and_learn
from gradtd.compiled.lanes import Stack, from_lane, stacked_td_update, stacked_transpose_apply, to_lane
from gradtd.compiled.vectors import add_scaled, dot
from gradtd.core.algorithm import Now
from gradtd.core.arrays import Batch, State
from gradtd.core.stream import StreamView


def _enter(state: State, stack: Stack, i: int) -> None:
    to_lane(stack.theta, i, state.theta)


def _look(stack: Stack, stream: StreamView, first: Batch, second: Batch) -> None:
    """u = A2 theta + b2 and g = A1' u"""
    stacked_td_update(stack, stream, second, stack.theta, stack.u, True)
    stacked_transpose_apply(stack, stream, first, stack.u, stack.g, False)


def _finish(state: State, stack: Stack, i: int, now: Now) -> None:
    from_lane(stack.u, i, state.u)
    from_lane(stack.g, i, state.g)
    add_scaled(state.theta, -now.alpha, state.g)
    to_lane(stack.theta, i, state.theta)


def _enter_with_probe(state: State, stack: Stack, i: int) -> None:
    _enter(state, stack, i)
    to_lane(stack.z, i, state.z)


def _look_with_probe(stack: Stack, stream: StreamView, first: Batch, second: Batch) -> None:
    """The sums without a probe, and also v = A2 z, q = A1' v and the loss b1 . u"""
    stacked_td_update(stack, stream, second, stack.theta, stack.u, True)
    stacked_td_update(stack, stream, second, stack.z, stack.v, False)
    stacked_transpose_apply(stack, stream, first, stack.u, stack.g, True)
    stacked_transpose_apply(stack, stream, first, stack.v, stack.q, False)


def _finish_with_probe(state: State, stack: Stack, i: int, now: Now) -> None:
    from_lane(stack.u, i, state.u)
    from_lane(stack.v, i, state.v)
    from_lane(stack.g, i, state.g)
    from_lane(stack.q, i, state.q)
    step_and_learn(state, now, stack.loss[i] + dot(state.theta, state.g))
    to_lane(stack.theta, i, state.theta)
    to_lane(stack.z, i, state.z)


LANES = (_enter, _look, _finish)
"""The functions of lanes for a given step-size."""
AUTO_LANES = (_enter_with_probe, _look_with_probe, _finish_with_probe)
"""The functions of lanes for an automatic step-size."""
