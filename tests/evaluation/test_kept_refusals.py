"""What sums in a folder are not valid for is said in one sentence, and changes nothing that is kept."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.evaluation import kept_sums, part_sums
from gradtd.evaluation.kept_files import open_store

pytestmark = pytest.mark.usefixtures("small_units")


def _evaluate(log, folder, **more):
    given = {"gamma": 0.9, "progress": False, "threads": 1, "features": "identity"} | more
    return gradtd.evaluate(str(log), machine=gradtd.Machine(checkpoint=folder), **given)


def _states(folder, name, first, last, states=4):
    """A file of episodes of three steps over some states."""
    rng = np.random.default_rng(first)
    n = 3 * (last - first)
    log = {
        "episode": np.repeat(np.arange(first, last), 3),
        "obs": np.r_[np.arange(states), rng.integers(0, states, n - states)],
        "action": rng.integers(0, 2, n),
        "reward": rng.normal(1, 1, n),
        "terminated": np.arange(n) % 3 == 2,
        "behaviour": np.full(n, 0.5),
    }
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(log), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"gamma": 0.8}, r"other settings: gamma was 0\.9 and is now 0\.8\. Use the same settings, or another folder"),
        ({"clip": 2.0}, r"clip was None and is now 2\.0"),
        ({"features": "polynomial:order=2"}, "features was 'identity' and is now 'polynomial:order=2'"),
        ({"features": None}, "features was 'identity' and is now 'auto'"),
        ({"target": "behaviour"}, "target was None and is now 'behaviour'"),
        ({"duplicates": "drop"}, "duplicates was 'refuse' and is now 'drop'"),
        ({"columns": {"observation": ["obs_0"]}}, "columns has changed"),
    ],
)
def test_another_question_is_refused(three, tmp_path, more, message):
    first = _evaluate(three, tmp_path / "sums")
    with pytest.raises(gradtd.InputError, match=message):
        _evaluate(three, tmp_path / "sums", **more)
    assert _evaluate(three, tmp_path / "sums", level=0.9).value == first.value  # what is shown is no part of it


def test_columns_of_another_type_are_refused(three, some_episodes, tmp_path):
    for file in three.iterdir():
        pq.write_table(_with(pq.read_table(file), "obs_1", np.int64), file)
    _evaluate(three, tmp_path / "sums")
    pq.write_table(some_episodes(110, 120), three / "f.parquet")
    with pytest.raises(gradtd.InputError, match="types has changed"):
        _evaluate(three, tmp_path / "sums")


def _with(table, name, kind):
    return table.set_column(table.column_names.index(name), name, pa.array(table[name].to_numpy().astype(kind)))


def test_a_function_is_known_by_its_code(tmp_path):
    log = _states(tmp_path / "log", "a", 0, 40)
    chances = np.array([0.4, 0.6])

    def mostly(share):
        return lambda seen: np.tile([1 - share, share], (len(seen), 1))

    first = _evaluate(log, tmp_path / "sums", features=None, target=mostly(0.7))
    assert _evaluate(log, tmp_path / "sums", features=None, target=mostly(0.7)).value == first.value
    with pytest.raises(gradtd.InputError, match="target has changed"):
        _evaluate(log, tmp_path / "sums", features=None, target=mostly(0.8))
    by_array = lambda seen: np.tile(chances, (len(seen), 1))  # noqa: E731
    second = _evaluate(log, tmp_path / "others", features=None, target=by_array)
    chances[:] = chances[::-1].copy()
    with pytest.raises(gradtd.InputError, match="target has changed"):
        _evaluate(log, tmp_path / "others", features=None, target=by_array)
    assert second.value != first.value


def test_a_function_that_reads_what_nobody_can_compare_is_refused(tmp_path):
    log = _states(tmp_path / "log", "a", 0, 40)
    table = {"share": 0.7}
    by_table = lambda seen: np.tile([1 - table["share"], table["share"]], (len(seen), 1))  # noqa: E731
    with pytest.raises(gradtd.InputError, match=r"the target reads 'table' \(dict\). gradtd could not detect"):
        _evaluate(log, tmp_path / "sums", target=by_table)
    with pytest.raises(gradtd.InputError, match="reads what a _Policy holds"):
        _evaluate(log, tmp_path / "sums", target=_Policy())
    with pytest.raises(gradtd.InputError, match="cannot be stored, because it is code"):
        _evaluate(log, tmp_path / "sums", features=lambda seen: np.eye(4)[seen])


class _Policy:
    def __call__(self, seen):
        return np.full((len(seen), 2), 0.5)


def test_files_that_are_not_given_any_more_are_missed(three, tmp_path):
    found = _evaluate(three, tmp_path / "sums")
    with pytest.raises(
        gradtd.InputError, match=r"b\.parquet' and 1 more files are not among the files given.* give all"
    ):
        _evaluate(three / "e.parquet", tmp_path / "sums")
    assert _evaluate(three, tmp_path / "sums").to_dict() == found.to_dict()


def test_files_of_one_name_are_told_apart(some_episodes, tmp_path):
    for day in range(3):
        (tmp_path / "log" / f"day={day}").mkdir(parents=True)
        pq.write_table(some_episodes(40 * day, 40 * day + 40), tmp_path / "log" / f"day={day}" / "part-0.parquet")
    log = tmp_path / "log" / "*" / "part-0.parquet"
    _evaluate(log, tmp_path / "sums")
    (tmp_path / "log" / "day=1" / "part-0.parquet").rename(tmp_path / "aside.parquet")
    with pytest.raises(gradtd.InputError, match=r"day=1/part-0\.parquet' is not among the files given"):
        _evaluate(log, tmp_path / "sums")


def test_a_copy_of_a_file_is_refused(three, tmp_path):
    _evaluate(three, tmp_path / "sums")
    pq.write_table(pq.read_table(three / "e.parquet"), three / "copy.parquet")
    with pytest.raises(gradtd.InputError, match=r"'copy\.parquet' repeats episode ids of files whose sums are saved"):
        _evaluate(three, tmp_path / "sums")
    (three / "copy.parquet").unlink()
    (three / "copy.parquet").hardlink_to(three / "e.parquet")
    with pytest.raises(gradtd.InputError, match=r"is a copy of '.*\.parquet', and its rows would count twice"):
        _evaluate(three, tmp_path / "sums")


@pytest.mark.parametrize("name", ["f", "a"])
def test_an_episode_that_goes_on_in_a_later_file_is_refused(three, some_episodes, tmp_path, name):
    """Right behind its rows, or anywhere else."""
    _evaluate(three, tmp_path / "sums")
    later = some_episodes(109 if name == "f" else 5, 115 if name == "f" else 6)
    pq.write_table(later, three / f"{name}.parquet")
    with pytest.raises(gradtd.InputError, match=f"'{name}.parquet' repeats episode ids of files"):
        _evaluate(three, tmp_path / "sums")


def test_scattered_rows_are_refused(some_episodes, tmp_path):
    table = some_episodes(0, 40)
    pq.write_table(table.take(np.random.default_rng(0).permutation(len(table))), tmp_path / "log.parquet")
    with pytest.raises(gradtd.InputError, match="rows with the same id are apart: sort it by episode"):
        _evaluate(tmp_path / "log.parquet", tmp_path / "sums")


def test_one_process_at_a_time(three, tmp_path):
    folder = open_store(tmp_path / "sums")
    with folder.locked(), pytest.raises(gradtd.InputError, match=r"process \d+ on .* is writing .* another folder"):
        _evaluate(three, tmp_path / "sums")
    assert _evaluate(three, tmp_path / "sums").verdict


def test_a_folder_of_something_else_is_refused(three, tmp_path):
    with pytest.raises(gradtd.InputError, match="was not written by gradtd evaluate --sums: give another folder"):
        _evaluate(three, three)
    with pytest.raises(gradtd.InputError, match="leave out in_parts=False, or the checkpoint"):
        _evaluate(three, tmp_path / "sums", in_parts=False)
    with pytest.raises(gradtd.InputError, match="need a Parquet file"):
        gradtd.evaluate({"obs": [1.0]}, gamma=0.9, machine=gradtd.Machine(checkpoint=tmp_path / "sums"))


def test_what_was_fitted_must_be_whole(three, tmp_path):
    _evaluate(three, tmp_path / "sums")
    (fitted,) = (tmp_path / "sums").rglob("fitted.npz")
    fitted.write_bytes(fitted.read_bytes()[:-50])
    with pytest.raises(gradtd.InputError, match=r"or it is damaged\. Give all files to a new folder"):
        _evaluate(three, tmp_path / "sums")


def test_a_file_that_changes_while_it_is_read_is_refused(three, tmp_path, monkeypatch):
    real = part_sums.SumPart.__call__

    def touching(self, part):
        (three / "e.parquet").touch()
        return real(self, part)

    with monkeypatch.context() as patched:
        patched.setattr(part_sums.SumPart, "__call__", touching)
        with pytest.raises(gradtd.InputError, match=r"'e\.parquet' was changed while it was read"):
            _evaluate(three, tmp_path / "sums")
    assert _evaluate(three, tmp_path / "sums").value == _evaluate(three, tmp_path / "others").value


def test_a_worker_with_other_code_is_refused(three, tmp_path, monkeypatch):
    codes = iter(["this", "that", "that"])
    monkeypatch.setattr(kept_sums, "code_of_sums", lambda: next(codes))
    with pytest.raises(gradtd.InputError, match="a worker runs another version of gradtd"):
        _evaluate(three, tmp_path / "sums")


def test_states_are_those_of_the_first_files(tmp_path):
    """A new state is refused, and the folder stays of use without its file."""
    log = _states(_states(tmp_path / "log", "a", 0, 40), "b", 40, 80)
    given = {"features": None, "target": "uniform"}
    first = _evaluate(log, tmp_path / "sums", **given)
    plain = gradtd.evaluate(
        str(log), gamma=0.9, target="uniform", progress=False, machine=gradtd.Machine(in_parts=True)
    )
    assert first.value == pytest.approx(plain.value, rel=1e-9)
    assert first.interval == pytest.approx(plain.interval, rel=1e-9)
    _states(log, "c", 80, 120, states=6)
    with pytest.raises(gradtd.InputError, match=r"State [45] was not in the log when features were fitted"):
        _evaluate(log, tmp_path / "sums", **given)
    _states(log, "c", 80, 120)
    second = _evaluate(log, tmp_path / "sums", **given)
    anew = _evaluate(log, tmp_path / "anew", **given)  # not in parts without sums: there the past is tried, too
    assert second.value == pytest.approx(anew.value, rel=1e-9)
    (log / "c.parquet").unlink()
    with pytest.raises(gradtd.InputError, match=r"c\.parquet' is not among the files given"):
        _evaluate(log, tmp_path / "sums", **given)


def test_a_file_that_was_never_added_may_be_taken_away(tmp_path):
    log = _states(tmp_path / "log", "a", 0, 40)
    given = {"features": None, "target": "uniform"}
    first = _evaluate(log, tmp_path / "sums", **given)
    _states(log, "b", 80, 200)
    _states(log, "c", 200, 240, states=6)
    with pytest.raises(gradtd.InputError, match="was not in the log when"):
        _evaluate(log, tmp_path / "sums", **given)
    assert list((tmp_path / "sums").rglob("*-000000.npz"))  # some of it was read
    (log / "b.parquet").unlink()
    (log / "c.parquet").unlink()
    assert _evaluate(log, tmp_path / "sums", **given).to_dict() == first.to_dict()


def test_values_of_actions_have_no_sums_to_keep(tmp_path):
    log = _states(tmp_path / "log", "a", 0, 40)
    with pytest.raises(gradtd.InputError, match="needs state values, not action values"):
        _evaluate(log, tmp_path / "sums", features=None, target="uniform", values="action")


def test_the_command_line_keeps_sums(three, some_episodes, tmp_path):
    command = ["evaluate", str(three / "*.parquet"), "--gamma", "0.9", "--sums", str(tmp_path / "sums")]
    run = CliRunner()
    assert run.invoke(app, command).exit_code == 0
    pq.write_table(some_episodes(110, 140), three / "f.parquet")
    again = run.invoke(app, command)
    assert again.exit_code == 0
    assert "rows in 3 files; now" in " ".join(again.output.split())
    other = run.invoke(app, [*command, "--clip", "2"])
    assert "clip was None and is now 2.0" in str(other.exception)


def test_a_single_episode_is_refused_and_the_folder_serves_when_there_are_more(some_episodes, tmp_path):
    """Features that were fitted to one episode would stay."""
    log = tmp_path / "log"
    log.mkdir()
    pq.write_table(some_episodes(3, 4), log / "a.parquet")
    with pytest.raises(gradtd.InputError, match=r"has a single episode .* nothing was saved; run again with"):
        _evaluate(log, tmp_path / "sums")
    assert not list((tmp_path / "sums").rglob("*.npz"))
    pq.write_table(some_episodes(4, 60), log / "b.parquet")
    found, whole = (_evaluate(log, tmp_path / name) for name in ("sums", "others"))
    assert (found.value, found.interval, found.notes) == (whole.value, whole.interval, whole.notes)
    assert not any("fitted to the first" in note for note in found.notes)


def test_labels_of_actions_are_refused(some_episodes, tmp_path):
    """They are numbered by all rows of a log, so sums of chunks could mean different actions."""
    table = some_episodes(0, 40)
    labels = pa.array(["left" if k % 2 else "right" for k in range(len(table))])
    (tmp_path / "log").mkdir()
    pq.write_table(table.append_column("action", labels), tmp_path / "log" / "a.parquet")
    with pytest.raises(gradtd.InputError, match=r"labels such as 'left': number them"):
        gradtd.evaluate(
            str(tmp_path / "log"), gamma=0.9, progress=False, machine=gradtd.Machine(checkpoint=tmp_path / "sums")
        )
