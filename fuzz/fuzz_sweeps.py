"""Folders of a sweep with parts, list and manifest changed, also with right checksums: run again, or refused."""

import hashlib
import io
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_files import ODD, WORDS, flipped, spoil_header

import gradtd

GRID = {
    "problems": ["boyan_chain"],
    "algorithms": {"td": {"alpha": [0.03125, 0.0625]}},
    "runs": 2,
    "steps": 40,
    "block": 1,
}
_kept = {}


def prepare(folder):
    made = gradtd.Sweep(**GRID).run(folder / "whole", threads=1, progress=False)
    _kept["tables"] = made.results.to_pydict(), made.winners.to_pydict()
    _kept["files"] = {
        p.relative_to(folder / "whole"): p.read_bytes() for p in (folder / "whole").rglob("*") if p.is_file()
    }


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    place = folder / "it"
    shutil.rmtree(place, ignore_errors=True)
    for name, content in _kept["files"].items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    known = True
    for _ in range(int(rng.integers(1, 3))):
        known &= spoil(rng, place)
    grid = gradtd.Sweep(**GRID)
    if number % 2:
        grid.status(place)
        return
    found = grid.run(place, threads=1, progress=False)
    if known:
        assert (found.results.to_pydict(), found.winners.to_pydict()) == _kept["tables"], "damage changed a result"


def spoil(rng, place):
    """Change a file; returns whether the sweep has to come to the same numbers."""
    stored = sorted(path for path in place.rglob("*") if path.is_file())
    path, kind = stored[int(rng.integers(len(stored)))], rng.random()
    if kind < 0.1:
        path.unlink()
    elif path.suffix == ".parquet" and path.parent.name == ".parts" and kind < 0.7:
        return change_part(rng, path)
    elif path.suffix in (".json", ".jsonl") and kind < 0.6:
        lines = path.read_text(errors="replace").splitlines()
        line = int(rng.integers(len(lines))) if lines else 0
        try:
            told = json.loads(lines[line])
            spoil_header(rng, told)
            lines[line] = json.dumps(told)
        except (ValueError, IndexError, TypeError):
            pass
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_bytes(flipped(rng, path.read_bytes()) if path.stat().st_size else b"x")
    return True


def change_part(rng, path):
    """A part with another content, and the line of the list that has its checksum."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, ValueError, OSError):  # it was damaged before
        return True
    name = str(rng.choice(table.column_names))
    at, kind = table.column_names.index(name), rng.random()
    if kind < 0.2:
        table = table.drop_columns(name)
    elif kind < 0.4:
        table = table.slice(0, int(rng.integers(len(table) + 1)))
    elif kind < 0.6:
        values = table.column(name).to_pylist()
        odd = [value for value in (*ODD, *WORDS) if not isinstance(value, (list, dict))]
        values[int(rng.integers(len(values)))] = odd[int(rng.integers(len(odd)))]
        try:
            table = table.set_column(at, name, pa.array(values, table.schema.field(name).type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            table = table.set_column(at, name, pa.array([str(value)[:20] for value in values]))
    elif kind < 0.8:
        table = table.replace_schema_metadata(None if rng.random() < 0.5 else {b"gradtd unit": b"x"})
    else:
        table = table.set_column(at, name, pa.array(np.arange(len(table)) * 0.5))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    path.write_bytes(sink.getvalue())
    told = {"unit": path.stem, "of": "x", "bytes": len(sink.getvalue())}
    told["sha256"] = hashlib.sha256(sink.getvalue()).hexdigest()
    with (path.parent / "manifest.jsonl").open("a") as file:
        file.write(json.dumps(told) + "\n")
    return False
