"""The fits that are compared: against loops over steps, with traces, and with the time beside the features."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from gradtd import Machine, evaluate
from gradtd.evaluation.checks import (
    BlockEquations,
    effective_products,
    other_lambda,
    products,
    rarely_visited,
    weights_by_time,
)
from gradtd.evaluation.designs.base import Traced
from gradtd.evaluation.fits import Solution
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.step_blocks import MemoryBlocks
from naive import checks
from naive.evaluation import real_walk, walk


@pytest.mark.parametrize("lam", [0.0, 0.5])
@pytest.mark.parametrize("made", [walk(60, 3, cut=6), real_walk(60, 3)])
def test_fits_from_shared_sums_are_those_of_a_loop(made, lam):
    features = "one-hot" if "obs" in made else "polynomial"
    design, steps = checks.planned(made, features, lam=lam)
    fits, ladder = checks.fits_of(steps, design.ladder), design.ladder
    for name, columns in ladder.sets.items():
        assert fits.plain[name].value == pytest.approx(checks.lstd(steps, columns, lam), rel=1e-5), name
        assert abs(fits.plain[name].psi.mean()) < 1e-6
    (first,) = ladder.headlines
    assert fits.lam == (
        0.0 if lam else pytest.approx(BlockEquations(MemoryBlocks(steps), ladder).other_lambda(DEFAULT))
    )
    assert fits.traced[first].value == pytest.approx(checks.lstd(steps, ladder.rungs[first], fits.lam), rel=1e-5)


@pytest.mark.parametrize("kind", ["dense states", "sparse states", "real observations"])
def test_fits_with_the_time_are_those_of_a_table_with_it(kind):
    states = kind != "real observations"
    made, features = (walk(60, 3, cut=6), "one-hot") if states else (real_walk(60, 3), "polynomial")
    design, steps = checks.planned(made, features)
    if states:
        table = steps.rows.at(np.arange(steps.rows.n_rows))
        table = csr_array(table) if kind == "sparse states" else table
        steps = replace(steps, rows=type(steps.rows).stored(steps.rows.row, steps.rows.next_row, table))
    found, (name,) = checks.fits_of(steps, design.ladder), design.ladder.headlines
    value, psi = checks.lstd_with_time(steps, design.ladder.rungs[name], checks.clock_for(steps))
    assert found.timed[name].value == pytest.approx(value, rel=1e-5)
    assert np.allclose(found.timed[name].psi, psi, atol=1e-4 * psi.std())


def test_where_there_is_no_clock():
    """Blocks begin anywhere in an episode; with one step there is no time; traces that are asked for have none yet."""
    design, steps = checks.planned(walk(60, 3), "one-hot")

    def columns(**change):
        return BlockEquations(MemoryBlocks(replace(steps, **change)), design.ladder).clock.shape[1]

    assert columns() == 4
    assert columns(blocks=True) == 0
    assert columns(traced=Traced(0.5, np.zeros(len(steps)))) == 0
    assert columns(begins=np.arange(len(steps) + 1)) == 0


def test_the_other_lambda_has_more_memory_or_none():
    design, steps = checks.planned(walk(200, 3))
    equations = BlockEquations(MemoryBlocks(steps), design.ladder)
    one = equations.other_lambda(DEFAULT)
    assert DEFAULT.least_lambda <= one <= DEFAULT.largest_lambda
    assert equations.other_lambda(replace(DEFAULT, least_lambda=0.7)) >= 0.7
    equations.square_ratio = 1.0
    assert equations.other_lambda(DEFAULT) == DEFAULT.largest_lambda
    equations.lam = 0.5
    assert equations.other_lambda(DEFAULT) == 0.0


def test_a_short_trace_is_compared_with_one_that_is_longer():
    """Ratios so far apart that they allow no traces: the other lambda is still that much above the one asked for."""
    assert other_lambda(0.3, 1e9, 100) == pytest.approx(0.3 + DEFAULT.least_lambda)
    assert other_lambda(0.0, 1e9, 100) == DEFAULT.least_lambda


def test_products_of_ratios():
    _, steps = checks.planned(walk(50, 3, cut=6))
    w = products(steps.rho, steps.discount, steps.begins)
    for begin, end in zip(steps.begins[:-1], steps.begins[1:], strict=True):
        wanted = np.cumprod(steps.rho[begin:end]) * np.cumprod(np.r_[1.0, steps.discount[begin : end - 1]])
        np.testing.assert_allclose(w[begin:end], wanted, rtol=1e-12)
    by_time, since = weights_by_time(steps, w), checks.since(steps)
    for t in range(by_time.shape[1]):
        assert by_time[:, t] == pytest.approx([w[since == t].sum(), (w[since == t] ** 2).sum()])
    matters = by_time[0] > DEFAULT.late_weight * by_time[0, 0]
    assert effective_products(by_time) == pytest.approx((by_time[0] ** 2 / by_time[1])[matters].min())
    assert effective_products(np.array([[np.inf], [np.inf]])) == 0.0


def grid(seed, episodes=128, n=8):
    """25 uniform steps on a grid. The target walks to the far corner, which pays 1. Hardly any episode sees it."""
    rng = np.random.default_rng(seed)
    place, rows = np.c_[np.zeros(episodes, int), rng.integers(0, n, episodes)], []
    for t in range(25):
        action = rng.integers(0, 4, episodes)
        wish = np.where(place[:, 0] < n - 1, 1, 0)
        step = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])[action]
        after = np.clip(place + step, 0, n - 1)
        rho = np.where(action == wish, 0.925, 0.025) / 0.25
        goal = (after == n - 1).all(axis=1)
        reward, last = np.where(goal, 1.0, -0.01), np.full(episodes, t == 24)
        rows.append(np.c_[np.arange(episodes), place @ [n, 1], after @ [n, 1], reward, goal, last & ~goal, rho])
        place = after
    table = np.stack(rows, axis=1)
    alive = np.cumsum(table[:, :, 4], axis=1) - table[:, :, 4] == 0
    names = ("episode", "obs", "next_obs", "reward", "terminated", "truncated", "rho")
    log = dict(zip(names, table[alive].T, strict=True))
    return log | {name: log[name].astype(int) for name in names[:3]} | {name: log[name] > 0 for name in names[4:6]}


def test_a_target_that_goes_where_the_log_hardly_was_is_refused():
    found = evaluate(grid(0), gamma=0.96, machine=Machine(threads=1))
    assert found.diagnostics.rarely_visited > 0.3
    assert any("states that the log rarely visited" in reason for reason in found.reasons)


def test_a_small_log_of_the_targets_own_kind_is_not():
    """Few visits alone are no fault: the log has the same share of its steps there."""
    found = evaluate(walk(40, n=9, behaviour=(0.5, 0.5), target=(0.45, 0.55)), gamma=0.9, machine=Machine(threads=1))
    assert found.diagnostics.rarely_visited is None
    assert not any("rarely visited" in reason for reason in found.reasons)


def test_time_in_rare_cells_is_told_by_weights_and_visits():
    """Two cells that the target is in alike, with 96 and 4 visits: half its time, less the log's 4 %."""
    left = np.array([0.5 / 96, 0.5 / 4])
    solution = Solution("", np.arange(2), left, left, 0.0, 0.0, 2, left)
    visits = np.array([96.0, 4.0])
    assert rarely_visited(solution, visits, visits) == pytest.approx(0.46)
