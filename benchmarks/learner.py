"""What a step costs in a loop of one's own, beside other programs: python benchmarks/learner.py

    python benchmarks/learner.py                     # all of it, some minutes
    python benchmarks/learner.py --only steps horde   # some of it

Contestants take turns, each in the same loop of Python over the same rows. Times are processor time, the median over
turns; what counts are ratios of one run. NumPy agents are written as one would write the equations, an update in three
to five array expressions.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtd

GAMMA = 0.9
ROWS = 2000


class Data:
    """Rows and numbers of a stream that is gone through again and again."""

    def __init__(self, d: int) -> None:
        rng = np.random.default_rng(0)
        table = rng.normal(size=(ROWS + 1, d)) / np.sqrt(d)
        self.d, self.rows = d, [table[i] for i in range(ROWS + 1)]
        self.reward, self.rho = rng.normal(size=ROWS).tolist(), (2 * rng.random(ROWS)).tolist()
        self.discount = [0.0 if t % 20 == 19 else GAMMA for t in range(ROWS)]

    def loop(self, update: Callable[..., Any], steps: int, predict: Callable[[Any], Any] | None = None) -> None:
        rows, reward, rho, discount = self.rows, self.reward, self.rho, self.discount
        for t in range(steps):
            i = t % ROWS
            update(rows[i], reward[i], rows[i + 1], rho[i], discount[i])
            if predict is not None:
                predict(rows[i])


class NumpyTD:
    """TD in NumPy."""

    def __init__(self, d: int, alpha: float = 0.01) -> None:
        self.theta, self.alpha = np.zeros(d), alpha

    def update(self, phi: Any, reward: float, phi_next: Any, rho: float, discount: float) -> None:
        delta = reward + discount * phi_next.dot(self.theta) - phi.dot(self.theta)
        self.theta = self.theta + self.alpha * rho * delta * phi

    def predict(self, phi: Any) -> Any:
        return phi.dot(self.theta)


class NumpyTDRC(NumpyTD):
    """TDRC in NumPy: corrections h with a ridge of one."""

    def __init__(self, d: int, alpha: float = 0.01) -> None:
        super().__init__(d, alpha)
        self.h = np.zeros(d)

    def update(self, phi: Any, reward: float, phi_next: Any, rho: float, discount: float) -> None:
        delta = reward + discount * phi_next.dot(self.theta) - phi.dot(self.theta)
        correction = self.h.dot(phi)
        change = rho * delta * phi - rho * discount * correction * phi_next
        self.h = self.h + self.alpha * ((rho * delta - correction) * phi - self.h)
        self.theta = self.theta + self.alpha * change


class NumpyImpression(NumpyTD):
    """Impression GTD in NumPy, with index arrays: two buffers, a batch of 32 from each."""

    def __init__(self, d: int, alpha: float = 0.01, m: int = 32, capacity: int = 10_000) -> None:
        super().__init__(d, alpha)
        self.x, self.y = (np.zeros((2, capacity, d)) for _ in range(2))
        self.numbers = np.zeros((2, capacity, 3))
        self.count, self.side, self.m, self.rng = [0, 0], 0, m, np.random.default_rng(0)

    def update(self, phi: Any, reward: float, phi_next: Any, rho: float, discount: float) -> None:
        s = self.side
        k = self.count[s] % self.x.shape[1]
        self.x[s, k], self.y[s, k], self.numbers[s, k] = phi, phi_next, (reward, discount, rho)
        self.count[s] += 1
        if discount == 0:
            self.side = 1 - s
        if min(self.count) > self.m:
            i, j = (self.rng.integers(0, min(n, self.x.shape[1]), self.m) for n in self.count)
            reward2, discount2, rho2 = self.numbers[1, j].T
            delta = reward2 + (discount2[:, None] * self.y[1, j] - self.x[1, j]) @ self.theta
            u = (rho2 * delta) @ self.x[1, j] / self.m
            _, discount1, rho1 = self.numbers[0, i].T
            weight = rho1 * (self.x[0, i] @ u)
            self.theta = self.theta - self.alpha * weight @ (discount1[:, None] * self.y[0, i] - self.x[0, i]) / self.m


NUMPY = {"td": NumpyTD, "tdrc": NumpyTDRC, "impression_gtd": NumpyImpression}
RULES: dict[str, dict[str, Any]] = {
    "td": {"alpha": 0.01},
    "tdrc": {"alpha": 0.01},
    "impression_gtd": {"alpha": 0.01, "batch_size": 32},
    "impression_gtd auto": {"batch_size": 32},
}


def medians(contestants: dict[str, Callable[[int], Any]], steps: dict[str, int], turns: int) -> dict[str, float]:
    """Microseconds of processor time a step of each, which take turns; the first, short one does not count."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        call(500)
    for _ in range(turns):
        for name, call in contestants.items():
            began = time.process_time()
            call(steps[name])
            times[name].append((time.process_time() - began) / steps[name] * 1e6)
    return {name: float(np.median(found)) for name, found in times.items()}


