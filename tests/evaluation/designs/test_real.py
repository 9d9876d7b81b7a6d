"""Rows of real observations: their rungs, their waves, and the numbers that are written."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gradtd.evaluation.designs.base import GIVEN
from gradtd.evaluation.designs.real import real_design
from gradtd.evaluation.limits import DEFAULT
from gradtd.features import make_features
from gradtd.logs import read_log
from naive.evaluation import real_walk


def test_a_long_log_has_waves_enough_to_check_the_features_given():
    """Work bounds the table there, not the log. A check counts from 1.5 times the columns on: 77 for 51, it were 76."""
    seen = np.random.default_rng(0).normal(size=(500, 50))
    base = np.c_[np.ones(500), seen]
    for steps in (500_000, 2_000_000):
        design = real_design(seen, base, steps, 30_000)
        assert max(map(len, design.ladder.checkers.values())) >= DEFAULT.step_columns * 51
        assert design.waves.frequencies.shape[1] <= DEFAULT.most_waves
    short = real_design(seen, np.c_[base, seen**2], 2000, 60)  # as before where the log bounds it
    assert short.waves.frequencies.shape[1] == 50


def test_a_rung_may_be_just_as_much_wider_as_the_limits_say():
    """Cosines of one column, 1 to 64: every rung has twice those of the one before, and that is enough."""
    seen = np.random.default_rng(0).normal(size=(500, 1))
    ladder = real_design(seen, None, 10**5, 10**4, replace(DEFAULT, most_columns=64, rung_growth=2.0)).ladder
    sizes = [len(ladder.rungs[name]) for name in ladder.headlines if "cosines" in name]
    assert sizes == [4, 8, 16, 32, 64]
    assert [name.split(" cosines")[0] for name in ladder.checkers if "waves" in name] == ["32", "64"]


def test_limits_bound_the_columns():
    seen = np.random.default_rng(0).normal(size=(500, 2))
    most = replace(DEFAULT, most_columns=12, fewest_columns=5)
    few, many = (real_design(seen, None, 10**5, 10**4, limits) for limits in (most, DEFAULT))
    assert max(len(c) for c in few.ladder.rungs.values()) <= 12 < max(len(c) for c in many.ladder.rungs.values())
    sizes = [len(c) for name, c in many.ladder.rungs.items() if "cosines" in name]
    assert all(b >= DEFAULT.rung_growth * a for a, b in pairwise(sizes))


@pytest.mark.parametrize("named", [False, True])
def test_rows_are_features_or_polynomials_then_cosines_then_waves(named):
    log = read_log(real_walk(40))
    features = make_features("polynomial").fit(log.observations) if named else None
    base = features.transform(log.observations) if named else None
    design = replace(real_design(log.observations, base, len(log), 40), features=features)
    found = design.rows(log).at(np.arange(len(log.observations)))
    turns = log.observations @ design.waves.frequencies + design.waves.phases
    own = design.polynomials.transform(log.observations) if base is None else base
    waves = np.cos(2 * np.pi * turns)
    np.testing.assert_allclose(found, np.c_[own, design.cosines.transform(log.observations), waves], atol=1e-9)
    assert design.ladder.n_columns == found.shape[1]
    assert (GIVEN in design.ladder.rungs) == named
    assert (design.polynomials is None) == named
    for rung in () if named else design.ladder.headlines:
        chosen = design.chosen(rung).transform(log.observations)
        np.testing.assert_allclose(found[:, design.ladder.rungs[rung]], chosen, atol=1e-9)


@pytest.mark.parametrize(
    ("columns", "name"),
    [(2, "10 polynomials of order 3"), (6, "28 polynomials of order 2"), (20, "41 powers of order 2")],
)
def test_polynomials_are_as_rich_as_the_log_can_carry(columns, name):
    """A constant column is left out. Of many columns there are squares, and no products of two."""
    seen = np.c_[np.random.default_rng(0).normal(size=(500, columns)), np.ones(500)]
    design = real_design(seen, None, 2000, 30)
    rung = next(rung for rung in reversed(design.ladder.headlines) if "order" in rung)
    assert rung == name
    assert len(design.ladder.rungs[rung]) == design.chosen(rung).n_features == int(name.split()[0])
    wide = next(columns for checker, columns in design.ladder.checkers.items() if name in checker)
    assert len(wide) > len(design.ladder.rungs[rung])


@pytest.mark.parametrize("named", [False, True])
def test_rows_of_the_first_columns_are_those_of_the_widest_table(named):
    log = read_log(real_walk(60))
    base = make_features("identity").fit(log.observations) if named else None
    design = real_design(log.observations, None if base is None else base.transform(log.observations), len(log), 60)
    rows = replace(design, features=base).rows(log)
    wide = rows.at(np.arange(20))
    for columns in range(1, rows.n_columns + 1):
        np.testing.assert_allclose(rows.first(columns).at(np.arange(20)), wide[:, :columns], rtol=1e-12, atol=1e-12)
