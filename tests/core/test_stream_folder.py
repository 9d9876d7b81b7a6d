"""A stream in a folder: the same bytes as from memory, and nothing in it is believed before it was checked."""

import errno
import hashlib
import json
import mmap
import pickle
import shutil
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd.compiled import buffers, traces
from gradtd.core import stream_folder
from gradtd.core.stream_folder import COLUMNS, ENDS, FEATURES, HEADER, STEPS, TARGET

STREAM = gradtd.sample("boyan_chain", 3000, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "stream"
    STREAM.save(path)
    return path


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """Several pieces of everything, though the stream is short."""
    monkeypatch.setattr(stream_folder, "BYTES", 4096)
    monkeypatch.setattr(buffers, "AT_ONCE", 700)


def _is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("td", {"alpha": 0.05}),
        ("impression_gtd", {"alpha": 5, "batch_size": 8}),
        ("impression_gtd", {"alpha": 5, "batch_size": 8, "split": "coin", "replacement": False}),
        ("impression_gtd", {"alpha": 5, "batch_size": 8, "split": "episode-index", "capacity": 500}),
        ("minibatch_td", {"alpha": 0.05, "batch_size": 8}),
        ("impression_gtd", {"alpha": 0.5, "batch_size": 8, "lam": 0.8}),
        ("impression_gtd", {"alpha": 0.5, "batch_size": 8, "lam": 0.8, "trace": "tree"}),
    ],
)
def test_learning_has_the_bytes_of_memory(folder, algorithm, more):
    mapped = gradtd.Stream.open(folder)
    assert _is_mapped(mapped.features)
    assert _is_mapped(mapped.view.steps)
    ours, memory = (gradtd.learn(stream, algorithm, seed=5, **more) for stream in (mapped, STREAM))
    assert ours.thetas.tobytes() == memory.thetas.tobytes()


def test_buffers_do_not_depend_on_the_pieces_they_are_made_in(monkeypatch):
    found = []
    for pieces in (700, 10**6):
        monkeypatch.setattr(buffers, "AT_ONCE", pieces)
        made = buffers.SPLITS["coin"].buffers(STREAM, (1, 0))
        found.append((made.side.tobytes(), made.members.tobytes()))
        assert (made.members == np.argsort(made.side, kind="stable")).all()
    assert found[0] == found[1]


@pytest.mark.parametrize("emphatic", [False, True])
def test_traces_of_a_mapped_stream_are_on_disk_with_the_bytes_of_memory(folder, monkeypatch, emphatic):
    wanted = traces.traces_of(STREAM, traces.Tracing(0.8, emphatic=emphatic), compile=False)
    monkeypatch.setattr(traces, "PIECE", 700)
    mapped = gradtd.Stream.open(folder)
    made = traces.traces_of(mapped, traces.Tracing(0.8, emphatic=emphatic), compile=False)
    assert _is_mapped(made)
    assert made.tobytes() == wanted.tobytes()


def test_a_learner_over_parts_has_the_weights_of_one_pass(folder):
    learner = gradtd.Learner(STREAM.n_features, alpha=5, batch_size=8, capacity=400, seed=2)
    seen = 0
    for part in gradtd.Stream.open(folder).parts(500):
        learner.new_episode()
        learner.partial_fit(part)
        seen += len(part)
        assert len(part.features) <= 2 * len(part)
    assert seen == len(STREAM)
    whole = gradtd.learn(STREAM, "impression_gtd", alpha=5, batch_size=8, capacity=400, seed=2)
    assert learner.theta.tobytes() == whole.theta.tobytes()


def test_parts_are_whole_episodes():
    parts = list(STREAM.parts(100))
    assert [len(part) >= 100 for part in parts[:-1]] == [True] * (len(parts) - 1)
    assert sum(part.n_episodes for part in parts) == STREAM.n_episodes
    assert len(list(STREAM.parts(10**6))) == 1


def _labelled(episode):
    steps = STREAM.steps[:4].copy()
    steps["episode"] = episode
    return gradtd.Stream(STREAM.features, steps)


