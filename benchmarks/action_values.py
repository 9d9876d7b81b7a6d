"""Values of actions beside values of states, with known and with estimated probabilities of the behaviour.

On FrozenLake, Taxi and ICU-Sepsis the truth is exact, on CartPole and Pendulum it is the mean of roll-outs. Pendulum's
target is deterministic over real actions, so that no ratios exist. Every row counts logs: how far the mean of the
values is from the truth, their root mean square error, how often the verdict is usable, and how often the truth is
inside the interval, of all logs and of the usable ones.

    python benchmarks/action_values.py                     # 30 logs of each problem, 20 minutes of one core
    python benchmarks/action_values.py --problem lake --logs 100

ICU-Sepsis needs the package icu-sepsis (pip install icu-sepsis==2.0.1).
"""

from __future__ import annotations

import argparse
import time
from functools import cache

import numpy as np
from trust_cases.finite import draw, pick

import gradtd


def table_of(problem, behaviour, episodes, rng, limit=200):
    """Episodes of a finite problem as a table, with next observations and the behaviour's probabilities."""
    S, state, alive, parts = problem.n_states, None, np.arange(episodes), []
    cum_b, cum_P = behaviour.cumsum(1), problem.P.cumsum(2)
    state = pick(rng, np.tile(problem.start.cumsum(), (episodes, 1)))
    for t in range(limit):
        a = pick(rng, cum_b[state])
        after = draw(rng, cum_P[state, a])
        over = after >= S
        r = problem.reward[state, a]
        if problem.sparse:
            r = (over & (rng.random(len(a)) < r / np.maximum(1 - cum_P[state, a, -1], 1e-12))).astype(float)
        nxt = np.where(over, state, after)
        cut = ~over & (t == limit - 1)
        parts.append((alive, np.full(len(a), t), state, nxt, a, r, over, cut, behaviour[state, a]))
        state, alive = after[~over], alive[~over]
        if not len(alive):
            break
    names = ("episode", "t", "obs", "next_obs", "action", "reward", "terminated", "truncated", "action_prob")
    return dict(zip(names, (np.concatenate(column) for column in zip(*parts, strict=True)), strict=True))


def finite(name, episodes):
    from trust_cases.gym_logs import finite_world

    problem, behaviour, target = finite_world(name)
    truth = problem.truth(target)
    return truth, problem.gamma, target, lambda rng: table_of(problem, behaviour, episodes, rng), {}


def icu(episodes, centres):
    from trust_cases.case import looked_up
    from trust_cases.icu import world

    problem, clinicians, where, targets = world()
    target = targets["middle"]
    target = np.where(clinicians.sum(1, keepdims=True) > 0, target, 1 / target.shape[1])  # states that end an episode
    scaled = (where - where.mean(0)) / np.where(where.std(0) > 0, where.std(0), 1)
    options = {"features": looked_up(np.c_[np.ones(problem.n_states), scaled])} if centres else {}
    return problem.truth(target), 1.0, target, lambda rng: table_of(problem, clinicians, episodes, rng), options


def cart(episodes):
    import gymnasium

    def toward(p):
        def policy(seen):
            right = (seen[:, 2] + 0.5 * seen[:, 3] > 0) * 1.0
            chance = p * right + (1 - p) * (1 - right)
            return np.column_stack([1 - chance, chance])

        return policy

    truth = gradtd.rollout_value(gymnasium.make("CartPole-v1"), toward(0.8), 1000, 0.98, seed=10**6)[0]

    def log(rng):
        return gradtd.collect(gymnasium.make("CartPole-v1"), toward(0.7), episodes, seed=int(rng.integers(10**9)))

    return truth, 0.98, toward(0.8), log, {}


def control(seen):
    """A torque for Pendulum: against gravity near the top, with the motion elsewhere."""
    near = seen[:, 0] > 0.7
    return np.clip(np.where(near, -(8 * seen[:, 1] + 2 * seen[:, 2]), 1.5 * np.sign(seen[:, 2])), -2, 2)


