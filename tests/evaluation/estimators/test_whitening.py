"""Whitened features: C = I, the same values, and the way back to the weights of the features as they were."""

import numpy as np
import pytest
import scipy.sparse

from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.products import CHUNK, condition, original, second_moments, whiten
from naive.evaluation import random_stream, solved

N = CHUNK + 50


def table_and_rows(seed=0, d=4, redundant=False):
    """A table and rows of it, each in two chunks."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(N, d)) @ rng.normal(size=(d, d)) * 10.0 ** rng.integers(-3, 4, d) + 1.0
    if redundant:
        table = np.c_[table, table[:, 0] + table[:, 1], np.zeros(N)]
    return table, rng.integers(0, N, N + 400)


def test_second_moments_are_the_mean_of_the_rows_visited():
    table, rows = table_and_rows()
    wanted = np.einsum("ni,nj->ij", table[rows], table[rows]) / len(rows)
    assert second_moments(table, rows) == pytest.approx(wanted)
    assert second_moments(scipy.sparse.csr_array(table), rows) == pytest.approx(wanted)


@pytest.mark.parametrize("redundant", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_whitened_features_have_second_moments_one(sparse, redundant):
    table, rows = table_and_rows(1, redundant=redundant)
    given = scipy.sparse.csr_array(table) if sparse else table.copy()
    white, W = whiten(given, second_moments(given, rows))
    eigenvalues = np.linalg.eigvalsh(second_moments(white, rows))
    rank = 4
    assert eigenvalues[-rank:] == pytest.approx(np.ones(rank), rel=1e-6)
    assert eigenvalues[:-rank] == pytest.approx(np.zeros(len(eigenvalues) - rank), abs=1e-9)
    theta = np.random.default_rng(2).normal(size=len(W))
    back = table @ original(W, theta)
    assert white @ theta == pytest.approx(back, rel=1e-6, abs=1e-6 * np.abs(back).max())
    assert white is given or sparse  # a dense table is changed in place


def test_large_sparse_tables_are_scaled_and_stay_sparse():
    table, rows = table_and_rows(3)
    table[:, 2] = 0.0
    given = scipy.sparse.csr_array(table)
    white, W = whiten(given, second_moments(given, rows), 10)
    assert not isinstance(white, np.ndarray)
    assert W.shape == (4,)
    assert second_moments(white, rows).diagonal() == pytest.approx([1, 1, 0, 1])
    theta = np.arange(1.0, 5.0)
    assert white @ theta == pytest.approx(table @ original(W, theta))


def test_values_by_least_squares_do_not_change():
    stream = random_stream(4, episodes=60)
    before = solved(stream)
    white, W = whiten(stream.features.copy(), second_moments(stream.features, stream.steps["row"]))
    after = solved(Stream(white, stream.steps))
    assert after.value == pytest.approx(before.value)
    assert after.error == pytest.approx(before.error)
    assert original(W, after.theta) == pytest.approx(before.theta)
    assert original(None, before.theta) is before.theta


def test_cells_are_whitened_exactly_and_stay_sparse():
    """C of one-hot features is diagonal: scaling makes it one, whatever the size of the table."""
    cells = np.random.default_rng(0).integers(0, 5, 50)
    given = scipy.sparse.csr_array(np.eye(6)[cells])
    rows = np.arange(50)
    C = second_moments(given, rows)
    assert condition(C) == 1.0
    white, W = whiten(given, C)
    assert not isinstance(white, np.ndarray)
    assert W.shape == (6,)
    assert second_moments(white, rows).toarray() == pytest.approx(np.diag([1.0, 1, 1, 1, 1, 0]))
