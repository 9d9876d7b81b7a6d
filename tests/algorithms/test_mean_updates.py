"""The mean of every rule's update under the exact law of a step is the right-hand side of its ODE.

The law of one step, d_mu(s) behaviour(a|s) P(s'|s,a), is enumerated; each rule makes one update on every
possible step (or every pair of independent ones) from the same random weights. Every update is affine in the trace of
a step, which depends on the past alone: with the mean trace of the state for it, the mean is that over traces, too.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import gradtd
from gradtd import ALGORITHMS
from gradtd.algorithms.two_step_sizes import htd_with_traces
from gradtd.compiled.plan import record
from gradtd.core.algorithm import Now
from gradtd.core.stream import StreamView
from gradtd.problems import garnet, random_walk_dependent
from gradtd.problems.exact import TraceLaw

ALPHA, ETA = 0.1, 1.7
NOBODY = np.zeros(0, np.uint32)


class Law:
    """All steps that can happen on a problem, their probabilities, and the matrices that describe them."""

    def __init__(self, problem, lam=0.0, trace="rho"):
        mdp, gamma = problem.mdp, problem.gamma
        self.lam = lam
        self.exact = gradtd.exact(problem, lam, trace)
        outcomes = [
            (s, a, after)
            for s in np.flatnonzero(~mdp.terminal)
            for a in range(mdp.n_actions)
            for after in range(mdp.n_states)
            if problem.behaviour[s, a] * mdp.transition[s, a, after] > 0
        ]
        s, a, after = np.array(outcomes).T
        self.p = self.exact.d_mu[s] * problem.behaviour[s, a] * mdp.transition[s, a, after]
        self.rho = problem.target[s, a] / problem.behaviour[s, a]
        self.r = mdp.reward[s, a, after]
        self.discount = np.where(mdp.terminal[after], 0.0, gamma)
        self.x = problem.features[s]
        self.x_next = problem.features[after]
        self.y = self.discount[:, None] * self.x_next - self.x
        self.stream = gradtd.Stream.from_arrays(
            features=problem.features, row=s, next_row=after, reward=self.r, discount=self.discount, rho=self.rho,
            episode=np.arange(len(s)),
        )  # fmt: skip
        mean = {kind: TraceLaw(problem, self.exact.d_mu, lam, kind).mean[s] for kind in ("rho", trace)}
        self.e = mean[trace] / self.exact.d_mu[s][:, None]
        on_policy = dataclasses.replace(problem, target=problem.behaviour)
        self.f = TraceLaw(on_policy, self.exact.d_mu, lam).mean[s] / self.exact.d_mu[s][:, None]
        self.view = self.stream.view._replace(traces=np.ascontiguousarray(self.e) if lam else None)
        # From the model, not from the steps: D = E[rho gamma e x_next'], A_mu = E[f y'] without ratio.
        d = problem.n_features
        self.D = np.zeros((d, d))
        for i in range(mdp.n_states):
            for j in range(mdp.n_states):
                go_on = gamma * (not mdp.terminal[j]) * (problem.target[i] @ mdp.transition[i, :, j])
                self.D += go_on * np.outer(self.exact.traces.mean[i], problem.features[j])
        self.A_mu = gradtd.exact(on_policy, lam).A
        self.A, self.b, self.C = self.exact.A, self.exact.b, self.exact.C
        rng = np.random.default_rng(8)
        self.theta, self.w, self.z = rng.normal(size=(3, d))

    def td_update(self, theta):
        return self.A @ theta + self.b

    def mean(self, changes):
        """The probability-weighted mean over all steps of what a function of the step index returns."""
        return self.p @ np.array([changes(t) for t in range(len(self.p))])

    def mean_over_pairs(self, changes):
        return (
            self.p
            @ np.array([[changes(i, j) for j in range(len(self.p))] for i in range(len(self.p))]).transpose(2, 0, 1)
            @ self.p
        )


SMALL_GARNET = garnet(states=4, actions=2, branching=2, n_features=3, off_policy=0.9, seed=3)
LAWS = {
    "garnet": Law(SMALL_GARNET),
    "random_walk_dependent": Law(random_walk_dependent()),
    "garnet with traces": Law(SMALL_GARNET, lam=0.6),
    "garnet with clipped traces": Law(SMALL_GARNET, lam=0.9, trace="clipped"),
    "random_walk_dependent with tree traces": Law(random_walk_dependent(), lam=0.8, trace="tree"),
}


@pytest.fixture(params=LAWS)
def law(request):
    return LAWS[request.param]


without_traces = pytest.mark.parametrize("law", [name for name, law in LAWS.items() if not law.lam], indirect=True)
with_traces = pytest.mark.parametrize("law", [name for name, law in LAWS.items() if law.lam], indirect=True)


def after_one_update(law, update, own, t=0, first=NOBODY, second=NOBODY, seen=None, view=None, **hyper):
    """The rule's arrays after one update on step t."""
    state = record(theta=law.theta.copy(), **{name: np.array(value, float) for name, value in own.items()})
    seen = t + 1 if seen is None else seen
    now = Now(np.uint64(t), 0, seen, ALPHA, np.array(first, np.uint32), np.array(second, np.uint32))
    update(state, law.view if view is None else view, now, SimpleNamespace(**({"lam": law.lam} | hyper)))
    return state


