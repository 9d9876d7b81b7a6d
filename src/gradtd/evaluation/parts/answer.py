"""From what a log in parts says to an `Evaluation`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gradtd.core.arrays import Floats
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.judging import steps_of
from gradtd.evaluation.parts.sums import Sums
from gradtd.evaluation.report.diagnose import Equations, diagnose
from gradtd.evaluation.report.estimate import Estimate
from gradtd.evaluation.report.result import Evaluation, build_evaluation
from gradtd.evaluation.report.step_sums import ratio_picture
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.trust.deciding import Decision
from gradtd.features import Features
from gradtd.logs.log import merge_notes


@dataclass(frozen=True, eq=False)
class Answer:
    """What the checks decided, and the value with all that is shown of it.

    Parameters
    ----------
    decision
        Of the checks.
    value, theta, features
        The value of the start states, and the weights of features that it is made of.
    rows
        Estimates, the one asked for first.
    resampled
        Values of resamples.
    starts
        Counts and edges of a histogram of the values of starts.
    told
        Diagnostics that do not follow from the sums.
    """

    decision: Decision
    value: float
    theta: Floats
    features: Features
    rows: tuple[Estimate, ...]
    resampled: Floats
    starts: tuple[Floats, Floats]
    told: dict[str, Any]


def evaluation_of(job: Job, sums: Sums, answer: Answer, settings: Settings, notes: list[str]) -> Evaluation:
    """The answer with its diagnostics and its verdict."""
    decision, features, told = answer.decision, answer.features, answer.told
    names = {entry.name for entry in fields(Equations)}
    measured: dict[str, Any] = {name: told[name] for name in names & set(told)}
    equations = Equations(value=answer.value, error=decision.fit.error, features=features.n_features, **measured)
    more = {name: value for name, value in told.items() if name not in names}
    diagnostics = diagnose(
        steps_of(sums),
        equations,
        decision,
        settings,
        answer.rows[0],
        features_named=job.named,
        resamples=len(answer.resampled),
        **more,
    )
    counts, edges = answer.starts
    return build_evaluation(
        diagnostics,
        answer.rows,
        settings.level,
        theta=answer.theta,
        features=features,
        resampled=answer.resampled,
        influences=decision.fit.psi,
        pictured=ratio_picture(sums["ratios"]) | {"starts": counts, "starts_edges": edges},
        checks=decision.checks,
        notes=(*merge_notes(sums.notes.elements()), *notes),
        log=job.name,
    )
