"""However a step is given, the weights are those of `gradtd.learn`: with ends, in tables, as indices, by threads."""

from threading import Thread

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import Horde, InputError, Learner
from gradtd.estimates import add_features, td_error
from gradtd.running.online import queue, window
from running.online.test_learner import CASES, STREAM, THETA0, D, T, step_size

ENDS = np.r_[STREAM.steps.episode[1:] != STREAM.steps.episode[:-1], True]


def feed(learner, begin=0, end=T):
    """Rows as they are stored, numbers as floats: the way of compiled code."""
    for t in range(begin, end):
        step = STREAM.steps[t]
        learner.update(
            STREAM.features[step.row],
            float(step.reward),
            STREAM.features[step.next_row],
            float(step.rho),
            float(step.discount),
            truncated=bool(ENDS[t]),
        )
    return learner


@pytest.mark.parametrize("case", CASES)
def test_rows_that_need_no_conversion_give_the_weights_of_learn(case, monkeypatch):
    monkeypatch.setattr(queue, "LONGEST_QUEUE", 7)
    name, hyper = CASES[case]
    wanted = gradtd.learn(STREAM, name, seed=5, theta0=THETA0, compile=False, snapshots=[T], **hyper)
    hyper = {"capacity": 13} | hyper
    learner = Learner(D, name, seed=5, theta0=THETA0, compile=False, **hyper)
    monkeypatch.setattr(learner, "_put", _once(learner._put))
    assert feed(learner).theta.tobytes() == wanted.theta.tobytes()
    assert learner.diverged_at == wanted.diverged_at[0]
    assert learner.predict(THETA0) == THETA0 @ wanted.theta


def _once(plain):
    """Only the first step shows how rows are given; all others are taken without a conversion."""
    calls = []

    def put(*arguments):
        calls.append(arguments)
        assert len(calls) == 1
        plain(*arguments)

    return put


RULES = ("td", "tdrc", "impression_gtd")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "td")) for n in RULES])
def test_compiled_steps_give_the_weights_of_learn(name):
    bounded = {"batch_size": 4, "capacity": 30} if name == "impression_gtd" else {}
    wanted = gradtd.learn(STREAM, name, **step_size(name), **bounded).theta
    learner = feed(Learner(D, name, **({"capacity": 30} | step_size(name) | bounded)))
    assert learner.theta.tobytes() == wanted.tobytes()
    assert learner.predict(THETA0) == THETA0 @ wanted


def allocating(state, stream, now, hyper):
    before = state.theta.copy()
    add_features(stream, now.t, now.alpha * stream.steps[now.t].rho * td_error(stream, now.t, before), state.theta)


@pytest.mark.slow  # each is compiled twice, without and with reference counts
def test_a_rule_that_allocates_runs_compiled_step_by_step():
    rule = gradtd.Algorithm("mine", allocating)
    wanted = gradtd.learn(STREAM, rule, alpha=0.03).theta
    assert feed(Learner(D, rule, alpha=0.03)).theta.tobytes() == wanted.tobytes()


def test_an_array_that_is_filled_anew_for_every_step_is_copied():
    phi, phi_next = np.zeros(D), np.zeros(D)
    learner = Learner(D, batch_size=2, compile=False)
    for t, step in enumerate(STREAM.steps):
        phi[:], phi_next[:] = STREAM.features[step.row], STREAM.features[step.next_row]
        numbers = (float(step.rho), float(step.discount))
        learner.update(phi, float(step.reward), phi_next, *numbers, truncated=bool(ENDS[t]))
    wanted = gradtd.learn(STREAM, "impression_gtd", batch_size=2, compile=False).theta
    assert learner.theta.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("case", ["td", "impression_gtd"])
def test_saving_in_between_changes_nothing(case, monkeypatch, tmp_path):
    monkeypatch.setattr(window, "LEAST", 8)
    hyper = {"batch_size": 2} if case == "impression_gtd" else step_size(case)
    wanted = feed(Learner(D, case, compile=False, **hyper)).theta
    learner = Learner(D, case, compile=False, **hyper)
    for t in range(T):
        feed(learner, t, t + 1)
        if t % 7 == 0:
            learner.save(tmp_path / "it.npz")
    assert learner.theta.tobytes() == wanted.tobytes()


