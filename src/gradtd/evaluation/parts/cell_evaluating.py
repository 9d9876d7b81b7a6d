"""A log with many states in parts: its steps go to a file, and the checks of cells read them from there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.executors import Executor
from gradtd.core.progress import StageProgress
from gradtd.evaluation.estimators.bootstrap import poisson_weights, student_interval
from gradtd.evaluation.estimators.methods import RESAMPLES, ROUNDING, histogram
from gradtd.evaluation.estimators.solvers import SparseSolver
from gradtd.evaluation.estimators.whitening import condition
from gradtd.evaluation.parts.answer import Answer, evaluation_of
from gradtd.evaluation.parts.cell_sums import Looking, StoredTraces, Weighed, cell_sums, look, time_of, weigh
from gradtd.evaluation.parts.cell_table import CellWide
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.judging import effective_of_times, first_of_tenths, robust_of
from gradtd.evaluation.parts.pair_cells import PairCells
from gradtd.evaluation.parts.step_file import Block, StepFile, joined, taken
from gradtd.evaluation.parts.sums import Sums, add_chunk, nothing_but_numbers
from gradtd.evaluation.report.estimate import AUTO, Estimate
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.settings import ACTION, Settings
from gradtd.evaluation.trust.cells import Sums as CellSums
from gradtd.evaluation.trust.cells import fits_from
from gradtd.evaluation.trust.checking import LEAST_TRACE, PRODUCTS, Fits, other_lambda
from gradtd.evaluation.trust.clock import clock_of
from gradtd.evaluation.trust.deciding import Decision, decide_from
from gradtd.evaluation.trust.fits import Fit
from gradtd.evaluation.trust.records import Record, Wide
from gradtd.logs.parts import Part, Survey


def evaluate_cells(
    job: Job, seen: Survey, settings: Settings, notes: list[str], crew: Executor, progress: StageProgress | None
) -> Evaluation:
    """The value, its interval and its checks, as for cells in memory."""
    with tempfile.TemporaryDirectory(prefix="gradtd-") as folder:
        log = _CellLog(job, seen, crew, progress, Path(folder))
        return _evaluated(log, settings, notes)


class _CellLog:
    """The steps of the log in a file, and the sums that need no features."""

    def __init__(self, job: Job, seen: Survey, crew: Executor, progress: StageProgress | None, folder: Path) -> None:
        first = first_of_tenths(job.groups)
        parts, done = seen.parts(), 0
        assert isinstance(job.wide, CellWide)
        self.job, self.wide = job, job.wide
        self.steps, self.sums = StepFile(folder, len(first)), nothing_but_numbers(job)
        lengths = np.zeros(1, np.int64)
        for number, (sums, blocks) in _in_turn(crew.each(_Work(job, first), parts)):
            self.sums.add(sums)
            for tenth, block in blocks:
                self.steps.add(tenth, block)
                lengths = _longer(lengths, np.bincount(np.diff(block.begins)))
            done += len(parts[number])
            if progress:
                progress("reading", done, seen.rows)
        self.steps.finish()
        begins = np.r_[0, np.cumsum(np.repeat(np.arange(len(lengths)), lengths))]
        self.clock = clock_of(begins) if len(lengths) > 2 else None
        self.cells: CellSums = cell_sums(self.steps, self.wide)
        self.time = None if self.clock is None else time_of(self.steps, self.wide, self.clock)

    @property
    def lam(self) -> float:
        """The lambda of the fits with memory, by the mean square of all ratios and the number of episodes."""
        rho = np.sqrt(np.array([self.sums["rho2"] / self.sums["steps"]]))
        begins = np.zeros(int(self.sums["pieces"].sum()) + 1, np.int64)
        return other_lambda(Record(None, None, rho, rho, rho, begins, False))

    def fits(self, lam: float) -> Fits:
        """Fits of every rung and checker; their influences are those of groups of episodes."""
        wide, pieces = self.wide, self.sums["pieces"]
        solved = fits_from(self.cells, wide, None, StoredTraces(self.steps, wide, lam), self.time, self.clock)
        k, h = len(wide.rungs | wide.checkers), len(wide.headlines)
        seen = look(self.steps, wide, solved, Looking(k, lam, self.clock, self.job.groups))
        filled, E, n = pieces > 0, float(pieces.sum()), self.steps.steps
        scale = filled.sum() / E
        made = [
            Fit(
                name,
                s.value,
                (seen.start[:, j] - pieces * s.value - E * seen.pull[:, j])[filled] * scale,
                s.bias,
                s.rank,
                float(seen.lack[j]),
                spread=float(seen.spread[j]),
                missed=float(seen.missed[j]) * n,
                met=float(seen.met[j]),
            )
            for j, (name, _, s) in enumerate(solved)
        ]
        plain, traced, timed = ({fit.name: fit for fit in some} for some in (made[:k], made[k : k + h], made[k + h :]))
        robust = {}
        if effective_of_times(self.sums.by_time) >= PRODUCTS:
            at = {name: j for j, name in enumerate(wide.rungs)}
            values = seen.start[:, :k] + seen.robust[:, :k]
            robust = {name: robust_of(name, values[:, at[name]], pieces) for name in wide.headlines}
        return Fits(plain, traced, robust, lam, timed)

    def decided(self, level: float) -> Decision:
        """As `gradtd.evaluation.trust.deciding.decide`: with less memory where there was too much variance."""
        lam = self.lam
        with np.errstate(all="ignore"):
            found = decide_from(self.fits(lam), self.wide, level)
            if found.word == "unchecked" and not found.memory and lam >= 2 * LEAST_TRACE:
                again = decide_from(self.fits(lam / 2), self.wide, level)
                found = again if again.word == "usable" else found
        return found


@dataclass(frozen=True, eq=False)
class _Work:
    """What a worker is sent: it reads a part, and returns sums and steps."""

    job: Job
    first: Integers

    def __call__(self, part: Part) -> tuple[Sums, list[tuple[int, Block]]]:
        total = nothing_but_numbers(self.job)
        found: list[list[Block]] = [[] for _ in self.first]

        def keep(arrays: dict[str, Floats], record: Record, wide: Wide, group: Integers, weights: Floats) -> None:
            tenth = np.searchsorted(self.first, group, "right") - 1
            for g in np.unique(tenth):
                found[g].append(taken(record, group, np.flatnonzero(tenth == g)))

        for rows, begins, hashes in part.chunks(self.job.reading.needed):
            add_chunk(self.job, keep, total, (rows, begins, None), self.job.group_of(hashes))
        return total, [(g, joined(blocks)) for g, blocks in enumerate(found) if blocks]


def _in_turn(results: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """In the order of their numbers, whoever is done first."""
    waiting: dict[int, Any] = {}
    following = 0
    for number, one in results:
        waiting[number] = one
        while following in waiting:
            yield following, waiting.pop(following)
            following += 1


def _longer(a: Integers, b: Integers) -> Integers:
    """The sum of two arrays of counts."""
    out = np.zeros(max(len(a), len(b)), np.int64)
    out[: len(a)] += a
    out[: len(b)] += b
    return out


def _evaluated(log: _CellLog, settings: Settings, notes: list[str]) -> Evaluation:
    job, wide, sums, cells = log.job, log.wide, log.sums, log.cells
    assert job.features is not None
    decision = log.decided(settings.level)
    columns = wide.rungs[decision.rung]
    A, C = (sum(cells.A[1:], cells.A[0])[columns][:, columns], cells.C[columns][:, columns])
    n, b, start = float(sums["steps"]), cells.b.sum(axis=0)[columns], cells.starts.sum(axis=0)[columns]
    solver = SparseSolver(A, C)
    theta, left = solver.solve(-b), solver.solve(start / sums["pieces"].sum(), transposed=True)
    value = float(start @ theta / sums["pieces"].sum())
    table: Any = wide.table[:, columns]
    weighed, residual = weigh(log.steps, table @ left), A @ theta + b
    told = {
        "features_used": int((C.diagonal() > 0).sum()),
        "condition_C": condition(C),
        "ess_marginal": weighed.total**2 / max(weighed.squares, 1e-300),
        "ess_marginal_episodes": weighed.total**2 / max(weighed.by_episode, 1e-300),
        "condition_A": solver.condition,
        "undetermined_directions": solver.singular,
        "neu_start": float(b @ b) / n**2,
        "neu_end": float(residual @ residual) / n**2,
        "solved_by": solver.how,
        "refits": 0,
    }
    if isinstance(wide, PairCells):
        told |= _choices(log, wide, weighed, columns, (value, decision.fit.error))
    rows, resampled = _rows(log, decision, value, settings)
    starts = histogram(table @ theta, weights=weighed.starts)
    weights, features, said = wide.weights(decision.rung, theta, job.features)
    answer = Answer(decision, value, weights, features, rows, resampled, starts, told)
    return evaluation_of(job, sums, answer, settings, [*notes, *said, *_about(log)])


def _choices(
    log: _CellLog, wide: PairCells, weighed: Weighed, columns: Integers, found: tuple[float, float]
) -> dict[str, Any]:
    """What the verdict has to know of the target's choices; ``found`` are the value and its error."""
    value, error = found
    asked = (weighed.after + weighed.starts).reshape(-1, wide.kinds)[:, -1]  # how often the target was asked, by row
    asked = np.bincount(wide.state, asked, len(wide.states))[:, None] * wide.chances / asked.sum()
    never = wide.never(log.cells.visited)
    part = float((asked * never).sum())
    log.sums.unseen = float(asked[:, never.all(axis=0)].sum())
    told: dict[str, Any] = {"values": ACTION, "never_taken": part}
    if part:
        again, C = cell_sums(log.steps, wide.without(never)), log.cells.C[columns][:, columns]
        A = sum(again.A[1:], again.A[0])[columns][:, columns]
        theta = SparseSolver(A, C).solve(-again.b.sum(axis=0)[columns])
        other = float(again.starts.sum(axis=0)[columns] @ theta / log.sums["pieces"].sum())
        told["never_taken_effect"] = abs(other - value) / max(error, ROUNDING * abs(value), 1e-300)
    return told


