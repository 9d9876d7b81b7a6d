"""Rows of a log whose episodes are scattered, brought together on disk: one pass into buckets, then each is sorted.

Memory: a bucket, some hundred thousand rows. Arrow reads, sorts and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.progress import Progress
from gradtd.logs.files import ParquetTable, cast, reading
from gradtd.logs.parts import BATCH, Survey, hash_of, ids_of

ROWS_OF_A_BUCKET = 500_000


def bring_together(
    survey: Survey, by: list[str], columns: Sequence[str], folder: Path, progress: Progress | None = None
) -> list[Path]:
    """Write these columns to files of this folder in which the rows of an episode are together, sorted by some of them.

    The first to sort by is that of the episode. Rows that are equal in all of them keep their order.
    """
    count = max(1, -(-survey.rows // ROWS_OF_A_BUCKET))
    raw = [folder / f"raw-{k:06d}.parquet" for k in range(count)]
    _into_buckets(survey, by[0], columns, raw, progress)
    made = []
    for k, path in enumerate(raw):
        if path.exists():
            made.append(_sorted(path, by, folder / f"episodes-{k:06d}.parquet"))
            path.unlink()
        if progress:
            progress(survey.rows + (k + 1) * survey.rows // count, 2 * survey.rows)
    return made


def _into_buckets(
    survey: Survey, column: str, columns: Sequence[str], paths: list[Path], progress: Progress | None
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: dict[int, Any] = {}
    done = 0
    with ExitStack() as stack:
        for stretch in survey.stretches:
            for batch in ParquetTable.batches(stretch.path, 8 * BATCH, columns, stretch.group):
                rows = pa.Table.from_batches([batch]).select(list(columns)).replace_schema_metadata(None)
                rows = reading(stretch.path, cast, rows, stretch.casts)
                bucket = (hash_of(ids_of(rows, column)) % np.uint64(len(paths))).astype(np.int64)
                order = np.argsort(bucket, kind="stable")
                edges = np.searchsorted(bucket[order], np.arange(len(paths) + 1))
                table = rows.take(order)
                for k in np.flatnonzero(np.diff(edges)).tolist():
                    if k not in writers:
                        writers[k] = stack.enter_context(pq.ParquetWriter(paths[k], table.schema))
                    writers[k].write_table(table.slice(edges[k], edges[k + 1] - edges[k]))
                done += len(batch)
                if progress:
                    progress(done, 2 * survey.rows)


def _sorted(path: Path, by: list[str], out: Path) -> Path:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    place = pa.array(np.arange(len(table)))  # Arrow's sort is not stable
    codes = [(name, table[name].type.value_type) for name in by if pa.types.is_dictionary(table[name].type)]
    keys = cast(table.select(by), codes).append_column("place", place)  # it sorts no codes either
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    pq.write_table(table.take(order), out, row_group_size=4 * BATCH)
    return out
