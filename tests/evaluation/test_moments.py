"""Sums of dense rows: by loops over steps, by groups, with traces, from counts of rows."""

from dataclasses import replace

import numpy as np
import pytest

from gradtd.evaluation.checks import products
from gradtd.evaluation.designs.base import CHUNK
from gradtd.evaluation.designs.log_features import NO_CLOCK
from gradtd.evaluation.moments import Moments, group_edges, read_moments, shape_of, tenth_of
from naive import checks
from naive.evaluation import real_walk, walk

EQUATIONS = {"A", "b", "traced_A", "traced_b", "robust", "to", "back", "own", "time_b"}
"""The parts of one matrix of products."""


def summed(steps, ladder, group, lam, clock, weights=None):
    total = Moments.zeros(int(group.max()) + 1, shape_of(ladder, clock))
    read_moments(total, steps, group, lam, clock, weights)
    return total


@pytest.mark.parametrize("groups", [3, 25])
@pytest.mark.parametrize("lam", [0.0, 0.6])
@pytest.mark.parametrize("make", [walk, real_walk])
def test_all_sums_are_those_of_a_loop(make, lam, groups):
    """Few groups are read one by one, many in one go; with their own traces (lam) and without."""
    made = make(60, 3, **({"cut": 6} if make is walk else {}))
    design, steps = checks.planned(made, "one-hot" if make is walk else "polynomial", lam=lam)
    group = np.sort(np.arange(steps.n_pieces) % groups)
    clock = NO_CLOCK if lam else checks.clock_for(steps)  # there is no time beside traces that are asked for
    weights = products(steps.rho, steps.discount, steps.begins)
    found = summed(steps, design.ladder, group, 0.5, clock, weights)
    wanted = checks.moments(steps, group, groups, 0.5, design.ladder.n_headline_columns, clock, weights)
    assert set(wanted) == set(found.arrays()) - {"products"} | EQUATIONS
    for name, array in wanted.items():
        np.testing.assert_allclose(getattr(found, name), array, rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_piece_that_is_longer_than_a_chunk_is_one_piece():
    """Rows are made 2048 steps at a time; traces and the time run on from one chunk to the next."""
    rng, lengths = np.random.default_rng(0), [2300, 40, 260]
    n = sum(lengths)
    assert lengths[0] > CHUNK > lengths[1]
    columns = {"episode": np.repeat(np.arange(3), lengths), "obs_0": rng.normal(size=n), "reward": rng.normal(size=n)}
    log = columns | {"terminated": np.isin(np.arange(n), np.cumsum(lengths) - 1)}
    design, steps = checks.planned(log, "polynomial", rho=rng.choice([0.5, 1.5], n))
    clock, weights = checks.clock_for(steps), products(steps.rho, steps.discount, steps.begins)
    found = summed(steps, design.ladder, np.arange(3), 0.8, clock, weights)
    wanted = checks.moments(steps, np.arange(3), 3, 0.8, design.ladder.n_headline_columns, clock, weights)
    for name, array in wanted.items():
        np.testing.assert_allclose(getattr(found, name), array, rtol=1e-8, atol=1e-8, err_msg=name)


def test_a_trace_that_overflows_ends_with_its_piece():
    """A group for each piece: they are read in one go, and the trace of one piece is there when the next begins."""
    design, steps = checks.planned(walk(60, 3, cut=6), "one-hot")
    group, piece = np.arange(steps.n_pieces), checks.piece_of_step(steps)
    long = int(np.flatnonzero(np.diff(steps.begins) > 2)[0])
    wild = replace(steps, rho=np.where(piece == long, 1e300, steps.rho))
    with np.errstate(all="ignore"):
        found, plain = (summed(one, design.ladder, group, 0.9, NO_CLOCK) for one in (wild, steps))
    assert not np.isfinite(found.traced_A[long]).all()
    np.testing.assert_array_equal(np.delete(found.traced_A, long, 0), np.delete(plain.traced_A, long, 0))


def test_few_rows_are_counted_and_many_are_read():
    """A table of five states: with a row for each step the same sums are made of products of rows."""
    design, steps = checks.planned(walk(60, 3, cut=6), "one-hot")
    rows, n = steps.rows, len(steps)
    long = rows.at(np.concatenate([rows.row, rows.next_row]))
    other = replace(steps, rows=type(rows).stored(np.arange(n), n + np.arange(n), long))
    group = tenth_of(steps.n_pieces)
    clock = checks.clock_for(steps)
    counted, read = (summed(one, design.ladder, group, 0.5, clock) for one in (steps, other))
    for name in EQUATIONS - {"robust"} | set(read.arrays()) - {"products"}:  # without weights no sums are made of them
        np.testing.assert_allclose(getattr(counted, name), getattr(read, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_sums_of_parts_are_added_and_tenths_are_sums_of_groups():
    design, steps = checks.planned(real_walk(60, 3), "polynomial")
    clock, group = checks.clock_for(steps), np.sort(np.arange(60) % 25)
    whole = summed(steps, design.ladder, group, 0.5, clock)
    total = Moments.zeros(25, shape_of(design.ladder, clock))
    for first, last in ((0, 7), (7, 41), (41, 60)):
        one = Moments.zeros(25, shape_of(design.ladder, clock))
        read_moments(one, steps.cut(first, last), group[first:last], 0.5, clock)
        total.add(one)
    tenths = total.tenths()
    for name, array in whole.arrays().items():
        np.testing.assert_allclose(getattr(total, name), array, rtol=1e-9, atol=1e-9, err_msg=name)
    edges = group_edges(25)
    assert len(tenths.pieces) == 10
    for g in range(10):
        np.testing.assert_allclose(tenths.A[g], whole.A[edges[g] : edges[g + 1]].sum(axis=0), rtol=1e-9, atol=1e-9)
    assert tenths.pieces.sum() == 60
    assert (tenths.C == total.C).all()


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 57])
def test_tenths_differ_by_one_piece_at_most(n):
    sizes = np.bincount(tenth_of(n))
    assert len(sizes) == min(n, 10)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.sum() == n


def test_a_group_that_comes_again_keeps_all_its_pieces():
    """Pieces are usually ordered by group. In any other order the sums must be the same."""
    design, steps = checks.planned(real_walk(60, 3), "polynomial")
    clock, group = checks.clock_for(steps), np.arange(60) % 25
    weights = products(steps.rho, steps.discount, steps.begins)
    found = summed(steps, design.ladder, group, 0.5, clock, weights)
    wanted = checks.moments(steps, group, 25, 0.5, design.ladder.n_headline_columns, clock, weights)
    for name in ("starts", "pieces", "A", "b", "robust"):
        np.testing.assert_allclose(getattr(found, name), wanted[name], rtol=1e-9, atol=1e-9, err_msg=name)
