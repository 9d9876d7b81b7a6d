"""Streams: good ones with some numbers changed, made in every way, learned from in compiled code that checks bounds."""

import numpy as np
import scipy.sparse

import gradtd
from gradtd.core.stream import STEP

RULES = (
    ("td", {"alpha": 0.1}),
    ("impression_gtd", {"alpha": 0.1, "batch_size": 2}),
    ("impression_gtd", {"alpha": 0.1, "batch_size": 3, "split": "episode-index", "replacement": False}),
    ("minibatch_tdc", {"alpha": 0.1, "eta": 1.0, "batch_size": 5}),
    ("lstd", {}),
    ("gtd2", {"alpha": 0.1, "eta": 1.0, "lam": 0.9}),
    ("expected_gtd", {"alpha": 0.1}),
    ("saga_gtd", {"alpha": 0.1}),
    ("gtd2_mp", {"eta": 0.1}),
)
ODD = (0, 1, -1, 2, 3, 7, 100, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 4e9, -(2**31), 2**62, 1e300, np.nan, np.inf, 0.5)


def prepare(folder):
    """Nothing to do: a rule is compiled when it is first met."""


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    rows, d, n = int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 40))
    features = rng.standard_normal((rows, d)) * (rng.random((rows, d)) < 0.7)
    columns = {
        "row": rng.integers(0, rows, n),
        "next_row": rng.integers(0, rows, n),
        "reward": rng.standard_normal(n),
        "discount": np.where(rng.random(n) < 0.2, 0.0, 0.9),
        "rho": rng.exponential(size=n),
        "episode": np.sort(rng.integers(0, 5, n)),
    }
    if number % 3 == 0:
        features = features.astype(np.float32)
    sparse = rng.random() < 0.5
    table = scipy.sparse.csr_array(features) if sparse else features
    if rng.random() < 0.8:
        _spoil(rng, columns, table if sparse else None)
    stream = _made(rng, table, columns)
    name, hyper = RULES[int(rng.integers(len(RULES)))]
    if rng.random() < 0.3:
        learner = gradtd.Learner(stream.n_features, name, capacity=20, **hyper)
        learner.partial_fit(stream).partial_fit(stream)
        assert np.isfinite(learner.theta).all()
        return
    passes = int(rng.integers(1, 4)) if rng.random() < 0.3 else 1
    result = gradtd.learn(stream, name, snapshots=[len(stream) * passes], passes=passes, **hyper)
    assert np.isfinite(result.theta).all()


def _spoil(rng, columns, table):
    """Change some entries to odd ones, or a length."""
    for _ in range(int(rng.integers(1, 4))):
        odd = ODD[int(rng.integers(len(ODD)))]
        if table is not None and rng.random() < 0.5:
            target = (table.indices, table.indptr, table.data)[int(rng.integers(3))]
            if len(target):
                with np.errstate(invalid="ignore", over="ignore"):
                    target[int(rng.integers(len(target)))] = np.array(odd).astype(target.dtype)
            continue
        label = str(rng.choice(list(columns)))
        values = columns[label].astype(np.float64)
        if rng.random() < 0.15:
            values = values[: int(rng.integers(0, len(values) + 1))]
        elif len(values):
            values[int(rng.integers(len(values)))] = odd
        whole = label in ("row", "next_row", "episode") and np.isfinite(values).all() and (abs(values) < 2**63).all()
        columns[label] = values.astype(np.int64) if whole else values


def _made(rng, table, columns):
    if rng.random() < 0.5 or len({len(values) for values in columns.values()}) > 1:
        return gradtd.Stream.from_arrays(features=table, **columns)
    steps = np.zeros(len(columns["row"]), STEP)
    with np.errstate(invalid="ignore"):
        for label, values in columns.items():
            steps[label] = values.astype(np.int64) if label in ("row", "next_row", "episode") else values
    return gradtd.Stream(table, steps.view(np.recarray))
