"""From the decision on a log in parts to its report: the solution asked for, its rows, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation.checks import BlockEquations, GroupEquations
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.designs.base import GIVEN
from gradtd.evaluation.designs.log_features import TOO_MANY
from gradtd.evaluation.designs.pair_states import PairStateDesign
from gradtd.evaluation.designs.pairs import PairDesign
from gradtd.evaluation.designs.real import RealDesign
from gradtd.evaluation.designs.states import StateDesign
from gradtd.evaluation.estimators.bootstrap import interval_from, poisson_weights, student_interval
from gradtd.evaluation.estimators.methods import RESAMPLES, histogram
from gradtd.evaluation.estimators.products import condition
from gradtd.evaluation.estimators.solvers import SparseSolver, solved_each, solver_of
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.moments import Moments
from gradtd.evaluation.part_sums import Job
from gradtd.evaluation.report.diagnose import Equations, diagnose
from gradtd.evaluation.report.estimate import AUTO, Estimate
from gradtd.evaluation.report.result import Evaluation, build_evaluation
from gradtd.evaluation.report.step_sums import StepSums, ratio_picture
from gradtd.evaluation.settings import ACTION, Settings
from gradtd.evaluation.sparse_moments import read_sparse_moments, solve_with_traces
from gradtd.features import Features, Grouped


@dataclass(frozen=True, eq=False)
class Headline:
    """The equations of the rung that was chosen, means over steps, and their solution."""

    A: Any
    b: Floats
    C: Any
    theta: Floats
    left: Floats
    value: float
    solver: Any

    def equations(self, error: float, features: int, marginal: tuple[float, float, float]) -> Equations:
        """For the diagnostics; ``marginal`` are the sum of the marginal weights, that of their squares, and that of the
        squares of each episode's sum."""
        residual = self.A @ self.theta + self.b
        total, squares, by_episode = marginal
        return Equations(
            value=self.value,
            error=error,
            features=features,
            features_used=int((self.C.diagonal() > 0).sum()),
            condition_A=self.solver.condition,
            condition_C=condition(self.C),
            undetermined_directions=self.solver.singular,
            neu_start=float(self.b @ self.b),
            neu_end=float(residual @ residual),
            ess_marginal=total**2 / max(squares, 1e-300),
            ess_marginal_episodes=total**2 / max(by_episode, 1e-300),
            solved_by=self.solver.how,
        )


def _headline(A: Any, b: Floats, C: Any, start: Floats) -> Headline:
    solver = solver_of(A, C)
    theta = solver.solve(-b)
    return Headline(A, b, C, theta, solver.solve(start, transposed=True), float(start @ theta), solver)


def _of_moments(sums: Moments, columns: Integers, n_steps: float) -> Headline:
    pick = np.ix_(columns, columns)
    A, b = sums.A.sum(axis=0)[pick] / n_steps, sums.b.sum(axis=0)[columns] / n_steps
    start = sums.starts.sum(axis=0)[columns] / sums.pieces.sum()
    return _headline(A, b, sums.C[pick] / n_steps, start)


def answer_of_groups(
    job: Job, equations: GroupEquations, decision: Decision, settings: Settings, source: Any
) -> Evaluation:
    """The report on real observations, from sums by group."""
    made = equations.last
    sums, numbers = made.moments, made.steps
    columns = job.design.ladder.rungs[decision.rung]
    found = _of_moments(sums, columns, numbers["steps"])
    pick, left = np.ix_(columns, columns), found.left
    marginal = (
        float(left @ sums.marginal_sum[columns]),
        float(left @ sums.marginal[pick] @ left),
        float(left @ sums.marginal_episodes[pick] @ left),
    )
    told: dict[str, Any] = {"undecided": undecided(equations, decision, settings)}
    seen = equations.sample
    if seen.rows.choices is not None:
        told |= {"values": ACTION, "outside_range": seen.rows.choices.outside}
    rows, resampled = _rows(found, decision, settings)
    count = RESAMPLES if settings.resamples is None else settings.resamples
    if count > 1:
        resampled = _refits(found, sums, columns, count, settings.seed)
    if settings.method == "lstd" and count > 1:
        rows = (_refitted(rows[0], resampled, decision.fit, settings), *rows[1:])
        told["refits"] = len(resampled)
    starts = histogram(seen.rows.at(seen.start_rows)[:, columns] @ found.theta)
    notes = (*source.notes, *_about(sums.pieces, seen.n_pieces, source.later))
    features = _features(job, decision.rung)
    of_log = found.equations(decision.fit.error, features.n_features, marginal)
    answer = _Answer(rows, resampled, of_log, told, found.theta, features, starts, notes)
    return _report(job, numbers, decision, settings, answer)


