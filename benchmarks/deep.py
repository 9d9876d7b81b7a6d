"""Networks: who diverges, what an update costs, the rule for the ridge, and evaluation with learned features.

    python benchmarks/deep.py counterexamples --seeds 30 --picture docs/deep-counterexamples.png
    python benchmarks/deep.py ridge --seeds 30
    python benchmarks/deep.py cost
    python benchmarks/deep.py evaluation --world CartPole --episodes 300 --logs 20 --rows deep.jsonl
    python benchmarks/deep.py evaluation --world Image --episodes 300 --logs 20 --rows deep.jsonl
    python benchmarks/deep.py table --rows deep.jsonl

Seeds start at 1000, which no design decision looked at. Each command prints a table for docs/deep.md.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from trust_cases import gym_logs
from trust_cases.systems import System

import gradtd
from gradtd.deep import Batch, EpisodeReplay, Mlp, baselines, impression_loss
from gradtd.deep.counterexamples import METHODS, WORLDS, counts, run
from gradtd.deep.training import Sides, train, with_options

FRESH = 1000
STEPS = (0.03, 0.1, 0.3)


def counterexamples(asked: argparse.Namespace) -> None:
    """Runs of every method that diverged, by step-size, and the median error at the largest."""
    seeds = list(range(FRESH, FRESH + asked.seeds))
    kept: dict[tuple[str, str], Any] = {}
    print(f"Diverged of {asked.seeds} at c = {STEPS}; median error at the last, over the start's.\n")
    print("| method | " + " | ".join(WORLDS) + " |\n|---|" + "---|" * len(WORLDS))
    for method in METHODS:
        cells = []
        for world, make in WORLDS.items():
            errors = np.asarray(run(make(), method, STEPS, seeds))
            kept[method, world] = errors
            found = [counts(errors[:, k]) for k in range(len(STEPS))]
            cells.append(f"{'/'.join(str(n) for n, _ in found)}; {found[-1][1]:.2g}")
        print(f"| {method} | " + " | ".join(cells) + " |", flush=True)
    if asked.picture:
        _picture(kept, asked.picture)


SHOWN = ("TD", "TDRC", "NEU", "NEU, Hessian", "identity kernel", "corrected, last, auto (default)")


def _picture(kept: dict[tuple[str, str], Any], path: str) -> None:
    """Median and quartiles of the error over the updates, at the middle step-size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(WORLDS), figsize=(4 * len(WORLDS), 3.4), sharey=True)
    for axis, world in zip(axes, WORLDS, strict=True):
        for method in SHOWN:
            errors = np.nan_to_num(kept[method, world][:, 1], nan=1e30, posinf=1e30).clip(1e-6, 1e6)
            low, middle, high = np.quantile(errors, (0.25, 0.5, 0.75), axis=0)
            (line,) = axis.plot(np.linspace(0, 2000, errors.shape[1]), middle, label=method)
            axis.fill_between(np.linspace(0, 2000, errors.shape[1]), low, high, alpha=0.15, color=line.get_color())
        axis.set(title=world, xlabel="updates", yscale="log", ylim=(1e-6, 1e6))
    axes[0].set_ylabel("value error over that of the start")
    axes[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


# The ridge

PROBLEMS = ("boyan_chain", "random_walk_tabular", "random_walk_dependent", "collision", "garnet", "baird")
RIDGES = (0.1, 1.0, 10.0, 100.0)
BLOCK = 50


def ridge(asked: argparse.Namespace) -> None:
    """Mean error over the run (RMSVE, weighted by visits) of the rule and of fixed ridges, over that at the start."""
    print(f"{asked.seeds} seeds, 2 x 64 ReLU, Adam 1e-3, {asked.updates} updates of 32 + 32 from 20,000 steps.\n")
    print("| problem | " + " | ".join(f"ridge {r:g}" for r in RIDGES) + " | auto | best fixed / auto |")
    print("|---|" + "---|" * (len(RIDGES) + 2))
    for name in asked.problems.split(","):
        problem = gradtd.PROBLEMS[name]()
        truth = gradtd.exact(problem)
        states = truth.states
        weight = truth.d_mu[states] / truth.d_mu[states].sum()
        inputs, target = problem.features[states], truth.v_pi[states]
        areas = [_area(problem, r, (inputs, target, weight), asked) for r in (*RIDGES, "auto")]
        means = [float(np.mean(a)) for a in areas]
        cells = " | ".join(f"{m:.3f}" for m in means)
        print(f"| {name} | {cells} | {min(means[:-1]) / means[-1]:.2f} |", flush=True)


def _area(problem: Any, amount: Any, exact: Any, asked: argparse.Namespace) -> Any:
    inputs, target, weight = (jnp.asarray(np.asarray(a, np.float32)) for a in exact)
    net = Mlp(inputs.shape[1])
    start = float(jnp.sqrt(jnp.sum(weight * target**2))) or 1.0

    def watch(params: Any) -> Any:
        return jnp.sqrt(jnp.sum(weight * (net.apply(params, inputs)[0] - target) ** 2))

    def one(params: Any, key: Any, stored: Batch, sides: Sides) -> Any:
        loss = with_options({"ridge": amount})
        return train(params, key, stored, sides, apply=net.apply, loss=loss, watch=watch, **_training(asked))[1]

    made = [_of_seed(net, problem, seed) for seed in range(FRESH, FRESH + asked.seeds)]
    seen = jax.jit(jax.vmap(one))(*jax.tree.map(lambda *a: jnp.stack(a), *made))
    return np.nan_to_num(np.asarray(seen, np.float64), nan=1e9).clip(max=1e9).mean(axis=1) / start


def _of_seed(net: Mlp, problem: Any, seed: int) -> tuple[Any, Any, Batch, Sides]:
    """The first parameters, the key of the draws, the steps, and the two sides."""
    steps = gradtd.sample(problem, 20_000, seed=seed)
    rows, table = steps.steps, np.asarray(steps.features, np.float32)
    reward, discount, rho = (np.array(rows[n], np.float32) for n in ("reward", "discount", "rho"))
    stored = Batch(*map(jnp.asarray, (table[rows["row"]], reward, table[rows["next_row"]], discount, rho)))
    unit = np.array(rows["episode"])
    if len(np.unique(unit)) < 20:
        unit = np.arange(len(unit)) // BLOCK
    return _start(net, seed, problem.name == "baird"), jax.random.key(seed), stored, _halves(unit)


def _start(net: Mlp, seed: int, random: bool) -> Any:
    """Values of 0, unless 0 is the truth."""
    params = net.init(jax.random.key(seed))
    if random:
        params["head"] = jax.random.normal(jax.random.key(seed + 1), params["head"].shape) / 8
    return params


def _halves(unit: Any) -> Sides:
    """Steps of odd and even units, cut to one length, so that all seeds share one compiled loop."""
    n = 8000
    odd, even = np.flatnonzero(unit % 2 == 1), np.flatnonzero(unit % 2 == 0)
    return Sides(jnp.asarray(odd[:n]), jnp.asarray(even[:n]))


ADAM = optax.adam(1e-3)


def _training(asked: argparse.Namespace) -> dict[str, Any]:
    return {"optimiser": ADAM, "updates": asked.updates}


# Cost


def cost(asked: argparse.Namespace) -> None:
    """CPU time of an update inside one compiled loop, over semi-gradient TD with the same 64 samples."""
    rng = np.random.default_rng(0)
    replay = EpisodeReplay(2000)
    for step in range(2000):
        x = rng.normal(size=(2, 8)).astype(np.float32)
        replay.add(x[0], float(rng.normal()), x[1], gamma=0.99, truncated=step % 20 == 19)
    first, second = replay.pair(1000, 1000)
    joined = (
        jnp.concatenate([jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)])
        for a, b in zip(first, second, strict=True)
    )
    steps, sides = Batch(*joined), Sides(jnp.arange(1000), jnp.arange(1000, 2000))

    def semi(apply: Any, params: Any, one: Batch, two: Batch) -> Any:
        both = Batch(*(jnp.concatenate(pair) for pair in zip(one, two, strict=True)))
        return baselines.semi_gradient_loss(apply, params, both)

    contestants = {
        "semi-gradient TD": semi,
        "NEU": partial(impression_loss, similarity="gradient", whiten=False, form="residual"),
        "NEU, Hessian": partial(impression_loss, similarity="gradient", whiten=False, form="residual", hessian=True),
        "corrected, last, ridge 1": partial(impression_loss, ridge=1.0),
        "corrected, last, auto": impression_loss,
        "corrected, gradient, ridge 1": partial(impression_loss, similarity="gradient", ridge=1.0),
    }
    print("| network | " + " | ".join(contestants) + " |\n|---|" + "---|" * len(contestants))
    for width in (64, 256):
        net = Mlp(8, hidden=(width, width))
        params, updates = net.init(jax.random.key(0)), 300
        calls = {
            name: partial(
                train,
                params,
                jax.random.key(1),
                steps,
                sides,
                apply=net.apply,
                optimiser=ADAM,
                updates=updates,
                loss=loss,
            )
            for name, loss in contestants.items()
        }
        least = dict.fromkeys(calls, np.inf)
        for repeat in range(asked.repeats + 1):
            for name, call in calls.items():
                begin = time.process_time()
                jax.block_until_ready(call())
                if repeat:  # the first compiles
                    least[name] = min(least[name], (time.process_time() - begin) / updates)
        base = least["semi-gradient TD"]
        cells = [f"{base * 1e6:.0f} us", *(f"{v / base:.2f}" for v in list(least.values())[1:])]
        print(f"| 2 x {width} | " + " | ".join(cells) + " |", flush=True)


