"""How often are faults of a log named, and how often are sound logs?

    python benchmarks/trust_faults.py --logs 200

Sound logs are random problems with discrete and real observations. Each fault is put into a third of them. A fault is
named, or a check refuses the log for what the fault did to it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradtd import Machine, evaluate
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.report.log_faults import look_for_faults
from gradtd.logs import Log

sys.path.insert(0, str(Path(__file__).parent))

from trust_cases import finite, hiding, systems
from trust_cases.case import Case

SEED = 14_000_000


def sound(count: int) -> Iterator[Case]:
    """Cases of three families in turn; nothing is hidden in them."""
    shown = (case for case in hiding.looks_cases(SEED, 3 * count) if case.cell == "nothing")
    families = [finite.finite_cases(SEED, count), systems.system_cases(SEED, count), shown]
    for k in range(count):
        yield next(families[k % 3])


def named(log: Log) -> set[str]:
    """The faults that are found. The influences of episodes add to the test of a drift; here they are left out."""
    begins = np.r_[log.starts, len(log)]
    told = look_for_faults(log, begins, np.zeros(len(begins) - 1))
    found = {"drift"} if abs(told.get("drift", 0.0)) > DEFAULT.most_drift else set()
    found |= {"late"} if told.get("rewards_late") or told.get("first_rewards_none") else set()
    return found | ({"twice"} if told.get("repeated", 0.0) > DEFAULT.most_repeated else set())


def refused(case: Case, log: Log) -> bool:
    """Whether the log is not usable when it is evaluated."""
    policies = {} if case.target is None else {"target": case.target, "behaviour": case.behaviour}
    how: dict[str, Any] = {"features": case.features, "machine": Machine(threads=1), "progress": False}
    return evaluate(log, gamma=case.gamma, **policies, **how).verdict != "usable"


def drifting(log: Log) -> Log:
    return replace(log, reward=log.reward + 2 * log.reward.std() * log.episode / max(log.episode.max(), 1))


def late(log: Log) -> Log:
    reward = np.r_[0.0, log.reward[:-1]]
    reward[log.starts] = 0.0
    return replace(log, reward=reward)


def shifted(log: Log) -> Log:
    return replace(log, reward=np.roll(log.reward, 1))


def twice(log: Log, share: float = 1.0) -> Log:
    begins = np.r_[log.starts, len(log)]
    episodes = len(begins) - 1
    n = int(begins[int(share * episodes)])
    index = np.r_[np.arange(len(log)), np.arange(n)]
    arrays = ("row", "next_row", "reward", "terminated", "truncated", "rho", "action")
    again = {name: None if getattr(log, name) is None else getattr(log, name)[index] for name in arrays}
    return replace(log, episode=np.r_[log.episode, log.episode[:n] + episodes], **again)


FAULTS: dict[str, tuple[Callable[[Log], Log], str]] = {
    "rewards rise by two deviations": (drifting, "drift"),
    "rewards one row late": (late, "late"),
    "the column of rewards shifted by a row": (shifted, "late"),
    "every episode twice": (twice, "twice"),
    "a fifth of the episodes twice": (lambda log: twice(log, 0.2), "twice"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    cases = list(sound(parser.parse_args().logs))
    alarms = Counter(fault for case in cases for fault in named(case.log))
    print(f"{len(cases)} sound logs: {dict(alarms) or 'nothing named'}", flush=True)
    some = cases[: max(len(cases) // 3, 1)]
    print(f"of {len(some)}, not usable when evaluated: {sum(refused(case, case.log) for case in some)}", flush=True)
    for name, (broken, word) in FAULTS.items():
        logs = [broken(case.log) for case in some]
        told = [word in named(log) for log in logs]
        or_refused = sum(one or refused(case, log) for one, case, log in zip(told, some, logs, strict=True))
        print(f"{name}: {sum(told)} of {len(some)} named, {or_refused} named or not usable", flush=True)


if __name__ == "__main__":
    main()
