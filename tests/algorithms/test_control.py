"""Rules of control: their twins on rows of three actions, their means, the known optimum, and what they refuse."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import ALGORITHMS, InputError
from gradtd.compiled import engine
from gradtd.compiled.plan import record
from gradtd.core.algorithm import Now
from naive import rules as naive

ACTIONS, D, ALPHA = 3, 4, 0.03
RULES = {
    "q_learning": {},
    "expected_sarsa": {"epsilon": 0.3},
    "greedy_gq": {"eta": 2.5},
    "impression_gq": {"m1": 3, "m2": 5},
}


def pair_stream(table, s, a, reward, after, discount, episode, rho=1.0):
    """Steps between states whose actions have the rows of a table of shape (states, actions, features)."""
    n_actions = table.shape[1]
    features = table.reshape(-1, table.shape[2])
    rows = {"row": np.asarray(s) * n_actions + a, "next_row": np.asarray(after) * n_actions}
    return gradtd.Stream.from_arrays(
        features=features, reward=reward, discount=discount, episode=episode, rho=rho, **rows
    )


def random_stream(sparse=False):
    rng = np.random.default_rng(2)
    table = rng.normal(size=(12, ACTIONS, D)) * (rng.random((12, ACTIONS, D)) < 0.7)
    s, after = rng.integers(12, size=(2, 150))
    ends = rng.random(150) < 0.1
    drawn = {"a": rng.integers(ACTIONS, size=150), "reward": rng.normal(size=150), "rho": rng.random(150) * 2}
    discount = np.where(ends, 0.0, rng.random(150))
    made = pair_stream(table, s, after=after, discount=discount, episode=np.cumsum(ends), **drawn)
    if not sparse:
        return made
    return gradtd.Stream(scipy.sparse.csr_array(made.features), made.steps)


def learned(name, stream, compile=False, **settings):
    rule = ALGORITHMS[name]
    if compile:
        rule = replace(rule, update=engine.compile_function(rule.update, True))
    theta0 = np.array([0.7, -1.1, 0.4, 0.9])[: stream.n_features]
    return gradtd.learn(stream, rule, theta0=theta0, snapshots=1, alpha=ALPHA, seed=3, compile=False, **settings)


def batches(stream, name, settings):
    """What the engine draws."""
    n, rule = len(stream), ALGORITHMS[name]
    m1, m2 = settings.get("m1", 0), settings.get("m2", 0)
    kept = {
        "learns": np.zeros(n, bool),
        "first": np.zeros((n, m1), np.uint32),
        "second": np.zeros((n, m2), np.uint32),
    }

    def write_down(state, stream, now, hyper):
        state.learns[now.seen - 1] = True
        state.first[now.seen - 1], state.second[now.seen - 1] = now.first, now.second

    recorder = gradtd.Algorithm("recorder", write_down, init=lambda d, hyper: kept, draws=rule.draws)
    sizes = {"m1": m1, "m2": m2} if m1 else {}
    gradtd.learn(stream, recorder, alpha=1.0, seed=3, compile=False, **sizes)
    return naive.Log(naive.samples_of(stream), **kept, table=stream.features, next_row=stream.steps["next_row"])


@pytest.mark.parametrize("name", RULES)
def test_rules_of_three_actions_equal_their_twins_dense_sparse_and_compiled(name):
    settings, stream = RULES[name], random_stream()
    own = {key: value for key, value in settings.items() if key in ("epsilon", "eta")}
    log = batches(stream, name, settings)
    theta0 = np.array([0.7, -1.1, 0.4, 0.9])
    twin = np.array(list(naive.TWINS[name](log, theta0, itertools.repeat(ALPHA), n_actions=ACTIONS, **own)))
    assert np.abs(np.diff(twin[-50:], axis=0)).max() > 1e-6
    for made in (stream, random_stream(sparse=True)):
        np.testing.assert_allclose(learned(name, made, n_actions=ACTIONS, **settings).thetas, twin, atol=1e-12)
    compiled = learned(name, stream, compile=True, n_actions=ACTIONS, **settings).thetas
    np.testing.assert_allclose(compiled, twin, atol=1e-12)
    assert np.abs(learned(name, stream, **settings).thetas[-1] - twin[-1]).max() > 1e-3, "actions play no role"


class PairLaw:
    """All steps of a random decision process, their probabilities, and its matrices under a policy greedy by theta."""

    def __init__(self, epsilon, gamma=0.9, states=4):
        rng = np.random.default_rng(7)
        table = rng.normal(size=(states, ACTIONS, D))
        p_pair = rng.dirichlet(np.ones(states * ACTIONS)).reshape(states, ACTIONS)
        P = rng.dirichlet(np.ones(states), size=(states, ACTIONS))
        s, a, after = (grid.ravel() for grid in np.indices((states, ACTIONS, states)))
        self.p, reward = (p_pair[..., None] * P).ravel(), rng.normal(size=len(s))
        self.stream = pair_stream(table, s, a, reward, after, np.full(len(s), gamma), np.arange(len(s)))
        self.theta, self.w = rng.normal(size=(2, D))
        q = table @ self.theta
        policy = np.full((states, ACTIONS), epsilon / ACTIONS)
        policy[np.arange(states), q.argmax(axis=1)] += 1 - epsilon
        x, ahead = table.reshape(-1, D), np.einsum("xay,yb,ybd->xad", P, policy, table).reshape(-1, D)
        weight = p_pair.ravel()[:, None]
        self.C, self.E = x.T @ (weight * x), gamma * x.T @ (weight * ahead)
        self.A = self.E - self.C
        self.b = (self.p * reward) @ table[s, a]

    def change(self, name, own, t=0, first=(), second=(), **hyper):
        state = record(theta=self.theta.copy(), **{key: value.copy() for key, value in own.items()})
        now = Now(np.uint64(t), 0, t + 1, ALPHA, np.array(first, np.uint32), np.array(second, np.uint32))
        ALGORITHMS[name].update(state, self.stream.view, now, SimpleNamespace(n_actions=float(ACTIONS), **hyper))
        return (state.theta - self.theta) / ALPHA, (state.w - self.w) / ALPHA if "w" in own else None


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_means_are_those_of_the_greedy_policy(epsilon):
    law = PairLaw(epsilon)
    ode, steps = law.A @ law.theta + law.b, range(len(law.p))
    found = law.p @ np.array([law.change("expected_sarsa", {}, t, epsilon=epsilon)[0] for t in steps])
    np.testing.assert_allclose(found, ode, atol=1e-12)
    if epsilon == 0.0:
        found = law.p @ np.array([law.change("q_learning", {}, t)[0] for t in steps])
        np.testing.assert_allclose(found, ode, atol=1e-12)
    both = [law.change("greedy_gq", {"w": law.w}, t, epsilon=epsilon, eta=1.7) for t in steps]
    theta, w = (law.p @ np.array(part) for part in zip(*both, strict=True))
    np.testing.assert_allclose(theta, ode - law.E.T @ law.w, atol=1e-12)
    np.testing.assert_allclose(w, 1.7 * (ode - law.C @ law.w), atol=1e-12)


def test_impression_gq_descends_neu_of_the_greedy_policy():
    law, total = PairLaw(0.2), np.zeros(D)
    for i, j in itertools.product(range(len(law.p)), repeat=2):
        own = {"u": np.zeros(D), "g": np.zeros(D)}
        total += law.p[i] * law.p[j] * law.change("impression_gq", own, first=[i], second=[j], epsilon=0.2)[0]
    np.testing.assert_allclose(total, -law.A.T @ (law.A @ law.theta + law.b), atol=1e-12)


def optimal_values(P, reward, gamma):
    q = np.zeros(reward.shape)
    for _ in range(500):
        q = reward + gamma * P @ q.max(axis=1)
    return q


@pytest.mark.parametrize("name", RULES)
def test_the_known_optimum_is_found_from_random_behaviour(name):
    """A ring of four states: action 0 stays, action 1 goes on. A weight for each pair, so Q* is the solution of all."""
    rng = np.random.default_rng(12)
    reward, gamma, steps = rng.normal(size=(4, 2)), 0.7, 8000
    a = rng.integers(2, size=steps)
    s = np.append(0, np.cumsum(a)) % 4
    episode = np.arange(steps) // 20  # cut off, not ended
    earned, discount = reward[s[:-1], a], np.full(steps, gamma)
    stream = pair_stream(np.eye(8).reshape(4, 2, 8), s[:-1], a, earned, s[1:], discount, episode)
    rule = replace(ALGORITHMS[name], update=engine.compile_function(ALGORITHMS[name].update, True))
    settings = {"n_actions": 2} | ({"epsilon": 0.0} if name == "expected_sarsa" else {})
    settings |= {"m1": 16, "m2": 16, "alpha": 4.0} if name == "impression_gq" else {"alpha": 0.5}
    optimal = optimal_values(np.eye(4)[[[0, 1], [1, 2], [2, 3], [3, 0]]], reward, gamma)
    assert {0, 1} == set(optimal.argmax(axis=1)), "one action is best everywhere"
    found = gradtd.learn(stream, rule, compile=False, **settings).theta.reshape(4, 2)
    np.testing.assert_allclose(found, optimal, atol=1e-3)


def test_where_q_learning_diverges_the_two_batches_do_not():
    """w-2w with two actions: the better of 2 w and -2 w follows w, and is 2 |w|."""
    table = np.array([[[1.0], [1.0]], [[2.0], [-2.0]]])
    n = 2000
    zeros = np.zeros(n, int)
    stream = pair_stream(table, zeros, zeros, np.zeros(n), zeros + 1, np.full(n, 0.99), np.arange(n))
    theta0 = np.array([1.0])
    q = gradtd.learn(stream, "q_learning", alpha=0.1, n_actions=2, theta0=theta0, compile=False)
    impression = gradtd.learn(
        stream, "impression_gq", alpha=0.1, n_actions=2, theta0=theta0, batch_size=2, compile=False
    )
    assert q.diverged == 1
    assert abs(impression.theta[0]) < 1e-6


def test_other_layouts_are_refused():
    stream = random_stream()
    with pytest.raises(InputError, match=r"n_actions=2 needs rows of features by state and action.*next_row that is"):
        learned("q_learning", stream, n_actions=2)
    with pytest.raises(InputError, match="by state and action"):
        gradtd.run("boyan_chain", "greedy_gq", alpha=0.1, n_actions=2, runs=1, steps=100, compile=False)
    odd = gradtd.Stream.from_arrays(
        features=np.eye(5), row=[0, 1], next_row=[2, 4], reward=[0, 0], discount=[0.9, 0.9], episode=[0, 1]
    )
    with pytest.raises(InputError, match="has 5 rows"):
        gradtd.learn(odd, "q_learning", alpha=0.1, n_actions=2, compile=False)
    with pytest.raises(InputError, match="gets only one"):
        gradtd.Learner(4, "q_learning", alpha=0.1, n_actions=2, gamma=0.9)
    with pytest.raises(InputError, match="n_actions"):
        learned("q_learning", stream, n_actions=0)
    with pytest.raises(InputError, match="changes with theta"):
        learned("q_learning", stream, lam=0.5)
