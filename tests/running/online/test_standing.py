"""How a learner stands: numbers of a naive twin, warnings where it has not arrived, whitened features, a picture."""

import json
from dataclasses import replace

import numpy as np
import pytest

import gradtd
from gradtd import Horde, InputError, Learner
from gradtd.compiled.traces import Tracing, traces_of
from gradtd.running.online.watched_learner import SURE_PART
from running.online.test_learner import STREAM, THETA0, D, T, feed, make_stream, part
from running.online.test_steps import tiles

LONG = make_stream(steps=1500)


def naive(theta, x, after, e, steps):
    """Least squares and its distance with loops over steps and episodes, straight from the equations."""
    d = x.shape[1]
    A, b, C = np.zeros((d, d)), np.zeros(d), np.zeros((d, d))
    for t, step in enumerate(steps):
        A += step.rho * np.outer(e[t], step.discount * after[t] - x[t])
        b += step.rho * step.reward * e[t]
        C += np.outer(x[t], x[t]) / len(steps)
    best = -np.linalg.solve(A, b)
    covariance, total, squares = np.zeros((d, d)), np.zeros(d), []
    for episode in np.unique(steps.episode):
        at, now = np.zeros(d), np.zeros(d)
        for t in np.flatnonzero(steps.episode == episode):
            change = steps[t].discount * after[t] - x[t]
            at += steps[t].rho * (steps[t].reward + change @ best) * e[t]
            now += steps[t].rho * (steps[t].reward + change @ theta) * e[t]
        influence = np.linalg.solve(A, at)
        covariance += np.outer(influence, influence)
        total += now
        squares.append(now)
    away = np.sqrt((theta - best) @ C @ (theta - best))
    spread = np.array(squares) - np.mean(squares, axis=0)
    return {
        "distance": away / np.sqrt(np.trace(C @ covariance)),
        "part": away / np.sqrt(best @ C @ best),
        "mean_update": np.linalg.norm(total) / len(steps),
        "mean_update_error": np.sqrt((spread**2).sum()) / len(steps),
        "condition": np.linalg.cond(C),
    }, best


@pytest.mark.parametrize("lam", [0.0, 0.7])
@pytest.mark.parametrize("name", ["td", "impression_gtd"])
def test_it_is_what_the_equations_say(name, lam):
    learner = Learner(D, name, alpha=0.02, lam=lam, compile=False, **({"batch_size": 4} if name != "td" else {}))
    found = learner.partial_fit(STREAM).standing()
    x, after = STREAM.features[STREAM.steps.row], STREAM.features[STREAM.steps.next_row]
    e = x if lam == 0 else traces_of(STREAM, Tracing(lam), False)
    wanted, best = naive(learner.theta, x, after, e, STREAM.steps)
    for label, number in wanted.items():
        assert getattr(found, label) == pytest.approx(number, rel=1e-8), label
    np.testing.assert_allclose(found.least_squares, best, rtol=1e-8)
    start = x[np.r_[True, STREAM.steps.episode[1:] != STREAM.steps.episode[:-1]]].mean(axis=0)
    assert found.start_value == pytest.approx(start @ learner.theta)
    assert found.start_least_squares == pytest.approx(start @ best)
    assert (found.seen, found.used, found.episodes, found.step_size) == (T, T, STREAM.n_episodes, 0.02)
    if lam == 0:
        np.testing.assert_allclose(best, gradtd.learn(STREAM, "lstd", compile=False).theta, atol=0.02)


def test_least_squares_itself_has_arrived():
    learner = Learner(D, "lstd", solver="batch", ridge=0.0, compile=False).partial_fit(STREAM)
    found = learner.standing()
    assert found.distance < 1e-6
    assert found.mean_update < 1e-8
    assert found.arrived


def test_buffers_start_and_step_size_are_told():
    learner = Learner(D, capacity=50, batch_size=4, compile=False).partial_fit(part(0, 240, LONG))
    found = learner.standing()
    held = learner._queue.runs[0].window
    side = held.side[held.held()]
    episodes = [len(np.unique(held.steps.episode[held.held()][side == i])) for i in (0, 1)]
    assert found.buffers == [(50, episodes[0]), (50, episodes[1])]
    assert found.started == 240 - found.updates + 1
    assert found.step_size > 0
    words = str(found)
    assert "Buffer 2" in words
    assert "standard errors" in words
    assert "<th" in found._repr_html_()
    assert "not yet" in str(feed(Learner(D, compile=False), end=5).standing())
    assert "there are no steps" in str(Learner(D).standing())
    assert "frozen" in str(feed(Learner(D, "td", alpha=50.0, compile=False)).standing())


