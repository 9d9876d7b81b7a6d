"""Slow twins of the checks: their sums and fits by loops over steps; and logs as the checks read them."""

from dataclasses import replace

import numpy as np

from gradtd.evaluation.checks import BlockEquations, all_fits
from gradtd.evaluation.designs.base import Traced, steps_of
from gradtd.evaluation.designs.log_features import clock_of
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.plan import make_plan
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.step_blocks import MemoryBlocks
from gradtd.logs import read_log


def planned(made, features=None, gamma=0.9, lam=0.0, rho=None):
    """The design of a table of one of the walks, and its steps."""
    log = read_log(made)
    design = make_plan(log, Settings(gamma=gamma, features=features)).design
    rho = made["target"] / made["action_prob"] if rho is None else rho
    steps = steps_of(log, design.rows(log), rho, gamma)
    return design, traced_steps(steps, lam) if lam else steps


def traced_steps(steps, lam):
    """The steps with a lambda that the value is asked for with."""
    return replace(steps, traced=Traced(lam, steps.decay(lam)))


def fits_of(steps, ladder, lam=None):
    """Every fit that the checks compare."""
    equations = BlockEquations(MemoryBlocks(steps), ladder)
    return all_fits(equations, equations.other_lambda(DEFAULT) if lam is None else lam)


def piece_of_step(steps):
    return np.repeat(np.arange(steps.n_pieces), np.diff(steps.begins))


def since(steps):
    """Steps since the start of the piece."""
    return np.concatenate([np.arange(n) for n in np.diff(steps.begins)])


def clock_for(steps):
    return clock_of(np.bincount(np.diff(steps.begins)))


def lstd(steps, columns, lam):
    """LSTD(lambda) by a loop over steps: the value of the start states, minimum norm."""
    rows, d = steps.rows, len(columns)
    A, b, z = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    x, after = rows.at(rows.row)[:, columns], rows.at(rows.next_row)[:, columns]
    begins = set(steps.begins[:-1].tolist())
    for t in range(len(steps)):
        z = np.zeros(d) if t in begins else lam * steps.discount[t - 1] * z
        z = steps.rho[t] * (x[t] + z)
        A += np.outer(z, steps.discount[t] * after[t] - x[t])
        b += steps.reward[t] * z
    start = rows.at(steps.start_rows)[:, columns]
    return float(start.mean(axis=0) @ np.linalg.lstsq(A, -b, rcond=1e-10)[0])


def lstd_with_time(steps, columns, clock):
    """Value and influences of LSTD on features and columns of the time, a row for each step and what follows it."""
    rows, time = steps.rows, since(steps)
    x = np.c_[rows.at(rows.row)[:, columns], clock[time]]
    after = np.c_[rows.at(rows.next_row)[:, columns], clock[(time + 1).clip(max=len(clock) - 1)]]
    start = np.c_[rows.at(steps.start_rows)[:, columns], np.tile(clock[0], (steps.n_pieces, 1))]
    z, y = steps.rho[:, None] * x, steps.discount[:, None] * after - x
    A, b = z.T @ y, z.T @ steps.reward
    theta = np.linalg.lstsq(A, -b, rcond=1e-10)[0]
    left = np.linalg.lstsq(A.T, start.mean(axis=0), rcond=1e-10)[0]
    pull = np.add.reduceat((z @ left) * (steps.reward + y @ theta), steps.begins[:-1])
    value = float((start @ theta).mean())
    return value, start @ theta - value - steps.n_pieces * pull


def moments(steps, group, groups, lam, narrow, clock, weights):
    """Every sum of `Moments` by a loop over steps, by name."""
    rows, D, K, own = steps.rows, steps.rows.n_columns, clock.shape[1], steps.traced
    x, after, of_piece = rows.at(rows.row), rows.at(rows.next_row), np.zeros((steps.n_pieces, narrow))
    shapes = {"A": (D, D), "b": (D,), "starts": (D,), "pieces": (), "traced_A": (narrow, narrow), "traced_b": (narrow,)}
    shapes |= {"to": (narrow, K), "back": (K, narrow), "own": (K, K), "time_b": (K,), "robust": (D + 1,)}
    shapes |= {"behaviour": (narrow, narrow + 1)}
    made = {name: np.zeros((groups, *shape)) for name, shape in shapes.items()}
    of_all = {"C": (D, D), "x": (D,), "missing": (D,), "time_C": (narrow, K), "time_own": (K, K), "time_missing": (K,)}
    made |= {name: np.zeros(shape) for name, shape in (of_all | {"marginal": (narrow, narrow)}).items()}
    piece, time, last = piece_of_step(steps), since(steps), len(clock) - 1
    z, trace = np.zeros(D), np.zeros(narrow)
    for t in range(len(steps)):
        e, rho, discount, reward = piece[t], steps.rho[t], steps.discount[t], steps.reward[t]
        g, first = group[e], time[t] == 0
        y, now, then = discount * after[t] - x[t], clock[min(time[t], last)], clock[min(time[t] + 1, last)]
        y_time = discount * then - now
        z = rho * (x[t] + (0.0 if own is None else own.decay[t]) * z)
        trace = rho * (x[t, :narrow] + (0.0 if first else lam * steps.discount[t - 1]) * trace)
        made["A"][g] += np.outer(z, y)
        made["b"][g] += reward * z
        made["traced_A"][g] += np.outer(trace, y[:narrow])
        made["traced_b"][g] += reward * trace
        made["to"][g] += rho * np.outer(x[t, :narrow], y_time)
        made["back"][g] += rho * np.outer(now, y[:narrow])
        made["own"][g] += rho * np.outer(now, y_time)
        made["time_b"][g] += rho * reward * now
        made["robust"][g] += weights[t] * np.r_[y, reward]
        made["behaviour"][g] += np.outer(x[t, :narrow], np.r_[y[:narrow], reward])
        made["C"] += np.outer(x[t], x[t])
        made["x"] += x[t]
        made["missing"] += (1 - rho) * x[t]
        made["time_C"] += np.outer(x[t, :narrow], now)
        made["time_own"] += np.outer(now, now)
        made["time_missing"] += (1 - rho) * now
        of_piece[e] += z[:narrow]
        made["marginal"] += np.outer(z[:narrow], z[:narrow])
    for e, start in enumerate(rows.at(steps.start_rows)):
        made["pieces"][group[e]] += 1
        made["starts"][group[e]] += start
    return made | {"marginal_episodes": of_piece.T @ of_piece, "marginal_sum": of_piece.sum(axis=0)}
