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

from control_cases.worlds import WORLDS

GYMNASIUM = {"CartPole": "CartPole-v1", "Acrobot": "Acrobot-v1", "MountainCar": "MountainCar-v0"}


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_do_what_gymnasium_does_step_by_step(name):
    gymnasium = pytest.importorskip("gymnasium")
    world, rng = WORLDS[name], np.random.default_rng(4)
    made = gymnasium.make(GYMNASIUM[name], max_episode_steps=world.limit)
    assert (world.n_inputs, world.n_actions) == (made.observation_space.shape[0], made.action_space.n)
    ends = 0
    with jax.enable_x64(True):
        step, observe = jax.jit(world.step), jax.jit(world.observe)
        for episode in range(6):
            made.reset(seed=episode)
            state = jnp.asarray(np.array(made.unwrapped.state), jnp.float64)
            action, steps, over = 0, 0, False
            while not over:
                if name == "MountainCar":  # with its speed, so that some episodes end
                    action = int(rng.integers(3)) if episode < 2 else int(np.sign(float(state[1])) + 1)
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


@pytest.mark.parametrize("name", WORLDS)
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
