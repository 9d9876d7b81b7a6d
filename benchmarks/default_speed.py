"""What the default of `gradtd.evaluate` costs: against LSTD, against arithmetic, and with many one-hot states.

    python benchmarks/default_speed.py            # some five minutes; `make bench` prints it, too

The default over ``algorithm="lstd"``, the solution over arithmetic, and where the time goes, on 2 million steps with 50
columns (large_log.py) and on 100 000 with 4 (solve_cost.py). Logs of the sizes of Taxi (397 states) and of ICU-Sepsis
(705), 20 000 steps with 100 refits, sparse as one-hot states are and, in the same run, the same features as a dense
table; logs of Taxi and ICU-Sepsis themselves, where gymnasium and icu-sepsis are installed. Peak memory of 1 million
steps with 100 000 states.

    python benchmarks/default_speed.py --real     # only the logs of Taxi and ICU-Sepsis, some ten seconds
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from large_log import large_log, peak_memory
from solve_cost import solve_cost
from timing import least_times

import gradtd

GAMMA = 0.95
GOAL_LSTD, GOAL_SECONDS, GOAL_DENSE = 1.5, 2.0, 1 / 3
SIZES = {"Taxi's size": 397, "ICU-Sepsis's size": 705}
STEPS, REFITS = 20_000, 100
MANY_STATES, MANY_STEPS = 100_000, 1_000_000


def states_log(states: int, steps: int, seed: int = 0, length: int = 50, actions: int = 3, branch: int = 4) -> Any:
    """A random problem: of an action's successors a third are anywhere, the others near; starts in a tenth of it."""
    rng = np.random.default_rng(seed)
    episodes, shape = steps // length, (states, actions, branch)
    near = (np.arange(states)[:, None, None] + rng.integers(1, 30, shape)) % states
    after = np.where(rng.random(shape) < 0.3, rng.integers(0, states, shape), near)
    mu = rng.dirichlet(3 * np.ones(actions), states)
    pi = 0.5 * mu + 0.5 * rng.dirichlet(3 * np.ones(actions), states)
    mean = rng.standard_normal(states)
    seen, nexts, rho = (np.zeros((episodes, length), kind) for kind in (int, int, float))
    now = rng.integers(0, max(states // 10, 1), episodes)
    for t in range(length):
        action = (rng.random((episodes, 1)) > np.cumsum(mu[now], axis=1)).sum(axis=1).clip(0, actions - 1)
        seen[:, t], rho[:, t] = now, pi[now, action] / mu[now, action]
        now = after[now, action, rng.integers(0, branch, episodes)]
        nexts[:, t] = now
    last = np.tile(np.arange(length) == length - 1, episodes)
    return {
        "episode": np.repeat(np.arange(episodes), length),
        "obs": seen.ravel(),
        "next_obs": nexts.ravel(),
        "reward": mean[seen].ravel() + rng.standard_normal(seen.size),
        "terminated": last,
        "rho": rho.ravel(),
    }


def plain_log(steps: int, columns: int) -> Any:
    """The log of large_log.py in memory."""
    from large_log import LENGTH, _episodes

    table = _episodes(np.random.default_rng(0), np.arange(steps // LENGTH), columns)
    columns_of = {name: table[name].to_numpy() for name in table.column_names}
    seen = np.stack([columns_of.pop(f"obs_{k}") for k in range(columns)], axis=1)
    return gradtd.read_log(columns_of | {"obs": seen})


def over_lstd(log: Any, repeats: int = 3) -> dict[str, float]:
    """Processor seconds of the default and of LSTD with its 100 refits, both with all checks."""
    asked: dict[str, dict[str, Any]] = {"default": {}, "lstd": {"algorithm": "lstd"}}

    def call(settings: dict[str, Any]) -> Any:
        return lambda: gradtd.evaluate(log, gamma=GAMMA, features="identity", progress=False, **settings)

    return least_times({name: call(settings) for name, settings in asked.items()}, repeats, time.process_time)


def one_hot(states: int, dense: bool) -> dict[str, Any]:
    """Processor seconds with 100 refits; ``dense`` gives the same features as a table."""
    log = states_log(states, STEPS)
    features: Any = (lambda seen: np.eye(states)[np.asarray(seen).ravel()]) if dense else "one-hot"
    begun = time.process_time()
    found = gradtd.evaluate(
        log,
        gamma=GAMMA,
        features=features,
        algorithm="lstd",
        progress=False,
        inference=gradtd.Inference(resamples=REFITS),
        machine=gradtd.Machine(threads=1),
    )
    seconds = time.process_time() - begun
    numbers = found.numbers
    return {"seconds": seconds, "value": found.value, "refits": numbers["refits"], "by": numbers["solved_by"]}


def real_log(name: str, steps: int = STEPS, seed: int = 0) -> tuple[Any, float]:
    """About so many steps of Taxi or ICU-Sepsis, whole episodes, with ratios; and its discount."""
    from action_values import table_of
    from trust_cases.gym_logs import finite_world
    from trust_cases.icu import world

    if name == "Taxi":
        problem, behaviour, target = finite_world("Taxi")
    else:
        problem, behaviour, _, targets = world()
        target = targets["middle"]
    log = table_of(problem, behaviour, steps // 4, np.random.default_rng(seed))
    order = np.lexsort((log["t"], log["episode"]))
    log = {column: values[order] for column, values in log.items()}
    last = log["episode"][min(steps, len(order)) - 1]
    log = {column: values[log["episode"] < last] for column, values in log.items()}
    state, action = log["obs"], log.pop("action")
    return log | {"rho": target[state, action] / log.pop("action_prob")}, problem.gamma


def real(name: str) -> dict[str, Any]:
    """Processor seconds of a log of Taxi or ICU-Sepsis, with 100 refits."""
    log, gamma = real_log(name)
    began = time.process_time()
    found = gradtd.evaluate(
        log,
        gamma=gamma,
        features="one-hot",
        algorithm="lstd",
        progress=False,
        inference=gradtd.Inference(resamples=REFITS),
        machine=gradtd.Machine(threads=1),
    )
    seconds, states = time.process_time() - began, len(np.unique(log["obs"]))
    each = seconds / len(log["obs"]) * 10_000
    print(
        f"{name}, {len(log['obs'])} steps, {states} states, {found.numbers['refits']} refits: {each:.2f} s of the "
        f"processor per 10 000 steps (goal at most {GOAL_SECONDS:g}); {found.numbers['solved_by']}, {found.verdict}",
        flush=True,
    )
    return {"seconds": seconds, "per_10_000": each, "states": states, "value": found.value, "verdict": found.verdict}


def real_logs() -> dict[str, Any]:
    """Both, where what they need is installed."""
    needed = {"Taxi": "gymnasium", "ICU-Sepsis": "icu_sepsis"}
    one_hot(100, False)  # compiles
    return {name: real(name) for name, package in needed.items() if find_spec(package)}


def many_states(states: int, steps: int) -> dict[str, Any]:
    """Seconds and memory, in this process, of the default on a log with so many states."""
    gradtd.evaluate(states_log(100, 2000), gamma=GAMMA, features="one-hot", progress=False)  # compiles
    log = states_log(states, steps)
    before, begun = peak_memory(), time.perf_counter()
    found = gradtd.evaluate(log, gamma=GAMMA, features="one-hot", progress=False)
    return {
        "seconds": time.perf_counter() - begun,
        "bytes": peak_memory() - before,
        "peak_bytes": peak_memory(),
        "by": found.numbers["solved_by"],
        "verdict": found.verdict,
        "checks": len(found.checks),
    }


def default_speed() -> dict[str, Any]:
    """Everything of this file, printed and returned."""
    log = plain_log(100_000, 4)
    times = over_lstd(log)
    ratio = times["default"] / times["lstd"]
    print(f"\ndefault over lstd, 100 000 steps with 4 columns: {ratio:.2f} (goal at most {GOAL_LSTD:g}),", end=" ")
    print(f"{times['default']:.2f} s and {times['lstd']:.2f} s of the processor")
    solved = solve_cost(log)
    one_hot(100, False), one_hot(80, True)  # compiles
    states: dict[str, Any] = {}
    for name, size in SIZES.items():
        sparse, dense = one_hot(size, False), one_hot(size, True)
        each, part = sparse["seconds"] / (STEPS / 10_000), sparse["seconds"] / dense["seconds"]
        print(
            f"{name}, {size} one-hot states, {sparse['refits']} refits: {each:.2f} s per 10 000 steps (goal at most "
            f"{GOAL_SECONDS:g}), {part:.2f} of the time of a dense table with {dense['refits']} refits (goal at most "
            f"{GOAL_DENSE:.2f}); {sparse['by']}; values differ by {abs(sparse['value'] - dense['value']):.1e}",
            flush=True,
        )
        states[name] = {"sparse": sparse, "dense": dense}
    played = real_logs()
    command = [sys.executable, __file__, "--states", str(MANY_STATES), str(MANY_STEPS)]
    many = dict(json.loads(subprocess.check_output(command)))
    print(
        f"{MANY_STEPS} steps, {MANY_STATES} one-hot states: {many['seconds']:.0f} s with {many['checks']} checks, "
        f"{many['bytes'] / 1e6:.0f} MB beside the log, {many['bytes'] / MANY_STEPS:.0f} bytes per step (a dense matrix "
        f"of the states would be {MANY_STATES**2 * 8 / 1e9:.0f} GB); {many['by']}"
    )
    return {"over_lstd": times, "solve": solved, "states": states, "real": played, "many_states": many}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--real", action="store_true", help="only the logs of Taxi and ICU-Sepsis")
    given = parser.parse_args()
    if given.states:
        print(json.dumps(many_states(*given.states)))
    elif given.real:
        real_logs()
    else:
        large_log()
        default_speed()


if __name__ == "__main__":
    main()
