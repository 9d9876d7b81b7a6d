"""Questions about logs in memory: one evaluation each, of every kind that the documentation names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

import gradtd
from golden_cases import logs
from golden_cases.logs import Table


@dataclass(frozen=True, eq=False)
class Question:
    """A log, what is asked of it, and a name that stays the same from tree to tree."""

    name: str
    log: Callable[[], Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    compared: bool = False
    """Whether the targets are compared with each other, too."""


@cache
def _made(name: str) -> Table:
    worlds: dict[str, Callable[[], Table]] = {
        "walk": lambda: logs.play(logs.walk(), 300, 1),
        "short walk": lambda: logs.play(logs.walk(5), 60, 2),
        "few episodes": lambda: logs.play(logs.walk(5), 12, 3),
        "wide walk": lambda: logs.play(logs.walk(25, 0.53, horizon=60), 250, 4),
        "cut walk": lambda: logs.play(logs.walk(9, horizon=12), 300, 5),
        "far walk": lambda: logs.play(logs.walk(9, 0.97), 200, 6),
        "noisy walk": lambda: logs.play(logs.walk(7, noise=1.0), 400, 7),
        "clock walk": lambda: logs.play(logs.walk(9, clock=0.1), 300, 8),
        "maze": lambda: logs.play(logs.maze(), 400, 9),
        "wide maze": lambda: logs.play(logs.maze(150, 4, seed=2), 600, 10),
        "small maze": lambda: logs.play(logs.maze(12, 3, seed=3), 300, 11),
        "ring": lambda: logs.play(logs.ring(), 500, 12),
        "long ring": lambda: logs.play(logs.ring(2000), 700, 13),
        "small ring": lambda: logs.play(logs.ring(40), 300, 14),
        "clinic": lambda: logs.play(logs.clinic(), 700, 15),
        "large clinic": lambda: logs.play(logs.clinic(700, 12), 900, 16),
        "taxi": lambda: logs.play(logs.maze(500, 6, 3, seed=5), 500, 17),
        "plane": lambda: logs.plane(300, 2),
        "line": lambda: logs.plane(250, 1, seed=1),
        "space": lambda: logs.plane(300, 4, seed=2),
        "ten columns": lambda: logs.plane(300, 10, seed=3),
        "small plane": lambda: logs.plane(40, 2, seed=4),
        "hidden plane": lambda: logs.plane(300, 2, seed=5, hidden=True),
        "cut plane": lambda: logs.plane(250, 2, seed=6, horizon=8, ends=0.01),
        "endless plane": lambda: logs.plane(120, 2, seed=7, horizon=40, ends=0.0),
        "pendulum": lambda: logs.pendulum(150),
        "bandit": lambda: logs.bandit(),
        "many items": lambda: logs.bandit(2500, 3, 30, seed=1),
        "long": lambda: logs.long_episode(),
    }
    return worlds[name]()


def table(name: str, *, without: tuple[str, ...] = (), **changed: Any) -> Table:
    """A log by its name, without some columns, with others in their place."""
    made = {column: values for column, values in _made(name).items() if column not in without}
    return made | changed


def by_ratio(name: str) -> Table:
    """A log that holds ratios and no probabilities."""
    made = table(name)
    rho = made.pop("target_prob") / made.pop("action_prob")
    return made | {"rho": rho}


def ask(name: str, log: str, gamma: float, compared: bool = False, **settings: Any) -> Question:
    return Question(name, lambda: table(log), {"gamma": gamma} | settings, compared)


def memory_questions() -> Iterator[Question]:
    """All of them, in one order."""
    for group in (_states, _real, _named_features, _methods, _actions, _traces, _intervals, _targets, _odd, _forms):
        yield from group()


def _states() -> Iterator[Question]:
    discounts = {"walk": 1.0, "noisy walk": 1.0, "far walk": 1.0, "clock walk": 1.0, "clinic": 1.0, "large clinic": 1.0}
    names = ("walk", "short walk", "few episodes", "wide walk", "cut walk", "far walk", "noisy walk", "clock walk")
    names += ("maze", "wide maze", "small maze", "ring", "long ring", "small ring", "clinic", "large clinic", "taxi")
    for name in names:
        yield ask(f"states {name}", name, discounts.get(name, 0.95))
    for name in ("walk", "ring", "clinic"):
        yield Question(f"states {name} by ratio", lambda n=name: by_ratio(n), {"gamma": 0.97})
        yield ask(f"states {name} one-hot", name, 0.9, features="one-hot")
        yield ask(f"states {name} aggregation", name, 0.9, features="aggregation:bins=10")
        yield ask(f"states {name} grouped", name, 0.9, features="grouped:n=20")
        yield ask(f"states {name} not whitened", name, 0.9, whiten=False)
    yield ask("states walk undiscounted, cut", "cut walk", 1.0)
    yield ask("states maze gamma 0", "maze", 0.0)
    yield ask("states taxi aggregation", "taxi", 0.95, features="aggregation:bins=50")


def _real() -> Iterator[Question]:
    names = ("plane", "line", "space", "ten columns", "small plane", "hidden plane", "cut plane", "endless plane")
    for name in names:
        yield ask(f"real {name}", name, 0.95)
    for name in ("plane", "space"):
        yield ask(f"real {name} auto", name, 0.9, features="auto")
        yield ask(f"real {name} not whitened", name, 0.9, whiten=False)
        yield Question(f"real {name} by ratio", lambda n=name: by_ratio(n), {"gamma": 0.9})
    yield Question("real plane float32", lambda: _narrow("plane"), {"gamma": 0.9})
    yield Question("real plane with next observations", lambda: with_next("plane"), {"gamma": 0.9})


def _narrow(name: str) -> Table:
    made = table(name)
    return {column: v.astype(np.float32) if column.startswith("obs") else v for column, v in made.items()}


def with_next(name: str) -> Table:
    """The same log with columns of next observations, those of truncated last rows among them."""
    made = table(name)
    last = np.append(made["episode"][1:] != made["episode"][:-1], True)
    for column in [column for column in made if column.startswith("obs")]:
        after = np.append(made[column][1:], 0)
        made[f"next_{column}"] = np.where(last, made[column], after)
    return made


def hinge(x: Any) -> np.ndarray:
    """Features by a function."""
    x = np.asarray(x, float).reshape(len(x), -1)
    return np.hstack([np.ones((len(x), 1)), x, np.maximum(x, 0)])


def boxes(x: Any) -> Any:
    """Sparse features by a function: boxes along the first observation, beside a constant."""
    x = np.asarray(x, float).reshape(len(x), -1)
    box = np.clip(((x[:, 0] + 3) * 15).astype(int), 0, 89)
    rows = np.arange(len(x))
    return scipy.sparse.csr_array((np.ones(len(x)), (rows, box)), shape=(len(x), 90))


def _named_features() -> Iterator[Question]:
    maps = ("fourier:order=3", "tiles:tilings=4,tiles=4", "tiles:hashing=256", "polynomial:order=2", "identity")
    maps += ("rbf:n=20,width=1", "aggregation:bins=6", "cosines")
    for spec in maps:
        yield ask(f"features plane {spec}", "plane", 0.9, features=spec)
    yield ask("features space polynomial", "space", 0.9, features="polynomial:order=2")
    yield ask("features line tiles", "line", 0.9, features="tiles:tilings=8,tiles=8")
    yield ask("features line tiles lstd", "line", 0.9, features="tiles:tilings=8,tiles=8", algorithm="lstd")
    yield ask("features plane function", "plane", 0.9, features=hinge)
    yield ask("features plane sparse function", "plane", 0.9, features=boxes)
    yield ask("features plane sparse function lstd", "plane", 0.9, features=boxes, algorithm="lstd")
    yield ask("features walk fourier", "walk", 1.0, features="fourier:order=3")
    yield ask("features walk polynomial", "wide walk", 0.95, features="polynomial:order=2")
    yield ask("features walk tiles", "wide walk", 0.95, features="tiles:tilings=2,tiles=4")
    yield ask("features ring fourier", "ring", 0.9, features="fourier:order=7")
    yield ask("features plane many tiles", "plane", 0.9, features="tiles:tilings=16,tiles=10")


def _methods() -> Iterator[Question]:
    rules: dict[str, dict[str, Any]] = {
        "lstd": {},
        "impression_gtd": {},
        "tdrc": {"alpha": 0.05},
        "td": {"alpha": 0.05},
        "expected_gtd": {"alpha": 0.5},
        "etd": {"alpha": 0.01},
        "krylov_gtd": {},
        "is": {},
        "wis": {},
        "pdis": {},
        "wpdis": {},
        "dr": {},
        "wdr": {},
        "drl": {},
        "monte_carlo": {},
    }
    for name, hyper in rules.items():
        yield ask(f"method {name} walk", "walk", 1.0, algorithm=name, **hyper)
        yield ask(f"method {name} plane", "plane", 0.9, features="fourier:order=2", algorithm=name, **hyper)
    yield ask("method monte_carlo own", "walk", 1.0, algorithm="monte_carlo", target="behaviour")
    yield ask("method krylov_gtd tiles", "plane", 0.9, algorithm="krylov_gtd", features="tiles:tilings=4,tiles=4")
    yield ask("method impression_gtd updates", "walk", 1.0, algorithm="impression_gtd", alpha=0.2, updates=2000)
    yield ask("method lstd ring", "ring", 0.95, algorithm="lstd")
    yield ask("method lstd clinic", "clinic", 1.0, algorithm="lstd", resamples=30)
    yield ask("method dr ring", "ring", 0.95, algorithm="dr")
    yield ask("method vtrace", "walk", 1.0, algorithm="vtrace", alpha=0.02, resamples=20)
    yield ask("method own refits", "short walk", 1.0, algorithm="impression_gtd", own_refits=True, resamples=20)
    yield ask("method tdrc refits", "short walk", 1.0, algorithm="tdrc", alpha=0.05, resamples=20)


def _actions() -> Iterator[Question]:
    of: dict[str, Any] = {"values": "action"}
    maze = logs.maze(12, 3, seed=3)
    wide = logs.maze()
    yield ask("actions small maze", "small maze", 0.9, target=maze.target, **of)
    yield ask("actions small maze lstd", "small maze", 0.9, target=maze.target, algorithm="lstd", **of)
    yield ask("actions small maze impression", "small maze", 0.9, target=maze.target, algorithm="impression_gtd", **of)
    yield ask("actions maze", "maze", 0.9, target=wide.target, **of)
    yield ask("actions maze function", "maze", 0.9, target=logs.thirds, **of)
    yield ask("actions maze uniform", "maze", 0.9, target="uniform", **of)
    yield ask("actions ring", "ring", 0.9, target=logs.thirds, **of)
    yield ask("actions clinic", "clinic", 1.0, target=logs.clinic().target, **of)
    yield ask("actions clinic fourier", "clinic", 1.0, target=logs.clinic().target, features="fourier:order=3", **of)
    for lam, kind in ((0.4, "tree"), (0.8, "tree"), (0.8, "clipped"), (0.8, "rho")):
        yield ask(f"actions traces {lam} {kind}", "small maze", 0.9, target=maze.target, lam=lam, trace=kind, **of)
    yield ask("actions plane", "plane", 0.9, target=logs.leaning, **of)
    yield ask("actions plane always", "plane", 0.9, target=logs.always_up, **of)
    yield ask("actions plane fourier", "plane", 0.9, target=logs.leaning, features="fourier:order=2", **of)
    yield ask("actions plane traces", "plane", 0.9, target=logs.leaning, lam=0.6, trace="tree", **of)
    yield ask("actions pendulum", "pendulum", 0.9, target=logs.steering, **of)
    yield ask("actions pendulum sampled", "pendulum", 0.9, target=logs.sampled, samples=5, **of)
    map_of = {"action_features": "polynomial:order=3"}
    yield ask("actions pendulum cubic", "pendulum", 0.9, target=logs.steering, features="identity", **map_of, **of)
    yield ask("actions pendulum function", "pendulum", 0.9, target=logs.steering, action_features=pairs, **of)
    yield ask("actions bandit", "bandit", 0.0, target="uniform", one_step=True, columns=BANDIT, **of)
    yield ask("real actions densities", "pendulum", 0.9)
    yield ask("real actions density function", "pendulum", 0.9, target=logs.density)


def pairs(observations: Any, actions: Any) -> np.ndarray:
    """Features of observations and actions by one function."""
    x, a = np.asarray(observations, float), np.asarray(actions, float).reshape(-1, 1)
    return np.hstack([np.ones((len(x), 1)), x, a, a * x, a**2, x**2])


def _traces() -> Iterator[Question]:
    for lam, kind in ((0.4, "rho"), (0.8, "rho"), (0.8, "clipped"), (0.4, "tree"), (1.0, "rho")):
        given: dict[str, Any] = {"lam": lam, "trace": kind}
        yield ask(f"traces walk {lam} {kind}", "walk", 1.0, **given)
        yield ask(f"traces plane {lam} {kind}", "plane", 0.9, features="fourier:order=2", **given)
    yield ask("traces ring", "ring", 0.9, lam=0.6)
    yield ask("traces plane auto", "plane", 0.9, lam=0.6)
    yield ask("traces clinic", "clinic", 1.0, lam=0.5, trace="clipped")
    yield ask("traces lstd", "walk", 1.0, lam=0.6, algorithm="lstd")
    yield ask("traces impression", "walk", 1.0, lam=0.6, algorithm="impression_gtd")
    yield ask("traces tdrc", "walk", 1.0, lam=0.4, algorithm="tdrc", alpha=0.02)
    yield ask("traces residual", "walk", 1.0, lam=0.4, algorithm="residual_gradient", alpha=0.02)
    yield ask("traces blocks", "long", 0.9, lam=0.5, block=50)


def _intervals() -> Iterator[Question]:
    yield ask("interval level .8", "walk", 1.0, level=0.8)
    yield ask("interval level .8 plane", "plane", 0.9, level=0.8)
    yield ask("interval resamples", "walk", 1.0, algorithm="lstd", resamples=60)
    yield ask("interval none", "walk", 1.0, algorithm="lstd", resamples=0)
    yield ask("interval percentile", "walk", 1.0, algorithm="lstd", resamples=200, interval="percentile")
    yield ask("interval percentile auto", "plane", 0.9, resamples=200, interval="percentile")
    yield ask("interval few percentiles", "walk", 1.0, resamples=50, interval="percentile")
    yield ask("interval other seed", "plane", 0.9, seed=7)
    for block in (20, 100):
        yield ask(f"blocks {block}", "long", 0.9, block=block)
    yield ask("blocks none", "long", 0.9)
    yield ask("blocks lstd", "long", 0.9, block=40, algorithm="lstd")
    yield ask("blocks of episodes", "walk", 0.9, block=30)


def _targets() -> Iterator[Question]:
    maze = logs.maze()
    three = {"new": maze.target, "old": "behaviour", "even": "uniform"}
    yield ask("targets maze", "maze", 0.9, compared=True, target=three)
    yield ask("targets maze lstd", "maze", 0.9, compared=True, target=three, algorithm="lstd")
    two = {"lean": logs.leaning, "up": logs.always_up, "old": "behaviour"}
    yield ask("targets plane", "plane", 0.9, compared=True, target=two)
    yield ask("targets actions", "maze", 0.9, compared=True, target=three, values="action")
    yield ask("targets dr", "walk", 1.0, compared=True, target={"column": "target_prob", "old": "behaviour"})
    yield ask("target estimate states", "maze", 0.9, target=maze.target, behaviour="estimate")
    yield ask("target estimate real", "plane", 0.9, target=logs.leaning, behaviour="estimate")
    yield ask("target own", "walk", 1.0, target="behaviour")
    yield ask("target clip", "far walk", 1.0, clip=1.5)
    yield ask("target clip plane", "plane", 0.9, clip=1.2)
    yield ask("target array", "maze", 0.9, target=_made("maze")["target_prob"])
    yield ask("target function", "plane", 0.9, target=logs.leaning)
    yield ask("target empty", "walk", 1.0, target={})


BANDIT = {"observation": "position", "action": "item", "reward": "click"}


def _odd() -> Iterator[Question]:
    """Logs with damage, and logs whose rows tell little."""
    first = _made("walk")
    n = len(first["reward"])
    rng = np.random.default_rng(3)
    shuffled = rng.permutation(n)
    lost = np.where(np.arange(n) == 40, np.nan, first["reward"])
    huge = np.where(np.arange(n) == 40, 1e6, first["reward"])
    changed: dict[str, dict[str, Any]] = {
        "wrong ratios": {"target_prob": np.minimum(1, 1.4 * first["target_prob"])},
        "zero ratios": {"target_prob": np.zeros(n)},
        "missing reward": {"reward": lost},
        "huge reward": {"reward": huge},
        "constant reward": {"reward": np.ones(n)},
        "no reward": {"reward": np.zeros(n)},
        "text actions": {"action": np.where(first["action"] == 1, "right", "left")},
        "probability above one": {"action_prob": np.full(n, 1.2)},
        "ratios that disagree": {"rho": np.full(n, 2.0)},
        "ends never marked": {"terminated": np.zeros(n, bool), "truncated": np.zeros(n, bool)},
        "text states": {"obs": first["obs"].astype(str)},
        "episodes by name": {"episode": np.char.add("e", first["episode"].astype(str))},
        "gaps in time": {"t": first["t"] + (first["t"] > 3)},
        "negative states": {"obs": first["obs"] - 4},
    }
    for name, columns in changed.items():
        yield Question(f"odd {name}", lambda c=columns: table("walk", **c), {"gamma": 0.98})
    yield Question("odd shuffled", lambda: {k: v[shuffled] for k, v in table("walk").items()}, {"gamma": 0.98})
    twice = np.append(np.arange(n), 5)
    yield Question("odd duplicates", lambda: {k: v[twice] for k, v in table("walk").items()}, {"gamma": 0.98})
    drop = {"gamma": 0.98, "duplicates": "drop"}
    yield Question("odd duplicates dropped", lambda: {k: v[twice] for k, v in table("walk").items()}, drop)
    for column in ("terminated", "truncated", "episode", "t", "action", "action_prob", "reward", "obs"):
        yield Question(f"odd without {column}", lambda c=column: table("walk", without=(c,)), {"gamma": 0.98})
    yield Question("odd no order", lambda: table("walk", without=("episode", "t")), {"gamma": 0.98})
    yield Question("odd foreign next", lambda: foreign("plane"), {"gamma": 0.9})
    yield Question(
        "odd constant column", lambda: table("plane", obs_2=np.ones(len(_made("plane")["t"]))), {"gamma": 0.9}
    )
    missing = np.where(np.arange(len(_made("plane")["t"])) % 50 == 7, np.nan, _made("plane")["obs_0"])
    yield Question("odd missing observation", lambda: table("plane", obs_0=missing), {"gamma": 0.9})
    yield ask("odd endless undiscounted", "endless plane", 1.0)
    yield ask("odd unknown features", "plane", 0.9, features="wavelets")
    yield ask("odd unknown algorithm", "walk", 0.9, algorithm="tdq")
    yield ask("odd gamma", "walk", 1.5)


def foreign(name: str) -> Table:
    """Next observations that belong to other rows."""
    made = with_next(name)
    order = np.random.default_rng(9).permutation(len(made["t"]))
    return {k: v[order] if k.startswith("next_") else v for k, v in made.items()}


def _forms() -> Iterator[Question]:
    """Bandits, frames, problems of the library, and Gymnasium."""
    log = {"gamma": 0.0, "columns": BANDIT}
    yield Question("bandit", lambda: table("bandit"), log | {"target": "uniform", "one_step": True})
    yield Question("bandit not said", lambda: table("bandit"), log | {"target": "uniform", "gamma": 0.5})
    yield Question("bandit many items", lambda: table("many items"), log | {"target": "uniform", "one_step": True})
    for name in ("random_walk_tabular", "random_walk_dependent", "boyan_chain", "garnet"):
        yield Question(f"problem {name}", lambda p=name: gradtd.sample_log(p, 200, seed=1), {"gamma": 0.95})
    yield Question("frame pandas", _frame, {"gamma": 0.98})
    yield Question("gymnasium lake", _lake, {"gamma": 0.95})
    yield Question("gymnasium cartpole", _cartpole, {"gamma": 0.95, "features": "polynomial:order=2"})


def _frame() -> Any:
    import pandas

    return pandas.DataFrame(table("walk"))


def _lake() -> Any:
    return gradtd.collect("FrozenLake-v1", "uniform", 150, target=np.tile([0.1, 0.4, 0.4, 0.1], (16, 1)), seed=1)


def _upright(observations: Any) -> np.ndarray:
    x = np.asarray(observations, float)
    right = np.where(x[:, 2] + 0.3 * x[:, 3] > 0, 0.8, 0.2)
    return np.column_stack((1 - right, right))


def _cartpole() -> Any:
    return gradtd.collect("CartPole-v1", "uniform", 80, target=_upright, seed=2)
