"""ICU-Sepsis: clinicians' episodes, three targets near and far, exact values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from trust_cases.case import Case, looked_up
from trust_cases.finite import Finite, simulate


@cache
def world() -> tuple[Finite, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    found = find_spec("icu_sepsis")
    if found is None or found.origin is None:
        raise SystemExit("family icu needs the package icu-sepsis: pip install icu-sepsis")
    z = np.load(Path(found.origin).parent / "envs" / "assets" / "dynamics.npz")
    P, r = z["tx_mat"].copy(), (z["tx_mat"] * z["r_mat"]).sum(2)
    # where clinicians did nothing any more the episode is over, as soon as it is reached
    stays = (np.einsum("sas->sa", P).min(1) > 0.999) | (z["expert_policy"].sum(1) == 0)
    P[:, :, stays] = 0.0
    r[stays] = 0.0
    problem = Finite(P, r, 0.0, z["d_0"], 1.0, sparse=True)
    clinicians = z["expert_policy"]
    q = np.zeros_like(r)
    for _ in range(300):
        q = r + P @ np.where(clinicians > 0, q, -1.0).max(1)
    greedy = np.where(clinicians > 0, q, -9.0)
    soft = np.exp((greedy - greedy.max(1, keepdims=True)) / 0.02)
    soft *= (clinicians > 0) | (clinicians.sum(1, keepdims=True) == 0)
    soft /= soft.sum(1, keepdims=True)
    targets = {
        "near": 0.8 * clinicians + 0.2 * soft,
        "middle": 0.5 * clinicians + 0.5 * soft,
        "far": 0.1 * clinicians + 0.9 * soft,
    }
    return problem, clinicians, z["state_cluster_centers"], targets


def icu_cases(seed: int, count: int, one_hot: bool = False) -> Iterator[Case]:
    """Clinicians' episodes, three targets; features the centres of clusters, or one per state."""
    problem, clinicians, centres, targets = world()
    scaled = (centres - centres.mean(0)) / np.where(centres.std(0) > 0, centres.std(0), 1)
    given = looked_up(np.c_[np.ones(problem.n_states), scaled])
    for size in (500, 1000, 2000):
        for k in range(count):
            for name, target in targets.items():
                rng = np.random.default_rng([seed, k, size, len(name)])
                log = simulate(problem, clinicians, target, size, rng)
                truth = problem.truth(target)
                if one_hot:
                    yield Case("icu one-hot", f"one-hot, {name}", size, None, truth, log, 1.0)
                else:
                    yield Case("icu", f"centres, {name}", size, None, truth, log, 1.0, given)
