"""Mutated streams, saved files, logs, folders, names and command lines: each try ends well, or with one sentence.

    python fuzz/run.py [streams stored files logs parts folders minari sums sweeps names commands]
                       [--count 1000] [--seed 0] [--only K]

``--count`` tries are shared among the kinds as `SHARES` says. Streams are in memory, or stored in folders. Compiled
code runs with its bounds checked (NUMBA_BOUNDSCHECK=1, with a cache of its own). A try is a crash where the process
dies, a traceback where anything but `gradtd.InputError` is raised or NumPy warns, and a lie where a value beyond the
rewards' bound is called usable, or a log is not the table it was made from. Each is printed with the command that
repeats it. Tries are made in a process of their own, which is started again behind a crash. The exit code is 1 where
something was found.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
SHARES = {
    "streams": 20,
    "stored": 15,
    "files": 20,
    "logs": 8,
    "parts": 4,
    "folders": 4,
    "minari": 4,
    "sums": 7,
    "sweeps": 7,
    "names": 7,
    "commands": 4,
}
"""The share of every kind in the tries. Where a try is cheap there are more of them, but no kind has most."""


def work(target: str, seed: int, numbers: range, journal: Path, folder: Path) -> int:
    """Make some tries; the journal says at which one we are, for whoever finds us dead."""
    sys.path.insert(0, str(HERE))
    module = import_module(f"fuzz_{target}")
    import gradtd

    warnings.simplefilter("error")
    found = 0
    refused = 0
    module.prepare(folder)
    for number in numbers:
        journal.write_text(str(number))
        try:
            module.attempt(seed, number, folder)
        except gradtd.InputError as error:
            refused += 1
            if not all(line[:1].isdigit() for line in str(error).splitlines()[1:]):  # faults of a table are numbered
                found += tell(target, seed, number, f"a sentence of several lines: {error}")
        except Exception:
            found += tell(target, seed, number, traceback.format_exc())
    journal.write_text(f"done {found} {refused}")
    return found


def tell(target: str, seed: int, number: int, what: str) -> int:
    print(f"FOUND {target}: python fuzz/run.py {target} --seed {seed} --only {number}\n{what}", flush=True)
    return 1


def drive(target: str, count: int, seed: int) -> int:
    """All tries of a target, in processes that may crash."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if target != "commands":
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache())}
    began, next_one, found, refused = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        journal = Path(folder, "journal")
        while next_one < count:
            words = [target, "--seed", str(seed), "--from", str(next_one), "--count", str(count), "--folder", folder]
            code = subprocess.run([sys.executable, __file__, *words], env=environment, check=False).returncode
            said = journal.read_text().split()
            if said[0] == "done":
                found, refused, next_one = found + int(said[1]), refused + int(said[2]), count
            else:
                found += tell(target, seed, int(said[0]), f"the process died (code {code})")
                next_one = int(said[0]) + 1
    seconds = time.monotonic() - began
    print(
        f"{target}: {count} tries in {seconds:.0f} s, {refused} refused in one sentence, {found} findings", flush=True
    )
    return found


def cache() -> Path:
    """Compiled code that checks its bounds must not be mixed with code that does not."""
    return Path(os.environ.get("NUMBA_CACHE_DIR", HERE.parent / ".numba")) / "bounds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=list(SHARES), metavar="|".join(SHARES))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="repeat one try")
    parser.add_argument("--from", dest="first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None:
        work(given.targets[0], given.seed, range(given.first, given.count), given.folder / "journal", given.folder)
        return
    if given.only is not None:
        os.environ |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache())}
        with tempfile.TemporaryDirectory() as folder:
            one = range(given.only, given.only + 1)
            sys.exit(work(given.targets[0], given.seed, one, Path(folder, "journal"), Path(folder)))
    total = sum(SHARES[target] for target in given.targets)
    counts = {target: -(-given.count * SHARES[target] // total) for target in given.targets}
    sys.exit(min(1, sum(drive(target, count, given.seed) for target, count in counts.items())))


if __name__ == "__main__":
    main()
