"""The result of an evaluation: the value, its interval, the value function and the verdict. It can be saved and
loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, number_or_nan, plain
from gradtd.core.checks import InputError
from gradtd.core.files import read_arrays, reading, write_arrays
from gradtd.evaluation.decide import Check
from gradtd.evaluation.extra_answers import GroupValue
from gradtd.evaluation.limits import DEFAULT, Limits
from gradtd.evaluation.report.assumptions import Assumption, Grade, assumptions, grade
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import BehaviourValue, Estimate
from gradtd.evaluation.report.saved_fields import refuse_unshown, restored_fields, told_extras
from gradtd.evaluation.report.verdict import judge
from gradtd.evaluation.sensitivity import Anytime, Confounding
from gradtd.features import Features
from gradtd.features.actions import ActionFeatures, PairFunction
from gradtd.logs import Understood
from gradtd.output.schema import FORMAT

if TYPE_CHECKING:
    import pandas
    from rich.console import Group

    from gradtd.evaluation.estimators.lambda_values import LambdaValues

FORMATS = ("gradtd evaluation 1", "gradtd evaluation 2")
"""Readable formats; the last one is written. The first had no checks and only two verdicts."""


class Summary(str):
    """Text that notebooks and prompts show without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of a policy, estimated from another policy's log. Made by `gradtd.evaluate`.

    Call it with observations to get their values. `save` and `gradtd.load_evaluation` store it, including the features;
    `plot` and `page` draw it; `to_dict` and `to_frame` export it.

    Parameters
    ----------
    value
        The target's value: the mean over the log's start states. NaN if the method returned none.
    interval
        The interval of the value at ``level``.
    level
        The nominal coverage of the interval, for example 0.95.
    method
        The name of the requested method.
    gamma
        The discount factor.
    episodes
        Number of independent pieces: episodes, or blocks of steps.
    steps
        Number of steps in the log.
    verdict
        "usable": all required checks ran and passed. "unchecked": a required check could not run. "not usable": a check
        failed.
    reasons
        Why it is not usable or unchecked, and what to do, in sentences.
    warnings
        Other cautions, in sentences.
    notes
        Changes made to the log, in sentences.
    estimates
        Every method on the same data, the requested one first.
    diagnostics
        The diagnostics; ``numbers`` lists them by name.
    theta
        The weights of the features.
    features
        The map from observations to features.
    resampled
        Values of the method on bootstrap samples: from refits, or first-order without refits.
    influences
        The influence of each episode, or block, on the value, which gives the interval and paired differences. Empty
        for methods with bootstrap values only.
    checks
        The table of checks: the values by richer and poorer features and by fits with memory.
    pictured
        Histograms for the plots.
    behaviour
        The behaviour policy's value in the same features, and the target's gain over it. None if the log was read in
        parts or the target is that policy.
    anytime, confounding, groups
        The interval that holds at every look at a growing log; the possible effect of an unrecorded cause; values of
        groups of start states. None, or empty, if not requested.
    target
        The name of the target.
    log
        The name of the log.
    understood
        How the log's columns were interpreted, and what was guessed; see `gradtd.logs.Understood`.
    """

    value: float
    interval: tuple[float, float]
    level: float
    method: str
    gamma: float
    episodes: int
    steps: int
    verdict: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    diagnostics: Diagnostics
    theta: Floats
    features: Features
    resampled: Floats
    influences: Floats = field(default_factory=lambda: np.zeros(0))
    checks: tuple[Check, ...] = ()
    pictured: Mapping[str, Floats] = field(default_factory=dict)
    behaviour: BehaviourValue | None = None
    anytime: Anytime | None = None
    confounding: Confounding | None = None
    groups: tuple[GroupValue, ...] = ()
    target: str = "target"
    log: str = "log"
    understood: Understood = field(default_factory=Understood)

    def __call__(self, observations: Any, actions: Any = None) -> Floats:
        """The values of observations, or of actions in them, one per row.

        Parameters
        ----------
        observations
            An array (rows, k), or (rows,) for discrete observations, as in the log.
        actions
            The actions, for action values: codes as in the log, or numbers for continuous actions.
        """
        if isinstance(self.features, ActionFeatures | PairFunction):
            return np.asarray(self.features.transform(observations, actions) @ self.theta)
        if actions is not None:
            raise InputError("these are state values, not action values: leave the actions out.")
        return np.asarray(self.features.transform(observations) @ self.theta)

    @property
    def numbers(self) -> Mapping[str, Any]:
        """The diagnostics that apply, by name."""
        return MappingProxyType(self.diagnostics.to_dict())

    @property
    def resampling(self) -> str:
        """The source of the interval, and the number of bootstrap samples."""
        refits, resamples = self.diagnostics.refits or 0, self.diagnostics.resamples
        if refits:
            return f"Confidence interval from {refits} refits on resampled episodes."
        drawn = f"The comparison rows use {resamples} bootstrap samples." if resamples else "No bootstrap samples."
        return f"Confidence interval from per-episode influence values. {drawn}"

    @property
    def lambda_values(self) -> LambdaValues | None:
        """The value against lambda, if the evaluation computed it."""
        from gradtd.evaluation.estimators.lambda_values import LambdaValues

        return LambdaValues.from_arrays(self.pictured)

    @property
    def value_of_influences(self) -> float:
        """The value that `influences` belong to, for paired differences: that of the state values."""
        own = self.diagnostics.state_value
        return self.value if own is None else own

    @property
    def value_function(self) -> str:
        """A sentence with the errors of both value functions, if ``value_function="auto"`` chose action values.
        Otherwise empty."""
        d = self.diagnostics
        if d.action_error is None:
            return ""
        both = f"standard error {d.action_error:.2g}; state values {self.estimates[0].error or 0.0:.2g}"
        return f"Value function: action values ({both}). The interval is that of the state values."

    @property
    def checked_without_traces(self) -> bool:
        """Whether the fits with a different lambda have lambda 0, because the value itself has traces."""
        return (self.diagnostics.lam or 0.0) >= DEFAULT.least_lambda

    @property
    def ess(self) -> float:
        """The effective sample size, in steps."""
        return float(self.diagnostics.ess)

    @property
    def evidence(self) -> tuple[Grade, ...]:
        """The evidence for the value in five lines, each graded good, fair or poor."""
        return grade(self.diagnostics)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions of the interval: how each was checked, or why it cannot be checked, and what happens if it
        fails."""
        return assumptions(self)

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Evaluation({self.value:.4g}, {self.level:.0%} interval [{low:.4g}, {high:.4g}], {self.verdict}; "
            f"{self.method}{', action values' if self.value_function else ''}, {self.episodes} episodes, "
            f"{self.steps} steps)"
        )

    def summary(self) -> Summary:
        """Value, interval, verdict and reasons, the behaviour's own value and the gain over it, and the evidence.

        ``print(evaluation)`` prints it.
        """
        from gradtd.output.evaluation_text import summary_lines

        return Summary("\n".join(summary_lines(self)))

    def __str__(self) -> str:
        return str(self.summary())

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the value with its interval next to those of the other methods. A notebook shows the plot at once.

        Returns the Matplotlib axes.

        Parameters
        ----------
        path
            An image file to write: .png, .svg or .pdf.
        """
        from gradtd.output.evaluation_page import estimates_figure
        from gradtd.output.plots import show_figure

        return show_figure(estimates_figure(self), path)

    def page(self, path: str | Path) -> Path:
        """Write one self-contained HTML page: value, verdict, plots, diagnostics.

        Parameters
        ----------
        path
            The file to write; its name ends in ``.html``.
        """
        from gradtd.output.evaluation_page import write_page

        return write_page({self.target: self}, path)

    def to_frame(self) -> pandas.DataFrame:
        """The estimates as a pandas frame, one row per method: value, low, high, error, note. Needs pandas."""
        from gradtd.output.evaluation_text import as_frame

        return as_frame(self)

    def __rich__(self) -> Group:
        from gradtd.output.evaluation_text import on_terminal

        return on_terminal(self)

    def _repr_html_(self) -> str:
        from gradtd.output.evaluation_text import in_notebook

        return in_notebook(self)

    def to_dict(self) -> dict[str, Any]:
        """All results except arrays, for JSON. Non-finite numbers become None."""
        names = ("value", "interval", "level", "method", "gamma", "episodes", "steps", "verdict", "reasons", "warnings")
        head = {"format": FORMAT} | {name: getattr(self, name) for name in names}
        rest = {
            "ess": self.ess,
            "resampling": self.resampling,
            "target": self.target,
            "log": self.log,
            "features": self.features.describe(),
            **({"value_function": self.value_function} if self.value_function else {}),
            "notes": self.notes,
            "understood": self.understood.to_dict(),
            "estimates": [vars(estimate) for estimate in self.estimates],
            "checks": [vars(check) for check in self.checks],
            "diagnostics": self.diagnostics.to_dict(),
        }
        rest |= told_extras(self) | {"assumptions": [vars(one) for one in self.assumptions]}
        return dict(plain(head | rest))

    def save(self, path: str | Path) -> Path:
        """Write the evaluation to one ``.npz`` file: arrays and a JSON header, without pickled objects.

        Parameters
        ----------
        path
            The file to write; its name ends in ``.npz``.
        """
        target = checks.file_to_write("an evaluation", Path(path), ".npz")
        described = self.features.to_dict()
        arrays = {f"features.{k}": v for k, v in described.items() if isinstance(v, np.ndarray)}
        plain = {k: v for k, v in described.items() if not isinstance(v, np.ndarray)}
        pictured = {f"pictured.{k}": v for k, v in self.pictured.items()}
        own = {"theta": self.theta, "resampled": self.resampled, "influences": self.influences}
        header = {"format": FORMATS[-1], "evaluation": self.to_dict(), "features": plain}
        return write_arrays(target, own | arrays | pictured, header)


def build_evaluation(
    diagnostics: Diagnostics,
    estimates: tuple[Estimate, ...],
    level: float,
    *,
    theta: Floats,
    features: Features,
    resampled: Floats,
    influences: Floats,
    pictured: Mapping[str, Floats],
    checks: tuple[Check, ...] = (),
    warnings: Iterable[str] = (),
    notes: Iterable[str] = (),
    extras: Mapping[str, Any] | None = None,
    target: str = "target",
    log: str = "log",
    understood: Understood | None = None,
    limits: Limits = DEFAULT,
) -> Evaluation:
    """Build the evaluation with its verdict, for logs in memory and in parts.

    The requested method comes first in ``estimates``. Warnings about the ratios are shown after those of the reader and
    before those of the rules.
    """
    headline, verdict = estimates[0], judge(diagnostics, estimates, limits)
    understood = understood or Understood()
    return Evaluation(
        value=number_or_nan(headline.value),
        interval=(number_or_nan(headline.low), number_or_nan(headline.high)),
        level=level,
        method=headline.method,
        gamma=diagnostics.gamma,
        episodes=diagnostics.episodes,
        steps=diagnostics.steps,
        verdict=verdict.word,
        reasons=verdict.reasons,
        warnings=(*understood.warnings, *warnings, *verdict.warnings),
        notes=tuple(notes),
        estimates=estimates,
        diagnostics=diagnostics,
        theta=theta,
        features=features,
        resampled=resampled,
        influences=influences,
        checks=checks,
        pictured={name: np.asarray(array, np.float64) for name, array in pictured.items()},
        target=target,
        log=log,
        understood=understood,
        **(extras or {}),
    )


def load_evaluation(path: str | Path) -> Evaluation:
    """Load a file written by `Evaluation.save`.

    Parameters
    ----------
    path
        The ``.npz`` file.
    """
    with reading(path, "an evaluation that gradtd saved"):
        header, arrays = read_arrays(Path(path))
        if header["format"] not in FORMATS:
            raise ValueError(header["format"])
        made = Evaluation(**restored_fields(header["evaluation"], header["features"], arrays))
        refuse_unshown(made)
        return made
