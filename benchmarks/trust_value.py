"""How far is the value from the truth? Root-mean-square errors of the default beside those of common choices.

    python benchmarks/trust_value.py --logs 30 --cache FOLDER
    python benchmarks/trust_value.py --world CartPole real

Worlds of gymnasium (LunarLander needs `pip install box2d pygame`), 100 episodes each, and random systems with real
observations, whose errors are divided by the standard error of second-order LSTD. Beside the default: LSTD and LSTD-Q
with polynomials of order 2, and weighted doubly robust with each of the two feature sets.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import gradtd
from gradtd import Inference, Machine

sys.path.insert(0, str(Path(__file__).parent))

from trust_cases import fresh, gym_logs, systems
from trust_cases.case import Case

SEED = 14_000_000
GYM = ("CartPole", "MountainCar", "Pendulum", "Acrobot", "LunarLander")
SYSTEMS = {"real": systems.system_cases, "point": lambda seed, n: fresh.point_cases(seed, 3 * n)}


def cases(world: str, count: int) -> Iterator[Case]:
    if world in SYSTEMS:
        return (case for case in SYSTEMS[world](SEED, count) if case.adequate is not False)
    return (gym_logs.gym_case(world, 100, SEED + k) for k in range(count))


def errors(case: Case, scaled: bool) -> dict[str, float]:
    """The error of every method on one log."""
    plain = {"gamma": case.gamma, "machine": Machine(threads=1), "progress": False}
    second = plain | {"features": "polynomial:order=2", "algorithm": "lstd", "inference": Inference(resamples=0)}
    chosen = gradtd.evaluate(case.log, **plain)
    lstd = gradtd.evaluate(case.log, **second)
    of_pairs = gradtd.evaluate(case.log, target=case.policy, value_function="action", **second)
    wdr = {f"wdr {name}": row.value for name, one in (("chosen", chosen), ("order 2", lstd)) for row in one.estimates
           if row.method == "wdr" and row.value is not None}  # fmt: skip
    made = {"default": chosen.value, "lstd": lstd.value, "lstd-q": of_pairs.value} | wdr
    scale = max(lstd.estimates[0].error or 1.0, 1e-9) if scaled else 1.0
    return {name: (value - case.truth) / scale for name, value in made.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", nargs="*", choices=(*GYM, *SYSTEMS), default=[*GYM, *SYSTEMS])
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--cache", type=Path, help="where logs of gymnasium and their truths are kept")
    given = parser.parse_args()
    if given.cache is not None:
        gym_logs.CACHE = given.cache
    for world in given.world:
        if world == "LunarLander" and find_spec("Box2D") is None:
            continue
        found: dict[str, list[float]] = defaultdict(list)
        for case in cases(world, given.logs):
            for name, error in errors(case, world in SYSTEMS).items():
                found[name].append(error)
        told = "  ".join(f"{name} {np.sqrt(np.mean(np.square(values))):.3g}" for name, values in found.items())
        print(f"{world:12s} {len(found['default'])} logs: {told}", flush=True)


if __name__ == "__main__":
    main()
