"""Turns the decision on a log in parts into a report: the requested solution, its rows, and the diagnostics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers
from gradtd.evaluation import behaviour_in_parts
from gradtd.evaluation.checks import BlockEquations, GroupEquations
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.designs.base import GIVEN
from gradtd.evaluation.designs.log_features import TOO_MANY
from gradtd.evaluation.designs.pairs import PairDesign, PairStateDesign
from gradtd.evaluation.designs.real import RealDesign
from gradtd.evaluation.designs.states import StateDesign
from gradtd.evaluation.estimators.bootstrap import interval_from, poisson_weights, student_interval
from gradtd.evaluation.estimators.least_squares import LeastSquares, Sums, solve_sums
from gradtd.evaluation.estimators.methods import RESAMPLES, direct_row, histogram, with_traces
from gradtd.evaluation.estimators.products import condition
from gradtd.evaluation.estimators.solvers import SparseSolver, solved_each
from gradtd.evaluation.extra_answers import GroupFit, StartSums, extra_answers, fits_in_parts
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.moments import Moments
from gradtd.evaluation.part_sums import Job, Source
from gradtd.evaluation.report.diagnostics import diagnose
from gradtd.evaluation.report.estimate import AUTO, Estimate
from gradtd.evaluation.report.result import Evaluation, build_evaluation
from gradtd.evaluation.report.step_sums import StepSums, effective, ratio_picture
from gradtd.evaluation.settings import ACTION, Settings
from gradtd.evaluation.sparse_moments import left_with_traces, read_sparse_moments, solve_with_traces
from gradtd.evaluation.step_blocks import StepFile
from gradtd.features import Features, Grouped


class _Answer(NamedTuple):
    """The results for one kind of log in parts.

    Its fields are: the rung's equations and their solution; sums of the marginal weights, of their squares, and of the
    squares of each episode's sum; other diagnostics; values on bootstrap samples, and whether they are refits; whether
    it is a log of states, which has no refits; weights and features of the report; a histogram of start values; sums by
    group of starts, if requested; the behaviour policy's value, unless it is the target; notes.
    """

    found: LeastSquares
    marginal: tuple[float, float, float]
    told: dict[str, Any]
    resampled: Floats
    refitted: bool
    of_states: bool
    theta: Floats
    features: Features
    starts: tuple[Floats, Floats]
    of_groups: StartSums | None
    own: Fit | None
    notes: tuple[str, ...]


def answer(
    job: Job,
    equations: GroupEquations | BlockEquations,
    numbers: StepSums,
    decision: Decision,
    settings: Settings,
    source: Source,
) -> Evaluation:
    """The report on a log in parts, from sums by group or from stored steps of states."""
    given = (job, numbers, decision, settings, source)
    made = _of_groups(equations, *given) if isinstance(equations, GroupEquations) else _of_states(equations, *given)
    found, rows = made.found, _rows(made, decision, settings)
    residual = found.sums.A @ found.theta + found.sums.b
    total, squares, by_episode = made.marginal
    more = {
        "features": made.features.n_features,
        "features_named": job.named,
        "condition_C": condition(found.sums.C),
        "neu_end": float(residual @ residual),
        "ess_marginal": effective(total, squares),
        "ess_marginal_episodes": effective(total, by_episode),
        "refits": len(made.resampled) if made.refitted else 0,
        "resamples": len(made.resampled),
    }
    read, warned = numbers.told()
    counts, edges = made.starts
    own, of_groups = (made.own, found.value), list[GroupFit]()
    if made.of_groups is not None:
        columns = job.design.ladder.rungs[decision.rung]
        of_groups = fits_in_parts(equations, columns, found.theta, made.of_groups, decision.fit, settings.by)
    diagnostics = diagnose(numbers, found, decision, settings, rows[0].value, **more, **made.told)
    if settings.cluster is not None:
        diagnostics = replace(diagnostics, episodes=len(settings.cluster.names))
    return build_evaluation(
        diagnostics,
        rows,
        settings.level,
        theta=made.theta,
        features=made.features,
        resampled=made.resampled,
        influences=decision.fit.psi,
        pictured=ratio_picture(numbers.ratios) | {"starts": counts, "starts_edges": edges},
        checks=decision.checks,
        warnings=warned,
        notes=(*read, *made.notes),
        extras=extra_answers(decision, float(equations.pieces.sum()), settings, None, of_groups, own),
        log=job.reader.name,
        limits=settings.limits,
    )


def _rows(made: _Answer, decision: Decision, settings: Settings) -> tuple[Estimate, ...]:
    """The direct solution with the interval from the checks, and LSTD with its refits or the sandwich interval."""
    value, fit, level = made.found.value, decision.fit, settings.level
    groups, traces = len(fit.psi), with_traces(settings)
    low, high = student_interval(value, fit.error, level, groups - 1)
    no_refits = "; no refits of states" if made.of_states else ""
    note = f"sandwich interval [{low:.5g}, {high:.5g}] of {groups} groups of episodes{no_refits}{traces}"
    lstd = Estimate("lstd", value, low, high, fit.error, note)
    if made.refitted:
        low, high = interval_from(value, made.resampled, level, groups, settings.interval_method)
        note = f"{len(made.resampled)} refits; {note}"
        lstd = Estimate("lstd", value, low, high, float(made.resampled.std(ddof=1)), note)
    rows = {AUTO: direct_row(value, decision, settings), "lstd": lstd}
    return (rows.pop(settings.method), *rows.values())


def _of_moments(sums: Moments, columns: Integers, n_steps: float, error: float) -> LeastSquares:
    """The equations of a subset of the columns, as means over steps."""
    pick = np.ix_(columns, columns)
    A, b = sums.A.sum(axis=0)[pick] / n_steps, sums.b.sum(axis=0)[columns] / n_steps
    start = sums.starts.sum(axis=0)[columns] / sums.pieces.sum()
    return replace(solve_sums(Sums(A, b, sums.C[pick] / n_steps), start), error=error)


def _of_groups(
    equations: GroupEquations, job: Job, numbers: StepSums, decision: Decision, settings: Settings, source: Source
) -> _Answer:
    """The answer for continuous observations, from sums by group."""
    sums, seen = equations.last.moments, equations.sample
    columns = job.design.ladder.rungs[decision.rung]
    found = _of_moments(sums, columns, numbers["steps"], decision.fit.error)
    pick, left = np.ix_(columns, columns), found.left
    marginal = (
        float(left @ sums.marginal_sum[columns]),
        float(left @ sums.marginal[pick] @ left),
        float(left @ sums.marginal_episodes[pick] @ left),
    )
    told: dict[str, Any] = {"undecided": undecided(equations, decision, settings)}
    if seen.rows.choices is not None:
        told |= {"values": ACTION, "outside_range": seen.rows.choices.outside}
    resampled = _refits(found, sums, columns, settings)
    starts = histogram(seen.rows.at(seen.start_rows)[:, columns] @ found.theta)
    fitted_too = "" if source.later else "features were fitted, and "
    sampled = f"{fitted_too}missing choices were counted in {seen.n_pieces} episodes sampled by their hash."
    notes = (*source.notes, _groups_note(sums.pieces, settings), sampled)
    refitted = settings.method == "lstd" and len(resampled) > 0
    features, by_start = _features(job, decision.rung), equations.last.starts
    of_groups = None
    if by_start is not None:
        rows, often = by_start[..., columns], by_start[..., -1]
        means = rows.sum(axis=0) / often.sum(axis=0)[:, None]
        lefts = [found.solver.solve(mean, transposed=True) / numbers["steps"] for mean in means]
        of_groups = StartSums(often, rows @ found.theta, lefts)
    own = None
    if job.chooser is not None:
        own = None if numbers["truncated"] else behaviour_in_parts.of_returns(sums.robust[:, -1], sums.pieces)
    elif numbers["not_one"]:
        own = behaviour_in_parts.of_groups(sums, columns, numbers["steps"])
    given = (found.theta, features, starts, of_groups, own, notes)
    return _Answer(found, marginal, told, resampled, refitted, False, *given)


def _features(job: Job, rung: str) -> Features:
    """The user's features, or those of the chosen rung. For action values, these are features of pairs."""
    design = job.design
    inner = design.inner if isinstance(design, PairDesign) else design
    assert isinstance(inner, RealDesign)
    features = inner.chosen(rung) if job.features is None else job.features
    return features if job.chooser is None else job.chooser.features(features)


