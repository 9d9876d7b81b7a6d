"""What is kept of an evaluation, and the files of a recording."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Recorded = tuple[Any, dict[str, np.ndarray]]
"""What JSON holds of a case, and its arrays."""


def evaluated(log: Any, settings: Mapping[str, Any], compared: bool, **more: Any) -> Recorded:
    """One call of `gradtd.evaluate`: what it says, and the arrays that it leaves."""
    import gradtd

    found = gradtd.evaluate(log, threads=1, progress=False, **dict(settings), **more)
    if not compared:
        return {"target": described(found)}, arrays_of(found)
    told = {name: described(one) for name, one in found.items()}
    arrays = {f"{name}.{key}": v for name, one in found.items() for key, v in arrays_of(one).items()}
    return told | {"compared": found.compare().to_dict()}, arrays


def evaluated_folder(asked: Any) -> Recorded:
    """The same for a log in files; with files that come later, before and after they came."""
    from golden_cases.parts import write_files

    with tempfile.TemporaryDirectory() as place:
        log, more = Path(place) / "log", {"in_parts": True}
        if asked.sums:
            more["sums"] = Path(place) / "sums"
        table, told, arrays = asked.log(), {}, {}
        at_first = asked.files - asked.later
        write_files(table, log, asked.files, 0, at_first)
        if asked.later:
            told, arrays = evaluated(str(log), asked.settings, asked.compared, **more)
            told = {f"first {name}": one for name, one in told.items()}
            arrays = {f"first {name}": values for name, values in arrays.items()}
            write_files(table, log, asked.files, at_first)
        try:
            last, own = evaluated(str(log), asked.settings, asked.compared, **more)
        except Exception as error:
            error.args = tuple(str(part).replace(place, "FOLDER") for part in error.args)
            raise
    return json.loads(json.dumps(told | last).replace(place, "FOLDER")), arrays | own


def described(found: Any) -> dict[str, Any]:
    """Everything that an evaluation says, as JSON takes it."""
    names = ("value", "interval", "level", "method", "gamma", "episodes", "steps", "verdict")
    sentences = ("reasons", "warnings", "notes")
    told = {name: plain(getattr(found, name)) for name in (*names, *sentences)}
    told["estimates"] = [plain(vars(row)) for row in found.estimates]
    told["checks"] = [plain(vars(row)) for row in found.checks]
    told["numbers"] = plain(dict(found.numbers))
    told["features"] = found.features.describe()
    return told


def arrays_of(found: Any) -> dict[str, np.ndarray]:
    names = ("theta", "influences", "resampled")
    return {name: np.asarray(getattr(found, name)) for name in names}


def plain(value: Any) -> Any:
    """Numbers, words, lists and dictionaries; what is not finite becomes a word, so that JSON keeps it."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    if isinstance(value, (bool, np.bool_, str)) or value is None:
        return value if isinstance(value, str) or value is None else bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else str(float(value))
    return str(value)


def read(folder: Path, kind: str) -> Recorded:
    """A recording; empty where there is none."""
    if not (folder / f"{kind}.json").exists():
        return {}, {}
    with np.load(folder / f"{kind}.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads((folder / f"{kind}.json").read_text()), arrays


def write(folder: Path, kind: str, told: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    (folder / f"{kind}.json").write_text(json.dumps(told, indent=1))
    np.savez_compressed(folder / f"{kind}.npz", **arrays)


def digest(values: np.ndarray) -> str:
    """The bytes of an array, its type and its shape in one word."""
    head = f"{values.dtype.str}{values.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(values).tobytes()).hexdigest()
