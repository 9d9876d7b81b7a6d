"""Folders of sums with their content changed and right checksums: made again, refused, or another answer; no crash."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_files import flipped, spoil_arrays, spoil_header, write_changed

import gradtd
from gradtd.core.files import read_arrays
from gradtd.evaluation import kept_units, part_sums
from gradtd.logs import parts

_kept = []


def prepare(folder):
    """Folders of sums of real observations and of states, small, with several units and parts."""
    parts.ROWS_OF_A_PART, kept_units.ROWS_OF_A_UNIT, part_sums.MOST_GROUPS = 100, 150, 20
    rng = np.random.default_rng(3)
    _kept.clear()
    for kind in ("real", "states", "named"):
        log = folder / f"log {kind}"
        log.mkdir()
        for k in range(3):
            n = 120
            columns = {"episode": 100 * k + np.repeat(np.arange(n // 4), 4), "rho": rng.choice([0.5, 1.5], n)}
            columns |= {"reward": rng.normal(size=n), "terminated": np.arange(n) % 4 == 3}
            if kind == "states":
                columns["obs"] = rng.integers(0, 4, n)
            else:
                columns |= {"obs_0": rng.normal(size=n), "obs_1": rng.normal(size=n)}
            pq.write_table(pa.table(columns), log / f"{k}.parquet")
        features = "identity" if kind == "named" else None
        sums = folder / f"sums {kind}"
        found = evaluated(log, sums, features)
        files = {path.relative_to(sums): path.read_bytes() for path in sums.rglob("*") if path.is_file()}
        _kept.append((log, features, files, found.to_dict()))


def evaluated(log, sums, features):
    machine = gradtd.Machine(checkpoint=sums, threads=1)
    return gradtd.evaluate(str(log), gamma=0.9, features=features, machine=machine, progress=False)


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    log, features, files, answer = _kept[int(rng.integers(len(_kept)))]
    sums = folder / "sums"
    shutil.rmtree(sums, ignore_errors=True)
    for name, content in files.items():
        (sums / name).parent.mkdir(parents=True, exist_ok=True)
        (sums / name).write_bytes(content)
    stored = sorted(path for path in sums.rglob("*") if path.suffix in (".npz", ".json"))
    path = stored[int(rng.integers(len(stored)))]
    fits = False
    if path.suffix == ".json" or rng.random() < 0.2:
        path.write_bytes(flipped(rng, path.read_bytes()))
        fits = path.suffix == ".npz"  # noticed by the checksum, and made again
    else:
        header, arrays = read_arrays(path)
        header, arrays = json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()}
        for _ in range(int(rng.integers(1, 3))):
            if header and rng.random() < 0.5:
                spoil_header(rng, header)
            elif arrays:
                spoil_arrays(rng, arrays)
        write_changed(path, header, arrays, signed=True)
    found = evaluated(log, sums, features)
    if fits and path.name != "fitted.npz":
        assert found.to_dict() == answer, "damage changed the answer"
    if found.verdict == "usable":
        assert np.isfinite(found.value), found.value
        assert found.interval[0] <= found.value <= found.interval[1], (found.value, found.interval)
