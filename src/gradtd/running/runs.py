"""`learn` (one stream), `run` (many seeds) and `sweep` (many settings)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from gradtd.algorithms import as_algorithm
from gradtd.compiled.buffers import Seed
from gradtd.compiled.plan import Snapshots, room_for
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError, NeverLearnsError
from gradtd.core.executors import for_each, n_threads
from gradtd.core.progress import Progress, progress_bar
from gradtd.core.stream import Stream
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.problems.simulate import sampler
from gradtd.running.result import Result
from gradtd.running.session import Session

log = logging.getLogger(__name__)
Steps = int | Iterable[int] | None


def learn(
    stream: Stream,
    algorithm: Algorithm | str,
    *,
    seed: int = 0,
    snapshots: Steps = None,
    theta0: Any = None,
    passes: int = 1,
    compile: bool | None = None,
    **hyper: Any,
) -> Result:
    """Run one algorithm over one stream in the order of its steps.

    Parameters
    ----------
    stream : Stream
        The experience to learn from; see `Stream.from_arrays`, `gradtd.sample` and `gradtd.log_stream`.
    algorithm : Algorithm or str
        The rule, or its name in `gradtd.ALGORITHMS`.
    **hyper
        The hyper-parameters of the rule, for example ``alpha=0.1``; ``gradtd list NAME`` shows them.
    snapshots : int or list of int, optional
        Step numbers after which the weights are recorded, or n for every n steps. By default a hundred snapshots,
        including the last step.
    passes : int
        Number of passes through the stream. From the second pass on, the buffers hold all of it.
    seed : int
        Seed of the batches that are drawn.
    theta0 : array, optional
        Initial weights, by default zeros.
    compile : bool, optional
        False runs plain Python, which is slow but can be debugged.

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
    count = passes * len(stream)
    at = snapshot_steps(snapshots, count)
    session = Session(rule, hyper, n_steps=count, compile=compile)
    _refuse_passes(session, passes)
    session.refuse_sparse(stream)
    session.refuse_many_features(stream.n_features)
    start = start_weights(theta0, np.zeros(stream.n_features))
    wanted = room_for(at, stream.n_features)
    seed = checks.seed_number(seed)
    log.info("%s over %s: %d steps", rule.name, stream.name, count)
    diverged_at = session.over(stream, start, (seed, 0), wanted, count=count)
    return _result(session, stream, seed, wanted, np.array([diverged_at]))


def run(
    problem: Problem | str,
    algorithm: Algorithm | str,
    *,
    runs: int = 100,
    steps: int = 10_000,
    seed: int = 0,
    snapshots: Steps = None,
    threads: int | None = None,
    theta0: Any = None,
    progress: bool | Progress | None = None,
    compile: bool | None = None,
    **hyper: Any,
) -> Result:
    """Run one algorithm on a problem for many seeds. Run r of a seed sees the same data for every algorithm.

    A run whose buffers never fill keeps its initial weights. If that happens in all runs, gradtd raises an error.

    Parameters
    ----------
    problem : Problem or str
        The problem, or its name in `gradtd.PROBLEMS`, with optional parameters: ``"garnet:states=50,seed=3"``.
    algorithm : Algorithm or str
        The rule, or its name in `gradtd.ALGORITHMS`.
    **hyper
        The hyper-parameters of the rule, for example ``alpha=0.1``; ``gradtd list NAME`` shows them.
    runs : int
        Number of independent runs.
    steps : int
        Number of steps per run.
    seed : int
        The data of a run depend only on this seed and on the number of the run.
    snapshots : int or list of int, optional
        Step numbers after which the weights are recorded, or n for every n steps; by default a hundred snapshots.
    theta0 : array, optional
        Initial weights, by default the problem's.
    threads : int, optional
        By default one for each core. The result does not depend on it.
    progress : bool or callable, optional
        By default a bar is shown on a terminal and in a notebook once the work has taken a second. True shows it at
        once, False never. A function is called as ``progress(done, total)`` after every run.
    compile : bool, optional
        False runs plain Python.

    >>> import gradtd
    >>> result = gradtd.run("random_walk_tabular", "td", alpha=1/32, runs=10, steps=5000, snapshots=[1000, 5000])
    >>> result.thetas.shape
    (10, 2, 5)
    >>> gradtd.measure(result, "rmsve").mean(axis=0) < 0.4
    array([ True,  True])
    """
    return sweep(
        problem,
        algorithm,
        {},
        runs=runs,
        steps=steps,
        seed=seed,
        snapshots=snapshots,
        threads=threads,
        theta0=theta0,
        progress=progress,
        compile=compile,
        **hyper,
    )[0]


