"""The status of a learner: how far its predictions are from the least-squares solution on its stored steps.

With the steps of its buffers (or the latest ones, if its algorithm does not replay), e the trace of a step or its
features,

    A = sum of rho e (discount x' - x)',    b = sum of rho r e,    A theta_ls + b = 0

the influences A^-1 sum of rho delta e, one per episode, give the covariance of the solution. Both are computed in
whitened features, C = mean of x x' = I. There the mean square of a difference of predictions, over the states of these
steps, is the squared difference of the weights, and the mean variance of predictions is the trace of the covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream_arrays import SparseRows
from gradtd.running.online.growing_rows import GrowingRows
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.queue import StepQueue

MOST_FEATURES = 500
"""With more features than this, least squares is not computed."""
FAR, FAR_ELSEWHERE, FAR_PART = 0.5, 2.0, 0.1
"""A learner has not converged if its predictions are farther from the least-squares ones than this number of standard
errors and than this relative distance. If least squares uses only part of the steps, its own error is part of the
distance."""
BADLY_SCALED = 1e4
"""Condition number of the features' second moments above which gradient rules are slow."""
REDUNDANT = 1e-10
"""Directions with a smaller share of the largest second moment are ignored."""
FEW_EPISODES, BLOCKS = 10, 20
"""With fewer episodes, standard errors come from this many blocks of steps."""


@dataclass(frozen=True)
class Standing:
    """The status of a learner. Values that could not be computed are None; ``note`` gives the reason.

    Parameters
    ----------
    seen, updates, episodes : int
        Numbers of steps given, of updates and of episodes begun.
    started : int or None
        Approximate step at which learning started.
    step_size : float
        The step-size of the latest update, chosen or given.
    buffers : list
        Numbers of steps and episodes in each buffer.
    used : int
        Number of steps in the comparison.
    distance : float or None
        Root mean square distance of predictions from those of least squares, in standard errors of the latter.
    part : float or None
        This distance relative to the root mean square of the least-squares predictions.
    mean_update, mean_update_error : float or None
        Norm of the mean of rho delta e over these steps, and the standard error of that mean.
    condition : float or None
        Condition number of the features' second moments.
    least_squares : array or None
        The weights of least squares.
    start_value, start_least_squares, start_error : float or None
        The mean prediction at the starts of these episodes, that of least squares, and the standard error of the
        latter.
    diverged_at : int
        The step of divergence, -1 if the weights did not diverge.
    note : str
        The reason why something was not computed.
    """

    seen: int
    updates: int
    episodes: int
    started: int | None
    step_size: float
    buffers: list[tuple[int, int]]
    used: int
    diverged_at: int
    note: str = ""
    distance: float | None = None
    part: float | None = None
    mean_update: float | None = None
    mean_update_error: float | None = None
    condition: float | None = None
    least_squares: Floats | None = None
    start_value: float | None = None
    start_least_squares: float | None = None
    start_error: float | None = None

    @property
    def arrived(self) -> bool | None:
        """Whether predictions are within the error of least squares, or within a tenth of their size, or None if
        unknown."""
        return self.is_within(FAR_PART)

    def is_within(self, part: float) -> bool | None:
        """`arrived`, for a relative distance other than the default."""
        if self.distance is None or self.part is None:
            return None
        far = FAR + FAR_ELSEWHERE * (1 - self.used / self.seen)
        return self.distance <= far or self.part <= part

    @property
    def badly_scaled(self) -> bool:
        return self.condition is not None and self.condition > BADLY_SCALED

    def rows(self) -> list[tuple[str, str]]:
        """The status as pairs of labels and text."""
        found = [("Steps seen", f"{self.seen}, {self.episodes} episodes")]
        if self.diverged_at >= 0:
            frozen = f"at step {self.diverged_at}; the weights are frozen: use a smaller step-size"
            return [*found, ("Diverged", frozen)]
        learning = f"about step {self.started}" if self.started else "not yet: buffers are filling"
        found += [("Learning started", learning), ("Updates", str(self.updates))]
        found += [("Step-size", f"{self.step_size:.3g}")] if np.isfinite(self.step_size) else []
        for i, (steps, episodes) in enumerate(self.buffers):
            found.append((f"Buffer {i + 1}", f"{steps} steps of {episodes} episodes"))
        return found + self._comparison() + ([("Not computed", self.note)] if self.note else [])

    def _comparison(self) -> list[tuple[str, str]]:
        found = []
        if self.distance is not None and self.part is not None:
            words = "converged" if self.arrived else "not converged yet"
            told = f"{self.distance:.1f} standard errors, {self.part:.1%} of its predictions ({words})"
            found.append((f"Distance from least squares on {self.used} steps", told))
        if self.start_value is not None and self.start_least_squares is not None:
            told = f"{self.start_value:.5g}; least squares {self.start_least_squares:.5g} +- {self.start_error:.2g}"
            found.append(("Value of the start states", told))
        if self.mean_update is not None:
            told = f"{self.mean_update:.3g}, standard error {self.mean_update_error:.2g}"
            found.append(("Norm of the mean update", told))
        if self.condition is not None:
            good = "good" if self.condition < 100 else "fair"
            scaled = "badly scaled: pass whiten=True" if self.badly_scaled else good
            found.append(("Condition number of the features", f"{self.condition:.3g} ({scaled})"))
        return found

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self.rows())
        return "\n".join(f"{label.ljust(width)}  {told}" for label, told in self.rows())

    def _repr_html_(self) -> str:
        lines = (f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self.rows())
        return f"<table>{''.join(lines)}</table>"


