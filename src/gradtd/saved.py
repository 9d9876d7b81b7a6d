"""Demons in one file: arrays and a header in JSON, in NumPy's .npz format. Nothing is ever pickled.

The file holds the steps that may still be drawn, so what is loaded goes on as if it had never stopped. A file may
come from a stranger: whatever compiled code uses as an index is checked.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd import checks
from gradtd.algorithms import ALGORITHMS
from gradtd.arena import Window
from gradtd.checks import InputError
from gradtd.demons import Calendar, Demon, Demons
from gradtd.results import replace_file, save_arrays
from gradtd.types import STEP

MADE_BY = "gradtd learner"
FORMAT = 1
Arrays = dict[str, NDArray[Any]]


def save(path: str | Path, kind: str, names: list[str], demons: Demons) -> None:
    """Write demons to a file; it is put in place when it is whole."""
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"save: there is no folder {str(target.absolute().parent)!r}.")
    demons.work_off()
    demons.rows.drop_unused([demon.window for demon in demons.demons])
    arrays: Arrays = {"features": demons.rows.table[: demons.rows.size]}
    header = {
        "made_by": MADE_BY,
        "format": FORMAT,
        "gradtd": version("gradtd"),
        "kind": kind,
        "n_features": demons.n_features,
        "seen": demons.seen,
        "calendar": vars(demons.calendar),
        "demons": [_put_demon(arrays, f"{i}.", names[i], demon) for i, demon in enumerate(demons.demons)],
    }
    arrays["header"] = np.array(json.dumps(header))

    def write(part: Path) -> None:
        save_arrays(part, arrays)
        with part.open("rb+") as file:
            os.fsync(file.fileno())

    try:
        replace_file(target, write)
    except OSError as error:
        raise InputError(f"cannot write {str(target)!r}: {error.strerror}.") from None


def _put_demon(arrays: Arrays, prefix: str, name: str, demon: Demon) -> dict[str, Any]:
    if ALGORITHMS.get(demon.rule.name) is not demon.rule:
        raise InputError(
            f"a rule of your own, {demon.rule.name}, is code, and code is not saved: keep its theta instead."
        )
    hyper = {}
    for label in demon.setup.given:
        value = demon.setup.hyper[label]
        if callable(value):
            raise InputError(f"{label} is a function, and code is not saved: keep theta instead.")
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}hyper.{label}"] = value
        else:
            hyper[label] = value
    window, size = demon.window, demon.window.size
    arrays[prefix + "steps"] = window.steps[:size].view(np.ndarray).astype(STEP)
    arrays[prefix + "side"], arrays[prefix + "unit"] = window.side[:size], window.unit[:size]
    arrays.update({prefix + label: array for label, array in _fixed(demon).items()})
    return {
        "name": name,
        "algorithm": demon.rule.name,
        "hyper": hyper,
        "seed": demon.seed,
        "given": window.given,
        "diverged_at": demon.diverged_at,
    }


def _fixed(demon: Demon) -> Arrays:
    """The arrays of a demon whose names and shapes follow from its algorithm and settings."""
    run = demon.run
    state = {f"state.{name}": array for name, array in zip(run.state._fields, run.state, strict=True)}
    own = {"rng": run.rng, "average": run.average, "counts": run.clock.counts, "alpha": run.clock.alpha}
    return state | own | {"weights": demon.weights}


def load(path: str | Path, kind: str, threads: int, compile: bool | None) -> tuple[list[str], Demons]:
    """The names and the demons in a file that `save` wrote."""
    arrays = _read(Path(path))
    try:
        header = json.loads(str(arrays.pop("header")))
        if header["made_by"] != MADE_BY:
            raise KeyError("made_by")
        if header["format"] != FORMAT:
            raise InputError(f"{str(path)!r} has format {header['format']!r}, this version of gradtd reads {FORMAT}.")
        if header["kind"] != kind:
            raise InputError(f"{str(path)!r} holds a {header['kind']}: load it with {header['kind']}.load.")
        return _restore(header, arrays, threads, compile)
    except (KeyError, TypeError, AttributeError, IndexError, json.JSONDecodeError):
        raise InputError(f"{str(path)!r} was not written by {kind}.save, or it is damaged.") from None


def _read(path: Path) -> Arrays:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None
    except (ValueError, EOFError, AttributeError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise InputError(f"{str(path)!r} is not a file that a learner was saved to.") from None


def _restore(header: Mapping[str, Any], arrays: Arrays, threads: int, compile: bool | None) -> tuple[list[str], Demons]:
    n_features = checks.whole_number("n_features", header["n_features"], 1)
    features = _array(arrays, "features", np.dtype(np.float64), (None, n_features))
    rows = len(features)
    entries = header["demons"]
    if not entries:
        raise KeyError("demons")
    demons = Demons(
        n_features, [_demon(e, f"{i}.", arrays, n_features, rows, compile) for i, e in enumerate(entries)], threads
    )
    demons.seen = checks.whole_number("seen", header["seen"], 0)
    demons.rows.keep(features)
    _restore_calendar(demons.calendar, header["calendar"])
    return [str(entry["name"]) for entry in entries], demons


def _restore_calendar(calendar: Calendar, found: Mapping[str, Any]) -> None:
    calendar.number = checks.whole_number("the number of the latest episode", found["number"], -1)
    label = found["label"]
    calendar.label = None if label is None else checks.whole_number("the latest episode", label, -(2**62), 2**62)
    calendar.labelled, calendar.over = bool(found["labelled"]), bool(found["over"])


def _demon(
    entry: Mapping[str, Any], prefix: str, arrays: Arrays, n_features: int, rows: int, compile: bool | None
) -> Demon:
    matrices = {
        name.removeprefix(prefix + "hyper."): a for name, a in arrays.items() if name.startswith(prefix + "hyper.")
    }
    hyper = entry["hyper"] | matrices
    demon = Demon(entry["algorithm"], hyper, n_features, None, entry["seed"], None, compile)
    for name, array in _fixed(demon).items():
        array[...] = _array(arrays, prefix + name, array.dtype, array.shape)
    steps = _array(arrays, prefix + "steps", STEP, (None,)).astype(STEP)
    side = _array(arrays, prefix + "side", np.dtype(np.uint8), (len(steps) if demon.window.has_buffers else 0,))
    unit = _array(arrays, prefix + "unit", np.dtype(np.int64), (len(steps) if len(demon.window.unit) else 0,))
    checks.refuse_where("side", side > 1, side, "must be 0 or 1")
    for end in ("row", "next_row"):
        checks.refuse_where(end, steps[end] >= rows, steps[end], f"must be a row of features, 0 to {rows - 1}")
    counts = demon.run.clock.counts
    checks.refuse_where("counts", counts < 0, counts, "must not be negative")
    given = checks.whole_number("given", entry["given"], len(steps))
    demon.window = Window.restored(demon.setup, demon.seed, given, steps, side, unit)
    demon.diverged_at = checks.whole_number("diverged_at", entry["diverged_at"], -1)
    return demon


def _array(arrays: Arrays, name: str, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """An array of the file, if it is what is expected; None in a shape stands for any length."""
    found = arrays[name]
    fits = len(found.shape) == len(shape) and all(b in (None, a) for a, b in zip(found.shape, shape, strict=True))
    if found.dtype.descr != dtype.descr or not fits:
        raise InputError(
            f"the file's {name} has type {found.dtype} and shape {found.shape}, expected {dtype} and {shape}: "
            "it was written by a version of the algorithm that keeps something else."
        )
    return found
