"""What every fit makes of every piece: against loops, leaving episodes out, and sums by group."""

import numpy as np
import pytest

from gradtd import evaluate
from gradtd.evaluation.checks import BlockEquations, products
from gradtd.evaluation.designs.base import GIVEN
from gradtd.evaluation.fits import solve_all
from gradtd.evaluation.influences import PieceReader, by_group, fits_from, summed
from gradtd.evaluation.moments import Moments, read_moments, shape_of
from gradtd.evaluation.step_blocks import MemoryBlocks
from naive import checks
from naive.evaluation import real_walk, walk


def test_influences_are_those_of_leaving_out_an_episode():
    """(E - 1) (v - v without e) is psi_e to first order; 300 episodes, so within a few percent of their size."""
    made = walk(300, 4)
    design, steps = checks.planned(made)
    fit = checks.fits_of(steps, design.ladder).plain[GIVEN]
    how = {"gamma": 0.9, "algorithm": "lstd", "resamples": 0, "threads": 1}
    for episode in (0, 17, 123):
        kept = made["episode"] != episode
        without = evaluate({k: v[kept] for k, v in made.items()}, **how)
        assert 299 * (fit.value - without.value) == pytest.approx(fit.psi[episode], abs=0.1 * fit.psi.std())
    assert fit.error == pytest.approx(evaluate(made, **how).numbers["sandwich_error"], rel=1e-3)


def test_the_bias_is_that_of_leaving_out_each_tenth_of_the_episodes():
    """The jackknife: 9 (mean of the values without a tenth - value)."""
    made = walk(300, 4)
    design, steps = checks.planned(made)
    fit = checks.fits_of(steps, design.ladder).plain[GIVEN]
    how = {"gamma": 0.9, "algorithm": "lstd", "resamples": 0, "threads": 1}
    kept = [made["episode"] // 30 != tenth for tenth in range(10)]
    without = [evaluate({k: v[some] for k, v in made.items()}, **how).value for some in kept]
    assert fit.bias == pytest.approx(9 * (np.mean(without) - fit.value), rel=1e-4)


@pytest.mark.parametrize("lam", [0.0, 0.6])
def test_sums_by_piece_are_those_of_a_loop(lam):
    design, steps = checks.planned(real_walk(40, 3), "polynomial", lam=lam)
    equations = BlockEquations(MemoryBlocks(steps), design.ladder)
    solutions = equations.solutions(0.3)
    found = equations.piece_sums(solutions, 0.3)
    weights, rows, piece = products(steps.rho, steps.discount, steps.begins), steps.rows, checks.piece_of_step(steps)
    x, after = rows.at(rows.row), rows.at(rows.next_row)
    for j, s in enumerate((*solutions.plain, *solutions.traced)):
        own = lam if j < len(solutions.plain) else 0.3
        value, left = x[:, s.columns] @ s.theta, x[:, s.columns] @ s.left
        delta = steps.reward + steps.discount * (after[:, s.columns] @ s.theta) - value
        start, pull, robust = np.zeros((3, steps.n_pieces))
        along = 0.0
        for t in range(len(steps)):
            first = t in steps.begins
            along = steps.rho[t] * (left[t] + (0.0 if first else own * steps.discount[t - 1] * along))
            start[piece[t]] += value[t] * first
            pull[piece[t]] += delta[t] * along
            robust[piece[t]] += delta[t] * weights[t]
        for name, wanted in (("start", start), ("pull", pull), ("robust", robust)):
            np.testing.assert_allclose(getattr(found, name)[:, j], wanted, rtol=1e-8, atol=1e-10, err_msg=name)
        missing = np.maximum(x[:, s.columns] @ s.missing, 0.0)
        assert found.lack[j] == pytest.approx(missing.mean())
        assert found.missed[j] == pytest.approx((abs(left) * missing).mean() * np.sqrt((delta**2).mean()))
        assert found.spread[j] == pytest.approx(value.std(), rel=1e-6)


@pytest.mark.parametrize("lam", [0.0, 0.6])
def test_sums_by_group_are_sums_of_those_of_their_pieces(lam):
    """As a log that is read once has them: from moments, without a second pass."""
    design, steps = checks.planned(real_walk(80, 3), "polynomial", lam=lam)
    equations = BlockEquations(MemoryBlocks(steps), design.ladder)
    clock, groups = equations.clock, 30
    group, weights = np.sort(np.arange(80) % groups), products(steps.rho, steps.discount, steps.begins)
    moments = Moments.zeros(groups, shape_of(design.ladder, clock))
    read_moments(moments, steps, group, 0.4, clock, weights)
    solutions = solve_all(moments, design.ladder, clock)
    assert bool(solutions.timed) == (lam == 0)
    by_piece, by_fit = PieceReader(solutions, design.ladder.n_columns, 0.4, clock).read(steps, weights)
    wanted = np.zeros((groups, *by_piece.shape[1:]))
    np.add.at(wanted, group, by_piece)
    pieces = summed(by_piece, by_fit, len(steps))
    found = by_group(moments, solutions, clock, pieces, len(steps))
    plain = len(solutions.plain)
    for k, (name, fits) in enumerate({"start": None, "pull": None, "robust": plain}.items()):
        made, right = getattr(found, name)[:, :fits], wanted[:, k, :fits]  # doubly robust is asked of plain fits only
        np.testing.assert_allclose(made, right, rtol=1e-6, atol=1e-8 * np.abs(right).max(), err_msg=name)
    np.testing.assert_allclose(found.spread[:plain], pieces.spread[:plain], rtol=1e-6)
    for one, other in zip(
        fits_from(solutions.every, found, moments.pieces, len(steps)),
        fits_from(solutions.every, pieces, np.ones(80), len(steps)),
        strict=True,
    ):
        assert one.value == other.value
        assert one.error == pytest.approx(other.error, rel=0.5)  # another number of another sample
        assert abs(one.psi.mean()) < 1e-6 * max(abs(one.value), 1.0)
