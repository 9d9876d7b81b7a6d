"""Logs: steps that a policy produced, read from tables or collected, and the ratios that correct for it."""

from __future__ import annotations

from gradtd.logs.log import Log
from gradtd.logs.read import read_log

__all__ = ["Log", "read_log"]
