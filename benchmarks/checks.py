"""What the checks of a stream cost, against learning from it: one million steps.

    python benchmarks/checks.py [--steps 1000000]

Times are the least of several, in processor time of one thread.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import gradtd
from gradtd.core.stream_arrays import copied_steps, trusted_features, trusted_steps


def least(work: Callable[[], object], times: int = 7) -> float:
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    given = parser.parse_args()
    stream = gradtd.sample("boyan_chain", given.steps)
    steps = np.asarray(stream.steps.copy())
    table = trusted_features(stream.features)
    learning = {}
    for name, hyper in (("td", {"alpha": 0.1}), ("impression_gtd", {"alpha": 1.0})):
        gradtd.learn(stream, name, **hyper)
        learning[name] = least(lambda name=name, hyper=hyper: gradtd.learn(stream, name, **hyper), 3)
    checks = {
        "by learn: none, the stream was checked when it was made": least(lambda: stream.view),
        "by sample and evaluate: the highest row is known": least(lambda: trusted_steps(steps, table, 5)),
        "rows of records that somebody made": least(lambda: trusted_steps(steps, table)),
        "everything of records that somebody made, with their copy": least(lambda: copied_steps(steps, None)),
    }
    for name, seconds in learning.items():
        print(f"learn with {name}: {1e3 * seconds:.1f} ms for {given.steps} steps")
    for what, seconds in checks.items():
        shares = ", ".join(f"{100 * seconds / of:.2f} % of {name}" for name, of in learning.items())
        print(f"{what}: {1e3 * seconds:.3f} ms ({shares})")


if __name__ == "__main__":
    main()
