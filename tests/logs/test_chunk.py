"""Rows of an Arrow table that are copied from where Arrow has them."""

import numpy as np
import pyarrow as pa
import pytest

from gradtd.logs.chunk import RUN, ChunkTable

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
    table, out = ChunkTable("log", _table(values), None, {}), np.empty((len(rows), 2))
    assert table.put(table.places(["x", "y"]), rows, out)
    np.testing.assert_array_equal(out, values[rows])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, RUN, 150, sum(PARTS) - 1])
def test_one_number_that_is_not_finite_is_noticed(bad, row):
    values = np.ones((sum(PARTS), 2))
    values[row, 1] = bad
    table, out = ChunkTable("log", _table(values), None, {}), np.empty_like(values)
    assert not table.put(table.places(["x", "y"]), np.arange(len(values)), out)
    others = np.delete(np.arange(len(values)), row)
    assert table.put(table.places(["x", "y"]), others, out[: len(others)])
