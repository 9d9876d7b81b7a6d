"""The result of a run, and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers, make_frame
from gradtd.core.checks import InputError
from gradtd.core.files import write_text
from gradtd.core.stream import Stream
from gradtd.output.pages import render
from gradtd.output.plots import learning_curves, mean_and_error, show_figure
from gradtd.output.svg import picture
from gradtd.output.tables import Table
from gradtd.problems.base import Problem
from gradtd.problems.metrics import METRICS, cached_exact


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run: weights at the snapshots, and everything needed to repeat it. Made by `gradtd.run`.

    `gradtd.measure` gives its errors, `to_frame` a pandas table, `plot` and `page` a plot and an HTML page. A notebook
    shows it as a table. After it diverges, a run is frozen. (With d >= 1000 features, weights are checked every 1 + d
    // 1000 steps and after the last one.)

    Parameters
    ----------
    thetas : array
        The weights (runs, snapshots, features), or (snapshots, features) from `gradtd.learn`.
    steps : array of int
        The step numbers of the snapshots.
    diverged_at : array of int
        For each run the step at which it diverged, -1 if it did not.
    problem, algorithm : str
        The names of the problem (or stream) and of the rule.
    hyper : dict
        Every hyper-parameter of the rule.
    given : tuple of str
        The names of the hyper-parameters set by the user.
    seed : int
        The seed of the runs.
    versions : dict
        The versions of gradtd, NumPy and Numba used.
    source : Problem or Stream
        The problem or stream of the runs.
    alphas : array
        The step-size of the latest update (runs, snapshots), or (snapshots,) from `gradtd.learn`. NaN before the
        first update and for a rule without a step-size.
    """

    thetas: Floats
    steps: Integers
    diverged_at: Integers
    problem: str
    algorithm: str
    hyper: Mapping[str, Any]
    given: tuple[str, ...]
    seed: int
    versions: Mapping[str, str]
    source: Problem | Stream
    alphas: Floats

    @property
    def theta(self) -> Floats:
        """The weights at the last snapshot."""
        return np.asarray(self.thetas[..., -1, :])

    @property
    def diverged(self) -> int:
        """The number of runs that diverged."""
        return int((self.diverged_at >= 0).sum())

    def __repr__(self) -> str:
        return (
            f"Result({self.label} on {self.problem}, seed {self.seed}: thetas {self.thetas.shape}, {self.diverged} "
            "diverged)"
        )

    @property
    def label(self) -> str:
        """The algorithm and the hyper-parameters that were given."""
        shown = {name: self.hyper.get(name) for name in self.given}
        settings = ", ".join(f"{name}={_short(value)}" for name, value in shown.items())
        return f"{self.algorithm}({settings})" if settings else self.algorithm

    def table(self, metric: str | None = None, at: Sequence[int] | None = None) -> Table:
        """The metric's mean and standard error over runs, one row per snapshot.

        Parameters
        ----------
        metric : str, optional
            A name in `gradtd.METRICS`; by default rmsve for a problem, and none for a stream.
        at : list of int, optional
            The snapshots to show; by default ten of them, including the last.
        """
        shown = np.asarray(at if at is not None else _some(self.steps))
        if missing := sorted({int(k) for k in shown} - {int(k) for k in self.steps}):
            raise InputError(f"at must contain steps at which a snapshot was taken; there is none at {missing[0]}.")
        where = np.searchsorted(self.steps, shown)
        columns = {"step": [str(k) for k in shown]}
        name = metric or self._default_metric()
        if name is not None:
            mean, error = mean_and_error(measure(self, name)[:, where])
            columns |= {name: [f"{x:.5g}" for x in mean], "se": [f"{x:.2g}" for x in error]}
        if name is None or self.hyper.get("alpha") == "auto":
            columns["alpha"] = [f"{x:.3g}" for x in self.step_sizes(where)]
        runs = f"{len(self.diverged_at)} runs, " if self.thetas.ndim == 3 else ""
        count = (
            f"{self.diverged} of {len(self.diverged_at)} runs diverged; each is frozen from its step of divergence on."
        )
        return Table(
            f"{self.label} on {self.problem}, {runs}seed {self.seed}",
            list(columns),
            list(zip(*columns.values(), strict=True)),
            notes=([count] if self.diverged else []) + self._notes_on_traces(name),
        )

    def step_sizes(self, places: Any = slice(None)) -> list[float]:
        """The median over runs of the step-size at snapshots. NaN before the first update."""
        columns = np.atleast_2d(self.alphas)[:, places].T
        return [float(np.median(known)) if (known := column[~np.isnan(column)]).size else np.nan for column in columns]

    def __rich__(self) -> Any:
        return self.table().rich()

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_frame(self, metric: str | Sequence[str] | None = None) -> Any:
        """A tidy pandas table: run, step, the metric, alpha, and whether the run had diverged by then.

        Parameters
        ----------
        metric : str or list of str, optional
            Names in `gradtd.METRICS`, one column each; by default rmsve for a problem, none for a stream.
        """
        runs, snapshots = len(self.diverged_at), len(self.steps)
        wanted = [self._default_metric()] if metric is None else [metric] if isinstance(metric, str) else metric
        step, diverged_at = np.tile(self.steps, runs), np.repeat(self.diverged_at, snapshots)
        measured = {name: measure(self, name).ravel() for name in wanted if name is not None}
        return make_frame(
            {"run": np.repeat(np.arange(runs), snapshots), "step": step}
            | measured
            | {"alpha": self.alphas.ravel(), "diverged": (diverged_at >= 0) & (diverged_at <= step)}
        )

    def plot(self, path: str | Path | None = None, metric: str = "rmsve", *, log: bool = False) -> Any:
        """Draw the metric's mean over runs with its 95 % interval. A notebook shows the plot. Returns the axes.

        Parameters
        ----------
        path : str or Path, optional
            A file that ends in .png, .svg or .pdf, to write the picture to.
        metric : str
            A name in `gradtd.METRICS`.
        log : bool
            Whether the axis of the error is logarithmic.
        """
        target = None if path is None else checks.picture_file("path", Path(path))
        return show_figure(self._figure(metric, log), target)

    def _figure(self, metric: str, log: bool = False) -> Any:
        curves = {self.label: (self.steps, measure(self, metric))}
        return learning_curves(curves, title=self.problem, metric=metric, log=log)

    def page(self, file: str | Path, metric: str | None = None) -> Path:
        """Write the learning curve, the numbers and the settings to one self-contained HTML file.

        Parameters
        ----------
        file : str or Path
            A file that ends in .html.
        metric : str, optional
            A name in `gradtd.METRICS`; by default rmsve for a problem.
        """
        target = checks.file_to_write("file", Path(file), ".html")
        name = metric or self._default_metric()
        settings = [
            [key, _short(value), "given" if key in self.given else "default"] for key, value in self.hyper.items()
        ]
        numbers = self.table(name)
        text = render(
            "run.html",
            title=f"{self.algorithm} on {self.problem}",
            about=numbers.title,
            picture=picture(self._figure(name)) if name else "",
            numbers=Table("", numbers.columns, numbers.rows, notes=numbers.notes).html(),
            settings=Table("", ["hyper-parameter", "value", ""], settings, words=3).html(),
            versions=", ".join(f"{package} {number}" for package, number in self.versions.items()),
        )
        return write_text(target, text)

    def _notes_on_traces(self, metric: str | None) -> list[str]:
        """A note if traces have infinite variance, so that a mean over runs is not meaningful."""
        if metric is None or not isinstance(self.source, Problem):
            return []
        traces = cached_exact(self.source, self.hyper.get("lam", 0.0), self.hyper.get("trace", "rho")).traces
        return [] if traces.finite else [traces.note]

    def _default_metric(self) -> str | None:
        """The default metric. None without a problem, or if the problem's values are infinite."""
        if not isinstance(self.source, Problem):
            return None
        try:
            cached_exact(self.source)
        except InputError:
            return None
        return "rmsve"


