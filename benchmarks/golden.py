"""What a tree of the source says of fixed streams and logs, recorded, and two recordings compared.

    python benchmarks/golden.py record FOLDER --source src [--only weights|memory|parts] [--match WORDS]
    python benchmarks/golden.py compare OLD_FOLDER NEW_FOLDER [--strict]

Three kinds are recorded, each with its arrays in an ``.npz`` and the rest in a ``.json`` file. *weights*: the bytes of
what `learn`, `run`, `sweep`, the `Learner` and the `Horde` find with every rule, and of the streams drawn. *memory*:
evaluations of logs in memory. *parts*: evaluations of folders of Parquet files. A recording with ``--match`` replaces
these cases in the folder and leaves the others as they are.

The comparison fails where weights differ by a byte; where an evaluation in memory has another verdict, is refused in
one tree only, or has a value beyond 1e-8 of its scale, or an end of the interval beyond 1e-6 of its width; where
verdicts in parts agree on fewer than 95 %. It lists sentences that changed and other numbers; ``--strict`` fails on
those numbers, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from golden_cases.recording import Recorded, evaluated, evaluated_folder, read, write

KINDS = ("memory", "parts", "weights")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="record one tree")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--source", type=Path, required=True, help="the folder that holds the package gradtd")
    recording.add_argument("--only", choices=KINDS, help="one kind of cases")
    recording.add_argument("--match", default="", help="only cases whose name holds these words")
    recording.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    comparing = commands.add_parser("compare", help="compare two recordings")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--strict", action="store_true", help="fail on every number that differs")
    given = parser.parse_args()
    if given.command == "compare":
        from golden_cases.comparing import compare

        sys.exit(compare(given.old, given.new, given.strict))
    if given.here:
        record(given.folder, given.source, (given.only,) if given.only else KINDS, given.match)
        return
    # A fresh process, so that the tree asked for is the only gradtd that Python finds.
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": str(given.source.resolve()), "PYTHONHASHSEED": "0"}
    sys.exit(subprocess.run([sys.executable, __file__, *sys.argv[1:], "--here"], env=environment).returncode)


def record(folder: Path, source: Path, kinds: tuple[str, ...], match: str) -> None:
    """Record the cases of these kinds whose name holds some words."""
    import gradtd

    if not Path(gradtd.__file__).is_relative_to(source.resolve()):
        raise SystemExit(f"gradtd was imported from {gradtd.__file__}, not from {source}.")
    folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        began = time.perf_counter()
        told, arrays = read(folder, kind) if match else ({}, {})
        count = 0
        for name, work in cases(kind):
            if match not in name:
                continue
            since = time.perf_counter()
            told[name], own = attempt(work)
            arrays = {key: v for key, v in arrays.items() if not key.startswith(f"{name}|")}
            arrays |= {f"{name}|{key}": values for key, values in own.items()}
            count += 1
            if count % 10 == 0:
                write(folder, kind, told, arrays)  # a run that is stopped leaves what it has
            print(f"{time.perf_counter() - since:7.2f} s  {kind:8s}{name:45s} {_head(told[name])}", flush=True)
        write(folder, kind, told, arrays)
        print(f"{kind}: {count} cases in {time.perf_counter() - began:.0f} s", flush=True)


def cases(kind: str) -> Iterator[tuple[str, Callable[[], Recorded]]]:
    """The cases of one kind: a name, and what computes it."""
    if kind == "weights":
        from golden_cases.weights import weight_cases

        yield from weight_cases()
    elif kind == "memory":
        from golden_cases.memory import memory_questions

        for question in memory_questions():
            yield question.name, lambda q=question: evaluated(q.log(), q.settings, q.compared)
    else:
        from golden_cases.parts import folder_questions

        for asked in folder_questions():
            yield asked.name, lambda q=asked: evaluated_folder(q)


def attempt(work: Callable[[], Recorded]) -> Recorded:
    """What a case gives, or the sentence that refuses it; any other error is kept as what it is."""
    import gradtd

    try:
        return work()
    except gradtd.InputError as error:
        return {"refused": str(error)}, {}
    except Exception as error:
        traceback.print_exc()
        return {"crashed": f"{type(error).__name__}: {error}"}, {}


def _head(told: Mapping[str, Any]) -> str:
    """A case in a few words, to watch it."""
    for word in ("refused", "crashed"):
        if word in told:
            return f"{word}: {told[word][:90]}"
    last = list(told.values())[-1]
    if isinstance(last, Mapping) and "verdict" in last:
        return f"{last['value']} {last['verdict']}"
    return ""


if __name__ == "__main__":
    main()