def sweep(
    problem: Problem | str,
    algorithm: Algorithm | str,
    grid: Mapping[str, Sequence[Any]],
    *,
    runs: int = 100,
    steps: int = 10_000,
    seed: int = 0,
    snapshots: Steps = None,
    threads: int | None = None,
    theta0: Any = None,
    progress: bool | Progress | None = None,
    compile: bool | None = None,
    **hyper: Any,
) -> list[Result]:
    """`run` for every combination of the values in a grid, sharing the threads; results in grid order.

    Parameters
    ----------
    problem, algorithm
        As in `gradtd.run`.
    grid : dict
        Lists of values by the name of a hyper-parameter, for example ``{"alpha": [0.1, 0.2]}``.
    **hyper
        The hyper-parameters that all combinations share.
    runs, steps, seed, snapshots, threads, theta0, progress, compile
        As in `gradtd.run`.

    >>> import gradtd
    >>> results = gradtd.sweep("boyan_chain", "td", {"alpha": [1/32, 1/16]}, runs=2, steps=100)
    >>> [r.hyper["alpha"] for r in results]
    [0.03125, 0.0625]
    """
    task, rule = as_problem(problem), as_algorithm(algorithm)
    runs, steps = checks.whole_number("runs", runs, 1), checks.whole_number("steps", steps, 1)
    seed, workers = checks.seed_number(seed), n_threads(threads)
    at = snapshot_steps(snapshots, steps)
    _check_grid(grid, hyper)
    start = start_weights(theta0, task.theta0)
    settings = [hyper | dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    sessions = [Session(rule, each, n_steps=steps, block=task.block, compile=compile) for each in settings]
    draw_stream = sampler(task, compile)
    thetas = np.empty((len(sessions), runs, len(at), task.n_features))
    alphas = np.full(thetas.shape[:3], np.nan)
    diverged_at = np.full((len(sessions), runs), -1)
    idle: dict[tuple[int, int], NeverLearnsError] = {}

    def work(r: int) -> None:
        # All settings share the data of run r, so differences are paired and sampling is done once.
        stream = draw_stream(steps, seed, r)
        for s, session in enumerate(sessions):
            wanted = Snapshots(at, thetas[s, r], alphas[s, r])
            diverged_at[s, r], never = attempt(session, stream, start, (seed, r), wanted)
            if never is not None:
                idle[s, r] = never

    log.info("%s on %s: settings %d, runs of each %d, steps %d", rule.name, task.name, len(sessions), runs, steps)
    with progress_bar(f"{rule.name} on {task.name}", progress=progress) as report:
        for_each(work, runs, workers, report)
    log.info("%s on %s: done, %d of %d runs diverged", rule.name, task.name, (diverged_at >= 0).sum(), diverged_at.size)
    for s in range(len(sessions)):
        if all((s, r) in idle for r in range(runs)):
            raise idle[s, 0]
    return [
        _result(session, task, seed, Snapshots(at, thetas[s], alphas[s]), diverged_at[s])
        for s, session in enumerate(sessions)
    ]


def attempt(
    session: Session, stream: Stream, start: Floats, seed: Seed, wanted: Snapshots
) -> tuple[int, NeverLearnsError | None]:
    """One run over a stream: the step of divergence or -1. If it never learns, it keeps its initial weights."""
    try:
        return session.over(stream, start, seed, wanted), None
    except NeverLearnsError as error:
        wanted.thetas[:] = start
        return -1, error


def _result(session: Session, source: Problem | Stream, seed: int, found: Snapshots, diverged_at: Integers) -> Result:
    return Result(
        thetas=found.thetas,
        steps=found.at,
        diverged_at=diverged_at,
        problem=source.name,
        algorithm=session.rule.name,
        hyper={name: value for name, value in session.setup.hyper.items() if value is not None},
        given=session.setup.given,
        seed=seed,
        versions={name: version(name) for name in ("gradtd", "numpy", "numba")},
        source=source,
        alphas=found.alphas,
    )


def _refuse_passes(session: Session, passes: int) -> None:
    """Refuse several passes for a rule that reads stored steps, or with a bounded buffer."""
    bounded = session.setup.hyper.get("capacity") is not None
    if passes > 1 and (session.setup.algorithm.stored or bounded):
        what = "from a bounded buffer" if bounded else "as often as it needs"
        raise InputError(
            f"{session.rule.name} reads stored steps {what}: it takes one pass over a stream, got passes={passes}."
        )


def snapshot_steps(snapshots: Steps, steps: int) -> Integers:
    """The steps after which weights are recorded, checked. By default, a hundred of them."""
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
            raise InputError(f"{name} is given twice, in the grid and as a fixed parameter.")


def start_weights(theta0: Any, default: Floats) -> Floats:
    """The initial weights, checked."""
    if theta0 is None:
        return default
    weights = checks.finite_array("theta0", theta0, 1)
    if weights.shape != default.shape:
        raise InputError(f"theta0 needs {len(default)} entries, got {len(weights)}.")
    return weights
