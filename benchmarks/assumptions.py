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

GIVEN: dict[str, Any] = {"progress": False, "machine": gradtd.Machine(threads=1)}
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
        return _columns(np.concatenate(rows))


def _columns(table: Array) -> dict[str, Array]:
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


def run(log: Any, world: World, **inference: Any) -> gradtd.Evaluation:
    return gradtd.evaluate(log, world.target, world.gamma, inference=gradtd.Inference(**inference), **GIVEN)


def holds(interval: Any, truth: float) -> bool:
    return bool(interval[0] <= truth <= interval[1])


def anytime(logs: int = 300, looks: int = 36) -> None:
    """Growing logs, looked at again and again: how often an interval is wrong at some look."""
    wrong, times, at = np.zeros((2, logs), bool), [], np.geomspace(40, 600, looks).astype(int)
    cost = np.zeros(2)
    for k in range(logs):
        world = random_world(7000 + k)
        log, truth = world.log(int(at[-1]), 8000 + k), world.truth()
        for n in at:
            part = gradtd.read_log(first_episodes(log, int(n)))
            made = run(part, world, anytime=True, resamples=0)
            assert made.anytime is not None
            wrong[:, k] |= [not holds(one, truth) for one in (made.interval, (made.anytime.low, made.anytime.high))]
            times.append((made.anytime.high - made.anytime.low) / (made.interval[1] - made.interval[0]))
        if k < 20:
            for way in (False, True):
                begin = time.process_time()
                run(part, world, anytime=way)
                cost[int(way)] += time.process_time() - begin
    print(
        f"{logs} logs, {looks} looks: wrong at some look {wrong[0].mean():.1%} (interval for one look), "
        f"{wrong[1].mean():.1%} (for every look); width over that for one look {np.median(times):.2f}; "
        f"cost {cost[1] / cost[0]:.3f} of an evaluation without"
    )


def robust_truth(world: World, strength: float, sign: int) -> float:
    """Robust dynamic programming on the true problem: the least value (sign 1) or the largest (sign -1)."""
    V, b = np.zeros(world.states + 1), world.behaviour
    low, high = b + (1 - b) / strength, b + (1 - b) * strength
    for _ in range(600):
        Y = sign * (world.R + world.gamma * V)
        order = np.argsort(Y, axis=2)
        p = np.take_along_axis(world.P, order, 2)
        before = np.cumsum(p, axis=2) - p
        more = np.clip((1 - low)[..., None] - before * (high - low)[..., None], 0, p * (high - low)[..., None])
        Q = sign * (np.take_along_axis(Y, order, 2) * (p * low[..., None] + more)).sum(axis=2)
        V[:-1] = (world.target * Q).sum(axis=1)
    return float(world.start @ V[:-1])


def hidden_cause(world: World, strength: float, effect: float, seed: int) -> tuple[World, tuple[Array, Array, Array]]:
    """A cause u of two values, drawn at every step, that moves the odds of action 1 by just that factor either way.

    Returns the world without it, as the target lives in it, the chance of u = 1 by state, the behaviour by u, and what
    u adds to the reward by state and action.
    """
    rng = np.random.default_rng(seed)
    odds = world.behaviour[:, 1] / world.behaviour[:, 0]
    one, other = strength * odds / (1 + strength * odds), odds / strength / (1 + odds / strength)
    share = (world.behaviour[:, 1] - other) / (one - other)
    by_u = np.stack([np.c_[1 - other, other], np.c_[1 - one, one]])
    adds = effect * rng.uniform(0.5, 1, (world.states, 2)) * [-1, 1] * (1 if seed % 2 else -1)
    mean = world.R + (share[:, None] * adds)[..., None]
    return World(world.P, mean, world.behaviour, world.target, world.gamma, world.start), (share, by_u, adds)


def confounded_log(world: World, cause: tuple[Array, Array, Array], episodes: int, seed: int) -> dict[str, Array]:
    """Actions are drawn by u, and rewards have what it adds; what is recorded is the behaviour without it."""
    share, by_u, adds = cause
    reward = world.R - (share[:, None] * adds)[..., None]
    rng, rows = np.random.default_rng(seed), []
    s, alive = rng.choice(world.states, episodes, p=world.start), np.arange(episodes)
    for t in range(400):
        u = (rng.random(len(s)) < share[s]).astype(int)
        a = _draw(by_u[u, s], rng)
        then = _draw(world.P[s, a], rng)
        r = reward[s, a, then] + u * adds[s, a] + 0.1 * rng.standard_normal(len(s))
        rows.append(np.c_[alive, np.full(len(s), t), s, a, r, then == world.states, world.behaviour[s, a]])
        s, alive = then[then < world.states], alive[then < world.states]
        if not len(s):
            break
    return _columns(np.concatenate(rows))


