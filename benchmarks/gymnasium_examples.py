"""The examples of docs/tutorial.md on many logs: coverage and errors of every method, features, and the picture.

    python benchmarks/gymnasium_examples.py methods  [--logs 40] [--first 1000] [--resamples 0] [--jobs 1]
                                                     [--example lake] [--episodes 500]
    python benchmarks/gymnasium_examples.py features [--logs 10]
    python benchmarks/gymnasium_examples.py picture  --resamples 40 [--out docs/tutorial-cartpole.png]

The truth is the mean of 20 000 roll-outs of the target. With ``--resamples 0`` the interval of Impression GTD is the
sandwich's, a second or three a log; with 100 it comes from its refits, as `gradtd.evaluate` has it by default, half a
minute a log. The other methods' intervals come from 100 resamples. Features and sizes were chosen on logs with seeds
below 40, so the logs of ``methods`` begin at another one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import gradtd

ROLLOUTS = 20_000
METHODS = ("impression_gtd", "lstd", "pdis", "wpdis", "dr")
LAKE_MOVES = np.array([0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0])
CART_FEATURES = (
    "identity",
    "polynomial:order=2",
    "polynomial:order=4",
    "fourier:order=2",
    "rbf:n=30,width=1",
    "rbf:n=50,width=1",
)


class Example(NamedTuple):
    """An environment, two policies, and how the target is evaluated."""

    make: Callable[[], Any]
    behaviour: Any
    target: Any
    episodes: int
    gamma: float
    features: str

    def log(self, seed: int) -> gradtd.Log:
        return gradtd.collect(self.make(), self.behaviour, self.episodes, target=self.target, seed=seed)

    def truth(self, rollouts: int, seed: int = 10**6) -> tuple[float, float]:
        return gradtd.rollout_value(self.make(), self.target, rollouts, self.gamma, seed=seed)


def careful(slips: float) -> Any:
    """FrozenLake's best moves, but a random one with probability ``slips``."""
    return (1 - slips) * np.eye(4)[LAKE_MOVES] + slips / 4


def balance(strength: float) -> Any:
    """CartPole: push to the side to which the pole leans and falls; strength 0 is a coin."""

    def policy(observations: Any) -> Any:
        right = 1 / (1 + np.exp(-strength * (observations[:, 2] + 0.5 * observations[:, 3])))
        return np.stack([1 - right, right], axis=1)

    return policy


def frozen_lake() -> Any:
    """With room for long episodes: the roll-outs of the truth stop counting where an episode is cut off."""
    return gymnasium.make("FrozenLake-v1", max_episode_steps=1000)


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


EXAMPLES = {
    "lake": Example(frozen_lake, careful(0.5), careful(0.2), 1500, 0.99, "one-hot"),
    "cart": Example(cart_pole, balance(0.5), balance(1.5), 300, 0.95, "rbf:n=50,width=1"),
}


def covers(row: Any, truth: float, error: float) -> bool:
    """Whether an interval agrees with a truth that is itself known up to a standard error."""
    return abs(row.value - truth) <= np.hypot((row.high - row.low) / 2, 1.96 * error)


def one(name: str, episodes: int, resamples: int, seed: int) -> dict[str, Any]:
    """Every method on one log."""
    example = EXAMPLES[name]._replace(episodes=episodes)
    log, shared = example.log(seed), {"gamma": example.gamma, "features": example.features, "threads": 1}
    found = gradtd.evaluate(log, inference=gradtd.Inference(resamples=resamples), **shared)
    others = gradtd.evaluate(log, algorithm="lstd", **shared)
    rows = {row.method: row for row in others.estimates}
    return rows | {found.method: found.estimates[0], "verdict": found.verdict}


def compare_methods(name: str, chosen: argparse.Namespace) -> None:
    began, logs = time.monotonic(), chosen.logs
    episodes = chosen.episodes or EXAMPLES[name].episodes
    truth, error = EXAMPLES[name].truth(ROLLOUTS)
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        work = partial(one, name, episodes, chosen.resamples)
        rows = list(pool.map(work, range(chosen.first, chosen.first + logs)))
    print(f"{name}: truth {truth:.4f} +- {error:.4f}; {logs} logs of {episodes} episodes, seeds from {chosen.first}")
    print("| method | covers | mean error | RMSE | mean width |\n|---|---|---|---|---|")
    for method in METHODS:
        inside = sum(covers(row[method], truth, error) for row in rows)
        off = np.array([row[method].value for row in rows]) - truth
        width = np.mean([row[method].high - row[method].low for row in rows])
        print(f"| {method} | {inside} of {logs} | {off.mean():+.3g} | {np.sqrt((off**2).mean()):.3g} | {width:.3g} |")
    usable = sum(row["verdict"] == "usable" for row in rows)
    print(f"usable: {usable} of {logs}; {time.monotonic() - began:.0f} s on {chosen.jobs} of {os.cpu_count()} cores\n")


def compare_features(logs: int) -> None:
    """LSTD on CartPole in several features: how far from the truth, how wide, and what doubly robust says."""
    example = EXAMPLES["cart"]
    truth, error = example.truth(ROLLOUTS)
    made = [example.log(seed) for seed in range(logs)]
    print(f"cart: truth {truth:.3f} +- {error:.3f}; {logs} logs")
    print("| features | number | mean error | half-width | distance from DR |\n|---|---|---|---|---|")
    for features in CART_FEATURES:
        found = [gradtd.evaluate(log, gamma=example.gamma, features=features, algorithm="lstd") for log in made]
        off = np.mean([e.value for e in found]) - truth
        half = np.mean([e.interval[1] - e.value for e in found])
        apart = np.mean([e.numbers["from_dr"] for e in found])
        count = found[0].numbers["features"]
        print(f"| `{features}` | {count} | {off:+.2f} | {half:.2f} | {apart:.1f} |", flush=True)


def draw(out: Path, resamples: int) -> None:
    """The evaluation's own picture of the log of the tutorial, with the truth in it."""
    from gradtd.output.evaluation_page import estimates_figure
    from gradtd.output.plots import save

    example = EXAMPLES["cart"]
    truth, _ = example.truth(ROLLOUTS)
    found = gradtd.evaluate(
        example.log(1), gamma=example.gamma, features=example.features, inference=gradtd.Inference(resamples=resamples)
    )
    figure = estimates_figure(found)
    axes = figure.axes[0]
    axes.axvline(truth, color="black", linewidth=1, linestyle="--", label="truth, by roll-outs")
    axes.legend(frameon=False, fontsize=9)
    save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("methods", "features", "picture"))
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--resamples", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--example", choices=tuple(EXAMPLES))
    parser.add_argument("--out", type=Path, default=Path("docs/tutorial-cartpole.png"))
    chosen = parser.parse_args()
    if chosen.what == "features":
        compare_features(chosen.logs)
    elif chosen.what == "picture":
        draw(chosen.out, chosen.resamples)
    else:
        for name in [chosen.example] if chosen.example else EXAMPLES:
            compare_methods(name, chosen)


if __name__ == "__main__":
    main()