def learner_of(name: str, d: int) -> gradtd.Learner:
    return gradtd.Learner(d, name.split()[0], capacity=10_000, **RULES[name])


def steps(turns: int) -> dict[str, Any]:
    """`update`, and `update` with `predict`, of our learners and of NumPy agents; `learn` on a stored stream."""
    found: dict[str, Any] = {}
    for d in (5, 100, 1000):
        data, short = Data(d), 20_000 if d < 1000 else 4000
        calls: dict[str, Callable[[int], Any]] = {}
        for name in RULES if d < 1000 else ("td", "tdrc"):
            one, two = learner_of(name, d), learner_of(name, d)
            calls[f"{name}: update"] = lambda n, one=one, data=data: data.loop(one.update, n)
            calls[f"{name}: update, predict"] = lambda n, two=two, data=data: data.loop(two.update, n, two.predict)
        for name, agent in NUMPY.items():
            if d < 1000 or name != "impression_gtd":
                plain = agent(d)
                calls[f"{name}: NumPy"] = lambda n, plain=plain, data=data: data.loop(plain.update, n)
        table = medians(calls, dict.fromkeys(calls, short), turns)
        stream = gradtd.Stream.from_arrays(
            features=np.array(data.rows), row=np.tile(np.arange(ROWS), 10),
            next_row=np.tile(np.arange(1, ROWS + 1), 10), reward=data.reward * 10, discount=data.discount * 10,
            rho=data.rho * 10, episode=np.arange(10 * ROWS) // 20,
        )  # fmt: skip
        for name in RULES if d < 1000 else ("td", "tdrc"):
            rule, own = name.split()[0], {"snapshots": [10 * ROWS], **RULES[name]}
            whole = {"": lambda n, rule=rule, own=own, stream=stream: gradtd.learn(stream, rule, **own)}
            table[f"{name}: learn"] = medians(whole, {"": 10 * ROWS}, turns)[""]
        found[f"{d} features"] = table
        for name, took in table.items():
            print(f"d {d:5d}  {name:32s} {took:8.2f} us a step  {1e6 / took:12,.0f} a second", flush=True)
    return found


def sparse(turns: int) -> dict[str, Any]:
    """Rows of 8 indices of a million."""
    rng = np.random.default_rng(1)
    indices = np.sort(rng.integers(0, 10**6, (ROWS + 1, 8)), axis=1)
    data = Data(1)
    data.rows = [indices[i] for i in range(ROWS + 1)]
    calls: dict[str, Callable[[int], Any]] = {}
    for name, more in (("td", {}), ("td lam .9", {"lam": 0.9}), ("tdrc", {}), ("impression_gtd", {})):
        rule = name.split()[0]
        one, two = (gradtd.Learner(10**6, rule, sparse=True, capacity=10_000, **RULES[rule] | more) for _ in range(2))
        calls[f"{name}: update"] = lambda n, one=one: data.loop(one.update, n)
        calls[f"{name}: update, predict"] = lambda n, two=two: data.loop(two.update, n, two.predict)
    found = medians(calls, dict.fromkeys(calls, 10_000), turns)
    for name, took in found.items():
        print(f"8 of 1e6  {name:32s} {took:8.2f} us a step  {1e6 / took:12,.0f} a second", flush=True)
    return found


