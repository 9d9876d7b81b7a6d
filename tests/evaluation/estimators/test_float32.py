"""Features given to `evaluate` as float32 stay so; sums are float64, and the answer moves by rounding only."""

import tracemalloc

import numpy as np
import pytest

import gradtd
from gradtd.evaluation.designs.log_features import make_log_features
from gradtd.features import make_features
from gradtd.logs import read_log

N, D, LENGTH = 3000, 70, 10
"""So many features that no rule is fitted next to the solution: rules are tested where they are compiled."""


@pytest.fixture(scope="module")
def data():
    """A log whose observation is the number of its row, and a table of features in float32."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((N, D)).astype(np.float32)
    table[:, 0] = 1
    at = np.arange(N)
    log = {"episode": at // LENGTH, "obs_0": at / N, "reward": table[:, 1] + rng.standard_normal(N),
           "terminated": at % LENGTH == LENGTH - 1, "rho": rng.choice([0.8, 1.2], N)}  # fmt: skip
    return log, table


def rows_of(table):
    """Features of observations: these rows."""
    return lambda seen: table[np.rint(np.asarray(seen)[:, 0] * N).astype(int)]


def both(data, **more):
    log, table = data
    given = {"gamma": 0.9, "threads": 1, "progress": False} | more
    return [gradtd.evaluate(log, features=rows_of(table.astype(kind)), **given) for kind in (np.float32, np.float64)]


@pytest.mark.parametrize("more", [{}, {"algorithm": "lstd", "resamples": 20}, {"lam": 0.5}])
def test_the_answer_is_that_of_the_same_numbers_in_float64(data, more):
    """Whitened features are rounded to float32, by 6e-8 of their size: values move by that part of an error or so."""
    narrow, wide = both(data, **more)
    error = wide.diagnostics.sandwich_error
    assert narrow.value == pytest.approx(wide.value, abs=1e-5 * error)
    assert narrow.interval == pytest.approx(wide.interval, abs=1e-4 * error)
    assert (narrow.verdict, narrow.reasons) == (wide.verdict, wide.reasons)
    assert narrow.theta.dtype == np.float64
    np.testing.assert_allclose(narrow.theta, wide.theta, atol=1e-5 * np.abs(wide.theta).max())


def test_without_whitening_nothing_is_rounded(data):
    """The same numbers are summed in float64: the same value but for the order of additions."""
    narrow, wide = both(data, whiten=False)
    assert narrow.value == pytest.approx(wide.value, rel=1e-11)
    assert narrow.interval == pytest.approx(wide.interval, rel=1e-9)


def test_no_table_in_float64_is_made_and_the_caller_keeps_theirs():
    rng = np.random.default_rng(1)
    table = rng.standard_normal((12_000, 400)).astype(np.float32)
    before = table.copy()
    at = np.arange(len(table))
    log = read_log(
        {"episode": at // 10, "obs_0": at / 7, "reward": at % 3, "terminated": at % 10 == 9, "rho": at * 0 + 1.0}
    )
    features = make_features(lambda seen: table if len(seen) == len(table) else table[: len(seen)])
    tracemalloc.start()
    ready = make_log_features(log, features, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ready.table.dtype == np.float32
    rows = 2048 * 400 * 8  # a chunk in float64; there are two of them, and matrices of 400 columns
    assert peak < 1.1 * table.nbytes + 2.5 * rows + 8 * 400**2 * 8
    np.testing.assert_array_equal(table, before)