def test_sparse_rows_and_hordes_stand_too():
    indices, reward, rho = tiles(steps=400, width=8)
    sparse = Learner(8, "td", alpha=0.02, gamma=0.9, lam=0.5, sparse=True, compile=False)
    sparse.update_many(indices[:-1], reward, indices[1:], rho, terminated=np.arange(400) % 10 == 9)
    rows = np.zeros((401, 8))
    for i, row in enumerate(indices):
        np.add.at(rows[i], row, 1.0)
    dense = Horde(8, {"a": {"lam": 0.5}, "b": {}}, "td", alpha=0.02, gamma=0.9, compile=False)
    dense.update_many(rows[:-1], reward, rows[1:], rho, terminated=np.arange(400) % 10 == 9)
    found, wanted = sparse.standing(), dense.standing()["a"]
    assert found.distance == pytest.approx(wanted.distance)
    np.testing.assert_allclose(found.least_squares, wanted.least_squares)
    wide = Learner(10**6, "td", alpha=0.1, gamma=0.9, sparse=True, compile=False)
    for t in range(300):
        wide.update([7 * t, 7 * t + 1], 1.0, [7 * t + 7])
    assert "more than 500 features occur" in str(wide.standing())


def badly_scaled(steps=3000):
    stream = make_stream(steps=steps)
    return gradtd.Stream(stream.features * [1.0, 1.0, 0.001, 1.0], stream.steps)


def test_badly_scaled_features_are_said_once():
    learner = Learner(D, "td", alpha=0.001, compile=False)
    for begin in range(0, 1000, 500):
        learner.partial_fit(part(begin, begin + 500, badly_scaled()))
    with pytest.warns(UserWarning, match="features are badly scaled: .* Pass whiten=True") as told:
        learner.partial_fit(part(1000, 2000, badly_scaled()))
    learner.partial_fit(part(2000, 3000, badly_scaled()))
    assert len(told) == 1
    assert learner.standing().badly_scaled
    assert "whiten=True" in str(learner.standing())


def test_a_learner_that_has_not_arrived_says_so_and_one_that_has_does_not():
    stream = gradtd.sample("random_walk_dependent", 21_000, seed=3)
    slow, good = Learner(3, "td", alpha=1e-6), Learner(3, "td", alpha=0.005)
    with pytest.warns(UserWarning, match=r"after 20000 steps, predictions are .* the learner has not converged"):
        _in_steps(slow, stream)
    assert slow.standing().arrived is False
    _in_steps(good, stream)  # a warning would be an error
    assert good.standing().arrived


def _in_steps(learner, stream):
    rows = [stream.features[k] for k in range(len(stream.features))]
    for row, after, reward, discount, rho, _ in stream.steps.tolist():
        learner.update(rows[row], reward, rows[after], rho, discount)


def test_the_end_of_a_course_is_looked_at(monkeypatch):
    """Between two looks weights may move away; `run_online` knows where the last step was."""
    stream = gradtd.sample("random_walk_dependent", 2500, seed=3)
    slow, good = Learner(3, "td", alpha=1e-6, compile=False), Learner(3, "lstd", solver="batch", compile=False)
    monkeypatch.setattr("gradtd.running.online.watched_learner.FIRST_STANDING", 2000)
    with pytest.warns(UserWarning, match=r"after 2500 steps, predictions are .* the learner has not converged"):
        gradtd.run_online(slow, stream, progress=False)
    gradtd.run_online(good, stream, progress=False)  # a warning would be an error
    assert good.standing().arrived


def test_a_look_in_between_asks_for_more_than_a_tenth():
    learner = Learner(D, "lstd", solver="batch", ridge=0.0, compile=False).partial_fit(STREAM)
    near = replace(learner.standing(), distance=2.0, part=0.09)
    assert near.arrived
    assert near.is_within(SURE_PART) is False
    assert replace(near, distance=0.4).is_within(SURE_PART)


def test_a_warning_that_is_an_error_takes_no_step_and_comes_once():
    learner = Learner(2, "td", alpha=0.1, gamma=0.5, compile=False)
    rows = np.array([[1.0, 1e-4], [1.0, -1e-4]])
    raised = 0
    for t in range(1500):
        try:
            learner.update(rows[t % 2], 1.0, rows[1 - t % 2])
        except UserWarning:
            raised += 1
    assert (raised, learner.seen) == (1, 1499)


