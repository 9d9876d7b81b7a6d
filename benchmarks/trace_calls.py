"""How many files, functions and calls of gradtd one command passes through; the table of docs/architecture.md.

    python benchmarks/trace_calls.py [--source src] [--source OTHER_TREE/src] [--list]

Each command runs in a fresh process with one thread, after a run that has compiled what it needs. Counted are calls of
Python functions that stand in a file of gradtd. Not counted are imports, comprehensions, and what runs compiled.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve()
COMMANDS = {
    "gradtd run boyan_chain impression_gtd": "--runs 2 --steps 1000 --threads 1",
    "gradtd evaluate log.parquet --gamma .99": "--resamples 5 --threads 1",
}
"""What is traced, and the arguments that make it small."""

LOG = "import gradtd; gradtd.write_log(gradtd.sample_log('random_walk_tabular', 300), 'log.parquet')"


class Tracer:
    """A profile function that counts calls by (file, function)."""

    def __init__(self, package: Path) -> None:
        self.root = f"{package}{os.sep}"
        self.calls: Counter[tuple[str, str]] = Counter()
        self._local = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code, change = frame.f_code, 1 if event == "call" else -1
        if code.co_name == "<module>":
            self._local.importing = getattr(self._local, "importing", 0) + change
        elif change == 1 and not getattr(self._local, "importing", 0) and self._counts(frame) and not _resumed(frame):
            self.calls[code.co_filename.removeprefix(self.root), code.co_qualname] += 1

    def _counts(self, frame: FrameType) -> bool:
        """Functions of the package; the bodies of classes and comprehensions are parts of other code."""
        code = frame.f_code
        plain = code.co_name == "<lambda>" or not code.co_name.startswith("<")
        return plain and bool(code.co_flags & inspect.CO_NEWLOCALS) and code.co_filename.startswith(self.root)


def _resumed(frame: FrameType) -> bool:
    """Whether a generator goes on; its first entry is the call."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and frame.f_code.co_code[frame.f_lasti + 1] != 0


def trace(words: list[str]) -> None:
    """Run one command in this process and print what it passed through, as JSON on the last line."""
    import gradtd

    try:
        from gradtd.cli.app import main
    except ImportError:  # a tree from before the command line was a package
        from gradtd.cli import main  # type: ignore[attr-defined, no-redef]
    tracer = Tracer(Path(gradtd.__file__).parent)
    sys.argv = ["gradtd", *words]
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    found = [[file, name, count] for (file, name), count in sorted(tracer.calls.items())]
    print("\n" + json.dumps(found))


def measure(source: Path) -> dict[str, list[tuple[str, str, int]]]:
    """Every command, traced in the tree whose package stands in ``source``."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:

        def python(*words: str) -> str:
            return subprocess.run(
                [sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
            ).stdout

        python("-c", LOG)
        found = {}
        for command, small in COMMANDS.items():
            words = [*command.split()[1:], *small.split()]
            python("-m", "gradtd", *words)
            found[command] = json.loads(python(str(HERE), "--trace", *words).splitlines()[-1])
    return found


def main() -> None:
    if sys.argv[1:2] == ["--trace"]:
        trace(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", help="a folder that holds the package gradtd")
    parser.add_argument("--list", action="store_true", help="show the calls by file, too")
    options = parser.parse_args()
    print("| command | tree | files | functions | calls | outside the engine |\n|---|---|---|---|---|---|")
    for source in options.source or [HERE.parents[1] / "src"]:
        for command, calls in measure(source).items():
            by_file: Counter[str] = Counter()
            for file, _, count in calls:
                by_file[file] += count
            engine = sum(count for file, count in by_file.items() if file.endswith("engine.py"))
            numbers = (len(by_file), len(calls), by_file.total(), by_file.total() - engine)
            print(f"| `{command}` | {source} | " + " | ".join(map(str, numbers)) + " |")
            if options.list:
                print("\n".join(f"    {count:6} {file}" for file, count in sorted(by_file.items())))


if __name__ == "__main__":
    main()
