"""Estimators of the COBS study (arXiv 1911.06854) for discrete observations, each from its own paper.

Tables of action values are [state, action]; a pair that the log does not hold has the value 0. Importance sampling and
doubly robust estimators are `Task -> value`. None of them has an interval in its paper's form.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from peer_cases.task import Task


def _pairs(task: Task) -> np.ndarray:
    return task.observation.astype(int).ravel() * task.target.shape[1] + task.action


def _table(task: Task, flat: np.ndarray) -> np.ndarray:
    return flat.reshape(task.states, task.target.shape[1])


def _next_values(task: Task, table: np.ndarray) -> np.ndarray:
    """E_pi q(s', a'), 0 where the episode terminated."""
    expected = (task.next_target * table[task.next_observation.astype(int).ravel()]).sum(1)
    return np.where(task.terminated, 0.0, expected)


def _values(task: Task, table: np.ndarray) -> np.ndarray:
    return (task.target * table[task.observation.astype(int).ravel()]).sum(1)


def direct_value(task: Task, table: np.ndarray) -> float:
    return float(_values(task, table)[task.begins].mean())


def fqe(task: Task) -> np.ndarray:
    """Fitted Q evaluation (Le et al. 2019) with one weight per pair: Bellman averages until they stand still."""
    pair, size = _pairs(task), task.states * task.target.shape[1]
    count = np.maximum(np.bincount(pair, minlength=size), 1)
    table = np.zeros((task.states, task.target.shape[1]))
    for _ in range(2000):
        goal = task.reward + task.gamma * _next_values(task, table)
        after = _table(task, np.bincount(pair, goal, size) / count)
        if np.abs(after - table).max() < 1e-9 * (1 + np.abs(after).max()):
            return after
        table = after
    return table


def _returns(task: Task) -> np.ndarray:
    """R_t = sum over k >= t of gamma^(k-t) rho_{t+1} ... rho_k r_k, [episode, time]."""
    p = task.padded
    out = np.zeros(p.shape)
    behind = np.zeros(p.shape[0])
    for t in range(p.shape[1] - 1, -1, -1):
        later = p.rho[:, t + 1] if t + 1 < p.shape[1] else np.ones(p.shape[0])
        behind = np.where(p.alive[:, t], p.reward[:, t] + task.gamma * later * behind, 0.0)
        out[:, t] = behind
    return out


def q_reg(task: Task) -> np.ndarray:
    """Q-Reg (Farajtabar et al. 2018): regression of reweighted returns, weights gamma^t rho_0 ... rho_t."""
    p, size = task.padded, task.states * task.target.shape[1]
    weight = (p.discounts * p.products)[p.where]
    pair = _pairs(task)
    total = np.bincount(pair, weight, size)
    fitted = np.bincount(pair, weight * _returns(task)[p.where], size) / np.where(total > 0, total, 1.0)
    return _table(task, fitted)


def mrdr(task: Task) -> np.ndarray:
    """MRDR (Farajtabar et al. 2018): the table that makes the variance of doubly robust least.

    Minimises the sum over steps of gamma^2t (rho_0 ... rho_{t-1})^2 rho_t (D q - R e_a)' Omega (D q - R e_a), where D
    has the target's probabilities and Omega = diag(1 / behaviour) - 1 1'.
    """
    p, A = task.padded, task.target.shape[1]
    before = np.c_[np.ones(p.shape[0]), p.products[:, :-1]]
    weight = ((p.discounts * before) ** 2 * p.rho)[p.where]
    returns = _returns(task)[p.where]
    state = task.observation.astype(int).ravel()
    left, right = np.zeros((task.states, A, A)), np.zeros((task.states, A))
    omega = -np.ones((task.steps, A, A))
    omega[:, np.arange(A), np.arange(A)] += 1 / np.maximum(task.behaviour, 1e-12)
    scaled = task.target[:, :, None] * omega * weight[:, None, None]
    np.add.at(left, state, scaled * task.target[:, None, :])
    np.add.at(right, state, scaled[np.arange(task.steps), :, task.action] * returns[:, None])
    return np.stack([np.linalg.pinv(a) @ b for a, b in zip(left, right, strict=True)])


def off_policy_returns(task: Task, kind: str, lam: float = 1.0) -> np.ndarray:
    """Retrace, tree backup and Q^pi(lambda) (Munos et al. 2016): q <- q + averages of sums of traced TD errors."""
    p, pair, size = task.padded, _pairs(task), task.states * task.target.shape[1]
    rows = np.arange(task.steps)
    trace = {
        "retrace": np.minimum(1.0, task.rho),
        "tree": task.target[rows, task.action],
        "q_lambda": np.ones(task.steps),
    }[kind]
    c = task.gamma * lam * p.spread(trace)
    count = np.maximum(np.bincount(pair, minlength=size), 1)
    table = np.zeros((task.states, task.target.shape[1]))
    for _ in range(300):
        error = task.reward + task.gamma * _next_values(task, table) - table.ravel()[pair]
        spread = p.spread(error)
        total, behind = np.zeros(p.shape), np.zeros(p.shape[0])
        for t in range(p.shape[1] - 1, -1, -1):
            later = c[:, t + 1] if t + 1 < p.shape[1] else 0.0
            behind = spread[:, t] + later * behind
            total[:, t] = behind
        moved = _table(task, np.bincount(pair, total[p.where], size) / count)
        table = table + moved
        if not np.isfinite(table).all() or np.abs(table).max() > 1e12:
            return np.full_like(table, np.nan)
        if np.abs(moved).max() < 1e-8 * (1 + np.abs(table).max()):
            break
    return table


def infinite_horizon(task: Task) -> float:
    """IH (Liu et al. 2018): the ratio of discounted visits of states, one unknown per state; then a weighted mean.

    d(s) of the log (discounted by gamma^t as its time says) times w(s) solves the flow equations of the target:
    w d = (1 - gamma) start + gamma P_pi' (w d), by least squares over the states that the log holds.
    """
    S = task.states
    here, there = task.observation.astype(int).ravel(), task.next_observation.astype(int).ravel()
    weight = task.padded.discounts[task.padded.where[1]]
    flow = np.zeros((S, S))
    np.add.at(flow, (there[~task.terminated], here[~task.terminated]), (weight * task.rho)[~task.terminated])
    start = np.bincount(here[task.begins], minlength=S).astype(float)
    visits = np.bincount(here, weight, S)
    w = np.linalg.lstsq(np.diag(visits) - task.gamma * flow, start, rcond=None)[0]
    w = np.maximum(w, 0.0)
    share = (w[here] * weight * task.rho).sum()
    total = (w * visits).sum() / len(task.begins)
    return float(total * (w[here] * weight * task.rho * task.reward).sum() / share) if share > 0 else float("nan")


def trajectory_weights(task: Task, each: bool, normalised: bool) -> np.ndarray:
    """Weights [episode, time] of rewards for is, wis (whole episodes) and pdis, wpdis (up to each step)."""
    p = task.padded
    w = p.products if each else np.repeat(p.products[:, -1:], p.shape[1], 1)
    return w / np.maximum(w.mean(0), 1e-300) if normalised else w


def importance(each: bool, normalised: bool) -> Callable[[Task], float]:
    def value(task: Task) -> float:
        p = task.padded
        return float((trajectory_weights(task, each, normalised) * p.reward * p.discounts).sum(1).mean())

    return value


def doubly_robust(task: Task, table: np.ndarray, normalised: bool) -> float:
    """DR (Jiang and Li 2016) and WDR (Thomas and Brunskill 2016)."""
    return float(_robust_terms(task, table, normalised).sum(1).mean())


def _robust_terms(task: Task, table: np.ndarray, normalised: bool) -> np.ndarray:
    """gamma^t (w_t (r - q) + w_{t-1} v), [episode, time]."""
    p = task.padded
    w = trajectory_weights(task, True, normalised)
    before = np.c_[np.ones(p.shape[0]), w[:, :-1]]
    q = p.spread(table.ravel()[_pairs(task)])
    v = p.spread(_values(task, table))
    return p.discounts * (w * (p.reward - q) + before * v) * p.alive


def magic(task: Task, table: np.ndarray, horizons: int = 12, resamples: int = 100, seed: int = 0) -> float:
    """MAGIC (Thomas and Brunskill 2016): WDR up to some step, the model behind it, blended by estimated error.

    Biases are distances from the 90 % bootstrap interval of WDR; covariances come from episodes.
    """
    p = task.padded
    w = trajectory_weights(task, True, True)
    terms = _robust_terms(task, table, True).cumsum(1)
    after = p.spread(_next_values(task, table)) * task.gamma * p.discounts * w
    cuts = np.unique(np.linspace(0, p.shape[1] - 1, horizons).round().astype(int))
    model = (p.spread(_values(task, table)) * p.alive)[:, 0]
    columns = np.stack([model, *((terms[:, t] + after[:, t]) for t in cuts[:-1]), terms[:, -1]], 1)
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(columns), (resamples, len(columns)))
    low, high = np.quantile(columns[:, -1][draws].mean(1), [0.05, 0.95])
    means = columns.mean(0)
    bias = np.where(means > high, means - high, np.where(means < low, means - low, 0.0))
    covariance = np.atleast_2d(np.cov(columns.T)) / len(columns)
    return float(means @ _simplex_weights(covariance + np.outer(bias, bias)))


def _simplex_weights(error: np.ndarray) -> np.ndarray:
    """x >= 0, sum 1, with x' error x least, by projected steps."""
    x = np.full(len(error), 1 / len(error))
    step = 0.5 / max(float(np.linalg.norm(error, 2)), 1e-300)
    for _ in range(2000):
        y = x - step * 2 * error @ x
        order = np.sort(y)[::-1]
        excess = (order.cumsum() - 1) / np.arange(1, len(y) + 1)
        x = np.maximum(y - excess[np.flatnonzero(order > excess)[-1]], 0.0)
    return x


def estimates(task: Task) -> dict[str, float]:
    """Every estimator of this file on a log of discrete observations."""
    tables = {
        "FQE, tabular": fqe(task),
        "Q-Reg": q_reg(task),
        "MRDR": mrdr(task),
        "Retrace": off_policy_returns(task, "retrace"),
        "tree backup": off_policy_returns(task, "tree"),
        "Q(lambda)": off_policy_returns(task, "q_lambda", 0.9),
    }
    found = {name: direct_value(task, table) for name, table in tables.items()}
    found["IH"] = infinite_horizon(task)
    for name, (each, normalised) in {"IS": (0, 0), "WIS": (0, 1), "PDIS": (1, 0), "WPDIS": (1, 1)}.items():
        found[name] = importance(bool(each), bool(normalised))(task)
    found["DR, FQE"] = doubly_robust(task, tables["FQE, tabular"], False)
    found["WDR, FQE"] = doubly_robust(task, tables["FQE, tabular"], True)
    found["WDR, MRDR"] = doubly_robust(task, tables["MRDR"], True)
    found["MAGIC, FQE"] = magic(task, tables["FQE, tabular"])
    return found
