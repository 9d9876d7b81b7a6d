"""Compiled code on disk: whatever is wrong there, the program runs and says so once."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from gradtd.compiled import cache, engine

PROGRAM = """
import warnings
from gradtd.compiled import engine

def add(x, y):
    return x + y

def halve(x):
    return 0.5 * x

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    found = engine.compile_function(halve)(engine.compile_function(add)(1.5, 2.0))
print(found, len(said), *(w.message for w in said))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program of two small functions that are compiled."""
    file = tmp_path_factory.mktemp("program") / "main.py"
    file.write_text(PROGRAM)

    def run(folder, cwd=None):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
        printed = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, cwd=cwd)
        assert printed.returncode == 0, printed.stderr
        found, count, *said = printed.stdout.split()
        return found, int(count), " ".join(said)

    return run


@pytest.fixture(scope="module")
def good(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return folder, program(folder)


def test_damaged_files_are_compiled_again_with_one_warning(good, program):
    folder, (found, said, _) = good
    assert (found, said) == ("1.75", 0)
    files = sorted(Path(folder).rglob("*.nbc"))
    assert len(files) == 2
    files[0].write_bytes(b"")
    files[1].write_bytes(np.random.default_rng(0).bytes(5000))
    assert program(folder)[:2] == (found, 1)
    assert program(folder)[:2] == (found, 0)  # mended


def test_every_damage_is_noticed(tmp_path, monkeypatch):
    files = cache.KernelFiles(str(tmp_path), "f", "stamp", "1.0", "mark")
    files.save("key", "code" * 100)
    content = files.path("key").read_bytes()
    half = len(content) // 2
    flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
    for damaged in (b"", content[:10], content[:half], content[:-1], flipped, bytes(len(content)), content + b"more"):
        monkeypatch.setattr(cache, "_said", set())
        files.path("key").write_bytes(damaged)
        with pytest.warns(UserWarning, match="a file of compiled code, is damaged"):
            assert files.load("key") is None


def test_a_folder_that_is_none_does_not_stop_it(good, program, tmp_path):
    """Numba looks for another place, and compiles in memory where it finds none."""
    (tmp_path / "file").write_text("no folder")
    found, count, _ = program(tmp_path / "file")
    assert found == good[1][0]
    assert count <= 1


def _full(path, write):
    raise OSError(28, "No space left on device")


def _add(x, y):
    return x + y


def test_a_full_disk_leaves_the_code_in_memory(monkeypatch):
    monkeypatch.setattr(cache, "replace_file", _full)
    monkeypatch.setattr(cache, "_said", set())
    add = engine._jit(_add, f"full disk {os.getpid()}")
    with pytest.warns(UserWarning, match=r"cannot be kept in .*No space left on device.*NUMBA_CACHE_DIR"):
        assert add(1, 2) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert add(1.5, 2) == 3.5  # another signature is compiled, and nothing is said again


def test_a_disk_that_cannot_be_read_is_not_needed(monkeypatch):
    def broken(self, key):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(cache.KernelFiles, "load", broken)
    monkeypatch.setattr(cache, "_said", set())
    add = engine._jit(_add, "broken disk")
    with pytest.warns(UserWarning, match=r"cannot be read from .*Input/output error"):
        assert add(1, 2) == 3


def test_a_file_of_another_function_is_not_taken(tmp_path):
    """Two keys whose names collide, or a file that was copied to another name."""
    files = cache.KernelFiles(str(tmp_path), "f", "stamp", "1.0", "mark")
    files.save(("a", 1), "code of a")
    assert files.load(("a", 1)) == "code of a"
    assert files.load(("b", 1)) is None
    files.path(("a", 1)).rename(files.path(("b", 1)))
    assert files.load(("b", 1)) is None
    files.save(("a", 1), "code of a")
    assert cache.KernelFiles(str(tmp_path), "f", "edited", "1.0", "mark").load(("a", 1)) is None
    assert cache.KernelFiles(str(tmp_path), "f", "stamp", "1.1", "mark").load(("a", 1)) is None
    assert cache.KernelFiles(str(tmp_path), "f", "stamp", "1.0", "edited elsewhere").load(("a", 1)) is None


class Somewhere:
    """What Numba finds as a place for the code of a function."""

    def __init__(self, folder, source=__file__):
        self._py_file, self.folder = str(source), str(folder)

    def get_cache_path(self):
        return self.folder


@pytest.mark.parametrize("folder", ["~/.cache/numba/compiled_0", "cache", "./__pycache__"])
def test_a_folder_relative_to_the_current_one_is_refused(folder, tmp_path, monkeypatch):
    """Without HOME and an entry in passwd Numba takes a literal ~ below the current folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PermissionError, match=r"is relative to the current folder.*NUMBA_CACHE_DIR"):
        cache.refuse_shared(Somewhere(folder))
    assert not list(tmp_path.iterdir())


def test_a_relative_folder_is_neither_made_nor_used(program, tmp_path):
    found, count, said = program("~/cache", cwd=tmp_path)
    assert (found, count) == ("1.75", 1)
    assert "is relative to the current folder" in said
    assert not list(tmp_path.iterdir())


def _owned(found, **others):
    """A file's status with other owners, groups or rights."""
    entries = list(found)
    for name, value in others.items():
        entries[{"mode": 0, "uid": 4, "gid": 5}[name]] = value
    return os.stat_result(entries)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")
def test_a_folder_or_file_that_others_can_write_to_is_refused(tmp_path):
    source = tmp_path / "source" / "rule.py"
    source.parent.mkdir(mode=0o755)
    source.touch()
    found, me = tmp_path.stat(), os.geteuid()
    for fine in ({"mode": 0o40755}, {"mode": 0o40700}, {"uid": 0, "mode": 0o40755}, {"mode": 0o40775, "gid": me}):
        cache.refuse_writers(tmp_path, _owned(found, **fine), str(source))
    for shared in ({"mode": 0o40777}, {"mode": 0o40757}, {"mode": 0o41777}, {"mode": 0o40775, "gid": me + 7}):
        with pytest.raises(PermissionError, match="can be written to by others"):
            cache.refuse_writers(tmp_path, _owned(found, **shared), str(source))
    with pytest.raises(PermissionError, match="belongs to another user"):
        cache.refuse_writers(tmp_path, _owned(found, uid=me + 4711, mode=0o40755), str(source))
    source.parent.chmod(0o775)  # who can change the source needs no cache
    theirs = source.parent.stat().st_gid
    cache.refuse_writers(tmp_path, _owned(found, mode=0o40775, gid=theirs), str(source))


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")
def test_planted_code_is_not_run(program, good, tmp_path):
    """A folder that anybody can write to is passed over; a file that is ours, but open to others, is not loaded."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    found, count, said = program(shared)
    assert (found, count) == ("1.75", 1)
    assert "can be written to by others" in said
    assert not list(shared.iterdir())
    files = cache.KernelFiles(str(tmp_path), "f", "stamp", "1.0", "mark")
    files.save("key", "code")
    assert files.load("key") == "code"
    files.path("key").chmod(0o666)
    with pytest.raises(PermissionError, match="can be written to by others"):
        files.load("key")
    files.path("key").unlink()
    files.path("key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"):
        files.load("key")


def test_numbas_own_switch_runs_plain_python(monkeypatch):
    """NUMBA_DISABLE_JIT=1 hands back plain functions, which have no cache."""
    monkeypatch.setattr(engine.numba.config, "DISABLE_JIT", 1)
    assert engine.compile_function(_add)(1, 2) == 3
    assert engine.compile_function(_add, compile=True)(1, 2) == 3