def confounding(problems: int = 20, logs: int = 100) -> None:
    """Bounds against robust dynamic programming; coverage where the cause is as strong as stated; cost."""
    off, strengths = [], (1.5, 3.0)
    for k in range(problems):
        world = random_world(16000 + k)
        log = gradtd.read_log(world.log(8000, 16100 + k, noise=0.0))
        for strength in strengths:
            made = run(log, world, confounding=strength)
            assert made.confounding is not None
            for sign, bound in zip((1, -1), made.confounding.bounds, strict=True):
                exact = robust_truth(world, strength, sign)
                off.append(abs(bound - exact) / abs(exact))
    print(
        f"{problems} problems, factors {strengths}: bounds off by {np.median(off):.2%} (median), {max(off):.2%} (most)"
    )
    for strength in (1.5, 2.0):
        inside = np.zeros((2, logs), bool)
        used = 0
        for k in range(logs):
            world, cause = hidden_cause(random_world(16500 + k), strength, 1.0, 16600 + k)
            log = gradtd.read_log(confounded_log(world, cause, 500, 16700 + k))
            made = run(log, world, confounding=strength)
            assert made.confounding is not None
            truth, used = world.truth(), used + (made.verdict == "usable")
            inside[:, k] = [holds(one, truth) for one in (made.interval, (made.confounding.low, made.confounding.high))]
        print(
            f"cause of strength {strength:g}, {logs} logs ({used} usable): the plain interval holds the truth in "
            f"{inside[0].mean():.0%}, the interval for that strength in {inside[1].mean():.0%}"
        )
    for name, log in (("states", _large(False)), ("real observations", _large(True))):
        cost = np.zeros(2)
        for k, way in enumerate((None, 1.5)):
            begin = time.process_time()
            asked = gradtd.Inference(confounding=way, against=-1.0 if way else None)
            gradtd.evaluate(log, "uniform", 0.95, inference=asked, **GIVEN)
            cost[k] = time.process_time() - begin
        print(f"cost with {len(log)} steps, {name}: {cost[1] / cost[0]:.2f} times an evaluation ({cost[0]:.2f} s)")


def _large(real: bool) -> Any:
    columns = random_world(1, states=20).log(5000, 2)
    if real:
        places = np.random.default_rng(3).standard_normal((20, 3))[columns.pop("obs")]
        places = places + 0.3 * np.random.default_rng(4).standard_normal(places.shape)
        columns |= {f"obs_{k}": places[:, k] for k in range(3)}
    return gradtd.read_log(columns)


def logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def plane_log(episodes: int, seed: int, policy: Array, bend: float = 0.0) -> dict[str, Array]:
    """Two observed numbers that drift, two actions; the chance of action 1 is logistic in (1, o), bent by products."""
    rng = np.random.default_rng(seed)
    o, alive, rows = rng.standard_normal((episodes, 2)), np.arange(episodes), []
    for t in range(200):
        p = logistic(policy[0] + o @ policy[1:] + bend * o[:, 0] * o[:, 1])
        a = (rng.random(len(o)) < p).astype(int)
        r = 0.5 * o[:, 0] + a * (0.4 - 0.5 * o[:, 1]) + 0.5 * rng.standard_normal(len(o))
        then = 0.7 * o + 0.4 * (2 * a[:, None] - 1) * [1.0, -0.5] + 0.5 * rng.standard_normal(o.shape)
        ends = rng.random(len(o)) < 0.2
        rows.append(np.c_[alive, np.full(len(o), t), a, r, ends, o])
        o, alive = then[~ends], alive[~ends]
        if not len(o):
            break
    table = np.concatenate(rows)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    names = ("episode", "t", "action", "reward", "terminated", "obs_0", "obs_1")
    whole = ("episode", "t", "action", "terminated")
    return {n: table[:, k].astype(np.int64) if n in whole else table[:, k] for k, n in enumerate(names)}


def plane_truth(policy: Array, gamma: float) -> float:
    log = plane_log(400_000, 1, policy)
    return float((gamma ** log["t"] * log["reward"]).sum() / 400_000)


