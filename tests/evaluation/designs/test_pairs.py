"""Rows of pairs of observations and actions, against rows written down step by step."""

from dataclasses import replace

import numpy as np
import pytest

from gradtd.evaluation.action_values import plan_pairs
from gradtd.evaluation.designs.choices import Chooser
from gradtd.evaluation.designs.pairs import PairDesign, pair_state_design
from gradtd.evaluation.designs.states import state_design, states_of
from gradtd.evaluation.settings import Settings
from gradtd.logs import read_log
from naive.evaluation import real_walk, walk

TARGET = np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6], [0.5, 0.5]])


def choose(seen):
    right = 1 / (1 + np.exp(-np.asarray(seen)[:, 0]))
    return np.c_[1 - right, right]


def explicit(log, inner, chances, index):
    """Rows of steps, of what follows them (what follows an end counts for nothing), and of starts."""
    x, after = inner.at(inner.row), inner.at(inner.next_row)
    now, then = np.eye(2)[log.action], chances[index[log.next_row]]
    first = log.starts
    start = chances[index[log.row[first]]]
    products = ((x, now), (after, then), (x[first], start))
    return [np.einsum("nd,nk->ndk", a, b).reshape(len(a), -1) for a, b in products]


def same(log, rows, wanted, columns):
    goes_on = ~log.terminated
    np.testing.assert_allclose(rows.at(rows.row)[:, columns], wanted[0][:, columns], atol=1e-9)
    np.testing.assert_allclose(rows.at(rows.next_row)[goes_on][:, columns], wanted[1][goes_on][:, columns], atol=1e-9)
    np.testing.assert_allclose(rows.at(rows.starts)[:, columns], wanted[2][:, columns], atol=1e-9)


def test_pairs_of_states_in_memory():
    log = read_log(walk(60, 3, cut=6))
    plan, _ = plan_pairs(log, TARGET, Settings(gamma=0.9, value_function="action", features="identity"))
    rows = plan.design.rows(log)
    inner = plan.design.inner.rows(log)
    wanted = explicit(log, inner, TARGET, np.asarray(log.observations).ravel())
    same(log, rows, wanted, np.arange(rows.n_columns))


def test_pairs_of_states_in_parts_are_those_in_memory():
    log = read_log(walk(60, 3, cut=6))
    inner = state_design(states_of(log), np.random.default_rng(0).normal(size=(5, 2)), 60)
    design = pair_state_design(inner, Chooser(TARGET, None, False, 2))
    rows = design.rows(log)
    wanted = explicit(log, inner.rows(log), TARGET, np.asarray(log.observations).ravel())
    same(log, rows, wanted, np.arange(rows.n_columns))
    never = np.zeros((5, 2), bool)
    never[1, 0] = True
    kept = replace(design, table=design.without(never)).rows(log)
    other = TARGET.copy()
    other[1] = [0, 1]
    same(log, kept, explicit(log, inner.rows(log), other, np.asarray(log.observations).ravel()), np.arange(4))
    visits = np.bincount(rows.row, minlength=rows.n_rows)
    assert not design.never(visits).any()
    assert design.never(np.zeros(rows.n_rows)).all()


@pytest.mark.parametrize("features", ["polynomial", None])
def test_pairs_of_real_observations(features):
    log = read_log(real_walk(60, 3))
    plan, _ = plan_pairs(log, choose, Settings(gamma=0.9, value_function="action", features=features))
    inner = plan.design.inner
    wanted = explicit(log, inner.rows(log), choose(log.observations), np.arange(len(log.observations)))
    rows = plan.design.rows(log)
    same(log, rows, wanted, np.arange(rows.n_columns))
    chunk = PairDesign(plan.design.ladder, inner, Chooser(choose, None, False, 2).choices).rows(log)
    same(log, chunk, wanted, np.arange(rows.n_columns))
