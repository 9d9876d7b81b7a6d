"""The page's theory in Node against gradtd.theory, and its metrics against gradtd's."""

import itertools

import numpy as np
import pytest

import gradtd
from gradtd import theory
from gradtd.paper.lab import METRICS, PROBLEMS
from gradtd.problems.metrics import METRICS as METRICS_OF

pytestmark = pytest.mark.slow

GAP, COUNT, ETA, M = 10, 6, 2.0, 8
AT = [GAP * i for i in range(COUNT + 1)]
JOINT = ("td", "tdrc", "gtd2", "tdc", "htd")
ALPHA = 0.02


LAMBDAS = (0.0, 0.3, 0.8)
SIMULATED = "random_walk_inverted"
ASKED = [
    *itertools.product(PROBLEMS, (*JOINT, "minibatch_td"), [M], [ALPHA], [0.0]),
    *itertools.product(PROBLEMS, ("impression_gtd", "expected_gtd", "lstd"), [M], [ALPHA], LAMBDAS),
    *itertools.product(["boyan_chain"], JOINT, [M], [ALPHA], [0.4]),
    *(
        (SIMULATED, "minibatch_td", 4, 0.5, 0.0),
        (SIMULATED, "td", 1, 0.05, 0.6),
        (SIMULATED, "minibatch_td", 4, 0.05, 0.6),
    ),
]
"""Problem, algorithm, batch size, step-size and lambda of all that Node is asked, in one go: it takes long to start."""


@pytest.fixture(scope="module")
def asked(node):
    """The page's answer to one of the questions."""
    jobs = []
    for problem, algorithm, m, alpha, lam in ASKED:
        setting = {"algorithm": algorithm, "alpha": alpha, "eta": ETA, "batch_size": m, "lam": lam}
        jobs.append({"problem": problem, "setting": setting, "gap": GAP, "count": COUNT})
    answers = dict(zip(ASKED, node("theory.mjs", jobs), strict=True))
    return lambda problem, algorithm, m=M, alpha=ALPHA, lam=0.0: answers[problem, algorithm, m, alpha, lam]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("algorithm", JOINT)
def test_rules_of_single_steps(asked, problem, algorithm):
    rule = theory.ode(algorithm, problem, eta=ETA)
    answer = asked(problem, algorithm)
    error = rule.error_curve(ALPHA, steps=AT).error
    np.testing.assert_allclose(np.square(answer["curve"]["distance"]), error, rtol=1e-9)
    np.testing.assert_allclose(answer["threshold"], rule.stability_threshold, rtol=1e-9)


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_impression_gtd(asked, problem, lam):
    answer = asked(problem, "impression_gtd", lam=lam)
    if not gradtd.exact(problem, lam).traces.finite:
        assert (answer["threshold"], answer["curve"]) == (None, None)
        return
    law = theory.law(problem, lam)
    error = theory.error_curve(law, ALPHA, M, steps=AT).error
    np.testing.assert_allclose(np.square(answer["curve"]["distance"]), error, rtol=1e-9)
    np.testing.assert_allclose(answer["threshold"], theory.stability_threshold(law, M), rtol=1e-9)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_lambda_moves_the_solution_and_the_metrics_as_in_the_library(asked, problem):
    answer, exact = asked(problem, "lstd", lam=0.8), gradtd.exact(problem, 0.8)
    np.testing.assert_allclose(answer["theta_star"], exact.theta_star, rtol=1e-9, atol=1e-9)
    thetas = np.random.default_rng(2).standard_normal((20, exact.problem.n_features))
    for name in METRICS:
        F, f = (np.array(answer["metrics"][name][part]) for part in ("F", "f"))
        ours = np.linalg.norm(thetas @ F.T + f, axis=1)
        np.testing.assert_allclose(ours, METRICS_OF[name](exact, thetas), rtol=1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.8])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_expected_gtd_is_gradient_descent_on_exact_matrices(asked, problem, lam):
    answer = asked(problem, "expected_gtd", lam=lam)
    found = gradtd.exact(problem, lam)
    theta, lengths = found.problem.theta0, []
    for t in range(AT[-1] + 1):
        if t in AT:
            lengths.append(METRICS_OF["rmsve"](found, theta))
        theta = theta - ALPHA * found.A.T @ (found.A @ theta + found.b)
    np.testing.assert_allclose(answer["curve"]["rmsve"], lengths, rtol=1e-9)
    np.testing.assert_allclose(answer["threshold"], 2 / np.linalg.norm(found.A, 2) ** 2, rtol=1e-9)


