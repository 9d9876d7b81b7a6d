"""Estimated behaviour: its error in the influences, and another model as a check."""

import numpy as np
import pytest

import gradtd
from gradtd.evaluation.estimators.least_squares import least_squares, start_features, step_influences
from gradtd.evaluation.extra_answers import _with_noise
from gradtd.evaluation.fits import Fit
from gradtd.logs.behaviour_model import BehaviourModel, estimate_behaviour

GAMMA = 0.8
GIVEN = {"gamma": GAMMA, "progress": False, "machine": gradtd.Machine(threads=1)}


def _log(episodes=25, seed=0):
    """Episodes of four steps over three states and two actions."""
    rng = np.random.default_rng(seed)
    n = 4 * episodes
    state = rng.integers(0, 3, n)
    action = (rng.random(n) < np.array([0.3, 0.5, 0.7])[state]).astype(int)
    reward = rng.normal(state + action * (state - 0.5), 1)
    ends = np.tile([0, 0, 0, 1], episodes)
    return {
        "episode": np.repeat(np.arange(episodes), 4),
        "obs": state,
        "action": action,
        "reward": reward,
        "terminated": ends,
    }


def _chances(columns, weights, kind):
    """In-sample chances of action 1, by weighted frequencies or by a weighted logistic regression on the state."""
    state, action = columns["obs"], columns["action"]
    if kind == "frequencies":
        return (np.bincount(state, weights * action) / np.bincount(state, weights))[state]
    x, beta = np.c_[np.ones(len(state)), state - 1.0], np.zeros(2)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ beta))
        beta += np.linalg.solve((x * (weights * p * (1 - p))[:, None]).T @ x, x.T @ (weights * (action - p)))
    return 1 / (1 + np.exp(-x @ beta))


def _value(columns, by_episode, kind):
    """The value with weights of the episodes, and a behaviour that is estimated with them, too."""
    weights = np.repeat(by_episode, 4)
    p = _chances(columns, weights, kind)
    rho = np.where(columns["action"] == 1, 0.6 / p, 0.4 / (1 - p))
    x = np.eye(3)[columns["obs"]]
    after = np.r_[x[1:], x[:1]] * np.where(columns["terminated"] == 1, 0.0, GAMMA)[:, None]
    A = (x * (weights * rho)[:, None]).T @ (after - x)
    theta = np.linalg.solve(A, -(x.T @ (weights * rho * columns["reward"])))
    return float(by_episode @ x[::4] @ theta / by_episode.sum()), rho, p


@pytest.mark.parametrize("kind", ["frequencies", "regression"])
def test_influences_are_derivatives_by_the_weight_of_an_episode(kind):
    columns = _log()
    E = 25
    value, rho, p = _value(columns, np.ones(E), kind)
    state, action = columns["obs"], columns["action"]
    constant, every = np.c_[np.ones(len(state)), state - 1.0], np.c_[1 - p, p]
    taken = every[np.arange(len(p)), action]
    states = state if kind == "frequencies" else None
    model = BehaviourModel(taken, taken, action, states, constant, every, ())
    stream = gradtd.Stream.from_arrays(
        features=np.eye(3),
        row=state,
        next_row=np.r_[state[1:], 0],
        reward=columns["reward"],
        discount=np.where(columns["terminated"] == 1, 0.0, GAMMA),
        rho=rho,
        episode=columns["episode"],
    )
    found = least_squares(stream, start_features(stream, stream.begins), stream.begins)
    assert found.value == pytest.approx(value, rel=1e-9)
    explained = model.explained(step_influences(stream, found.theta, found.left))
    if kind == "regression":  # the outer product of scores stands in for the information, which is its mean
        p1 = p * (1 - p)
        info, outer = (constant * p1[:, None]).T @ constant, (constant * ((action - p) ** 2)[:, None]).T @ constant
        pull = step_influences(stream, found.theta, found.left)
        scores = constant * (action - p)[:, None]
        along = scores.T @ pull
        assert explained == pytest.approx(scores @ np.linalg.solve(outer, along), rel=1e-8)
        explained = scores @ np.linalg.solve(info, along)
    psi = found.psi + np.add.reduceat(explained, stream.begins[:-1]) * (E / len(state))
    for e in (0, 7, 24):
        weights = np.ones(E)
        weights[e] += 1e-5
        assert psi[e] == pytest.approx(E * (_value(columns, weights, kind)[0] - value) / 1e-5, rel=2e-3, abs=2e-4)


