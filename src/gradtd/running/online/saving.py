"""Saves a learner or a horde in one file, in the format of `gradtd.core.files`.

The file contains the steps for replay, so a loaded learner continues exactly. A file may come from an untrusted source,
so everything that compiled code uses as an index is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.algorithms import ALGORITHMS, as_algorithm
from gradtd.compiled.online import DIVERGED, SEEN
from gradtd.compiled.traces import sparse_rows_at
from gradtd.compiled.vectors import Cleared
from gradtd.core import checks
from gradtd.core.arrays import Integers, entries_under
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, read_arrays, reading, write_arrays
from gradtd.core.stream import STEP, SparseRows
from gradtd.core.stream_arrays import refuse_bad_numbers
from gradtd.running.online.given import EpisodeCounter
from gradtd.running.online.growing_rows import GrowingRows
from gradtd.running.online.online_run import OnlineRun, online_session
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.sparse_rows import SparseTable
from gradtd.running.online.window import Window

MADE_BY = "gradtd learner"
FORMAT = 2
FLOAT = np.dtype(np.float64)
MOST_STEPS = 2**53
"""Maximum number of steps of a learner: below it, counts are exact and do not overflow."""


Contents = tuple[Mapping[str, Any], Arrays]
"""The header and the arrays of a file, or of a pickle."""


def save(path: str | Path, kind: str, names: list[str], queue: StepQueue, more: Contents) -> None:
    """Write a queue, its runs and the learner's other data to a file, atomically."""
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"save: there is no folder {str(target.absolute().parent)!r}.")
    header, arrays = contents(kind, names, queue, more)
    try:
        write_arrays(target, arrays, header)
    except OSError as error:
        raise InputError(f"cannot write {str(target)!r}: {error.strerror}.") from None


def contents(kind: str, names: list[str], queue: StepQueue, more: Contents) -> Contents:
    """The header and the arrays that store a queue, its runs and the learner's other data."""
    queue.work_off()
    queue.note_episodes()
    rows = queue.store(False)
    rows.drop_unused([run.window for run in queue.runs])
    sparse = isinstance(rows, SparseTable)
    for run in queue.runs:
        if run.run is None:
            run.begin(sparse)
    for run, theta in zip(queue.runs, queue.thetas(), strict=True):
        run.weights[0] = theta
    used = _used_rows(queue, rows.size)
    arrays: Arrays = _put_table("features", rows, used)
    header = {
        "made_by": MADE_BY,
        "format": FORMAT,
        "gradtd": version("gradtd"),
        "kind": kind,
        "n_features": queue.n_features,
        "seen": queue.seen,
        "sparse": sparse,
        "episodes": {name: getattr(queue.episodes, name) for name in ("number", "label", "labelled", "over")},
        "runs": [_put_run(arrays, f"{i}.", names[i], run, used) for i, run in enumerate(queue.runs)],
    } | dict(more[0])
    return header, arrays | more[1]


def _used_rows(queue: StepQueue, size: int) -> slice | Integers:
    """The rows used by steps in the file: all of them, unless steps are stored for `standing` only."""
    windows = [run.window for run in queue.runs]
    if not any(window.recent for window in windows):
        return slice(size)
    ends = [window.steps[end][window.held()] for window in windows for end in ("row", "next_row")]
    return np.unique(np.concatenate(ends)).astype(np.int64)


def _put_table(name: str, rows: Any, used: slice | Integers) -> Arrays:
    """Rows of features, or traces, in the form of the file."""
    if not isinstance(rows, GrowingRows):
        return {name: (rows if isinstance(rows, np.ndarray) else rows.table)[used]}
    held = rows.table
    if isinstance(used, slice):
        return {
            f"{name}.data": held.data,
            f"{name}.indices": held.indices,
            f"{name}.begin": held.begin[: rows.size + 1],
        }
    some = sparse_rows_at(held, used)
    return {f"{name}.data": some.data, f"{name}.indices": some.indices, f"{name}.begin": some.begin}