def mean_theta_change(law, name, own=None, **hyper):
    """Mean of (theta_new - theta) / alpha over the latest step."""
    update = ALGORITHMS[name].update
    return law.mean(lambda t: after_one_update(law, update, own or {}, t, **hyper).theta - law.theta) / ALPHA


def mean_w_change(law, name, **hyper):
    update = ALGORITHMS[name].update
    hyper["eta"] = ETA
    return law.mean(lambda t: after_one_update(law, update, {"w": law.w}, t, **hyper).w - law.w) / (ETA * ALPHA)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_enumerated_law_has_the_exact_matrices(law):
    assert law.p.sum() == pytest.approx(1.0, abs=1e-13)
    assert_close(np.einsum("k,k,ki,kj->ij", law.p, law.rho, law.e, law.y), law.A)
    assert_close(np.einsum("k,k,k,ki->i", law.p, law.rho, law.r, law.e), law.b)
    assert_close(np.einsum("k,ki,kj->ij", law.p, law.x, law.x), law.C)
    assert_close(np.einsum("k,ki,kj->ij", law.p, law.f, law.y), law.A_mu)
    assert_close(law.D - np.einsum("k,ki,kj->ij", law.p, law.e, law.x), law.A)
    assert np.abs(law.A - law.A_mu).max() > 1e-2, "the problem is on-policy"


def test_td_goes_along_its_ode(law):
    assert_close(mean_theta_change(law, "td"), law.td_update(law.theta))


def test_minibatch_td_goes_along_the_ode_of_td(law):
    update, own = ALGORITHMS["minibatch_td"].update, {"u": law.w}
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t]).theta - law.theta) / ALPHA
    assert_close(change, law.td_update(law.theta))


def test_vtrace_goes_along_the_ode_with_clipped_ratios(law):
    clipped = np.minimum(law.rho, 1.0)
    A = np.einsum("k,k,ki,kj->ij", law.p, clipped, law.e, law.y)
    b = np.einsum("k,k,k,ki->i", law.p, clipped, law.r, law.e)
    assert_close(mean_theta_change(law, "vtrace"), A @ law.theta + b)
    assert np.abs(A @ law.theta + b - law.td_update(law.theta)).max() > 1e-3


@without_traces
def test_etd_weighs_the_td_update_by_its_follow_on_trace(law):
    assert_close(mean_theta_change(law, "etd", {"follow_on": [9.0]}), 9.0 * law.td_update(law.theta))


@pytest.mark.parametrize("law", ["garnet with traces"], indirect=True)
def test_etd_with_traces_goes_along_the_ode_of_its_authors(law):
    """Sutton, Mahmood and White (2016): A = X' M (P_lam - I) X and b = X' M r_lam, M = diag(m), m = d + P_lam' m.

    The trace of the update is the mean in each state of e' = gamma lam rho e + (lam + (1 - lam) F') x'.
    """
    problem, d_mu = law.exact.problem, law.exact.d_mu
    X, P = problem.features, TraceLaw(problem, d_mu, law.lam).chain(1)
    one = np.eye(len(P))
    follow_on = np.linalg.solve(one - P.T, d_mu)
    entering = (law.lam * d_mu + (1 - law.lam) * follow_on)[:, None] * X
    trace = np.linalg.solve(one - law.lam * P.T, entering) / d_mu[:, None]
    view = law.view._replace(traces=np.ascontiguousarray(trace[law.view.steps["row"]]))
    rule = ALGORITHMS["etd"].choose({"lam": law.lam})
    change = law.mean(lambda t: after_one_update(law, rule.update, {}, t, view=view).theta - law.theta) / ALPHA

    backwards = np.linalg.inv(one - law.lam * P)
    P_lam = one - backwards @ (one - P)
    reward = np.einsum("sa,sat,sat->s", problem.target, problem.mdp.transition, problem.mdp.reward)
    emphasis = np.linalg.solve(one - P_lam.T, d_mu)
    A, b = X.T @ np.diag(emphasis) @ (P_lam - one) @ X, X.T @ np.diag(emphasis) @ backwards @ reward
    assert rule.emphatic
    assert_close(change, A @ law.theta + b)
    assert np.abs(change - law.td_update(law.theta)).max() > 1e-3


