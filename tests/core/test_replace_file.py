"""Files that are half written: nobody's link is followed, nobody's leftover is in the way, and writers do not meet."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gradtd import InputError
from gradtd.core import files
from gradtd.core.files import part_of, read_arrays, remove_strays, replace_file, write_arrays, write_text
from gradtd.core.results_folder import MANIFEST, ResultsFolder, in_use

DEAD = 2**22 + 1  # no process has this number


def test_a_link_with_the_name_of_the_part_is_not_followed(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "it.txt"
    victim.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda n: "0" * 16)  # as if somebody had guessed it
    for name in (f".it.txt.{os.getpid()}.part", part_of(path).name):
        (tmp_path / name).symlink_to(victim)
    with pytest.raises(OSError):
        write_text(path, "new")
    assert victim.read_text() == "precious"
    monkeypatch.undo()
    assert write_text(path, "new").read_text() == "new"
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_two_parts_of_a_path_never_have_one_name(tmp_path):
    assert len({part_of(tmp_path / "it") for _ in range(1000)}) == 1000
    assert all(files.is_part(part_of(tmp_path / name).name) for name in ("it", "a.b.part", "x" * 250, "\n", "é" * 127))


@pytest.mark.parametrize("name", ["x" * 250, "é" * 127, "with space", "-", "[a]*"])
def test_any_name_that_the_disk_takes_is_written_and_swept(tmp_path, name):
    stray = part_of(tmp_path / name)
    stray = stray.with_name(stray.name.replace(f"-{os.getpid()}-", f"-{DEAD}-"))
    stray.write_text("half")
    write_text(tmp_path / name, "whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def _part(tmp_path, machine, process, age=0.0):
    path = tmp_path / f".it.{machine}-{process}-{secrets.token_hex(8)}.part"
    path.write_text("half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_leftovers_are_judged_by_machine_process_and_age(tmp_path):
    here, elsewhere, day = files._machine(os.getpid()), "0123456789ab", files.STRAY_SECONDS
    gone = [_part(tmp_path, here, DEAD), _part(tmp_path, here, 10**9), _part(tmp_path, elsewhere, DEAD, day + 60)]
    kept = [_part(tmp_path, here, os.getpid()), _part(tmp_path, here, 1), _part(tmp_path, elsewhere, DEAD, day - 60)]
    old = tmp_path / f".it.{DEAD}.part"  # of an earlier version
    old.write_text("half")
    os.utime(old, (0, 0))
    (tmp_path / ".it.mine.part").write_text("somebody's own")
    remove_strays(tmp_path, "it")
    assert not any(path.exists() for path in [*gone, old])
    assert all(path.exists() for path in [*kept, tmp_path / ".it.mine.part"])


def test_a_leftover_that_cannot_be_removed_blocks_nothing(tmp_path, monkeypatch):
    stray = _part(tmp_path, files._machine(os.getpid()), DEAD)

    def refuse(path):
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(files, "remove_part", refuse)
    assert write_text(tmp_path / "it", "new").read_text() == "new"
    assert stray.exists()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_text(tmp_path / "it", "old")

    def write(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(path, write)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["it"]


def test_files_of_a_results_folder_are_no_links(tmp_path):
    """A link called .lock in a folder that somebody prepared would empty what it leads to."""
    victim, folder = tmp_path / "victim", tmp_path / "results"
    victim.write_text("precious")
    folder.mkdir()
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(InputError, match="it is a link"), ResultsFolder(folder, "a test", 1).locked():
        pass
    assert victim.read_text() == "precious"


def test_a_process_that_locks_a_folder_leaves_the_manifest_that_another_is_writing(tmp_path):
    folder = ResultsFolder(tmp_path / "sums", "a test", 1)
    other = part_of(folder.path(MANIFEST))  # this process lives
    dead = other.with_name(other.name.replace(f"-{os.getpid()}-", f"-{DEAD}-"))
    for path in (other, dead):
        path.write_text("half")
    with folder.locked():
        assert other.exists()
        assert not dead.exists()


def test_a_folder_that_another_process_begins_at_the_same_time_is_ours(tmp_path, monkeypatch):
    """It is empty when its files are listed, or has files already when the manifest is looked for."""
    folder, listed = tmp_path / "sums", Path.iterdir

    def begun(path):
        for name in (MANIFEST, "results.npz"):
            (path / name).write_text(json.dumps({"made_by": "a test", "format": 1}))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", begun)
    ResultsFolder(folder, "a test", 1)
    monkeypatch.undo()
    before = (folder / MANIFEST).stat().st_mtime_ns
    ResultsFolder(folder, "a test", 1)
    assert (folder / MANIFEST).stat().st_mtime_ns == before  # nobody's manifest is replaced


def test_a_pipe_in_a_results_folder_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(InputError, match="it is not a file"), ResultsFolder(tmp_path, "a test", 1).locked():
        pass
    with pytest.raises(OSError, match="it is not a file"):
        in_use(tmp_path)


def _save_and_read(path, saves, seed, failures):
    rng = np.random.default_rng(seed)
    for _ in range(saves):
        try:
            write_arrays(path, {"a": np.full(int(rng.integers(1, 3000)), seed)}, {"by": seed})
            header, arrays = read_arrays(path)  # checks its checksum
            assert (arrays["a"] == header["by"]).all()
        except Exception as error:
            failures.append(repr(error))


def test_threads_that_save_to_one_path_do_not_meet(tmp_path):
    failures = []
    work = [threading.Thread(target=_save_and_read, args=(tmp_path / "it", 40, k, failures)) for k in range(8)]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert not failures
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


SAVER = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_replace_file import _save_and_read
failures = []
_save_and_read(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[2]), failures)
print(failures[:3])
sys.exit(len(failures) > 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs Linux's namespaces")
def test_containers_that_save_to_one_path_do_not_meet(tmp_path):
    """Four processes, each with number 1 in a namespace of its own, so that none sees whether another one lives.

    Eight threads of this process save to the same path: 1004 saves in all, each read back whole.
    """
    apart = [
        "unshare",
        *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
        "--pid",
        "--fork",
        "--mount-proc",
    ]
    if subprocess.run([*apart, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces are not allowed here")
    code = SAVER.format(here=os.path.dirname(__file__))
    started = [
        subprocess.Popen([*apart, sys.executable, "-c", code, str(tmp_path / "it"), str(k), "125"]) for k in range(4)
    ]
    failures = []
    here = [threading.Thread(target=_save_and_read, args=(tmp_path / "it", 63, k, failures)) for k in range(4, 12)]
    for one in here:
        one.start()
    for one in here:
        one.join()
    assert [one.wait() for one in started] == [0] * 4
    assert not failures
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_a_lab_on_a_full_disk_leaves_the_page_that_was_there(tmp_path, monkeypatch):
    from gradtd.paper.lab import write_lab

    page = tmp_path / "lab.html"
    page.write_text("the page before")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_lab(page)
    assert page.read_text() == "the page before"