class TestEnds:
    def _learner(self, **more):
        return Learner(2, "td", alpha=0.1, compile=False, **more)

    def test_gamma_is_the_discount_of_steps_that_have_none(self):
        by_gamma, by_discount = self._learner(gamma=0.9), self._learner()
        for _ in range(5):
            by_gamma.update([1, 0], 1.0, [0, 1])
            by_gamma.update([0, 1], 1.0, [1, 1], terminated=True)
            by_discount.update([1, 0], 1.0, [0, 1], discount=0.9)
            by_discount.update([0, 1], 1.0, [1, 1], discount=0)
        assert by_gamma.theta.tobytes() == by_discount.theta.tobytes()
        assert repr(by_gamma) == repr(by_discount) == "Learner(td, 2 features: 10 steps seen, 5 episodes)"

    def test_a_truncated_step_counts_what_it_led_to_and_ends_the_episode(self):
        learner, other = self._learner(lam=0.9), self._learner(lam=0.9)
        for truncated in (False, True, np.bool_(False), True):
            learner.update([1, 0], 1.0, [0, 1], discount=0.9, truncated=truncated)
            other.update([1, 0], 1.0, [0, 1], discount=0.9)
            if truncated:
                other.new_episode()
        assert learner.theta.tobytes() == other.theta.tobytes()
        assert repr(learner) == "Learner(td, 2 features: 4 steps seen, 2 episodes)"

    def test_the_file_keeps_gamma_and_the_way_rows_are_given(self, tmp_path):
        learner = Learner(9, "td", alpha=0.1, gamma=0.5, sparse=True, compile=False)
        learner.update([1, 3], 1.0, [4], terminated=False)
        learner.save(tmp_path / "it.npz")
        again = Learner.load(tmp_path / "it.npz", compile=False)
        for one in (learner, again):
            one.update([3, 4], 1.0, [4, 8])
        assert again.theta.tobytes() == learner.theta.tobytes()
        assert again.gamma == 0.5


@pytest.mark.parametrize("case", ["td", "impression_gtd", "lstd"])
@pytest.mark.parametrize("sizes", [(1, 6, 100), (7, 20, 60)])
def test_many_steps_at_once_are_the_same_as_one_by_one(case, sizes, monkeypatch):
    monkeypatch.setattr(queue, "LONGEST_QUEUE", 16)
    hyper = {"batch_size": 2} if case == "impression_gtd" else step_size(case)
    learner, begin = Learner(D, case, compile=False, **hyper), 0
    for end in np.minimum(np.cumsum([*sizes, T]), T):
        steps = STREAM.steps[begin:end]
        learner.update_many(
            STREAM.features[steps.row], steps.reward, STREAM.features[steps.next_row], steps.rho, steps.discount,
            truncated=ENDS[begin:end],
        )  # fmt: skip
        feed(learner, int(end), min(int(end) + 5, T))
        begin = int(end) + 5
    assert learner.theta.tobytes() == feed(Learner(D, case, compile=False, **hyper)).theta.tobytes()
    assert learner._queue.episodes.number == STREAM.n_episodes - 1
    assert learner._queue.rows.size <= STREAM.n_episodes + T + 6  # a row that a step led to is stored once


