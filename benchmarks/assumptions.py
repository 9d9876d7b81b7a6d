"""What docs/assumptions.md says of answers under assumptions, measured: one mode for each section.

python benchmarks/assumptions.py anytime
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradtd

GIVEN: dict[str, Any] = {"progress": False, "threads": 1}
Array = np.ndarray[Any, Any]


@dataclass
class World:
    """A finite problem: chances of the next state (the last one is the end), rewards, and two policies."""

    P: Array
    R: Array
    behaviour: Array
    target: Array
    gamma: float
    start: Array

    @property
    def states(self) -> int:
        return len(self.P)

    def values(self, policy: Array | None = None) -> Array:
        pi = self.target if policy is None else policy
        P = np.einsum("sa,sax->sx", pi, self.P)[:, :-1]
        r = np.einsum("sa,sax,sax->s", pi, self.P, self.R)
        return np.linalg.solve(np.eye(self.states) - self.gamma * P, r)

    def truth(self) -> float:
        return float(self.start @ self.values())

    def log(self, episodes: int, seed: int, noise: float = 0.5, behaviour: Array | None = None) -> dict[str, Array]:
        """Columns of a log; all episodes go on together until the last one ends."""
        rng = np.random.default_rng(seed)
        taken = self.behaviour if behaviour is None else behaviour
        s, alive, rows = rng.choice(self.states, episodes, p=self.start), np.arange(episodes), []
        for t in range(400):
            a = _draw(taken[s], rng)
            then = _draw(self.P[s, a], rng)
            r = self.R[s, a, then] + noise * rng.standard_normal(len(s))
            rows.append(np.c_[alive, np.full(len(s), t), s, a, r, then == self.states, self.behaviour[s, a]])
            go = then < self.states
            s, alive = then[go], alive[go]
            if not len(s):
                break
        table = np.concatenate(rows)
        table = table[np.lexsort((table[:, 1], table[:, 0]))]
        names = ("episode", "t", "obs", "action", "reward", "terminated", "action_prob")
        whole = ("episode", "t", "obs", "action", "terminated")
        return {n: table[:, k].astype(np.int64) if n in whole else table[:, k] for k, n in enumerate(names)}


def _draw(chances: Array, rng: np.random.Generator) -> Array:
    return np.asarray((rng.random((len(chances), 1)) > chances.cumsum(axis=1)).sum(axis=1)).clip(
        max=chances.shape[1] - 1
    )


def random_world(seed: int, states: int = 5, actions: int = 2, ends: float = 0.15, gamma: float = 0.95) -> World:
    rng = np.random.default_rng(seed)
    P = np.zeros((states, actions, states + 1))
    P[..., :-1] = rng.dirichlet(np.ones(states), (states, actions)) * (1 - ends)
    P[..., -1] = ends
    behaviour, target = (0.15 / actions + 0.85 * rng.dirichlet(np.ones(actions), states) for _ in range(2))
    behaviour = (behaviour + target) / 2 if actions > 1 else behaviour
    behaviour, target = (pi / pi.sum(axis=1, keepdims=True) for pi in (behaviour, target))
    R = rng.random((states, actions, states + 1))
    return World(P, R, behaviour, target, gamma, rng.dirichlet(np.ones(states)))


def first_episodes(log: dict[str, Array], n: int) -> dict[str, Array]:
    return {name: values[: np.searchsorted(log["episode"], n)] for name, values in log.items()}


def holds(interval: Any, truth: float) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def anytime(logs: int = 300, looks: int = 36) -> None:
    """Growing logs, looked at again and again: how often an interval is wrong at some look."""
    wrong, times, at = np.zeros((2, logs), bool), [], np.geomspace(40, 600, looks).astype(int)
    cost = np.zeros(2)
    for k in range(logs):
        world = random_world(7000 + k)
        log, truth = world.log(int(at[-1]), 8000 + k), world.truth()
        target = world.target
        for n in at:
            part = gradtd.read_log(first_episodes(log, int(n)))
            made = gradtd.evaluate(
                part, gamma=world.gamma, target=target, inference=gradtd.Inference(anytime=True, resamples=0), **GIVEN
            )
            assert made.anytime is not None
            wrong[:, k] |= [not holds(one, truth) for one in (made.interval, (made.anytime.low, made.anytime.high))]
            times.append((made.anytime.high - made.anytime.low) / (made.interval[1] - made.interval[0]))
        if k < 20:
            for way in (False, True):
                begin = time.process_time()
                gradtd.evaluate(
                    part, gamma=world.gamma, target=target, inference=gradtd.Inference(anytime=way), **GIVEN
                )
                cost[int(way)] += time.process_time() - begin
    print(
        f"{logs} logs, {looks} looks: wrong at some look {wrong[0].mean():.1%} (interval for one look), "
        f"{wrong[1].mean():.1%} (for every look); width over that for one look {np.median(times):.2f}; "
        f"cost {cost[1] / cost[0]:.3f} of an evaluation without"
    )


MODES: dict[str, Callable[[], None]] = {"anytime": anytime}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=[*MODES, "all"])
    mode = parser.parse_args().mode
    for name in MODES if mode == "all" else [mode]:
        begin = time.process_time()
        MODES[name]()
        print(f"({name}: {time.process_time() - begin:.0f} processor seconds)", flush=True)


if __name__ == "__main__":
    main()