@pytest.mark.parametrize(
    "make",
    [
        lambda: STREAM.with_steps(STREAM.steps[STREAM.begins[7] :]),
        lambda: STREAM.with_steps(STREAM.steps[STREAM.steps["episode"] % 2 == 1]),
        lambda: list(STREAM.parts(500))[2],
        lambda: _labelled([9, 9, 12, 3]),
        lambda: _labelled([-2, -2, -1, -1]),
    ],
)
def test_a_stream_opens_again_whatever_its_episodes_were_called(make, tmp_path):
    stream = make()
    stream.save(tmp_path / "here")
    opened = gradtd.Stream.open(tmp_path / "here")
    assert opened.steps.tobytes() == stream.steps.tobytes()
    assert opened.n_episodes == stream.n_episodes == len(stream.begins) - 1
    assert stream.steps["episode"][0] == 0


def test_some_steps_of_a_mapped_stream_are_a_stream_in_memory(folder, tmp_path):
    begin = STREAM.begins[7]
    late = gradtd.Stream.open(folder).with_steps(STREAM.steps[begin:])
    wanted = STREAM.with_steps(STREAM.steps[begin:])
    late.save(tmp_path / "late")
    for stream in (late, pickle.loads(pickle.dumps(late)), gradtd.Stream.open(tmp_path / "late")):
        assert stream.steps.tobytes() == wanted.steps.tobytes()
    ours, memory = (gradtd.learn(stream, "impression_gtd", alpha=5, batch_size=8) for stream in (late, wanted))
    assert ours.thetas.tobytes() == memory.thetas.tobytes()


def test_what_it_maps_is_not_written_to(folder):
    before = (folder / FEATURES).read_bytes()
    mapped = gradtd.Stream.open(folder)
    mapped.features[0, 0] = 7.0  # numbers of features may change; the file does not
    assert (folder / FEATURES).read_bytes() == before
    with pytest.raises(ValueError, match="read-only"):
        mapped.steps["row"][0] = 5
    assert pickle.loads(pickle.dumps(mapped)).steps.tobytes() == STREAM.steps.tobytes()


def _change(folder, tmp_path, change):
    other = shutil.copytree(folder, tmp_path / "other")
    change(other)
    return other


def _steps(path, **columns):
    """Change a record, with a checksum that is right: what a stranger would send."""
    steps = np.fromfile(path / STEPS, gradtd.core.stream.STEP)
    for name, value in columns.items():
        steps[name][7] = value
    _write(path, STEPS, steps)


def _write(path, name, array):
    array.tofile(path / name)
    header = json.loads((path / HEADER).read_text())
    header["sha256"][name] = hashlib.sha256((path / name).read_bytes()).hexdigest()
    (path / HEADER).write_text(json.dumps(header))


def _header(path, **changed):
    (path / HEADER).write_text(json.dumps(json.loads((path / HEADER).read_text()) | changed))


def _flip(path, name):
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: _steps(p, row=4_000_000_000), "must be a row of features"),
        (lambda p: _steps(p, next_row=10**6), "must be a row of features"),
        (lambda p: _steps(p, reward=np.nan), "reward must be finite"),
        (lambda p: _steps(p, discount=1.5), r"discount must lie in \[0, 1\]"),
        (lambda p: _steps(p, rho=-1.0), "rho must not be negative"),
        (lambda p: _steps(p, episode=1000), "or it is damaged"),
        (lambda p: _write(p, FEATURES, np.full(stream_folder.open_stream(p).features.shape, np.inf)), "must be finite"),
        (lambda p: _flip(p, FEATURES), "or it is damaged"),
        (lambda p: _flip(p, STEPS), "damaged|must"),
        (lambda p: (p / STEPS).write_bytes((p / STEPS).read_bytes()[:-1]), "or it is damaged"),
        (lambda p: _header(p, steps=10**12), "or it is damaged"),
        (lambda p: _header(p, rows=-1), "rows must be between 1 and"),
        (lambda p: _header(p, n_features="4"), "n_features must be"),
        (lambda p: _header(p, made_by="someone"), "is not a stream that gradtd wrote"),
        (lambda p: _header(p, format=9), "has format 9"),
        (lambda p: (p / HEADER).write_text("{"), "is not a stream that gradtd wrote"),
        (lambda p: (p / FEATURES).unlink(), "there is no file"),
        (lambda p: _write(p, TARGET, np.full(len(STREAM), 1.5)), r"target must lie in \[0, 1\]"),
        (lambda p: _write(p, TARGET, np.ones(5)), "or it is damaged"),
        (lambda p: _flip(p, TARGET), "damaged|must"),
    ],
)
def test_what_is_wrong_is_one_sentence(folder, tmp_path, change, sentence):
    with pytest.raises(gradtd.InputError, match=sentence):
        gradtd.Stream.open(_change(folder, tmp_path, change))