def standing_of(queue: StepQueue, i: int, most: int | None = None) -> Standing:
    """The status of a run, on its ``most`` latest steps."""
    queue.work_off()
    run, window = queue.runs[i], queue.runs[i].window
    clock = None if run.run is None else run.run.clock[0]
    seen, updates = queue.seen, run.updates
    told: dict[str, Any] = {
        "seen": seen,
        "updates": updates,
        "episodes": queue.episodes.number + 1,
        "started": seen - updates + 1 if updates else None,
        "step_size": float("nan") if clock is None else float(clock.alpha),
        "buffers": _buffers(run),
        "diverged_at": run.diverged_at,
    }
    used = window.size if most is None else min(most, window.size)
    if run.diverged_at >= 0 or used < 2:
        return Standing(**told, used=0, note="" if run.diverged_at >= 0 else "there are no steps to compare with")
    theta = queue.thetas()[i]
    return Standing(**told, used=used, **_compared(queue, run, theta, slice(window.size - used, window.size)))


def _buffers(run: OnlineRun) -> list[tuple[int, int]]:
    window = run.window
    if not window.has_buffers:
        return []
    found = []
    for begin, arrived in zip(window.buffers.begin, window.buffers.arrived, strict=True):
        places = window.buffers.members[max(begin, begin + arrived - window.keeps) : begin + arrived]
        found.append((len(places), len(np.unique(window.steps.episode[places]))))
    return found if window.split.apart else found[:1]


