"""Collect logs from a Gymnasium environment, and compute a policy's true value by running it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.progress import Progress
from gradtd.logs.log import Log, row_numbers
from gradtd.logs.policies import GivenPolicy, Policy, as_policy, observation_chunks


class World(NamedTuple):
    """An environment and how to read its observations."""

    env: Any
    name: str
    discrete: bool
    width: int
    n_actions: int
    first_action: int
    mine: bool  # created by gradtd, so closed by gradtd


def collect(
    env: Any,
    behaviour: GivenPolicy,
    episodes: int,
    *,
    target: GivenPolicy | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    progress: Progress | None = None,
) -> Log:
    """Run the behaviour policy in a Gymnasium environment and log every step.

    Actions must be Discrete. Observations are flattened; parts of a Tuple or Dict are concatenated. The same seed gives
    the same log.

    Parameters
    ----------
    env
        A Gymnasium environment, or the id of one.
    behaviour
        The policy that acts: a function policy(observations) that returns probabilities (n, actions), a table [states,
        actions] for Discrete observations, or "uniform".
    episodes
        Number of episodes to run.
    target
        A second policy. Its probabilities of the actions taken are logged, too.
    seed
        Seed of the environment and of the policy's random actions.
    max_steps
        An episode is truncated after this number of steps.
    progress
        A function ``progress(done, total)``, called after each episode.
    """
    checks.whole_number("episodes", episodes, 1)
    world = open_world(env)
    act = as_policy("behaviour", behaviour, world.n_actions, world.discrete)
    wanted = None if target is None else as_policy("target", target, world.n_actions, world.discrete)
    recorder = _Recorder(world)
    try:
        _run(world, act, episodes, seed, max_steps, recorder, progress)
    finally:
        if world.mine:
            world.env.close()
    return recorder.log(wanted)


def rollout_value(
    env: Any, policy: GivenPolicy, episodes: int, gamma: float, seed: int = 0, *, max_steps: int | None = None
) -> tuple[float, float]:
    """The mean discounted return of a policy from the environment's start, and its standard error.

    It is computed by Monte Carlo simulation and can be compared with an estimate. Rewards after a truncation are not
    counted.

    Parameters
    ----------
    env
        A Gymnasium environment, or the id of one.
    policy
        The policy, in the forms of `gradtd.collect`.
    episodes
        Number of episodes to run, at least 2.
    gamma
        The discount factor, 0 to 1.
    seed
        Seed of the environment and of the policy's random actions.
    max_steps
        An episode is truncated after this number of steps.
    """
    checks.whole_number("episodes", episodes, 2)
    discount = checks.fraction("gamma", gamma)
    world = open_world(env)
    act = as_policy("policy", policy, world.n_actions, world.discrete)
    returns = _Returns(discount)
    try:
        _run(world, act, episodes, seed, max_steps, returns, None)
    finally:
        if world.mine:
            world.env.close()
    values = np.array(returns.values)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def open_world(env: Any) -> World:
    """The environment itself, or a new one with this id. Refuses spaces that cannot be logged."""
    try:
        import gymnasium
    except ImportError:
        raise InputError("running an environment needs Gymnasium: pip install gradtd[gymnasium].") from None
    mine = isinstance(env, str)
    if mine:
        try:
            env = gymnasium.make(env)
        except gymnasium.error.Error as error:
            gist = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"Gymnasium cannot make the environment {env!r}: {gist}.") from None
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"env must be a Gymnasium environment or the id of one, got {type(env).__name__}.")
    spaces = gymnasium.spaces
    seen, acts = env.observation_space, env.action_space
    if not isinstance(acts, spaces.Discrete):
        raise InputError(f"the environment's actions must be Discrete, got {acts}.")
    width = _width(seen, spaces)
    if width is None:
        raise InputError(
            f"the environment's observations must be Box, Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of "
            f"them, got {seen}: wrap it in gymnasium.wrappers.FlattenObservation."
        )
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    discrete = isinstance(seen, spaces.Discrete)
    return World(env, name, discrete, width, int(acts.n), int(acts.start), mine)


def _width(space: Any, spaces: Any) -> int | None:
    """The length of a flattened observation of this space, or None if it is not numeric."""
    if isinstance(space, spaces.Discrete):
        return 1
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return int(np.prod(space.shape))
    if not isinstance(space, (spaces.Tuple, spaces.Dict)):
        return None
    parts = [_width(part, spaces) for part in (space.values() if isinstance(space, spaces.Dict) else space)]
    return None if None in parts else sum(part for part in parts if part is not None)


def _numbers(seen: Any) -> list[float]:
    """An observation flattened to numbers."""
    if isinstance(seen, (tuple, dict)):
        return [number for part in (seen.values() if isinstance(seen, dict) else seen) for number in _numbers(part)]
    return [float(number) for number in np.ravel(seen)]


class _Returns:
    """Computes one discounted return per episode."""

    def __init__(self, gamma: float) -> None:
        self.gamma, self.weight, self.values = gamma, 1.0, list[float]()

    def begin(self) -> None:
        self.weight = 1.0
        self.values.append(0.0)

    def step(
        self, seen: Any, action: int, chance: float, reward: float, after: Any, terminated: bool, truncated: bool
    ) -> None:
        self.values[-1] += self.weight * reward
        self.weight *= self.gamma


class _Recorder:
    """Records steps as they happen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[Any] = []
        self.numbers: list[tuple[int, float, float, bool, bool, int]] = []
        self.ends: list[Any] = []
        self.episode = -1

    def begin(self) -> None:
        self.episode += 1

    def step(
        self, seen: Any, action: int, chance: float, reward: float, after: Any, terminated: bool, truncated: bool
    ) -> None:
        self.seen.append(seen)
        self.numbers.append((action, chance, reward, terminated, truncated and not terminated, self.episode))
        if terminated or truncated:
            self.ends.append(after)

    def log(self, target: Policy | None) -> Log:
        n = len(self.seen)
        kind = np.int64 if self.world.discrete else np.float64
        observations = np.array(self.seen + self.ends, dtype=kind)
        action, chance, reward, terminated, truncated, episode = map(np.array, zip(*self.numbers, strict=True))
        next_row = row_numbers(n + len(self.ends))[1 : n + 1].copy()
        next_row[np.flatnonzero(terminated | truncated)] = np.arange(n, n + len(self.ends))
        row = row_numbers(n)
        names = ("observation",) if self.world.discrete else tuple(map(str, range(self.world.width)))
        return Log(
            observations=observations,
            row=row,
            next_row=next_row,
            reward=reward.astype(np.float64),
            terminated=terminated.astype(bool),
            truncated=truncated.astype(bool),
            episode=episode.astype(np.int64),
            action=action.astype(np.int64),
            behaviour=chance.astype(np.float64),
            target=None if target is None else _chances(target, observations, row, action),
            observation_names=names,
            name=self.world.name,
        )


