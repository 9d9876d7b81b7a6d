"""Runs in the environment of the peers: reads logs, prints one line of JSON for each log and estimator.

    echo LOG.npz | python their_side.py [--fqe UPDATES]

Takes the paths of logs line by line, and says "end" after each. Needs nothing of gradtd. A library that cannot be
imported gives one line with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cost import measured

RESAMPLES = 1000


def d3rlpy_fqe(z: dict[str, np.ndarray], updates: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """DiscreteFQE with its default network; its target policy is given as samples of the next action."""
    import d3rlpy
    import torch
    from d3rlpy.ope import DiscreteFQE, FQEConfig

    d3rlpy.seed(0)
    torch.set_num_threads(1)
    seen = z["observation"].astype(np.float32)
    laws = dict(zip((row.tobytes() for row in z["next_observation"].astype(np.float32)), z["next_target"], strict=True))
    n_actions = z["target"].shape[1]
    flat = np.full(n_actions, 1 / n_actions)
    rng = np.random.default_rng(0)

    class Target:
        def predict_best_action(self, x: Any) -> Any:
            law = np.array([laws.get(row.tobytes(), flat) for row in x.numpy()])
            return torch.tensor((rng.random((len(law), 1)) > law.cumsum(1)).sum(1).clip(0, n_actions - 1))

    def fit() -> float:
        last = np.r_[z["episode"][1:] != z["episode"][:-1], True]
        dataset = d3rlpy.dataset.MDPDataset(
            observations=seen,
            actions=z["action"].astype(np.int64),
            rewards=z["reward"].astype(np.float32),
            terminals=z["terminated"].astype(np.float32),
            timeouts=(last & ~z["terminated"]).astype(np.float32),
            action_space=d3rlpy.ActionSpace.DISCRETE,
            action_size=n_actions,
        )
        policy = d3rlpy.algos.DQNConfig().create()
        policy.build_with_dataset(dataset)
        fqe = DiscreteFQE(algo=policy, config=FQEConfig(gamma=float(z["gamma"]), learning_rate=3e-4))
        fqe.build_with_dataset(dataset)
        assert fqe.impl is not None
        fqe.impl._algo = Target()
        fqe.fit(
            dataset,
            n_steps=updates,
            n_steps_per_epoch=updates,
            show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        )
        columns = [fqe.predict_value(seen, np.full(len(seen), a)) for a in range(n_actions)]
        z["q"] = np.stack(columns, 1).astype(float)
        first = np.r_[True, z["episode"][1:] != z["episode"][:-1]]
        return float((z["q"] * z["target"]).sum(1)[first].mean())

    yield f"d3rlpy FQE, {updates} updates", fit


def padded(z: dict[str, np.ndarray]) -> dict[str, Any]:
    """What SCOPE-RL takes: episodes of one length. Rows after an end have reward 0 and ratio 1."""
    begins = np.flatnonzero(np.r_[True, z["episode"][1:] != z["episode"][:-1]])
    lengths = np.diff(np.r_[begins, len(z["episode"])])
    long, n_actions = int(lengths.max()), z["target"].shape[1]
    where = np.repeat(np.arange(len(begins)) * long - begins, lengths) + np.arange(len(z["episode"]))
    n = len(begins) * long

    def spread(column: np.ndarray, fill: float) -> np.ndarray:
        out = np.full((n, *column.shape[1:]), fill, column.dtype)
        out[where] = column
        return out

    rows = np.arange(len(z["action"]))
    given = {
        "step_per_trajectory": long,
        "action": spread(z["action"].astype(int), 0),
        "reward": spread(z["reward"].astype(float), 0.0),
        "pscore": spread(z["behaviour"][rows, z["action"]], 1 / n_actions),
        "evaluation_policy_action_dist": spread(z["target"], 1 / n_actions),
        "gamma": float(z["gamma"]),
    }
    if "q" in z:
        given["state_action_value_prediction"] = spread(z["q"], 0.0)
        first = z["q"][begins]
        given["initial_state_value_prediction"] = (first * z["target"][begins]).sum(1)
    return given


def scope_rl(z: dict[str, np.ndarray]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """SCOPE-RL's basic estimators with their bootstrap intervals; those that need Q take that of d3rlpy's FQE."""
    from scope_rl.ope.discrete import basic_estimators as theirs

    given = padded(z)
    names = ["TrajectoryWiseImportanceSampling", "PerDecisionImportanceSampling", "SelfNormalizedTIS"]
    names += ["SelfNormalizedPDIS"] + (["DirectMethod", "DoublyRobust", "SelfNormalizedDR"] if "q" in z else [])
    for name in names:
        estimator = getattr(theirs, name)()

        def both(estimator: Any = estimator) -> tuple[float, Any]:
            value = estimator.estimate_policy_value(**given)
            return value, estimator.estimate_interval(**given, n_bootstrap_samples=RESAMPLES, random_state=0)

        yield f"SCOPE-RL {estimator.estimator_name}", both


def obp(z: dict[str, np.ndarray]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """obp's estimators for logs of one step, with a ridge regression as reward model, fitted across folds."""
    from obp import ope as theirs
    from obp.ope import RegressionModel
    from sklearn.linear_model import Ridge

    n, n_actions = len(z["action"]), z["target"].shape[1]
    rows = np.arange(n)
    pscore = z["behaviour"][rows, z["action"]]
    model = RegressionModel(n_actions=n_actions, len_list=1, base_model=Ridge(1.0), action_context=np.eye(n_actions))
    fitted = model.fit_predict(
        context=z["observation"].reshape(n, -1),
        action=z["action"].astype(int),
        reward=z["reward"],
        pscore=pscore,
        n_folds=3,
        random_state=0,
    )
    given = {
        "reward": z["reward"],
        "action": z["action"].astype(int),
        "pscore": pscore,
        "action_dist": z["target"][:, :, None],
        "estimated_rewards_by_reg_model": fitted,
        "position": np.zeros(n, int),
    }
    for make in (theirs.InverseProbabilityWeighting, theirs.SelfNormalizedInverseProbabilityWeighting):
        yield f"obp {make.estimator_name}", partial(_obp, make(), given)
    for make in (theirs.DirectMethod, theirs.DoublyRobust):
        yield f"obp {make.estimator_name}", partial(_obp, make(), given)


