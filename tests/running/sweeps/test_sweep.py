"""A sweep leaves one table: right, the same bytes however it was computed, whatever happened on the way."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.core import files, results_folder
from gradtd.output.plots import mean_and_error
from gradtd.running.sweeps import sweep as sweeping
from gradtd.running.sweeps import units
from gradtd.running.sweeps.grid import combinations, settings_of
from small_sweep import small_sweep

FILE = """
problems = ["boyan_chain", "random_walk_tabular:n=9"]
runs = 6
steps = 400
metrics = ["rmsve", "neu"]
at = [100, 400]
block = 2
[algorithms.td]
alpha = [0.03125, "1/16"]
[algorithms.impression_gtd]
alpha = ["auto", 5.0]
batch_size = 4
"""
UNITS, WINNERS = 2 * 4 * 3, 4 * 3


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "grid.toml"
    path.write_text(FILE)
    return gradtd.Sweep.from_file(path)


@pytest.fixture(scope="module")
def finished(grid, tmp_path_factory):
    return grid.run(tmp_path_factory.mktemp("sweep"), threads=1)


def _bytes(folder):
    return {name: (folder / name).read_bytes() for name in ("results.parquet", "winners.parquet", "index.html")}


def _parts(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / ".parts").glob("*.npz")}


def test_the_table_holds_what_runs_come_to(finished):
    rows = {(r["problem"], r["algorithm"], r["hyper"], r["metric"], r["step"]): r for r in finished.results.to_pylist()}
    assert len(rows) == finished.results.num_rows == 2 * 4 * 2 * 2
    result = gradtd.run("random_walk_tabular:n=9", "td", alpha=1 / 16, runs=6, steps=400, snapshots=[100, 400])
    for metric in ("rmsve", "neu"):
        values = gradtd.measure(result, metric)
        for place, step in enumerate((100, 400)):
            row = rows["random_walk_tabular:n=9", "td", '{"alpha": 0.0625}', metric, step]
            assert row["mean"] == pytest.approx(values[:, place].mean(), rel=1e-12)
            assert row["se"] == pytest.approx(values[:, place].std(ddof=1) / np.sqrt(6), rel=1e-9)
            assert (row["runs"], row["diverged"]) == (6, 0)
    assert list(finished.results.schema.names) == [
        *("problem", "algorithm", "hyper", "metric", "step", "mean", "se", "runs", "diverged")
    ]


def test_rows_are_sorted_numbers_by_their_size():
    hypers = [s.hyper for s in settings_of(["boyan_chain"], {"impression_gtd": {"alpha": [16, "auto", 2, 0.5, 2.0]}})]
    assert hypers == ['{"alpha": 0.5}', '{"alpha": 2}', '{"alpha": 16}', '{"alpha": "auto"}']


def test_a_winner_is_the_best_setting_run_on_another_seed(finished, grid):
    rows = [r for r in finished.results.to_pylist() if r["metric"] == "rmsve" and r["step"] == 400]
    for won in (r for r in finished.winners.to_pylist() if r["metric"] == "rmsve" and r["step"] == 400):
        rivals = [r for r in rows if (r["problem"], r["algorithm"]) == (won["problem"], won["algorithm"])]
        assert won["hyper"] == min(rivals, key=lambda r: r["mean"])["hyper"]
        again = gradtd.run(
            won["problem"], won["algorithm"], runs=6, steps=400, seed=1, snapshots=[400], **json.loads(won["hyper"])
        )
        assert won["mean"] == pytest.approx(gradtd.measure(again, "rmsve")[:, -1].mean(), rel=1e-12)
    assert finished.winners.num_rows == 4 * 2 * 2


@pytest.mark.parametrize("changed", [{"threads": 2, "block": 5}, {"block": 1}])
def test_the_bytes_do_not_depend_on_threads_nor_on_blocks(finished, grid, tmp_path, changed):
    changed = dict(changed)
    threads = changed.pop("threads", 1)
    told = {name: getattr(grid, name) for name in ("problems", "algorithms", "runs", "steps", "metrics", "at")}
    other = gradtd.Sweep(**(told | {"block": grid.block} | changed))
    assert _bytes(other.run(tmp_path / "other", threads=threads).folder) == _bytes(finished.folder)


@pytest.mark.slow
def test_stopped_again_and_again_it_runs_every_unit_once(finished, grid, monkeypatch, tmp_path):
    """Stopped after every third unit: units that are kept are not run again, and the bytes are the same."""
    ran, real = [], units.compute

    def stopping(unit):
        if len(ran) % 3 == 2 and unit.digest not in stopped:
            stopped.add(unit.digest)
            raise KeyboardInterrupt
        ran.append(unit.digest)
        return real(unit)

    stopped = set()
    monkeypatch.setattr(sweeping, "compute", stopping)
    for _ in range(UNITS + WINNERS):
        try:
            grid.run(tmp_path / "stopped", threads=1)
            break
        except KeyboardInterrupt:
            continue
    assert len(stopped) > 10
    assert len(ran) == len(set(ran)) == UNITS + WINNERS
    assert _bytes(tmp_path / "stopped") == _bytes(finished.folder)


def _start(file, out, *more):
    command = [sys.executable, "-m", "gradtd", "sweep", str(file), "--out", str(out), "--threads", "1", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_for(folder, count, process):
    while process.poll() is None and len(list(folder.glob(".parts/*.npz"))) < count:
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_in_the_middle_and_interrupted_it_leaves_the_same_bytes(finished, grid, tmp_path):
    """A real kill, then Ctrl-C, which says what is kept; the rest is done in this process."""
    file, out = tmp_path / "grid.toml", tmp_path / "killed"
    file.write_text(FILE)
    process = _start(file, out)
    _wait_for(out, 3, process)
    process.kill()
    process.communicate()
    before = _parts(out)
    process = _start(file, out)
    _wait_for(out, len(before) + 2, process)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, stopped = process.communicate()
    if process.returncode != 0:  # on a fast machine it is through by then
        assert process.returncode == 130
        assert re.search(r"stopped by Ctrl-C\. \d+ of \d+ units are saved\.", stopped)
    grid.run(out, threads=1)
    assert _bytes(out) == _bytes(finished.folder)
    after = _parts(out)
    assert {name: after[name] for name in before} == before


def test_two_sweeps_on_one_folder_are_refused(monkeypatch, tmp_path):
    """The second is started while the first is at a unit; the first goes on."""
    grid, real, said = small_sweep(), units.compute, []

    def while_running(unit):
        with pytest.raises(
            gradtd.InputError, match=r"process \d+ on .* is writing to .*: wait until it has ended"
        ) as one:
            grid.run(tmp_path / "x", threads=1)
        said.append(str(one.value))
        assert grid.status(tmp_path / "x").running
        return real(unit)

    monkeypatch.setattr(sweeping, "compute", while_running)
    grid.run(tmp_path / "x", threads=1)
    assert len(said) == 6
    assert not grid.status(tmp_path / "x").running


def test_a_cut_part_is_run_again_and_a_changed_one_too(finished, grid, monkeypatch, tmp_path):
    out = shutil.copytree(finished.folder, tmp_path / "damaged")
    cut, flipped = (out / ".parts" / f"{unit.digest}.npz" for unit in grid.status(tmp_path / "none").missing[:2])
    for path, change in ((cut, lambda c: c[:100]), (flipped, lambda c: c[:200] + bytes([c[200] ^ 1]) + c[201:])):
        path.write_bytes(change(path.read_bytes()))
    (out / "results.parquet").unlink()
    again = {cut.stem, flipped.stem}
    assert {unit.digest for unit in grid.status(out).missing} == again
    ran, real = [], units.compute
    monkeypatch.setattr(sweeping, "compute", lambda unit: (ran.append(unit.digest), real(unit))[1])
    grid.run(out, threads=1)
    assert set(ran) == again
    assert _bytes(out) == _bytes(finished.folder)


@pytest.mark.parametrize("name", ["value", "diverged_at", "learned", "unit"])
@pytest.mark.parametrize("change", ["gone", "shorter", "other"])
def test_a_part_with_a_right_checksum_and_wrong_content_is_run_again(finished, grid, tmp_path, name, change):
    shutil.copytree(finished.folder, tmp_path / "sweep")
    part = min((tmp_path / "sweep" / ".parts").glob("*.npz"))
    header, arrays = files.read_arrays(part)
    if name == "unit":
        header["unit"] = {"gone": None, "shorter": header["unit"][1:], "other": "x" * 32}[change]
    elif change == "gone":
        del arrays[name]
    elif change == "shorter":
        arrays[name] = arrays[name][1:]
    else:
        arrays[name] = {"value": arrays[name] * np.nan, "diverged_at": arrays[name] + 10**6}.get(name, arrays["value"])
    files.write_arrays(part, arrays, header)
    assert len(grid.status(tmp_path / "sweep").missing) == 1
    assert grid.run(tmp_path / "sweep", threads=1).results.equals(finished.results)


def test_a_full_disk_is_one_sentence_and_costs_nothing_that_was_kept(monkeypatch, tmp_path):
    grid, real, left = small_sweep(), os.fsync, [8]  # two per file and its folder

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fsync", full)
        with pytest.raises(
            gradtd.InputError, match=r"No space left on device; 3 of 4 units are saved: free some space"
        ):
            grid.run(tmp_path / "full", threads=1)
    assert not list((tmp_path / "full").rglob("*.part"))
    before = _parts(tmp_path / "full")
    assert len(before) == 3
    done = grid.run(tmp_path / "full", threads=1)
    after = _parts(tmp_path / "full")
    assert {name: after[name] for name in before} == before
    assert _bytes(done.folder) == _bytes(grid.run(tmp_path / "clean", threads=1).folder)


def test_a_disk_that_is_full_at_the_table_or_at_the_lock_is_one_sentence_too(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    sentence = r"cannot write results to '.*x': No space left on device\. Finished work is saved: free some space"
    for place, name in ((sweeping, "write_page"), (results_folder.ResultsFolder, "_lock")):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, full)
            with pytest.raises(gradtd.InputError, match=sentence):
                small_sweep().run(tmp_path / "x", threads=1)
    assert not small_sweep().status(tmp_path / "x").missing


def test_a_folder_that_nobody_may_write_to_tells_its_status(finished, grid, tmp_path):
    shutil.copytree(finished.folder, tmp_path / "x")
    (tmp_path / "x" / ".lock").chmod(0o444)
    opened = []

    def look(path, mode="r", *more, **named):
        opened.append(mode)
        return real(path, mode, *more, **named)

    real = open
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "open", look, raising=False)
        assert not grid.status(tmp_path / "x").running
    assert opened
    assert not [mode for mode in opened if set(mode) & set("aw+x")]
    (tmp_path / "x" / "manifest.json").write_text('{"made')
    with pytest.raises(gradtd.InputError, match=r"manifest.json' is damaged"):
        grid.run(tmp_path / "x")


def test_divergent_settings_are_results_and_never_win(tmp_path):
    rules = {"td": {"alpha": [0.05, 50.0]}, "impression_gtd": {"alpha": 1e6, "batch_size": 2}}
    swept = small_sweep(problems=["baird"], algorithms=rules, at=[5, 300]).run(tmp_path / "x", threads=1)
    rows = {(r["algorithm"], r["hyper"], r["step"]): r for r in swept.results.to_pylist()}
    assert rows["td", '{"alpha": 50}', 300]["diverged"] == 4
    assert rows["td", '{"alpha": 50}', 5]["diverged"] < 4
    assert np.isfinite([r["mean"] for r in rows.values()]).all()
    assert {r["algorithm"] for r in swept.winners.to_pylist()} == {"td"}
    assert any("impression_gtd on baird has no winner" in note for note in swept.notes)
    assert "2 of 3 settings diverged" in swept.notes[0]


def test_runs_that_never_learn_are_said(tmp_path):
    rules = {"impression_gtd": {"alpha": "auto", "batch_size": [4, 200]}}
    swept = small_sweep(algorithms=rules).run(tmp_path / "x", threads=1)
    assert any("1 of 2 settings have runs that never learned" in note for note in swept.notes)
    assert {r["hyper"] for r in swept.winners.to_pylist()} == {'{"alpha": "auto", "batch_size": 4}'}


def test_more_runs_reuse_full_blocks(monkeypatch, tmp_path):
    small_sweep().run(tmp_path / "x", threads=1)
    before = _parts(tmp_path / "x")
    again = small_sweep(runs=6)
    assert len(again.status(tmp_path / "x").missing) == 2
    again.run(tmp_path / "x", threads=1)
    after = _parts(tmp_path / "x")
    assert {name: after[name] for name in before} == before


def test_a_rule_of_your_own_is_run_again_once_edited(tmp_path):
    def still(state, stream, now, hyper):
        """Stays where it is."""
        state.theta[0] += 0.0

    def moving(state, stream, now, hyper):
        """Moves on."""
        state.theta[0] += 1.0

    before, after = (
        small_sweep(algorithms={"mine": {"alpha": 0.1}}, own=[gradtd.Algorithm("mine", rule)])
        for rule in (still, moving)
    )
    before.run(tmp_path / "x", threads=1)
    assert after.status(tmp_path / "x").done == 0
    assert before.status(tmp_path / "x").missing == []


def test_a_worker_with_other_code_is_refused(monkeypatch, tmp_path):
    real = units.compute
    monkeypatch.setattr(sweeping, "compute", lambda unit: ("another digest", real(unit)[1]))
    with pytest.raises(gradtd.InputError, match="another version of gradtd"):
        small_sweep().run(tmp_path / "x", threads=1)
    assert _parts(tmp_path / "x") == {}


def test_status_and_missing_run_nothing(finished, tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(FILE)

    def told(*arguments):
        done = CliRunner().invoke(app, ["sweep", str(file), *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert (
        told("--status", "--out", str(finished.folder))
        == f"{UNITS + WINNERS} units done, complete; no process is working on it.\n"
    )
    lines = told("--missing", "--out", str(tmp_path / "none")).splitlines()
    assert lines[0] == 'boyan_chain impression_gtd {"alpha": 5, "batch_size": 4} seed 0 runs 0 to 1'
    assert len(lines) == UNITS
    assert not (tmp_path / "none").exists()


def test_the_page_is_whole_and_needs_nothing_from_outside(finished):
    page = (finished.folder / "index.html").read_text()
    assert page.count("<figure") == page.count('class="wide') == page.count('class="tall') == 4
    assert "rmsve at the last step against alpha" in page
    assert "rmsve of the winners on fresh seeds, with 95 % intervals" in page
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert "0.0625" in page


def test_problems_as_tables_and_grids_in_words():
    grid = small_sweep(problems={"random_walk_tabular": {"n": [5, 9]}, "baird": {}})
    assert {s.problem for s in grid.settings} == {"baird", "random_walk_tabular:n=5", "random_walk_tabular:n=9"}
    assert list(combinations({})) == [{}]
    assert list(combinations({"batch_size": np.array([4, 8])})) == [{"batch_size": 4}, {"batch_size": 8}]
    mixed = small_sweep(algorithms={"td": {"alpha": ["none", "auto", 0.1]}})
    assert list(dict.fromkeys(s.given["alpha"] for s in mixed.settings)) == [0.1, "auto", None]
    several = small_sweep(algorithms={"td": [{"alpha": 0.1}, {"alpha": [0.1, 0.2]}]})
    assert [s.given for s in several.settings] == [{"alpha": 0.1}, {"alpha": 0.2}]


def test_numbers_of_runs_that_diverged_have_an_error_without_a_warning():
    with np.errstate(all="raise"):
        mean, error = mean_and_error(np.array([[1e300, 1.0], [-1e300, 3.0]]))
    assert mean.tolist() == [0.0, 2.0]
    assert error.tolist() == [np.inf, 1.0]
