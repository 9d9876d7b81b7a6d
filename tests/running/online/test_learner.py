"""Learning while the data arrive gives the weights of `gradtd.learn` on the whole stream, to the last bit."""

import functools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradtd
from gradtd import ALGORITHMS, InputError, Learner
from gradtd.compiled.buffers import SPLITS, by_coin
from gradtd.running.online import queue, window
from gradtd.running.settings import parameters

D = 4


def make_stream(steps=240, seed=11):
    """Episodes of 1 to 20 steps, every third of them cut off, with random ratios, discounts, rewards and features."""
    rng = np.random.default_rng(seed)
    episode = np.repeat(np.arange(steps), rng.integers(1, 21, steps))[:steps]
    ends = np.r_[episode[1:] != episode[:-1], True]
    row = np.arange(steps) + episode
    return gradtd.Stream.from_arrays(
        features=rng.normal(size=(row[-1] + 2, D)),
        row=row,
        next_row=row + 1,
        reward=rng.normal(size=steps),
        discount=np.where(ends & (episode % 3 > 0), 0.0, rng.random(steps)),
        rho=rng.random(steps) * 2,
        episode=episode,
    )


STREAM = make_stream()
T = len(STREAM)
THETA0 = np.array([0.7, -1.1, 0.4, 0.9])


def feed(learner, stream=STREAM, begin=0, end=None, label=True):
    """One step at a time."""
    for step in stream.steps[begin:end]:
        phi, phi_next = stream.features[step.row], stream.features[step.next_row]
        episode = int(step.episode) if label else None
        learner.update(phi, step.reward, phi_next, step.rho, step.discount, episode)
    return learner


def part(begin, end, stream=STREAM):
    return gradtd.Stream(stream.features, stream.steps[begin:end])


def step_size(name):
    return {"alpha": 0.03} if ALGORITHMS[name].step_size and name != "impression_gtd" else {}


def _cases():
    """Every algorithm that a learner takes, with every split it has; small buffers, so that steps leave them."""
    for name, rule in ALGORITHMS.items():
        if rule.stored:
            continue
        known = parameters(rule)
        small = {"capacity": 13} if "capacity" in known else {}
        small |= {"batch_size": 3} if "batch_size" in known else {}
        splits = ("odd-even", "coin") if "split" in known else ()
        splits += ("episode-index", "none") if rule.draws == "two batches" else ()
        for split in splits or (None,):
            yield name, step_size(name) | small | ({} if split is None else {"split": split})
    auto = {"capacity": 17, "batch_size": 2}
    fixed = {"capacity": 17, "batch_size": 2, "alpha": 0.05}
    for split in SPLITS:
        yield "impression_gtd", fixed | {"split": split, "replacement": False}
        yield "impression_gtd", fixed | {"split": split, "block": 5, "average": "uniform"}
    yield "impression_gtd", auto | {"similarity": "mspbe", "directions": "averaged"}
    yield "impression_gtd", auto | {"similarity": np.diag([1.0, 2, 3, 4])}
    yield "impression_gtd", {"capacity": None, "batch_size": 2}
    yield "impression_gtd", fixed | {"start": 50, "average": "tail", "average_from": 90}
    yield "impression_gtd", fixed | {"alpha": 1e3}  # it diverges
    yield "expected_gtd", {"alpha": 0.03, "fill": 30, "buffers": "both"}
    yield "minibatch_td", {"alpha": 0.03, "capacity": 20, "batch_size": 7, "replacement": False, "fill": 12}
    yield "lstd", {"solver": "batch"}
    for name, rule in ALGORITHMS.items():
        if rule.traces is True and not rule.stored:
            sizes = {key: value for key, value in {"capacity": 13, "batch_size": 3}.items() if key in parameters(rule)}
            yield name, step_size(name) | sizes | {"lam": 0.7}
    yield "impression_gtd", fixed | {"block": 5, "lam": 1.0, "trace": "clipped"}
    yield "true_online_gtd", {"alpha": 0.03, "lam": 0.8}
    yield "td", {"alpha": 0.03, "p": 0.5, "t0": 10, "average": "polynomial"}


CASES = {f"{i} {name} {hyper.get('split', '')}": (name, hyper) for i, (name, hyper) in enumerate(_cases())}


@pytest.fixture
def tight(monkeypatch):
    """So little room that steps and rows are moved to the front all the time; counts how often."""
    moves = {window.Window: 0, window.Rows: 0}

    def counted(owner, name):
        plain = getattr(owner, name)

        def call(self, *arguments):
            moves[owner] += 1
            return plain(self, *arguments)

        monkeypatch.setattr(owner, name, call)

    monkeypatch.setattr(window, "LEAST", 8)
    monkeypatch.setattr(queue, "LONGEST_QUEUE", 7)
    monkeypatch.setattr("gradtd.running.online.watched_learner.RECENT", 0)
    counted(window.Window, "drop_the_rest")
    counted(window.Rows, "drop_unused")
    return moves


