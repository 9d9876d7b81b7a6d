"""A loop around a learner: what it feeds, what it tells, and that it goes on from its file as if never stopped."""

import json

import gymnasium
import numpy as np
import pytest

import gradtd
from gradtd import InputError, Learner, run_online


class Corridor(gymnasium.Env):
    """Five places; right or left, with a push of chance; a prize behind the last."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(1, 4))
        return self.place, {}

    def step(self, action):
        right = action == 1 if self.np_random.random() < 0.9 else action == 0
        self.place += 1 if right else -1
        over = self.place in (-1, 5)
        return (0 if over else self.place), float(self.place == 5), over, False, {}


BEHAVIOUR = np.full((5, 2), 0.5)
TARGET = np.tile([0.3, 0.7], (5, 1))


def learner(**more):
    return Learner(5, "td", **{"alpha": 0.02, "gamma": 0.9, "compile": False} | more)


def play(one, steps, **more):
    return run_online(one, Corridor(), steps, **{"behaviour": BEHAVIOUR, "target": TARGET, "every": 200} | more)


def test_the_learner_gets_the_steps_ratios_and_ends_of_the_environment(monkeypatch):
    taken, one, plain = [], learner(), Learner.update
    monkeypatch.setattr(Learner, "update", lambda self, *a, **k: (taken.append((*a, k)), plain(self, *a, **k))[1])
    course = play(one, 500, max_steps=7)
    assert one.seen == len(taken) == 500
    ratios = {round(step[3], 12) for step in taken}
    assert ratios == {0.6, 1.4}
    ends = [t for t, step in enumerate(taken) if step[4]["terminated"] or step[4]["truncated"]]
    lengths = np.diff(np.r_[-1, ends])
    assert lengths.max() == 7
    assert len(course.returns) == one._queue.episodes.number + 1 == len(ends)
    for t, (phi, reward, phi_next, _, end) in enumerate(taken[:-1]):
        if t not in ends:
            assert phi_next.tolist() == taken[t + 1][0].tolist()
        assert phi.sum() == 1
        assert not reward or end["terminated"]
    assert sum(step[1] for step in taken) == sum(course.returns)


def test_the_curve_is_the_value_where_episodes_start_and_the_callback_can_stop():
    seen, one = [], learner()
    course = play(one, 5000, callback=lambda course: seen.append(course.learner.seen) or len(seen) == 4)
    assert seen == course.steps == [200, 400, 600, 800]
    assert (one.seen, course.stopped) == (800, True)
    assert course.value == pytest.approx(np.mean([one.predict(row) for row in course.starts]))
    assert repr(course).startswith("Course(800 steps, start value")
    assert "<table>" in course._repr_html_()


@pytest.mark.slow
def test_the_value_is_found():
    """Least squares is within its error of the truth, .345; the learner within a tenth of least squares."""
    course = play(learner(alpha=0.01, compile=None), 30_000)
    standing = course.learner.standing()
    assert standing.part < 0.1
    assert abs(standing.start_least_squares - course.value) < 0.05


@pytest.mark.parametrize("rule", [{}, {"algorithm": "impression_gtd", "alpha": "auto", "batch_size": 4}])
def test_from_its_file_a_course_goes_on_as_if_it_had_never_stopped(tmp_path, rule):
    def fresh():
        return Learner(5, rule.get("algorithm", "td"), gamma=0.9, compile=False, **(
            {"alpha": 0.02} if not rule else {k: v for k, v in rule.items() if k != "algorithm"}))  # fmt: skip

    whole = play(fresh(), 1500)
    path = tmp_path / "course.npz"
    play(fresh(), 1500, checkpoint=path, callback=lambda course: course.learner.seen >= 800)
    again = fresh()
    course = play(again, 1500, checkpoint=path)
    assert again.theta.tobytes() == whole.learner.theta.tobytes()
    assert (course.steps, course.values, course.returns) == (whole.steps, whole.values, whole.returns)
    assert Learner.load(path, compile=False).seen <= 1500


def test_a_recorded_stream_is_followed_and_resumed(tmp_path):
    stream = gradtd.sample("random_walk_tabular", 3000, seed=4)
    one, path = Learner(5, "td", alpha=0.05, compile=False), tmp_path / "it.npz"
    course = run_online(one, stream, every=700)
    assert one.theta.tobytes() == gradtd.learn(stream, "td", alpha=0.05, compile=False).theta.tobytes()
    assert course.steps == [700, 1400, 2100, 2800]
    half = Learner(5, "td", alpha=0.05, compile=False)
    run_online(half, stream, every=700, checkpoint=path, callback=lambda course: course.learner.seen == 1400)
    assert half.seen == 1400
    again = Learner(5, "td", alpha=0.05, compile=False)
    resumed = run_online(again, stream, every=700, checkpoint=path)
    assert again.theta.tobytes() == one.theta.tobytes()
    assert resumed.values == course.values
    run_online(again, stream, 3500)
    assert again.seen == 3500


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "it.npz"
    play(learner(), 500, checkpoint=path)
    with np.load(path) as found:
        whole = {name: found[name] for name in found.files}
    header = json.loads(whole["header"].tobytes())
    header.pop("sha256")  # whoever means harm would write the right one
    whole["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    for name in ("course.steps", "course.starts"):
        np.savez(path, **{label: array for label, array in whole.items() if label != name})
        with pytest.raises(InputError, match="is not a checkpoint that run_online wrote, or it is damaged"):
            play(learner(), 600, checkpoint=path)
    np.savez(path, **whole)
    assert play(learner(), 600, checkpoint=path).learner.seen == 600


def test_progress_and_the_picture(tmp_path):
    heard = []
    course = play(learner(), 600, progress=lambda done, total: heard.append((done, total)), plot=tmp_path / "it.svg")
    assert heard[0] == (1, 600)
    assert heard[-1] == (600, 600)
    assert (tmp_path / "it.svg").stat().st_size > 1000
    assert course.plot(tmp_path / "it.png").exists()


def test_features_of_observations():
    env = gymnasium.make("CartPole-v1")
    wide = Learner(5, "td", alpha=0.01, gamma=0.9, compile=False)
    run_online(wide, env, 100, behaviour="uniform", features=lambda seen: np.append(seen, 1.0))
    fitted = gradtd.make_features("fourier", order=1).fit(np.array([[-1.0] * 4, [1.0] * 4]))
    mapped = Learner(fitted.n_features, "td", alpha=0.01, gamma=0.9, compile=False)
    run_online(mapped, "CartPole-v1", 100, behaviour="uniform", features=fitted)
    tiles = Learner(100, "td", alpha=0.01, gamma=0.9, sparse=True, compile=False)
    run_online(tiles, env, 100, behaviour="uniform", features=lambda seen: np.array([int(10 * abs(seen[2])), 50]))
    for one in (wide, mapped, tiles):
        assert one.seen == 100
        assert one.theta.any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"behaviour": None}, "run_online needs the behaviour policy"),
        ({"every": 0}, "every must be at least 1"),
        ({"features": 3}, "features must be a function of an observation"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"steps": None}, "steps must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(change, sentence):
    with pytest.raises(InputError, match=sentence):
        play(learner(), **{"steps": 10} | change)


def test_learners_and_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match="give the learner gamma="):
        play(learner(gamma=None), 10)
    with pytest.raises(InputError, match="Corridor has 5 states, with one feature each, but the learner has 4"):
        play(Learner(4, "td", alpha=0.1, gamma=0.9), 10)
    with pytest.raises(InputError, match="run_online takes a Learner, got Horde"):
        play(gradtd.Horde(5, ["a"], "td", alpha=0.1), 10)
    path = tmp_path / "it.npz"
    play(learner(), 500, checkpoint=path)
    with pytest.raises(InputError, match="is not a checkpoint of a run with this seed"):
        play(learner(), 500, checkpoint=path, seed=3)
    with pytest.raises(InputError, match="belongs to a learner with other settings"):
        play(learner(alpha=0.5), 500, checkpoint=path)
    learner().save(path)
    with pytest.raises(InputError, match="is not a checkpoint"):
        play(learner(), 500, checkpoint=path)
