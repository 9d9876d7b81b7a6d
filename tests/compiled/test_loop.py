"""The one loop: it can stop and go on, and it can go over a stream more than once."""

import numpy as np
import pytest

import gradtd
from gradtd.algorithms import ALGORITHMS
from gradtd.compiled.buffers import SPLITS
from gradtd.compiled.plan import room_for
from gradtd.running.session import Session
from gradtd.running.settings import parameters

ONLINE = [name for name, rule in ALGORITHMS.items() if not rule.stored]


def _settings(name):
    return {"alpha": 0.01} if "alpha" in parameters(ALGORITHMS[name]) else {}


def _pieces(stream, name, at, cuts, compile, settings):
    """Run the loop over a stream in several calls that end at the cuts."""
    session = Session(name, settings, n_steps=len(stream), compile=compile)
    buffers = session.buffers(stream, (0, 0))
    run = session.begin(np.zeros(stream.n_features), (0, 0), len(stream))
    wanted = room_for(at, stream.n_features)
    begin = 0
    for end in [*cuts, len(stream)]:
        session.drive(run, session.view(stream), buffers, wanted, begin, end - begin)
        begin = end
    return wanted.thetas, wanted.alphas


@pytest.mark.parametrize(
    ("name", "compile"), [*((name, False) for name in sorted(ALGORITHMS)), ("td", True), ("impression_gtd", True)]
)
def test_a_run_in_pieces_gives_the_same_bytes(name, compile):
    stream = gradtd.sample("random_walk_dependent", 160, seed=3)
    at = np.array([0, 50, 97, 98, 160])
    settings = _settings(name) | ({"batch_size": 4} if "batch" in ALGORITHMS[name].draws else {})
    whole = gradtd.learn(stream, name, snapshots=at, compile=compile, **settings)
    out, alphas = _pieces(stream, name, at, [1, 50, 97, 120], compile, settings)
    assert out.tobytes() == whole.thetas.tobytes()
    np.testing.assert_array_equal(alphas, whole.alphas)


@pytest.mark.parametrize(
    "name", [n for n in ONLINE if ALGORITHMS[n].draws in ("nothing", "two buffers", "new batch") and n != "etd"]
)
def test_two_passes_equal_a_stream_that_says_everything_twice(name):
    """For rules that draw nothing; those that draw see the whole stream in their second pass."""
    stream = gradtd.sample("random_walk_dependent", 160, seed=3)
    cut = int(np.flatnonzero((stream.steps["discount"] == 0) & (stream.steps["episode"] % 2 == 1))[-1]) + 1
    steps = stream.steps[:cut]
    again = steps.copy()
    again["episode"] += steps["episode"][-1] + 1
    once = gradtd.Stream(stream.features, steps)
    twice = gradtd.Stream(stream.features, np.concatenate([steps, again]).view(np.recarray))
    settings = _settings(name) | {"compile": False}
    if ALGORITHMS[name].draws == "new batch":
        settings["batch_size"] = 4
    wanted = gradtd.learn(twice, name, snapshots=[cut, 2 * cut], **settings)
    found = gradtd.learn(once, name, snapshots=[cut, 2 * cut], passes=2, **settings)
    assert found.thetas.tobytes() == wanted.thetas.tobytes()


def test_in_a_second_pass_the_buffers_hold_everything_and_learning_goes_on():
    stream = gradtd.sample("boyan_chain", 400, seed=1)
    result = gradtd.learn(stream, "impression_gtd", passes=50, directions="averaged")
    assert result.steps[-1] == 20_000
    lstd = gradtd.learn(stream, "lstd", ridge=1e-9).theta
    early = gradtd.learn(stream, "impression_gtd", directions="averaged").theta
    assert np.linalg.norm(result.theta - lstd) < np.linalg.norm(early - lstd) / 2


def test_copies_of_an_episode_stay_in_one_buffer():
    stream = gradtd.sample("boyan_chain", 200, seed=1)
    unit = np.array([5, 5, 2, 7])[stream.steps["episode"] % 4]
    buffers = SPLITS["odd-even"].buffers(stream, (0, 0), unit=unit)
    np.testing.assert_array_equal(buffers.side, unit == 2)


@pytest.mark.parametrize(("name", "hyper"), [("krylov_gtd", {}), ("minibatch_td", {"alpha": 0.1, "capacity": 99})])
def test_more_than_one_pass_is_refused_where_it_would_not_mean_what_it_says(name, hyper):
    stream = gradtd.sample("boyan_chain", 200)
    with pytest.raises(gradtd.InputError, match="one pass over a stream, got passes=2"):
        gradtd.learn(stream, name, passes=2, **hyper)
