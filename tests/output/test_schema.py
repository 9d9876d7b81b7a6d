"""What an evaluation says as JSON follows the schema that is shipped with it."""

import json

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import gradtd
from gradtd.output.schema import evaluation_schema

WALK = "random_walk_tabular"


@pytest.fixture(scope="module")
def validator():
    Draft202012Validator.check_schema(evaluation_schema())
    return Draft202012Validator(evaluation_schema())


def evaluations():
    log = gradtd.sample_log(WALK, 60)
    yield gradtd.evaluate(log, gamma=1.0)
    yield gradtd.evaluate(log, gamma=1.0, algorithm="lstd")
    yield gradtd.evaluate(log, gamma=1.0, algorithm="wis")
    zeros = {"episode": [0, 0, 1], "obs": [0, 1, 0], "terminated": [0, 1, 1], "reward": [0.0, 0, 0], "rho": [1.0, 1, 1]}
    yield gradtd.evaluate(zeros, gamma=1.0)


def test_every_evaluation_follows_the_schema(validator):
    for found in evaluations():
        told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert [error.message for error in validator.iter_errors(told)] == []


@pytest.mark.parametrize(
    "change",
    [{"verdict": "fine"}, {"interval": [0.1]}, {"value": "0.5"}, {"format": 2}, {"reasons": "none"}, {"level": 95}],
)
def test_what_is_no_evaluation_does_not_follow_it(validator, change):
    told = next(evaluations()).to_dict() | change
    assert list(validator.iter_errors(json.loads(json.dumps(told))))


def test_numbers_that_are_not_finite_are_null():
    found = list(evaluations())[-1]
    told = found.to_dict()
    assert json.dumps(told, allow_nan=False)
    assert all(x is None or np.isfinite(x) for x in told["interval"])
