"""Many seeds, many settings: `learn`, `run` and `sweep`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from threading import Event, Lock
from typing import Any, NamedTuple

import numpy as np

from gradtd import checks, splitmix
from gradtd.algorithms import as_algorithm
from gradtd.buffers import Buffers, filled_after, make_buffers
from gradtd.checks import InputError, NeverLearnsError
from gradtd.loop import Clock, compile_run, new_clock
from gradtd.problems import as_problem
from gradtd.records import record
from gradtd.settings import Setup, set_up
from gradtd.stream import sampler
from gradtd.types import Algorithm, Batch, Floats, Integers, Problem, Result, Stream, StreamView, Words

Snapshots = int | Iterable[int] | None
Progress = Callable[[int, int], None]


def learn(
    stream: Stream,
    algorithm: Algorithm | str,
    *,
    seed: int = 0,
    snapshots: Snapshots = None,
    theta0: Any = None,
    passes: int = 1,
    compile: bool | None = None,
    **hyper: Any,
) -> Result:
    """Run one algorithm over one stream in the order of its steps, ``passes`` times.

    ``snapshots`` is a list of step numbers, or n for every n steps (by default a hundred, the last step among
    them); the snapshot at step k is taken after k steps were seen. ``seed`` fixes the batches that are drawn.
    In a second pass the buffers hold the whole stream from its first step on.

    >>> import gradtd
    >>> stream = gradtd.sample("boyan_chain", 3000)
    >>> result = gradtd.learn(stream, "impression_gtd", alpha=5, batch_size=16)
    >>> result.theta.round()
    array([-24., -16.,  -8.,  -0.])
    """
    if not isinstance(stream, Stream):
        raise InputError(f"stream must be a Stream (see Stream.from_arrays), got {type(stream).__name__}.")
    rule = as_algorithm(algorithm)
    passes = checks.whole_number("passes", passes, 1)
    at = _snapshot_steps(snapshots, passes * len(stream))
    setup = set_up(rule, hyper, n_steps=passes * len(stream), block=None)
    if passes > 1 and (setup.algorithm.stored or hyper.get("capacity") is not None):
        what = "with a bounded buffer" if hyper.get("capacity") is not None else "already, as often as it needs"
        raise InputError(
            f"{rule.name} reads stored steps {what}: it takes one pass over a stream, got passes={passes}."
        )
    if setup.algorithm.dense_only and not isinstance(stream.features, np.ndarray):
        raise InputError(f"{rule.name} as set here needs dense features, but those of {stream.name} are sparse.")
    start = start_weights(theta0, np.zeros(stream.n_features))
    kernel = compile_run(setup.algorithm, setup.split, compile=compile)
    thetas, alphas = np.empty((len(at), stream.n_features)), np.empty(len(at))
    seed = checks.whole_number("seed", seed, 0)
    diverged_at = run_once(kernel, setup, stream, start, seed, 0, at, thetas, alphas, count=passes * len(stream))
    return _result(thetas, alphas, at, np.array([diverged_at]), stream, rule, setup, seed)


def run(
    problem: Problem | str,
    algorithm: Algorithm | str,
    *,
    runs: int = 100,
    steps: int = 10_000,
    seed: int = 0,
    snapshots: Snapshots = None,
    threads: int | None = None,
    theta0: Any = None,
    progress: Progress | None = None,
    compile: bool | None = None,
    **hyper: Any,
) -> Result:
    """Run one algorithm on a problem for many seeds; run r of a seed sees the same data for every algorithm.

    A run whose buffers never fill keeps its start weights; where that is so for all, it is an error.
    The result does not depend on ``threads``. ``progress(done, total)`` is called after every run.

    >>> import gradtd
    >>> result = gradtd.run("random_walk_tabular", "td", alpha=1/32, runs=10, steps=5000, snapshots=[1000, 5000])
    >>> result.thetas.shape
    (10, 2, 5)
    >>> gradtd.measure(result, "rmsve").mean(axis=0) < 0.4
    array([ True,  True])
    """
    return sweep(
        problem, algorithm, {}, runs=runs, steps=steps, seed=seed, snapshots=snapshots, threads=threads,
        theta0=theta0, progress=progress, compile=compile, **hyper,
    )[0]  # fmt: skip


def sweep(
    problem: Problem | str,
    algorithm: Algorithm | str,
    grid: Mapping[str, Sequence[Any]],
    *,
    runs: int = 100,
    steps: int = 10_000,
    seed: int = 0,
    snapshots: Snapshots = None,
    threads: int | None = None,
    theta0: Any = None,
    progress: Progress | None = None,
    compile: bool | None = None,
    **hyper: Any,
) -> list[Result]:
    """`run` for every combination of the values in ``grid``, sharing the threads; results in grid order.

    >>> import gradtd
    >>> results = gradtd.sweep("boyan_chain", "td", {"alpha": [1/32, 1/16]}, runs=2, steps=100)
    >>> [r.hyper["alpha"] for r in results]
    [0.03125, 0.0625]
    """
    task, rule = as_problem(problem), as_algorithm(algorithm)
    runs, steps = checks.whole_number("runs", runs, 1), checks.whole_number("steps", steps, 1)
    seed = checks.whole_number("seed", seed, 0)
    workers = (os.cpu_count() or 1) if threads is None else checks.whole_number("threads", threads, 1)
    at = _snapshot_steps(snapshots, steps)
    _check_grid(grid, hyper)
    start = start_weights(theta0, task.theta0)
    setups = [
        set_up(
            rule, hyper | dict(zip(grid, values, strict=True)),
            n_steps=steps, block=task.block,
        )
        for values in itertools.product(*grid.values())
    ]  # fmt: skip
    kernels = [compile_run(setup.algorithm, setup.split, compile=compile) for setup in setups]
    draw_stream = sampler(task, compile)
    thetas = np.empty((len(setups), runs, len(at), task.n_features))
    alphas = np.full(thetas.shape[:3], np.nan)
    diverged_at = np.full((len(setups), runs), -1)

    idle: dict[tuple[int, int], NeverLearnsError] = {}

    def work(r: int) -> None:
        stream = draw_stream(steps, seed, r)
        for s, (setup, kernel) in enumerate(zip(setups, kernels, strict=True)):
            try:
                diverged_at[s, r] = run_once(kernel, setup, stream, start, seed, r, at, thetas[s, r], alphas[s, r])
            except NeverLearnsError as error:
                idle[s, r], thetas[s, r] = error, start

    for_each(work, runs, workers, progress)
    for s in range(len(setups)):
        if all((s, r) in idle for r in range(runs)):
            raise idle[s, 0]
    return [
        _result(thetas[s], alphas[s], at, diverged_at[s], task, rule, setup, seed) for s, setup in enumerate(setups)
    ]


def run_once(
    kernel: Any,
    setup: Setup,
    stream: Stream,
    start: Floats,
    seed: int,
    run: int,
    at: Integers,
    out: Floats,
    alphas: Floats,
    *,
    count: int | None = None,
    unit: Integers | None = None,
    filled: bool = False,
) -> int:
    """One run over one stream; fills ``out`` and ``alphas`` at the snapshots, returns the step of divergence or -1.

    ``count`` is the number of steps, where it is not one pass over the stream. ``unit`` numbers the independent
    pieces that the two buffers must not share, where those are not the episodes. ``filled``: the buffers hold the whole
    stream from the first step on.
    """
    steps = len(stream) if count is None else count
    hyper = setup.hyper
    buffers = make_buffers(
        stream,
        setup.split,
        (seed, run),
        block=hyper.get("block"),
        capacity=hyper.get("capacity"),
        replacement=setup.plan.replacement,
        fill=(setup.plan.fill_1, setup.plan.fill_2),
        unit=unit,
    )
    if filled and len(buffers.members):
        buffers.arrived[:] = buffers.begin[1], len(stream) - buffers.begin[1]
    if setup.algorithm.watches:
        _refuse_too_short(stream, steps, 0 if filled else filled_after(buffers, setup.plan, setup.split), setup)
    begun = new_run(setup, start, seed, run, len(stream))
    return drive(kernel, setup, begun, stream.view, buffers, at, out, alphas, 0, steps)


class Run(NamedTuple):
    """What a run keeps besides its stream and its buffers: `drive` goes on from where it stands."""

    state: Any
    numbers: Any
    first: Batch
    second: Batch
    rng: Words
    average: Floats
    clock: Clock


def new_run(setup: Setup, start: Floats, seed: int, run: int, n_steps: int = 0) -> Run:
    """A run that has not begun; rules that read stored steps by their number are told how many there will be."""
    own = setup.algorithm.init(len(start), {**setup.hyper, "n_steps": n_steps})
    return Run(
        state=record(theta=start.copy(), **own),
        numbers=record(**setup.numbers),
        first=np.zeros(setup.m1, np.uint32),
        second=np.zeros(setup.m2, np.uint32),
        rng=splitmix.seeded(seed, run, splitmix.DRAWS) if setup.m1 else np.zeros(1, np.uint64),
        average=np.zeros(len(start)),
        clock=new_clock(),
    )


def drive(
    kernel: Any,
    setup: Setup,
    run: Run,
    stream: StreamView,
    buffers: Buffers,
    at: Integers,
    out: Floats,
    alphas: Floats,
    begin: int,
    count: int,
) -> int:
    """Take ``count`` steps of a stream from ``begin`` on; returns the step of divergence or -1."""
    return int(
        kernel(
            stream, buffers, run.rng, run.state, run.numbers, setup.plan, run.first, run.second, at, run.average, out,
            alphas, run.clock, begin, count,
        )
    )  # fmt: skip


def _refuse_too_short(stream: Stream, steps: int, filled_at: int, setup: Setup) -> None:
    """A rule that watches before it learns needs a longer stream than one that does not."""
    left = steps - max(setup.plan.start, filled_at)
    watches = setup.algorithm.watches
    if left <= watches:
        raise NeverLearnsError(
            f"alpha='auto' watches {watches} pairs of batches before its first update, and {stream.name} with its "
            f"{steps} steps has {max(left, 0)}: take more steps, a smaller batch, or give alpha a number."
        )


def _result(
    thetas: Floats,
    alphas: Floats,
    at: Integers,
    diverged_at: Integers,
    source: Problem | Stream,
    rule: Algorithm,
    setup: Setup,
    seed: int,
) -> Result:
    hyper = {name: value for name, value in setup.hyper.items() if value is not None}
    return Result(
        thetas, at, diverged_at, source.name, rule.name, hyper, setup.given, seed, _versions(), source, alphas
    )  # fmt: skip


def for_each(work: Callable[[int], None], runs: int, threads: int, progress: Progress | None) -> None:
    """Do run 0 here, so that it compiles once; then every thread takes the next run until none is left.

    An error, or Ctrl-C, lets every thread finish the run it is at, and no more.
    """
    waiting = iter(range(1, runs))
    stop = Event()
    finished = itertools.count(1)
    lock = Lock()

    def report() -> None:
        with lock:
            done = next(finished)
            if progress:
                progress(done, runs)

    def take_turns() -> None:
        for r in waiting:
            if stop.is_set():
                return
            work(r)
            report()

    work(0)
    report()
    if threads == 1:
        take_turns()
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for future in [pool.submit(take_turns) for _ in range(threads)]:
                future.result()
        finally:
            stop.set()


def _snapshot_steps(snapshots: Snapshots, steps: int) -> Integers:
    if snapshots is None:
        return np.unique(np.ceil(np.linspace(steps / 100, steps, 100)).astype(np.int64))
    if not isinstance(snapshots, Iterable):
        every = checks.whole_number("snapshots", snapshots, 1, steps)
        return np.arange(every, steps + 1, every, dtype=np.int64)
    at = [checks.whole_number("a snapshot", k, 0, steps) for k in snapshots]
    if not at or any(b <= a for a, b in itertools.pairwise(at)):
        raise InputError(f"snapshots must be step numbers in increasing order, got {at}.")
    return np.array(at, np.int64)


def _check_grid(grid: Any, hyper: Mapping[str, Any]) -> None:
    if not isinstance(grid, Mapping):
        raise InputError(f"grid must map names to lists of values, for example {{'alpha': [0.1, 0.2]}}; got {grid!r}.")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Iterable) or not list(values):
            raise InputError(f"grid[{name!r}] must be a list of values, got {values!r}.")
        if name in hyper:
            raise InputError(f"{name} is given twice, in the grid and beside it.")


def start_weights(theta0: Any, default: Floats) -> Floats:
    if theta0 is None:
        return default
    weights = checks.finite_array("theta0", theta0, 1)
    if weights.shape != default.shape:
        raise InputError(f"theta0 needs {len(default)} entries, got {len(weights)}.")
    return weights


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("gradtd", "numpy", "numba")}
