"""Why `evaluate` draws both batches from the whole log: the error of Impression GTD with one and with two buffers.

    python benchmarks/whole_log.py

RMSE of the value of the start states over LSTD's on the same logs, 40 logs of 200 episodes, and the mean distance from
LSTD in standard deviations. Features are whitened, steps automatic, 20 000 updates with batches of 32, buffers full.
"""

from __future__ import annotations

import numpy as np

import gradtd
from gradtd.evaluation.designs.log_features import make_log_features
from gradtd.evaluation.estimators.methods import make_case
from gradtd.evaluation.estimators.rule_fits import fit_rule
from gradtd.evaluation.settings import Settings

SPLITS = {
    "one buffer": {"split": "none"},
    "halves, one direction": {"split": "odd-even"},
    "halves, both directions": {"split": "odd-even", "directions": "averaged"},
    "episodes dealt anew": {"split": "episode-index"},
}
PROBLEMS = ("boyan_chain", "random_walk_tabular", "random_walk_dependent")
LOGS, EPISODES = 40, 200


def main() -> None:
    print("| problem | " + " | ".join(SPLITS) + " |")
    for name in PROBLEMS:
        problem = gradtd.PROBLEMS[name]()
        truth = gradtd.true_value(problem)[1]
        values = {label: np.empty(LOGS) for label in (*SPLITS, "lstd")}
        for run in range(LOGS):
            log = gradtd.sample_log(problem, EPISODES, seed=7, run=run)
            ready = make_log_features(log, lambda states, table=problem.features: table[states.astype(int)], None)
            stream = ready.stream(log.rho, problem.gamma)
            case = make_case(stream, Settings(gamma=problem.gamma, algorithm="lstd", resamples=0))
            values["lstd"][run] = case.square.value
            for label, hyper in SPLITS.items():
                found = fit_rule(
                    stream, "impression_gtd", hyper, start=case.mean_start, near=case.square.value, error=case.error,
                    seed=run, updates=20_000,
                )  # fmt: skip
                values[label][run] = case.mean_start @ found.theta
        base = np.sqrt(((values["lstd"] - truth) ** 2).mean())
        cells = []
        for label in SPLITS:
            rmse = np.sqrt(((values[label] - truth) ** 2).mean())
            away = np.abs(values[label] - values["lstd"]).mean() / values["lstd"].std()
            cells.append(f"{rmse / base:.2f}, {away:.2f} away")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
