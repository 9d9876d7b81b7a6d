"""Agents of control: their directions, their memory of episodes, and what they learn where the optimum is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gradtd import InputError
from gradtd.deep import Batch, Mlp
from gradtd.deep.control import DQN, EQRC, Exploration, ImpressionQ, SemiGradientQ, train

N_INPUTS, N_ACTIONS, GAMMA = 3, 2, 0.9
AGENTS = {
    "impression": ImpressionQ,
    "impression, auto": lambda net, **more: ImpressionQ(net, ridge="auto", **more),
    "semi-gradient": SemiGradientQ,
    "dqn": lambda net, **more: DQN(net, period=10, **more),
    "double dqn": lambda net, **more: DQN(net, period=10, double=True, **more),
    "eqrc": EQRC,
}


def net():
    return Mlp(N_INPUTS, (5,), N_ACTIONS, activation="tanh")


def start(agent, seed=0):
    """A state whose values, head and target network are not 0."""
    state = agent.init(jax.random.key(seed))
    keys = iter(jax.random.split(jax.random.key(seed + 1), 50))

    def shaken(tree):
        return jax.tree.map(lambda a: a + 0.5 * jax.random.normal(next(keys), a.shape, a.dtype), tree)

    return state._replace(params=shaken(state.params), target=shaken(state.target))


def batch(seed, m):
    rng = np.random.default_rng(seed)
    actions = rng.integers(N_ACTIONS, size=m)
    x = np.hstack([rng.normal(size=(m, N_INPUTS)), np.eye(N_ACTIONS)[actions]])
    ahead = np.hstack([rng.normal(size=(m, N_INPUTS)), np.zeros((m, N_ACTIONS))])
    discount = GAMMA * (rng.random(m) < 0.8)
    made = Batch(x, rng.normal(size=m), ahead, discount, np.ones(m))
    return Batch(*(jnp.asarray(column, jnp.float32) for column in made)), actions


def parts(agent, params, one, actions, target=None, chooser=None):
    """q, its gradients, those of the next value, and delta, step by step, without `gradtd.deep`'s losses."""

    def q(p, x, a):
        return agent.net.apply(p, x[None])[0][0, a]

    rows = []
    for k, a in enumerate(actions):
        x, ahead = one.x[k, :N_INPUTS], one.next_x[k, :N_INPUTS]
        seen = agent.net.apply(chooser or params, ahead[None])[0][0]
        weights = np.eye(N_ACTIONS)[int(np.argmax(seen))]
        if agent.temperature:
            weights = np.asarray(jax.nn.softmax(seen / agent.temperature))
        value, slope = jax.value_and_grad(q)(params, x, int(a))
        slopes_ahead = [jax.grad(q)(params, ahead, b) for b in range(N_ACTIONS)]
        ahead_value = sum(w * float(q(target or params, ahead, b)) for b, w in enumerate(weights))
        slope_ahead = sum(w * ravel_pytree(s)[0] for w, s in zip(weights, slopes_ahead, strict=True))
        psi = np.asarray(agent.net.apply(params, x[None])[1][0])
        delta = float(one.reward[k] + one.discount[k] * ahead_value - value)
        rows.append((delta, np.asarray(ravel_pytree(slope)[0]), np.asarray(slope_ahead), psi, float(one.discount[k])))
    return rows