# Evaluation


def image_world() -> tuple[System, float]:
    """A spot that moves in a square, seen as 64 grey values; and the true value of its target policy.

    The image tells the position, and the position is all that the future depends on.
    """
    drawn = (System(np.random.default_rng(seed)) for seed in range(FRESH, FRESH + 100))
    spot = next(made for made in drawn if made.k == 2 and made.noise < 0.5 and not made.stepped)
    return spot, spot.truth(np.random.default_rng(FRESH))[0]


def image(positions: Any) -> Any:
    """8 x 8 grey values: a Gaussian spot at each position, most of which lie between -3 and 3."""
    grid = np.linspace(-3, 3, 8)
    across, down = (np.exp(-((positions[:, j, None] - grid) ** 2)) for j in (0, 1))
    return (across[:, :, None] * down[:, None, :]).reshape(len(positions), -1)


def evaluation(asked: argparse.Namespace) -> None:
    """One row for each log and kind of features; goes on where it was stopped."""
    path = Path(asked.rows)
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["world"], row["episodes"], row["seed"]) for row in kept}
    gym_logs.CACHE = Path(asked.cache)
    gym_logs.CACHE.mkdir(exist_ok=True)
    if asked.world == "Image":
        spot, true = image_world()
        gamma = spot.gamma
    else:
        true, gamma = gym_logs.truth(asked.world)[0], gym_logs.WORLDS[asked.world].gamma
    for seed in range(FRESH, FRESH + asked.logs):
        if (asked.world, asked.episodes, seed) in done:
            continue
        if asked.world == "Image":
            log = spot.log(asked.episodes, np.random.default_rng(seed))
            log = replace(log, observations=image(log.observations))
        else:
            log = gym_logs.log_of(asked.world, asked.episodes, seed)
        with path.open("a") as file:
            for features in ("auto", "network"):
                about = {"world": asked.world, "episodes": asked.episodes, "seed": seed, "truth": true}
                file.write(json.dumps({**about, **_evaluated(log, gamma, features)}) + "\n")


