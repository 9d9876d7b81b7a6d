"""`gradtd.improve` on worlds with known values: is "better" true, do intervals hold, how much is found?

    python benchmarks/improve.py --seeds 2000:2030 --out improve.jsonl     # adds what the file lacks
    python benchmarks/improve.py --out improve.jsonl --summary             # the tables
    python benchmarks/improve.py --optimism --worlds bandit,queue --seeds 1000:1020   # judged on the log that taught it

Worlds: FrozenLake, Taxi, CliffWalking, ICU-Sepsis (package icu-sepsis), an inventory, a queue, a contextual bandit,
CartPole. "null" logs are of an optimal behaviour that draws between two copies of each action, and of few episodes of
these worlds. Values of finite worlds are exact, those of CartPole come from 400 roll-outs. A policy counts with its
value where the answer is "better", else as the behaviour. The policy is used as a change of the behaviour.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from improve_cases.cartpole import GAMMA, cartpole_log, cartpole_value, controller
from improve_cases.finite import WORLDS, World, best_value

import gradtd
from gradtd.improvement.experience import make_experience
from gradtd.improvement.policy_iteration import learn

FEW = 8
"""Episodes of a log that is too small."""
NULL = ("frozen_lake", "cliff", "inventory", "queue", "bandit")


class FiniteCase:
    """A log of a finite world, and the exact value of any policy."""

    def __init__(self, world: World, seed: int, best: float, episodes: int | None = None) -> None:
        self.world, self.gamma, self.best = world, world.gamma, best
        self.log = world.log(np.random.default_rng([seed, 7]), episodes)
        self.behaviour = world.value(world.behaviour)

    def value(self, policy: Any) -> float:
        full = self.world.behaviour.copy()  # actions that the log does not know of stay
        A = len(policy.actions)
        full[:, :A] = policy(np.arange(self.world.n_states), full[:, :A])
        return self.world.value(full)


class CartPoleCase:
    """A log of a noisy controller, and values by roll-outs."""

    def __init__(self, seed: int) -> None:
        policy = controller(seed)
        rng = np.random.default_rng([seed, 8])
        self.gamma, self.best = GAMMA, float("nan")
        self.log = cartpole_log(policy, int(rng.choice([100, 300, 600])), rng)
        self.behaviour = cartpole_value(policy, seed + 1)

    def value(self, policy: Any) -> float:
        return cartpole_value(policy, 3)


def cases(names: list[str], seeds: range) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    for seed in seeds:
        for name in names:
            if name == "cartpole":
                yield name, seed, lambda seed=seed: CartPoleCase(seed)
            elif name in WORLDS:
                yield name, seed, lambda n=name, s=seed: FiniteCase(WORLDS[n](s), s, best_value(n, s))
            elif name == "null":
                which = NULL[seed % len(NULL)]
                best = best_value(which, seed)
                yield f"null {which}", seed, lambda n=which, s=seed, b=best: FiniteCase(WORLDS[n](s).doubled(), s, b)
                yield f"few {which}", seed, lambda n=which, s=seed, b=best: FiniteCase(WORLDS[n](s), s, b, FEW)


def plain_lspi(case: Any, steps: np.ndarray | None = None) -> Any:
    """Policy iteration on the log, without thresholds, caution or judgement; a function of observations."""
    log = gradtd.read_log(case.log)
    experience = make_experience(log, case.gamma, None, None, None)
    found = learn(experience, np.arange(len(log)) if steps is None else steps, 1, 0.0)
    if experience.states is None:
        return gradtd.ImprovedPolicy(
            (0, 1), features=experience.features, used=experience.used, model=experience.model, halves=(found,)
        )
    share = np.bincount(experience.action, minlength=experience.n_actions) / len(log)
    return gradtd.ImprovedPolicy(
        tuple(range(log.n_actions)),
        experience.states,
        found.probabilities(experience.behaviour),
        share,
        halves=(found,),
    )


def measure(case: Any) -> dict[str, Any]:
    start = time.process_time()
    found = gradtd.improve(case.log, case.gamma, progress=False, threads=1)
    seconds = time.process_time() - start
    true = case.value(found.policy) - case.behaviour if found.policy is not None else 0.0
    row = found.difference
    return {
        "answer": found.answer,
        "verdict": found.verdict,
        "true": true,
        "difference": None if row is None else [row.value, row.low, row.high],
        "value": [found.value, *found.interval],
        "behaviour": case.behaviour,
        "best": case.best - case.behaviour,
        "plain": case.value(plain_lspi(case)) - case.behaviour,
        "needed": found.episodes_needed,
        "episodes": found.episodes,
        "steps": found.steps,
        "seconds": seconds,
        "candidates": [
            [
                c.least,
                c.iterations,
                c.moved,
                *([] if c.difference is None else [c.difference.value, c.difference.low, c.difference.verdict]),
            ]
            for c in found.candidates
        ],
    }


HEAD = "| world | logs | better (usable) | of these true | interval holds | found | plain LSPI | best | seconds |"
NOT_COUNTED = ("null", "few")


def naive_use(case: Any, seed: int) -> dict[str, Any]:
    """Plain LSPI judged by `evaluate` on the log that taught it, and on the half that did not teach it."""
    log = gradtd.read_log(case.log)
    half = np.random.default_rng(seed).permutation(log.n_episodes) % 2 == 0
    log = replace(log, extra={**log.extra, "half": half[log.episode].astype(float)})
    found: dict[str, Any] = {}
    for name, steps in (("same", None), ("split", np.flatnonzero(half[log.episode]))):
        policy = plain_lspi(case, steps)
        true = case.value(policy) - case.behaviour
        how = gradtd.Inference(trained_on=None if steps is None else "half")
        both = {"new": policy, "behaviour": "behaviour"}
        made = gradtd.evaluate(log, both, case.gamma, progress=False, inference=how, machine=gradtd.Machine(threads=1))
        (row,) = made.compare("behaviour").differences
        found[name] = [true, row.value, row.low, row.high, row.verdict]
    return found


def optimism(names: list[str], seeds: range) -> None:
    """How much better a policy looks on the log that taught it than it is."""
    print(
        "| world | judged on | logs | true difference | judged | interval holds | contains the true value, if usable |"
    )
    print("|---|---|---|---|---|---|---|")
    made: dict[str, list[dict[str, Any]]] = {}
    for name, seed, make in cases(names, seeds):
        made.setdefault(name, []).append(naive_use(make(), seed))
    for name, rows in made.items():
        for key, label in (("same", "the same log"), ("split", "the other half")):
            judged = [row[key] for row in rows if row[key][2] is not None]
            holds = [low <= true <= high for true, _, low, high, _ in judged]
            usable = [held for held, row in zip(holds, judged, strict=True) if row[4] == "usable"]
            numbers = f"{mean(r[0] for r in judged):.3g} | {mean(r[1] for r in judged):.3g}"
            print(f"| {name} | {label} | {len(judged)} | {numbers} | {sum(holds)} | {sum(usable)} of {len(usable)} |")


def summary(rows: list[dict[str, Any]]) -> None:
    print(HEAD, "|---|---|---|---|---|---|---|---|---|", sep="\n")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        first = row["world"].split()[0]
        groups.setdefault(first if first in NOT_COUNTED else row["world"], []).append(row)
    for name, group in groups.items():
        print(line(name, group))
    counted = {name: group for name, group in groups.items() if name not in NOT_COUNTED}
    if not counted:
        return
    print(line("all but null and few", [row for group in counted.values() for row in group]))
    solved = {name: group for name, group in counted.items() if np.isfinite(group[0]["best"])}
    ours = mean(mean(found(r) for r in g) / mean(r["best"] for r in g) for g in solved.values())
    plain = mean(mean(r["plain"] for r in g) / mean(r["best"] for r in g) for g in solved.values())
    print(f"share of the possible improvement, mean over solved worlds: found {ours:.0%}, plain LSPI {plain:.0%}")


def line(name: str, rows: list[dict[str, Any]]) -> str:
    better = [r for r in rows if r["answer"] == "better"]
    usable = sum(r["verdict"] == "usable" for r in better)
    true = sum(r["true"] > 0 for r in better)
    holds = sum(r["difference"][1] <= r["true"] <= r["difference"][2] for r in better)
    numbers = [mean(found(r) for r in rows), mean(r["plain"] for r in rows), mean(r["best"] for r in rows)]
    cells = [len(rows), f"{len(better)} ({usable})", f"{true}/{len(better)}", f"{holds}/{len(better)}"]
    cells += [*(f"{number:+.3g}" for number in numbers), f"{mean(r['seconds'] for r in rows):.1f}"]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def found(row: dict[str, Any]) -> float:
    return float(row["true"]) if row["answer"] == "better" else 0.0


def mean(values: Any) -> float:
    return float(np.mean(list(values)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", default=",".join([*WORLDS, "cartpole", "null"]))
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--out", type=Path, default=Path("improve.jsonl"))
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--optimism", action="store_true")
    given = parser.parse_args()
    names, seeds = given.worlds.split(","), range(*map(int, given.seeds.split(":")))
    if given.optimism:
        optimism(names, seeds)
        return
    rows = [json.loads(text) for text in given.out.read_text().splitlines()] if given.out.exists() else []
    if not given.summary:
        done = {(row["world"], row["seed"]) for row in rows}
        for name, seed, make in cases(names, seeds):
            if (name, seed) not in done:
                rows.append({"world": name, "seed": seed} | measure(make()))
                with given.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    summary(rows)


if __name__ == "__main__":
    main()