class TestWhiten:
    def _steps(self, steps=1500):
        return badly_scaled(steps)

    @pytest.mark.parametrize("way", ["update", "update_many", "partial_fit", "saved"])
    def test_it_is_learning_on_whitened_features(self, way, tmp_path):
        stream = self._steps()
        x = stream.features[stream.steps.row]
        size, basis = np.linalg.eigh(x[:1000].T @ x[:1000] / 1000)
        W = basis @ np.diag(1 / np.sqrt(size)) @ basis.T
        wanted = W @ gradtd.learn(gradtd.Stream(stream.features @ W, stream.steps), "td", alpha=0.01).theta
        learner = Learner(D, "td", alpha=0.01, whiten=True, compile=False)
        ends = np.r_[stream.steps.episode[1:] != stream.steps.episode[:-1], True]
        for begin, end in ((0, 1000), (1000, 1200), (1200, 1500)):
            if way in ("update", "saved"):
                self._feed(learner, stream, ends, begin, end)
            elif way == "update_many":
                steps = stream.steps[begin:end]
                rows = (stream.features[steps.row], stream.features[steps.next_row])
                numbers = (steps.rho, steps.discount)
                learner.update_many(rows[0], steps.reward, rows[1], *numbers, truncated=ends[begin:end])
            else:
                learner.partial_fit(gradtd.Stream(stream.features, stream.steps[begin:end]))
                if ends[end - 1]:
                    learner.new_episode()
            if way == "saved":
                learner.save(tmp_path / "it.npz")
                learner = Learner.load(tmp_path / "it.npz", compile=False)
        assert learner.seen == 1500
        np.testing.assert_allclose(learner.theta, wanted, rtol=1e-9)
        assert learner.predict(THETA0) == pytest.approx(THETA0 @ wanted)
        if way == "saved":
            return  # a file of a rule that draws no old steps has none for a standing
        assert learner.standing().condition < 2
        np.testing.assert_allclose(learner.standing().least_squares, self._best(stream), rtol=1e-6)

    def _best(self, stream):
        x, after, steps = stream.features[stream.steps.row], stream.features[stream.steps.next_row], stream.steps
        weighted = steps.rho[:, None] * x
        return -np.linalg.solve(weighted.T @ (steps.discount[:, None] * after - x), weighted.T @ steps.reward)

    def _feed(self, learner, stream, ends, begin, end):
        for t in range(begin, end):
            step = stream.steps[t]
            phi, phi_next = stream.features[step.row], stream.features[step.next_row]
            learner.update(phi, step.reward, phi_next, step.rho, step.discount, truncated=bool(ends[t]))

    def test_before_the_map_is_known_steps_wait_and_the_start_weights_predict(self, tmp_path):
        stream = self._steps()
        learner = Learner(D, "td", alpha=0.01, whiten=True, theta0=THETA0, compile=False)
        self._feed(learner, stream, np.zeros(1500, bool), 0, 400)
        assert (learner.seen, learner.updates) == (400, 0)
        assert learner.predict(np.eye(D)).tolist() == THETA0.tolist()
        learner.save(tmp_path / "it.npz")
        again = Learner.load(tmp_path / "it.npz", compile=False)
        for one in (learner, again):
            self._feed(one, stream, np.zeros(1500, bool), 400, 1200)
        assert again.theta.tobytes() == learner.theta.tobytes()
        assert learner.updates == 1200

    def test_a_damaged_file_is_refused(self, tmp_path):
        path = tmp_path / "it.npz"
        learner = Learner(D, "td", alpha=0.01, whiten=True, compile=False)
        self._feed(learner, self._steps(), np.zeros(1500, bool), 0, 400)
        learner.save(path)
        with np.load(path) as found:
            whole = {name: found[name] for name in found.files}
        header = json.loads(whole["header"].tobytes())
        header.pop("sha256")  # whoever means harm would write the right one
        whole["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        for change, sentence in (
            ({"whiten.phi": np.zeros((400, 2))}, r"the file's whitening has type float64 and shape \(400, 2\)"),
            ({"whiten.over": np.zeros(3, bool)}, "buffered steps are damaged"),
            ({"whiten.numbers": -whole["whiten.numbers"]}, "buffered steps are damaged"),
            ({"whiten.phi_next": None}, "is not a file that Learner.save wrote, or it is damaged"),
        ):
            changed = {name: array for name, array in (whole | change).items() if array is not None}
            np.savez(path, **changed)
            with pytest.raises(InputError, match=sentence):
                Learner.load(path, compile=False)

    def test_what_it_does_not_take_is_refused(self):
        learner = Learner(D, "td", alpha=0.1, whiten=True, compile=False)
        with pytest.raises(InputError, match="counts episodes itself"):
            learner.update(THETA0, 1.0, THETA0, discount=0.9, episode=3)
        with pytest.raises(InputError, match="leave sparse=True out"):
            Learner(D, "td", alpha=0.1, whiten=True, sparse=True)
        with pytest.raises(InputError, match="takes at most 2000 features"):
            Learner(3000, "td", alpha=0.1, whiten=True)
        with pytest.raises(InputError, match=r"phi must be finite: phi\[0\] is nan"):
            learner.update([np.nan] * D, 1.0, THETA0, discount=0.9)


def test_the_picture_and_the_page(tmp_path):
    learner = Learner(D, "td", alpha=0.01, compile=False)
    with pytest.raises(InputError, match="there is no curve yet"):
        learner.plot()
    assert "<svg" not in learner._repr_html_()
    for begin in range(0, 1500, 300):
        learner.partial_fit(part(begin, begin + 300, LONG))
    learner.partial_fit(part(0, 240, LONG))
    assert learner.plot(tmp_path / "it.svg").read_text().count("<path") > 3
    assert "value at the start of episodes" in learner._repr_html_()
    assert [kept.seen for kept in learner._monitor.kept] == [1200]
