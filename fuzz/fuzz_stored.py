"""Streams in folders: files damaged, or written anew with right checksums by somebody who means harm."""

import hashlib
import json
import shutil

import numpy as np
import scipy.sparse
from fuzz_files import flipped, spoil_header

import gradtd
from gradtd.core.stream import STEP
from gradtd.core.stream_folder import COLUMNS, ENDS, FEATURES, HEADER, STEPS

RULES = (
    ("td", {"alpha": 0.1}),
    ("impression_gtd", {"alpha": 0.1, "batch_size": 2}),
    ("svrg_gtd", {"alpha": 0.1}),
)
WHOLE = (0, 1, -1, 2, 3, 7, 100, 2**16, 2**31 - 1, -(2**31))
REAL = (0.0, -1.0, 2.0, 1e30, np.nan, np.inf, -np.inf)
_kept = []


def prepare(folder):
    rng = np.random.default_rng(2)
    _kept.clear()
    for dtype in (np.float64, np.float32):
        for sparse in (False, True):
            features = (rng.standard_normal((7, 4)) * (rng.random((7, 4)) < 0.7)).astype(dtype)
            table = scipy.sparse.csr_array(features) if sparse else features
            columns = {name: rng.integers(0, 7, 30) for name in ("row", "next_row")}
            discount = np.where(rng.random(30) < 0.2, 0.0, 0.9)
            columns |= {"reward": rng.standard_normal(30), "discount": discount, "rho": rng.exponential(size=30)}
            stream = gradtd.Stream.from_arrays(features=table, episode=np.arange(30) // 6, **columns)
            place = folder / f"stored{len(_kept)}"
            stream.save(place)
            _kept.append({path.name: path.read_bytes() for path in place.iterdir()})


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    files = dict(_kept[int(rng.integers(len(_kept)))])
    if rng.random() < 0.3:
        name = sorted(files)[int(rng.integers(len(files)))]
        files[name] = flipped(rng, files[name])
    else:
        files = _hostile(rng, files)
    place = folder / "stored"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    stream = gradtd.Stream.open(place)
    name, hyper = RULES[int(rng.integers(len(RULES)))]
    with np.errstate(all="ignore"):
        result = gradtd.learn(stream, name, **hyper)
    assert np.isfinite(result.theta).all()


def _hostile(rng, files):
    """Numbers of the files and of the header changed; the checksums are those of what is there."""
    real = np.float64 if json.loads(files[HEADER])["format"] in (1, 3) else np.float32
    kinds = {FEATURES: real, STEPS: STEP, COLUMNS: np.int32, ENDS: np.int32}
    for _ in range(int(rng.integers(1, 4))):
        name = sorted(set(files) - {HEADER})[int(rng.integers(len(files) - 1))]
        array = np.frombuffer(files[name], kinds[name]).copy()
        if rng.random() < 0.1:
            array = array[: int(rng.integers(len(array) + 1))]
        elif len(array):
            fields = array.dtype.names
            target = array[fields[int(rng.integers(len(fields)))]] if fields else array
            odd = WHOLE if target.dtype.kind in "iu" else REAL
            value = np.array(odd[int(rng.integers(len(odd)))])
            target[int(rng.integers(len(target)))] = value.astype(target.dtype)
        files[name] = array.tobytes()
    header = json.loads(files[HEADER])
    header["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name != HEADER}
    if rng.random() < 0.4:
        spoil_header(rng, header)
    return files | {HEADER: json.dumps(header).encode()}
