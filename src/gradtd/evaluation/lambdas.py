"""The value of a policy against lambda: a check of the features that needs nothing but the log.

LSTD(lam) has the same answer for every lam where the features can hold the value, and else answers that differ: at
lam = 0 it leans on the features most, at lam = 1 on returns alone. So a line that is flat within its error is what
features that suffice would show, and a slope is a sign of bias at its left end. Error grows to the right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled.traces import KINDS, Tracing, traces_of
from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.stream import Stream
from gradtd.evaluation.least_squares import DENSE, Solver, rows_of, start_features
from gradtd.evaluation.products import chunk_rows, chunks, cross, weighted_sum

LAMBDAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class LambdaValues:
    """The value at each lambda, made by `value_against_lambda`.

    Parameters
    ----------
    lams, values, errors : array
        The lambdas, the values of the start states by LSTD(lam), and their sandwich errors, clustered by episodes.
    intervals : array
        One row per lambda: the lower and the upper end, by Student's t with the number of episodes less one.
    shifts, shift_errors : array
        The values less that at the first lambda, and the errors of these differences, in which what both answers have
        in common has gone.
    level : float
        The level of the intervals.
    """

    lams: Floats
    values: Floats
    errors: Floats
    intervals: Floats
    shifts: Floats
    shift_errors: Floats
    level: float

    @property
    def largest_shift(self) -> float:
        """The largest shift in units of its error, with its sign; 0 where nothing shifts."""
        known = self.shift_errors > 0
        if not known.any():
            return 0.0
        ratio = self.shifts[known] / self.shift_errors[known]
        return float(ratio[np.argmax(np.abs(ratio))])

    @property
    def flat(self) -> bool:
        """Whether no shift is beyond what chance explains, at 1 - level shared among the lambdas (Bonferroni)."""
        from scipy.stats import norm

        tests = max(1, int((self.shift_errors > 0).sum()))
        return abs(self.largest_shift) <= float(norm.ppf(1 - (1 - self.level) / (2 * tests)))

    def plot(self, path: str | Path) -> None:
        """Draw the value and its interval against lambda to a file.

        Parameters
        ----------
        path : str or Path
            A file that ends in .png, .svg or .pdf.
        """
        from gradtd.output.plots import COLOURS, canvas, save

        target = checks.picture_file("path", Path(path))
        figure, axes = canvas(f"value against lambda: {'flat' if self.flat else 'a slope, a sign of bias'}")
        axes.plot(self.lams, self.values, color=COLOURS[0], marker="o", markersize=3)
        axes.fill_between(self.lams, *self.intervals.T, color=COLOURS[0], alpha=0.18, linewidth=0)
        axes.set_xlabel("lambda")
        axes.set_ylabel(f"value of the start states, {100 * self.level:g} % interval")
        save(figure, target)


def value_against_lambda(
    stream: Stream, lams: Iterable[float] = LAMBDAS, *, trace: str = "rho", level: float = 0.95
) -> LambdaValues:
    """The value of the start states by LSTD(lam), with intervals, for several lambdas.

    Cost per lambda as for LSTD, O(n d^2); the traces take as much memory as a row of features for every step.

    Parameters
    ----------
    stream : Stream
        The experience, for example of `gradtd.log_stream`, in at least two episodes.
    lams : list of float
        The lambdas, growing.
    trace : str
        The ratio in a trace: ``"rho"``, ``"clipped"``, or ``"tree"``, which needs the target's probabilities.
    level : float
        The level of the intervals.

    >>> import gradtd
    >>> found = value_against_lambda(gradtd.sample("random_walk_tabular", 20_000), [0, 0.5, 1])
    >>> found.values.round(2), found.flat
    (array([0.54, 0.54, 0.54]), True)
    """
    wanted = np.array([checks.fraction("lam", lam) for lam in lams])
    if len(wanted) == 0 or (np.diff(wanted) <= 0).any():
        raise InputError(f"lams must be numbers that grow from 0 to at most 1, got {wanted.tolist()}.")
    checks.one_of("trace", trace, KINDS)
    level = checks.fraction("level", level)
    begins = stream.begins
    if stream.n_features > DENSE or len(begins) < 3:
        raise InputError(
            f"the value against lambda needs two episodes and at most {DENSE} features; {stream.name} has "
            f"{len(begins) - 1} and {stream.n_features}."
        )
    fits = [_fit(stream, Tracing(float(lam), trace)) for lam in wanted]
    values, psi = np.array([value for value, _ in fits]), np.array([psi for _, psi in fits])
    errors, shift_errors = _errors(psi), _errors(psi - psi[0])
    from scipy.stats import t

    reach = float(t.ppf((1 + level) / 2, psi.shape[1] - 1)) * errors
    intervals = np.column_stack([values - reach, values + reach])
    return LambdaValues(wanted, values, errors, intervals, values - values[0], shift_errors, level)


def _errors(psi: Floats) -> Floats:
    n = psi.shape[1]
    return np.asarray(np.sqrt((psi**2).sum(axis=1) / (n * (n - 1))))


def _fit(stream: Stream, tracing: Tracing) -> tuple[float, Floats]:
    """The value by LSTD(lam), and the influence of every episode on it (see `least_squares`)."""
    left = _traces(stream, tracing)
    A: Any = 0.0
    b: Any = 0.0
    C: Any = 0.0
    rho, reward = np.asarray(stream.steps["rho"]), np.asarray(stream.steps["reward"])
    parts = list(chunks(len(stream), chunk_rows(stream.features)))
    for part in parts:
        x, y, e = _rows(stream, part, left)
        A, C = A + cross(e, rho[part][:, None] * y), C + cross(x, x)
        b = b + weighted_sum(e, rho[part] * reward[part])
    n, begins = len(stream), stream.begins
    starts = start_features(stream, begins)
    mean = np.asarray(starts.mean(axis=0)).ravel()
    solver = Solver(A / n, C / n)
    theta, along = solver.solve(-b / n), solver.solve(mean, transposed=True)
    residual = np.empty(n)
    for part in parts:
        _, y, e = _rows(stream, part, left)
        residual[part] = rho[part] * (reward[part] + y @ theta) * (e @ along)
    total = np.add.reduceat(residual, begins[:-1]) * ((len(begins) - 1) / n)
    value = float(mean @ theta)
    return value, np.asarray(starts @ theta).ravel() - value - total


def _rows(stream: Stream, part: slice, left: Any) -> tuple[Floats, Floats, Floats]:
    """x, y and the trace of a chunk of steps, dense."""
    x, y = (rows if isinstance(rows, np.ndarray) else rows.toarray() for rows in rows_of(stream, part))
    e = x if left is None else left[part] if isinstance(left, np.ndarray) else left[part].toarray()
    return x, y, e


def _traces(stream: Stream, tracing: Tracing) -> Any:
    if tracing.lam == 0:
        return None
    made = traces_of(stream, tracing)
    if isinstance(made, np.ndarray):
        return made
    from scipy.sparse import csr_array

    return csr_array((made.data, made.indices, made.begin), shape=(len(stream), stream.n_features))
