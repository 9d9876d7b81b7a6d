"""Exact quantities against independent routes: loops, other solvers, fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradtd
from gradtd import FiniteMDP, InputError, Problem
from gradtd.problems import garnet
from gradtd.problems.exact import rank, solve_td, stationary_law

FIXED = {name: make() for name, make in gradtd.PROBLEMS.items()} | {
    "garnet_binary": garnet(states=12, features="binary", n_features=5, seed=3),
    "boyan_chain_21": gradtd.PROBLEMS["boyan_chain"](21),
    "random_walk_19": gradtd.PROBLEMS["random_walk_inverted"](19),
}


def random_problem(seed, n_states=4, n_actions=2, n_features=2, episodic=True, gamma=0.9, features=None):
    """A small random problem with random ratios; episodic ones end from every state now and then."""
    rng = np.random.default_rng(seed)
    total = n_states + episodic
    transition = rng.dirichlet(np.ones(total), size=(total, n_actions))
    terminal = np.arange(total) >= n_states
    start = np.zeros(total)
    start[:n_states] = rng.dirichlet(np.ones(n_states))
    reward = rng.standard_normal(transition.shape)
    behaviour, target = (rng.dirichlet(np.full(n_actions, 3.0), size=total) for _ in range(2))
    table = rng.standard_normal((total, n_features)) if features is None else features
    table[terminal] = 0.0
    return Problem(
        name=f"random_{seed}",
        mdp=FiniteMDP(transition, reward, terminal, start),
        behaviour=behaviour,
        target=target,
        features=table,
        gamma=gamma,
        theta0=np.zeros(n_features),
        source="a test",
    )


def d_mu_by_linear_solve(problem):
    """Solve d'(P - I) = 0, sum d = 1 for the chain in which a step into a terminal state lands at a start."""
    mdp, n = problem.mdp, problem.mdp.n_states
    chain = np.zeros((n, n))
    for s in np.flatnonzero(~mdp.terminal):
        for a in range(mdp.n_actions):
            for after in range(n):
                p = problem.behaviour[s, a] * mdp.transition[s, a, after]
                chain[s] += p * mdp.start if mdp.terminal[after] else p * np.eye(n)[after]
    for s in np.flatnonzero(mdp.terminal):
        chain[s] = mdp.start
    system = np.vstack([chain.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.eye(n + 1)[n], rcond=None)[0]


def values_by_summing_rewards(problem):
    """v = (I + P)(I + P^2)(I + P^4) ... r, the expected sum of 2^60 discounted rewards."""
    mdp, n = problem.mdp, problem.mdp.n_states
    P, r = np.zeros((n, n)), np.zeros(n)
    for s in np.flatnonzero(~mdp.terminal):
        for a in range(mdp.n_actions):
            for after in range(n):
                p = problem.target[s, a] * mdp.transition[s, a, after]
                r[s] += p * mdp.reward[s, a, after]
                if not mdp.terminal[after]:
                    P[s, after] += problem.gamma * p
    for _ in range(60):
        r, P = r + P @ r, P @ P
    return r


def A_b_C_by_loops(problem, d_mu):
    mdp, x, d = problem.mdp, problem.features, problem.n_features
    A, b, C = np.zeros((d, d)), np.zeros(d), np.zeros((d, d))
    for s in np.flatnonzero(~mdp.terminal):
        C += d_mu[s] * np.outer(x[s], x[s])
        for a in range(mdp.n_actions):
            if problem.behaviour[s, a] == 0:
                continue
            rho = problem.target[s, a] / problem.behaviour[s, a]
            for after in range(mdp.n_states):
                p = d_mu[s] * problem.behaviour[s, a] * mdp.transition[s, a, after]
                discount = 0.0 if mdp.terminal[after] else problem.gamma
                A += p * rho * np.outer(x[s], discount * x[after] - x[s])
                b += p * rho * mdp.reward[s, a, after] * x[s]
    return A, b, C


def solved_in_long_double(A, b):
    """Gauss-Jordan elimination of A theta = -b with partial pivoting, in extended precision."""
    work = np.column_stack([A, -b]).astype(np.longdouble)
    n = len(b)
    for k in range(n):
        pivot = k + np.abs(work[k:, k]).argmax()
        work[[k, pivot]] = work[[pivot, k]]
        work[k] /= work[k, k]
        for i in range(n):
            if i != k:
                work[i] -= work[i, k] * work[k]
    return work[:, n].astype(np.float64)


def agrees_with_independent_routes(problem):
    exact = gradtd.exact(problem)
    d_mu = d_mu_by_linear_solve(problem)
    np.testing.assert_allclose(exact.d_mu, np.where(problem.mdp.terminal, 0, d_mu), atol=1e-12)
    v = values_by_summing_rewards(problem)
    np.testing.assert_allclose(exact.v_pi, v, atol=1e-12 * max(1.0, np.abs(v).max()))
    for ours, theirs in zip((exact.A, exact.b, exact.C), A_b_C_by_loops(problem, d_mu), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_array_equal(exact.states, np.flatnonzero(~problem.mdp.terminal))
    residual = exact.A @ exact.theta_star + exact.b
    np.testing.assert_allclose(residual, 0, atol=1e-12 * max(1.0, np.abs(exact.theta_star).max()))
    if not exact.notes:
        condition = np.linalg.cond(exact.A)
        theta = solved_in_long_double(exact.A, exact.b)
        scale = max(1.0, np.abs(theta).max())
        np.testing.assert_allclose(exact.theta_star, theta, atol=1e-15 * max(1000.0, condition) * scale)


@pytest.mark.parametrize("name", FIXED)
def test_every_problem_agrees_with_independent_routes(name):
    agrees_with_independent_routes(FIXED[name])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n_states=st.integers(1, 6),
    n_actions=st.integers(1, 3),
    n_features=st.integers(1, 4),
    episodic=st.booleans(),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]),
)
def test_random_problems_agree_with_independent_routes(seed, n_states, n_actions, n_features, episodic, gamma):
    if gamma == 1.0 and not episodic:
        gamma = 0.95
    agrees_with_independent_routes(random_problem(seed, n_states, n_actions, n_features, episodic, gamma))


