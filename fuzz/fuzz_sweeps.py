"""Folders of a sweep with parts and manifest changed, also with right checksums: run again, or refused."""

import json
import shutil

import numpy as np
from fuzz_files import flipped, spoil_arrays, spoil_header, write_changed

import gradtd
from gradtd.core.files import read_arrays

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
    elif path.suffix == ".npz" and kind < 0.7:
        return change_part(rng, path)
    elif path.suffix == ".json" and kind < 0.6:
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
    """A part with another content and the right checksum."""
    try:
        header, arrays = read_arrays(path)
    except Exception:  # it was damaged before
        return True
    if rng.random() < 0.3:
        spoil_header(rng, header)
    else:
        spoil_arrays(rng, arrays)
    write_changed(path, header, arrays, signed=True)
    return False