def _rows(log: _CellLog, decision: Decision, value: float, settings: Settings) -> tuple[tuple[Estimate, ...], Floats]:
    """The direct solution with the interval that the checks decided, and LSTD with the sandwich's; and resamples.

    Those are to first order, by the influences of groups with Poisson weights: nothing is solved again.
    """
    fit, (low, high) = decision.fit, decision.hull
    note = f"the solution that Impression GTD, Expected GTD and LSTD share; {decision.rung}"
    auto = Estimate(AUTO, value, low, high, fit.error, note)
    groups = len(fit.psi)
    low, high = student_interval(value, fit.error, settings.level, groups - 1)
    sandwich = f"sandwich interval of {groups} groups of episodes; no refits with so many states"
    rows = {AUTO: auto, "lstd": Estimate("lstd", value, low, high, fit.error, sandwich)}
    count = RESAMPLES if settings.resamples is None else settings.resamples
    pieces = log.sums["pieces"][log.sums["pieces"] > 0]
    weights = poisson_weights(pieces, count, settings.seed)
    psi = fit.psi * (pieces.sum() / groups)
    resampled = value + (weights @ psi) / (weights @ pieces)
    return (rows.pop(settings.method), *rows.values()), np.asarray(resampled if count > 1 else np.zeros(0))


def _about(log: _CellLog) -> list[str]:
    groups = int((log.sums["pieces"] > 0).sum())
    return [
        f"the log was read in parts: the interval comes from {groups} groups of episodes, by the hash of their ids.",
        f"it has {len(log.wide.states)} states: its steps were kept in a temporary file, 32 bytes each.",
    ]
