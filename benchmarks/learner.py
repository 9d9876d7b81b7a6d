"""What a step costs a learner: python benchmarks/learner.py

Processor time, which other programs disturb least; for the threads of a horde, time on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import gradtd

STEPS = 50_000


def _steps(n_features: int) -> gradtd.Stream:
    rng = np.random.default_rng(0)
    return gradtd.Stream.from_arrays(
        features=rng.normal(size=(STEPS + 1, n_features)) / np.sqrt(n_features),
        row=np.arange(STEPS),
        next_row=np.arange(1, STEPS + 1),
        reward=rng.normal(size=STEPS),
        discount=np.where(np.arange(STEPS) % 20 == 19, 0.0, 0.9),
        rho=rng.random(STEPS) * 2,
        episode=np.arange(STEPS) // 20,
    )


def _updates(learner: gradtd.Learner, stream: gradtd.Stream, asked: bool, steps: int) -> float:
    """Microseconds a step, by update, asked for a value after every step or not."""
    rows = [stream.features[i] for i in range(steps + 1)]
    columns = [stream.steps[name][:steps].tolist() for name in ("reward", "rho", "discount")]
    begin = time.process_time()
    for t, (reward, rho, discount) in enumerate(zip(*columns, strict=True)):
        learner.update(rows[t], reward, rows[t + 1], rho, discount)
        if asked:
            learner.predict(rows[t])
    learner.theta  # noqa: B018 (works off the queue)
    return (time.process_time() - begin) / steps * 1e6


def _whole(run: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    begin = clock()
    run()
    return (clock() - begin) / STEPS * 1e6


def main() -> None:
    print("microseconds a step: update | update and predict | partial_fit | gradtd.learn")
    for name, hyper in (("td", {"alpha": 0.01}), ("tdrc", {"alpha": 0.01}), ("impression_gtd", {})):
        for n_features in (5, 100):
            stream = _steps(n_features)
            bounded = {"capacity": 10_000} if name == "impression_gtd" else {}

            def new(name: str = name, n: int = n_features, hyper: dict[str, float] = hyper) -> gradtd.Learner:
                return gradtd.Learner(n, name, capacity=10_000, **hyper)

            _updates(new(), stream, True, 300)  # compiles
            times = (
                min(_updates(new(), stream, False, STEPS) for _ in range(3)),
                min(_updates(new(), stream, True, 5000) for _ in range(3)),
                min(_whole(lambda s=stream, f=new: f().partial_fit(s).theta) for _ in range(3)),
                min(_whole(lambda s=stream, n=name, h=hyper | bounded: gradtd.learn(s, n, **h)) for _ in range(3)),
            )
            print(f"{name}, {n_features} features:", " | ".join(f"{t:.2f}" for t in times))
    _horde()


def _horde() -> None:
    stream = _steps(100)
    names = [f"demon {i}" for i in range(8)]
    for threads in (1, 2):
        took = min(
            _whole(
                lambda n=threads: gradtd.Horde(100, names, capacity=10_000, threads=n).partial_fit(stream).theta,
                time.perf_counter,
            )
            for _ in range(3)
        )
        print(f"a horde of 8, impression_gtd, 100 features, {threads} threads: {took / 8:.2f} a step and demon")


if __name__ == "__main__":
    main()