def test_the_targets_probabilities_are_stored_where_all_are_known(folder, tmp_path):
    np.testing.assert_array_equal(gradtd.Stream.open(folder).target, STREAM.target)
    gradtd.Stream(STREAM.features, STREAM.steps).save(tmp_path / "without")
    assert gradtd.Stream.open(tmp_path / "without").target is None
    with stream_folder.Writer(tmp_path / "half", "half") as writer:
        for target in (np.ones(1), None):
            writer.add(np.ones((2, 3)), np.zeros(1, gradtd.core.stream.STEP), target)
    assert gradtd.Stream.open(tmp_path / "half").target is None


def _write_uneven(path):
    with stream_folder.Writer(path, "x") as writer:
        for width in (3, 2):
            writer.add(np.ones((2, width)), np.zeros(1, gradtd.core.stream.STEP))


def _write_both(path):
    with stream_folder.Writer(path, "x") as writer:
        for rows in (np.ones((2, 3)), scipy.sparse.csr_array(np.ones((2, 3)))):
            writer.add(rows, np.zeros(1, gradtd.core.stream.STEP))


def test_a_folder_is_whole_or_not_there(tmp_path, folder):
    with pytest.raises(gradtd.InputError, match="already exists"):
        STREAM.save(folder)
    with pytest.raises(gradtd.InputError, match="there is no folder"):
        STREAM.save(tmp_path / "none" / "x")
    writer = stream_folder.Writer(tmp_path / "x", "x")
    with writer:
        writer.add(np.ones((2, 3)), np.zeros(1, gradtd.core.stream.STEP))
        assert [path.name for path in tmp_path.iterdir()] == [writer.part.name]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(gradtd.InputError, match="has 2 features"):
        _write_uneven(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(gradtd.InputError, match="sparse features and others dense"):
        _write_both(tmp_path / "x")


def test_a_full_disk_and_a_file_that_is_not_there_are_told_by_name(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(stream_folder.Writer, "_write", full)
        with pytest.raises(gradtd.InputError, match=r"cannot write to '.*x': No space left on device\."):
            STREAM.save(tmp_path / "x")
    STREAM.save(tmp_path / "x")
    (tmp_path / "x" / "steps.bin").unlink()
    with pytest.raises(gradtd.InputError, match=r"there is no file '.*steps.bin'"):
        gradtd.Stream.open(tmp_path / "x")


SPARSE = gradtd.Stream(scipy.sparse.csr_array(np.where(STREAM.features > 0.3, STREAM.features, 0)), STREAM.steps)


@pytest.fixture(scope="module")
def sparse_folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "sparse"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream_folder, "BYTES", 100)
        SPARSE.save(path)
    return path


def test_sparse_rows_are_mapped_and_have_the_bytes_of_memory(sparse_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_folder, "ROWS", 3)
    mapped = gradtd.Stream.open(sparse_folder)
    assert "sparse" in repr(mapped)
    assert _is_mapped(mapped.features.data)
    assert _is_mapped(mapped.view.features.indices)
    assert (mapped.features != SPARSE.features).nnz == 0
    ours, memory = (gradtd.learn(one, "td", alpha=0.05) for one in (mapped, SPARSE))
    assert ours.thetas.tobytes() == memory.thetas.tobytes()
    assert sum(len(part) for part in mapped.parts(500)) == len(SPARSE)
    assert pickle.loads(pickle.dumps(mapped)).features.nnz == SPARSE.features.nnz
    half = gradtd.Stream(SPARSE.features.astype(np.float32), SPARSE.steps)
    half.save(tmp_path / "half")
    assert gradtd.Stream.open(tmp_path / "half").features.dtype == np.float32
    empty = gradtd.Stream(scipy.sparse.csr_array((2, 3)), _two_steps())
    empty.save(tmp_path / "empty")
    assert gradtd.Stream.open(tmp_path / "empty").features.nnz == 0


def _two_steps():
    steps = np.zeros(2, gradtd.core.stream.STEP)
    steps["next_row"] = 1
    return steps


def _entry(path, name, place, value):
    array = np.fromfile(path / name, np.int32)
    array[place] = value
    _write(path, name, array)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: _entry(p, COLUMNS, 0, 10**6),
        lambda p: _entry(p, COLUMNS, 3, -1),
        lambda p: _entry(p, ENDS, -1, 10**6),
        lambda p: _entry(p, ENDS, 2, -1),
        lambda p: _entry(p, ENDS, 1, 10**9),
        lambda p: _header(p, entries=3),
        lambda p: _flip(p, COLUMNS),
        lambda p: (p / ENDS).unlink(),
    ],
)
def test_indices_of_sparse_rows_are_not_believed(sparse_folder, tmp_path, change):
    with pytest.raises(gradtd.InputError, match=r"damaged|there is no file"):
        gradtd.Stream.open(_change(sparse_folder, tmp_path, change))


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory):
    """Traces of these rows have many more entries than there is room for at first."""
    rng = np.random.default_rng(7)
    steps = np.zeros(900, gradtd.core.stream.STEP)
    steps["row"], steps["next_row"] = np.arange(900), np.arange(1, 901)
    steps["episode"], steps["discount"] = np.arange(900) // 60, 0.95
    steps["rho"], steps["reward"] = rng.choice([0.5, 1.5], 900), rng.normal(size=900)
    features = scipy.sparse.random_array((901, 200), density=0.02, format="csr", rng=rng)
    path = tmp_path_factory.mktemp("store") / "wide"
    gradtd.Stream(features, steps).save(path)
    return path, gradtd.Stream(features, steps)


