"""Folders whose files differ in types, units, order and ids: what is read is compared with the table behind them.

A table is known; its rows are written to some files, each with types of its own. What comes back has the same episodes
with the same steps in the same order, or the log is refused.
"""

import datetime
import decimal
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import gradtd

IN_PARTS = 25
"""One folder in so many is evaluated in parts and in memory."""
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
FIRST = (0, 7, 2**31 - 5, 2**32 - 3, 2**53 - 4, 2**53, 2**62, 2**63 - 20, -(2**31), -(2**62))
WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


def prepare(folder):
    """Nothing to do."""


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    made = table(rng)
    for path in folder.glob("part*"):
        path.unlink()
    written = write(rng, made, folder)
    where = str(folder / ("part0.csv" if written == "csv" else "part*.parquet"))
    log = gradtd.read_log(where, columns={"observation": ["x", "y"]})
    assert episodes_of(log) == expected(made), "the log is not the table that it was made from"
    if number % IN_PARTS == 0 and written == "parquet":
        asked = {"gamma": 0.9, "features": "identity", "target": "behaviour", "progress": False}
        asked["log_format"] = gradtd.LogFormat(columns={"observation": ["x", "y"]})
        ways = (gradtd.Machine(in_parts=way, threads=1) for way in (True, False))
        one, other = (gradtd.evaluate(where, machine=way, **asked) for way in ways)
        assert (one.steps, one.episodes) == (other.steps, other.episodes)
        if all(found.numbers["undetermined_directions"] == 0 for found in (one, other)):
            assert np.isclose(one.value, other.value, rtol=1e-6, atol=1e-9, equal_nan=True), (one.value, other.value)


def table(rng):
    """Whole numbers and eighths, so that every type that takes them at all has them exactly."""
    lengths = rng.integers(1, 7, int(rng.integers(2, 14)))
    n, count = int(lengths.sum()), len(lengths)
    ids = FIRST[int(rng.integers(len(FIRST)))] + rng.permutation(count).astype(object)
    steps = np.concatenate([np.arange(k) for k in lengths])
    made = {"episode": np.repeat(ids, lengths), "t": steps.astype(object)}
    if rng.random() < 0.3:
        made["t"] = made["t"] + FIRST[int(rng.integers(len(FIRST)))]
    ends = np.zeros(n, bool)
    ends[np.cumsum(lengths) - 1] = True
    made |= {"terminated": ends, "action": rng.integers(0, 3, n), "behaviour": np.full(n, 0.5)}
    made |= {name: rng.integers(-40, 40, n) / 8 for name in ("reward", "x", "y")}
    return made


def write(rng, made, folder):
    """To some files, in an order of rows that may be any where the time says the order."""
    n = len(made["reward"])
    order = rng.permutation(n) if rng.random() < 0.5 else np.arange(n)
    cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 4))))
    ids = rng.choice(["whole", "whole", "decimal", "text", "real", "date"])
    times = rng.choice(["whole", "stamp", "stamp", "real", "duration"])
    ending = "csv" if rng.random() < 0.15 and times == "whole" else "parquet"
    cuts = cuts if ending == "parquet" else cuts[:0]
    flags = int(rng.integers(4))  # the last: another type in every file, which is refused
    for k, (begin, end) in enumerate(zip([0, *cuts], [*cuts, n], strict=True)):
        rows = order[begin:end]
        columns = {
            "episode": id_column(rng, made["episode"][rows], ids),
            "t": time_column(rng, made["t"][rows], times),
            "terminated": flag_column(flags if flags < 3 else int(rng.integers(3)), made["terminated"][rows]),
            "action": whole_column(rng, made["action"][rows].astype(object)),
        }
        for name in ("reward", "x", "y", "behaviour"):
            columns[name] = pa.array(made[name][rows].astype(rng.choice([np.float16, np.float32, np.float64])))
        names = list(rng.permutation(list(columns)))
        part = pa.table({name: columns[name] for name in names})
        if ending == "csv":
            halves = [k for k, kind in enumerate(part.schema.types) if pa.types.is_float16(kind)]
            for place in halves:  # Arrow does not write these to text
                part = part.set_column(place, part.column_names[place], part.column(place).cast(pa.float32()))
            pyarrow.csv.write_csv(part, folder / f"part{k}.csv")
        else:
            packed = str(rng.choice(["none", "snappy", "zstd"]))
            pq.write_table(
                part, folder / f"part{k}.parquet", row_group_size=int(rng.integers(1, 20)), compression=packed
            )
    return ending


def whole_column(rng, values):
    kinds = list(WHOLE)
    while True:
        kind = kinds[int(rng.integers(len(kinds)))]
        try:
            return pa.array(values.tolist(), kind)
        except (pa.ArrowInvalid, OverflowError):
            kinds.remove(kind)


def id_column(rng, values, kind):
    if kind == "decimal":
        return pa.array([decimal.Decimal(int(value)) for value in values], pa.decimal128(int(rng.integers(20, 38)), 0))
    if kind == "text":
        return pa.array([f"user {value}" for value in values], rng.choice([pa.string(), pa.large_string()]))
    if kind == "real":
        return pa.array([float(value) for value in values], pa.float64())
    if kind == "date":
        first = datetime.date(2000, 1, 1)
        return pa.array([first + datetime.timedelta(days=int(value) % 100_000) for value in values], pa.date32())
    return whole_column(rng, values)


def time_column(rng, values, kind):
    if kind == "whole":
        return whole_column(rng, values)
    if kind == "real":
        kind = rng.choice([pa.float32(), pa.float64()])
        exact = all(int(np.float32(value)) == value for value in values)
        return pa.array([float(value) for value in values], kind if exact else pa.float64())
    unit = str(rng.choice(list(UNITS)))
    seconds = [int(value) % 10**6 * (10**9 // UNITS[unit]) for value in values]
    return pa.array(seconds, pa.timestamp(unit) if kind == "stamp" else pa.duration(unit))


def flag_column(kind, values):
    return pa.array(values) if kind == 0 else pa.array(values.astype(np.int8 if kind == 1 else np.float32))


def expected(made):
    """How often each episode is in the table, as its steps in order."""
    found = {}
    for k in range(len(made["reward"])):
        step = tuple(float(made[name][k]) for name in ("x", "y", "action", "reward"))
        found.setdefault(made["episode"][k], []).append((made["t"][k], (*step, bool(made["terminated"][k]))))
    return Counter(tuple(step for _, step in sorted(steps)) for steps in found.values())


def episodes_of(log):
    found = {}
    seen = log.observations[log.row]
    for k, one in enumerate(log.episode.tolist()):
        step = (float(seen[k, 0]), float(seen[k, 1]), float(log.action[k]), float(log.reward[k]))
        found.setdefault(one, []).append((*step, bool(log.terminated[k])))
    return Counter(map(tuple, found.values()))