def _sparse_rows(arrays: Arrays, name: str, data: NDArray[Any], rows: int | None, n_features: int) -> SparseRows:
    """Checked sparse rows of a file."""
    indices = _array(arrays, f"{name}.indices", np.dtype(np.uint32), (len(data),))
    begin = _array(arrays, f"{name}.begin", np.dtype(np.int64), (None if rows is None else rows + 1,))
    if not len(begin) or begin[0] != 0 or begin[-1] != len(data) or (begin[1:] < begin[:-1]).any():
        raise InputError(
            f"{name}.begin must increase from 0 to {len(data)}, the number of entries: the file is damaged."
        )
    outside = indices >= n_features
    checks.refuse_where(f"{name}.indices", outside, indices, f"must be a column of features, 0 to {n_features - 1}")
    inside = np.ones(len(data), bool)
    inside[begin[:-1][begin[:-1] < len(data)]] = False  # entries that are not the first of their row
    if (indices[1:] <= indices[:-1])[inside[1:]].any():
        raise InputError(f"{name}.indices must increase along a row: the file is damaged.")
    return SparseRows(data, indices, begin, n_features)


def _traces(arrays: Arrays, name: str, window: Window, steps: int) -> Any:
    """The traces of these steps, stored like the rows."""
    if window.tracer is None:
        return None
    if isinstance(window.traces, GrowingRows):
        data = _array(arrays, f"{name}.data", FLOAT, (None,))  # of any size, because a trace may overflow
        return _sparse_rows(arrays, name, data, steps, window.n_features)
    return _array(arrays, name, FLOAT, (steps, window.n_features))


def _put_run(arrays: Arrays, prefix: str, name: str, run: OnlineRun, rows: slice | Integers) -> dict[str, Any]:
    if ALGORITHMS.get(run.rule.name) is not run.rule:
        raise InputError(f"{run.rule.name} is a custom rule, and gradtd does not save code: save its theta instead.")
    hyper = {}
    for label in run.session.setup.given:
        value = run.session.setup.hyper[label]
        if callable(value):
            raise InputError(f"{label} is a function, and gradtd does not save code: save theta instead.")
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}hyper.{label}"] = value
        else:
            hyper[label] = value
    window, size = run.window, run.window.size
    held = slice(size) if isinstance(rows, slice) else window.held()
    steps = window.steps[held].view(np.ndarray).astype(STEP)
    if not isinstance(rows, slice):
        steps["row"], steps["next_row"] = (np.searchsorted(rows, steps[end]) for end in ("row", "next_row"))
    arrays[prefix + "steps"] = steps
    arrays[prefix + "side"], arrays[prefix + "unit"] = window.side[:size], window.unit[:size]
    if window.tracer:
        arrays.update(_put_table(prefix + "traces", window.traces, held))
    arrays.update({prefix + label: array for label, array in _fixed(run).items()})
    if run.moments is not None:
        arrays.update({f"{prefix}moments.{label}": array for label, array in run.moments.arrays().items()})
    return {
        "name": name,
        "algorithm": run.rule.name,
        "hyper": hyper,
        "seed": run.seed,
        "given": window.given,
        "diverged_at": run.diverged_at,
    }


def settings_of(queue: StepQueue) -> list[Any]:
    """The settings that must be equal for a learner to continue from a file."""
    runs = [
        (r.rule.name, r.seed, r.moments is None, {k: repr(v) for k, v in r.session.setup.hyper.items()})
        for r in queue.runs
    ]
    return [queue.n_features, *runs]


def _fixed(run: OnlineRun) -> Arrays:
    """The arrays of a run whose names and shapes follow from its algorithm and settings."""
    kept = run.run
    if kept is None:
        raise RuntimeError("a run that has not begun has no state")
    state: Arrays = {}
    for name, field in zip(kept.state._fields, kept.state, strict=True):
        state |= _arrays_of(f"state.{name}", field)
    tracer = run.window.tracer
    memory = "largest" if isinstance(run.window.traces, GrowingRows) else "latest"
    names = (memory, "carried", "episode") if tracer else ()
    trace = {f"trace.{name}": getattr(tracer, name) for name in names}
    return state | trace | {"rng": kept.rng, "average": kept.average, "clock": kept.clock, "weights": run.weights}