def as_policy(weights: Array) -> Callable[[Array], Array]:
    """Chances of two actions, logistic in the observations."""

    def policy(seen: Array) -> Array:
        p = logistic(weights[0] + np.asarray(seen) @ weights[1:])
        return np.c_[1 - p, p]

    return policy


def click_log(n: int, seed: int) -> tuple[dict[str, Array], Callable[[Array], Array], float]:
    """One-step episodes, three observed numbers, three actions; and the target with its exact value, over n = 10^6."""
    rng = np.random.default_rng(12)
    behaviour, target, effect = (rng.standard_normal((4, 3)) * scale for scale in (0.4, 0.4, 0.5))

    def chances(weights: Array, x: Array) -> Array:
        made = np.exp(np.c_[np.ones(len(x)), x] @ weights)
        return np.asarray(made / made.sum(axis=1, keepdims=True))

    many = np.random.default_rng(13).standard_normal((1_000_000, 3))
    truth = float((chances(target, many) * (np.c_[np.ones(len(many)), many] @ effect)).sum(axis=1).mean())
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    a = _draw(chances(behaviour, x), rng)
    r = (np.c_[np.ones(n), x] @ effect)[np.arange(n), a] + 0.5 * rng.standard_normal(n)
    log = {"action": a, "reward": r} | {f"obs_{k}": x[:, k] for k in range(3)}
    return log, lambda seen: chances(target, np.asarray(seen)), truth