@without_traces
def test_residual_gradient_descends_the_squared_td_error(law):
    def loss(theta):
        return law.p @ (law.rho * (law.r + law.y @ theta) ** 2) / 2

    gradient = [(loss(law.theta + e) - loss(law.theta - e)) / 2 for e in np.eye(len(law.theta))]  # exact: quadratic
    assert_close(mean_theta_change(law, "residual_gradient"), -np.array(gradient))


# name: (means of theta's and of w's change, as functions of the law), hyper-parameters besides eta
ODES = {
    "gtd": (lambda m: -m.A.T @ m.w, lambda m: m.td_update(m.theta) - m.w, {}),
    "gtd2": (lambda m: -m.A.T @ m.w, lambda m: m.td_update(m.theta) - m.C @ m.w, {}),
    "tdc": (
        lambda m: m.td_update(m.theta) - (1 - m.lam) * m.D.T @ m.w,
        lambda m: m.td_update(m.theta) - m.C @ m.w,
        {},
    ),
    "tdc_transposed": (
        lambda m: -m.A.T @ m.w,
        lambda m: m.D @ m.theta + m.b - m.theta - m.C @ m.w,
        {},
    ),
    "tdc_transposed_corrected": (
        lambda m: -m.A.T @ m.w,
        lambda m: m.td_update(m.theta) - m.C @ m.w,
        {},
    ),
    "tdrc": (
        lambda m: m.td_update(m.theta) - (1 - m.lam) * m.D.T @ m.w,
        lambda m: m.td_update(m.theta) - (m.C + 0.3 * np.eye(len(m.w))) @ m.w,
        {"beta": 0.3},
    ),
    "htd": (
        lambda m: m.td_update(m.theta) - (m.A - m.A_mu).T @ m.w,
        lambda m: m.td_update(m.theta) + m.A_mu.T @ m.w,
        {},
    ),
}


@without_traces
@pytest.mark.parametrize("name", ODES)
def test_rule_with_a_second_vector_goes_along_its_ode(law, name):
    of_theta, of_w, hyper = ODES[name]
    assert_close(mean_theta_change(law, name, {"w": law.w}, eta=ETA, **hyper), of_theta(law))
    assert_close(mean_w_change(law, name, **hyper), of_w(law))


@with_traces
@pytest.mark.parametrize("name", sorted(ODES.keys() - {"htd", "tdc_transposed"}))
def test_rule_with_a_second_vector_and_traces_goes_along_its_ode(law, name):
    test_rule_with_a_second_vector_goes_along_its_ode(law, name)


@with_traces
def test_htd_with_traces_goes_along_its_ode(law):
    """f is the mean of the behaviour's trace in the state of the step."""
    of_theta, of_w, _ = ODES["htd"]

    def after(t):
        return after_one_update(law, htd_with_traces, {"w": law.w, "f": law.f[t]}, t, eta=ETA)

    assert_close(law.mean(lambda t: after(t).theta - law.theta) / ALPHA, of_theta(law))
    assert_close(law.mean(lambda t: after(t).w - law.w) / (ETA * ALPHA), of_w(law))