def test_visits_are_expected_visits_over_expected_length():
    problem = random_problem(5, n_states=5)
    alive = ~problem.mdp.terminal
    P = np.einsum("sa,sat->st", problem.behaviour, problem.mdp.transition)[np.ix_(alive, alive)]
    visits = np.linalg.solve(np.eye(5) - P.T, problem.mdp.start[alive])
    np.testing.assert_allclose(gradtd.exact(problem).d_mu[alive], visits / visits.sum(), atol=1e-14)


def test_target_transitions_and_rewards_are_zero_in_terminal_states():
    exact = gradtd.exact(gradtd.PROBLEMS["random_walk"]())
    assert not exact.p_pi[5:].any()
    assert not exact.p_pi[:, 5:].any()
    assert not exact.r_pi[5:].any()
    np.testing.assert_allclose(exact.r_pi[:5], [-0.4, 0, 0, 0, 0.6])


def test_a_repeated_feature_gives_the_solution_of_minimum_norm_and_notes():
    once = random_problem(8, n_states=5, n_features=2)
    twice = random_problem(8, n_states=5, n_features=3, features=once.features[:, [0, 1, 1]])
    single, double = gradtd.exact(once), gradtd.exact(twice)
    assert double.notes == (
        "A is singular (rank 2 of 3): theta_star is the minimum-norm solution",
        "C is singular (rank 2 of 3): MSPBE uses its pseudo-inverse",
    )
    np.testing.assert_allclose(double.A @ double.theta_star + double.b, 0, atol=1e-14)
    # Of all ways to split a weight between two equal features the even one is shortest.
    expected = [single.theta_star[0], single.theta_star[1] / 2, single.theta_star[1] / 2]
    np.testing.assert_allclose(double.theta_star, expected, atol=1e-12)
    null = np.array([0, 1, -1.0])
    assert np.linalg.norm(double.theta_star) < np.linalg.norm(double.theta_star + 0.1 * null)


def test_singular_A_with_regular_C_gives_one_note_and_the_minimum_norm():
    # Action j leads to state j. The target goes 0, 1 -> 1 and stays in 2, with features (1, 0), (2, 0), (0, 1):
    # A = diag(6 gamma - 5, gamma - 1) / 3, C = diag(5, 1) / 3; staying in 2 earns 1 a step.
    reward = np.zeros((3, 3, 3))
    reward[2, 2, 2] = 1.0
    gamma = 5 / 6
    problem = Problem(
        name="half_singular",
        mdp=FiniteMDP(np.tile(np.eye(3), (3, 1, 1)), reward, np.zeros(3, bool), np.full(3, 1 / 3)),
        behaviour=np.full((3, 3), 1 / 3),
        target=np.eye(3)[[1, 1, 2]],
        features=np.array([[1.0, 0], [2, 0], [0, 1]]),
        gamma=gamma,
        theta0=np.zeros(2),
        source="a test",
    )
    exact = gradtd.exact(problem)
    np.testing.assert_allclose(exact.A, np.diag([0, (gamma - 1) / 3]), atol=1e-15)
    np.testing.assert_allclose(exact.C, np.diag([5 / 3, 1 / 3]), atol=1e-15)
    np.testing.assert_allclose(exact.theta_star, [0, 6], atol=1e-12)
    assert exact.notes == ("A is singular (rank 1 of 2): theta_star is the minimum-norm solution",)


def test_rank_and_solve_of_singular_matrices():
    A, b = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([2.0, 2.0])
    np.testing.assert_allclose(solve_td(A, b), [-1, -1], atol=1e-14)
    assert (rank(A), rank(np.zeros((2, 2))), rank(np.eye(3))) == (1, 0, 3)


