"""Saved files: bytes flipped, numbers of the header and arrays changed; what can be loaded goes on learning."""

import json
import zipfile
from copy import deepcopy

import numpy as np

import gradtd
from gradtd.core.files import CHECKSUM, checksum, read_arrays
from gradtd.output.evaluation_text import in_notebook

D = 3
LEARNERS = (
    ("impression_gtd", {"batch_size": 2}),
    ("impression_gtd", {"alpha": 0.1, "batch_size": 3, "split": "episode-index", "replacement": False}),
    ("impression_gtd", {"alpha": 0.1, "batch_size": 2, "split": "coin", "lam": 0.5}),
    ("minibatch_tdc", {"alpha": 0.1, "eta": 1.0, "batch_size": 8}),
    ("newton_td", {"alpha": 0.1}),
    ("gtd2", {"alpha": 0.1, "eta": 1.0, "lam": 0.9}),
    ("td", {"alpha": 0.1, "average": "polynomial"}),
)
ODD = (0, 1, -1, 2, 3, 5, 100, 10**6, 2**31, 2**32, 2**53, 2**62, 2**63, 10**11, 10**18, 10**400, 1e300, 0.5, -0.5)
WORDS = (None, "", "td", "auto", [], {}, [[[[]]]], True, {"alpha": 1}, "episode-index", float("nan"))
DRAWN = 50
"""Of one evaluation in so many all pictures are drawn, which takes a second."""
_kept = []


def prepare(folder):
    rng = np.random.default_rng(1)
    _kept.clear()
    for place, (name, hyper) in enumerate(LEARNERS):
        made = gradtd.Learner(D, name, capacity=20, seed=place, **hyper)
        _feed(made, rng, 60)
        _keep(made, folder / f"learner{place}.npz", gradtd.Learner.load)
    horde = gradtd.Horde(D, {"a": {"alpha": 0.1}, "b": {"alpha": 0.2, "lam": 0.5}}, "td", threads=1)
    _feed(horde, rng, 30)
    _keep(horde, folder / "horde.npz", lambda path: gradtd.Horde.load(path, threads=1))
    found = gradtd.evaluate(gradtd.sample_log("random_walk_tabular", 20), gamma=1.0)
    _keep(found, folder / "evaluation.npz", gradtd.load_evaluation)
    asked = gradtd.Inference(anytime=True, confounding=2.0, by="clinic")
    found = gradtd.evaluate(_log(rng), gamma=0.9, target=[[0.3, 0.7]] * 3, features="one-hot", inference=asked)
    _keep(found, folder / "rich.npz", gradtd.load_evaluation)


def _log(rng):
    """A log that has something to say in every field of an evaluation."""
    n, length = 240, 4
    table = {"episode": np.repeat(np.arange(n // length), length), "obs": rng.integers(0, 3, n)}
    table |= {"action": rng.integers(0, 2, n), "behaviour": np.full(n, 0.5), "reward": rng.normal(size=n)}
    return table | {"terminated": np.arange(n) % length == length - 1, "clinic": np.repeat(np.arange(20) % 2, 12)}


def _keep(thing, path, load):
    thing.save(path)
    _kept.append((path.read_bytes(), *read_arrays(path), load))


def _feed(learner, rng, steps):
    for k in range(steps):
        phi, after = rng.standard_normal((2, D))
        learner.update(phi, float(rng.standard_normal()), after, rho=1.0, discount=0.0 if k % 7 == 6 else 0.9)


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    content, header, arrays, load = _kept[int(rng.integers(len(_kept)))]
    path = folder / "it.npz"
    if rng.random() < 0.4:
        path.write_bytes(flipped(rng, content))
    else:
        _write(rng, path, json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()})
    made = load(path)
    if hasattr(made, "update"):
        with np.errstate(all="ignore"):
            _feed(made, rng, 20)
            theta = made.theta
            for weights in theta.values() if isinstance(theta, dict) else [theta]:
                assert weights.shape == (D,)
            made.save(folder / "again.npz")
    else:
        _show(made, folder, draw=number % DRAWN == 0)


def _show(made, folder, draw):
    """Everything that an evaluation is shown as."""
    for shown in (repr(made), str(made), made.evidence, made.assumptions, made.to_frame(), in_notebook(made)):
        assert shown is not None
    json.dumps(made.to_dict())
    gradtd.write_card(made, folder / "card.html", question="Which?")
    if draw:
        made.page(folder / "page.html")
        made.plot(folder / "plot.svg")
    made.save(folder / "again.npz")


def flipped(rng, content):
    damaged = bytearray(content)
    kind = rng.random()
    if kind < 0.2:
        return bytes(damaged[: int(rng.integers(len(damaged)))])
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(damaged)))
        if kind < 0.7:
            damaged[place] ^= 1 << int(rng.integers(8))
        else:
            length = int(rng.integers(1, 40))
            damaged[place : place + length] = rng.bytes(length)
    return bytes(damaged)


def _write(rng, path, header, arrays):
    """Without a checksum or with the right one, as somebody who means harm would write it."""
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5:
            spoil_header(rng, header)
        else:
            spoil_arrays(rng, arrays)
    write_changed(path, header, arrays, signed=rng.random() < 0.5)


def write_changed(path, header, arrays, signed):
    """The format of `core.files`, with a checksum of what is there where it is signed."""
    if signed:
        header = {**header, CHECKSUM: checksum(header, arrays)}
    with zipfile.ZipFile(path, "w") as file:
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        for name, array in {"header": text, **arrays}.items():
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def spoil_header(rng, node):
    """Walk down to some entry and change it."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        kind = rng.random()
        if kind < 0.1 and isinstance(node, dict):
            del node[key]
        elif kind < 0.75:
            node[key] = ODD[int(rng.integers(len(ODD)))]
        else:
            node[key] = deepcopy(WORDS[int(rng.integers(len(WORDS)))])
        return


def spoil_arrays(rng, arrays):
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    array, kind = arrays[name], rng.random()
    if kind < 0.1:
        del arrays[name]
    elif kind < 0.2:
        arrays[name] = array[: len(array) // 2] if array.ndim else np.zeros(2)
    elif kind < 0.3:
        arrays[name] = np.resize(array, (*array.shape, 2)) if not array.dtype.names else array[:1].repeat(3)
    elif kind < 0.4 and not array.dtype.names:
        with np.errstate(over="ignore"):
            arrays[name] = array.astype(np.float32 if array.dtype.kind == "f" else np.float64)
    elif array.size:
        flat = array.reshape(-1)
        place = int(rng.integers(flat.size))
        label = array.dtype.names[int(rng.integers(len(array.dtype.names)))] if array.dtype.names else None
        target = flat[label] if label else flat
        if target.dtype.kind in "iu":
            target[place] = np.array(ODD[int(rng.integers(12))] % 2**63, np.uint64).astype(target.dtype)
        elif target.dtype.kind == "f":
            with np.errstate(over="ignore"):
                target[place] = rng.choice([np.nan, np.inf, 1e300, -1.0, 2.0])
