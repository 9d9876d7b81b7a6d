"""Algorithms of the library fitted to a whole log, and refitted on resampled episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtd.algorithms import as_algorithm
from gradtd.compiled.buffers import Seed
from gradtd.compiled.plan import room_for
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.executors import for_each, n_threads
from gradtd.core.progress import Progress
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import Resamples, resampled
from gradtd.evaluation.estimators.least_squares import Sums, start_features
from gradtd.running.session import Session
from gradtd.running.settings import Setup

UPDATES = 5_000
"""Number of updates of a first fit, if one pass over the log makes fewer."""
MOST = 32
"""A fit whose value still changes is repeated with twice the updates, up to this many times those of the first fit."""
MOST_WORK = 2e9
"""Maximum count of numbers that all updates of a fit read; for a refit, half of it."""
STILL = 0.1
"""A fit has converged if the second half of its updates moved the value by less than this share of its error."""
NEAR = 0.25
"""It must also be within this number of standard errors of the least-squares solution, because an algorithm can stall
far away."""
STILL_REFIT = 0.2
"""The same for a refit, which starts from the weights of the fit and is therefore closer to the solution."""
SMALLEST, LARGEST = 32, 512
"""Bounds of the batch size if it is not given. Larger batches cost more time than the lower noise saves."""
NOISE, REFIT_NOISE = 1 / 32, 1 / 8
"""Shares of the variance of an estimate that drawing batches may add, in a fit and in a refit."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Weights of an algorithm on a log after ``updates`` updates (``fixed``: the user gave the number).

    ``moved`` is the change of the value in the second half of them.
    """

    theta: Floats
    updates: int
    moved: float
    diverged: bool
    fixed: bool
    session: Session

    @property
    def told(self) -> dict[str, Any]:
        """The given hyper-parameters that can be printed: numbers and strings."""
        return {name: value for name, value in self.session.given.items() if isinstance(value, (int, float, str))}


def batches(setup: Setup) -> bool:
    """Whether an algorithm draws batches from its buffers, so that it can start with the whole log in them."""
    return setup.draws.batches and not setup.algorithm.stored


def suited(rule: Algorithm | str, hyper: Mapping[str, Any], found: Sums) -> dict[str, Any]:
    """Hyper-parameters that suit a complete log, with those given by the user.

    They are for algorithms that draw two batches, such as Impression GTD. Given a complete log, two draws from it are
    independent. With one buffer the mean update is the gradient of the log's own NEU, A'(A theta + b), which is always
    stable. With two halves it would be A1'(A2 theta + b2): its solution uses only half of the log, and A1'A2 need not
    be positive definite. A batch is large enough that the A of two of them is more signal than noise, which allows
    longer steps.
    """
    if as_algorithm(rule).draws != "two batches":
        return dict(hyper)
    signal = float((found.A * found.A).sum())
    size = np.exp2(np.round(np.log2(4.0 * found.square / signal))) if signal > 0 else LARGEST
    room = max(1, found.steps // 2)  # a short log and its resamples must still fill a batch
    return {"split": "none", "batch_size": min(int(np.clip(size, SMALLEST, LARGEST)), room)} | dict(hyper)


def fit_rule(
    stream: Stream,
    rule: Algorithm | str,
    hyper: Mapping[str, Any],
    *,
    start: Floats,
    near: float,
    error: float,
    seed: int,
    updates: int | None = None,
) -> Fit:
    """Learn from a whole log until the value of the start states stops changing.

    ``start`` contains the mean features of the start states, ``near`` their value by least squares and ``error`` its
    standard error: a fit that stalls elsewhere also continues. ``updates`` fixes the number of steps instead. A fit
    ends when it has read ``MOST_WORK`` numbers.
    """
    session = Session(rule, hyper, n_steps=len(stream))
    setup = session.setup
    _refuse_what_needs_a_stream(setup, updates)
    count = updates or first_count(stream, setup)

    def still(theta: Floats, half: Floats) -> bool:
        arrived = abs(float(start @ theta) - near) <= NEAR * error
        return arrived and abs(float(start @ (theta - half))) <= STILL * error

    most = 1.0 if updates else min(MOST, _affordable(stream, setup, MOST_WORK) / count)
    found = _until(still, session, stream, np.zeros(stream.n_features), (seed, 0), count, most)
    moved = abs(float(start @ (found.theta - found.half)))
    return Fit(found.theta, found.updates, moved, found.diverged, updates is not None, session)


def _refuse_what_needs_a_stream(setup: Setup, updates: int | None) -> None:
    """Refuse rules and settings for a stream that is read once, since a complete log is read many times."""
    name = setup.algorithm.name
    if setup.algorithm.stored and updates is not None:
        raise InputError(f"{name} takes one pass over a log, got n_updates={updates}: leave it out.")
    if setup.hyper.get("capacity") is not None:
        raise InputError(
            f"{name} has the whole log in its buffers, and capacity={setup.hyper['capacity']} would leave only "
            "the last steps. Leave capacity out."
        )


def first_count(stream: Stream, setup: Setup, noise: float = NOISE) -> int:
    """Number of steps of a first fit: several passes over the log, or enough batches to keep the noise of drawing
    small."""
    n = len(stream)
    if setup.algorithm.stored:
        return n
    if batches(setup):
        return max(UPDATES, int(n / (2 * min(setup.m1, setup.m2 or setup.m1) * noise)))
    return n * max(1, -(-UPDATES // n))


def _affordable(stream: Stream, setup: Setup, work: float) -> float:
    """Number of updates that read ``work`` numbers."""
    return work / (max(setup.m1, 1) * stream.n_features)


def refit_rule(
    stream: Stream,
    begins: Integers,
    resamples: Resamples,
    fitted: Fit,
    *,
    error: float,
    seed: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Floats:
    """The value of the start states by the algorithm refitted on every bootstrap sample, starting from the weights of
    the fit.

    A refit whose value still changes is repeated with twice the updates, up to those of the fit. NaN if it failed.
    """
    values = np.full(len(resamples), np.nan)

    def work(r: int) -> None:
        again, unit = resampled(stream, begins, resamples.of_episodes(r))
        mean = np.asarray(start_features(again, again.begins).mean(axis=0)).ravel()
        setup = fitted.session.setup
        count = fitted.updates if fitted.fixed else first_count(again, setup, REFIT_NOISE)
        most = min(fitted.updates, _affordable(again, setup, MOST_WORK / 2)) / count

        def still(theta: Floats, half: Floats) -> bool:
            return abs(float(mean @ (theta - half))) <= STILL_REFIT * error

        try:
            found = _until(still, fitted.session, again, fitted.theta, (seed, r + 1), count, most, unit)
        # the hyper-parameters are valid, but the bootstrap sample has too few episodes for two buffers
        except InputError:
            return
        if not found.diverged:
            values[r] = mean @ found.theta

    for_each(work, len(resamples), n_threads(threads), progress)
    return values


class Run(NamedTuple):
    """Weights after ``updates`` steps and after half of them."""

    theta: Floats
    half: Floats
    diverged: bool
    updates: int


def _until(
    still: Callable[[Floats, Floats], bool],
    session: Session,
    stream: Stream,
    theta0: Floats,
    seed: Seed,
    count: int,
    most: float,
    unit: Integers | None = None,
) -> Run:
    """Run an algorithm for ``count`` steps, then double their number until its value stops changing or ``most`` times
    as many steps are reached."""
    largest = most * count
    while True:
        wanted = room_for(np.array([count // 2, count]), stream.n_features)
        # Tail averages begin at half of the steps, so a fit with twice as many starts from the beginning.
        lasting = session.lasting(count)
        step = lasting.over(stream, theta0, seed, wanted, count=count, unit=unit, filled=batches(lasting.setup))
        run = Run(wanted.thetas[1], wanted.thetas[0], step >= 0, count)
        once = run.diverged or session.setup.algorithm.stored
        if once or still(run.theta, run.half) or 2 * count > largest:
            return run
        count *= 2