@pytest.mark.parametrize("case", CASES)
def test_fed_one_step_at_a_time_it_has_the_weights_of_learn(case, tight):
    name, hyper = CASES[case]
    at = [1, 60, 133, 134, T]
    wanted = gradtd.learn(STREAM, name, seed=5, snapshots=at, theta0=THETA0, compile=False, **hyper)
    capacity = hyper.get("capacity", 13)
    hyper = {k: v for k, v in hyper.items() if k != "capacity"}
    learner = Learner(D, name, seed=5, theta0=THETA0, compile=False, capacity=capacity, **hyper)
    for begin, end, theta in zip([0, *at[:-1]], at, wanted.thetas, strict=True):
        assert feed(learner, begin=begin, end=end).theta.tobytes() == theta.tobytes()
    assert learner.diverged_at == wanted.diverged_at[0]
    assert learner.seen == T
    assert min(tight.values()) >= (1 if wanted.diverged_at[0] >= 0 or capacity is None else 5)


@pytest.mark.parametrize("name", [pytest.param("impression_gtd", marks=pytest.mark.slow), "td"])
def test_compiled_and_with_the_usual_room_it_is_the_same(name):
    stream = gradtd.sample("random_walk_dependent", 20_000, seed=2)
    bounded = {"capacity": 700} if name == "impression_gtd" else {}
    wanted = gradtd.learn(stream, name, **step_size(name), **bounded)
    learner = feed(Learner(3, name, capacity=700, **step_size(name)), stream, label=False)
    assert learner.theta.tobytes() == wanted.theta.tobytes()
    assert (
        Learner(3, name, capacity=700, **step_size(name)).partial_fit(stream).theta.tobytes() == learner.theta.tobytes()
    )


WAYS = ("update", "unlabelled", "partial_fit")
MIXED = (
    ("impression_gtd", {"capacity": 17, "batch_size": 2, "split": "coin"}),
    ("impression_gtd", {"capacity": 17, "batch_size": 2, "split": "episode-index", "block": 7}),
    ("impression_gtd", {"capacity": 17, "batch_size": 2, "lam": 0.8}),
    ("emphatic_lstd", {"lam": 0.4}),
    ("etd", {"alpha": 0.03}),
    ("minibatch_tdc", {"alpha": 0.03, "batch_size": 5}),
    ("minibatch_td", {"alpha": 0.03, "batch_size": 5, "capacity": 9}),
)


@functools.cache
def _whole(case):
    name, hyper = MIXED[case]
    return gradtd.learn(STREAM, name, snapshots=[T], compile=False, **hyper).theta.tobytes()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(range(len(MIXED))),
    st.lists(
        st.tuples(st.integers(1, 90), st.sampled_from(WAYS), st.sampled_from(["", "predict", "save"])), max_size=9
    ),
)
def test_parts_of_any_size_in_any_way_give_the_same_bytes(tmp_path_factory, case, parts):
    name, hyper = MIXED[case]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "LEAST", 8)
        patch.setattr(queue, "LONGEST_QUEUE", 32)
        path = tmp_path_factory.mktemp("saved") / "it.npz"
        assert _in_parts(Learner(D, name, compile=False, **hyper), parts, path).theta.tobytes() == _whole(case)


def _in_parts(learner, parts, path):
    begin = 0
    for size, way, then in [*parts, (T, "partial_fit", "")]:
        end = min(T, begin + size)
        if begin == end:
            break
        if begin and STREAM.steps.episode[begin] != STREAM.steps.episode[begin - 1]:
            learner.new_episode()
        if way == "partial_fit":
            learner.partial_fit(part(begin, end))
        else:
            _feed_without_labels(learner, begin, end)
        if then == "predict":
            assert learner.predict(THETA0) == THETA0 @ learner.theta
        elif then == "save":
            learner.save(path)
            learner = Learner.load(path, compile=False)
        begin = end
    return learner


def _feed_without_labels(learner, begin, end):
    """Episodes that were cut off are announced, the others end by their discount."""
    for t in range(begin, end):
        if t > begin and STREAM.steps.episode[t] != STREAM.steps.episode[t - 1]:
            learner.new_episode()
        feed(learner, begin=t, end=t + 1, label=False)