def _features(job: Job, rung: str) -> Features:
    """The features named, or those of the rung that was chosen; of pairs where values are of actions."""
    design = job.design
    inner = design.inner if isinstance(design, PairDesign) else design
    assert isinstance(inner, RealDesign)
    features = inner.chosen(rung) if job.features is None else job.features
    return features if job.chooser is None else job.chooser.features(features)


def undecided(equations: GroupEquations, decision: Decision, settings: Settings) -> str | None:
    """What was looked for in the sample only, and passes only because the sample is small; None where nothing does."""
    steps, limits, fit = equations.sample, settings.limits, decision.fit
    if steps.n_pieces >= equations.pieces.sum():
        return None
    columns = equations.ladder.rungs[decision.rung]
    sums = equations.last.moments
    missing = np.linalg.lstsq(sums.C[np.ix_(columns, columns)], sums.missing[columns], rcond=1e-8)[0]
    lacking = np.maximum(steps.rows.at(steps.rows.row)[:, columns] @ missing, 0.0)
    lack, error = _mean_over_episodes(lacking, steps.begins)
    most = lack + limits.sample_errors * error
    if lack <= limits.most_lacking < most and fit.missed > decision.own.width / 2:
        return f"it may lack {lack:.0%} or {most:.0%} of what the target would do"
    if fit.met * len(steps) / equations.n_steps < limits.fewest_surprises <= fit.met:
        return "whether rare steps of large weight have shown a TD error rests on steps that were not looked at"
    return None


def _mean_over_episodes(values: Floats, begins: Integers) -> tuple[float, float]:
    """The mean over steps, and its standard error over episodes."""
    mean = float(values.mean())
    apart = np.add.reduceat(values, begins[:-1]) - mean * np.diff(begins)
    return mean, float(np.sqrt((apart**2).sum())) / len(values)


def _refits(found: Headline, sums: Moments, columns: Integers, count: int, seed: int) -> Floats:
    """The value with every group weighted by a Poisson(1) number, so many times."""
    own = sums.A[:, columns[:, None], columns]
    weights = poisson_weights(sums.pieces, count, seed)
    scale = found.solver.scale
    matrices = (weights @ own.reshape(len(own), -1)).reshape(-1, *own.shape[1:]) * scale[:, None] * scale
    b, starts = weights @ sums.b[:, columns], weights @ sums.starts[:, columns]
    thetas = scale * solved_each(matrices, -scale * b)
    return np.asarray((starts * thetas).sum(axis=1) / (weights @ sums.pieces))


def _refitted(row: Estimate, resampled: Floats, fit: Fit, settings: Settings) -> Estimate:
    assert row.value is not None
    low, high = interval_from(row.value, resampled, settings.level, len(fit.psi), settings.interval)
    error = float(resampled.std(ddof=1))
    return Estimate("lstd", row.value, low, high, error, f"{len(resampled)} refits; {row.note}")


def answer_of_states(
    job: Job,
    equations: BlockEquations,
    numbers: StepSums,
    decision: Decision,
    settings: Settings,
    source: Any,
) -> Evaluation:
    """The report on discrete observations, from the steps that were kept."""
    columns = job.design.ladder.rungs[decision.rung]
    found = _of_states(equations, columns)
    table: Any = job.table[:, columns]
    weighed = _weigh(equations, np.asarray(table @ found.left).ravel())
    told: dict[str, Any] = {}
    if isinstance(job.design, PairStateDesign):
        told |= _choices(job.design, equations, numbers, weighed, columns, (found.value, decision.fit.error))
    rows, resampled = _rows(found, decision, settings, "; no refits of states")
    count = RESAMPLES if settings.resamples is None else settings.resamples
    if count > 1:
        resampled = _first_order(found.value, decision.fit, equations.pieces, count, settings.seed)
    starts = histogram(np.asarray(table @ found.theta).ravel(), weights=weighed.starts)
    weights, features, said = _weights_of(job, decision.rung, found.theta)
    kept = f"it has {_n_states(job)} states: its steps were kept in a temporary file, 40 bytes each."
    notes = (*source.notes, *said, _groups_note(equations.pieces), kept)
    of_log = found.equations(decision.fit.error, features.n_features, weighed.marginal)
    answer = _Answer(rows, resampled, of_log, told, weights, features, starts, notes)
    return _report(job, numbers, decision, settings, answer)


