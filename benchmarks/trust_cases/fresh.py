"""Worlds that nothing was tuned on when they were written.

A shop's stock, a queue, a moving point, a wearing machine, one-step choices, a tank, a clinic and a courier were held
out once, and have been used for tuning since. A tracker, a network of queues and a season of sales are held out now.

The dial hides nothing, some or much of what matters. Truths are exact or come from 20 000 roll-outs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from trust_cases.case import Case, as_log
from trust_cases.finite import Finite, simulate
from trust_cases.limited import ended, finite_value
from trust_cases.systems import ROLLOUTS, System

DIAL = ("nothing", "some", "much")


def _episodes(rng: np.random.Generator) -> int:
    return round(np.exp(rng.uniform(np.log(100), np.log(1000))))


def _soft(scores: np.ndarray, noise: float) -> np.ndarray:
    z = np.exp((scores - scores.max(1, keepdims=True)) / noise)
    return 0.95 * z / z.sum(1, keepdims=True) + 0.05 / z.shape[1]


def stock_cases(seed: int, count: int) -> Iterator[Case]:
    """Stock of 0 to 11, orders of 0, 2 or 5; demand has two seasons, which the observation tells, or hides."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 921])
        dial, n, orders = DIAL[k % 3], 12, (0, 2, 5)
        apart = {"nothing": 0.0, "some": 1.0, "much": 3.0}[dial]
        base, stay, end = rng.uniform(1, 3), rng.uniform(0.7, 0.95), rng.uniform(0.02, 0.08)
        P, r = np.zeros((2 * n, 3, 2 * n)), np.zeros((2 * n, 3))
        for season in range(2):
            mean = base + apart * season
            demand = np.exp(-mean) * mean ** np.arange(30) / np.cumprod(np.r_[1.0, np.arange(1.0, 30)])
            for s in range(n):
                for a, order in enumerate(orders):
                    have = min(s + order, n - 1)
                    for d, chance in enumerate(demand):
                        left = max(have - d, 0)
                        r[season * n + s, a] += chance * (3 * min(d, have) - 0.3 * left - order)
                        P[season * n + s, a, season * n + left] += chance * stay * (1 - end)
                        P[season * n + s, a, (1 - season) * n + left] += chance * (1 - stay) * (1 - end)
        start = np.zeros(2 * n)
        start[[5, n + 5]] = 0.5
        problem = Finite(P, r, 0.5, start, 0.95)
        scores = np.tile(-np.abs(np.arange(n)[:, None] + np.array(orders) - rng.uniform(3, 8)), (2, 1))
        both = _soft(scores, rng.uniform(3, 6)), _soft(scores, rng.uniform(1, 3))
        episodes = _episodes(rng)
        log = simulate(problem, *both, episodes, rng, show=np.arange(2 * n) % n, actions=True)
        yield Case("stock", dial, episodes, dial == "nothing", problem.truth(both[1]), log, problem.gamma)