@pytest.mark.parametrize("name", ["gtd2_mp", "sthtd_mp"])
def test_mirror_prox_goes_along_its_saddle_point_as_its_step_becomes_small(law, name):
    A_mu = np.einsum("k,ki,kj->ij", law.p, law.x, law.y)
    metric = law.C if name == "gtd2_mp" else -(A_mu + A_mu.T) / 2
    small = 1e-7

    def change(t):
        state = record(theta=law.theta.copy(), w=law.w.copy(), ahead=law.z.copy(), ahead_w=law.z.copy())
        now = Now(np.uint64(t), 0, t + 1, small, NOBODY, NOBODY)
        ALGORITHMS[name].update(state, law.view, now, SimpleNamespace(eta=ETA))
        return np.r_[(state.theta - law.theta) / small, (state.w - law.w) / (ETA * small)]

    expected = np.r_[-law.A.T @ law.w, law.td_update(law.theta) - metric @ law.w]
    np.testing.assert_allclose(law.mean(change), expected, rtol=0, atol=1e-5)


def test_replayed_tdc_goes_along_the_ode_of_tdc(law):
    update = ALGORITHMS["minibatch_tdc_replay"].update
    own = {"w": law.w, "g": law.z, "h": law.z}
    of_theta, of_w, _ = ODES["tdc"]
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t], eta=ETA).theta - law.theta)
    assert_close(change / ALPHA, of_theta(law))
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t], eta=ETA).w - law.w)
    assert_close(change / (ETA * ALPHA), of_w(law))


def test_svrg_goes_along_the_ode_of_gtd2_wherever_its_anchor_is(law):
    """With the exact sums at the anchor, over n = 40 steps."""
    theta0, w0 = np.random.default_rng(4).normal(size=(2, len(law.theta)))
    own = {
        "w": law.w,
        "difference": law.z,
        "difference_w": law.z,
        "anchor": theta0,
        "anchor_w": w0,
        "batch": np.zeros((1, 3)),
    }
    own |= {"sum": 40 * law.A.T @ w0, "sum_w": 40 * (law.td_update(theta0) - law.C @ w0)}
    update = ALGORITHMS["svrg_gtd"].update
    of_theta, of_w, _ = ODES["gtd2"]
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t], seen=40, eta=ETA).theta - law.theta)
    assert_close(change / ALPHA, of_theta(law))
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t], seen=40, eta=ETA).w - law.w)
    assert_close(change / (ETA * ALPHA), of_w(law))


@without_traces
def test_svrg_has_no_noise_at_the_solution(law):
    """With the anchor there, too: no step of the batch moves theta or w. GTD2 does move."""
    theta, nothing = law.exact.theta_star, np.zeros(len(law.theta))
    own = {
        "w": nothing,
        "difference": nothing,
        "difference_w": nothing,
        "anchor": theta,
        "anchor_w": nothing,
        "batch": np.zeros((1, 3)),
    }
    own |= {"sum": nothing, "sum_w": nothing}
    moved = []
    for t in range(len(law.p)):
        for name in ("svrg_gtd", "gtd2"):
            state = record(**{k: np.array(v) for k, v in ({"theta": theta} | own).items()})
            now = Now(np.uint64(t), 0, 40, ALPHA, np.array([t], np.uint32), NOBODY)
            ALGORITHMS[name].update(state, law.view, now, SimpleNamespace(eta=ETA))
            moved.append((name, np.abs(state.w).max() + np.abs(state.theta - theta).max()))
    assert max(size for name, size in moved if name == "svrg_gtd") == 0
    assert max(size for name, size in moved if name == "gtd2") > 1e-3


def test_saga_goes_along_the_ode_of_gtd2_whatever_its_table_holds(law):
    """Three numbers are kept of a step: g y for theta, a e - c x for w."""
    n = len(law.p)
    table = np.random.default_rng(4).normal(size=(n, 3))
    own = {"w": law.w, "table": table, "batch": np.zeros((1, 3))}
    own |= {"sum": n * (law.p * table[:, 0]) @ law.y}
    own |= {"sum_w": n * ((law.p * table[:, 1]) @ law.e - (law.p * table[:, 2]) @ law.x)}
    update = ALGORITHMS["saga_gtd"].update
    of_theta, of_w, _ = ODES["gtd2"]
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t], seen=n, eta=ETA).theta - law.theta)
    assert_close(change / ALPHA, of_theta(law))
    change = law.mean(lambda t: after_one_update(law, update, own, first=[t], seen=n, eta=ETA).w - law.w)
    assert_close(change / (ETA * ALPHA), of_w(law))