def _chances(policy: Policy, observations: NDArray[Any], row: NDArray[Any], action: NDArray[Any]) -> Floats:
    """The probability of each action taken."""
    chance = np.empty(len(row))
    for at, seen in observation_chunks(observations, row):
        chance[at] = policy(seen)[np.arange(len(seen)), action[at]]
    return chance


def _run(
    world: World,
    act: Policy,
    episodes: int,
    seed: int,
    max_steps: int | None,
    listener: _Recorder | _Returns,
    progress: Progress | None,
) -> None:
    """Run the policy. The environment is seeded once; the policy's random actions have a separate seed."""
    checks.whole_number("seed", seed, 0)
    limit = None if max_steps is None else checks.whole_number("max_steps", max_steps, 1)
    dice = np.random.default_rng([seed, 1])
    for episode in range(episodes):
        seen, _ = world.env.reset(seed=seed) if episode == 0 else world.env.reset()
        now = observed(world, seen)
        listener.begin()
        over, t = False, 0
        while not over:
            chances = act(np.array([now]))[0]
            summed = np.cumsum(chances)
            action = int(np.searchsorted(summed, dice.random() * summed[-1], "right"))
            seen, reward, terminated, truncated, _ = world.env.step(action + world.first_action)
            after, t = observed(world, seen), t + 1
            truncated = bool(truncated) or t == limit
            listener.step(now, action, float(chances[action]), float(reward), after, bool(terminated), truncated)
            now, over = after, bool(terminated) or truncated
        if progress is not None:
            progress(episode + 1, episodes)


def observed(world: World, seen: Any) -> Any:
    """An observation in the form of a log: one number, or a row of numbers."""
    if isinstance(seen, (tuple, dict)):
        return np.array(_numbers(seen))
    return int(seen) if world.discrete else np.asarray(seen, np.float64).reshape(-1)