def direction(agent, state, first, second):
    return jax.grad(agent.loss)(state.params, state.target, first, second)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_impression_q_is_the_corrected_form_of_pairs(temperature):
    agent = ImpressionQ(net(), temperature=temperature, ridge=0.3)
    state = start(agent)
    (first, a1), (second, a2) = batch(1, 6), batch(2, 7)
    p = state.params["net"]
    one, two = parts(agent, p, first, a1), parts(agent, p, second, a2)
    K22 = np.array(
        [[r[3] @ s[3] * (a == b) for s, b in zip(two, a2, strict=True)] for r, a in zip(two, a2, strict=True)]
    )
    K12 = np.array(
        [[r[3] @ s[3] * (a == b) for s, b in zip(two, a2, strict=True)] for r, a in zip(one, a1, strict=True)]
    )
    ridge = 0.3 * np.mean(np.diag(K22)) * np.eye(7)
    h = K12 @ np.linalg.solve(K22 + ridge, np.array([r[0] for r in two]))
    asked = np.mean([r[4] * hk * r[2] - r[0] * r[1] for r, hk in zip(one, h, strict=True)], axis=0)
    np.testing.assert_allclose(ravel_pytree(direction(agent, state, first, second))[0], asked, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("name", ["semi-gradient", "dqn", "double dqn"])
def test_semi_gradients_of_both_batches(name):
    agent = AGENTS[name](net())
    state = start(agent)
    (first, a1), (second, a2) = batch(1, 6), batch(2, 7)
    p = state.params["net"]
    ahead = {"target": state.target, "chooser": p if name == "double dqn" else state.target}
    rows = parts(agent, p, first, a1, **ahead) + parts(agent, p, second, a2, **ahead)
    asked = -np.mean([r[0] * r[1] for r in rows], axis=0)
    np.testing.assert_allclose(ravel_pytree(direction(agent, state, first, second))[0], asked, rtol=2e-4, atol=2e-6)


def test_eqrc_corrects_by_its_head_and_the_head_is_a_regression_that_decays():
    agent = EQRC(net(), step_size=0.01, beta=2.0)
    state = start(agent)
    (first, a1), (second, a2) = batch(1, 6), batch(2, 7)
    p, head = state.params["net"], np.asarray(state.params["head"]).reshape(-1, N_ACTIONS)
    rows = parts(agent, p, first, a1) + parts(agent, p, second, a2)
    actions = np.concatenate([a1, a2])
    h = [r[3] @ head[:, a] for r, a in zip(rows, actions, strict=True)]
    made = direction(agent, state, first, second)
    asked = np.mean([r[4] * hk * r[2] - r[0] * r[1] for r, hk in zip(rows, h, strict=True)], axis=0)
    np.testing.assert_allclose(ravel_pytree(made["net"])[0], asked, rtol=2e-4, atol=2e-6)
    errors = [(hk - r[0]) * np.outer(r[3], np.eye(N_ACTIONS)[a]) for r, hk, a in zip(rows, h, actions, strict=True)]
    np.testing.assert_allclose(made["head"].reshape(-1, N_ACTIONS), np.mean(errors, axis=0), rtol=2e-4, atol=2e-6)
    without = replace(agent, beta=0.0).update(state, first, second).params
    with_decay = agent.update(state, first, second).params
    moved = without["head"] - with_decay["head"]
    np.testing.assert_allclose(moved, 0.01 * 2.0 * state.params["head"], rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(without["net"]["head"], with_decay["net"]["head"])


def test_dqn_copies_its_network_every_period():
    agent = DQN(net(), period=3)
    state = start(agent)._replace(updates=0)
    (first, _), (second, _) = batch(1, 6), batch(2, 7)
    before = np.asarray(state.target["head"])
    for k in range(1, 4):
        state = agent.update(state, first, second)
        same = np.array_equal(state.target["head"], state.params["net"]["head"])
        assert same == (k == 3)
        assert np.array_equal(state.target["head"], before) == (k < 3)


class Chain:
    """States 0 to 2; action 1 goes on and pays 1 at the end, action 0 pays .3 and ends."""

    def __init__(self):
        self.rewards = {(2, 1): 1.0, (0, 0): 0.3, (1, 0): 0.3, (2, 0): 0.3}

    def reset(self, seed=None):
        self.state = 0
        return np.eye(3)[0], {}

    def step(self, action):
        reward = self.rewards.get((self.state, action), 0.0)
        ended = action == 0 or self.state == 2
        self.state = min(self.state + 1, 2)
        return np.eye(3)[self.state], reward, ended, False, {}


QUICK = ("impression", "dqn")
STEP_SIZES = {"eqrc": 0.005}
"""Adam's step-sizes, .02 otherwise. EQRC's head takes steps of one size however small its error, and ends nearby."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in AGENTS])
def test_a_chain_is_learned_exactly(name):
    agent = AGENTS[name](Mlp(3, (), 2), step_size=STEP_SIZES.get(name, 0.02))
    explore = Exploration(first=1.0, last=1.0)
    made = train(agent, Chain(), steps=6000, gamma=GAMMA, batch=(8, 8), every=2, exploration=explore, seed=3)
    q = np.array([made.values(row) for row in np.eye(3)])
    np.testing.assert_allclose(q, [[0.3, 0.81], [0.3, 0.9], [0.3, 1.0]], atol=0.02 if name == "eqrc" else 1e-5)
    assert made.act(np.eye(3)[0]) == 1


class Clock:
    """One state, reward 1; every episode has five steps and then terminates, or is truncated."""

    def __init__(self, truncates):
        self.truncates = truncates

    def reset(self, seed=None):
        self.t = 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        last = self.t == 5
        return np.zeros(1), 1.0, last and not self.truncates, last and self.truncates, {}


@pytest.mark.parametrize(("truncates", "value"), [(True, 1 / (1 - 0.5)), (False, 1 / (1 - 0.5 * 4 / 5))])
def test_truncation_bootstraps_and_termination_does_not(truncates, value):
    agent = SemiGradientQ(Mlp(1, (), 2), step_size=0.003)
    made = train(agent, Clock(truncates), steps=6000, gamma=0.5, every=2, exploration=Exploration(last=1.0), seed=1)
    np.testing.assert_allclose(made.values([0.0]), value, rtol=0.01 if truncates else 0.08)


@pytest.mark.parametrize("name", ["impression", "dqn"])
def test_same_seed_same_bytes(name):
    agent = AGENTS[name](Mlp(3, (4,), 2))
    one, two, other = (train(agent, Chain(), steps=300, batch=(4, 4), seed=seed) for seed in (5, 5, 6))
    flat = [np.asarray(ravel_pytree(made.state.params)[0]).tobytes() for made in (one, two, other)]
    assert flat[0] == flat[1] != flat[2]
    assert one.returns.tobytes() == two.returns.tobytes()
    assert one.state.updates == two.state.updates > 0


def test_random_actions_are_held_as_long_as_asked():
    explore = Exploration(1.0, 0.1, until=100, longest=20)
    assert [explore.probability(t) for t in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    lengths = np.array([explore.length(u) for u in (np.arange(20_000) + 0.5) / 20_000])
    for k in (2, 5, 20):
        assert np.mean(lengths >= k) == pytest.approx(1 / k, abs=1e-3)
    assert lengths.max() == 20


def test_what_cannot_be_an_agent_or_a_training_is_said():
    with pytest.raises(InputError, match="value per action"):
        ImpressionQ(Mlp(3))
    with pytest.raises(InputError, match="step_size"):
        DQN(net(), step_size=-1.0)
    with pytest.raises(InputError, match="period"):
        DQN(net(), period=0)
    with pytest.raises(InputError, match="until must be at least 1"):
        Exploration(until=0)
    with pytest.raises(InputError, match="last"):
        Exploration(last=1.5)
    with pytest.raises(InputError, match="observations need shape"):
        train(SemiGradientQ(Mlp(2, (), 2)), Chain(), steps=5)
    with pytest.warns(UserWarning, match="No update was made"):
        train(SemiGradientQ(Mlp(3, (), 2)), Chain(), steps=1)
