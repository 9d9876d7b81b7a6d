"""The ODEs and joint second moments of the other algorithms, against the library's own rules and against simulation."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import gradtd
from gradtd import ALGORITHMS, InputError, theory
from gradtd.compiled.plan import record
from gradtd.core.algorithm import Now
from gradtd.problems import garnet
from gradtd.theory.odes import RULES
from naive.theory import law_of, small_law, small_stream

ETA, BETA = 1.7, 0.3
ONE_VECTOR = ("td", "vtrace", "residual_gradient")
GARNET = theory.law(garnet(states=8, actions=3, branching=2, n_features=4, off_policy=0.8, seed=3))


def after(name, stream, t, theta, w, alpha):
    """theta and w after one update of the library's rule on step t."""
    state = record(theta=np.array(theta), w=np.array(w))
    nobody = np.zeros(0, np.uint32)
    now = Now(np.uint64(t), 0, t + 1, alpha, nobody, nobody)
    ALGORITHMS[name].update(state, stream.view, now, SimpleNamespace(eta=ETA, beta=BETA, lam=0.0))
    return state.theta, state.w


@pytest.mark.parametrize("name", RULES)
def test_matrix_is_the_mean_of_the_rule(name):
    """(x_new - x) / alpha averaged over all steps is J x + j."""
    stream, rng, alpha = small_stream(5), np.random.default_rng(2), 0.1
    found = theory.ode(name, stream, ETA, BETA)
    theta, w = rng.normal(size=(2, 2))
    moved = [np.r_[after(name, stream, t, theta, w, alpha)] for t in range(len(stream))]
    x = np.r_[theta, w]
    change = (np.mean(moved, axis=0) - x) / alpha
    if name in ONE_VECTOR:
        x, change = theta, change[:2]
    np.testing.assert_allclose(found.matrix @ x + found.vector, change, atol=1e-12)