def _of_states(equations: BlockEquations, columns: Integers) -> Headline:
    if not equations.sparse:
        return _of_moments(equations.moments(0.0), columns, equations.n_steps)
    sums, n = equations.sparse_moments, equations.n_steps
    A, C = (matrix / n for matrix in sums.columns(columns))
    start = sums.starts.sum(axis=0)[columns] / sums.pieces.sum()
    made = _headline(A, sums.b.sum(axis=0)[columns] / n, C, start)
    if equations.lam == 0:
        return made
    traced = solve_with_traces(sums, equations.source, columns)  # A of traces has too many entries to be made
    return Headline(made.A, made.b, made.C, traced.theta, traced.left * n, traced.value, made.solver)


class _Weighed(NamedTuple):
    """Sums of marginal weights, of their squares, of squares by episode; how often rows are starts and next rows."""

    marginal: tuple[float, float, float]
    starts: Floats
    after: Floats


def _weigh(equations: BlockEquations, along: Floats) -> _Weighed:
    """Marginal weights rho x.left, with x.left by row; with the trace of x where there are traces."""
    total, starts, after = np.zeros(3), np.zeros(len(along)), np.zeros(len(along))
    run = engine.compile_once(run_weights)
    for steps, _, _ in equations.source.chunks():
        weights = np.empty(len(steps))
        decay = np.zeros(len(steps)) if steps.traced is None else steps.traced.decay
        run(along, np.asarray(steps.rows.row, np.int64), np.ascontiguousarray(steps.rho, np.float64), decay, weights)
        total += [weights.sum(), weights @ weights, (np.add.reduceat(weights, steps.begins[:-1]) ** 2).sum()]
        starts += np.bincount(steps.start_rows, minlength=len(along))
        after += np.bincount(steps.rows.next_row, minlength=len(along))
    return _Weighed((float(total[0]), float(total[1]), float(total[2])), starts, after)


def run_weights(along: Floats, row: Integers, rho: Floats, decay: Floats, out: Floats) -> None:
    """w_t = rho_t (x_t.left + decay_t w_{t-1})."""
    w = 0.0
    for t in range(row.shape[0]):
        carried = decay[t] * w if decay[t] != 0.0 else 0.0
        w = rho[t] * (along[row[t]] + carried)
        out[t] = w


def _choices(
    design: PairStateDesign,
    equations: BlockEquations,
    numbers: StepSums,
    weighed: _Weighed,
    columns: Integers,
    found: tuple[float, float],
) -> dict[str, Any]:
    """What the verdict has to know of the target's choices; ``found`` are the value and its error."""
    value, error = found
    sums = equations.sparse_moments
    asked = (weighed.after + weighed.starts).reshape(-1, design.kinds)[:, -1]  # how often the target was asked, by row
    states = len(design.inner.states)
    asked = np.bincount(design.inner.state_of_row, asked, states)[:, None] * design.chances / asked.sum()
    never = design.never(sums.visits)
    part = float((asked * never).sum())
    numbers.unseen, numbers.unseen_pairs = float(asked[:, never.all(axis=0)].sum()), None
    told: dict[str, Any] = {"values": ACTION, "never_taken": part}
    if part:
        again = read_sparse_moments(equations.source, design.without(never))
        A, C = again.columns(columns)[0], sums.columns(columns)[1]
        theta = SparseSolver(A, C).solve(-again.b.sum(axis=0)[columns])
        other = float(again.starts.sum(axis=0)[columns] @ theta / sums.pieces.sum())
        told["never_taken_effect"] = abs(other - value) / max(error, 1e-6 * abs(value), 1e-300)
    return told