def undecided(equations: GroupEquations, decision: Decision, settings: Settings) -> str | None:
    """Describe a test that may have passed only because the sample is small, or None if there is none."""
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
        return f"it may lack {lack:.0%} or {most:.0%} of the target's choices"
    if fit.met * len(steps) / equations.n_steps < limits.fewest_surprises <= fit.met:
        return "rare steps of large weight outside the sample may not show a TD error yet"
    return None


def _mean_over_episodes(values: Floats, begins: Integers) -> tuple[float, float]:
    """The mean over steps, and its standard error over episodes."""
    mean = float(values.mean())
    apart = np.add.reduceat(values, begins[:-1]) - mean * np.diff(begins)
    return mean, float(np.sqrt((apart**2).sum())) / len(values)


def _refits(found: LeastSquares, sums: Moments, columns: Integers, settings: Settings) -> Floats:
    """Bootstrap values with Poisson(1) weights of groups."""
    own = sums.A[:, columns[:, None], columns]
    weights = _resample(sums.pieces, settings)
    scale = found.solver.scale
    matrices = (weights @ own.reshape(len(own), -1)).reshape(-1, *own.shape[1:]) * scale[:, None] * scale
    b, starts = weights @ sums.b[:, columns], weights @ sums.starts[:, columns]
    thetas = scale * solved_each(matrices, -scale * b)
    return np.asarray((starts * thetas).sum(axis=1) / (weights @ sums.pieces))