def test_minibatch_td_matches_simulated_batches(asked):
    """20000 simulated runs: the mean of squares is within five standard errors at every step compared."""
    problem, m, alpha = SIMULATED, 4, 0.5
    law, rng = theory.law(problem), np.random.default_rng(3)
    theta = np.tile(law.theta0, (20_000, 1))
    answer = asked(problem, "minibatch_td", m, alpha)
    for t in range(1, AT[-1] + 1):
        k = rng.choice(len(law.p), size=(len(theta), m), p=law.p)
        delta = np.einsum("rmd,rd->rm", law.d[k], theta) + law.c[k]
        theta = theta + alpha * np.einsum("rm,rmd->rd", delta, law.phi[k]) / m
        if t in AT:
            squares = ((theta - law.theta_star) ** 2).sum(axis=1)
            apart = squares.mean() - answer["curve"]["distance"][AT.index(t)] ** 2
            assert abs(apart) < 5 * squares.std() / np.sqrt(len(squares))


@pytest.mark.parametrize(("algorithm", "m"), [("td", 1), ("minibatch_td", 4)])
def test_td_with_traces_matches_draws_from_a_long_stream(asked, algorithm, m):
    """5000 runs on draws of 200000 steps with their traces, whose own error adds 2 % at most to five standard ones."""
    problem, lam, alpha = SIMULATED, 0.6, 0.05
    law, rng = theory.law(gradtd.sample(problem, 200_000, seed=8), lam), np.random.default_rng(3)
    theta, (d, c, phi) = np.zeros((5_000, law.n_features)), (law.d, law.c, law.phi)
    answer = asked(problem, algorithm, m, alpha, lam)
    for _ in range(AT[-1]):
        k = rng.integers(len(c), size=(len(theta), m))
        delta = np.einsum("rmd,rd->rm", d[k], theta) + c[k]
        theta = theta + alpha * np.einsum("rm,rmd->rd", delta, phi[k]) / m
    squares = ((theta - gradtd.exact(problem, lam).theta_star) ** 2).sum(axis=1)
    wanted = answer["curve"]["distance"][-1] ** 2
    assert abs(squares.mean() - wanted) < 5 * squares.std() / np.sqrt(len(squares)) + 0.02 * wanted


@pytest.mark.parametrize("algorithm", JOINT[1:])
def test_rules_with_a_second_vector_have_no_exact_curve_with_traces(asked, algorithm):
    answer = asked("boyan_chain", algorithm, lam=0.4)
    assert (answer["threshold"], answer["curve"]) == (None, None)


def test_no_step_size_is_stable_for_td_on_baird(asked):
    assert asked("baird", "td")["threshold"] == 0
    assert asked("baird", "minibatch_td")["threshold"] == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_metrics_are_lengths_of_a_linear_map(tables, problem):
    exact = gradtd.exact(problem)
    thetas = np.random.default_rng(1).standard_normal((20, exact.problem.n_features))
    for name in METRICS:
        F, f = (np.array(tables[problem]["metrics"][name][part]) for part in ("F", "f"))
        ours = np.linalg.norm(thetas @ F.T + f, axis=1)
        np.testing.assert_allclose(ours, METRICS_OF[name](exact, thetas), rtol=1e-10)
