"""Sums that are kept in a folder: what was killed goes on, and files may be added later."""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.evaluation import chunks, kept_sums, part_sums
from gradtd.evaluation.kept_files import Store
from gradtd.evaluation.kept_units import cut_files, look_at, place
from gradtd.logs import parts
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import survey

pytestmark = pytest.mark.usefixtures("small_units")
KILLED = """
import os, signal, sys
import gradtd, numpy
from gradtd.evaluation import part_sums
from gradtd.evaluation import kept_files, kept_units
from gradtd.logs import parts
parts.ROWS_OF_A_PART, kept_units.ROWS_OF_A_UNIT, part_sums.MOST_GROUPS = 150, 400, 60
log, folder, name, times = sys.argv[1:]
owner = numpy if name == "savez" else kept_files.Store
count, real = 0, getattr(owner, name)
def dying(*given, **more):
    global count
    made = real(*given, **more)
    count += 1
    if count == int(times):
        os.kill(os.getpid(), signal.SIGKILL)
    return made
setattr(owner, name, dying)
gradtd.evaluate(log, gamma=0.9, sums=folder, threads=1, progress=False)
"""


def _evaluate(log, folder, **more):
    return gradtd.evaluate(
        str(log), machine=gradtd.Machine(checkpoint=folder), **{"gamma": 0.9, "progress": False, "threads": 1} | more
    )


def _same(a, b, rel=1e-9):
    assert a.value == pytest.approx(b.value, rel=rel)
    assert a.interval == pytest.approx(b.interval, rel=rel)
    assert (a.verdict, a.reasons, a.episodes, a.steps) == (b.verdict, b.reasons, b.episodes, b.steps)


def _same_bytes(a, b):
    assert a.theta.tobytes() == b.theta.tobytes()
    assert a.to_dict() == b.to_dict()


