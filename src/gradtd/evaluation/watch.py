"""Watches a growing folder: after every new file, a value with an interval that is valid at all looks simultaneously.

Each look uses all files up to one file, in the order of their names. Sums of earlier files are saved, so only the new
file is read. After a kill, the watch continues with the same looks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.files import read_file, reading, write_text, writing
from gradtd.core.parsing import by_number
from gradtd.evaluation.evaluate import evaluate
from gradtd.evaluation.kept_units import footer_of
from gradtd.evaluation.options import Inference, Machine
from gradtd.evaluation.report.comparison import WORDS
from gradtd.evaluation.report.result import Evaluation
from gradtd.evaluation.sensitivity import Anytime
from gradtd.logs.files import PARQUET, ParquetTable

FORMAT = "gradtd watch 2"
MOST_SECONDS = 1e6
"""Maximum seconds between two looks."""
END = b"PAR1"
"""The last bytes of a complete Parquet file."""


@dataclass(frozen=True)
class Look:
    """The result of one look: the last file, the episodes and steps up to it, the value, its interval, and the
    interval that is valid at every look.

    ``verdict`` is that of the evaluation.
    """

    file: str
    episodes: int
    steps: int
    value: float
    low: float
    high: float
    anytime_low: float
    anytime_high: float
    verdict: str


@dataclass(frozen=True, eq=False)
class Watch:
    """Watches a folder of Parquet files, and saves looks and sums in another folder."""

    folder: Path  # where the files arrive
    out: Path  # the output folder, with ``looks.json`` and the folder ``sums``
    first: int  # number of files of the first look, to which features are fitted
    asked: dict[str, Any]  # arguments for `gradtd.evaluate`

    @property
    def path(self) -> Path:
        return self.out / "looks.json"

    def looks(self) -> list[Look]:
        """The looks so far."""
        return self._kept()[1]

    def _kept(self) -> tuple[dict[str, str], list[Look]]:
        """The digests of all files up to the last look, and the looks. Invalid contents are refused."""
        if not self.path.exists():
            return {}, []
        with reading(self.path, "a file of looks written by gradtd watch"):
            told = json.loads(read_file(self.path))
            if told["format"] != FORMAT:
                raise ValueError(told["format"])
            for name, now in self._question().items():
                if told["question"][name] != now:
                    raise InputError(
                        f"{str(self.path)!r} has looks with {name}={told['question'][name]!r}, but {name}={now!r} is "
                        "requested now, so the intervals would not be valid together. Use another output folder."
                    )
            names, made = [str(name) for name in told["files"]], [checked_look(**one) for one in told["looks"]]
            counts = [(one.episodes, one.steps) for one in made]
            if [one.file for one in made] != names[self.first - 1 :] or len(set(names)) < len(names):
                raise ValueError("files")
            digests = [
                str(one) for one in told.get("digests", [""] * len(names))
            ]  # looks of an earlier version have no digests
            if any(now < before for pair in pairwise(counts) for before, now in zip(*pair, strict=True)):
                raise ValueError("counts")
        return dict(zip(names, digests, strict=True)), made

    def _question(self) -> dict[str, Any]:
        """The settings that must be equal at all looks, except those that the folder of sums checks itself."""
        return {"gamma": self.asked.get("gamma"), "level": self.asked["level"], "first": self.first}

    def files(self) -> list[Path]:
        """Complete Parquet files: those of earlier looks first, then new ones by name. Incomplete files are skipped."""
        there = {path.name: path for path in sorted(self.folder.iterdir()) if _is_whole(path)}
        seen = self._kept()[0]
        gone = [name for name in seen if name not in there]
        if gone:
            raise InputError(
                f"{str(self.folder)!r} lacks {', '.join(map(repr, gone[:3]))}, which earlier looks have read: put it "
                "back, or use another output folder."
            )
        changed = [name for name, digest in seen.items() if digest and footer_of(there[name]) != digest]
        if changed:
            raise InputError(
                f"{', '.join(map(repr, changed[:3]))} in {str(self.folder)!r} changed after a look had read it: "
                "the intervals are no longer valid together. Use another output folder."
            )
        return [there[name] for name in [*seen, *sorted(set(there) - set(seen), key=by_number)]]

    def advance(self) -> Iterator[Look]:
        """Look once after each new file. Each look is saved before it is yielded."""
        files, made = self.files(), self.looks()
        digests = [footer_of(path) for path in files]
        kept = {
            "inference": replace(self.asked.get("inference") or Inference(), anytime=True),
            "machine": replace(self.asked.get("machine") or Machine(), checkpoint=self.out / "sums"),
        }
        for count in range(max(self.first, len(made) + self.first), len(files) + 1):
            table = ParquetTable(self.folder.name, files[:count])
            found = evaluate(table, **(self.asked | kept))
            if found.anytime is None:
                raise InputError(f"there is no interval that is valid at every look: {'; '.join(found.warnings)}")
            made.append(_look(files[count - 1].name, found, found.anytime))
            told = {
                "format": FORMAT,
                "question": self._question(),
                "files": [path.name for path in files[:count]],
                "digests": digests[:count],
                "looks": [asdict(one) for one in made],
            }
            write_text(self.path, json.dumps(told, indent=1) + "\n")
            yield made[-1]


def checked_look(file: Any, episodes: Any, steps: Any, verdict: Any, **numbers: Any) -> Look:
    """Check a look that was read from a file. Raises ValueError or TypeError if its contents are invalid."""
    if not isinstance(file, str) or verdict not in WORDS:
        raise ValueError("file or verdict")
    if (
        any(not isinstance(value, float) for value in numbers.values())
        or type(episodes) is not int
        or type(steps) is not int
    ):
        raise TypeError("a number")
    look = Look(file, episodes, steps, verdict=verdict, **numbers)
    if min(episodes, steps) < 0 or look.low > look.high or look.anytime_low > look.anytime_high:
        raise ValueError("an interval")
    return look


def _look(file: str, found: Evaluation, always: Anytime) -> Look:
    low, high = found.interval
    numbers = (found.episodes, found.steps, found.value, low, high, always.low, always.high)
    return Look(file, *numbers, found.verdict)


def _is_whole(path: Path) -> bool:
    if path.name.startswith((".", "_")) or path.suffix.lower() not in PARQUET or not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(END)))
        return file.read() == END


def start_watch(folder: str | Path, out: str | Path, first: int = 1, *, level: float = 0.95, **asked: Any) -> Watch:
    """Watch an existing folder, with another folder for the output."""
    here, kept = Path(folder), Path(out)
    if not here.is_dir():
        raise InputError(f"there is no folder {str(here)!r}: watch takes a folder of Parquet files.")
    if kept.resolve() == here.resolve():
        raise InputError("the output needs a separate folder, outside the one that is watched: give another one.")
    with writing(kept, " Give another output folder."):
        kept.mkdir(parents=True, exist_ok=True)
    return Watch(here, kept, checks.whole_number("first", first, 1), {"level": level} | asked)


def keep_watching(
    watch: Watch, every: float, once: bool = False, wait: Callable[[float], None] = time.sleep
) -> Iterator[Look]:
    """Look every ``every`` seconds until interrupted, or only once."""
    if checks.number_at_least("every", every, 0) > MOST_SECONDS:
        raise InputError(f"every must be at most {MOST_SECONDS:g} seconds, got {every:g}.")
    while True:
        yield from watch.advance()
        if once:
            return
        wait(every)
