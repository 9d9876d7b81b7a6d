"""Do intervals of paired differences contain the true difference, and how much narrower are they than unpaired ones?

Two problems whose values linear algebra gives: a walk over seven states, and random finite problems with 8 states and 3
actions, a new one for every log. On each, two targets are evaluated from a log of a third policy, and
``Evaluations.compare`` gives the interval of their difference.

    python benchmarks/paired_difference.py --logs 500
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gradtd

GAMMA = 0.95


def walk(rng):
    """Seven states, left or right, +1 past the right end and -1 past the left one."""
    n, A = 7, 2
    P, r, end = np.zeros((n, A, n)), np.zeros((n, A)), np.zeros((n, A))
    for s in range(n):
        for a, after in enumerate((s - 1, s + 1)):
            if 0 <= after < n:
                P[s, a, after] = 1
            else:
                r[s, a], end[s, a] = (1.0 if after == n else -1.0), 1
    start = np.eye(n)[3]
    policies = [np.tile([1 - p, p], (n, 1)) for p in (0.5, 0.6, 0.7)]
    return P, r, end, start, policies


def finite(rng):
    """Eight states, three actions, episodes that end with probability .1 in every step, noisy rewards."""
    n, A = 8, 3
    P = rng.dirichlet(np.full(n, 0.3), (n, A)) * 0.9
    end = 1 - P.sum(axis=2)
    behaviour = rng.dirichlet(np.full(A, 5.0), n)
    targets = [0.5 * behaviour + 0.5 * rng.dirichlet(np.full(A, 1.0), n) for _ in range(2)]
    return P, rng.normal(size=(n, A)), end, rng.dirichlet(np.ones(n)), [behaviour, *targets]


def true_value(P, r, start, policy):
    model = np.einsum("sa,sat->st", policy, P)
    return start @ np.linalg.solve(np.eye(len(P)) - GAMMA * model, (policy * r).sum(axis=1))


def sample(problem, episodes, noise, rng):
    P, r, end, start, policies = problem
    rows = []
    for e in range(episodes):
        s, over = rng.choice(len(start), p=start), False
        while not over:
            a = rng.choice(P.shape[1], p=policies[0][s])
            over = rng.random() < end[s, a]
            rows.append((e, s, a, r[s, a] + noise * rng.normal(), over, policies[0][s, a]))
            if not over:
                s = rng.choice(len(start), p=P[s, a] / P[s, a].sum())
    return dict(
        zip(
            ("episode", "obs", "action", "reward", "terminated", "action_prob"),
            map(np.array, zip(*rows, strict=True)),
            strict=True,
        )
    )


def measured(name, logs, episodes, noise, seed):
    inside, covered, paired, unpaired, usable = 0, 0, [], [], 0
    for k in range(logs):
        rng = np.random.default_rng([seed, k])
        problem = PROBLEMS[name](rng)
        P, r, _, start, policies = problem
        truth = true_value(P, r, start, policies[1]) - true_value(P, r, start, policies[2])
        found = gradtd.evaluate(
            sample(problem, episodes, noise, rng),
            gamma=GAMMA,
            target={"a": policies[1], "b": policies[2]},
            algorithm="lstd",
            progress=False,
            inference=gradtd.Inference(resamples=0),
            machine=gradtd.Machine(threads=1),
        )
        (row,) = found.compare().differences
        inside += row.low <= truth <= row.high
        usable += row.verdict == "usable"
        covered += row.verdict == "usable" and row.low <= truth <= row.high
        paired.append(row.error)
        unpaired.append(row.unpaired_error)
    ratio = np.median(np.array(paired) / np.array(unpaired))
    given = f"{100 * covered / usable:.1f} ({usable})" if usable else "- (0)"
    print(f"| {name}, {episodes} episodes | {logs} | {100 * inside / logs:.1f} | {given} | {ratio:.2f} |", flush=True)


PROBLEMS = {"walk": walk, "finite": finite}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--problem", choices=PROBLEMS, default=None)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.perf_counter()
    print("| problem | logs | contain it, in percent | contain it, both usable (logs) | width relative to unpaired |")
    print("|---|---|---|---|---|")
    for name, noise in (("walk", 0.0), ("finite", 1.0)):
        if asked.problem in (None, name):
            measured(name, asked.logs, asked.episodes, noise, asked.seed)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
