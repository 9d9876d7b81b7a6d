"""Logs that are read in parts: spoiled tables in one Parquet file or several, with damaged bytes now and then.

What is read in parts and in memory must have the same value where features do not depend on how the log is read.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_logs import damage, spoiled, table

import gradtd

ALIKE = ("identity", "one-hot")
"""Features that are the same however the log is read; values are compared with these."""


def prepare(folder):
    """Nothing to do."""


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    made = table(rng)
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        made = spoiled(rng, made)
    files = _files(rng, made, folder)
    asked = {
        "gamma": float(rng.choice([0.0, 0.9, 1.0])),
        "features": [None, *ALIKE, "aggregation:bins=2", "tiles:tilings=2,tiles=3"][int(rng.integers(5))],
        "algorithm": str(rng.choice(["auto", "lstd"])),
        "progress": False,
    }
    if rng.random() < 0.3:
        asked |= {"value_function": "action", "target": lambda seen: np.full((len(seen), 3), 1 / 3)}
    elif "target_probability" not in made and "rho" not in made:
        asked["target"] = "behaviour"
    found = gradtd.evaluate(files, machine=gradtd.Machine(in_parts=True, threads=1), **asked)
    if found.verdict == "usable":
        assert np.isfinite(found.value), f"{found.value} is called usable"
        assert found.interval[0] <= found.value <= found.interval[1], (found.value, found.interval)
    if asked["features"] in ALIKE:
        whole = gradtd.evaluate(files, machine=gradtd.Machine(in_parts=False, threads=1), **asked)
        if all(result.numbers["undetermined_directions"] == 0 for result in (found, whole)):
            one, other = found.value, whole.value
            assert np.isclose(one, other, rtol=1e-5, atol=1e-8, equal_nan=True), f"{one} in parts, {other} in memory"


def _files(rng, made, folder):
    for path in folder.glob("part*.parquet"):
        path.unlink()
    n = len(next(iter(made.values()))) if made else 0
    cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 3))))
    for k, (begin, end) in enumerate(zip([0, *cuts], [*cuts, n], strict=True)):
        rows = pa.table({name: pa.array(np.asarray(values)[begin:end]) for name, values in made.items()})
        path = folder / f"part{k}.parquet"
        pq.write_table(rows, path, row_group_size=int(rng.integers(1, 40)))
        if rng.random() < 0.1:
            path.write_bytes(damage(rng, bytearray(path.read_bytes())))
    return str(folder / "part*.parquet")
