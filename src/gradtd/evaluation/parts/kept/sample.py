"""The sample of a log whose files come one after the other: each unit keeps the rows of its own episodes in it.

The sample has the episodes whose ids have the smallest hashes, of all files that there are. So it is the same whichever
file came first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtd.core.arrays import Integers
from gradtd.core.files import Arrays
from gradtd.evaluation.parts.job import Reading
from gradtd.evaluation.parts.kept.plan import Placed
from gradtd.evaluation.parts.kept.store import Store
from gradtd.evaluation.parts.preparing import Sample
from gradtd.logs.parts import Survey, mixed


def kept_sample(
    store: Store, placed: Sequence[Placed], seen: Survey, episodes: int, reading: Reading, name: str
) -> Sample:
    """The episodes of the sample; of files that are known only rows that nobody has kept are read."""
    order = mixed(seen.hashes)
    last = np.sort(order)[:episodes][-1]
    wanted = [int((order[one.first : one.last] <= last).sum()) for one in placed]
    found = [
        _of_unit(store, one, seen, count, reading.needed) for one, count in zip(placed, wanted, strict=True) if count
    ]
    return reading.log(*_together(found, episodes), name)


def _of_unit(store: Store, placed: Placed, seen: Survey, wanted: int, columns: Sequence[str]) -> Arrays:
    """At least the wanted episodes of a unit: those that are kept, or they are read and kept."""
    kept = store.sample(placed.unit)
    if kept is not None and len(kept["hashes"]) >= wanted:
        return kept
    own = placed.survey(seen)
    rows, begins = own.sample(wanted, columns)
    hashes = own.hashes[np.argsort(mixed(own.hashes), kind="stable")[:wanted]]
    made = {"rows": _bytes_of(rows), "begins": begins, "hashes": hashes}
    store.keep_sample(placed.unit, made)
    return made


def _together(found: Sequence[Arrays], episodes: int) -> tuple[Any, Integers]:
    """The rows of the episodes with the smallest hashes, and where each begins among them."""
    import pyarrow as pa

    tables = [_table_of(one["rows"]) for one in found]
    places = [(k, int(a), int(b)) for k, one in enumerate(found) for a, b in itertools.pairwise(one["begins"])]
    order = np.argsort(mixed(np.concatenate([one["hashes"] for one in found])), kind="stable")[:episodes]
    chosen = [places[k] for k in order]
    rows = pa.concat_tables([tables[k].slice(a, b - a) for k, a, b in chosen])
    return rows, np.cumsum([0, *(b - a for _, a, b in chosen)])


def _bytes_of(table: Any) -> Any:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table_of(stored: Any) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(stored.tobytes())).read_all()
