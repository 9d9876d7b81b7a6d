"""Rows of states and of pairs of them, against rows written down step by step."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from gradtd import InputError
from gradtd.evaluation.designs.base import GIVEN
from gradtd.evaluation.designs.states import States, are_cells, merge_states, state_design, states_of
from gradtd.evaluation.limits import DEFAULT
from gradtd.logs import read_log
from naive.evaluation import walk

OFTEN = replace(DEFAULT, fewest_visits=1)


def test_states_and_pairs_are_counted():
    log = read_log(walk(60, 3, cut=6))
    found = states_of(log)
    seen = log.observations.ravel()[log.row]
    before = [None if t == 0 or log.episode[t] != log.episode[t - 1] else seen[t - 1] for t in range(len(log))]
    assert found.visits.tolist() == [(seen == s).sum() for s in found.values]
    values = [*found.values.tolist(), None]
    for a, b, count in found.pairs.tolist():
        assert count == sum(x == values[a] and y == values[b] for x, y in zip(before, seen, strict=True))
    assert found.pairs[:, 2].sum() == len(log)


def test_states_of_parts_are_those_of_the_whole():
    made = walk(60, 3, cut=6)
    parts = [read_log({k: v[some] for k, v in made.items()}) for some in (made["episode"] < 20, made["episode"] >= 20)]
    whole, found = states_of(read_log(made)), merge_states([states_of(one) for one in parts])
    for one, other in zip(whole, found, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block", [None, 2])
def test_rows_are_those_written_down(sparse, block):
    """Features of the state, 1 for a state seen often, 1 for its pair with the state before."""
    log = read_log(walk(60, 3, cut=6))
    pieces = None if block is None else np.arange(len(log)) // block
    states = states_of(log, pieces)
    S = len(states.values)
    base = np.random.default_rng(0).normal(size=(S, 2))
    if sparse:
        base = np.eye(2)[np.arange(S) % 2]
    design = state_design(states, scipy.sparse.csr_array(base) if sparse else base, 60, limits=OFTEN)
    rows = design.rows(log, pieces)
    assert rows.sparse == sparse
    columns = design.ladder.rungs["with states and pairs"]
    k, p = len(design.ladder.rungs["with a feature per state"]) - 2, len(design.pairs)
    assert p > 0
    often = np.argsort(-states.visits, kind="stable")[:k]
    state = np.searchsorted(states.values, log.observations.ravel())
    cut = log.episode if pieces is None else pieces

    def wanted(before, now):
        pair = (design.pairs == [before, now]).all(axis=1)
        return np.r_[base[now], often == now, pair]

    found, after = rows.at(rows.row)[:, columns], rows.at(rows.next_row)[:, columns]
    for t in range(len(log)):
        now, then = state[log.row[t]], state[log.next_row[t]]
        before = S if t == 0 or cut[t] != cut[t - 1] else state[log.row[t - 1]]
        assert (found[t] == wanted(before, now)).all()
        assert (after[t] == wanted(now, then)).all()


def test_columns_of_fits_with_states_and_pairs():
    """Two columns given, then those of five states, then of so many pairs."""
    states = states_of(read_log(walk(60, 3)))
    design = state_design(states, np.arange(10.0).reshape(5, 2), 60, limits=OFTEN)
    p = len(design.pairs)
    of_states, of_pairs = list(range(2, 7)), list(range(7, 7 + p))
    assert {name: list(columns) for name, columns in design.ladder.sets.items()} == {
        GIVEN: [0, 1],
        "with a feature per state": [0, 1, *of_states],
        "with states and pairs": [0, 1, *of_states, *of_pairs],
        "with half of the states": [0, 1, 2, 3],
        "with a quarter": [0, 1, 2],
        "with pairs of states": [0, 1, *of_pairs],
    }
    assert not design.ladder.complete
    every = state_design(states, np.eye(5), 60, limits=OFTEN)
    assert every.ladder.complete
    assert set(every.ladder.sets) == {GIVEN, "with pairs of states"}


def test_a_pair_of_states_needs_twice_the_visits_of_a_state():
    counts = np.array([[2, 0, 20], [0, 1, 19], [1, 1, 40]])
    states = States(np.arange(2), np.array([20, 59]), counts, np.array([20, 59]))
    assert DEFAULT.fewest_visits == 10
    assert state_design(states, np.ones((2, 1)), 60).pairs.tolist() == [[1, 1], [2, 0]]
    assert [1, 0] not in state_design(states, np.ones((2, 1)), 60, limits=OFTEN).pairs.tolist()
    assert len(state_design(states, np.ones((2, 1)), 60, limits=OFTEN).pairs) == 3


def test_rare_states_share_a_column_where_states_are_many():
    states = states_of(read_log(walk(60, 3)))
    limits = replace(OFTEN, fewest_states=2, pieces_per_state=60, fewest_grouped_states=1)
    ladder = state_design(states, np.eye(5), 60, chosen=True, limits=limits).ladder
    often = np.argsort(-states.visits, kind="stable")
    assert [list(ladder.rungs[name]) for name in list(ladder.rungs)[:2]] == [
        [0, 1 + often[0]],
        [0, *(1 + often[:2])],
    ]
    assert list(ladder.rungs[GIVEN]) == [1, 2, 3, 4, 5]
    assert ladder.headlines[0] == GIVEN


def test_a_state_that_was_not_there_is_refused():
    made = walk(60, 3)
    design = state_design(states_of(read_log(made)), np.eye(5), 60)
    made["obs"] = np.where(made["t"] == 0, 9, made["obs"])
    with pytest.raises(InputError, match="State 9 was not in the log when features were fitted"):
        design.rows(read_log(made))


def test_what_cells_are():
    one = scipy.sparse.csr_array([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
    assert are_cells(one)
    assert not are_cells(one.toarray())
    assert not are_cells(scipy.sparse.csr_array([[1.0, 1.0]]))
