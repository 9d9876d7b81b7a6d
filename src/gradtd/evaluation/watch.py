"""A folder that grows, looked at after every new file: values with intervals that hold at all looks at once.

A look takes the files up to some file, in the order of their names. Sums of files that were read before are kept, so
only the new file is read. What a kill leaves behind is taken up again, and the looks are the same as without it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.files import read_file, reading, write_text
from gradtd.evaluation.anytime import Anytime
from gradtd.evaluation.evaluate import evaluate
from gradtd.evaluation.options import Inference, Machine
from gradtd.evaluation.report.result import Evaluation
from gradtd.logs.files import PARQUET, ParquetTable

FORMAT = "gradtd watch 1"
END = b"PAR1"
"""How a whole Parquet file ends."""


@dataclass(frozen=True)
class Look:
    """One look: the last file, all episodes and steps up to it, the value, its interval, and the one for every look.

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
    """A folder of Parquet files, and a folder that keeps the looks and the sums.

    Parameters
    ----------
    folder
        Where the files arrive.
    out
        What is kept: ``looks.json`` and the folder ``sums``.
    first
        Files of the first look. Features are fitted to them, and stay.
    asked
        Arguments of `gradtd.evaluate`.
    """

    folder: Path
    out: Path
    first: int
    asked: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.out / "looks.json"

    def looks(self) -> list[Look]:
        """The looks so far."""
        if not self.path.exists():
            return []
        with reading(self.path, "the looks that gradtd watch keeps"):
            told = json.loads(read_file(self.path))
            if told["format"] != FORMAT:
                raise ValueError(told["format"])
            return [Look(**one) for one in told["looks"]]

    def files(self) -> list[Path]:
        """Whole Parquet files, those of earlier looks first, then new ones by name; half-written ones are left out."""
        there = {path.name: path for path in sorted(self.folder.iterdir()) if _is_whole(path)}
        seen = [name for name in self._seen() if name in there]
        return [there[name] for name in [*seen, *sorted(set(there) - set(seen))]]

    def _seen(self) -> list[str]:
        path = self.out / "files.json"
        if not path.exists():
            return []
        with reading(path, "the files that gradtd watch has seen"):
            return [str(name) for name in json.loads(read_file(path))]

    def advance(self) -> Iterator[Look]:
        """A look after each file that no look has had; each is kept before it is handed on."""
        files, made = self.files(), self.looks()
        kept = {
            "inference": replace(self.asked.get("inference") or Inference(), anytime=True),
            "machine": replace(self.asked.get("machine") or Machine(), checkpoint=self.out / "sums"),
        }
        for count in range(max(self.first, len(made) + self.first), len(files) + 1):
            table = ParquetTable(self.folder.name, files[:count])
            found = evaluate(table, **(self.asked | kept))
            if found.anytime is None:
                raise InputError(f"no interval holds at every look: {'; '.join(found.warnings)}")
            made.append(_look(files[count - 1].name, found, found.anytime))
            write_text(self.out / "files.json", json.dumps([path.name for path in files[:count]]) + "\n")
            told = {"format": FORMAT, "looks": [asdict(one) for one in made]}
            write_text(self.path, json.dumps(told, indent=1) + "\n")
            yield made[-1]


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


def start_watch(folder: str | Path, out: str | Path, first: int = 1, **asked: Any) -> Watch:
    """Look at a folder that is there, keeping what is seen in another one."""
    here, kept = Path(folder), Path(out)
    if not here.is_dir():
        raise InputError(f"there is no folder {str(here)!r}: watch takes a folder of Parquet files.")
    if kept.resolve() == here.resolve():
        raise InputError("what is kept needs a folder of its own, beside the one that is watched: give another one.")
    kept.mkdir(parents=True, exist_ok=True)
    return Watch(here, kept, checks.whole_number("first", first, 1), asked)


def keep_watching(
    watch: Watch, every: float, once: bool = False, wait: Callable[[float], None] = time.sleep
) -> Iterator[Look]:
    """Look again every so many seconds, for ever; or once."""
    while True:
        yield from watch.advance()
        if once:
            return
        wait(every)
