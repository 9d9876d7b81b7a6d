"""Runs in the environment of the peers: writes a log of a world that comes with SCOPE-RL or obp.

    python their_worlds.py BasicGym LOG.npz --episodes 300 --seed 1 --truths FOLDER

Needs nothing of gradtd. The file has the columns of `peer_cases.task.Task`, and the truth with its standard error.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROLLOUTS = 10_000
Columns = dict[str, Any]


def softmax(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Of linear scores of the direction of x; a tenth is uniform."""
    z = np.exp(x / np.linalg.norm(x, axis=1, keepdims=True) @ scores)
    return 0.9 * z / z.sum(1, keepdims=True) + 0.1 / z.shape[1]


def environment(world: str, seed: int) -> Any:
    """As SCOPE-RL registers it; ``seed`` is that of the roll-outs, not of the world."""
    if world == "BasicGym":
        from basicgym.envs.synthetic import BasicEnv

        made = BasicEnv(action_type="discrete", random_state=12345)
    else:
        from recgym.envs.rec import RECEnv

        made = RECEnv(random_state=12345)
    made.reset(seed=seed)
    return made


def play(world: str, scores: np.ndarray, episodes: int, seed: int) -> Columns:
    """Whole episodes. The environment resets itself, so the observation after the last step is not of this episode."""
    env, rng = environment(world, seed), np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for episode in range(episodes):
        seen, over = env.reset()[0], False
        while not over:
            law = softmax(seen[None], scores)[0]
            action = int(rng.choice(len(law), p=law))
            after, reward, over, *_ = env.step(action)
            rows.append((seen, seen if over else after, action, float(reward), bool(over), episode))
            seen = after
    names = ("observation", "next_observation", "action", "reward", "terminated", "episode")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def scope_rl(world: str, episodes: int, seed: int, truths: Path) -> Columns:
    """Behaviour and target are softmax policies; the truth comes from roll-outs of the target, discount 1."""
    env, fixed = environment(world, 0), np.random.default_rng(17)
    behaviour, other = (1.5 * fixed.normal(size=(env.observation_space.shape[0], env.action_space.n)) for _ in (0, 1))
    target = 0.5 * (behaviour + other)
    log = play(world, behaviour, episodes, seed)
    log["behaviour"], log["target"] = (softmax(log["observation"], scores) for scores in (behaviour, target))
    log["next_target"] = softmax(log["next_observation"], target)
    path = truths / f"truth-{world}.npy"
    if not path.exists():
        found = play(world, target, ROLLOUTS, 987)
        returns = np.bincount(found["episode"], found["reward"])
        np.save(path, [returns.mean(), returns.std() / np.sqrt(ROLLOUTS)])
    truth, error = np.load(path)
    return {**log, "truth": truth, "error": error}


def open_bandit(campaign: str) -> Columns:
    """The sample of the uniform policy's log that comes with obp; target: Thompson sampling as in production.

    Context: the four features of a user, one-hot as in obp's own examples, and the position. obp's reader of these
    tables fails with a current pandas. The truth is the share of clicks in the log of the target, which is a sample of
    10,000 rounds, too.
    """
    from obp.policy import BernoulliTS

    log, other = _rounds("random", campaign), _rounds("bts", campaign)
    action, position = log["item_id"].astype(int), log["position"].astype(int) - 1
    n, n_actions = len(action), int(action.max()) + 1
    policy = BernoulliTS(n_actions, len_list=3, is_zozotown_prior=True, campaign=campaign, random_state=0)
    target = policy.compute_batch_action_dist(n_sim=100_000, n_rounds=1)[0].T[position]
    users = [log[f"user_feature_{j}"] for j in range(4)]
    seen = np.column_stack([np.eye(3)[position], *(u[:, None] == np.unique(u)[1:] for u in users)]).astype(float)
    columns = {"observation": seen, "next_observation": seen, "action": action, "reward": log["click"].astype(float)}
    columns |= {"terminated": np.ones(n, bool), "episode": np.arange(n)}
    columns |= {"behaviour": np.full((n, n_actions), 1 / n_actions), "target": target, "next_target": target}
    clicks = other["click"].astype(float)
    return {**columns, "truth": clicks.mean(), "error": clicks.std() / np.sqrt(len(clicks))}


def _rounds(policy: str, campaign: str) -> dict[str, np.ndarray]:
    import obp

    path = Path(obp.__file__).parent / "dataset" / "obd" / policy / campaign / f"{campaign}.csv"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("world")
    parser.add_argument("out")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--truths", type=Path, default=Path())
    given = parser.parse_args()
    if given.world in ("BasicGym", "RecGym"):
        made = scope_rl(given.world, given.episodes, given.seed, given.truths)
    else:
        made = open_bandit(given.world)
    np.savez(given.out, **made)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
