"""The same logs by every method, with features named, in parts, with action values and with traces."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradtd
from gradtd import Inference, Machine
from gradtd.logs import write_log
from trust_cases.case import Case, looked_up
from trust_cases.finite import policies, random_problem, simulate

METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "lstd": {"algorithm": "lstd"},
    "impression_gtd": {"algorithm": "impression_gtd"},
    "tdrc": {"algorithm": "tdrc", "alpha": 0.1},
    "dr": {"algorithm": "dr"},
    "wis": {"algorithm": "wis"},
    "features named": {"features": "one-hot"},
    "in parts": {"machine": Machine(threads=1, in_parts=True)},
    "action values": {"value_function": "action"},
    "lam .5": {"inference": Inference(lam=0.5)},
}


def method_cases(seed: int, count: int) -> Iterator[Case]:
    """Random problems, states and actions shown, 100 to 1000 episodes."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 931])
        problem = random_problem(rng)
        behaviour, target = policies(problem, rng)
        episodes = round(np.exp(rng.uniform(np.log(100), np.log(1000))))
        log = simulate(problem, behaviour, target, episodes, rng, actions=True)
        policy, truth = looked_up(target), problem.truth(target)
        yield Case("methods", "states", episodes, True, truth, log, problem.gamma, policy=policy)


def evaluated(case: Case, method: str) -> tuple[str, bool]:
    """The word, and whether the truth is inside."""
    how: dict[str, Any] = {"machine": Machine(threads=1), "progress": False} | METHODS[method]
    if method == "action values":
        how["target"] = case.policy
    if method != "in parts":
        found = gradtd.evaluate(case.log, gamma=case.gamma, **how)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = write_log(case.log, Path(folder) / "log.parquet")
            found = gradtd.evaluate(str(path), gamma=case.gamma, **how)
    low, high = found.interval
    return found.verdict, bool(low <= case.truth <= high)


def rows(seed: int, count: int, names: list[str]) -> Iterator[str]:
    """One line for each method."""
    for name in names:
        made = [evaluated(case, name) for case in method_cases(seed, count)]
        usable = [inside for word, inside in made if word == "usable"]
        unchecked = np.mean([word == "unchecked" for word, _ in made])
        inside = f"{100 * np.mean(usable):6.1f} ({len(usable)})" if usable else "     -"
        yield f"{name:16s} {len(made):5d} {100 * len(usable) / len(made):8.0f} {100 * unchecked:9.0f}   {inside}"