def _arrays_of(name: str, field: Any) -> Arrays:
    """The stored content of a vector. Empty if the vector is cleared between updates."""
    if isinstance(field, Cleared):
        return {}
    if isinstance(field, np.ndarray):
        return {name: field}
    arrays = {label: part for label, part in field._asdict().items() if isinstance(part, np.ndarray)}
    return {name if label == "values" else f"{name}.{label}": part for label, part in arrays.items()}


def _refuse_other_state(arrays: Arrays, prefix: str, expected: Arrays) -> None:
    """Refuse a file with state arrays that this version does not use, such as the lists of sparse traces."""
    others = {name for name in arrays if name.startswith(prefix + "state.")} - {prefix + name for name in expected}
    if others:
        raise InputError(
            f"the file has {min(others)}: it was written by a version of the algorithm with a different state."
        )


Loaded = tuple[list[str], StepQueue, Mapping[str, Any], Arrays]
"""The names and the queue, then the header and the arrays, which may contain more."""


def load(path: str | Path, kind: str, threads: int, compile: bool | None) -> Loaded:
    """The names and the queue in a file that `save` wrote."""
    with reading(path, f"a file that {kind}.save wrote"):
        return restored(str(path), read_arrays(Path(path)), kind, threads, compile)


def restored(name: str, found: Contents, kind: str, threads: int, compile: bool | None) -> Loaded:
    """The names and the queue in what `contents` returned; ``name`` is their source, for messages."""
    header, arrays = found
    if header["made_by"] != MADE_BY:
        raise KeyError("made_by")
    if header["format"] != FORMAT:
        raise InputError(f"{name!r} has format {header['format']!r}, this version of gradtd reads {FORMAT}.")
    if header["kind"] != kind:
        raise InputError(f"{name!r} contains a {header['kind']}: load it with {header['kind']}.load.")
    return *_restore(header, arrays, threads, compile), header, arrays


def _restore(
    header: Mapping[str, Any], arrays: Arrays, threads: int, compile: bool | None
) -> tuple[list[str], StepQueue]:
    n_features = checks.whole_number("n_features", header["n_features"], 1)
    # checked before anything of that size is allocated
    _array(arrays, "0.state.theta", np.dtype(np.float64), (n_features,))
    sparse = header.get("sparse", False) is True
    features: Any
    if sparse:
        data = _numbers(arrays, "features.data", (None,))
        features = _sparse_rows(arrays, "features", data, None, n_features)
        rows = len(features.begin) - 1
    else:
        features = _numbers(arrays, "features", (None, n_features))
        rows = len(features)
    entries = list(header["runs"])
    names = [str(entry["name"]) for entry in entries]
    if not names or len(set(names)) < len(names):
        raise KeyError("runs")
    seen = checks.whole_number("seen", header["seen"], 0, MOST_STEPS)
    queue = StepQueue(
        n_features,
        [_run(e, f"{i}.", arrays, n_features, rows, sparse, compile) for i, e in enumerate(entries)],
        threads,
        compile,
    )
    queue.kind = (features.data if sparse else features).dtype.type
    held: Any = queue.store(sparse)
    for run in queue.runs:
        if run.window.given > seen or (run.diverged_at < 0 and run.window.given < seen):
            raise InputError(f"the file's run was given {run.window.given} steps of {seen}: it is damaged.")
    queue.counts[SEEN] = seen
    held.keep(features)
    _restore_episodes(queue.episodes, header["episodes"])
    return names, queue


def _restore_episodes(episodes: EpisodeCounter, found: Mapping[str, Any]) -> None:
    number = checks.whole_number("the number of the latest episode", found["number"], -1, MOST_STEPS)
    label = found["label"]
    label = None if label is None else checks.whole_number("the latest episode", label, -(2**62), 2**62)
    episodes.restore(number, label, bool(found["labelled"]), bool(found["over"]))


