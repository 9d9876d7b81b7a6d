"""One sweep, killed again and again, on a full disk, with cut parts, started twice: the same bytes, or one sentence.

    python benchmarks/sweep_kills.py [--kills 50]

A kill (SIGKILL, no warning) comes up to 0.15 seconds after the first unit of a start is done. "Lost" counts parts that
were there before a kill and are not there after it; "twice" counts parts that were written again.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRID = """
problems = ["boyan_chain", "random_walk_tabular:n=9"]
runs = 40
steps = 4000
metrics = ["rmsve"]
at = [1000, 4000]
block = 2
[algorithms.td]
alpha = [0.03125, 0.0625, 0.125, 0.25, 100]
[algorithms.impression_gtd]
alpha = ["auto", 0.5, 5]
batch_size = 16
"""


def command(file: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "gradtd", "sweep", str(file), "--out", str(out), "--threads", "1"]


def run(file: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(file, out), capture_output=True, text=True, check=False)


def tables(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in ("results.parquet", "winners.parquet", "index.html")]


def parts(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob(".parts/*.npz")}


def killed(file: Path, out: Path, kills: int, chance: random.Random) -> None:
    lost = twice = finished = 0
    done_before = []
    for _ in range(kills):
        before = parts(out)
        process = subprocess.Popen(command(file, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begin = time.monotonic()
        while process.poll() is None and parts(out).keys() == before.keys() and time.monotonic() - begin < 120:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.15))
        finished += process.poll() is not None
        process.kill()
        process.wait()
        after = parts(out)
        lost += len(before.keys() - after.keys())
        twice += sum(after[name] != before[name] for name in before.keys() & after.keys())
        done_before.append(len(after))
    print(f"{kills} kills: {lost} parts lost, {twice} written twice, units done after each kill: {done_before}")
    print(f"  (the sweep had ended before {finished} of the kills)")


def full_disk(file: Path, folder: Path, wanted: list[bytes]) -> None:
    """A file system of 200 kB, where we may mount one; then the parts go to a larger disk and the sweep ends there."""
    small = folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "none", small], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        print("full disk: we may not mount one here; tests/running/sweeps has the same with a disk that refuses")
        return
    try:
        done = run(file, small / "out")
        print(f"full disk: exit code {done.returncode}, said: {done.stderr.strip()!r}")
        shutil.copytree(small / "out", folder / "moved")
    finally:
        subprocess.run(["umount", small], check=True)
    before = parts(folder / "moved")
    run(file, folder / "moved")
    after = parts(folder / "moved")
    kept = sum(after[name] == before[name] for name in before)
    print(f"  with more room: {kept} of {len(before)} parts kept, same bytes: {tables(folder / 'moved') == wanted}")


def cut(file: Path, out: Path, chance: random.Random, wanted: list[bytes]) -> None:
    names = chance.sample(sorted(parts(out)), 5)
    for name in names:
        path = out / ".parts" / name
        path.write_bytes(path.read_bytes()[: chance.randrange(1, path.stat().st_size)])
    before = parts(out)
    run(file, out)
    again = {name for name, when in parts(out).items() if when != before[name]}
    print(f"5 parts cut: run again exactly those: {again == set(names)}, same bytes: {tables(out) == wanted}")


def twice(file: Path, out: Path, wanted: list[bytes]) -> None:
    first, second = (
        subprocess.Popen(command(file, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    said = [process.communicate()[1].strip() for process in (first, second)]
    codes = sorted((first.returncode, second.returncode))
    sentence = re.sub(r"process \d+ on \S+", "process N on HOST", " ".join(said)).replace(str(out), "DIR")
    print(f"two at once: exit codes {codes}, said: {sentence!r}, same bytes: {tables(out) == wanted}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    kills, chance = parser.parse_args().kills, random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "grid.toml"
        file.write_text(GRID)
        began = time.monotonic()
        run(file, folder / "whole")
        wanted = tables(folder / "whole")
        print(f"uninterrupted: {len(parts(folder / 'whole'))} units in {time.monotonic() - began:.0f} s")
        killed(file, folder / "killed", kills, chance)
        run(file, folder / "killed")
        print(f"  same bytes: {tables(folder / 'killed') == wanted}")
        cut(file, folder / "killed", chance, wanted)
        twice(file, folder / "two", wanted)
        full_disk(file, folder, wanted)


if __name__ == "__main__":
    main()