def test_coins_do_not_depend_on_how_many_episodes_are_known():
    unit = np.sort(np.random.default_rng(0).integers(0, 20_000, 500))
    np.testing.assert_array_equal(by_coin(unit, (3, 0)), by_coin(np.arange(20_000), (3, 0))[unit])


def _bytes_held(learner):
    core = learner._queue
    window = core.runs[0].window
    arrays = [core.rows.table, window.steps, window.side, window.unit, *window.buffers[1:4], window.buffers.stamps]
    return sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("split", [pytest.param(s, marks=[pytest.mark.slow] * (s == "none")) for s in SPLITS])
def test_memory_stays_bounded(split):
    stream = make_stream(steps=12_000)
    learner = Learner(D, "impression_gtd", capacity=600, split=split, replacement=False, batch_size=2)
    learner.partial_fit(part(0, 4000, stream))
    early = _bytes_held(learner)
    for begin in range(4000, len(stream), 100):
        learner.partial_fit(part(begin, begin + 100, stream))
        assert _bytes_held(learner) == early
    steps = 1200 if split in ("odd-even", "coin") else 600
    window = learner._queue.runs[0].window
    assert len(window.steps) <= 1.5 * (steps + queue.LONGEST_QUEUE)
    assert len(window.held()) == steps


def test_rules_that_draw_no_old_steps_keep_a_few():
    learner = Learner(D, "td", alpha=0.01).partial_fit(make_stream(steps=20_000))
    assert len(learner._queue.runs[0].window.steps) <= 1.5 * (queue.RECENT + queue.LONGEST_QUEUE)
    assert len(learner._queue.rows.table) <= 3 * (queue.RECENT + queue.LONGEST_QUEUE)
    horde = gradtd.Horde(D, ["one"], "td", alpha=0.01).partial_fit(make_stream(steps=6000))
    assert len(horde._queue.runs[0].window.steps) == window.LEAST
    assert len(horde._queue.rows.table) == 4 * queue.LONGEST_QUEUE


def test_features_of_a_step_and_the_next_are_stored_once(tight):
    learner = feed(Learner(D, "impression_gtd", capacity=None, compile=False))
    learner.theta  # noqa: B018 (works off the queue)
    assert learner._queue.rows.size == STREAM.n_episodes + T


SAVED = {"capacity": 17, "batch_size": 2, "split": "episode-index", "similarity": np.diag([1.0, 2, 3, 4])}


@pytest.mark.slow
def test_saved_it_goes_on_in_another_process_as_if_it_had_never_stopped(tmp_path):
    path, rest = tmp_path / "it.npz", tmp_path / "rest.npz"
    stream = make_stream(steps=900)
    whole = feed(Learner(D, **SAVED), stream)
    feed(Learner(D, **SAVED), stream, end=501).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["it.npz"]
    with np.load(path, allow_pickle=False) as found:
        assert not any(found[name].dtype.hasobject for name in found.files)
        assert len(found["0.steps"]) == 17
    np.savez(rest, features=stream.features, steps=stream.steps[501:].view(np.ndarray))
    code = (
        "import gradtd, numpy as np\n"
        f"learner, rest = gradtd.Learner.load({str(path)!r}), np.load({str(rest)!r})\n"
        "steps = rest['steps'].astype(gradtd.core.stream.STEP).view(np.recarray)\n"
        "learner.partial_fit(gradtd.Stream(rest['features'], steps))\n"
        "print(learner.theta.tobytes().hex(), learner.updates, learner)"
    )
    found = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert found == f"{whole.theta.tobytes().hex()} {whole.updates} {whole}"


def _push(state, stream, now, hyper):
    for k in range(state.theta.shape[0]):
        state.theta[k] += hyper.push * (1.0 + state.theta[k])


def _read(state, stream, now, hyper):
    for k in range(state.theta.shape[0]):
        state.theta[k] += 1.0


@pytest.mark.parametrize("push", [0.001, 1.0])
def test_being_asked_changes_nothing_even_where_a_rule_works_when_it_is_read(push):
    rule = gradtd.Algorithm("pushed", _push, read=_read, parameters={"push": push})
    wanted = gradtd.learn(STREAM, rule, alpha=1.0, snapshots=[T], compile=False)
    assert (wanted.diverged_at[0] >= 0) == (push == 1.0)
    learner = Learner(D, rule, alpha=1.0, compile=False)
    for begin in range(0, T, 40):
        feed(learner, begin=begin, end=begin + 40)
        assert learner.theta.tobytes() == learner.theta.tobytes()
    assert learner.theta.tobytes() == wanted.theta.tobytes()