def _n_states(job: Job) -> int:
    design = job.design.inner if isinstance(job.design, PairStateDesign) else job.design
    assert isinstance(design, StateDesign)
    return len(design.states)


def _weights_of(job: Job, rung: str, theta: Floats) -> tuple[Floats, Features, tuple[str, ...]]:
    """Weights of the features of a rung, these features, and what is to be said of them."""
    assert job.features is not None
    design = job.design
    if job.chooser is not None:
        return theta, job.chooser.features(job.features), ()
    assert isinstance(design, StateDesign)
    if rung == GIVEN:
        return theta, job.features, ()
    often = design.ladder.rungs[rung][1:] - 1
    order, n = np.argsort(often), len(often)
    shared = Grouped(n=n).fit(design.states[often])
    return np.r_[theta[0] + theta[1:][order], theta[0]], shared, (TOO_MANY.format(len(design.states), n),)


def _first_order(value: float, fit: Fit, pieces: Floats, count: int, seed: int) -> Floats:
    """The value with Poisson weights of groups, to first order by their influences: nothing is solved again."""
    filled = pieces[pieces > 0]
    weights = poisson_weights(filled, count, seed)
    psi = fit.psi * (filled.sum() / len(filled))
    return np.asarray(value + (weights @ psi) / (weights @ filled))


def _rows(
    found: Headline, decision: Decision, settings: Settings, more: str = ""
) -> tuple[tuple[Estimate, ...], Floats]:
    """The direct solution with the interval that the checks decided, and LSTD with the sandwich's."""
    fit, (low, high) = decision.fit, decision.shown
    traces = "" if settings.tracing is None else f"; with traces, lam = {settings.tracing.lam:g}"
    note = f"the solution that Impression GTD, Expected GTD and LSTD share; {decision.rung}{traces}"
    auto = Estimate(AUTO, found.value, low, high, fit.error, note)
    groups = len(fit.psi)
    low, high = student_interval(found.value, fit.error, settings.level, groups - 1)
    sandwich = f"sandwich interval [{low:.5g}, {high:.5g}] of {groups} groups of episodes{more}{traces}"
    rows = {AUTO: auto, "lstd": Estimate("lstd", found.value, low, high, fit.error, sandwich)}
    return (rows.pop(settings.method), *rows.values()), np.zeros(0)


def _groups_note(pieces: Floats) -> str:
    groups = int((pieces > 0).sum())
    return f"the log was read in parts: the interval comes from {groups} groups of episodes, by the hash of their ids."


def _about(pieces: Floats, sampled: int, later: bool) -> list[str]:
    fitted_too = "" if later else "features were fitted, and "
    return [
        _groups_note(pieces),
        f"{fitted_too}missing choices were looked for in {sampled} episodes drawn by their hash.",
    ]


class _Answer(NamedTuple):
    """What is shown: rows, values of resamples, the equations, diagnostics that do not follow from these, weights of
    features, a histogram of the values of starts, and notes."""

    rows: tuple[Estimate, ...]
    resampled: Floats
    equations: Equations
    told: dict[str, Any]
    theta: Floats
    features: Features
    starts: tuple[Floats, Floats]
    notes: tuple[str, ...]


def _report(job: Job, numbers: StepSums, decision: Decision, settings: Settings, answer: _Answer) -> Evaluation:
    more = {"refits": 0, "resamples": len(answer.resampled), "features_named": job.named} | answer.told
    limits, (counts, edges) = settings.limits, answer.starts
    read, warned = numbers.told()
    return build_evaluation(
        diagnose(numbers, answer.equations, decision, settings, answer.rows[0], limits=limits, **more),
        answer.rows,
        settings.level,
        theta=answer.theta,
        features=answer.features,
        resampled=answer.resampled,
        influences=decision.fit.psi,
        pictured=ratio_picture(numbers.ratios) | {"starts": counts, "starts_edges": edges},
        checks=decision.checks,
        warnings=warned,
        notes=(*read, *answer.notes),
        log=job.reader.name,
        limits=limits,
    )
