"""From what a log in parts says to an `Evaluation`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.evaluation.parts.job import Job
from gradtd.evaluation.parts.judging import diagnosed, ratio_picture
from gradtd.evaluation.parts.sums import Sums
from gradtd.evaluation.report.estimate import Estimate
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.report.verdict import judge
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
    decision, headline, features = answer.decision, answer.rows[0], answer.features
    diagnostics = diagnosed(
        job,
        sums,
        answer.value,
        decision,
        method=settings.method,
        features=features.n_features,
        features_named=job.named,
        resamples=len(answer.resampled),
        **answer.told,
    )
    verdict = judge(diagnostics, answer.rows)
    counts, edges = answer.starts
    pictured = ratio_picture(sums["ratios"]) | {"starts": counts, "starts_edges": edges}
    assert headline.low is not None
    assert headline.high is not None
    return Evaluation(
        value=answer.value,
        interval=(headline.low, headline.high),
        level=settings.level,
        method=settings.method,
        gamma=settings.gamma,
        episodes=diagnostics.episodes,
        steps=diagnostics.steps,
        verdict=verdict.word,
        reasons=verdict.reasons,
        warnings=verdict.warnings,
        notes=(*merge_notes(sums.notes.elements()), *notes),
        estimates=answer.rows,
        diagnostics=diagnostics,
        theta=answer.theta,
        features=features,
        resampled=answer.resampled,
        influences=decision.fit.psi,
        checks=decision.checks,
        pictured={name: np.asarray(array, np.float64) for name, array in pictured.items()},
        log=job.name,
    )
