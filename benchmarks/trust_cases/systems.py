"""Random systems with real observations: smooth dynamics, smooth or stepped rewards, softmax policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gradtd.logs import Log
from trust_cases.case import Case, as_log

ROLLOUTS = 20_000


class System:
    def __init__(self, rng: np.random.Generator) -> None:
        self.k, self.A = int(rng.integers(1, 5)), int(rng.integers(2, 4))
        k = self.k
        turn = np.linalg.qr(rng.standard_normal((k, k)))[0]
        self.M = [0.95 * turn + 0.2 * rng.standard_normal((k, k)) for _ in range(self.A)]
        self.push = 0.5 * rng.standard_normal((self.A, k))
        self.noise = float(rng.choice([0.05, 0.2, 0.5]))
        self.end = float(rng.uniform(0.02, 0.1))
        self.gamma = float(rng.choice([0.9, 0.97, 1.0]))
        self.w, self.phase = rng.standard_normal((k, 6)) * float(rng.choice([0.7, 1.5])), rng.uniform(0, 6.3, 6)
        self.c = rng.standard_normal(6)
        self.stepped = bool(rng.random() < 0.3)
        self.level = float(rng.choice([-1.0, 0.0, 1.0]))
        self.lean = {name: rng.standard_normal((k, self.A)) for name in ("behaviour", "target")}
        self.lean["target"] = self.lean["behaviour"] * 0.5 + 0.5 * self.lean["target"]
        self.start = rng.standard_normal(k), float(rng.choice([0.0, 0.3, 1.0]))
        self.edge = bool(rng.random() < 0.3)  # ends where the first column is large

    def policy(self, s: np.ndarray, name: str) -> np.ndarray:
        z = np.exp(s @ self.lean[name])
        return 0.9 * z / z.sum(1, keepdims=True) + 0.1 / self.A

    def reward(self, s: np.ndarray) -> np.ndarray:
        smooth = np.cos(s @ self.w + self.phase) @ self.c / 2
        return self.level + (np.sign(smooth) if self.stepped else smooth)

    def run(self, name: str, episodes: int, rng: np.random.Generator, limit: int = 600) -> Iterator[tuple]:
        s = self.start[0] + self.start[1] * rng.standard_normal((episodes, self.k))
        alive = np.arange(episodes)
        for t in range(limit):
            law = self.policy(s, name)
            a = (rng.random(len(s))[:, None] >= law.cumsum(1)[:, :-1]).sum(1)
            after = np.empty_like(s)
            for b in range(self.A):
                mine = a == b
                after[mine] = 2 * np.tanh((s[mine] @ self.M[b].T + self.push[b]) / 2)
            after += self.noise * rng.standard_normal(s.shape)
            ended = rng.random(len(s)) < self.end
            if self.edge:
                ended |= after[:, 0] > 1.5
            yield t, alive, s, a, self.reward(s), after, ended, law
            s, alive = after[~ended], alive[~ended]
            if not len(s):
                return

    def truth(self, rng: np.random.Generator) -> tuple[float, float]:
        total = np.zeros(ROLLOUTS)
        for t, alive, _, _, r, _, _, _ in self.run("target", ROLLOUTS, rng):
            total[alive] += self.gamma**t * r
        return float(total.mean()), float(total.std() / np.sqrt(ROLLOUTS))

    def log(self, episodes: int, rng: np.random.Generator, limit: int = 600) -> Log:
        parts = []
        for t, alive, s, a, r, after, ended, law in self.run("behaviour", episodes, rng, limit):
            at = np.arange(len(a))
            rho = self.policy(s, "target")[at, a] / law[at, a]
            parts.append((alive, np.full(len(a), t), s, a, r, after, ended, rho))
        e, t, s, a, r, after, ended, rho = (np.concatenate(c) for c in zip(*parts, strict=True))
        order = np.lexsort((t, e))
        e, s, a, r, after, ended, rho = (c[order] for c in (e, s, a, r, after, ended, rho))
        n = len(e)
        begins = np.r_[np.flatnonzero(np.r_[True, e[1:] != e[:-1]]), n]
        nxt = np.arange(1, n + 1)
        last = begins[1:] - 1
        nxt[last] = n + np.arange(episodes)
        discount = np.where(ended, 0.0, self.gamma)
        return as_log(np.r_[s, after[last]], np.arange(n), nxt, r, discount, rho, begins, a)


def system_cases(seed: int, count: int) -> Iterator[Case]:
    for k in range(count):
        rng = np.random.default_rng([seed, k, 4242])
        system = System(rng)
        episodes = round(np.exp(rng.uniform(np.log(30), np.log(1000))))
        truth, error = system.truth(rng)
        log = system.log(episodes, rng)
        yield Case(
            "real",
            f"{system.k} columns",
            episodes,
            None,
            truth,
            log,
            system.gamma,
            error=error,
            policy=partial(system.policy, name="target"),
        )
