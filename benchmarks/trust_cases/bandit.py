"""Open Bandit: the uniform policy from logs of Thompson sampling, against the log of the uniform policy, and back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from trust_cases.case import Case, as_log


def folder() -> Path:
    """Where obp 0.4.1 keeps its logs."""
    found = find_spec("obp")
    if found is None or found.origin is None:
        raise SystemExit("family bandit needs the package obp: pip install --no-deps obp==0.4.1")
    return Path(found.origin).parent / "dataset" / "obd"


@cache
def table(policy: str, campaign: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    import pandas

    frame = pandas.read_csv(folder() / policy / campaign / f"{campaign}.csv", index_col=0)
    users = frame[[f"user_feature_{k}" for k in range(4)]].apply(lambda c: c.astype("category").cat.codes)
    return (
        frame["click"].to_numpy(float),
        frame["propensity_score"].to_numpy(float),
        np.c_[frame["position"].to_numpy(float), users.to_numpy(float)],
        frame["item_id"].to_numpy(),
    )


def bandit_cases(seed: int, count: int) -> Iterator[Case]:
    """Random parts of the logs, 10 000 rows and less."""
    for campaign, items in (("all", 80), ("men", 34), ("women", 46)):
        for target, log_of in (("random", "bts"), ("bts", "random")):
            clicks, _, _, _ = table(target, campaign)
            truth, error = float(clicks.mean()), float(clicks.std() / np.sqrt(len(clicks)))
            click, chance, context, item = table(log_of, campaign)
            wanted = 1 / items if target == "random" else frequencies(campaign)[context[:, 0].astype(int), item]
            for k in range(count):
                rng = np.random.default_rng([seed, k, items, target == "bts"])
                n = len(click) if k == 0 else int(rng.integers(2000, len(click)))
                keep = np.sort(rng.choice(len(click), n, replace=False))
                at, rho = np.arange(n), (wanted / chance)[keep]
                log = as_log(context[keep][:, 0].astype(int), at, at, click[keep], np.zeros(n), rho, np.arange(n + 1))
                yield Case("bandit", f"{target} from {log_of}, {campaign}", n, None, truth, log, 0.9, error=error)


@cache
def frequencies(campaign: str) -> np.ndarray:
    """How often Thompson sampling showed every item at every position: its policy, over the time of the log."""
    _, _, context, item = table("bts", campaign)
    place = context[:, 0].astype(int)
    counts = np.zeros((place.max() + 1, item.max() + 1))
    np.add.at(counts, (place, item), 1.0)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1.0)
