"""Logs: good ones as Parquet, CSV or arrays, damaged as bytes or as tables; what can be read is evaluated."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import gradtd

ODD = (0, 1, -1, 0.5, 7, 1e300, -1e300, 1e-300, np.nan, np.inf, -np.inf, 2**53, 2.0**63)
EVALUATED = 4
"""One log in so many is evaluated, the others are only read."""


def prepare(folder):
    """Nothing to do."""


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    made = table(rng)
    for _ in range(int(rng.integers(0, 4))):
        made = spoiled(rng, made)
    source = _written(rng, made, folder)
    log = gradtd.read_log(source)
    if number % EVALUATED:
        return
    gamma = float(rng.choice([0.0, 0.9, 1.0]))
    features = [None, "one-hot", "identity", "tiles:tilings=2,tiles=3"][int(rng.integers(4))]
    target = None if log.rho is not None or log.target is not None else "behaviour"
    found = gradtd.evaluate(log, gamma=gamma, features=features, target=target, machine=gradtd.Machine(threads=1))
    longest = int(np.bincount(log.episode).max())
    bound = np.abs(log.reward).max() * (longest if gamma == 1 else min(longest, 1 / (1 - gamma)))
    if found.verdict == "usable" and not log.truncated.any() and log.ends_known:
        assert abs(found.value) <= bound * (1 + 1e-6) + 1e-12, f"{found.value} beyond {bound} is called usable"


def table(rng):
    lengths = rng.integers(1, 8, int(rng.integers(2, 25)))
    n = int(lengths.sum())
    ends = np.zeros(n, bool)
    ends[np.cumsum(lengths) - 1] = True
    table = {
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "t": np.concatenate([np.arange(k) for k in lengths]),
        "reward": rng.standard_normal(n),
        "terminated": ends,
        "action": rng.integers(0, 3, n),
        "behaviour_probability": np.full(n, 0.5),
        "target_probability": rng.choice([0.25, 0.5, 0.75], n),
    }
    if rng.random() < 0.5:
        return table | {"observation": rng.integers(0, 4, n)}
    return table | {"observation_0": rng.standard_normal(n), "observation_1": rng.standard_normal(n)}


def spoiled(rng, table):
    name = list(table)[int(rng.integers(len(table)))]
    values, kind = np.asarray(table[name]), rng.random()
    if kind < 0.08:
        return {key: value for key, value in table.items() if key != name}
    if kind < 0.16:
        other = list(table)[int(rng.integers(len(table)))]
        return table | {name: table[other]}
    if kind < 0.22:
        order = rng.permutation(len(values))
        return {key: np.asarray(value)[order] for key, value in table.items()}
    if kind < 0.28:
        return table | {name: np.array([str(value) for value in values])}
    if kind < 0.34:
        return {str(rng.choice(["obs", "next_obs", "done", "rho", "x", "\u00e9", ""])) if key == name else key: value
                for key, value in table.items()}  # fmt: skip
    if kind < 0.4:
        few = int(rng.integers(0, 3))
        return {key: np.asarray(value)[:few] for key, value in table.items()}
    if values.dtype.kind in "biuf" and len(values):
        spoiled = values.astype(np.float64)
        spoiled[rng.random(len(values)) < rng.choice([0.05, 0.5, 1.0])] = ODD[int(rng.integers(len(ODD)))]
        return table | {name: spoiled}
    return table


def _written(rng, table, folder):
    """The table in one of the forms that are read, with its bytes damaged now and then."""
    kind = rng.random()
    if kind < 0.4:
        return table
    made = pa.table({name: pa.array(values) for name, values in table.items()})
    path = folder / ("log.parquet" if kind < 0.8 else "log.csv")
    if kind < 0.8:
        pq.write_table(
            made, path, compression=str(rng.choice(["none", "snappy", "zstd"])), write_page_checksum=kind < 0.5
        )
    else:
        pyarrow.csv.write_csv(made, path)
    if rng.random() < 0.6:
        path.write_bytes(damage(rng, bytearray(path.read_bytes())))
    return path


def damage(rng, damaged):
    """Some bits or bytes changed, the end cut off now and then."""
    for _ in range(int(rng.integers(1, 4))):
        place, length = int(rng.integers(len(damaged))), int(rng.integers(1, 9))
        if rng.random() < 0.7:
            damaged[place] ^= 1 << int(rng.integers(8))
        else:
            damaged[place : place + length] = rng.bytes(length)
    return damaged[: int(rng.integers(len(damaged)))] if rng.random() < 0.1 else damaged