def _of_states(
    equations: BlockEquations, job: Job, numbers: StepSums, decision: Decision, settings: Settings, source: Source
) -> _Answer:
    """The answer for discrete observations, from stored steps."""
    columns, fit = job.design.ladder.rungs[decision.rung], decision.fit
    found = _solve_states(equations, columns, fit.error)
    table: Any = job.table[:, columns]
    weighed = _weigh(equations, np.asarray(table @ found.left).ravel())
    told: dict[str, Any] = {}
    if isinstance(job.design, PairStateDesign):
        told |= _choices(job.design, equations, numbers, weighed, columns, (found.value, fit.error))
    resampled = _first_order(found.value, fit, equations.pieces, settings)
    starts = histogram(np.asarray(table @ found.theta).ravel(), weights=weighed.starts)
    weights, features, said = _weights_of(job, decision.rung, found.theta)
    kept = f"the log has {_n_states(job)} states; its steps were written to a temporary file, 40 bytes each."
    notes = (*source.notes, *said, _groups_note(equations.pieces, settings), kept)
    of_groups = _starts_of_states(equations, table, columns, found, job) if job.n_labels else None
    own = _own_of_states(equations, job, numbers, columns)
    given = (weights, features, starts, of_groups, own, notes)
    return _Answer(found, weighed.marginal, told, resampled, False, True, *given)


def _own_of_states(equations: BlockEquations, job: Job, numbers: StepSums, columns: Integers) -> Fit | None:
    if job.chooser is None:
        return behaviour_in_parts.of_states(equations, columns, _solve_states) if numbers["not_one"] else None
    if numbers["truncated"]:
        return None
    returns = behaviour_in_parts.returns_of(equations.source, job.groups)
    return behaviour_in_parts.of_returns(returns, equations.pieces)