def test_matrices_are_the_known_ones():
    """By blocks, from A, C, D = E[rho gamma phi phi''] and A_mu = E[phi y'] without ratio."""
    law = GARNET
    A, C, I, O = law.A, law.C, np.eye(4), np.zeros((4, 4))  # noqa: E741
    D = np.einsum("k,ki,kj->ij", law.p * law.rho * law.discount, law.phi, law.phi_next)
    y = law.discount[:, None] * law.phi_next - law.phi
    A_mu = np.einsum("k,ki,kj->ij", law.p, law.phi, y)
    expected = {
        "td": A,
        "gtd": np.block([[O, -A.T], [ETA * A, -ETA * I]]),
        "gtd2": np.block([[O, -A.T], [ETA * A, -ETA * C]]),
        "tdc": np.block([[A, -D.T], [ETA * A, -ETA * C]]),
        "tdrc": np.block([[A, -D.T], [ETA * A, -ETA * (C + BETA * I)]]),
        "htd": np.block([[A, -(A - A_mu).T], [ETA * A, ETA * A_mu.T]]),
        "tdc_transposed": np.block([[O, -A.T], [ETA * (D - I), -ETA * C]]),
    }
    for name, matrix in expected.items():
        found = theory.ode(name, law, ETA, BETA)
        np.testing.assert_allclose(found.matrix, matrix, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(
            np.sort_complex(found.spectrum), np.sort_complex(np.linalg.eigvals(matrix)), atol=1e-9
        )


@pytest.mark.parametrize("name", RULES)
def test_second_moments_after_three_steps_are_the_enumerated_ones(name):
    """All 64 paths of three steps through the library's rule, against the recursion of the joint second moment."""
    stream, alpha, start = small_stream(5), 0.15, np.array([0.4, -0.9])
    found = theory.ode(name, stream, ETA, BETA)
    target, limit = found.law.theta_star, found._moments.x_star
    errors, second = [], []
    for path in itertools.product(range(4), repeat=3):
        theta, w = start, np.zeros(2)
        trace = [(theta, w)]
        for t in path:
            theta, w = after(name, stream, t, theta, w, alpha)
            trace.append((theta, w))
        errors.append([np.sum((x - target) ** 2) for x, _ in trace])
        if name not in ONE_VECTOR:
            second.append([np.sum((w - limit[2:]) ** 2) for _, w in trace])
    curve = found.error_curve(alpha, steps=3, theta0=start)
    np.testing.assert_allclose(curve.error, np.mean(errors, axis=0), rtol=1e-9)
    np.testing.assert_allclose(curve.second_error, np.mean(second, axis=0) if second else 0.0, rtol=1e-9, atol=1e-12)


UPDATES = {
    "td": lambda phi, y, z, rho, r, theta, w: (rho * (r + _dot(y, theta)) * phi, 0 * w),
    "gtd2": lambda phi, y, z, rho, r, theta, w: (
        -rho * y * _dot(phi, w),
        ETA * (rho * (r + _dot(y, theta)) - _dot(phi, w)) * phi,
    ),
    "tdrc": lambda phi, y, z, rho, r, theta, w: (
        rho * (r + _dot(y, theta)) * phi - rho * z * _dot(phi, w),
        ETA * ((rho * (r + _dot(y, theta)) - _dot(phi, w)) * phi - BETA * w),
    ),
    "htd": lambda phi, y, z, rho, r, theta, w: (
        rho * (r + _dot(y, theta)) * phi - (rho - 1) * y * _dot(phi, w),
        ETA * (rho * (r + _dot(y, theta)) * phi + y * _dot(phi, w)),
    ),
}


def _dot(x, other):
    return (x * other).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("problem", ["boyan_chain", "garnet"])
@pytest.mark.parametrize("name", UPDATES)
def test_simulated_error_is_the_exact_one(name, problem):
    """4000 runs of independent steps, within 4 standard errors at three times: wrong once in 650 seeds, all cases."""
    law = GARNET if problem == "garnet" else theory.law(problem)
    found, at, runs, rng = theory.ode(name, law, ETA, BETA), [5, 50, 200], 4000, np.random.default_rng(7)
    alpha = 0.2 * found.stability_threshold
    z = law.discount[:, None] * law.phi_next
    theta, w, errors = np.tile(law.theta0 + 1.0, (runs, 1)), np.zeros((runs, law.n_features)), []
    for t in range(at[-1] + 1):
        if t in at:
            errors.append(((theta - law.theta_star) ** 2).sum(axis=1))
        k = np.minimum(np.searchsorted(np.cumsum(law.p), rng.random(runs)), len(law.p) - 1)
        phi, after_ = law.phi[k], z[k]
        rho, r = law.rho[k, None], law.reward[k, None]
        of_theta, of_w = UPDATES[name](phi, after_ - phi, after_, rho, r, theta, w)
        theta, w = theta + alpha * of_theta, w + alpha * of_w
    errors = np.array(errors)
    exact = found.error_curve(alpha, steps=at, theta0=law.theta0 + 1.0).error
    standard_error = errors.std(axis=1, ddof=1) / math.sqrt(runs)
    assert (np.abs(errors.mean(axis=1) - exact) < 4 * standard_error).all()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("law", [theory.law("boyan_chain"), theory.law("random_walk_dependent"), GARNET], ids=repr)
def test_rate_is_one_at_the_threshold_and_the_curve_ends_at_the_floor(name, law):
    found = theory.ode(name, law, 1.0, 1.0)
    if not found.stable:
        assert name == "tdc_transposed"
        assert found.stability_threshold == found.mean_threshold == 0
        assert found.floor(0.1) == math.inf
        return
    alpha_star = found.stability_threshold
    assert 0 < alpha_star <= found.mean_threshold
    assert found.rate(alpha_star) == pytest.approx(1.0, abs=1e-9)
    assert found.rate(0.9 * alpha_star) < 1 < found.rate(1.1 * alpha_star)
    end = found.error_curve(0.4 * alpha_star, steps=[1_000_000]).error[0]
    assert end == pytest.approx(found.floor(0.4 * alpha_star), rel=1e-6)


def test_td_diverges_on_the_counterexamples_and_the_gradient_methods_do_not():
    for problem in ("baird", "two_state"):
        assert not theory.ode("td", problem).stable
        assert theory.ode("td", problem).mean_threshold == 0
        assert theory.ode("td", problem).spectrum[0].real > 0
        for name in ("gtd", "gtd2", "tdc", "residual_gradient"):
            assert theory.ode(name, problem).stable, name


def test_tdrc_with_its_usual_beta_is_unstable_on_two_states():
    """A = .35, C = 2.5, D = 2.85: the joint matrix has determinant eta A (D - C - beta), positive up to beta = .35."""
    assert theory.ode("tdrc", "baird").stable
    assert not theory.ode("tdrc", "two_state", beta=1.0).stable
    assert not theory.ode("tdrc", "two_state", beta=0.36).stable
    assert theory.ode("tdrc", "two_state", beta=0.34).stable
    run = gradtd.run("two_state", "tdrc", alpha=0.02, runs=3, steps=20_000)
    assert np.abs(run.theta).min() > 1e3


def test_limits():
    """All solve the TD equations but Vtrace, residual gradient and the printed transposed TDC."""
    for name in RULES:
        near = np.allclose(theory.ode(name, GARNET, ETA, BETA).limit, GARNET.theta_star, atol=1e-9)
        assert near == (name not in ("vtrace", "residual_gradient", "tdc_transposed")), name


def test_joint_theory_of_td_is_the_known_recursion():
    """TD by itself: M' = M + alpha (A M + M A') + alpha^2 E[phi phi' (d' M d + e^2)], at v = 0."""
    law, rng = small_law(5), np.random.default_rng(3)
    found = theory.ode("td", law)._moments
    root = rng.normal(size=(2, 2))
    M = root @ root.T
    each = np.einsum("ki,ij,kj->k", law.d, M, law.d) + law.e**2
    expected = np.einsum("k,ki,kj->ij", law.p * each, law.phi, law.phi)
    Q = found.basis
    computed = Q @ found.second_moment(Q.T @ M @ Q, np.zeros(2)) @ Q.T
    np.testing.assert_allclose(computed, expected, rtol=1e-10)


def test_many_features_take_the_same_road(monkeypatch):
    found = theory.ode("gtd2", GARNET, ETA)
    alpha = 0.3 * found.stability_threshold
    direct = [found.stability_threshold, found.rate(alpha), found.floor(alpha)]
    monkeypatch.setattr("gradtd.theory.meansquare.DENSE_SPECTRUM", 0)
    again = theory.ode("gtd2", GARNET, ETA)
    np.testing.assert_allclose([again.stability_threshold, again.rate(alpha), again.floor(alpha)], direct, rtol=1e-6)


def test_bad_input_gets_a_sentence():
    blind = law_of([[1, 0], [1, 0], [1, 0]], [[-1, 0.3], [-0.5, -0.2], [-1, 0.1]])
    for call, message in [
        (lambda: theory.ode("tdcc", "baird"), "did you mean 'tdc'"),
        (lambda: theory.ode("lstd", "baird"), "unknown algorithm with a linear mean update 'lstd'"),
        (lambda: theory.ode("tdc", "baird", eta=0), "eta must be greater than 0, got 0"),
        (lambda: theory.ode("tdrc", "baird", beta=-1), "beta must be at least 0, got -1"),
        (lambda: theory.ode("td", "baird").error_curve(0, steps=3), "alpha must be greater than 0, got 0"),
        (lambda: theory.ode("gtd", blind).error_curve(0.1, steps=3), "singular where theta and w move"),
    ]:
        with pytest.raises(InputError) as caught:
            call()
        assert message in str(caught.value)
    assert not theory.ode("gtd", blind).stable


def test_every_rule_of_the_joint_theory_is_an_algorithm():
    assert set(RULES) <= set(gradtd.ALGORITHMS)


def test_an_unstable_mean_gets_a_sentence_that_says_what_to_do():
    unstable = theory.ode("td", "two_state")
    assert not unstable.stable
    assert "the mean update of td is unstable on two_state" in unstable.notes[0]
    assert "use impression_gtd" in unstable.notes[0]
    assert theory.ode("gtd2", "two_state").notes == ()
    assert "rank 7 of 8" in " ".join(theory.ode("td", "baird").notes)
