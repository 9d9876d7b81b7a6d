"""How often are careless tables noticed, and how often are sound ones?

    python benchmarks/careless.py --logs 200

Sound tables are of random worlds: real and discrete observations, two to five actions, whole and cut episodes, bandits.
Each fault is put into every third of them. A table counts as noticed if reading warns of it or refuses it, or if the
evaluation is not usable for its probabilities.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.logs.calibration import with_doubt
from gradtd.logs.given_policies import read_beside
from gradtd.logs.ratios import ratios

sys.path.insert(0, str(Path(__file__).parent))

import trust_faults
from trust_cases.fresh import Point
from trust_cases.systems import System

SEED = 26_000_000
Table = dict[str, Any]


def real(rng: np.random.Generator, kind: type[System]) -> Table:
    """A system with real observations, with all that a careful person records."""
    system = kind(rng)
    parts = [
        {"episode": e, "t": np.full(len(e), t), "s": s, "action": a, "reward": r, "terminated": over, "law": law}
        for t, e, s, a, r, _, over, law in system.run("behaviour", round(np.exp(rng.uniform(3.4, 6.2))), rng, 60)
    ]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((table["t"], table["episode"]))
    table = {name: values[order] for name, values in table.items()}
    seen = table.pop("s")
    table |= {f"obs_{k}": column for k, column in enumerate(seen.T)}
    return with_policies(table, table.pop("law"), system.policy(seen, "target"))


def discrete(rng: np.random.Generator, horizon: int) -> Table:
    """A finite world; ``horizon`` 1 makes a bandit."""
    S, A = int(rng.integers(3, 40)), int(rng.integers(2, 6))
    P = rng.dirichlet(np.full(S, 0.3), (S, A))
    mean, noise, end = rng.standard_normal((S, A)), float(rng.choice([0.0, 0.5, 1.0])), float(rng.uniform(0.02, 0.2))
    greedy = np.eye(A)[rng.integers(0, A, S)]
    law = rng.dirichlet(np.ones(A), S) if rng.random() < 0.5 else 0.8 * greedy + 0.2 / A
    law, target = 0.95 * law + 0.05 / A, rng.dirichlet(np.ones(A), S)
    rows: list[tuple[Any, ...]] = []
    for e in range(round(np.exp(rng.uniform(3.4, 6.2))) * (1 if horizon > 1 else 4)):
        s = int(rng.integers(0, S))
        for t in range(horizon):
            a = int(rng.choice(A, p=law[s]))
            over = t + 1 == horizon == 1 or bool(rng.random() < end)
            rows.append((e, t, s, a, mean[s, a] + noise * rng.standard_normal(), over))
            if over:
                break
            s = int(rng.choice(S, p=P[s, a]))
    names = ("episode", "t", "obs_0", "action", "reward", "terminated")
    table = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return with_policies(table, law[table["obs_0"]], target[table["obs_0"]])


def with_policies(table: Table, law: Any, target: Any) -> Table:
    at, action = np.arange(len(law)), table["action"]
    return table | {"behaviour_prob": law[at, action], "target_prob": target[at, action]}


def sound(count: int) -> Iterator[Table]:
    """Tables of four families in turn; nothing is wrong with them."""
    for k in range(count):
        rng = np.random.default_rng([SEED, k])
        yield (real(rng, System), real(rng, Point), discrete(rng, 40), discrete(rng, 1))[k % 4]


def of_logs(count: int) -> Iterator[Table]:
    """The sound logs of `trust_faults`, as their steps; they have ratios and no probabilities."""
    for case in trust_faults.sound(count):
        yield {str(name): column.to_numpy() for name, column in case.log.to_frame().items()}


def noticed(table: Table) -> str:
    """The first words of what is said against a table; nothing where nothing is."""
    try:
        log, policies = read_beside(table, {"target": None})
        found = with_doubt(log, ratios(log, policies["target"]), by_row=True)
    except InputError as error:
        return f"refused: {error}"[:70]
    said = [*log.understood.warnings, *([found.doubt] if found.doubt else [])]
    return said[0][:70] if said else ""


def columns(table: Table, *names: str, change: Callable[[Any], Any]) -> Table:
    return table | {name: change(table[name]) for name in names}


def observed(table: Table) -> list[str]:
    return [name for name in table if name.startswith("obs")]


def running(table: Table) -> Table:
    first = np.flatnonzero(table["t"] == 0)
    total = np.cumsum(table["reward"])
    before = np.repeat(total[first] - table["reward"][first], np.diff(np.r_[first, len(total)]))
    return table | {"reward": total - before}


def whole(table: Table) -> Table:
    first = np.flatnonzero(table["t"] == 0)
    total = np.add.reduceat(table["reward"], first)
    return table | {"reward": np.repeat(total, np.diff(np.r_[first, len(table["t"])]))}


def later(table: Table) -> Table:
    """The first three rows of every other episode are gone."""
    kept = (table["t"] >= 3) | (table["episode"] % 2 == 0)
    return {name: values[kept] for name, values in table.items()}


def joined(table: Table) -> Table:
    """Rows of a join with a table that has two rows for some keys."""
    times = np.where((table["action"] == 0) & ~table["terminated"], 2, 1)
    return {name: np.repeat(values, times, axis=0) for name, values in table.items() if name != "t"}


def copied(name: str) -> Callable[[Table], Table]:
    return lambda table: columns(table, change=float) | {f"obs_{len(observed(table))}": table[name] * 1.0}


def ahead(table: Table) -> Table:
    """The next observation in place of the observation."""
    last = np.r_[table["episode"][1:] != table["episode"][:-1], True]
    moved = {name: np.where(last, table[name], np.roll(table[name], -1)) for name in observed(table)}
    return table | moved


def differs(one: Table, other: Table) -> bool:
    """Whether a fault did anything to a table."""
    return bool(set(one) - set(other)) or any(not np.array_equal(one[k], other[k]) for k in set(one) & set(other))


BOTH = ("behaviour_prob", "target_prob")
MIXED = np.random.default_rng(SEED)
FAULTS: dict[str, Callable[[Table], Table]] = {
    "both probability columns shifted by a row": lambda t: columns(t, *BOTH, change=lambda x: np.roll(x, 1)),
    "both probability columns shuffled alike": lambda t: columns(
        t, *BOTH, change=lambda x: x[np.random.default_rng(1).permutation(len(x))]
    ),
    "the target's probabilities shuffled": lambda t: columns(t, "target_prob", change=MIXED.permutation),
    "the target's probabilities shifted by a row": lambda t: columns(t, "target_prob", change=lambda x: np.roll(x, 1)),
    "the next observation as observation": ahead,
    "the reward among the observations": copied("reward"),
    "the action among the observations": copied("action"),
    "rows doubled by a join, no t": joined,
    "t begins above 0 in some episodes": later,
    "running totals as reward": running,
    "totals of the episode as reward": whole,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    tables = list(sound(parser.parse_args().logs))
    for what, some in (("sound tables", tables), ("sound logs of trust_faults", of_logs(len(tables)))):
        said = [noticed(table) for table in some]
        print(
            f"{len(said)} {what}: {len(list(filter(None, said)))} noticed {dict(Counter(filter(None, said)))}",
            flush=True,
        )
    for name, broken in FAULTS.items():
        changed = [made for table in tables[::3] if differs(made := broken(table), table)]
        words = Counter(filter(None, map(noticed, changed)))
        print(f"{name}: {words.total()} of {len(changed)} noticed  {words.most_common(2)}", flush=True)


if __name__ == "__main__":
    main()
