"""Determines which runs of a queue learn in one call of compiled code, and which of them share their batches."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled.engine import compile_packed
from gradtd.compiled.lanes import Stack, lanes_kernel, new_stack
from gradtd.compiled.loop import driver_of, used_of
from gradtd.compiled.online import step_kernel
from gradtd.compiled.packing import Packed, kind_of
from gradtd.core.arrays import Plain
from gradtd.running.online.online_run import OnlineRun

FEWEST_LANES, MOST_NUMBERS = 8, 2**18
"""Learning together does not help with fewer runs, or with vectors that exceed the caches."""


class Group(NamedTuple):
    """Runs of one kind: their compiled loop and its arguments."""

    kernel: Plain
    packed: Packed
    runs: list[int]
    lanes: bool = False

    def pieces(self) -> list[tuple[Group, int, int]]:
        """The pieces of work for threads: all lanes together, or one run each."""
        return [(self, 0, len(self.runs))] if self.lanes else [(self, k, 1) for k in range(len(self.runs))]


def may_have_lanes(runs: int, n_features: int) -> bool:
    return runs >= FEWEST_LANES and runs * n_features <= MOST_NUMBERS


class Grouping:
    """Creates the groups of a queue. Kernels and memory for lanes are created once."""

    def __init__(self, n_features: int, compile: bool | None) -> None:
        self.n_features, self.compile = n_features, compile
        self._kernels: dict[Any, tuple[Plain, bool]] = {}
        self._stacks: dict[tuple[int, ...], tuple[Stack, list[int]]] = {}

    def groups(self, runs: list[OnlineRun], arguments: list[tuple[Any, ...]], threads: int) -> list[Group]:
        """The groups of these runs. With ``threads`` 0, no runs learn together."""
        alike: dict[Any, list[int]] = {}
        for i, (run, one) in enumerate(zip(runs, arguments, strict=True)):
            driver = driver_of(run.session.setup.algorithm, run.session.drawing)
            alike.setdefault((driver, kind_of(one), run.lane_key() if threads else None), []).append(i)
        kinds: dict[Any, list[int]] = {}
        made = []
        for (driver, kind, lane), some in alike.items():
            if lane is not None and len(some) >= FEWEST_LANES:
                pieces = np.array_split(np.array(some), max(1, min(threads, len(some) // FEWEST_LANES)))
                made += [self._side_by_side(runs, arguments, piece.tolist()) for piece in pieces]
            else:
                kinds.setdefault((driver, kind), []).extend(some)
        for (driver, _), some in kinds.items():
            found = self.kernel(partial(step_kernel, driver), driver, [arguments[i] for i in sorted(some)])
            made.append(Group(*found, sorted(some)))
        return made

    def _side_by_side(self, runs: list[OnlineRun], arguments: list[tuple[Any, ...]], lanes: list[int]) -> Group:
        """A group of runs that draw the same batches."""
        session, steps = runs[lanes[0]].session, len(runs[lanes[0]].window.steps)
        key, moves = tuple(lanes), [runs[i].window.moves for i in lanes]
        stack, moved = self._stacks.get(key, (None, None))
        if stack is None or len(stack.numbers) != steps:
            before, stack = stack, new_stack(steps, self.n_features, len(lanes))
            if before is not None and moved == moves:
                n = stack.filled[0] = before.filled[0]
                stack.numbers[:n], stack.alike[:n] = before.numbers[:n], before.alike[:n]
        elif moved != moves:
            stack.filled[0] = 0
        self._stacks = {old: kept for old, kept in self._stacks.items() if not set(old) & set(lanes)}
        self._stacks[key] = stack, moves
        rule = session.setup.algorithm
        parts = (*(rule.lanes or ()), used_of(rule), *session.drawing)
        found = self.kernel(partial(lanes_kernel, parts), parts, [(*arguments[i], stack) for i in lanes])
        return Group(*found, lanes, lanes=True)

    def kernel(self, make: Any, code: Any, arguments: list[Any]) -> tuple[Plain, Packed]:
        """``make(unpack)`` compiled once for arguments of this kind; ``code`` identifies derived functions."""
        key = code, kind_of(arguments[0])
        if key not in self._kernels:
            self._kernels[key] = compile_packed(make, arguments[0], self.compile)
        kernel, compiled = self._kernels[key]
        return kernel, Packed(arguments, compiled)
