"""What may be asked beside the value, from the same decision: fields of an `Evaluation`."""

from __future__ import annotations

from typing import Any

from gradtd.evaluation.anytime import anytime
from gradtd.evaluation.decide import Decision
from gradtd.evaluation.settings import Settings


def extra_answers(decision: Decision | None, episodes: float, settings: Settings) -> dict[str, Any]:
    """Everything that was asked for beside the value; nothing where the value was not checked."""
    if decision is None:
        return {}
    made: dict[str, Any] = {}
    if settings.anytime:
        made["anytime"] = anytime(decision, episodes, settings.level, settings.limits)
    return made
