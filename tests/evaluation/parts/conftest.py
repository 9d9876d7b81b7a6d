"""What files of logs in parts share."""

import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    """The module's table, in a file of several row groups."""
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, file, row_group_size=500)
    return file
