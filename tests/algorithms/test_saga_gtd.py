"""SAGA: its table as a ring, a step drawn twice, and no floor of noise on fixed data."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import gradtd
from algorithms.test_algorithms import ALPHA, STREAM, THETA0, T, assert_same, log_of
from gradtd import ALGORITHMS
from gradtd.compiled.plan import record
from gradtd.core.algorithm import Now
from naive import rules as naive

NOBODY = np.zeros(0, np.uint32)


def learned(**settings):
    return gradtd.learn(STREAM, "saga_gtd", alpha=ALPHA, theta0=THETA0, seed=3, snapshots=1, **settings).thetas


@pytest.mark.parametrize("settings", [{"capacity": 20}, {"capacity": 10_000}, {"start": 45}, {"batch_size": 40}])
def test_bounded_tables_late_starts_and_repeated_draws_are_those_of_the_twin(settings):
    settings = {"batch_size": 4} | settings
    log = log_of("saga_gtd", settings)
    twin = naive.TWINS["saga_gtd"](log, THETA0, itertools.repeat(ALPHA), capacity=settings.get("capacity"))
    assert_same(learned(compile=False, **settings), np.array(list(twin)))
    if settings["batch_size"] == 40:
        assert any(len(set(log.first[t])) < 40 for t in np.flatnonzero(log.learns)), "no step is drawn twice"


def test_the_table_has_one_place_a_stored_step():
    init, common = ALGORITHMS["saga_gtd"].init, {"batch_size": 4, "n_steps": 100, "lam": 0.0}
    sizes = [len(init(3, common | {"capacity": capacity})["table"]) for capacity in (None, 20, 500)]
    assert sizes == [100, 20, 100]


@pytest.mark.slow
def test_for_fixed_data_it_has_no_floor():
    """All steps are in the table and nothing new arrives: it goes on to the solution, at a constant step-size."""
    samples = naive.samples_of(STREAM)
    solution = np.linalg.solve(sum(k.A for k in samples), -sum(k.b for k in samples))
    rng, rule = np.random.default_rng(0), ALGORITHMS["saga_gtd"]
    own = rule.init(len(THETA0), {"capacity": None, "batch_size": 8, "n_steps": T, "lam": 0.0})
    state, hyper = record(theta=THETA0.copy(), **own), SimpleNamespace(eta=2.0, lam=0.0)
    for seen in range(1, T + 1):
        rule.observe(state, STREAM.view, Now(np.uint64(seen - 1), 0, seen, 0.1, NOBODY, NOBODY), hyper)
    distances = []
    for _ in range(4):
        for _ in range(1500):
            drawn = rng.integers(0, T, 8, dtype=np.uint32)
            rule.update(state, STREAM.view, Now(np.uint64(T - 1), 0, T, 0.1, drawn, NOBODY), hyper)
        distances.append(np.abs(state.theta - solution).max())
    assert distances[-1] < 1e-6 * np.abs(THETA0 - solution).max()
    assert all(later < earlier for earlier, later in itertools.pairwise(distances))
