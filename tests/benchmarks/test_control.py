"""Worlds, loop and statistics of `benchmarks/control.py`."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if not (find_spec("jax") and find_spec("optax")):
    pytest.skip("needs gradtd[deep]", allow_module_level=True)

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from control_cases import breakout
from control_cases.loop import Protocol, curves
from control_cases.scores import difference, iqm, resampled
from control_cases.worlds import WORLDS, World

from gradtd.deep import Mlp
from gradtd.deep.control import Exploration, ImpressionQ, SemiGradientQ

GYMNASIUM = {"CartPole": "CartPole-v1", "Acrobot": "Acrobot-v1", "MountainCar": "MountainCar-v0"}


@pytest.mark.parametrize("name", GYMNASIUM)
def test_worlds_do_what_gymnasium_does_step_by_step(name):
    gymnasium = pytest.importorskip("gymnasium")
    world, rng = WORLDS[name], np.random.default_rng(4)
    made = gymnasium.make(GYMNASIUM[name], max_episode_steps=world.limit)
    assert (world.n_inputs, world.n_actions) == (made.observation_space.shape[0], made.action_space.n)
    ends = 0
    with jax.enable_x64(True):
        step, observe = jax.jit(world.step), jax.jit(world.observe)
        for episode in range(3):
            made.reset(seed=episode)
            state = jnp.asarray(np.array(made.unwrapped.state), jnp.float64)
            action, steps, over = 0, 0, False
            while not over:
                if name == "MountainCar":  # with its speed, so that some episodes end
                    action = int(rng.integers(3)) if episode < 1 else int(np.sign(float(state[1])) + 1)
                else:
                    action = int(rng.integers(world.n_actions)) if steps % 4 == 0 else action
                seen, reward, terminated, truncated, _ = made.step(action)
                state, earned, ended = step(state, action)
                steps += 1
                np.testing.assert_allclose(state, made.unwrapped.state, rtol=1e-6, atol=1e-6)
                np.testing.assert_allclose(observe(state), seen, rtol=1e-5, atol=1e-6)
                assert (float(earned), bool(ended)) == (reward, terminated)
                # what is compared is the step, not how differences grow over hundreds of them
                state, over = jnp.asarray(np.array(made.unwrapped.state), jnp.float64), terminated or truncated
                assert truncated == (steps == world.limit)
            ends += int(terminated)
    assert ends > 0


@pytest.mark.parametrize("name", GYMNASIUM)
def test_starts_are_within_gymnasiums(name):
    gymnasium = pytest.importorskip("gymnasium")
    made = gymnasium.make(GYMNASIUM[name])
    theirs = []
    for seed in range(300):
        made.reset(seed=seed)
        theirs.append(np.array(made.unwrapped.state))
    ours = np.asarray(jax.vmap(WORLDS[name].reset)(jnp.asarray(np.random.default_rng(1).random((300, 4)))))
    for side in (np.min, np.max):
        np.testing.assert_allclose(side(ours, axis=0), side(theirs, axis=0), atol=0.01)


def test_breakout_does_what_minatar_does_step_by_step():
    """Needs `pip install --no-deps MinAtar==1.0.15`."""
    env = pytest.importorskip("minatar.environments.breakout").Env()
    step, observe, rng = jax.jit(breakout.step), jax.jit(breakout.observe), np.random.default_rng(0)
    ends = broken = 0
    for episode in range(40):
        env.reset()
        state = breakout.reset(np.array([0.0 if env.ball_x == 0 else 0.9]))
        over, steps = False, 0
        while not over and steps < 1500:
            seen = env.state().transpose(2, 0, 1).ravel()
            np.testing.assert_array_equal(observe(state), seen)
            action = 1 if env.pos > env.ball_x else 2 if env.pos < env.ball_x else 0  # follow the ball, mostly
            if rng.random() < 0.1 * (episode % 5):
                action = int(rng.integers(3))
            reward, over = env.act([0, 1, 3][action])
            state, earned, ended = step(state, action)
            assert (float(earned), bool(ended)) == (reward, over)
            broken, steps = broken + reward, steps + 1
        ends += over
    assert ends > 10
    assert broken > 40 * 5


def test_breakout_by_hand():
    """The ball begins at a wall, falls to the right and is lost after six steps where the paddle stays at column 4."""
    state = breakout.reset(jnp.zeros(1))
    places, over = [], False
    while not over:
        state, reward, over = breakout.step(state, 0)
        places.append((int(state[0]), int(state[1])))
        assert float(reward) == 0.0
    assert places == [(k, 3 + k) for k in range(1, 7)]
    state = breakout.reset(jnp.zeros(1))
    for action in (2, 0, 0, 0, 0, 0):  # at column 5 the paddle is where the ball comes from: it goes up again
        state, _, over = breakout.step(state, action)
        assert not over
    assert state[:4].tolist() == [6.0, 8.0, 1.0, -1.0]
    for _ in range(5):  # up to the wall on the right, and back from it into the lowest row of bricks
        state, reward, _ = breakout.step(state, 0)
    assert (float(reward), state[:4].tolist(), float(state[8:].sum())) == (1.0, [8.0, 4.0, -1.0, 1.0], 29.0)


def _chain_step(state, action):
    """Action 1 goes on and pays 1 after three steps, action 0 ends with .3."""
    place = state[0].astype(int)
    last = (place == 2) & (action == 1)
    reward = jnp.where(last, 1.0, jnp.where(action == 0, 0.3, 0.0))
    return jnp.minimum(state + 1, 2.0), reward, last | (action == 0)


def _chain(limit=50):
    def observe(state):
        return jax.nn.one_hot(state[0].astype(int), 3)

    return World(lambda uniform: jnp.zeros(1), _chain_step, observe, 1, 3, 2, limit, 0.0, 1.0)


@pytest.mark.slow
def test_the_compiled_loop_learns_a_chain_and_is_the_same_for_the_same_seed():
    explore = Exploration(first=1.0, last=0.0, until=2500)
    asked = Protocol(steps=5000, every=2, batch=8, gamma=0.9, exploration=explore)
    run = curves(_chain(), lambda step: ImpressionQ(Mlp(3, (), 2), step), asked)
    seen = np.asarray(run(0.01, np.array([1, 2, 1])))
    assert seen.shape == (3, 2500)
    np.testing.assert_array_equal(seen[0], seen[2])
    assert (seen[0] != seen[1]).any()
    assert (seen[:, -1000:] == 1.0).mean() > 0.99  # the best return there is
    assert set(np.unique(seen)) <= {np.float32(0.0), np.float32(0.3), np.float32(1.0)}


@pytest.mark.slow
def test_the_compiled_loop_bootstraps_where_an_episode_is_cut_off():
    """One state, reward 1, cut off after five steps: worth 1 / (1 - gamma), or 1 where the step is terminal."""

    def world(ends):
        def step(state, action):
            return state, jnp.ones(()), jnp.asarray(ends)

        return World(lambda uniform: jnp.ones(1), step, lambda state: state, 1, 1, 2, 5, 0.0, 5.0)

    asked = Protocol(steps=2000, every=1, batch=8, gamma=0.5, exploration=Exploration(last=1.0))
    seen = {}

    class Watched(SemiGradientQ):
        def update(self, state, first, second):
            made = super().update(state, first, second)
            jax.debug.callback(lambda q: seen.__setitem__("q", np.asarray(q)), self.values(made, jnp.ones((1, 1))))
            return made

    for ends, value in ((False, 2.0), (True, 1.0)):
        curves(world(ends), lambda step: Watched(Mlp(1, (), 2), step), asked)(0.005, np.array([3])).block_until_ready()
        jax.effects_barrier()
        np.testing.assert_allclose(seen["q"], value, rtol=1e-3)


def test_the_interquartile_mean_is_that_of_the_middle_half():
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(3, 20))
    flat = sorted(scores.ravel().tolist())
    assert float(iqm(scores)) == pytest.approx(sum(flat[15:45]) / 30)
    flat[-1] += 1e6  # an outlier plays no role
    assert float(iqm(np.array(flat).reshape(3, 20))) == pytest.approx(float(iqm(scores)))


def test_bootstrap_samples_keep_to_their_world_and_intervals_cover():
    worlds = np.array([[0.0] * 10, [1.0] * 10])  # no sample mixes them, so every one has the same mean
    assert np.ptp(resampled(worlds, np.random.default_rng(1))) == 0.0
    rng, held = np.random.default_rng(2), 0
    for _ in range(40):
        one, other = rng.normal(0.3, 1, (3, 30)), rng.normal(0.0, 1, (3, 30))
        _, low, high = difference(one, other)
        held += low <= 0.3 <= high
    assert held >= 33  # fewer have a chance below 1 % at 95 %
