"""Logs: read from tables or collected from an environment, and their importance ratios."""

from __future__ import annotations

from gradtd.logs.collect import collect, rollout_value
from gradtd.logs.log import Log
from gradtd.logs.ratios import Ratios, ratios
from gradtd.logs.read import read_log
from gradtd.logs.row_policies import Probabilities
from gradtd.logs.understood import Understood
from gradtd.logs.write import write_log

__all__ = [
    "Log",
    "Probabilities",
    "Ratios",
    "Understood",
    "collect",
    "ratios",
    "read_log",
    "rollout_value",
    "write_log",
]
