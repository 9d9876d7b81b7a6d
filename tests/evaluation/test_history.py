"""Logs whose observations hide a part of the state: fits with the steps before beside the features."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from gradtd import Machine, evaluate
from gradtd.evaluation.checks import BlockEquations, all_fits
from gradtd.evaluation.history import fits_with_past
from gradtd.evaluation.step_blocks import MemoryBlocks
from naive import checks
from naive.evaluation import real_walk, walk


def looking_alike(episodes=256, chance=0.88, told=False, seed=0):
    """Two steps that look alike; the action of the first one decides the reward of the second: 1 or -1."""
    rng = np.random.default_rng(seed)
    first, second = (rng.random((2, episodes)) >= chance).astype(int)
    reward = np.where(first == 0, 1.0, -1.0) + 0.1 * rng.standard_normal(episodes)
    action = np.c_[first, second].ravel()
    seen = np.c_[np.zeros(episodes, int), 1 + first].ravel() if told else np.zeros(2 * episodes, int)
    return {
        "episode": np.repeat(np.arange(episodes), 2),
        "obs": seen,
        "reward": np.c_[np.zeros(episodes), reward].ravel(),
        "terminated": np.tile([False, True], episodes),
        "rho": np.where(action == 0, (1 - chance) / chance, chance / (1 - chance)),
    }


def test_a_hidden_action_of_the_step_before_is_refused():
    """The truth is -.76. LSTD says .75 or so with a narrow interval, and products of ratios leave 5 to 9 episodes."""
    found = evaluate(looking_alike(), gamma=1.0, machine=Machine(threads=1))
    assert next(row for row in found.estimates if row.method == "lstd").value > 0.5
    assert found.verdict == "not usable"
    assert any("Earlier steps change the value" in reason for reason in found.reasons), found.reasons
    with_past = next(check for check in found.checks if check.kind == "past")
    assert with_past.low <= -0.76 <= with_past.high


def test_an_observation_that_tells_it_is_usable():
    found = evaluate(looking_alike(chance=0.7, told=True), gamma=1.0, machine=Machine(threads=1))
    assert (found.verdict, found.reasons) == ("usable", ())
    assert found.interval[0] <= -0.4 <= found.interval[1]


def test_the_fit_without_the_past_is_the_plain_one():
    """On the same steps it has the value and the influences of the pipeline; blocks of pieces change nothing."""
    design, steps = checks.planned(walk(300))
    made = fits_with_past(steps, design.ladder)
    assert list(made) == list(design.ladder.headlines)
    for name, (plain, past) in made.items():
        found = evaluate(walk(300), gamma=0.9, machine=Machine(threads=1))
        row = next(check for check in found.checks if check.name == name and check.kind == "rung")
        assert plain.value == pytest.approx(row.value)
        assert plain.psi.mean() == pytest.approx(0.0, abs=1e-6)
        assert past.columns > plain.columns
        assert past.psi.mean() == pytest.approx(0.0, abs=1e-6)


def test_sparse_rows_are_dense_rows():
    """A feature for each state, stored sparsely: sums by row first, and the same fits as of dense rows."""
    design, steps = checks.planned(walk(300), "one-hot")
    dense = steps.rows.at(np.arange(steps.rows.n_rows))
    made = [
        fits_with_past(replace(steps, rows=replace(steps.rows, table=table)), design.ladder)
        for table in (dense, csr_array(dense))
    ]
    for name, wanted in made[0].items():
        for one, other in zip(made[1][name], wanted, strict=True):
            assert (one.value, one.error, one.bias) == pytest.approx((other.value, other.error, other.bias), rel=1e-6)
            assert one.columns == other.columns
            np.testing.assert_allclose(one.psi, other.psi, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "features"), [(walk, None), (walk, "one-hot"), (real_walk, None), (real_walk, "polynomial:order=2")]
)
def test_sums_that_are_known_are_not_made_again(make, features):
    """The fits with the past of a whole log share the sums of the features: the same fits as from its steps alone."""
    design, steps = checks.planned(make(200), features)
    equations = BlockEquations(MemoryBlocks(steps), design.ladder)
    found, alone = all_fits(equations, 0.5).past, fits_with_past(steps, design.ladder)
    assert list(found) == list(alone)
    for name, wanted in alone.items():
        for one, other in zip(found[name], wanted, strict=True):
            assert (one.value, one.error, one.bias) == pytest.approx((other.value, other.error, other.bias), rel=1e-5)
            np.testing.assert_allclose(one.psi, other.psi, rtol=1e-4, atol=1e-7)