def tiles(seed=3, steps=200, width=50):
    """Rows of ones, some with an index twice, none in order."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, width, (steps + 1, 6)), rng.standard_normal(steps), rng.random(steps) * 2


@pytest.mark.parametrize("lam", [0.0, 0.8])
@pytest.mark.parametrize("name", ["td", "impression_gtd"])
def test_rows_of_indices_are_sparse_rows(name, lam):
    indices, reward, rho = tiles()
    hyper = {"alpha": 0.05, "lam": lam} | ({"batch_size": 3, "average": "uniform"} if name != "td" else {})
    by_index, by_pair, by_scipy = (
        Learner(50, name, gamma=0.9, sparse=sparse, compile=False, **hyper) for sparse in (True, True, False)
    )
    table = scipy.sparse.csr_array((np.ones(indices.size), indices.ravel(), 6 * np.arange(202)), shape=(201, 50))
    for t in range(200):
        told = (float(reward[t]), float(rho[t]), t % 10 == 9)
        for learner, phi, phi_next in (
            (by_index, indices[t], indices[t + 1]),
            (by_pair, (indices[t], np.ones(6)), (indices[t + 1].tolist(), [1] * 6)),
            (by_scipy, table[[t]], table[[t + 1]]),
        ):
            learner.update(phi, told[0], phi_next, told[1], terminated=told[2])
    assert np.abs(by_scipy.theta).max() > 0.01
    assert by_index.theta.tobytes() == by_pair.theta.tobytes() == by_scipy.theta.tobytes()
    assert by_index._queue.rows.size <= 201 + 20
    wanted = by_scipy.predict(table[:5])
    np.testing.assert_allclose(by_index.predict(indices[:5]), wanted, rtol=1e-12)
    np.testing.assert_allclose([by_index.predict(row) for row in indices[:5]], wanted, rtol=1e-12)
    np.testing.assert_allclose(by_index.predict((indices[0], np.full(6, 2.0))), 2 * wanted[0], rtol=1e-12)
    many = Learner(50, name, gamma=0.9, sparse=True, compile=False, **hyper)
    many.update_many(indices[:-1], reward, indices[1:], rho, terminated=np.arange(200) % 10 == 9)
    assert many.theta.tobytes() == by_index.theta.tobytes()


def test_compiled_rows_of_indices_are_those_of_python():
    indices, reward, rho = tiles()
    both = [Learner(50, "td", alpha=0.05, gamma=0.9, sparse=True, compile=compile) for compile in (True, False)]
    for learner in both:
        learner.update_many(indices[:-1], reward, indices[1:], rho, terminated=np.arange(200) % 10 == 9)
    assert both[0].theta.tobytes() == both[1].theta.tobytes()
    assert both[0].predict(indices[3]) == both[1].predict(indices[3])


@pytest.mark.parametrize(
    ("phi", "sentence"),
    [
        ([0.5, 1.0], r"phi must be a row of indices \(whole numbers\), or a pair .* got float64"),
        ([[1, 2]], r"phi must be a row of indices .* got int64 of shape \(1, 2\)"),
        ([3, 50], r"phi must contain indices of features, 0 to 49: phi\[1\] is 50"),
        (np.array([3, -1]), r"phi must contain indices of features, 0 to 49: phi\[1\] is -1"),
        (([1, 2], [1.0]), "phi has 2 indices and 1 values"),
        (([1, 2], [1.0, np.inf]), "phi's values must be finite"),
    ],
)
def test_rows_that_are_no_indices_are_refused(phi, sentence):
    learner = Learner(50, "td", alpha=0.05, gamma=0.9, sparse=True, compile=False)
    learner.update([1], 0.0, [2])
    for act in (lambda: learner.update(phi, 0.0, [1]), lambda: learner.predict(phi)):
        with pytest.raises(InputError, match=sentence):
            act()
    assert learner.seen == 1


def test_a_step_that_compiled_code_refuses_is_said_and_leaves_no_trace():
    learner = feed(Learner(D, "td", alpha=0.03, compile=False), end=100)
    step = {"phi": THETA0, "reward": 1.0, "phi_next": THETA0, "discount": 0.5, "rho": 1.0}
    for bad, sentence in (
        ({"phi_next": np.full(D, np.nan)}, r"phi_next must be finite: phi_next\[0\] is nan"),
        ({"phi": np.array([1, 2, 3, -np.inf])}, r"phi must be finite: phi\[3\] is -inf"),
        ({"phi": np.ones(3)}, "phi needs 4 entries, one per feature; got 3"),
        ({"phi": np.ones((1, D))}, "phi must have 1 dimension"),
        ({"reward": np.nan}, "reward must be finite"),
        ({"rho": -1.0}, "rho must be at least 0"),
        ({"rho": np.inf}, "rho must be finite"),
        ({"discount": 1.5}, r"discount must be a number in \[0, 1\]"),
        ({"discount": None}, "discount must be given: gamma, or 0 .* Or give the learner gamma="),
        ({"terminated": "no"}, "terminated must be True or False"),
        ({"truncated": 2}, "truncated must be True or False"),
    ):
        with pytest.raises(InputError, match=sentence):
            learner.update(**step | bad)
    assert learner.seen == 100
    assert feed(learner, 100).theta.tobytes() == gradtd.learn(STREAM, "td", alpha=0.03, compile=False).theta.tobytes()


def test_tables_that_do_not_fit_are_refused():
    learner = Learner(D, "td", alpha=0.1, compile=False)
    good = {"phi": np.ones((3, D)), "reward": np.ones(3), "phi_next": np.ones((3, D)), "discount": 0.9}
    for bad, sentence in (
        ({"phi_next": np.ones((2, D))}, r"phi_next needs shape \(3, 4\)"),
        ({"phi": np.ones(D)}, "phi must have 2 dimensions"),
        ({"reward": np.ones(2)}, r"reward needs one entry per step \(3\), got 2"),
        ({"rho": [-1, 1, 1]}, "rho must not be negative"),
        ({"discount": None}, "discount must be given"),
        ({"terminated": [1, 0, 0]}, r"terminated needs one True or False per step \(3\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            learner.update_many(**good | bad)
    assert learner.seen == 0
    assert (
        learner.update_many(**{name: good[name] if name == "discount" else good[name][:0] for name in good}).seen == 0
    )


def test_threads_share_a_learner():
    """Each step is taken whole: 4 threads that give the same steps leave the weights of one that gives all of them."""
    learner, alone = (Learner(2, "td", alpha=0.1, gamma=0.5) for _ in range(2))
    phi = np.array([1.0, 0.5])

    def work(one, steps):
        for _ in range(steps):
            one.update(phi, 1.0, phi)
            one.predict(phi)

    work(learner, 1)
    threads = [Thread(target=work, args=(learner, 2000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(alone, 8001)
    assert learner.seen == 8001
    assert learner.theta.tobytes() == alone.theta.tobytes()


class TestHorde:
    DEMONS = {"a": {"alpha": 0.03}, "b": {"alpha": 0.01, "lam": 0.5}, "c": {"alpha": 0.02, "algorithm": "tdrc"}}

    def _alone(self, name, factor):
        own = {"algorithm": "td"} | self.DEMONS[name]
        steps = STREAM.steps.copy()
        steps["reward"] *= factor
        return gradtd.learn(gradtd.Stream(STREAM.features, steps.view(np.recarray)), compile=False, **own).theta

    @pytest.mark.parametrize("many", [False, True])
    def test_arrays_of_numbers_reach_every_demon(self, many):
        horde = Horde(D, self.DEMONS, "td", compile=False)
        factors = np.array([1.0, 2.0, -1.0])
        if many:
            rows = (STREAM.features[STREAM.steps.row], STREAM.features[STREAM.steps.next_row])
            numbers = (STREAM.steps.rho, STREAM.steps.discount)
            horde.update_many(rows[0], np.outer(STREAM.steps.reward, factors), rows[1], *numbers, truncated=ENDS)
        else:
            for t, step in enumerate(STREAM.steps):
                phi, phi_next = STREAM.features[step.row], STREAM.features[step.next_row]
                numbers = (float(step.rho), float(step.discount))
                horde.update(phi, step.reward * factors, phi_next, *numbers, truncated=bool(ENDS[t]))
                if t % 50 == 0:
                    horde.predict(phi)
        for name, factor in zip(self.DEMONS, factors, strict=True):
            assert horde.theta[name].tobytes() == self._alone(name, factor).tobytes()

    def test_indices_and_gamma(self):
        indices, reward, rho = tiles()
        horde = Horde(50, {"a": {}, "b": {"alpha": 0.1}}, "td", alpha=0.05, gamma=0.9, sparse=True, compile=False)
        one = Learner(50, "td", alpha=0.1, gamma=0.9, sparse=True, compile=False)
        for t in range(200):
            for each in (horde, one):
                each.update(indices[t], reward[t], indices[t + 1], rho[t], terminated=t % 10 == 9)
        assert horde.theta["b"].tobytes() == one.theta.tobytes()
        assert horde.predict(indices[0])["b"] == one.predict(indices[0])
        with pytest.raises(InputError, match="update_many of a horde takes rows of numbers"):
            horde.update_many(indices, 0.0, indices)
