"""The value of a policy against lambda: a check of the features that needs only the log.

If the features can represent the value, LSTD(lam) gives the same answer for every lam. Otherwise the answers differ: at
lam = 0 LSTD relies most on the features, at lam = 1 only on returns. Sufficient features therefore give a line that is
flat within its error, and a slope is a sign of bias at small lambda. The error grows with lambda.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.compiled.traces import KINDS, Tracing
from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers, make_frame
from gradtd.core.blas import one_thread
from gradtd.core.checks import InputError
from gradtd.core.quantiles import normal, student
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.least_squares import (
    Sums,
    solve_sums,
    standard_error,
    start_features,
    weighted_rows,
)
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.estimators.products import cross, second_moments, trace_rows
from gradtd.evaluation.estimators.solvers import DENSE
from gradtd.evaluation.report.estimate import ESTIMATORS

if TYPE_CHECKING:
    import pandas

LAMBDAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
LITTLE_WORK, A_STEP = 5e8, 400
"""Every evaluation includes this curve if it takes at most this number of multiplications. A step costs this number of
multiplications more, for its trace."""


@dataclass(frozen=True, eq=False)
class LambdaValues:
    """The value at each lambda, made by `value_against_lambda`.

    Parameters
    ----------
    lams, values, errors : array
        The lambdas, the values of the start states by LSTD(lam), and their sandwich errors, clustered by episodes.
    intervals : array
        One row per lambda: the lower and the upper end, by Student's t with one degree of freedom less than episodes.
    shifts, shift_errors : array
        Differences from the value at the first lambda, and their paired errors.
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
        """The largest shift of the value, in standard errors and with its sign. 0 if the value never shifts."""
        known = self.shift_errors > 0
        if not known.any():
            return 0.0
        ratio = self.shifts[known] / self.shift_errors[known]
        return float(ratio[np.argmax(np.abs(ratio))])

    @property
    def flat(self) -> bool:
        """Whether chance explains all shifts, at 1 - level shared among the lambdas (Bonferroni)."""
        tests = max(1, int((self.shift_errors > 0).sum()))
        return abs(self.largest_shift) <= normal(1 - (1 - self.level) / (2 * tests))

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the value and its interval against lambda. A notebook shows the plot at once. Returns the axes.

        Parameters
        ----------
        path : str or Path
            A file to write as well, whose name ends in .png, .svg or .pdf.
        """
        from gradtd.output.plots import show_figure

        return show_figure(self.figure(), path)

    def to_frame(self) -> pandas.DataFrame:
        """One row per lambda: value, error, low, high. Needs pandas."""
        low, high = self.intervals.T
        columns = {"lam": self.lams, "value": self.values, "error": self.errors, "low": low, "high": high}
        return make_frame(columns, index="lam")

    def figure(self) -> Any:
        """The value and its interval against lambda, as a Matplotlib figure."""
        from gradtd.output.plots import COLOURS, canvas

        figure, axes = canvas(f"Value against lambda: {'flat' if self.flat else 'a slope, a sign of bias'}")
        axes.plot(self.lams, self.values, color=COLOURS[0], marker="o", markersize=3)
        axes.fill_between(self.lams, *self.intervals.T, color=COLOURS[0], alpha=0.18, linewidth=0)
        axes.set_xlabel("lambda")
        axes.set_ylabel(f"value of the start states, {100 * self.level:g} % interval")
        return figure

    def arrays(self) -> dict[str, Floats]:
        """The arrays of this record by name, for `from_arrays`."""
        return {f"lambda_{one.name}": np.atleast_1d(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> LambdaValues | None:
        """Build the record from the output of `arrays`, or None if that is empty."""
        if "lambda_values" not in arrays:
            return None
        made: dict[str, Any] = {one.name: arrays[f"lambda_{one.name}"] for one in fields(cls)}
        return cls(**made | {"level": float(made["level"][0])})


def value_against_lambda(
    stream: Stream, lams: Iterable[float] = LAMBDAS, *, trace: str = "rho", level: float = 0.95
) -> LambdaValues:
    """The value of the start states by LSTD(lam), with intervals, for several lambdas.

    The cost per lambda is that of LSTD, O(n d^2), with memory for three rows of features per step.

    Parameters
    ----------
    stream : Stream
        The experience, for example of `gradtd.log_stream`, in at least two episodes.
    lams : list of float
        The lambdas, in increasing order.
    trace : str
        The ratio in a trace: ``"rho"``, ``"clipped"``, or ``"tree"``, which needs the target's probabilities.
    level : float
        The level of the intervals.

    >>> import gradtd
    >>> found = value_against_lambda(gradtd.sample("random_walk_tabular", 20_000), [0, 0.5, 1])
    >>> found.values.round(2), found.flat
    (array([0.54, 0.54, 0.54]), True)
    """
    wanted = np.array(checks.fractions("lam", lams))
    if len(wanted) == 0 or (np.diff(wanted) <= 0).any():
        raise InputError(f"lams must be increasing numbers from 0 to at most 1, got {wanted.tolist()}.")
    checks.one_of("trace", trace, KINDS)
    level = checks.fraction("level", level)
    begins = stream.begins
    if stream.n_features > DENSE or len(begins) < 3:
        raise InputError(
            f"the value against lambda needs two episodes and at most {DENSE} features; {stream.name} has "
            f"{len(begins) - 1} and {stream.n_features}."
        )
    return lambda_values(stream, wanted, trace, level)


@one_thread()
def lambda_values(
    stream: Stream, wanted: Floats, trace: str, level: float, episode: Integers | None = None
) -> LambdaValues:
    """`value_against_lambda`. If the stream's episodes are pieces of longer ones, ``episode`` numbers the latter, for
    traces."""
    begins, n = stream.begins, len(stream)
    starts = start_features(stream, begins)
    mean = np.asarray(starts.mean(axis=0)).ravel()
    values, psi = np.empty(len(wanted)), np.empty((len(wanted), len(begins) - 1))
    # Only the left factor, the trace, depends on lambda.
    x, y, reward = weighted_rows(stream, slice(None))
    C = second_moments(stream.features, stream.steps["row"])
    for k, lam in enumerate(wanted):
        traces = trace_rows(stream, Tracing(float(lam), trace), episode)
        e = x if traces is None else traces
        A, b = cross(e, y) / n, e.T @ reward / n
        if isinstance(C, np.ndarray) and not isinstance(A, np.ndarray):
            A = A.toarray()
        fit = solve_sums(Sums(A, b, C), mean)
        of_episode = np.add.reduceat((reward + y @ fit.theta) * (e @ fit.left), begins[:-1])
        values[k] = fit.value
        psi[k] = np.asarray(starts @ fit.theta).ravel() - fit.value - of_episode * (len(of_episode) / n)
    errors, shift_errors = standard_error(psi), standard_error(psi - psi[0])
    reach = student((1 + level) / 2, psi.shape[1] - 1) * errors
    intervals = np.column_stack([values - reach, values + reach])
    return LambdaValues(wanted, values, errors, intervals, values - values[0], shift_errors, level)


def against_lambda(case: Case, episode: Integers) -> dict[str, Floats]:
    """An evaluation's values for several lambdas, as arrays. Empty if they would be expensive or meaningless.

    They are computed if traces were requested or if they are cheap.
    """
    stream, settings = case.stream, case.settings
    work = len(stream) * (stream.n_features**2 + A_STEP) * len(LAMBDAS)
    possible = settings.method not in ESTIMATORS and stream.n_features <= DENSE and case.n_episodes > 1
    if not possible or (settings.tracing is None and work > LITTLE_WORK):
        return {}
    kind = "rho" if settings.tracing is None else settings.tracing.kind
    with np.errstate(all="ignore"):  # extreme ratios can make traces overflow
        try:
            found = lambda_values(stream, np.array(LAMBDAS), kind, settings.level, episode)
        except np.linalg.LinAlgError:
            return {}
    return found.arrays() if np.isfinite(found.intervals).all() else {}
