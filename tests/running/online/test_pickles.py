"""Pickles of a learner and of a horde, as joblib and multiprocessing make them: they contain what a file does."""

import copy
import pickle

import numpy as np
import pytest

import gradtd
from gradtd import Horde, InputError, Learner
from running.online.test_learner import STREAM, D, feed


def whitening(steps):
    learner = Learner(D, "td", alpha=0.1, whiten=True, compile=False)
    for step in STREAM.steps[:steps]:
        phi, after = (STREAM.features[step[end]] for end in ("row", "next_row"))
        learner.update(phi, step["reward"], after, step["rho"], step["discount"])
    return learner


MAKES = {
    "rule": lambda: feed(Learner(D, "td", alpha=0.1, gamma=0.5, compile=False), STREAM, 0, 40),
    "replay": lambda: feed(Learner(D, "impression_gtd", compile=False), STREAM, 0, 60),
    "trace": lambda: feed(Learner(D, "td", alpha=0.1, lam=0.5, compile=False), STREAM, 0, 40),
    "intervals": lambda: feed(Learner(D, "td", alpha=0.1, intervals=True, compile=False), STREAM, 0, 40),
    "horde": lambda: feed(Horde(D, {"a": {"alpha": 0.1}, "b": {"alpha": 0.05}}, "td", compile=False), STREAM, 0, 40),
    "new": lambda: Learner(D, "td", alpha=0.1, compile=False),
}


def weights(learner):
    return np.array([*learner.theta.values()] if isinstance(learner, Horde) else learner.theta)


@pytest.mark.parametrize("name", MAKES)
def test_it_goes_on_exactly(name):
    learner = MAKES[name]()
    again, other = pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)
    assert again.seen == learner.seen
    assert again.gamma == learner.gamma
    for one in (learner, again, other):
        feed(one, STREAM, 60, 100)
    assert weights(learner).tobytes() == weights(again).tobytes() == weights(other).tobytes()


def test_buffered_steps_of_a_learner_that_whitens():
    learner = whitening(30)
    again = pickle.loads(pickle.dumps(learner))
    assert again._white.waiting == learner._white.waiting == 30


def test_a_copy_has_its_own_arrays():
    learner = MAKES["replay"]()
    before, again = learner.theta, copy.copy(learner)
    feed(again, STREAM, 60, 100)
    assert learner.theta.tobytes() == before.tobytes()


def test_code_is_refused_in_one_sentence():
    own = Learner(D, gradtd.Algorithm("mine", lambda state, stream, now, hyper: None), alpha=0.1, compile=False)
    with pytest.raises(InputError, match="mine is a custom rule, and gradtd does not save code"):
        pickle.dumps(own)
    assert copy.deepcopy(own).seen == 0