def test_gth_keeps_full_relative_accuracy_on_a_nearly_decomposable_chain():
    # A birth-death chain whose two halves are coupled by 1e-13; its law in rational arithmetic.
    # All probabilities are sums of few powers of two, or the diagonal, which GTH does not read.
    up = [0.5, 0.25, 2.0**-44, 0.25, 0.5]
    down = [0.25, 0.5, 2.0**-46, 0.5, 0.125]
    n = 6
    chain = np.zeros((n, n))
    for i in range(n - 1):
        chain[i, i + 1], chain[i + 1, i] = up[i], down[i]
    chain += np.diag(1 - chain.sum(axis=1))
    weights = [Fraction(1)]
    for i in range(n - 1):
        weights.append(weights[-1] * Fraction(up[i]) / Fraction(down[i]))
    law = np.array([float(w / sum(weights)) for w in weights])
    np.testing.assert_allclose(stationary_law(chain), law, rtol=1e-14)
    order = np.array([3, 0, 5, 2, 4, 1])
    np.testing.assert_allclose(stationary_law(chain[np.ix_(order, order)]), law[order], rtol=1e-14)
    vector = np.linalg.svd(chain.T - np.eye(n))[2][-1]
    assert np.abs(vector / vector.sum() / law - 1).max() > 1e-9, "a subtracting method must fail here"


def test_gth_on_random_chains_against_fractions():
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 5):
        counts = rng.integers(0, 50, (n, n)) + 1
        chain = counts / counts.sum(axis=1, keepdims=True)
        exact_chain = [[Fraction(int(c), int(row.sum())) for c in row] for row in counts]
        law = _law_in_fractions(exact_chain)
        np.testing.assert_allclose(stationary_law(chain), [float(p) for p in law], rtol=1e-14)


def _law_in_fractions(chain):
    """Solve d'(P - I) = 0 with d_0 = 1 by elimination, without rounding."""
    n = len(chain)
    rows = [[chain[i][j] - (i == j) for i in range(1, n)] + [-(chain[0][j] - (j == 0))] for j in range(1, n)]
    for k in range(n - 1):
        pivot = next(i for i in range(k, n - 1) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n - 1):
            if i != k:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    law = [Fraction(1)] + [row[-1] for row in rows]
    return [p / sum(law) for p in law]


def chain_problem(transition, *, terminal=None, start=None, gamma=0.9, behaviour=None, target=None):
    transition = np.asarray(transition, float)
    if transition.ndim == 2:
        transition = transition[:, None, :]
    n, k = transition.shape[:2]
    return Problem(
        name="by_hand",
        mdp=FiniteMDP(
            transition,
            np.ones_like(transition),
            np.zeros(n, bool) if terminal is None else np.asarray(terminal),
            np.eye(n)[0] if start is None else np.asarray(start, float),
        ),
        behaviour=np.full((n, k), 1 / k) if behaviour is None else np.asarray(behaviour, float),
        target=np.full((n, k), 1 / k) if target is None else np.asarray(target, float),
        features=np.eye(n),
        gamma=gamma,
        theta0=np.zeros(n),
        source="a test",
    )


def test_states_that_are_left_for_ever_have_no_weight():
    exact = gradtd.exact(chain_problem([[0, 0.5, 0.5], [0, 0.5, 0.5], [0, 1, 0]]))
    np.testing.assert_allclose(exact.d_mu, [0, 2 / 3, 1 / 3], atol=1e-15)


def test_a_set_of_states_that_no_start_reaches_does_not_count():
    exact = gradtd.exact(chain_problem(np.eye(2), start=[1, 0]))
    np.testing.assert_array_equal(exact.d_mu, [1, 0])


def test_a_periodic_behaviour_has_a_law():
    np.testing.assert_allclose(gradtd.exact(chain_problem([[0, 1], [1, 0]])).d_mu, [0.5, 0.5])


def test_two_sets_that_are_never_left_are_refused():
    with pytest.raises(InputError, match="2 separate sets of states"):
        gradtd.exact(chain_problem([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]]))


def test_gamma_one_with_a_target_that_never_ends_is_refused():
    with pytest.raises(InputError, match=r"by_hand never ends an episode and gamma is 1"):
        gradtd.exact(chain_problem([[0, 1], [1, 0]], gamma=1.0))
    ends = [[[0, 1.0], [1.0, 0]], [[0, 1.0], [0, 1.0]]]
    problem = chain_problem(ends, terminal=[False, True], gamma=1.0, target=[[0, 1], [0, 1]])
    with pytest.raises(InputError, match="values are infinite"):
        gradtd.exact(problem)
    ending = chain_problem(ends, terminal=[False, True], gamma=1.0, target=[[0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(gradtd.exact(ending).v_pi, [2, 0])


def test_a_target_action_the_behaviour_never_takes_is_refused():
    two = [[[0, 1.0], [1.0, 0]], [[0, 1.0], [1.0, 0]]]
    with pytest.raises(InputError, match="the target takes action 1 in state 0, which the behaviour never takes"):
        chain_problem(two, behaviour=[[1, 0], [0.5, 0.5]], target=[[0.5, 0.5], [0.5, 0.5]])
    # What a policy would do in a terminal state is nobody's concern.
    chain_problem(two, terminal=[False, True], behaviour=[[0.5, 0.5], [1, 0]], target=[[0.5, 0.5], [0, 1]])