def _compared(queue: StepQueue, run: OnlineRun, theta: Floats, part: slice) -> dict[str, Any]:
    """The solution of these steps' equations, and the distance of the weights from it."""
    steps: Any = run.window.steps[part]
    tables, columns = _tables(queue, run, steps, part)
    if not tables:
        return {"note": f"more than {MOST_FEATURES} features occur in the steps"}
    x, after, e = tables
    reward, discount, rho, episode = (np.array(steps[name]) for name in ("reward", "discount", "rho", "episode"))
    size, basis = np.linalg.eigh(x.T @ x / len(x))
    kept = size > REDUNDANT * size[-1]
    if not kept.any():
        return {"note": "all features are 0"}
    scale = np.sqrt(size[kept])
    W = basis[:, kept] / scale
    change, weighted = discount[:, None] * after - x, rho[:, None] * e
    A, b = W.T @ (weighted.T @ change) @ W, W.T @ (reward @ weighted)
    solved = bool(np.linalg.cond(A) <= 1 / REDUNDANT)
    best: Floats = -np.linalg.solve(A, b) if solved else np.zeros(len(b))
    group, own = _groups(episode), theta[columns]
    errors = reward[:, None] + change @ np.stack([own, W @ best], axis=1)
    update = _sums(group, errors[:, :1] * weighted)
    told = {"condition": float(size[-1] / size[kept][0])}
    told["mean_update"] = float(np.linalg.norm(update.sum(axis=0)) / len(x))
    told["mean_update_error"] = float(np.sqrt(((update - update.mean(axis=0)) ** 2).sum()) / len(x))
    if not solved:
        return told | {"note": "the equations of these steps have no unique solution"}
    influence: Floats = np.linalg.solve(A, W.T @ _sums(group, errors[:, 1:] * weighted).T)
    error, away = float(np.sqrt((influence**2).sum())), float(np.linalg.norm(scale * (basis[:, kept].T @ own) - best))
    weights = np.zeros(queue.n_features)
    weights[columns] = W @ best
    start = x[np.r_[True, episode[1:] != episode[:-1]]].mean(axis=0)
    return told | {
        "start_value": float(start @ own),
        "start_least_squares": float(start @ weights[columns]),
        "start_error": float(np.sqrt(((start @ W @ influence) ** 2).sum())),
        "distance": away / error if error > 0 else np.inf if away > 1e-9 else 0.0,
        "part": away / max(float(np.linalg.norm(best)), 1e-300),
        "least_squares": weights,
    }


def _tables(queue: StepQueue, run: OnlineRun, steps: Any, part: slice) -> tuple[tuple[Floats, ...], Any]:
    """Features, next features and traces of the steps as dense tables, and the numbers of their columns."""
    rows: Any = queue.rows
    window = run.window
    if not isinstance(rows, GrowingRows):
        if queue.n_features > MOST_FEATURES:
            return (), None
        x, after = (np.asarray(rows.table[steps[end]], np.float64) for end in ("row", "next_row"))
        return (x, after, x if window.traces is None else window.traces[part]), slice(None)  # type: ignore[index]
    held = rows.table
    columns = np.unique(held.indices)
    if len(columns) > MOST_FEATURES:
        return (), None
    x, after = (_dense(held, steps[end].astype(np.int64), columns) for end in ("row", "next_row"))
    traces = window.traces
    at = np.arange(part.start, part.stop)
    return (x, after, _dense(traces.table, at, columns) if isinstance(traces, GrowingRows) else x), columns


def _dense(table: SparseRows, rows: Integers, columns: Any) -> Floats:
    made = np.zeros((len(rows), len(columns)))
    lengths = table.begin[rows + 1] - table.begin[rows]
    first = np.repeat(table.begin[rows] - np.r_[0, np.cumsum(lengths)[:-1]], lengths)
    at = first + np.arange(lengths.sum())
    made[np.repeat(np.arange(len(rows)), lengths), np.searchsorted(columns, table.indices[at])] = table.data[at]
    return made


def _groups(episode: Integers) -> Integers:
    """Groups of dependent steps: episodes, or blocks if there are few episodes."""
    number = np.cumsum(np.r_[False, episode[1:] != episode[:-1]])
    if number[-1] + 1 < FEW_EPISODES:
        number = np.arange(len(episode)) * min(BLOCKS, len(episode)) // len(episode)
    found: Integers = number
    return found


def _sums(group: Integers, rows: Floats) -> Floats:
    """The sums of consecutive rows by group."""
    begin = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    found: Floats = np.add.reduceat(rows, begin, axis=0)
    return found
