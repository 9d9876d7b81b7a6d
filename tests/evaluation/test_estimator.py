"""`PolicyEvaluator` against scikit-learn's own checks, against `evaluate`, and in a pipeline."""

import numpy as np
import pytest

import gradtd
from gradtd import InputError, Machine, PolicyEvaluator, evaluate
from naive.evaluation import real_walk, walk

checks = pytest.importorskip("sklearn.utils.estimator_checks")
pipeline = pytest.importorskip("sklearn.pipeline")
ONE = Machine(threads=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("features", ["identity", None])
def test_scikit_learns_checks_pass(features):
    """All that are made of an estimator that is neither a classifier nor a regressor. One needs SCIPY_ARRAY_API."""
    made = checks.check_estimator(
        PolicyEvaluator(gamma=0.9, features=features, machine=ONE), on_fail=None, on_skip=None
    )
    assert len(made) > 35
    assert {one["check_name"]: one["status"] for one in made if one["status"] != "passed"} in (
        {},
        {"check_array_api_input": "skipped"},
    )


def test_a_log_is_evaluated_as_evaluate_does():
    wanted = evaluate(walk(60), None, 0.9, machine=ONE)
    made = PolicyEvaluator(0.9, machine=ONE).fit(walk(60))
    assert (made.value_, made.interval_, made.verdict_) == (wanted.value, wanted.interval, wanted.verdict)
    assert made.predict([0, 1]).tolist() == wanted([0, 1]).tolist()
    assert str(made.summary()) == str(wanted.summary())


def _arrays():
    log = gradtd.read_log(real_walk(60))
    seen = np.asarray(log.observations)[log.row]
    given = {"episode": log.episode, "terminated": log.terminated, "truncated": log.truncated}
    return log, seen, log.reward, given


def test_arrays_are_a_log():
    log, X, y, given = _arrays()
    target, behaviour = log.target, log.behaviour
    made = PolicyEvaluator(0.9, features="identity", machine=ONE)
    made.fit(X, y, **given, target=target, behaviour=behaviour)
    names = {f"obs_{k}": X[:, k] for k in range(X.shape[1])}
    wanted = evaluate(
        names | {"reward": y} | given | {"target": target, "behaviour": behaviour},
        gamma=0.9,
        features="identity",
        machine=ONE,
    )
    assert made.value_ == pytest.approx(wanted.value, rel=1e-12)
    assert made.n_features_in_ == X.shape[1]


def test_in_a_pipeline_and_cloned():
    from sklearn.base import clone
    from sklearn.preprocessing import StandardScaler

    _, X, y, given = _arrays()
    steps = {f"value__{name}": values for name, values in given.items()}
    whole = pipeline.Pipeline(
        [("scale", StandardScaler()), ("value", PolicyEvaluator(0.9, features="identity", machine=ONE))]
    )
    first, second = whole.fit(X, y, **steps)[-1].value_, clone(whole).fit(X, y, **steps)[-1].value_
    assert first == second
    plain = PolicyEvaluator(0.9, features="identity", machine=ONE).fit(X, y, **given)
    assert first == pytest.approx(plain.value_, rel=1e-9)  # linear features hold the same values
    np.testing.assert_allclose(whole.predict(X), plain.predict(X), rtol=1e-6, atol=1e-9)
    assert whole.get_params()["value__gamma"] == 0.9
    assert whole.set_params(value__gamma=0.5).fit(X, y, **steps)[-1].value_ != first


def test_what_is_refused():
    _, X, y, given = _arrays()
    with pytest.raises(InputError, match="gamma is missing"):
        PolicyEvaluator().fit(X, y, **given)
    with pytest.raises(InputError, match="fit has no argument 'episodes'"):
        PolicyEvaluator(0.9).fit(X, y, episodes=given["episode"])
    with pytest.raises(InputError, match="a log already has these columns"):
        PolicyEvaluator(0.9).fit(walk(40), episode=given["episode"])
    with pytest.raises(ValueError, match="not fitted"):
        PolicyEvaluator(0.9).predict(X)