def behaviour(logs: int = 200) -> None:
    """Estimated behaviour: coverage with its error in the interval; and a behaviour that the model cannot represent."""
    weights, mine = np.array([0.2, 0.8, -0.5]), np.array([0.4, 0.3, 0.2])
    value = plane_truth(mine, 0.9)

    def states(k: int) -> tuple[Any, Any, float, float]:
        world = random_world(21_000 + k, states=6, actions=3)
        log = world.log(250, 21_500 + k)
        return {n: v for n, v in log.items() if n != "action_prob"}, world.target, world.gamma, world.truth()

    def plane(k: int) -> tuple[Any, Any, float, float]:
        return plane_log(250, 22_000 + k, weights), as_policy(mine), 0.9, value

    def clicks(k: int) -> tuple[Any, Any, float, float]:
        log, target, truth = click_log(600, 23_000 + k)
        return log, target, 0.0, truth

    def bent(k: int) -> tuple[Any, Any, float, float]:
        return plane_log(1000, 24_000 + k, np.array([0.0, 0.3, 0.3]), bend=1.5), as_policy(mine), 0.9, value

    for name, make in (("six states, three actions", states), ("plane", plane), ("one step", clicks), ("bent", bent)):
        inside, usable, paid = [], [], []
        for k in range(logs if make is not bent else logs // 4):
            log, target, gamma, truth = make(k)
            one = gradtd.LogFormat(one_step=True) if make is clicks else None
            made = gradtd.evaluate(log, target, gamma, behaviour="estimate", log_format=one, **GIVEN)
            inside.append(holds(made.interval, truth))
            usable.append(made.verdict == "usable")
            paid.append((made.estimates[0].error or np.nan) / made.diagnostics.sandwich_error)
        kept = np.array(inside)[np.array(usable)]
        print(
            f"{name}: {len(inside)} logs, {np.mean(usable):.0%} usable, the truth inside in {np.mean(inside):.1%} "
            f"({kept.mean() if len(kept) else np.nan:.1%} of the usable); error over that of known probabilities "
            f"{np.median(paid):.2f}"
        )


def learn_policy(log: dict[str, Array], world: World) -> Array:
    """Nearly greedy for values that are learned from the log's own frequencies and means."""
    S, n = world.states, world.behaviour.shape[1]
    then = np.where(log["terminated"] == 1, S, np.r_[log["obs"][1:], 0])
    count, total = np.full((S, n, S + 1), 1e-3), np.zeros((S, n))
    np.add.at(count, (log["obs"], log["action"], then), 1)
    np.add.at(total, (log["obs"], log["action"]), log["reward"])
    P, r = count / count.sum(axis=2, keepdims=True), total / (count.sum(axis=2) + 1e-9)
    Q = np.zeros((S, n))
    for _ in range(300):
        Q = r + world.gamma * (P[..., :-1] @ Q.max(axis=1))
    return np.asarray(0.1 / n + 0.9 * np.eye(n)[Q.argmax(axis=1)])


def trained(logs: int = 50) -> None:
    """A policy judged on the episodes that it was learned from, and on others."""
    for name, states, actions, ends in (
        ("6 x 3", 6, 3, 0.15),
        ("12 x 4", 12, 4, 0.2),
        ("10 x 5, one step", 10, 5, 1.0),
    ):
        off, inside = np.zeros((2, logs)), np.zeros((2, logs), bool)
        for k in range(logs):
            world = random_world(131_000 + k, states, actions, ends)
            world.behaviour = np.full((states, actions), 1 / actions)
            log = world.log(400, 131_500 + k, noise=1.5)
            log["action_prob"] = np.full(len(log["t"]), 1 / actions)
            half = first_episodes(log, 200)
            for way, (part, ids) in enumerate(((log, None), (half, range(200)))):
                world.target = learn_policy(part, world)
                made = run(log, world, trained_on=None if ids is None else list(ids))
                off[way, k] = (made.value - world.truth()) / (made.estimates[0].error or np.nan)
                inside[way, k] = holds(made.interval, world.truth())
        print(
            f"{name}: {logs} logs; judged on its own episodes {off[0].mean():.2f} standard errors too high, the truth "
            f"inside in {inside[0].mean():.0%}; on the others {off[1].mean():+.2f}, {inside[1].mean():.0%}"
        )


def clocks(logs: int = 200) -> None:
    """Steps that last random times, by state and action; gamma is per unit of time."""
    inside, wrong, usable = np.zeros(logs, bool), np.zeros(logs, bool), 0
    ratio = []
    for k in range(logs):
        world = random_world(141_000 + k, gamma=0.9)
        rng = np.random.default_rng(141_200 + k)
        mean = rng.uniform(0.2, 3.0, (world.states, 2))
        passed = 1 / (1 - mean * np.log(world.gamma))  # the mean of gamma^dt where dt is exponential
        P = np.einsum("sa,sa,sax->sx", world.target, passed, world.P)[:, :-1]
        r = np.einsum("sa,sax,sax->s", world.target, world.P, world.R)
        truth = float(world.start @ np.linalg.solve(np.eye(world.states) - P, r))
        log = world.log(300, 141_400 + k)
        lasts = rng.exponential(mean[log["obs"], log["action"]])
        since = np.cumsum(lasts) - lasts
        first = np.r_[0, np.flatnonzero(np.diff(log["episode"])) + 1]
        log["hours"] = since - since[first][log["episode"]]
        made = run(log, world, time_column="hours")
        even = run({n: v for n, v in log.items() if n != "hours"}, world)
        inside[k], wrong[k] = holds(made.interval, truth), holds(even.interval, truth)
        usable += made.verdict == "usable"
        ratio.append(even.value / truth)
    print(
        f"{logs} logs ({usable} usable): with times the truth is inside in {inside.mean():.1%}; evenly spaced in "
        f"{wrong.mean():.1%}, the value {np.median(ratio):.2f} times the truth"
    )


def groups(logs: int = 200) -> None:
    """Five groups of starts: all intervals at once, and each as if it were the only one."""
    together, widths = np.zeros((2, logs), bool), []
    for k in range(logs):
        world = random_world(151_000 + k)
        log, truth = world.log(400, 151_300 + k), world.values()
        first = np.r_[0, np.flatnonzero(np.diff(log["episode"])) + 1]
        log["start"] = log["obs"][first][log["episode"]]
        made = run(log, world, by="start")
        shrunk = [(g, 1.96 / 2.569) for g in made.groups]  # as if each were the only one: the largest of five is 2.57
        together[0, k] = all(holds((g.low, g.high), truth[int(g.name)]) for g in made.groups)
        together[1, k] = all(
            holds((g.value - c * (g.value - g.low), g.value + c * (g.high - g.value)), truth[int(g.name)])
            for g, c in shrunk
        )
        widths += [(g.high - g.low) / (made.interval[1] - made.interval[0]) for g in made.groups]
    print(
        f"{logs} logs: all five inside in {together[0].mean():.1%}; with intervals for one group alone in "
        f"{together[1].mean():.1%}; width over that of all starts {np.median(widths):.2f}"
    )


MODES: dict[str, Callable[[], None]] = {
    "anytime": anytime,
    "confounding": confounding,
    "behaviour": behaviour,
    "trained": trained,
    "clocks": clocks,
    "groups": groups,
}


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
