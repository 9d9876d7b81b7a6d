"""What a sweep keeps: one Parquet part for every finished unit, and a manifest with the checksum of each.

A part is moved into place when it is whole; then its line is added to the manifest. A kill between the two leaves a
part without a line, which is taken where it reads as a part of its unit. A part that does not have the checksum of its
line was cut or changed, and its unit is run again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.files import append_line, replace_file
from gradtd.core.results_folder import STORED
from gradtd.running.sweeps.units import Unit, Values

log = logging.getLogger(__name__)
UNIT = b"gradtd unit"
"""Under this name a part has the digest of its unit."""


class Parts:
    """The finished units of a sweep, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, folder / "manifest.jsonl"
        self.listed = _listed(self.manifest)

    def look(self, unit: Unit) -> Values | None:
        """What a unit came to; None where it is not finished, or its part is not whole."""
        try:
            content = self.file_of(unit).read_bytes()
        except FileNotFoundError:
            return None
        listed = self.listed.get(unit.digest)
        if listed is not None and listed != _checksum(content):
            log.warning("the part of %s was changed or cut: it is run again", unit)
            return None
        return _read(content, unit)

    def keep(self, unit: Unit, values: Values) -> None:
        """Keep what a unit came to."""
        import pyarrow.parquet as pq

        self.folder.mkdir(exist_ok=True)
        path = self.file_of(unit)
        table = _table(unit, values)
        replace_file(path, lambda file: pq.write_table(table, file, **STORED))
        self._list(unit, path.read_bytes())

    def adopt(self, units: Iterable[Unit]) -> None:
        """List the whole parts of these units that have no line in the manifest yet."""
        for unit in units:
            path = self.file_of(unit)
            if unit.digest not in self.listed and path.exists() and self.look(unit) is not None:
                self._list(unit, path.read_bytes())

    def file_of(self, unit: Unit) -> Path:
        return self.folder / f"{unit.digest}.parquet"

    def _list(self, unit: Unit, content: bytes) -> None:
        told = {"unit": unit.digest, "of": str(unit), "bytes": len(content), "sha256": _checksum(content)}
        append_line(self.manifest, json.dumps(told))
        self.listed[unit.digest] = told["sha256"]


def _listed(manifest: Path) -> dict[str, Any]:
    """The checksums in a manifest. Its last line may be half written; a later line of a unit holds."""
    found: dict[str, Any] = {}
    if manifest.exists():
        for line in manifest.read_bytes().splitlines():
            try:
                told = json.loads(line)
                found[told["unit"]] = told["sha256"]
            except (ValueError, KeyError, TypeError):
                continue
    return found


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _table(unit: Unit, values: Values) -> Any:
    """One row for every run, metric and step."""
    import pyarrow as pa

    at, names = unit.task.at, list(values.metrics)
    per_run = len(names) * len(at)
    columns = {
        "run": np.repeat(np.arange(unit.first, unit.first + unit.count), per_run),
        "metric": np.tile(np.repeat(names, len(at)), unit.count),
        "step": np.tile(at, unit.count * len(names)),
        "value": np.stack([values.metrics[name] for name in names], axis=1).ravel(),
        "diverged_at": np.repeat(values.diverged_at, per_run),
        "learned": np.repeat(values.learned, per_run),
    }
    return pa.table(columns).replace_schema_metadata({UNIT: unit.digest.encode()})


def _read(content: bytes, unit: Unit) -> Values | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # On this thread alone: a thread of Arrow that lets go of the bytes while Python exits would abort it.
        with pq.ParquetFile(pa.BufferReader(content), pre_buffer=False, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)
    except Exception:  # a damaged part raises Arrow's errors and Python's
        return None
    names, at = unit.task.metrics, unit.task.at
    shape = (unit.count, len(names), len(at))
    if (table.schema.metadata or {}).get(UNIT) != unit.digest.encode() or table.num_rows != np.prod(shape):
        return None
    value = table["value"].to_numpy().reshape(shape)
    first = slice(None, None, len(names) * len(at))
    return Values(
        {name: np.ascontiguousarray(value[:, place]) for place, name in enumerate(names)},
        table["diverged_at"].to_numpy()[first],
        table["learned"].to_numpy()[first],
    )
