"""What a step costs in a loop of one's own, beside other programs: python benchmarks/learner.py

    python benchmarks/learner.py                     # all of it, some minutes
    python benchmarks/learner.py --only steps horde   # some of it

Contestants take turns, each in the same loop of Python over the same rows. Times are processor time, the median over
turns; what counts are ratios of one run. NumPy agents are written as one would write the equations, an update in three
to five array expressions. The last lines are the goals, each with what was measured.

SwiftTD takes part where `import swift_td` finds it. Its source package needs an older builder:

    pip install scikit-build-core==0.7.1 "pyproject-metadata<0.9" pathspec pybind11 cmake ninja
    pip install --no-build-isolation --no-deps --target build/swift SwiftTD
    PYTHONPATH=build/swift python benchmarks/learner.py
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import gradtd

swift_td: Any = import_module("swift_td") if find_spec("swift_td") else None

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


class Swift:
    """SwiftTD, C++ behind pybind11: a step returns the prediction. Its rows are lists, made beforehand."""

    SETTINGS = (0.9, 0.01, GAMMA, 1e-8, 0.5, 0.999, 1e-3, 1e-8)
    """lambda, alpha, gamma, epsilon, eta, decay, meta step-size, least eta."""

    def __init__(self, kind: str, d: int, rows: list[Any]) -> None:
        self.step, self.rows = getattr(swift_td, kind)(d, *self.SETTINGS).step, [row.tolist() for row in rows]

    def loop(self, data: Data, steps: int) -> None:
        step, rows, reward = self.step, self.rows, data.reward
        for t in range(steps):
            i = t % ROWS
            step(rows[i], reward[i])


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
        if swift_td is not None:
            swift = Swift("SwiftTDNonSparse", d, data.rows)
            calls["SwiftTD: step"] = lambda n, swift=swift, data=data: swift.loop(data, n)
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
    if swift_td is not None:
        swift = Swift("SwiftTDBinaryFeatures", 10**6, data.rows)
        calls["SwiftTD: step"] = lambda n: swift.loop(data, n)
    # The rule alone, on a stream that is stored as a learner stores it: every step with rows of its own.
    turn = np.arange(40)[:, None] * (ROWS + 1)
    row = (turn + np.arange(ROWS)).ravel()
    stream = gradtd.Stream.from_arrays(
        features=_ones_at(np.tile(indices, (40, 1))), row=row, next_row=row + 1, reward=data.reward * 40,
        discount=data.discount * 40, rho=data.rho * 40, episode=np.arange(40 * ROWS) // 20,
    )  # fmt: skip
    own = {"capacity": 10_000, **RULES["impression_gtd"]}
    found = medians(calls, dict.fromkeys(calls, 10_000), turns)
    # The later half, with full buffers: the million weights that `learn` makes and copies are no part of the rule.
    few = {name: {**own, "snapshots": [n]} for name, n in (("whole", 40 * ROWS), ("half", 20 * ROWS))}
    halves = {
        name: lambda n, more=more: gradtd.learn(
            stream.with_steps(stream.steps[: more["snapshots"][0]]), "impression_gtd", **more
        )
        for name, more in few.items()
    }
    both = medians(halves, dict.fromkeys(halves, 1), turns)
    found["impression_gtd: learn"] = (both["whole"] - both["half"]) / (20 * ROWS)
    for name, took in found.items():
        print(f"8 of 1e6  {name:32s} {took:8.2f} us a step  {1e6 / took:12,.0f} a second", flush=True)
    print(f"8 of 1e6  impression_gtd: update is allowed {_allowed(found):.2f} us a step", flush=True)
    return found


def _allowed(found: dict[str, float]) -> float:
    """What a sparse update of Impression GTD may take: 1.5 times its rule's own time and two microseconds, or more."""
    return max(1e6 / 150_000, 1.5 * found["impression_gtd: learn"] + 2)


def _ones_at(indices: Any) -> Any:
    """Sparse rows that are one at these indices."""
    from scipy.sparse import csr_array

    begin = np.arange(len(indices) + 1) * indices.shape[1]
    return csr_array((np.ones(indices.size), indices.ravel(), begin), shape=(len(indices), 10**6))