@without_traces
def test_gtd_gtd2_tdc_and_transposed_tdc_are_different_algorithms(law):
    """The corrected transposed form has the mean of GTD2: C theta + A theta = D theta."""
    names = ["gtd", "gtd2", "tdc", "tdc_transposed"]
    change = {
        name: np.r_[mean_theta_change(law, name, {"w": law.w}, eta=ETA), mean_w_change(law, name)]
        for name in [*names, "tdc_transposed_corrected"]
    }
    for i, one in enumerate(names):
        for other in names[:i]:
            assert np.abs(change[one] - change[other]).max() > 1e-2, (one, other)
    assert_close(change["tdc_transposed_corrected"], change["gtd2"])


def test_fixed_points_of_the_means_are_the_td_solution_but_not_for_printed_transposed_tdc():
    """At theta_star with w = 0 every mean is zero, and that of the printed transposed TDC is not."""
    law = Law(garnet(states=4, actions=2, branching=2, n_features=3, off_policy=0.9, seed=3))
    law.theta, law.w = law.exact.theta_star, np.zeros(3)
    for name, (_, _, hyper) in ODES.items():
        assert_close(mean_theta_change(law, name, {"w": law.w}, eta=ETA, **hyper), 0.0)
        if name != "tdc_transposed":
            assert_close(mean_w_change(law, name, **hyper), 0.0)
    assert np.abs(mean_w_change(law, "tdc_transposed")).max() > 1e-2


def test_nasa_moves_theta_then_both_averages(law):
    update, own = ALGORITHMS["nasa"].update, {"z": law.z, "u": law.w}
    hyper = {"a": 2.0, "b": 3.0, "beta": 0.7}

    def change(name, old, speed):
        return law.mean(lambda t: getattr(after_one_update(law, update, own, t, **hyper), name) - old) / (speed * ALPHA)

    moved = law.theta - ALPHA * law.z / 0.7
    assert_close(change("theta", law.theta, 1.0), -law.z / 0.7)
    assert_close(change("z", law.z, 2.0), law.A.T @ law.w - law.z)
    assert_close(change("u", law.w, 3.0), law.td_update(moved) - law.w)


# The framework: mean over pairs of independent steps -------------------------------------------------------


def spd(d):
    root = np.random.default_rng(2).normal(size=(d, d))
    return root @ root.T + np.eye(d)


def variant(law, similarity="correlation", directions="one", alpha=ALPHA):
    """An Impression GTD for single pairs, and its arrays."""
    hyper = {"similarity": similarity, "directions": directions, "m1": 1, "m2": 1, "ridge": 1.0}
    hyper |= {"alpha": alpha, "lam": law.lam}
    chosen = ALGORITHMS["impression_gtd"].choose(hyper | {"n_features": len(law.theta)})
    return chosen.update, dict(chosen.init(len(law.theta), hyper))


def mean_change_over_pairs(law, update, own, **more):
    return (
        law.mean_over_pairs(
            lambda i, j: after_one_update(law, update, own, first=[i], second=[j], **more).theta - law.theta
        )
        / ALPHA
    )


SHARES = {"one": 1, "both": 2, "averaged": 1}
SIMILARITIES = ("correlation", "mspbe", "U")


def in_turn(others):
    """Every law with all directions: each pair of a law, a direction and one of the others comes at least once."""
    return [
        (law, directions, others[(k + j) % len(others)])
        for k, law in enumerate(LAWS)
        for j, directions in enumerate(SHARES)
    ]


@pytest.mark.parametrize("directions", SHARES)
def test_impression_gtd_descends_neu(law, directions):
    share = SHARES[directions]
    update, own = variant(law, directions=directions)
    expected = -share * law.A.T @ law.td_update(law.theta)
    assert_close(mean_change_over_pairs(law, update, own), expected)


def test_impression_gtd_with_a_matrix_descends_its_norm(law):
    U = spd(len(law.theta))
    update, own = variant(law, similarity=U)
    assert_close(mean_change_over_pairs(law, update, own), -law.A.T @ np.linalg.inv(U) @ law.td_update(law.theta))


def test_impression_gtd_with_the_true_C_descends_mspbe(law):
    """The sum of n = 40 times C stands where the rule's own estimate would."""
    update, own = variant(law, similarity="mspbe")
    own["inverse"] = np.linalg.inv(40 * law.C)
    change = mean_change_over_pairs(law, update, own, seen=40)
    assert_close(change, -law.A.T @ np.linalg.inv(law.C) @ law.td_update(law.theta))


