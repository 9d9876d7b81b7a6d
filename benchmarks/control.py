"""Control with networks: Impression Q beside DQN, double DQN, semi-gradient Q and EQRC, on equal samples.

    python benchmarks/control.py run --out control --seconds 600      # what is missing, until time is up
    python benchmarks/control.py show --out control --picture docs/control.png

Settings, stated before the run. Worlds: CartPole and Acrobot with Gymnasium's limits, MountainCar with 1000 steps,
and MinAtar's Breakout (400 inputs, minimal actions, none sticky) with 1000 steps. All agents: two layers of 64 ReLU
units, Adam, gamma .99, 50,000 steps, an update of 64 samples every 5 steps (32 of odd and 32 of even episodes; those
that need one batch take them as one), all steps kept, greedy targets. CartPole explores by epsilon from 1 to .05, the
others from 1 to .1 with random actions that are held (longer than k with probability 1/k, 20 at most), over 10,000
steps. Impression Q: ridge 1. DQN: a copy every 200 updates, and every 50 as another row. EQRC: beta 1. Step-sizes
3e-4, 1e-3, 3e-3. Seeds 1000 to 1029, which no decision looked at.

The score of a run is the mean over all steps of the return of the last episode that ended (area under the learning
curve), 0 for the worst and 1 for the best return there is (Breakout: ten bricks). A run whose network is not finite
has the worst from there.
A file has ten seeds of one world, agent and step-size, and is written when it is whole.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from control_cases.scores import difference, interval, iqm, resampled

SEEDS = (range(1000, 1010), range(1010, 1020), range(1020, 1030))
STEP_SIZES = (1e-3, 3e-4, 3e-3)
WORLDS = ("CartPole", "MountainCar", "Acrobot", "Breakout")
FIRST = ("impression_q", "dqn", "semi_gradient_q")
AGENTS = (*FIRST, "eqrc", "double_dqn", "dqn_50")
BINS = 100


def cells() -> Iterator[tuple[str, str, float, range]]:
    """In the order that makes a fair table soonest."""
    for agents in (FIRST, AGENTS[len(FIRST) :]):
        for step_size in STEP_SIZES:
            for seeds in SEEDS:
                for world in WORLDS:
                    for agent in agents:
                        yield world, agent, step_size, seeds


def name_of(world: str, agent: str, step_size: float, seeds: range) -> str:
    return f"{world}-{agent}-{step_size:g}-{seeds.start}.npz"


def make_agent(name: str, net: Any) -> Callable[[Any], Any]:
    """The agent, of its step-size."""
    from gradtd.deep.control import DQN, EQRC, ImpressionQ, SemiGradientQ

    made: dict[str, Callable[[Any], Any]] = {
        "impression_q": lambda step: ImpressionQ(net, step),
        "semi_gradient_q": lambda step: SemiGradientQ(net, step),
        "dqn": lambda step: DQN(net, step, period=200),
        "dqn_50": lambda step: DQN(net, step, period=50),
        "double_dqn": lambda step: DQN(net, step, period=200, double=True),
        "eqrc": lambda step: EQRC(net, step),
    }
    return made[name]


def run_cells(out: Path, seconds: float) -> None:
    """Run what the folder lacks, until the time is up."""
    import jax
    from control_cases.loop import Protocol, curves
    from control_cases.worlds import WORLDS as MADE

    from gradtd.deep import Mlp
    from gradtd.deep.control import Exploration

    out.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(out / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    begun, longest = time.monotonic(), 0.0
    for world, agent, step_size, seeds in cells():
        path = out / name_of(world, agent, step_size, seeds)
        if path.exists():
            continue
        if time.monotonic() - begun + longest > seconds:
            print("time is up: run again to continue")
            return
        at, worked = time.monotonic(), time.process_time()
        explore = Exploration() if world == "CartPole" else Exploration(last=0.1, longest=20)
        net = Mlp(MADE[world].n_inputs, (64, 64), MADE[world].n_actions)
        compiled = curves(MADE[world], make_agent(agent, net), Protocol(exploration=explore))
        seen = np.asarray(compiled(step_size, np.array(seeds)), np.float64)
        seen = np.where(np.isfinite(seen), seen, MADE[world].worst)
        range_ = MADE[world].best - MADE[world].worst
        binned = (seen.reshape(len(seeds), BINS, -1).mean(axis=2) - MADE[world].worst) / range_
        part = path.with_suffix(f".part{os.getpid()}")
        with part.open("wb") as file:
            np.savez(file, curves=binned, seconds=time.process_time() - worked)
        part.replace(path)
        longest = max(longest, time.monotonic() - at)
        cpu, wall = time.process_time() - worked, time.monotonic() - at
        print(f"{path.stem}: score {binned.mean():.3f}, {cpu:.0f} s of CPU, {wall:.0f} s", flush=True)


Curves = dict[tuple[str, str, float], Any]


def show(out: Path, picture: Path | None) -> None:
    """The tables of what is there, and the picture."""
    kept: Curves = {}
    for cell in cells():
        path = out / name_of(*cell)
        if path.exists():
            with np.load(path) as file:
                kept[cell[:3]] = np.concatenate([kept.get(cell[:3], np.empty((0, BINS))), file["curves"]])
    counts = sorted({len(curves) for curves in kept.values()})
    print(f"{len(kept)} of {len(AGENTS) * len(WORLDS) * len(STEP_SIZES)} cells; seeds of a cell: {counts}\n")
    steps = sorted(STEP_SIZES)
    print("Interquartile mean of the score, by world\n")
    print("| world | agent | " + " | ".join(f"{step:g}" for step in steps) + " |\n|---|---|" + "---|" * len(steps))
    for world in WORLDS:
        for agent in AGENTS:
            found = [_iqm_of(kept, (world,), agent, step) for step in steps]
            if any(found):
                print(f"| {world} | {agent} | " + " | ".join(one or "-" for one in found) + " |")
    print("\nAll worlds\n")
    print("| agent | " + " | ".join(f"{step:g}" for step in steps) + " |\n|---|" + "---|" * len(steps))
    for agent in AGENTS:
        found = [_iqm_of(kept, WORLDS, agent, step) for step in steps]
        if any(found):
            print(f"| {agent} | " + " | ".join(one or "-" for one in found) + " |")
    print("\nImpression Q minus the other\n")
    print("| worlds | other | " + " | ".join(f"{step:g}" for step in steps) + " |\n|---|---|" + "---|" * len(steps))
    for name, worlds in [("all", WORLDS), *((world, (world,)) for world in WORLDS)]:
        for agent in AGENTS[1:]:
            pairs = [[_scores(kept, worlds, one, step) for one in (AGENTS[0], agent)] for step in steps]
            found = [_told(*pair) for pair in pairs]
            if any(found):
                print(f"| {name} | {agent} | " + " | ".join(one or "-" for one in found) + " |")
    if picture:
        _draw(kept, picture)


def _told(one: Any, other: Any) -> str:
    """The difference with its interval; nothing where a cell is missing."""
    if one is None or other is None:
        return ""
    return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*difference(one, other))


def _scores(kept: Curves, worlds: tuple[str, ...], agent: str, step: float) -> Any:
    """(worlds, seeds) where all of it is there."""
    if any((world, agent, step) not in kept for world in worlds):
        return None
    scores = [kept[world, agent, step].mean(axis=1) for world in worlds]
    fewest = min(map(len, scores))
    return np.array([one[:fewest] for one in scores])


def _iqm_of(kept: Curves, worlds: tuple[str, ...], agent: str, step: float) -> str:
    scores = _scores(kept, worlds, agent, step)
    if scores is None:
        return ""
    low, high = interval(resampled(scores, np.random.default_rng(0)))
    return f"{iqm(scores):.3f} [{low:.3f}, {high:.3f}]"


def _draw(kept: Curves, path: Path) -> None:
    """Single runs and their mean at the middle step-size; the score against the step-size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(WORLDS), figsize=(4 * len(WORLDS), 6))
    at = (np.arange(BINS) + 0.5) * 50_000 / BINS
    for column, world in enumerate(WORLDS):
        curves, areas = axes[0, column], axes[1, column]
        for number, agent in enumerate(AGENTS):
            color = f"C{number}"
            runs = kept.get((world, agent, 1e-3))
            if runs is not None:
                curves.plot(at, runs.T, color=color, alpha=0.08, linewidth=0.6)
                curves.plot(at, runs.mean(axis=0), color=color, label=agent)
            rows = [(step, kept[world, agent, step]) for step in sorted(STEP_SIZES) if (world, agent, step) in kept]
            middles = [float(iqm(runs.mean(axis=1)[None])) for _, runs in rows]
            ends = [interval(resampled(runs.mean(axis=1)[None], np.random.default_rng(0))) for _, runs in rows]
            areas.errorbar(
                [step * 1.04 ** (number - 2) for step, _ in rows],
                middles,
                np.abs(np.array(ends).reshape(-1, 2).T - middles),
                color=color,
                marker="o",
                label=agent,
            )
        curves.set(title=world, xlabel="steps", ylim=(0, 1))
        areas.set(xscale="log", xlabel="step-size", ylim=(0, 1))
        areas.minorticks_off()
        areas.set_xticks(sorted(STEP_SIZES), [f"{one:g}" for one in sorted(STEP_SIZES)])
    axes[0, 0].set_ylabel("return of the last episode (0 to 1)")
    axes[1, 0].set_ylabel("score, interquartile mean")
    axes[1, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("run", "show"))
    parser.add_argument("--out", type=Path, default=Path("control"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    if asked.do == "run":
        run_cells(asked.out, asked.seconds)
    else:
        show(asked.out, asked.picture)


if __name__ == "__main__":
    main()
