"""Adds the error of an estimated behaviour policy to the interval, and compares with a second model.

With a model that has scores s and information H, the influence of an episode gets an extra term: D'H^-1 times the sum
of its scores, where D = sum of (rho delta x.left) s is the sensitivity of the value to the model. What remains of a
step is the part that the scores do not explain (`BehaviourModel.explained`), so the error is smaller than with known
probabilities. In small logs it is less so: a model of k parameters also fits the noise of n effective episodes. The
remaining variance is therefore multiplied by (n + k) / (n - k), the factor of Akaike's final prediction error (1970),
but not beyond the variance with known probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.stream import Stream
from gradtd.evaluation.decide import JUDGED, Decision
from gradtd.evaluation.estimators.least_squares import least_squares, step_influences
from gradtd.evaluation.estimators.methods import Case
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import Interval, interval, paired_error
from gradtd.logs import Ratios


def with_model_error(case: Case, decision: Decision, found: Ratios, C: Any) -> tuple[Decision, dict[str, Any]]:
    """The decision with the model's error in its influences, widened by the shift under a second model; and
    diagnostics.

    Traces multiply ratios of several steps; they are not corrected.
    """
    if found.model is None or found.other is None or case.traces is not None:
        return decision, {}
    square, fit, limits = case.square, decision.fit, case.settings.limits
    explained = found.model.explained(step_influences(case.stream, square.theta, square.left))
    more = np.add.reduceat(explained, case.begins[:-1]) * (case.n_episodes / len(case.stream))
    paid = _with_noise(replace(fit, psi=fit.psi + more), fit.error, found.model.parameters)
    value, psi = _by_other_model(case, found.other, C)
    apart = value - square.value
    error = paired_error(fit, replace(fit, psi=psi))
    bias = float(np.sign(apart) * np.sqrt(max(0.0, apart**2 - error**2)))
    # Fits were judged with the errors of known probabilities, and so is the bias that refits show: they keep the model.
    told = {
        "model_moves": abs(apart) / max(limits.far * error, paid.error, 1e-300),
        "refit_bias": abs(fit.bias) / max(fit.error, 1e-300),
    }
    return _moved(decision, paid, bias, case.settings.level), told


def _with_noise(fit: Fit, known: float, parameters: int) -> Fit:
    """The fit with the error that a model of so many parameters leaves; ``known`` is that of known probabilities."""
    n = fit.effective
    factor = np.sqrt((n + parameters) / (n - parameters)) if n > parameters else np.inf
    return replace(fit, error_factor=fit.error_factor * max(1.0, min(factor, known / max(fit.error, 1e-300))))


def _by_other_model(case: Case, rho: Floats, C: Any) -> tuple[float, Floats]:
    """The value and its influences with the ratios of another model."""
    steps = np.array(case.stream.steps)
    steps["rho"] = rho
    highest = int(max(steps["row"].max(), steps["next_row"].max()))
    stream = Stream.of_own(case.stream.features, steps, case.stream.name, highest, None, case.stream.starts)
    made = least_squares(stream, case.starts, case.begins, C=C)
    return made.value, made.psi


def _moved(decision: Decision, fit: Fit, bias: float, level: float) -> Decision:
    """The decision with another fit and one more bias, keeping the results of the checks."""

    def longer(before: Interval, at: float) -> tuple[Interval, Interval]:
        was, now = interval(decision.fit, at), interval(fit, at)
        down, up = max(0.0, was[0] - before.low, -bias), max(0.0, before.high - was[1], bias)
        return Interval(*now), Interval(now[0] - down, now[1] + up)

    own, hull = longer(decision.hull, JUDGED)
    shown = longer(decision.shown, level)[1]
    return replace(decision, fit=fit, own=own, hull=hull, shown=shown, bias=max(decision.bias, abs(bias)))