def test_after_an_error_in_the_middle_of_learning_nothing_is_said_any_more():
    def fail(state, stream, now, hyper):
        if now.seen == 30:
            raise KeyboardInterrupt

    learner = feed(Learner(D, gradtd.Algorithm("failing", fail), alpha=1.0, compile=False), end=20)
    assert learner.theta.tolist() == [0.0] * D
    with pytest.raises(KeyboardInterrupt):
        feed(learner, begin=20, end=40).predict(THETA0)
    for _ in range(2):
        with pytest.raises(InputError, match=r"learning was interrupted .*: load the last saved file, or start again"):
            learner.theta  # noqa: B018
    with pytest.raises(InputError, match="learning was interrupted"):
        learner.partial_fit(STREAM)


def test_a_learner_that_has_diverged_takes_more_steps_in_the_same_memory(tight):
    learner = feed(Learner(D, "td", alpha=50.0, compile=False))
    held = _bytes_held(learner)
    assert learner.diverged_at > 0
    assert _bytes_held(feed(learner, begin=T - 1, end=T)) == held
    assert feed(learner, STREAM, begin=T - 1).seen == T + 2


@pytest.mark.slow
def test_the_values_of_an_off_policy_random_walk_are_found():
    """At seeds 0 to 9 the largest error is between 0.003 and 0.045; the values span -0.27 to 0.90."""
    problem = gradtd.PROBLEMS["random_walk_tabular"]()
    exact = gradtd.exact(problem)
    learner = Learner(5, seed=0)
    stream = gradtd.sample(problem, 40_000, seed=0)
    assert stream.steps.rho.std() > 0.1
    feed(learner, stream, label=False)
    np.testing.assert_allclose(learner.predict(problem.features), exact.v_pi, atol=0.05)


def test_before_learning_starts_the_start_weights_predict():
    learner = feed(Learner(D, theta0=THETA0, compile=False), end=5)
    assert learner.updates == 0
    assert learner.predict(np.eye(D)).tolist() == THETA0.tolist()


class TestEpisodes:
    def _numbers(self, *steps):
        learner, numbers = Learner(1, "td", alpha=0.1, compile=False), []
        for step in steps:
            if step == "cut":
                learner.new_episode()
            else:
                episode, discount = step
                learner.update([1.0], 0.0, [1.0], discount=discount, episode=episode)
                numbers.append(learner._queue.episodes.number)
        return numbers

    def test_an_episode_ends_with_discount_zero_or_a_cut(self):
        assert self._numbers((None, 0.9), (None, 0), (None, 0.9), "cut", (None, 0.9), "cut", "cut", (None, 0)) == [
            0,
            0,
            1,
            2,
            3,
        ]

    def test_numbers_given_decide_alone(self):
        assert self._numbers((7, 0.9), (7, 0), (7, 0.9), (9, 0.5), (9, 0.5)) == [0, 0, 0, 1, 1]

    def test_steps_without_a_number_go_on_with_the_latest_episode(self):
        assert self._numbers((7, 0.9), (None, 0.9), (7, 0), (None, 0.9), (8, 0.9)) == [0, 0, 0, 1, 2]

    @pytest.mark.parametrize(
        "steps", [[(7, 0.9), (6, 0.9)], [(7, 0.9), "cut", (7, 0.9)], [(7, 0), (None, 0.9), (7, 0.9)]]
    )
    def test_an_episode_must_not_come_back(self, steps):
        with pytest.raises(InputError, match=r"occurs again after 7: the steps of an episode must be contiguous"):
            self._numbers(*steps)

    def test_the_numbers_of_a_part_of_a_log_are_its_own(self):
        learner = Learner(D, "td", alpha=0.03, compile=False)
        learner.update(THETA0, 0.0, THETA0, discount=0.5, episode=7)
        learner.partial_fit(part(0, 3)).update(THETA0, 0.0, THETA0, discount=0.5, episode=7)
        assert STREAM.steps.episode[2] == 0
        assert learner._queue.episodes.number == 0
        learner.partial_fit(STREAM)
        with pytest.raises(InputError, match="occurs again after 7"):
            learner.update(THETA0, 0.0, THETA0, discount=0.5, episode=7)

    def test_a_step_that_was_refused_leaves_no_trace(self):
        learner = feed(Learner(D, "td", alpha=0.03, compile=False), end=100)
        step = {"phi": THETA0, "reward": 1.0, "phi_next": THETA0, "discount": 0.5, "rho": 1.0}
        for bad in ({"phi_next": [np.nan] * D}, {"rho": -1}, {"discount": 2}, {"episode": -1}):
            with pytest.raises(InputError):
                learner.update(**step | bad)
        assert feed(learner, begin=100).theta.tobytes() == gradtd.learn(STREAM, "td", alpha=0.03).theta.tobytes()
