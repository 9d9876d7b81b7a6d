"""The page's kernel in Node: its weights are Python's to the last bit."""

import numpy as np
import pytest

import gradtd
from gradtd.paper.lab import PROBLEMS
from paper.lab.both import settings

pytestmark = pytest.mark.slow

STEPS, SEED, RUNS = 700, 11, 2
AT = list(range(0, STEPS + 1, 50))


def _job(problem, setting, run=0, **more):
    return {"problem": problem, "setting": setting, "steps": STEPS, "seed": SEED, "run": run, "at": AT, **more}


@pytest.mark.parametrize(
    ("problem", "lam"), [(problem, lam) for k, problem in enumerate(PROBLEMS) for lam in (0.0, (0.4, 0.8)[k % 2])]
)
def test_weights_equal_pythons_byte_for_byte(node, problem, lam):
    jobs, wanted = [], []
    for setting, algorithm, hyper in settings(lam):
        result = gradtd.run(problem, algorithm, runs=RUNS, steps=STEPS, seed=SEED, snapshots=AT, threads=1, **hyper)
        for run in range(RUNS):
            jobs.append(_job(problem, setting, run))
            wanted.append((result.thetas[run].tobytes().hex(), int(result.diverged_at[run])))
    answers = node("weights.mjs", jobs)
    for job, answer, (weights, diverged_at) in zip(jobs, answers, wanted, strict=True):
        assert (answer["hex"], answer["divergedAt"]) == (weights, diverged_at), job["setting"]


def test_a_run_that_diverges_is_frozen_at_the_same_step(node):
    hyper = {"alpha": 300.0, "batch_size": 4}
    result = gradtd.run("baird", "impression_gtd", runs=1, steps=STEPS, seed=SEED, snapshots=AT, threads=1, **hyper)
    assert result.diverged == 1
    setting = {"algorithm": "impression_gtd", "split": "odd-even", **hyper}
    (answer,) = node("weights.mjs", [_job("baird", setting)])
    assert answer["divergedAt"] == result.diverged_at[0]
    assert answer["hex"] == result.thetas[0].tobytes().hex()


def test_buffers_that_never_fill_leave_the_start_weights(node):
    setting = {"algorithm": "impression_gtd", "split": "odd-even", "alpha": 1.0, "batch_size": 500}
    (answer,) = node("weights.mjs", [_job("baird", setting, at=[0, STEPS])])
    found = np.frombuffer(bytes.fromhex(answer["hex"])).reshape(2, -1)
    assert (found == gradtd.PROBLEMS["baird"]().theta0).all()


def test_without_webassembly_the_weights_are_the_same(node):
    setting = {"algorithm": "impression_gtd", "split": "odd-even", "alpha": 0.5, "batch_size": 32}
    job = _job("random_walk_tabular", setting)
    assert node("weights.mjs", [job], "plain") == node("weights.mjs", [job])


def test_seeds_beyond_32_bits(node):
    seed = 2**40 + 7
    result = gradtd.run("boyan_chain", "td", runs=1, steps=100, seed=seed, snapshots=[100], threads=1, alpha=0.1)
    job = _job("boyan_chain", {"algorithm": "td", "alpha": 0.1}, steps=100, seed=seed, at=[100])
    assert node("weights.mjs", [job])[0]["hex"] == result.thetas[0].tobytes().hex()