@cache
def pendulum_runs(episodes, seed, noise, limit=60):
    import gymnasium

    env, rng = gymnasium.make("Pendulum-v1").unwrapped, np.random.default_rng([seed, 3])
    env.reset(seed=seed)
    rows = []
    for e in range(episodes):
        o, _ = env.reset()
        for t in range(limit):
            a = float(np.clip(control(o[None])[0] + noise * rng.normal(), -2, 2))
            after, r, _, _, _ = env.step(np.array([a]))
            rows.append((e, t, *o, *after, a, r, False, t == limit - 1))
            o = after
    names = ("episode", "t", "obs_0", "obs_1", "obs_2", "next_obs_0", "next_obs_1", "next_obs_2")
    names += ("action", "reward", "terminated", "truncated")
    return dict(zip(names, (np.array(column) for column in zip(*rows, strict=True)), strict=True))


def pendulum(episodes):
    gamma, runs = 0.9, pendulum_runs(4000, 77, 0.0)
    truth = float((runs["reward"] * gamma ** runs["t"]).sum() / 4000)

    def log(rng):
        return pendulum_runs(episodes, int(rng.integers(10**6)), 0.7)

    return truth, gamma, control, log, {}


PROBLEMS = {
    "lake": lambda: finite("FrozenLake", 500),
    "taxi": lambda: finite("Taxi", 1000),
    "cart": lambda: cart(300),
    "pendulum": lambda: pendulum(150),
    "icu one-hot": lambda: icu(1000, False),
    "icu centres": lambda: icu(1000, True),
}
KINDS = {
    "action": {"values": "action"},
    "state, known": {},
    "state, estimated": {"behaviour": "estimate"},
}


class Tally:
    """What one kind of values said, log by log."""

    def __init__(self, truth):
        self.truth, self.off, self.usable, self.inside, self.spent = truth, [], [], [], 0.0

    def add(self, found, seconds):
        low, high = found.diagnostics.hull_low, found.diagnostics.hull_high
        low, high = found.interval if low is None else (low, high)
        self.off.append(found.value - self.truth)
        self.usable.append(found.verdict == "usable")
        self.inside.append(low <= self.truth <= high)
        self.spent += seconds

    def row(self):
        off, usable, inside = (np.array(values) for values in (self.off, self.usable, self.inside))
        n, k = len(off), int(usable.sum())
        bias = f"{off.mean():+.3g} -+ {off.std(ddof=1) / np.sqrt(n):.2g}" if n > 1 else f"{off.mean():+.3g}"
        held = f"{inside.sum()} of {n} | {(inside & usable).sum()} of {k}"
        return f"{self.truth:.4g} | {bias} | {np.sqrt((off**2).mean()):.3g} | {k} | {held} | {self.spent / n:.1f}"


def measured(name, logs, seed):
    """Every kind of values on the same logs, each drawn once."""
    truth, gamma, target, make, options = PROBLEMS[name]()
    kinds = {"action": KINDS["action"]} if name == "pendulum" else KINDS
    tallies = {kind: Tally(truth) for kind in kinds}
    asked = {"algorithm": "lstd", "resamples": 0, "threads": 1, "progress": False}
    for k in range(logs):
        log = make(np.random.default_rng([seed, k]))
        for kind, more in kinds.items():
            began = time.process_time()
            found = gradtd.evaluate(log, gamma=gamma, target=target, **asked, **options, **more)
            tallies[kind].add(found, time.process_time() - began)
    for kind, tally in tallies.items():
        print(f"| {name}, {logs} logs | {kind} | {tally.row()} |", flush=True)
    if name == "pendulum":
        print(f"| {name} | state | a deterministic target over real actions has no ratios | | | | | |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problem", choices=PROBLEMS, default=None)
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print("| problem | values | truth | bias | RMSE | usable | inside | inside, usable | s per log |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in PROBLEMS:
        if asked.problem in (None, name):
            measured(name, asked.logs, asked.seed)


if __name__ == "__main__":
    main()