def _bytes_of(made):
    return [array.tobytes() for array in (made.data, made.indices, made.begin)]


@pytest.mark.parametrize(("piece", "emphatic"), [(1, False), (70, False), (70, True), (899, False)])
def test_sparse_traces_of_a_mapped_stream_are_on_disk_with_the_bytes_of_memory(
    wide_folder, monkeypatch, emphatic, piece
):
    path, stream = wide_folder
    tracing = traces.Tracing(0.9, emphatic=emphatic)
    wanted = traces._traces_of(stream, tracing, compile=False)  # nothing is kept between cases
    assert len(wanted.data) > 5 * 4 * len(stream)
    monkeypatch.setattr(traces, "PIECE", piece)
    made = traces.traces_of(gradtd.Stream.open(path), tracing, compile=False)
    assert all(_is_mapped(array) for array in (made.data, made.indices, made.begin))
    assert _bytes_of(made) == _bytes_of(wanted)
    assert _bytes_of(traces._traces_of(stream, tracing, compile=False)) == _bytes_of(wanted)


def test_learning_from_sparse_traces_on_disk_has_the_bytes_of_memory(wide_folder, monkeypatch):
    path, stream = wide_folder
    monkeypatch.setattr(traces, "PIECE", 100)
    told = {"alpha": 0.01, "batch_size": 8, "lam": 0.9, "seed": 5}
    ours, memory = (gradtd.learn(one, "impression_gtd", **told) for one in (gradtd.Stream.open(path), stream))
    assert ours.thetas.tobytes() == memory.thetas.tobytes()


def test_columns_of_a_row_rise(tmp_path):
    """Compiled code relies on it; a file with right checksums need not be ours."""
    gradtd.Stream(scipy.sparse.csr_array(np.ones((2, 3))), _two_steps()).save(tmp_path / "s")
    _write(tmp_path / "s", COLUMNS, np.array([0, 1, 2, 0, 2, 1], np.int32))
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.Stream.open(tmp_path / "s")


def test_neither_opening_nor_learning_takes_the_memory_of_the_stream(tmp_path, monkeypatch):
    """NumPy's own memory is counted, and what is mapped is none of it."""
    monkeypatch.undo()
    n = 100_000
    steps = np.zeros(n, gradtd.core.stream.STEP)
    steps["row"] = steps["next_row"] = np.arange(n)
    steps["episode"] = np.arange(n) // 10
    steps["rho"] = 1.0
    gradtd.Stream(np.ones((n, 60)), steps).save(tmp_path / "s")
    monkeypatch.setattr(stream_folder, "BYTES", 2**20)
    monkeypatch.setattr(buffers, "AT_ONCE", 2**14)
    gradtd.learn(STREAM, "impression_gtd", alpha=5, batch_size=8)  # compiled before it counts
    tracemalloc.start()
    stream = gradtd.Stream.open(tmp_path / "s")
    gradtd.learn(stream, "impression_gtd", alpha=0.1, batch_size=8, snapshots=[n])
    mapped = tracemalloc.get_traced_memory()[1]
    features = np.fromfile(tmp_path / "s" / FEATURES)
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert features.nbytes == 8 * 60 * n
    assert mapped < features.nbytes / 10
    assert read > features.nbytes