def _some(steps: Integers, most: int = 10) -> Integers:
    """At most ``most`` snapshots, evenly spaced, including the last."""
    return steps[:: -max(1, -(-len(steps) // most))][::-1]


def _short(value: Any) -> str:
    return "..." if isinstance(value, np.ndarray) else str(value)


def measure(
    result: Result, metric: str | Callable[..., Floats] = "rmsve", *, lam: float | None = None, **options: Any
) -> Floats:
    """A metric of a result's weights: shape (runs, snapshots).

    Parameters
    ----------
    result : Result
        The result of `gradtd.run`.
    metric : str or callable
        A name in `gradtd.METRICS`, or a function ``metric(exact, thetas, **options)``.
    lam : float, optional
        The lambda of NEU, MSPBE and the distance, by default that of the run.
    **options
        Other arguments of the metric, for example ``weights="d_mu"`` for rmsve.

    >>> import gradtd
    >>> result = gradtd.run("boyan_chain", "lstd", runs=3, steps=2000, snapshots=1000)
    >>> gradtd.measure(result, "rmsve").shape
    (3, 2)
    """
    if not isinstance(result, Result):
        raise InputError(f"measure takes one Result of gradtd.run, got {type(result).__name__}.")
    if not isinstance(result.source, Problem):
        raise InputError("the exact metrics need a problem; for a stream, see empirical_neu.")
    if not callable(metric):
        metric = METRICS[checks.known_name("metric", metric, METRICS)]
    decay = result.hyper.get("lam", 0.0) if lam is None else lam
    return metric(cached_exact(result.source, decay, result.hyper.get("trace", "rho")), result.thetas, **options)
