"""Learners with lam keep sparse rows and sparse traces: the weights of `gradtd.learn`, however wide the rows are."""

import copy
import json

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import Horde, InputError, Learner
from gradtd.compiled.traces import Tracing, traces_of
from gradtd.running.online import growing_rows, queue, window
from gradtd.running.online.growing_rows import GrowingRows

WIDE, N = 40_000, 260
BUFFERS = {"batch_size": 3, "capacity": 30}
RULES = {
    "td": {"alpha": 0.02},
    "tdc": {"alpha": 0.02},
    "etd": {"alpha": 0.001},
    "impression_gtd": {"alpha": 0.01, **BUFFERS},
    "true_online_td": {"alpha": 0.02},
    "lstd": {},
}
COLUMNS = 60
NARROW = {"lstd": 12, "true_online_td": COLUMNS}  # one keeps a matrix, the other reads all weights in every step


def make_stream(width, kind=np.float64):
    """Rows grow 1000 times in the first half and turn to other columns every 12 steps.

    Episodes of 1 to 70 steps end, are cut off, or meet a ratio of 0.
    """
    rng = np.random.default_rng(3)
    columns = np.sort(rng.permuted(np.tile(np.arange(6), (N + 1, 1)), axis=1)[:, :3], axis=1)
    used = np.linspace(0, width - 1, min(COLUMNS, width)).astype(int)
    columns = used[(columns + 6 * (np.arange(N + 1) // 12)[:, None]) % len(used)]
    scale = np.minimum(10.0 ** (6 * np.arange(N + 1) / N - 3), 1.0)
    data = (rng.standard_normal((N + 1, 3)) * scale[:, None]).astype(kind)
    features = scipy.sparse.csr_array((data.ravel(), columns.ravel(), 3 * np.arange(N + 2)), shape=(N + 1, width))
    episode = np.repeat(np.arange(9), [1, 70, 2, 40, 7, 60, 1, 50, 29])
    last = np.r_[episode[1:] != episode[:-1], True]
    rho = rng.choice([0.0, 0.5, 1.0, 1.5], N, p=[0.02, 0.28, 0.4, 0.3])
    return gradtd.Stream.from_arrays(
        features=features, row=np.arange(N), next_row=np.arange(1, N + 1), reward=rng.standard_normal(N),
        discount=np.where(last & (episode % 2 == 0), 0.0, 0.95), rho=rho, episode=episode,
    )  # fmt: skip


STREAMS = {width: make_stream(width) for width in (12, COLUMNS, WIDE)}


def stream_for(rule):
    return STREAMS[NARROW.get(rule, WIDE)]


def feed(learner, stream, begin, end):
    for step in stream.steps[begin:end]:
        phi, phi_next = (stream.features[[int(step[end])]] for end in ("row", "next_row"))
        learner.update(phi, step.reward, phi_next, step.rho, step.discount, episode=int(step.episode))
    return learner


def fit_part(learner, stream, begin, end):
    if begin and stream.steps.episode[begin] != stream.steps.episode[begin - 1]:
        learner.new_episode()
    return learner.partial_fit(stream.with_steps(stream.steps[begin:end]))


def new(rule, lam, width=None, **more):
    given = {"capacity": None, **RULES[rule], "lam": lam, "seed": 2, "compile": False, **more}
    return Learner(width or NARROW.get(rule, WIDE), rule, **given)


def learned(rule, lam, stream=None, **more):
    given = {**RULES[rule], "lam": lam, "seed": 2, "compile": False, "snapshots": [N], **more}
    theta = gradtd.learn(stream or stream_for(rule), rule, **given).thetas[-1]
    assert np.abs(theta).max() > 1e-3
    return theta.tobytes()


def held_traces(learner):
    learner.updates  # noqa: B018 (the steps that wait are learned from)
    return learner._queue.runs[0].window.traces


@pytest.fixture
def tight(monkeypatch):
    """So little room that steps, rows and traces are moved to the front all the time; counts how often."""
    moves, plain = {"rows": 0, "traces": 0}, GrowingRows.keep_only

    def counted(self, kept):
        moves["traces" if type(self) is GrowingRows else "rows"] += 0 < len(kept) < self.size
        plain(self, kept)

    monkeypatch.setattr(growing_rows, "LEAST_ROOM", 8)
    monkeypatch.setattr(growing_rows, "_PIECE", 4)
    monkeypatch.setattr(window, "LEAST", 8)
    monkeypatch.setattr(queue, "LONGEST_QUEUE", 7)
    monkeypatch.setattr("gradtd.running.online.watched_learner.RECENT", 0)
    monkeypatch.setattr(GrowingRows, "keep_only", counted)
    return moves


@pytest.mark.parametrize(
    ("rule", "lam"),
    [(rule, 0.8) for rule in RULES] + [("td", 0.3), ("td", 1.0), ("impression_gtd", 0.3), ("impression_gtd", 1.0)],
)
def test_a_learner_has_the_weights_of_learn(rule, lam, tight, tmp_path):
    """Step by step, in parts, and saved in the middle of an episode; with a memory that is full."""
    stream, wanted, path = stream_for(rule), learned(rule, lam), tmp_path / "learner.npz"
    assert feed(new(rule, lam), stream, 0, N).theta.tobytes() == wanted
    assert tight["rows"] > 5
    assert tight["traces"] > 5 or rule.startswith("true_online")  # which keep their own
    learner = new(rule, lam)
    for begin, end in ((0, 30), (30, 71), (71, 100), (100, 150)):  # 71 follows an episode that was cut off
        fit_part(learner, stream, begin, end)
    learner.save(path)
    again = Learner.load(path, compile=False)
    assert fit_part(again, stream, 150, N).theta.tobytes() == wanted
    assert fit_part(learner, stream, 150, N).theta.tobytes() == wanted, "saving has changed it"


def test_traces_of_a_learner_are_those_of_the_stream():
    """Their bytes: so what is dropped does not depend on features that are still to come."""
    stream = STREAMS[WIDE]
    wanted = traces_of(stream, Tracing(0.3), False)
    full = traces_of(gradtd.Stream(STREAMS[COLUMNS].features.toarray(), stream.steps), Tracing(0.3), False)
    assert (np.diff(wanted.begin) < np.count_nonzero(full, axis=1)).sum() > 50, "nothing was dropped"
    for begin in range(20, N, 60):
        found = held_traces(feed(new("td", 0.3), stream, 0, begin + 1)).table
        last, here = slice(*wanted.begin[begin : begin + 2]), slice(*found.begin[-2:])
        assert wanted.data[last].tobytes() == found.data[here].tobytes()
        assert wanted.indices[last].tobytes() == found.indices[here].tobytes()


def test_a_decayed_entry_is_dropped_and_a_new_trace_has_a_measure_of_its_own():
    """An entry of 1, then hundred steps elsewhere; in the next episode features of 1e-20 are all there is."""
    one, other = (scipy.sparse.csr_array(([1.0], ([0], [k])), shape=(1, WIDE)) for k in (7, 9))
    learner = new("td", 0.5)
    learner.update(one, 0.0, other, discount=0.5, episode=0)
    lengths = []
    for _ in range(40):
        learner.update(other, 0.0, other, discount=0.5, episode=0)
        lengths.append(int(np.diff(held_traces(learner).table.begin)[-1]))
    assert lengths == [2] * 26 + [1] * 14  # 4^-27 is the first below 1e-16
    learner.update(1e-20 * one, 0.0, other, discount=0.5, episode=1)
    assert held_traces(learner).table.data[-1] == 1e-20


def test_a_million_features_cost_what_their_entries_do():
    stream = make_stream(10**6)
    learner = fit_part(new("impression_gtd", 0.8, 10**6), stream, 0, N)
    kept = held_traces(learner)
    assert kept.size == learner._queue.runs[0].window.size
    assert kept.used <= COLUMNS * kept.size
    assert len(kept.whole.data) < 20_000
    assert learner.theta[stream.features.indices].any()


def test_memory_is_bounded_by_what_is_held(tight):
    learner = new("impression_gtd", 0.8)
    for _ in range(2):
        fit_part(learner, STREAMS[WIDE], 0, N)
    kept, most = held_traces(learner), 110  # 60 steps in the buffers, 7 new ones, and half as many again
    assert kept.size <= len(learner._queue.runs[0].window.steps) < most
    assert len(kept.whole.begin) < 1.5 * most
    assert len(kept.whole.data) < 1.5 * COLUMNS * most


def test_a_horde_has_traces_of_each_lambda(tmp_path):
    demons = {"short": {"lam": 0.3}, "long": {"lam": 0.9}, "none": {"lam": 0.0}}
    horde = Horde(WIDE, demons, "td", alpha=0.02, compile=False)
    stream, path = STREAMS[WIDE], tmp_path / "horde.npz"
    feed(horde, stream, 0, 130).save(path)
    for one in (horde, Horde.load(path, compile=False)):
        theta = feed(one, stream, 130, N).theta
        for name, settings in demons.items():
            assert theta[name].tobytes() == learned("td", settings["lam"]), name


def test_rows_of_float32_have_traces_of_float64():
    stream = make_stream(WIDE, np.float32)
    learner = feed(new("td", 0.8), stream, 0, N)
    assert learner._queue.rows.table.data.dtype == np.float32
    assert held_traces(learner).table.data.dtype == np.float64
    assert learner.theta.tobytes() == learned("td", 0.8, stream)


@pytest.mark.slow
def test_compiled_learners_have_the_weights_of_learn():
    more = {"compile": True}
    learner = feed(new("impression_gtd", 0.8, **more), STREAMS[WIDE], 0, N)
    assert learner.theta.tobytes() == learned("impression_gtd", 0.8, **more)


def test_a_copy_goes_on_as_the_learner_does():
    learner = feed(new("impression_gtd", 0.8), STREAMS[WIDE], 0, 100)
    other = copy.deepcopy(learner)
    assert feed(other, STREAMS[WIDE], 100, N).theta.tobytes() == feed(learner, STREAMS[WIDE], 100, N).theta.tobytes()


def test_a_learner_that_has_diverged_keeps_no_traces(tmp_path):
    learner = feed(new("td", 0.8, alpha=1e4, limit=1e6), STREAMS[WIDE], 0, N)
    assert learner.diverged_at >= 0
    assert held_traces(learner).size == 0
    learner.save(tmp_path / "learner.npz")
    again = feed(Learner.load(tmp_path / "learner.npz", compile=False), STREAMS[WIDE], N - 5, N)
    assert again.theta.tobytes() == learner.theta.tobytes()


def test_dense_traces_beyond_memory_are_refused_before_anything_changes(monkeypatch):
    monkeypatch.setattr("gradtd.core.memory_limits.available", lambda: 8 * WIDE * window.LEAST - 1)
    learner = new("td", 0.8)
    with pytest.raises(InputError, match="give sparse rows"):
        learner.update(np.ones(WIDE), 0.0, np.ones(WIDE), discount=0.9)
    assert learner.seen == 0
    assert feed(learner, STREAMS[WIDE], 0, N).theta.tobytes() == learned("td", 0.8)


def _column_outside(arrays):
    arrays["0.traces.indices"][-1] = WIDE


def _falling(arrays):
    arrays["0.traces.begin"][1] = 10**6


def _negative(arrays):
    arrays["0.traces.begin"][1] = -1


def _a_row_too_few(arrays):
    arrays["0.traces.begin"] = np.delete(arrays["0.traces.begin"], 1)


def _columns_fall(arrays):
    begin = int(arrays["0.traces.begin"][-2])
    arrays["0.traces.indices"][begin : begin + 2] = arrays["0.traces.indices"][begin : begin + 2][::-1]


def _whole_numbers(arrays):
    arrays["0.traces.data"] = arrays["0.traces.data"].astype(np.int64)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_column_outside, r"0.traces.indices must be a column of features, 0 to 39999"),
        (_falling, "0.traces.begin must increase from 0"),
        (_negative, "0.traces.begin must increase from 0"),
        (_a_row_too_few, "the file's 0.traces.begin has type int64 and shape"),
        (_columns_fall, "0.traces.indices must increase along a row"),
        (_whole_numbers, "the file's 0.traces.data has type int64"),
        (lambda arrays: arrays.pop("0.traces.data"), "is not a file that Learner.save wrote, or it is damaged"),
        (lambda arrays: arrays.pop("0.trace.largest"), "is not a file that Learner.save wrote, or it is damaged"),
    ],
)
def test_a_file_whose_traces_are_damaged_is_refused(change, sentence, tmp_path):
    path = tmp_path / "learner.npz"
    feed(new("impression_gtd", 0.8), STREAMS[WIDE], 0, 60).save(path)
    Learner.load(path, compile=False)
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(arrays["header"].tobytes())
    header.pop("sha256")  # whoever means harm would write the right one
    change(arrays)
    np.savez(path, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    with pytest.raises(InputError, match=sentence):
        Learner.load(path, compile=False)
