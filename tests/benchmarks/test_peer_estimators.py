"""Estimators that gradtd is compared with: they must be right, or the comparison is worth nothing."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from peer_cases import classic, ours
from peer_cases.worlds import cobs_cells, of_problem
from trust_cases.cobs import constant, graph

T, EPISODES = 4, 4000


@pytest.fixture(scope="module")
def task():
    problem = graph(T, 0.25, False, 0.3)
    both = constant(problem.n_states, 0.6), constant(problem.n_states, 0.8)
    return of_problem("Graph", "test", problem, both, EPISODES)(np.random.default_rng(5))


CONSISTENT = (
    "FQE, tabular",
    "Q-Reg",
    "Retrace",
    "tree backup",
    "IH",
    "IS",
    "WIS",
    "PDIS",
    "WPDIS",
    "DR, FQE",
    "WDR, FQE",
)


def test_estimators_find_the_value_of_a_large_log(task):
    """Standard errors are below .06 here; .2 is more than three of them for each of the 15."""
    found = classic.estimates(task)
    assert set(CONSISTENT) < set(found)
    wrong = {
        name: found[name] for name in (*CONSISTENT, "WDR, MRDR", "MAGIC, FQE") if abs(found[name] - task.truth) > 0.2
    }
    assert not wrong
    assert ours.plain_lstd(task) == pytest.approx(task.truth, abs=0.2)
    assert ours.plain_lstdq(task) == pytest.approx(found["FQE, tabular"], abs=1e-6)


def test_sampling_estimators_equal_their_sums_by_hand(task):
    per_decision = whole = robust = 0.0
    table = classic.fqe(task)
    for begin in task.begins:
        w = 1.0
        for t in range(T):
            k = begin + t
            s, a = int(task.observation[k]), task.action[k]
            before, w = w, w * task.rho[k]
            per_decision += task.gamma**t * w * task.reward[k]
            robust += task.gamma**t * (w * (task.reward[k] - table[s, a]) + before * task.target[k] @ table[s])
        whole += w * task.gamma ** np.arange(T) @ task.reward[begin : begin + T]
    assert classic.importance(True, False)(task) == pytest.approx(per_decision / EPISODES, rel=1e-12)
    assert classic.importance(False, False)(task) == pytest.approx(whole / EPISODES, rel=1e-12)
    assert classic.doubly_robust(task, table, False) == pytest.approx(robust / EPISODES, rel=1e-12)


def test_weights_of_a_blend_are_those_of_least_error():
    x = classic._simplex_weights(np.diag([1.0, 2.0, 4.0]))
    assert x == pytest.approx(np.array([4, 2, 1]) / 7, abs=1e-6)


def test_every_cell_draws_the_same_log_for_a_seed():
    for cell in cobs_cells()[::9]:
        first, second = (cell.make(np.random.default_rng(3)) for _ in range(2))
        assert np.array_equal(first.reward, second.reward)
        assert first.target.sum(1) == pytest.approx(1.0)
