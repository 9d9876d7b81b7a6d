"""Evaluates a policy from a log: a value, an interval, and a verdict on whether to trust them."""

from __future__ import annotations

from gradtd.evaluation.estimators.lambda_values import LambdaValues, value_against_lambda
from gradtd.evaluation.evaluate import evaluate
from gradtd.evaluation.log_streams import log_stream, store_stream
from gradtd.evaluation.report.comparison import Comparison, Evaluations
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import Estimate
from gradtd.evaluation.report.result import Evaluation, load_evaluation

__all__ = [
    "Comparison",
    "Diagnostics",
    "Estimate",
    "Evaluation",
    "Evaluations",
    "LambdaValues",
    "evaluate",
    "load_evaluation",
    "log_stream",
    "store_stream",
    "value_against_lambda",
]