def _starts_of_states(
    equations: BlockEquations, table: Any, columns: Integers, found: LeastSquares, job: Job
) -> StartSums:
    """The number of episodes and their start values, by group of starts, from stored steps."""
    rows, labels, values = table.shape[0], job.n_labels, np.asarray(table @ found.theta).ravel()
    episodes, total = np.zeros((2, job.groups * labels))
    often, steps = np.zeros(labels * rows), equations.source
    assert isinstance(steps, StepFile)
    for _, block in steps.blocks():
        episodes += np.bincount(block.group, minlength=len(episodes))
        total += np.bincount(block.group, values[block.starts], len(episodes))
        often += np.bincount(block.group % labels * rows + block.starts, minlength=len(often))
    episodes, total = episodes.reshape(-1, labels), total.reshape(-1, labels)
    means = np.asarray(often.reshape(labels, rows) @ table) / episodes.sum(axis=0)[:, None]
    if equations.sparse and equations.lam > 0:
        lefts = left_with_traces(equations.sparse_moments, steps, columns, means)
    else:
        lefts = [found.solver.solve(mean, transposed=True) / equations.n_steps for mean in means]
    return StartSums(episodes, total, lefts)


def _solve_states(equations: BlockEquations, columns: Integers, error: float = np.nan) -> LeastSquares:
    if not equations.sparse:
        return _of_moments(equations.moments(0.0), columns, equations.n_steps, error)
    sums, n = equations.sparse_moments, equations.n_steps
    A, C = (matrix / n for matrix in sums.columns(columns))
    start = sums.starts.sum(axis=0)[columns] / sums.pieces.sum()
    made = replace(solve_sums(Sums(A, sums.b.sum(axis=0)[columns] / n, C), start), error=error)
    if equations.lam == 0:
        return made
    traced = solve_with_traces(sums, equations.source, columns)  # with traces A would have too many entries
    return replace(made, theta=traced.theta, left=traced.left * n, value=traced.value)


class _Weighed(NamedTuple):
    """Sums of marginal weights, of their squares, and of squares by episode, and counts of rows as starts and next
    rows."""

    marginal: tuple[float, float, float]
    starts: Floats
    after: Floats


def _weigh(equations: BlockEquations, along: Floats) -> _Weighed:
    """The marginal weights rho x.left, where x.left is given by row. With traces, the trace replaces x."""
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
    """Diagnostics of the target's choices. ``found`` contains the value and its error."""
    value, error = found
    sums = equations.sparse_moments
    asked = (weighed.after + weighed.starts).reshape(-1, design.kinds)[:, -1]  # number of the target's choices by row
    states = len(design.inner.states)
    asked = np.bincount(design.inner.state_of_row, asked, states)[:, None] * design.chances / asked.sum()
    never = design.never(sums.visits)
    part = float((asked * never).sum())
    numbers.unseen, numbers.unseen_pairs = float(asked[:, never.all(axis=0)].sum()), None
    told: dict[str, Any] = {"values": ACTION, "never_taken": part}
    if part:
        # The effect of choices that the log never took: the value of a target without them.
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
    """The weights of a rung's features, the features, and notes about them."""
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


def _resample(pieces: Floats, settings: Settings) -> Floats:
    """Poisson weights of groups, one row per bootstrap sample. No rows if only one sample was requested."""
    count = RESAMPLES if settings.resamples is None else settings.resamples
    return poisson_weights(pieces, count if count > 1 else 0, settings.seed)


def _first_order(value: float, fit: Fit, pieces: Floats, settings: Settings) -> Floats:
    """First-order bootstrap values with Poisson weights of groups, from their influences, without refits."""
    filled = pieces[pieces > 0]
    weights = _resample(filled, settings)
    # Undo the scaling of group influences: here they are sums over pieces.
    psi = fit.psi * (filled.sum() / len(filled))
    return np.asarray(value + (weights @ psi) / (weights @ filled))


def _groups_note(pieces: Floats, settings: Settings) -> str:
    groups = int((pieces > 0).sum())
    of_what = "episodes by the hash of their ids" if settings.cluster is None else "whole clusters"
    return f"the log was read in parts, so the interval comes from {groups} groups of {of_what}."