def queue_cases(seed: int, count: int) -> Iterator[Case]:
    """A queue of 0 to 9 with a slow and a fast server; 15 steps that are cut off, or at which a day is over."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 922])
        over, n, length = bool(k % 2), 10, int(rng.integers(10, 21))
        arrive, speeds = rng.uniform(0.3, 0.7), (rng.uniform(0.2, 0.5), rng.uniform(0.6, 0.9))
        P, r = np.zeros((n, 2, n)), np.zeros((n, 2))
        for s in range(n):
            for a, speed in enumerate(speeds):
                for up, c1 in ((1, arrive), (0, 1 - arrive)):
                    for down, c2 in ((1, speed), (0, 1 - speed)):
                        P[s, a, min(max(s + up - down * (s > 0), 0), n - 1)] += c1 * c2
                r[s, a] = -0.3 * s - 0.8 * a
        problem = Finite(P, r, 0.2, np.eye(n)[int(rng.integers(0, 5))], 0.95)
        both = (np.tile([p, 1 - p], (n, 1)) for p in (rng.uniform(0.4, 0.7), rng.uniform(0.2, 0.8)))
        behaviour, target = both
        episodes = _episodes(rng)
        log = simulate(problem, behaviour, target, episodes, rng, limit=length, actions=True)
        log = ended(log, length, over)
        truth = finite_value(problem, target, length) if over else problem.truth(target)
        yield Case("queue", "ended" if over else "cut", episodes, not over, truth, log, problem.gamma)


class Moved(System):
    """A system whose actions move the state by functions, and whose noise and ends are its own."""

    step: list[Callable[[np.ndarray], np.ndarray]]

    def shaken(self, after: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError

    def over(self, after: np.ndarray) -> np.ndarray:
        return np.zeros(len(after), bool)

    def run(self, name: str, episodes: int, rng: np.random.Generator, limit: int = 600) -> Iterator[tuple]:
        s = self.start[0] + self.start[1] * rng.standard_normal((episodes, self.k))
        alive = np.arange(episodes)
        for t in range(limit):
            law = self.policy(s, name)
            a = (rng.random(len(s))[:, None] >= law.cumsum(1)[:, :-1]).sum(1)
            after = np.empty_like(s)
            for b in range(self.A):
                after[a == b] = self.step[b](s[a == b])
            after = self.shaken(after, rng)
            over = (rng.random(len(s)) < self.end) | self.over(after)
            yield t, alive, s, a, self.reward(s), after, over, law
            s, alive = after[~over], alive[~over]
            if not len(s):
                return


class Point(Moved):
    """Position and velocity in a plane, pushed in one of four directions; near a goal it earns."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.k, self.A, self.gamma, self.end, self.edge = 4, 4, 0.95, float(rng.uniform(0.03, 0.08)), False
        self.goal, self.noise = rng.uniform(-1, 1, 2), float(rng.choice([0.05, 0.15]))
        self.lean = {name: 0.5 * rng.standard_normal((4, 4)) for name in ("behaviour", "target")}
        self.start = np.r_[rng.uniform(-1, 1, 2), 0, 0], 0.3
        pushes = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        self.step = [partial(self._move, push=push) for push in 0.2 * pushes]

    @staticmethod
    def _move(s: np.ndarray, push: np.ndarray) -> np.ndarray:
        v = 0.9 * s[:, 2:] + push
        return np.c_[np.clip(s[:, :2] + v, -3, 3), v]

    def reward(self, s: np.ndarray) -> np.ndarray:
        return np.exp(-((s[:, :2] - self.goal) ** 2).sum(1)) - 0.1 * (s[:, 2:] ** 2).sum(1)

    def shaken(self, after: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        after[:, 2:] += self.noise * rng.standard_normal((len(after), 2))
        return after


def point_cases(seed: int, count: int) -> Iterator[Case]:
    """The velocity is seen, seen with noise, or not seen."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 923])
        point, episodes, dial = Point(rng), _episodes(rng), DIAL[k % 3]
        truth, error = point.truth(rng)
        log = point.log(episodes, rng)
        seen = np.array(log.observations)
        if dial == "some":
            seen[:, 2:] += rng.standard_normal((len(seen), 2)) * seen[:, 2:].std()
        elif dial == "much":
            seen = seen[:, :2]
        policy = partial(point.policy, name="target") if dial == "nothing" else None
        log = replace(log, observations=seen)
        yield Case("point", dial, episodes, dial == "nothing", truth, log, point.gamma, error=error, policy=policy)


def wear_cases(seed: int, count: int) -> Iterator[Case]:
    """A machine wears with use; run it slow or fast, or repair it. Over a shift its product sells for less and less."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 924])
        dial, episodes, T = DIAL[k % 3], _episodes(rng), int(rng.integers(8, 25))
        fall, gamma = {"nothing": 0.0, "some": 0.4, "much": 0.9}[dial], 0.95
        rate, lean = rng.uniform(0.05, 0.2), {b: rng.uniform(-1, 1, 3) for b in ("behaviour", "target")}

        def law(w: np.ndarray, name: str, lean: dict = lean) -> np.ndarray:
            return _soft(np.c_[0 * w, 0.5 * w, 2 * w] * 1.0 + lean[name], 1.0)

        def run(name: str, n: int, steps: int, rng=rng, rate=rate, law=law):
            w = rng.uniform(0, 0.3, n)
            for t in range(steps):
                p = law(w, name)
                a = (rng.random(n)[:, None] >= p.cumsum(1)[:, :-1]).sum(1)
                r = np.choose(a, [1 - w, 2 - 3 * w, -0.5 + 0 * w]) + 0.1 * rng.standard_normal(n)
                after = np.where(a == 2, 0.1 * rng.random(n), w + rate * (1 + a) * rng.exponential(1, n))
                yield t, w, a, r, after, p
                w = np.minimum(after, 3.0)

        horizon = T if fall else 150
        total = np.zeros(ROLLOUTS)
        for t, _, _, r, _, _ in run("target", ROLLOUTS, horizon):
            total += gamma**t * r * (1 - fall * t / T)
        rows = list(run("behaviour", episodes, T))
        w, a, r = (np.array([row[j] for row in rows]).T for j in (1, 2, 3))
        last = np.minimum(rows[-1][4], 3.0)
        p_b, p_t = (law(w.ravel(), name)[np.arange(w.size), a.ravel()] for name in ("behaviour", "target"))
        r = r * (1 - fall * np.arange(T) / T)
        n = episodes * T
        nxt = np.arange(1, n + 1)
        ends = np.arange(1, episodes + 1) * T - 1
        nxt[ends] = n + np.arange(episodes)
        discount = np.full(n, gamma)
        discount[ends] = 0.0 if fall else gamma
        seen, begins = np.r_[w.ravel(), last][:, None], np.arange(episodes + 1) * T
        log = as_log(seen, np.arange(n), nxt, r.ravel(), discount, p_t / p_b, begins, a.ravel())
        error = float(total.std() / np.sqrt(ROLLOUTS))
        yield Case("wear", dial, episodes, not fall, float(total.mean()), log, gamma, error=error)


def choice_cases(seed: int, count: int) -> Iterator[Case]:
    """One-step episodes: a real context, three to six actions, rewards of 0 and 1 that are rare or common."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 925])
        d, A = int(rng.integers(1, 5)), int(rng.integers(3, 7))
        n = round(np.exp(rng.uniform(np.log(300), np.log(5000))))
        level = float(rng.choice([-3.0, -1.0, 1.0]))
        w, u, v = (rng.standard_normal((d, A)) for _ in range(3))

        def chance(x: np.ndarray, w=w, level=level) -> np.ndarray:
            return 1 / (1 + np.exp(-level - x @ w))

        far = rng.standard_normal((ROLLOUTS * 5, d))
        truth = (_soft(far @ v, 1.0) * chance(far)).sum(1)
        x = rng.standard_normal((n, d))
        p_b, p_t = _soft(x @ u, 1.0), _soft(x @ v, 1.0)
        a = (rng.random(n)[:, None] >= p_b.cumsum(1)[:, :-1]).sum(1)
        at = np.arange(n)
        r = (rng.random(n) < chance(x)[at, a]).astype(float)
        log = as_log(x, at, at, r, np.zeros(n), p_t[at, a] / p_b[at, a], np.arange(n + 1), a)
        error = float(truth.std() / np.sqrt(len(truth)))
        yield Case("choice", f"level {level:g}", n, True, float(truth.mean()), log, 0.9, error=error)


class Tank(Moved):
    """A tank whose valve is closed, half open or open; what flows in changes slowly."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.k, self.A, self.gamma, self.end = 2, 3, 0.95, float(rng.uniform(0.02, 0.06))
        self.goal, self.stay, self.noise = rng.uniform(0.5, 1.5), rng.uniform(0.8, 0.95), float(rng.choice([0.05, 0.1]))
        self.lean = {name: 0.8 * rng.standard_normal((2, 3)) for name in ("behaviour", "target")}
        self.start = np.array([rng.uniform(0.5, 1.5), rng.uniform(0.2, 0.5)]), 0.2
        self.step = [partial(self._flow, valve=valve) for valve in (0.0, 0.25, 0.5)]

    def _flow(self, s: np.ndarray, valve: float) -> np.ndarray:
        level = s[:, 0] + 0.5 * s[:, 1] - valve * np.sqrt(np.maximum(s[:, 0], 0.0))
        return np.c_[np.clip(level, 0.0, 3.0), 0.3 + self.stay * (s[:, 1] - 0.3)]

    def shaken(self, after: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        after[:, 1] += self.noise * rng.standard_normal(len(after))
        return after

    def reward(self, s: np.ndarray) -> np.ndarray:
        return 1 - np.abs(s[:, 0] - self.goal)


class Clinic(Moved):
    """How ill a patient is, the drug in the blood, and how fast it gets worse; one dose or none. Ends at both edges."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.k, self.A, self.gamma, self.end = 3, 2, 0.97, 0.01
        self.effect, self.noise = rng.uniform(0.2, 0.4), float(rng.choice([0.05, 0.15]))
        self.lean = {name: 0.7 * rng.standard_normal((3, 2)) for name in ("behaviour", "target")}
        self.start = np.array([1.0, 0.3, 0.1]), np.array([0.2, 0.2, 0.05])
        self.step = [partial(self._treated, dose=dose) for dose in (0.0, 0.6)]

    def _treated(self, s: np.ndarray, dose: float) -> np.ndarray:
        drug = 0.75 * np.maximum(s[:, 1], 0.0) + dose
        return np.c_[s[:, 0] + s[:, 2] - self.effect * drug / (1 + drug), drug, s[:, 2]]

    def shaken(self, after: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        after[:, 0] += self.noise * rng.standard_normal(len(after))
        return after

    def over(self, after: np.ndarray) -> np.ndarray:
        return (after[:, 0] < 0) | (after[:, 0] > 2.5)

    def reward(self, s: np.ndarray) -> np.ndarray:
        return -s[:, 0] - 0.2 * s[:, 1] ** 2


def _moved_cases(kind: type[Moved], number: int, column: int, seed: int, count: int) -> Iterator[Case]:
    """One column is seen, seen with noise of its own size, or not seen. Half of the logs are cut after 40 steps."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, number])
        made, episodes, dial = kind(rng), _episodes(rng), DIAL[k % 3]
        truth, error = made.truth(rng)
        log = made.log(episodes, rng, 40 if (k // 3) % 2 else 600)
        seen = np.array(log.observations)
        if dial == "some":
            seen[:, column] += rng.standard_normal(len(seen)) * seen[:, column].std()
        elif dial == "much":
            seen = np.delete(seen, column, axis=1)
        name, log = kind.__name__.lower(), replace(log, observations=seen)
        yield Case(name, dial, episodes, dial == "nothing", truth, log, made.gamma, error=error)


tank_cases = partial(_moved_cases, Tank, 926, 1)
clinic_cases = partial(_moved_cases, Clinic, 927, 1)


def courier_cases(seed: int, count: int) -> Iterator[Case]:
    """A ring of places with a parcel to fetch at one and to bring to another; carrying is seen, half seen or hidden."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 928])
        n, dial, slip, end = int(rng.integers(6, 11)), DIAL[k % 3], rng.uniform(0.0, 0.3), rng.uniform(0.02, 0.08)
        fetch, bring = (int(one) for one in rng.choice(n, 2, replace=False))
        P, r = np.zeros((2 * n, 3, 2 * n)), np.zeros((2 * n, 3))
        for carrying in range(2):
            for place in range(n):
                for a, step in enumerate((-1, 0, 1)):
                    for to, chance in (((place + step) % n, 1 - slip), (place, slip)):
                        now = 1 if to == fetch and not carrying else 0 if to == bring and carrying else carrying
                        P[carrying * n + place, a, now * n + to] += chance * (1 - end)
                        r[carrying * n + place, a] += chance * (1.0 * (carrying and to == bring) - 0.05 * abs(step))
        start = np.zeros(2 * n)
        start[:n] = 1 / n
        problem = Finite(P, r, 0.1, start, 0.95)
        both = (_soft(rng.standard_normal((2 * n, 3)), 1.0) for _ in range(2))
        behaviour, target = both
        show = np.arange(2 * n)
        hidden = {"nothing": np.zeros(2 * n, bool), "some": rng.random(2 * n) < 0.3, "much": np.ones(2 * n, bool)}[dial]
        show[hidden] %= n
        episodes = _episodes(rng)
        log = simulate(problem, behaviour, target, episodes, rng, show=show, actions=True)
        yield Case("courier", dial, episodes, dial == "nothing", problem.truth(target), log, problem.gamma)


class Tracker(Moved):
    """A target that moves in a line, and a camera that turns after it: the reward falls with the angle between."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.k, self.A, self.gamma, self.end = 3, 3, 0.95, float(rng.uniform(0.02, 0.05))
        self.turn, self.noise = rng.uniform(0.1, 0.3), float(rng.choice([0.02, 0.1]))
        self.lean = {name: 0.8 * rng.standard_normal((3, 3)) for name in ("behaviour", "target")}
        self.start = np.array([rng.uniform(-0.5, 0.5), 0.0, rng.uniform(-0.1, 0.1)]), np.array([0.3, 0.3, 0.1])
        self.step = [partial(self._turned, by=by) for by in (-self.turn, 0.0, self.turn)]

    def _turned(self, s: np.ndarray, by: float) -> np.ndarray:
        where = s[:, 0] + s[:, 2]
        back = np.where(np.abs(where) > 2, -s[:, 2], s[:, 2])  # it turns at the walls
        return np.c_[np.clip(where, -2, 2), np.clip(s[:, 1] + by, -2, 2), back]

    def shaken(self, after: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        after[:, 2] += self.noise * rng.standard_normal(len(after))
        return np.clip(after, -3, 3)

    def reward(self, s: np.ndarray) -> np.ndarray:
        return np.cos(np.clip(s[:, 0] - s[:, 1], -np.pi, np.pi))


tracker_cases = partial(_moved_cases, Tracker, 929, 2)


def network_cases(seed: int, count: int) -> Iterator[Case]:
    """Jobs of two kinds in two queues, one server: the kind at work sets its speed, and is seen, half seen or not."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 930])
        dial, n, end = DIAL[k % 3], 4, rng.uniform(0.02, 0.06)
        arrive, speed = rng.uniform(0.2, 0.45, 2), np.array([rng.uniform(0.6, 0.9), rng.uniform(0.2, 0.45)])
        S = n * n * 2
        P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
        for s in range(S):
            kind, first, second = s // (n * n), s % (n * n) // n, s % n
            for a in range(2):  # which queue is served next, once the job at work is done
                for done in (0, 1):
                    for in1 in (0, 1):
                        for in2 in (0, 1):
                            chance = speed[kind] if done else 1 - speed[kind]
                            chance *= (arrive[0] if in1 else 1 - arrive[0]) * (arrive[1] if in2 else 1 - arrive[1])
                            one, two, at = min(first + in1, n - 1), min(second + in2, n - 1), kind
                            if done:
                                at = a
                                one, two = (max(one - 1, 0), two) if a == 0 else (one, max(two - 1, 0))
                            P[s, a, at * n * n + one * n + two] += chance * (1 - end)
                r[s, a] = -0.2 * (first + 2 * second) - 0.1 * a
        start = np.zeros(S)
        start[0] = 1.0
        problem = Finite(P, r, 0.3, start, 0.95)
        behaviour, target = (_soft(rng.standard_normal((S, 2)), 1.0) for _ in range(2))
        show = np.arange(S)
        hidden = {"nothing": np.zeros(S, bool), "some": rng.random(S) < 0.4, "much": np.ones(S, bool)}[dial]
        show[hidden] %= n * n
        episodes = _episodes(rng)
        log = simulate(problem, behaviour, target, episodes, rng, show=show, actions=True)
        yield Case("network", dial, episodes, dial == "nothing", problem.truth(target), log, problem.gamma)


def season_cases(seed: int, count: int) -> Iterator[Case]:
    """A price is set each day of a season; demand falls with the days left, which are seen, seen roughly or not."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, 931])
        dial, T, stock = DIAL[k % 3], int(rng.integers(10, 25)), int(rng.integers(8, 16))
        prices, gamma = np.array([1.0, 1.5, 2.2]), 1.0
        level, fall, taste = rng.uniform(0.8, 1.8), rng.uniform(0.3, 0.9), rng.uniform(0.8, 1.6)
        scores = {name: 0.8 * rng.standard_normal((stock + 1, 3)) for name in ("behaviour", "target")}
        law = {name: _soft(one, 1.0) for name, one in scores.items()}

        def run(name: str, n: int, rng=rng, law=law, T=T, stock=stock, demand=(level, fall, taste), prices=prices):
            left = np.full(n, stock)
            for t in range(T):
                p = law[name][left]
                a = (rng.random(n)[:, None] >= p.cumsum(1)[:, :-1]).sum(1)
                mean = demand[0] * (1 - demand[1] * t / T) * prices[a] ** -demand[2]
                sold = np.minimum(rng.poisson(mean), left)
                yield left, a, prices[a] * sold
                left = left - sold

        total = np.zeros(ROLLOUTS)
        for _, _, earned in run("target", ROLLOUTS):
            total += earned
        episodes = _episodes(rng)
        left, a, r = (np.array(one).T for one in zip(*run("behaviour", episodes), strict=True))
        n = episodes * T
        time = np.tile(np.arange(T), episodes)
        rough = {"nothing": time, "some": time // (T // 2), "much": 0 * time}[dial]
        seen, begins = left.ravel() * 100 + rough, np.arange(episodes + 1) * T
        nxt = np.minimum(np.arange(1, n + 1), n - 1)
        discount = np.full(n, gamma)
        discount[begins[1:] - 1] = 0.0
        p_b, p_t = (law[name][left.ravel(), a.ravel()] for name in ("behaviour", "target"))
        log = as_log(seen, np.arange(n), nxt, r.ravel(), discount, p_t / p_b, begins, a.ravel())
        error = float(total.std() / np.sqrt(ROLLOUTS))
        yield Case("season", dial, episodes, dial == "nothing", float(total.mean()), log, gamma, error=error)
