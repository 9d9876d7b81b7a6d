"""Rows of an Arrow table that are copied from where Arrow has them."""

import gc

import numpy as np
import pyarrow as pa
import pytest

from gradtd.logs.chunk import RUN, ChunkTable
from gradtd.logs.tables import arrow_piece

PARTS = (150, 1, 89)
"""Rows of the record batches: longer than a run, and shorter."""


def _table(values):
    edges = np.cumsum([0, *PARTS])
    batches = [pa.record_batch({"x": part[:, 0], "y": part[:, 1]}) for part in np.split(values, edges[1:-1])]
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("order", ["all", "gaps", "mixed"])
def test_rows_come_in_the_order_asked_for_across_batches(order):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((sum(PARTS), 2))
    assert max(PARTS) > 2 * RUN
    rows = np.arange(len(values))
    rows = {"all": rows, "gaps": rows[rows % 7 != 0], "mixed": rng.permutation(rows)}[order]
    table = ChunkTable("log", _table(values), None, {})
    found = table.gathered(table.places(["x", "y"]), rows)
    assert found.shape == (len(found), 2) == (len(rows), 2)
    np.testing.assert_array_equal(np.asarray(found), values[rows])
    np.testing.assert_array_equal(found[20:190], values[rows[20:190]])
    np.testing.assert_array_equal(found[np.array([3, 1, 1])], values[rows[[3, 1, 1]]])


def test_rows_of_a_table_in_another_order():
    values = np.random.default_rng(0).standard_normal((sum(PARTS), 2))
    at = np.arange(len(values))[::-1]
    table = ChunkTable("log", _table(values), at, {})
    np.testing.assert_array_equal(table.gathered(table.places(["x", "y"]), np.arange(5))[:], values[::-1][:5])


def test_rows_outlive_whoever_asked_for_them():
    values = np.random.default_rng(0).standard_normal((sum(PARTS), 2))
    table = ChunkTable("log", _table(values), None, {})
    found = table.gathered(table.places(["x", "y"]), np.arange(len(values)))
    del table
    gc.collect()
    np.testing.assert_array_equal(found[:], values)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, RUN, 150, sum(PARTS) - 1])
def test_one_number_that_is_not_finite_is_noticed(bad, row):
    values = np.ones((sum(PARTS), 2))
    rows = np.arange(len(values))
    table = ChunkTable("log", _table(values), None, {})
    assert table.gathered(table.places(["x", "y"]), rows) is not None
    values[row, 1] = bad
    table = ChunkTable("log", _table(values), None, {})
    assert table.gathered(table.places(["x", "y"]), rows) is None


@pytest.mark.parametrize(("first", "rows"), [(0, 0), (0, 1), (3, 5), (7, 1), (8, 9), (13, 40), (1, 62), (63, 0)])
def test_truth_values_come_from_any_bit_on(first, rows):
    truth = np.random.default_rng(0).random(63) < 0.5
    kept = pa.array(truth).slice(first, rows)
    for column in (kept, pa.chunked_array([kept, kept])):
        found = arrow_piece("over", column).values
        assert found.dtype == bool
        np.testing.assert_array_equal(found, np.tile(truth[first : first + rows], len(column) // max(rows, 1)))
