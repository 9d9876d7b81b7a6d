"""The page's theory in Node against gradtd.theory, and its metrics against gradtd's."""

import numpy as np
import pytest

import gradtd
from gradtd import theory
from gradtd.paper.lab.figures import PROBLEMS
from gradtd.paper.lab.tables import METRICS
from gradtd.problems.metrics import METRICS as METRICS_OF

GAP, COUNT, ETA, M = 10, 6, 2.0, 8
AT = [GAP * i for i in range(COUNT + 1)]
JOINT = ("td", "tdrc", "gtd2", "tdc", "htd")
ALPHA = 0.02


def _asked(node, problem, algorithm, m=M, alpha=ALPHA):
    setting = {"algorithm": algorithm, "alpha": alpha, "eta": ETA, "batch_size": m}
    (answer,) = node("theory.mjs", [{"problem": problem, "setting": setting, "gap": GAP, "count": COUNT}])
    return answer


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("algorithm", JOINT)
def test_rules_of_single_steps(node, problem, algorithm):
    rule = theory.ode(algorithm, problem, eta=ETA)
    answer = _asked(node, problem, algorithm)
    error = rule.error_curve(ALPHA, steps=AT).error
    np.testing.assert_allclose(np.square(answer["curve"]["distance"]), error, rtol=1e-9)
    np.testing.assert_allclose(answer["threshold"], rule.stability_threshold, rtol=1e-9)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_impression_gtd(node, problem):
    answer = _asked(node, problem, "impression_gtd")
    error = theory.error_curve(problem, ALPHA, M, steps=AT).error
    np.testing.assert_allclose(np.square(answer["curve"]["distance"]), error, rtol=1e-9)
    np.testing.assert_allclose(answer["threshold"], theory.stability_threshold(problem, M), rtol=1e-9)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_expected_gtd_is_gradient_descent_on_exact_matrices(node, problem):
    answer = _asked(node, problem, "expected_gtd")
    found = gradtd.exact(problem)
    theta, lengths = found.problem.theta0, []
    for t in range(AT[-1] + 1):
        if t in AT:
            lengths.append(METRICS_OF["rmsve"](found, theta))
        theta = theta - ALPHA * found.A.T @ (found.A @ theta + found.b)
    np.testing.assert_allclose(answer["curve"]["rmsve"], lengths, rtol=1e-9)
    np.testing.assert_allclose(answer["threshold"], 2 / np.linalg.norm(found.A, 2) ** 2, rtol=1e-9)


def test_minibatch_td_matches_simulated_batches(node):
    """20000 simulated runs: the mean of squares is within five standard errors at every step compared."""
    problem, m, alpha = "random_walk_inverted", 4, 0.5
    law, rng = theory.law(problem), np.random.default_rng(3)
    theta = np.tile(law.theta0, (20_000, 1))
    answer = _asked(node, problem, "minibatch_td", m, alpha)
    for t in range(1, AT[-1] + 1):
        k = rng.choice(len(law.p), size=(len(theta), m), p=law.p)
        delta = np.einsum("rmd,rd->rm", law.d[k], theta) + law.c[k]
        theta = theta + alpha * np.einsum("rm,rmd->rd", delta, law.phi[k]) / m
        if t in AT:
            squares = ((theta - law.theta_star) ** 2).sum(axis=1)
            apart = squares.mean() - answer["curve"]["distance"][AT.index(t)] ** 2
            assert abs(apart) < 5 * squares.std() / np.sqrt(len(squares))


def test_no_step_size_is_stable_for_td_on_baird(node):
    assert _asked(node, "baird", "td")["threshold"] == 0
    assert _asked(node, "baird", "minibatch_td")["threshold"] == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_metrics_are_lengths_of_a_linear_map(tables, problem):
    exact = gradtd.exact(problem)
    thetas = np.random.default_rng(1).standard_normal((20, exact.problem.n_features))
    for name in METRICS:
        F, f = (np.array(tables[problem]["metrics"][name][part]) for part in ("F", "f"))
        ours = np.linalg.norm(thetas @ F.T + f, axis=1)
        np.testing.assert_allclose(ours, METRICS_OF[name](exact, thetas), rtol=1e-10)