def test_a_richer_model_that_moves_the_value_is_a_reason_not_to_use_it():
    """The behaviour depends on a product of two columns that decides the reward: a linear model misses it."""
    rng = np.random.default_rng(1)
    n = 4000
    o = rng.standard_normal((n, 2))
    both = o[:, 0] * o[:, 1]
    action = (rng.random(n) < 1 / (1 + np.exp(-2 * both))).astype(int)
    log = {"obs_0": o[:, 0], "obs_1": o[:, 1], "action": action, "reward": 2 * both * action + rng.normal(0, 0.3, n)}
    given = {
        "gamma": 0,
        "progress": False,
        "log_format": gradtd.LogFormat(one_step=True),
        "features": "polynomial:order=1",
    }
    made = gradtd.evaluate(log, "uniform", behaviour="estimate", **given)
    assert made.numbers["model_moves"] > 1
    assert made.verdict == "not usable"
    assert any("depends on how the behaviour policy is modelled" in reason for reason in made.reasons)
    p = 1 / (1 + np.exp(-2 * both))
    right = gradtd.evaluate(log | {"action_prob": np.where(action == 1, p, 1 - p)}, "uniform", **given)
    assert "model_moves" not in right.numbers


def test_what_the_model_explains_is_no_error():
    """One decision, rewards that follow from the action: frequencies make it the mean of stratified rewards."""
    rng = np.random.default_rng(5)
    n = 4000
    action = (rng.random(n) < 0.3).astype(int)
    log = {"obs": np.zeros(n, int), "action": action, "reward": 3.0 * action + rng.normal(0, 0.2, n)}
    one_step = gradtd.LogFormat(one_step=True)
    given = {**GIVEN, "gamma": 0, "log_format": one_step, "features": "one-hot"}
    made = gradtd.evaluate(log, "uniform", behaviour="estimate", **given)
    groups = [log["reward"][action == a] for a in (0, 1)]
    exact = np.sqrt(sum(0.25 * one.var() / len(one) for one in groups))
    assert made.estimates[0].error == pytest.approx(exact, rel=0.02)
    known = gradtd.evaluate(log | {"action_prob": np.where(action == 1, 0.3, 0.7)}, "uniform", **given)
    assert made.estimates[0].error < 0.2 * known.estimates[0].error


@pytest.mark.parametrize(("episodes", "least", "most"), [(20, 1.0, 1.2), (2000, 0.5, 0.99)])
def test_the_error_is_smaller_than_with_known_probabilities_in_large_logs_only(episodes, least, most):
    columns = _log(episodes, 3)
    known = estimate_behaviour(gradtd.read_log(columns), 0).chance
    plain = gradtd.evaluate(columns | {"action_prob": known}, "uniform", **GIVEN)
    made = gradtd.evaluate(columns, "uniform", behaviour="estimate", **GIVEN)
    assert made.value == pytest.approx(plain.value, rel=1e-9)
    ratio = made.estimates[0].error / plain.estimates[0].error
    assert least - 1e-9 <= ratio < most


def test_the_factor_is_that_of_the_final_prediction_error():
    fit = Fit("", 0.0, np.tile([1.0, -1.0], 50), 0.0, 1)  # 100 effective episodes
    assert fit.effective == pytest.approx(100)
    for parameters, factor in ((0, 1.0), (20, np.sqrt(120 / 80)), (60, 1.7), (150, 1.7)):
        assert _with_noise(fit, 1.7 * fit.error, parameters).error == pytest.approx(factor * fit.error)
    assert _with_noise(fit, 0.5 * fit.error, 20).error == fit.error  # it may be larger than that of known ones


def test_a_model_counts_what_it_fitted():
    log = _log()
    assert estimate_behaviour(gradtd.read_log(log), 0).parameters == 3  # one chance in each of three states
    real = {f"obs_{k}": np.random.default_rng(k).standard_normal(len(log["obs"])) for k in range(2)}
    log = {name: values for name, values in log.items() if name != "obs"} | real
    assert estimate_behaviour(gradtd.read_log(log), 0).parameters == 3  # a constant and two columns, for one action