def _obp(estimator: Any, given: dict[str, Any]) -> tuple[float, Any]:
    found = estimator.estimate_interval(**given, n_bootstrap_samples=RESAMPLES, random_state=0)
    return estimator.estimate_policy_value(**given), found


def vw_estimators(z: dict[str, np.ndarray]) -> Iterator[tuple[str, Callable[[], Any]]]:
    from estimators.bandits import cressieread, snips

    rows = np.arange(len(z["action"]))
    pairs = list(zip(z["behaviour"][rows, z["action"]], z["reward"], z["target"][rows, z["action"]], strict=True))
    low, high = float(z["reward"].min()), float(z["reward"].max())

    def run(make: Callable[[], Any]) -> Any:
        estimator = make()
        for p_log, r, p_pred in pairs:
            estimator.add_example(float(p_log), float(r), float(p_pred))
        return estimator.get()

    yield "vw-estimators snips", lambda: run(snips.Estimator)

    def cressie_read() -> tuple[float, Any]:
        value = run(cressieread.Estimator)
        ends = run(lambda: cressieread.Interval(rmin=low, rmax=high))
        return value, {"low": ends[0], "high": ends[1]}

    yield "vw-estimators Cressie-Read", cressie_read


def ends_of(interval: Any) -> tuple[float | None, float | None]:
    """The two ends, whatever the library calls them."""
    if interval is None:
        return None, None
    low = next((v for k, v in interval.items() if "lower" in k or k == "low"), None)
    high = next((v for k, v in interval.items() if "upper" in k or k == "high"), None)
    return (None if low is None else float(low)), (None if high is None else float(high))


def libraries_for(z: dict[str, np.ndarray], updates: int) -> dict[str, Callable[[], Iterator[tuple[str, Any]]]]:
    bandit = bool(np.all(np.diff(z["episode"]) != 0))
    found: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {}
    if updates:
        found["d3rlpy"] = lambda: d3rlpy_fqe(z, updates)
    found["SCOPE-RL"] = lambda: scope_rl(z)
    if bandit:
        found |= {"obp": lambda: obp(z), "vw-estimators": lambda: vw_estimators(z)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fqe", type=int, default=0)
    given = parser.parse_args()
    for path in map(str.strip, sys.stdin):
        for library, estimators in libraries_for(dict(np.load(path)), given.fqe).items():
            try:
                for name, run in estimators():
                    found, cost = measured(run)
                    value, interval = found if isinstance(found, tuple) else (found, None)
                    low, high = ends_of(interval)
                    print(json.dumps({"name": name, "value": value, "low": low, "high": high, **cost}), flush=True)
            except Exception as error:  # a peer that cannot be run is a row of the table, not the end of it
                failed = f"{type(error).__name__}: {error}"[:200]
                print(json.dumps({"name": library, "failed": failed}), flush=True)
        print("end", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