def horde(turns: int) -> dict[str, Any]:
    """A hundred demons, and one learner."""
    data, found = Data(5), {}
    for name in RULES:
        one = learner_of(name, 5)
        names = [f"demon {i}" for i in range(100)]
        many = gradtd.Horde(5, names, name.split()[0], capacity=10_000, threads=1, **RULES[name])
        calls: dict[str, Callable[[int], Any]] = {
            "learner": lambda n, one=one: data.loop(one.update, n),
            "horde": lambda n, many=many: _whole(data, many, n),
        }
        table = medians(calls, {"learner": 20_000, "horde": 2048}, turns)
        found[name] = table["horde"] / table["learner"]
        print(
            f"100 demons over one learner, {name:20s} {found[name]:6.1f}   ({table['horde']:.1f} us a step)", flush=True
        )
    return found


def _whole(data: Data, many: gradtd.Horde, n: int) -> object:
    data.loop(many.update, n)
    return many.updates  # all steps are learned from


def watching(turns: int) -> dict[str, Any]:
    """What a learner's looks at itself cost: 100 000 steps with and without them, in turns."""
    data, found = Data(5), {}
    for name in ("td", "impression_gtd auto"):
        times: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(turns + 1):
            for kind, took in times.items():
                learner = learner_of(name, 5)
                if kind == "without":
                    learner._queue.pause_at = 2**62
                began = time.process_time()
                data.loop(learner.update, 100_000)
                took.append(time.process_time() - began)
        found[name] = float(np.median(times["with"][1:]) / np.median(times["without"][1:]))
        print(f"looks at itself over none, {name}: {found[name]:.3f}", flush=True)
    return found


def cart_pole(turns: int) -> dict[str, Any]:
    """The loop of a new user: raw observations and a constant, 25 000 steps, defaults. Needs Gymnasium."""

    def leaning(low: float) -> Callable[[Any], Any]:
        def policy(seen: Any) -> Any:
            right = np.where(seen[:, 2] + 0.2 * seen[:, 3] > 0, 1 - low, low)
            return np.stack([1 - right, right], axis=1)

        return policy

    found = {}
    for seed in range(8):
        learner = gradtd.Learner(5, gamma=0.99)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            gradtd.run_online(
                learner, "CartPole-v1", 25_000, behaviour=leaning(0.25), target=leaning(0.05), seed=seed,
                features=lambda seen: np.append(seen, 1.0), every=25_000,
            )  # fmt: skip
        now = learner.standing()
        off = abs((now.start_value or 0) / (now.start_least_squares or 1) - 1)
        found[str(seed)] = {"start": off, "all": now.part, "warned": len(told)}
        said = f"{now.part:.1%} ({now.distance:.1f} standard errors), {'warned' if told else 'no warning'}"
        print(
            f"CartPole, seed {seed}: where episodes start {off:.1%} from least squares, everywhere {said}", flush=True
        )
    return found


def lasting(turns: int) -> dict[str, Any]:
    """Ten million updates of one process: time of every million, and memory."""
    data, found = Data(5), {}
    for name in ("td", "impression_gtd"):
        learner, times, memory = learner_of(name, 5), [], []
        data.loop(learner.update, 200_000)
        for _ in range(10):
            began = time.process_time()
            data.loop(learner.update, 10**6)
            times.append((time.process_time() - began) * 1.0)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        late = float(np.median(times[5:]) / np.median(times[:5]))
        found[name] = {"us_a_step": times, "later_half_over_first": late, "MiB_at_most": memory}
        print(f"{name}: us a step of every million {' '.join(f'{t:.2f}' for t in times)}")
        print(f"{name}: later five over first five {late:.3f}")
        print(f"{name}: most memory after each {' '.join(f'{m:.0f}' for m in memory)} MiB", flush=True)
    return found


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "steps": steps,
    "sparse": sparse,
    "horde": horde,
    "watching": watching,
    "cart_pole": cart_pole,
    "lasting": lasting,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # nobody asks here whether a learner has converged
    for name in given.only:
        print(f"== {name}", flush=True)
        PARTS[name](given.turns)


if __name__ == "__main__":
    main()