def horde(turns: int) -> dict[str, Any]:
    """A hundred demons with ratios of their own, and one learner."""
    data, found = Data(5), {}
    own = Data(5)
    own.rho = list(2 * np.random.default_rng(2).random((ROWS, 100)))  # type: ignore[assignment]
    for name in RULES:
        one = learner_of(name, 5)
        names = [f"demon {i}" for i in range(100)]
        many = gradtd.Horde(5, names, name.split()[0], capacity=10_000, threads=1, **RULES[name])
        calls: dict[str, Callable[[int], Any]] = {
            "learner": lambda n, one=one: data.loop(one.update, n),
            "horde": lambda n, many=many: _whole(own, many, n),
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
    for seed in range(500, 512):
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


def kernels(turns: int) -> dict[str, Any]:
    """Rules over C, and two threads over one: `benchmarks/bench.py`, once."""
    from bench import against_c_and_numpy, two_threads

    found: dict[str, Any] = {name: row["over_c"] for name, row in against_c_and_numpy().items() if "over_c" in row}
    found["two threads"] = max(two_threads().values())
    for name, value in found.items():
        print(f"{name}: {value:.2f}", flush=True)
    return found


def goals(found: dict[str, dict[str, Any]]) -> list[tuple[str, float, str, bool]]:
    """What was asked for, what was measured, and whether it is met."""
    told: list[tuple[str, float, str, bool]] = []

    def most(what: str, value: float, goal: float) -> None:
        told.append((what, value, f"at most {goal:g}", value <= goal))

    def least(what: str, value: float, goal: float) -> None:
        told.append((what, value, f"at least {goal:,g}" if goal < 1000 else f"at least {goal:,.0f}", value >= goal))

    if "kernels" in found:
        for name, goal in (("td", 1.3), ("tdrc", 1.3), ("impression_gtd", 1.1)):
            most(f"kernel over C, {name}", found["kernels"][name], goal)
        least("two threads over one", found["kernels"]["two threads"], 1.8)
    if "steps" in found:
        five, wide = found["steps"]["5 features"], found["steps"]["1000 features"]
        for name, goal in (("td", 300_000), ("tdrc", 300_000), ("impression_gtd", 150_000)):
            least(f"updates a second, 5 features, {name}", 1e6 / five[f"{name}: update"], goal)
            least(f"updates and predictions a second, {name}", 1e6 / five[f"{name}: update, predict"], 200_000)
        for name in ("td", "tdrc"):
            least(f"over NumPy agents, 1000 features, {name}", wide[f"{name}: NumPy"] / wide[f"{name}: update"], 0.5)
    if "sparse" in found:
        for name in ("td", "td lam .9", "tdrc"):
            least(f"updates a second, 8 indices of 1e6, {name}", 1e6 / found["sparse"][f"{name}: update"], 150_000)
        took, rule = (found["sparse"][f"impression_gtd: {way}"] for way in ("update", "learn"))
        allowed = round(_allowed(found["sparse"]), 2)
        most(f"us a step, 8 indices of 1e6, impression_gtd (its rule alone {rule:.2f})", took, allowed)
    for name, value in found.get("horde", {}).items():
        most(f"100 demons over one learner, {name}", value, 20)
    for name, value in found.get("watching", {}).items():
        most(f"looks at itself over none, {name}", value, 1.05)
    for name, row in found.get("lasting", {}).items():
        most(f"ten million updates, later half over first, {name}", row["later_half_over_first"], 1.1)
    if "cart_pole" in found:
        silent = sum(row["all"] > 0.1 and not row["warned"] for row in found["cart_pole"].values())
        most(f"CartPole, seeds above 10 % that were not warned, of {len(found['cart_pole'])}", silent, 0)
    return told


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "kernels": kernels,
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
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # nobody asks here whether a learner has converged
    found = {}
    for name in given.only:
        began = time.perf_counter()
        print(f"== {name}", flush=True)
        found[name] = PARTS[name](given.turns)
        print(f"   ({time.perf_counter() - began:.0f} s)", flush=True)
    print("== goals" + ("" if swift_td is not None else " (SwiftTD is not installed)"))
    for what, value, goal, met in goals(found):
        print(f"{'met   ' if met else 'MISSED'}  {what}: {value:,.4g} ({goal})")


if __name__ == "__main__":
    main()
