"""The loop that trains every agent: act, store, and every few steps draw two batches and update."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.deep.control.agent import Agent, AgentState
from gradtd.deep.impression import Batch
from gradtd.deep.replay import EpisodeReplay


@dataclass(frozen=True)
class Exploration:
    """The frequency of random actions, and the number of steps for which each is repeated.

    Parameters
    ----------
    first, last : float
        Probability of a random action at the start, and from step ``until`` on; linear in between.
    until : int
        Step from which the probability is ``last``.
    longest : int
        A random action is repeated for k steps or more with probability 1/k, for at most ``longest`` steps (Dabney,
        Ostrovski and Barreto 2021). With 1, every random action is drawn separately.
    """

    first: float = 1.0
    last: float = 0.05
    until: int = 10_000
    longest: int = 1

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            checks.fraction(name, getattr(self, name))
        for name in ("until", "longest"):
            checks.whole_number(name, getattr(self, name), 1)

    def probability(self, step: Any) -> Any:
        """Probability of starting a random action at this step."""
        share = step / self.until
        return self.first + (self.last - self.first) * (share if share < 1 else 1.0)

    def length(self, uniform: float) -> int:
        """Number of repetitions, from a draw between 0 and 1."""
        return int(min(self.longest, 1 / max(uniform, 1e-9)))


@dataclass(frozen=True)
class Training:
    """A trained agent: its state, and the return and last step of every finished episode."""

    agent: Agent
    state: AgentState
    returns: Any
    ends: Any

    def act(self, x: Any) -> int:
        """The greedy action."""
        return int(np.argmax(self.values(x)))

    def values(self, x: Any) -> Any:
        """The values of all actions at one observation."""
        return np.asarray(self.agent.values(self.state, np.asarray(x, np.float32)[None]))[0]


def train(
    agent: Agent,
    environment: Any,
    *,
    steps: int,
    gamma: float = 0.99,
    batch: tuple[int, int] = (32, 32),
    every: int = 5,
    capacity: int = 50_000,
    exploration: Exploration | None = None,
    seed: int = 0,
) -> Training:
    """Train an agent in an environment with Gymnasium's ``reset`` and ``step``. The same seed gives the same bytes.

    The value after termination is 0; truncated episodes are bootstrapped.

    Parameters
    ----------
    agent : Agent
        `ImpressionQ`, `SemiGradientQ`, `DQN` or `EQRC`.
    environment : gymnasium.Env
        Observations are vectors, actions 0 to n - 1.
    steps : int
        Number of steps in the environment.
    gamma : float
        The discount factor.
    batch : (int, int)
        Sizes of the two batches, drawn from different episodes. Agents that need one batch join them.
    every : int
        Number of steps between two updates.
    capacity : int
        Capacity of the replay buffer; the oldest steps are dropped first.
    exploration : Exploration
        By default epsilon-greedy from 1 to .05 over 10,000 steps.
    seed : int
        Seed of the network, the exploration, the draws and the environment's first reset.
    """
    explore = Exploration() if exploration is None else exploration
    every = checks.whole_number("every", every, 1)
    sizes = (checks.whole_number("batch", batch[0], 1), checks.whole_number("batch", batch[1], 1))
    replay, rng = EpisodeReplay(capacity, seed=seed), np.random.default_rng([seed, 1])
    state = agent.init(jax.random.key(replay.seed))
    update, values = jax.jit(agent.update), jax.jit(agent.values)
    actions = np.eye(agent.net.n_outputs, dtype=np.float32)
    unknown = np.zeros(agent.net.n_outputs, np.float32)  # the target policy's weights, which every update fills in
    returns, ends = [], []
    x, total, held, random_action = _observed(agent, environment.reset(seed=replay.seed)[0]), 0.0, 0, 0
    for step in range(checks.whole_number("steps", steps, 1)):
        if held == 0 and rng.random() < explore.probability(step):
            held, random_action = explore.length(rng.random()), int(rng.integers(len(actions)))
        held, random = max(held - 1, 0), held > 0
        action = random_action if random else int(np.argmax(values(state, x[None])[0]))
        after, reward, terminated, truncated, _ = environment.step(action)
        after = _observed(agent, after)
        pair, ahead = np.concatenate([x, actions[action]]), np.concatenate([after, unknown])
        replay.add(pair, float(reward), ahead, gamma=gamma, terminated=terminated, truncated=truncated)
        x, total = after, total + float(reward)
        if terminated or truncated:
            returns.append(total)
            ends.append(step)
            x, total, held = _observed(agent, environment.reset()[0]), 0.0, 0
        if (step + 1) % every == 0 and replay.ready():
            state = update(state, *_two_batches(replay, sizes, swap=rng.random() < 0.5))
    if not state.updates:
        warnings.warn(f"No update was made: {steps} steps do not contain two episodes. Take more steps.", stacklevel=2)
    return Training(agent, state, np.array(returns), np.array(ends))


def _two_batches(replay: EpisodeReplay, sizes: tuple[int, int], swap: bool) -> list[Batch]:
    """Draw both batches. They swap roles in half of the updates, so that every episode is used in both."""
    pair = replay.pair(*(sizes[::-1] if swap else sizes))
    made = [Batch(*(np.asarray(column, np.float32) for column in one)) for one in pair]
    return made[::-1] if swap else made


def _observed(agent: Agent, x: Any) -> Any:
    x = np.asarray(x, np.float32)
    if x.shape != (agent.net.n_inputs,):
        raise InputError(f"the environment's observations need shape ({agent.net.n_inputs},), got {x.shape}.")
    return x