def _files(folder):
    """What is in a folder of sums, by name; the lock has the number of a process."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.fixture
def read(monkeypatch):
    """The rows of parts that are read, one number for each."""
    heard, real = [], part_sums.SumPart.__call__

    def reading(self, part):
        heard.append(len(part))
        return real(self, part)

    monkeypatch.setattr(part_sums.SumPart, "__call__", reading)
    return heard


def test_it_is_the_log_in_parts_and_is_read_once(three, tmp_path, read):
    plain = gradtd.evaluate(str(three), gamma=0.9, progress=False, machine=gradtd.Machine(in_parts=True))
    read.clear()
    first = _evaluate(three, tmp_path / "sums")
    _same(first, plain)
    rows = sum(len(pq.read_table(file)) for file in three.iterdir())
    assert sum(read) == rows
    assert len(read) > 5
    read.clear()
    _same_bytes(_evaluate(three, tmp_path / "sums"), first)
    assert read == []
    _same_bytes(_evaluate(three, tmp_path / "others", threads=2), first)
    assert _files(tmp_path / "sums") == _files(tmp_path / "others")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "times"), [("keep_sample", 1), ("savez", 6), ("keep", 5), ("tidy", 1)])
def test_what_was_killed_goes_on_to_the_same_bytes(three, tmp_path, read, name, times):
    """Killed while the sample is read, before a file of sums is in its place, between parts, and at the end."""
    command = [sys.executable, "-c", KILLED, str(three), str(tmp_path / "killed"), name, str(times)]
    died = subprocess.run(command, env=os.environ, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    again = _evaluate(three, tmp_path / "killed")
    left = sum(read)
    read.clear()
    whole = _evaluate(three, tmp_path / "whole")
    _same_bytes(again, whole)
    assert _files(tmp_path / "killed") == _files(tmp_path / "whole")
    assert left == sum(read) if name == "keep_sample" else left < sum(read)


def test_the_sums_of_a_unit_with_one_part_are_written_once(three, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROWS_OF_A_PART", 10_000)
    written, keep = [], Store.keep
    monkeypatch.setattr(Store, "keep", lambda self, *given: (written.append(given[3:]), keep(self, *given)))
    found = _evaluate(three, tmp_path / "sums", features="identity")
    assert written
    assert not any(part for part in written)
    _same_bytes(found, _evaluate(three, tmp_path / "sums", features="identity"))


def _breaking(real, after):
    done = []

    def work(self, part):
        if len(done) == after:
            raise RuntimeError("broken")
        done.append(part)
        return real(self, part)

    return work


def test_files_that_are_added_later_make_what_all_files_make(three, some_episodes, tmp_path, read, monkeypatch):
    """With the features that were fitted at first; of earlier files no row is read again, and the sample is of all."""
    monkeypatch.setattr(chunks, "FEWEST_SAMPLED", 25)
    monkeypatch.setattr(chunks, "MOST_SAMPLED", 25)
    _evaluate(three, tmp_path / "sums")
    read.clear()
    for name, first, last in (("a", 110, 140), ("d", 140, 150)):  # they stand before and between the others
        pq.write_table(some_episodes(first, last), three / f"{name}.parquet")
    found = _evaluate(three, tmp_path / "sums")
    assert sum(read) == len(some_episodes(110, 150))
    assert any("fitted to the first" in note and "rows in 3 files" in note for note in found.notes)
    (fitted,) = (tmp_path / "sums").rglob("fitted.npz")
    beginning = tmp_path / "others" / fitted.parent.name  # all files in one go, with the features fitted at first
    shutil.copytree(tmp_path / "sums", tmp_path / "others", ignore=lambda at, names: {n for n in names if "_" in n})
    assert [file.name for file in beginning.glob("*_*")] == []
    whole = _evaluate(three, tmp_path / "others")
    _same(found, whole)
    for name in ("lacking", "surprises_met", "ess", "ess_episodes", "largest_reward", "top_hundredth_carries"):
        assert found.numbers[name] == pytest.approx(whole.numbers[name], rel=1e-9), name
    read.clear()
    _same_bytes(_evaluate(three, tmp_path / "sums"), found)
    assert read == []


def test_neither_names_nor_places_of_files_matter(three, tmp_path):
    found = _evaluate(three, tmp_path / "sums")
    moved = three.rename(tmp_path / "elsewhere")
    for k, file in enumerate(sorted(moved.iterdir(), reverse=True)):
        file.rename(moved / f"{k}.parquet")
    again = _evaluate(moved, tmp_path / "sums")
    assert again.theta.tobytes() == found.theta.tobytes()
    _same(_evaluate(moved, tmp_path / "others"), found)


def test_episodes_may_go_on_in_a_file_that_is_added_together(some_episodes, tmp_path):
    """Such files are one unit, however long."""
    table = some_episodes(0, 110)
    ids = table["episode"].to_numpy()
    inside = np.flatnonzero(ids[1:] == ids[:-1]) + 1
    edges = [0, *(int(inside[inside > at][0]) for at in (405, 811)), len(table)]
    (tmp_path / "log").mkdir()
    for k in range(3):
        pq.write_table(table.slice(edges[k], edges[k + 1] - edges[k]), tmp_path / "log" / f"{k}.parquet")
    found = _evaluate(tmp_path / "log", tmp_path / "sums")
    assert "2 episodes continued in the next file." in found.notes
    units, _ = Store(tmp_path / "sums", "target").units()
    assert [len(unit.files) for unit in units] == [3]
    pq.write_table(table, tmp_path / "one.parquet")
    _same(
        found,
        gradtd.evaluate(
            str(tmp_path / "one.parquet"), gamma=0.9, progress=False, machine=gradtd.Machine(in_parts=True)
        ),
    )


@pytest.mark.parametrize("which", ["unit", "rows", "units"])
def test_a_damaged_file_is_made_again(three, tmp_path, which):
    found = _evaluate(three, tmp_path / "sums")
    before = _files(tmp_path / "sums")
    hit = [file for file in (tmp_path / "sums").rglob("*.npz") if _kind(file) == which]
    assert hit
    for file in hit:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 255
        file.write_bytes(content)
    _same_bytes(_evaluate(three, tmp_path / "sums"), found)
    assert _files(tmp_path / "sums") == before


def _kind(file):
    return "rows" if file.name.endswith(".rows.npz") else file.stem if file.stem in ("units", "fitted") else "unit"


def test_a_damaged_part_is_read_again(three, tmp_path, read, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(part_sums.SumPart, "__call__", _breaking(part_sums.SumPart.__call__, after=2))
        with pytest.raises(RuntimeError):
            _evaluate(three, tmp_path / "sums")
    parts = sorted((tmp_path / "sums").rglob("*-0000*.npz"))
    assert len(parts) == 2
    parts[0].write_bytes(parts[0].read_bytes()[:-100])
    read.clear()
    found = _evaluate(three, tmp_path / "sums")
    rest = sum(read)
    read.clear()
    _same_bytes(found, _evaluate(three, tmp_path / "others"))
    assert 100 < sum(read) - rest < 200  # one part of 150 rows or so was not read again


def test_a_file_that_has_changed_is_read_again(three, some_episodes, tmp_path, read):
    _evaluate(three, tmp_path / "sums", features="identity")
    read.clear()
    pq.write_table(_with_more_reward(some_episodes(70, 110)), three / "e.parquet")
    found = _evaluate(three, tmp_path / "sums", features="identity")
    assert sum(read) == len(some_episodes(70, 110))
    assert any(note.startswith("files changed after") and note.endswith("again: e.parquet.") for note in found.notes)
    whole = gradtd.evaluate(
        str(three), gamma=0.9, features="identity", progress=False, machine=gradtd.Machine(in_parts=True)
    )
    assert found.value == pytest.approx(whole.value, rel=1e-9)


def _with_more_reward(table):
    reward = pa.array(table["reward"].to_numpy() + 1)
    return table.set_column(table.column_names.index("reward"), "reward", reward)


def test_sums_of_other_code_are_made_again(three, tmp_path, read, monkeypatch):
    found = _evaluate(three, tmp_path / "sums")
    rows = sum(read)
    read.clear()
    monkeypatch.setattr(kept_sums, "code_of_sums", lambda: "another")
    _same_bytes(_evaluate(three, tmp_path / "sums"), found)
    assert sum(read) == rows


def test_several_targets_and_one_more_later(three, tmp_path, read):
    for file in three.iterdir():
        table = pq.read_table(file)
        half = np.full(len(table), 0.5)
        more = table.drop_columns("rho").append_column("behaviour", pa.array(half))
        pq.write_table(more.append_column("pi_new", pa.array(half * table["rho"].to_numpy())), file)
    targets = {"new": "pi_new", "old": "behaviour"}
    one = _evaluate(three, tmp_path / "sums", target={"new": "pi_new"}, features="identity")
    rows = sum(read)
    read.clear()
    both = _evaluate(three, tmp_path / "sums", target=targets, features="identity")
    assert sum(read) == rows
    _same_bytes(both["new"], one["new"])
    plain = gradtd.evaluate(
        str(three),
        gamma=0.9,
        target=targets,
        features="identity",
        progress=False,
        machine=gradtd.Machine(in_parts=True),
    )
    for name in targets:
        _same(both[name], plain[name])


@pytest.mark.slow
def test_workers_of_a_cluster_make_the_same_bytes(three, tmp_path):
    pytest.importorskip("distributed")
    found = _evaluate(three, tmp_path / "cluster", scheduler="local:1", features="identity")
    _same_bytes(found, _evaluate(three, tmp_path / "here", features="identity"))


def test_empty_files_are_of_no_consequence(three, some_episodes, tmp_path):
    found = _evaluate(three, tmp_path / "sums")
    pq.write_table(some_episodes(0, 1).slice(0, 0), three / "a.parquet")
    _same_bytes(_evaluate(three, tmp_path / "sums"), found)


def test_a_unit_is_cut_where_episodes_begin(three):
    """And a file that is larger than a unit is one."""
    files = [look_at(file) for file in sorted(three.iterdir())]
    seen = survey(ParquetTable("log", sorted(three.iterdir())), "episode")
    units = cut_files(files, seen.begins, 0)
    assert [len(unit.files) for unit in units] == [2, 1]
    parts = [part for one in place(units, seen) for part in one.parts(seen, 150)]
    assert np.concatenate([part.hashes for part in parts]).tolist() == seen.hashes.tolist()
    assert max(map(len, parts)) < 250
    assert [len(one.parts(seen, 10**6)) for one in place(units, seen)] == [1, 1]