def _evaluated(log: Any, gamma: float, features: str) -> dict[str, Any]:
    begin = time.process_time()
    made = gradtd.evaluate(
        log,
        gamma=gamma,
        features=features,
        progress=False,
        machine=gradtd.Machine(threads=1),
        inference=gradtd.Inference(resamples=0),
    )
    found = {"features": features, "verdict": made.verdict, "value": made.value, "interval": made.interval}
    found["own"] = next((row.value for row in made.estimates if row.method == "network"), None)
    return {**found, "seconds": time.process_time() - begin}


def table(asked: argparse.Namespace) -> None:
    """Usable logs, intervals of them that hold the truth, widths, errors: learned features against cosines."""
    rows = [json.loads(line) for line in Path(asked.rows).read_text().splitlines()]
    print("| world | features | usable | unchecked | not usable | right | width | RMSE | own RMSE | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for world, episodes in dict.fromkeys((row["world"], row["episodes"]) for row in rows):
        here = [row for row in rows if (row["world"], row["episodes"]) == (world, episodes)]
        by = {f: {row["seed"]: row for row in here if row["features"] == f} for f in ("auto", "network")}
        both = [s for s, row in by["auto"].items() if row["verdict"] == by["network"][s]["verdict"] == "usable"]
        for features, found in by.items():
            made = list(found.values())
            counted = [sum(row["verdict"] == word for row in made) for word in ("usable", "unchecked", "not usable")]
            usable = [row for row in made if row["verdict"] == "usable"]
            held = sum(row["interval"][0] <= row["truth"] <= row["interval"][1] for row in usable)
            wide = [by[features][s]["interval"][1] - by[features][s]["interval"][0] for s in both]
            cells = [*counted, f"{held} of {len(usable)}", f"{np.median(wide):.3g}" if wide else "-"]
            cells += [f"{_rmse(made, 'value'):.3g}", "-" if made[0]["own"] is None else f"{_rmse(made, 'own'):.3g}"]
            cells.append(f"{np.mean([row['seconds'] for row in made]):.0f}")
            name = f"{world}, {episodes} episodes, value {made[0]['truth']:.3g}"
            print(f"| {name} | {features} | " + " | ".join(map(str, cells)) + " |")


def _rmse(rows: list[dict[str, Any]], of: str) -> float:
    return float(np.sqrt(np.mean([(row[of] - row["truth"]) ** 2 for row in rows])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (counterexamples, ridge, cost, evaluation, table):
        one = commands.add_parser(function.__name__)
        one.set_defaults(function=function)
        one.add_argument("--seeds", type=int, default=30)
        one.add_argument("--picture")
        one.add_argument("--problems", default=",".join(PROBLEMS))
        one.add_argument("--updates", type=int, default=3000)
        one.add_argument("--repeats", type=int, default=5)
        one.add_argument("--world", default="CartPole")
        one.add_argument("--logs", type=int, default=20)
        one.add_argument("--episodes", type=int, default=300)
        one.add_argument("--rows", default="deep.jsonl")
        one.add_argument("--cache", default="trust-cache")
    asked = parser.parse_args()
    asked.function(asked)


if __name__ == "__main__":
    main()