@pytest.mark.parametrize(("law", "directions", "similarity"), in_turn(SIMILARITIES), indirect=["law"])
def test_auto_descends_the_loss_and_its_averages_are_those_of_the_exact_step(law, directions, similarity):
    """One update after 75 batches of which the averages are zero but for a |g|^2 that no batch surprises."""
    d, count, share = len(law.theta), 75, SHARES[directions]
    W = {"correlation": np.eye(d), "mspbe": np.linalg.inv(law.C), "U": np.linalg.inv(spd(d))}[similarity]
    update, own = variant(law, spd(d) if similarity == "U" else similarity, directions, alpha="auto")
    own |= {"seen": [count], "squared": [1e9], "next_alpha": [1.0]}
    if similarity == "mspbe":
        own["inverse"] = np.linalg.inv(40 * law.C)

    def after(i, j):
        state = after_one_update(law, update, own, first=[i], second=[j], seen=40)
        assert state.alpha[0] == ALPHA
        return np.concatenate([state.theta - law.theta, (count + 1) * state.loss, (count / 4 + 20.25) * state.along])

    mean = law.mean_over_pairs(after)
    residual, z = law.td_update(law.theta), own["z"]
    assert_close(mean[:d] / ALPHA, -share * law.A.T @ W @ residual)
    assert_close(mean[d], share * residual @ W @ residual)
    assert_close(mean[d + 1], share * z @ law.A.T @ W @ law.A @ z)


@without_traces
def test_impression_gtd_with_a_kernel_descends_the_kernel_loss(law):
    def kernel(x, other):
        return (1.0 + x @ other) ** 2

    update, own = variant(law, similarity=kernel)
    gram = np.array([[kernel(x, other) for other in law.x] for x in law.x])
    weight = law.p * law.rho
    expected = -(weight[:, None] * law.y).T @ gram @ (weight * (law.r + law.y @ law.theta))
    assert_close(mean_change_over_pairs(law, update, own), expected)


@without_traces
def test_dot_product_kernel_is_correlation(law):
    update, own = variant(law, similarity=lambda x, other: x @ other)
    assert_close(mean_change_over_pairs(law, update, own), -law.A.T @ law.td_update(law.theta))


@pytest.mark.parametrize("name", ["shrunken_r1_gtd", "shrunken_at_td"])
def test_shrunken_rules_descend_neu(law, name):
    """Step t is the latest, the other one is drawn from the other buffer."""
    update, own = ALGORITHMS[name].update, {"u": law.w, "g": law.w}
    change = law.mean_over_pairs(lambda t, j: after_one_update(law, update, own, t, first=[j]).theta - law.theta)
    assert_close(change / ALPHA, -law.A.T @ law.td_update(law.theta))


def test_direct_gtd_descends_neu(law):
    """The second step of two, independent of the first."""
    update, own = ALGORITHMS["direct_gtd"].update, {"u": law.w, "g": law.w}
    whole = law.view

    def change(t, earlier):
        traces = None if whole.traces is None else whole.traces[[earlier, t]]
        view = StreamView(whole.features, whole.steps[[earlier, t]], traces)
        return after_one_update(law, update, own, 1, seen=2, view=view, gap=1.0).theta - law.theta

    assert_close(law.mean_over_pairs(change) / ALPHA, -law.A.T @ law.td_update(law.theta))


@pytest.mark.parametrize("name", ["at_td", "r1_gtd"])
def test_rules_with_one_matrix_descend_neu(law, name):
    """With the exact sums over n = 40 steps."""
    own = {"A": 40 * law.A, "b": 40 * law.b, "u": law.w, "g": law.w}
    assert_close(mean_theta_change(law, name, own, seen=40), -law.A.T @ law.td_update(law.theta))


@pytest.mark.parametrize("buffers", ["two", "one", "both"])
def test_expected_gtd_descends_neu(law, buffers):
    """With the exact sums; the two buffers hold 30 and 10 steps."""
    chosen = ALGORITHMS["expected_gtd"].choose({"buffers": buffers})
    own = dict(chosen.init(len(law.theta), {})) | {"A": 40 * law.A, "b": 40 * law.b}
    own |= {"A1": 30 * law.A, "b1": 30 * law.b, "n1": [30], "A2": 10 * law.A, "b2": 10 * law.b, "n2": [10]}
    change = after_one_update(law, chosen.update, own, seen=40).theta - law.theta
    assert_close(change / ALPHA, -law.A.T @ law.td_update(law.theta))