def _run(
    entry: Mapping[str, Any],
    prefix: str,
    arrays: Arrays,
    n_features: int,
    rows: int,
    sparse: bool,
    compile: bool | None,
) -> OnlineRun:
    hyper = entry["hyper"] | entries_under(arrays, prefix + "hyper.")
    _refuse_larger_state(entry["algorithm"], hyper, n_features, sparse, arrays)
    intervals = f"{prefix}moments.A" in arrays
    more: Any = {"seed": entry["seed"], "theta0": None, "compile": compile, "intervals": intervals}
    run = OnlineRun(entry["algorithm"], hyper, n_features, capacity=None, **more)
    if sparse and not run.keeps_sparse:
        raise InputError(f"the file's rows are sparse, but {run.rule.name} with its settings reads only dense ones.")
    run.begin(sparse)
    _refuse_other_state(arrays, prefix, _fixed(run))
    for name, array in _fixed(run).items():
        array[...] = _array(arrays, prefix + name, array.dtype, array.shape)
    steps = _array(arrays, prefix + "steps", STEP, (None,)).astype(STEP)
    refuse_bad_numbers({label: steps[label] for label in ("reward", "discount", "rho")})
    side = _array(arrays, prefix + "side", np.dtype(np.uint8), (len(steps) if run.window.has_buffers else 0,))
    unit = _array(arrays, prefix + "unit", np.dtype(np.int64), (len(steps) if len(run.window.unit) else 0,))
    traces = _traces(arrays, prefix + "traces", run.window, len(steps))
    checks.refuse_where("side", side > 1, side, "must be 0 or 1")
    for end in ("row", "next_row"):
        checks.refuse_where(end, steps[end] >= rows, steps[end], f"must be a row of features, 0 to {rows - 1}")
    given = checks.whole_number("given", entry["given"], len(steps), MOST_STEPS)
    run.window.counts[DIVERGED] = checks.whole_number("diverged_at", entry["diverged_at"], -1, given)
    _check_counts(run, given, len(steps))
    run.window.restore(given, steps, side, unit, traces)
    if run.moments is not None:
        found = {label: arrays[f"{prefix}moments.{label}"] for label in run.moments.arrays()}
        run.moments.restore(found, given if run.diverged_at < 0 else None)
    return run


def _check_counts(run: OnlineRun, given: int, held: int) -> None:
    """Check that the step count is consistent, and that a run without buffers holds the latest steps."""
    clock: Any = _fixed(run)["clock"]
    for count in ("updates", "averaged", "taken"):
        outside = (clock[count] < 0) | (clock[count] > given)
        checks.refuse_where(count, outside, clock[count], f"must lie in 0 to {given}, the number of steps")
    if run.diverged_at >= 0:
        if held:
            raise InputError(f"the file's run has diverged and holds {held} steps: it is damaged.")
        return
    checks.refuse_where("seen", clock["seen"] != given, clock["seen"], f"must be {given}, the number of steps")
    latest = min(given, run.window.keeps)
    if not run.window.has_buffers and held != latest:
        raise InputError(f"the file's run holds {held} of its latest {latest} steps: it is damaged.")


def _refuse_larger_state(
    algorithm: str, hyper: Mapping[str, Any], n_features: int, sparse: bool, arrays: Arrays
) -> None:
    """Check sizes before allocating: a rule's state is never larger than the file."""
    needed = online_session(as_algorithm(algorithm), hyper, None, None).state_bytes(n_features, sparse=sparse)
    if needed > sum(array.nbytes for array in arrays.values()):
        raise KeyError("state")


def _numbers(arrays: Arrays, name: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Finite numbers of the file, in float32 or float64."""
    kind = checks.stored_kind(arrays[name].dtype)
    return checks.finite_array(name, _array(arrays, name, np.dtype(kind), shape), len(shape), narrow=True)


def _array(arrays: Arrays, name: str, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """An array of the file with the expected type and shape. None in a shape means any length."""
    found = arrays[name]
    fits = len(found.shape) == len(shape) and all(b in (None, a) for a, b in zip(found.shape, shape, strict=True))
    if found.dtype.descr != dtype.descr or not fits:
        raise InputError(
            f"the file's {name} has type {found.dtype} and shape {found.shape}, expected {dtype} and {shape}: it "
            f"was written by a version of the algorithm with a different state."
        )
    return found
