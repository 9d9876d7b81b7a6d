"""Control with networks: Impression Q beside DQN, double DQN, semi-gradient Q and EQRC, on equal samples.

    python benchmarks/control.py run --out control --seconds 600      # what is missing, until time is up
    python benchmarks/control.py show --out control --picture docs/control.png --page control.html

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from control_cases.report import Curves, Runs, difference_tables, draw_worlds, markdown, middle_tables, write_page

SEEDS = (range(1000, 1010), range(1010, 1020), range(1020, 1030))
STEP_SIZES = (1e-3, 3e-4, 3e-3)
WORLDS = ("CartPole", "MountainCar", "Acrobot", "Breakout")
FIRST = ("impression_q", "dqn", "semi_gradient_q")
AGENTS = (*FIRST, "eqrc", "double_dqn", "dqn_50")
BINS = 100


def cells(worlds: Sequence[str] = WORLDS, asked: Sequence[str] = AGENTS) -> Iterator[tuple[str, str, float, range]]:
    """In the order that makes a fair table soonest."""
    for agents in (FIRST, AGENTS[len(FIRST) :]):
        for step_size in STEP_SIZES:
            for seeds in SEEDS:
                for world in worlds:
                    for agent in agents:
                        if agent in asked:
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


def run_cells(out: Path, seconds: float, worlds: Sequence[str], agents: Sequence[str]) -> None:
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
    for world, agent, step_size, seeds in cells(worlds, agents):
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


def read_runs(out: Path) -> Runs:
    """The cells of which the folder has all seeds."""
    kept: Curves = {}
    for cell in cells():
        path = out / name_of(*cell)
        if path.exists():
            with np.load(path) as file:
                kept[cell[:3]] = np.concatenate([kept.get(cell[:3], np.empty((0, BINS))), file["curves"]])
    whole = {cell: curves for cell, curves in kept.items() if len(curves) == sum(map(len, SEEDS))}
    return Runs(whole, WORLDS, AGENTS, sorted(STEP_SIZES))


def show(out: Path, image: Path | None, page: Path | None) -> None:
    """The tables of what is there, the picture and the page."""
    runs = read_runs(out)
    print(f"{len(runs.curves)} of {len(AGENTS) * len(WORLDS) * len(STEP_SIZES)} cells are whole\n")
    for table in (*middle_tables(runs), *difference_tables(runs)):
        print(markdown(table))
    if image:
        draw_worlds(runs, image)
    if page:
        write_page(runs, page, str(__doc__))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("run", "show"))
    parser.add_argument("--out", type=Path, default=Path("control"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=AGENTS)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    if asked.do == "run":
        run_cells(asked.out, asked.seconds, asked.worlds, asked.agents)
    else:
        show(asked.out, asked.picture, asked.page)


if __name__ == "__main__":
    main()
