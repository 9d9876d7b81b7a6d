"""Questions about logs in parts: folders of Parquet files in every order, and sums that are kept in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from golden_cases import logs, memory
from golden_cases.logs import Table


@dataclass(frozen=True, eq=False)
class Folder:
    """A log that is cut into files, and what is asked of it.

    ``later`` files are written after a first evaluation; both are recorded. So they are with ``sums``.
    """

    name: str
    log: Callable[[], Table]
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: int = 4
    later: int = 0
    sums: bool = False
    compared: bool = False


def write_files(table: Table, folder: Path, files: int, first: int = 0, last: int | None = None) -> None:
    """Some of so many files, cut between episodes where there is a column of them, else anywhere."""
    folder.mkdir(exist_ok=True)
    columns = {name: pa.array(values) for name, values in table.items()}
    n = len(next(iter(table.values())))
    cuts = np.linspace(0, n, files + 1).astype(int)
    if files > 1 and "episode" in table and (table["episode"][1:] >= table["episode"][:-1]).all():
        begins = np.flatnonzero(np.append(True, table["episode"][1:] != table["episode"][:-1]))
        cuts[1:-1] = begins[np.searchsorted(begins, cuts[1:-1])]
    whole = pa.table(columns)
    for k in range(first, files if last is None else last):
        part = whole.slice(cuts[k], cuts[k + 1] - cuts[k])
        pq.write_table(part, folder / f"part-{k}.parquet", row_group_size=2000)


def split(name: str, log: str, gamma: float, files: int = 4, **settings: Any) -> Folder:
    return Folder(name, lambda: memory.table(log), {"gamma": gamma} | settings, files)


def folder_questions() -> Iterator[Folder]:
    """All of them, in one order."""
    for group in (_states, _real, _actions, _orders, _sums, _refused, _large):
        yield from group()


def _states() -> Iterator[Folder]:
    ones = {"walk", "clinic", "clock walk", "noisy walk"}
    names = ("walk", "few episodes", "wide walk", "cut walk", "far walk", "noisy walk", "clock walk", "maze")
    names += ("wide maze", "small ring", "clinic", "taxi", "ring", "long ring", "large clinic")
    for name in names:
        yield split(f"states {name}", name, 1.0 if name in ones else 0.95)
    yield split("states ring one-hot", "ring", 0.9, features="one-hot")
    yield split("states ring aggregation", "ring", 0.9, features="aggregation:bins=40")
    yield split("states walk fourier", "walk", 0.95, features="fourier:order=3")
    yield split("states walk lstd", "walk", 1.0, algorithm="lstd")
    yield split("states ring lstd", "ring", 0.95, algorithm="lstd")
    yield split("states one file", "walk", 1.0, files=1)
    yield split("states level .8", "maze", 0.9, level=0.8)


def _real() -> Iterator[Folder]:
    for name in ("plane", "line", "space", "ten columns", "small plane", "hidden plane", "cut plane"):
        yield split(f"real {name}", name, 0.95)
    for spec in ("fourier:order=2", "polynomial:order=2", "identity", "tiles:tilings=2,tiles=4", "rbf:n=15,width=1"):
        yield split(f"real plane {spec}", "plane", 0.9, features=spec)
    yield split("real plane lstd", "plane", 0.9, algorithm="lstd", features="fourier:order=2")
    yield split("real plane lstd resamples", "plane", 0.9, algorithm="lstd", features="identity", resamples=200)
    yield split("real plane function", "plane", 0.9, features=memory.hinge)
    yield split("real plane target", "plane", 0.9, target=logs.leaning)
    yield split("real plane clip", "plane", 0.9, clip=1.2)
    yield split("real pendulum", "pendulum", 0.9)
    next_to = {"gamma": 0.9, "features": "fourier:order=2"}
    yield Folder("real plane with next observations", lambda: memory.with_next("plane"), next_to)
    yield Folder("real plane by ratio", lambda: memory.by_ratio("plane"), {"gamma": 0.9})
    both = {"gamma": 0.9, "target": {"lean": logs.leaning, "up": logs.always_up, "old": "behaviour"}}
    yield Folder("real plane targets", lambda: memory.table("plane"), both, compared=True)


def _actions() -> Iterator[Folder]:
    of: dict[str, Any] = {"values": "action"}
    yield split("actions small maze", "small maze", 0.9, target=logs.thirds, **of)
    yield split("actions maze", "maze", 0.9, target=logs.thirds, **of)
    yield split("actions maze uniform", "maze", 0.9, target="uniform", **of)
    yield split("actions maze lstd", "maze", 0.9, target=logs.thirds, algorithm="lstd", **of)
    yield split("actions ring", "ring", 0.9, target=logs.thirds, **of)
    yield split("actions plane", "plane", 0.9, target=logs.leaning, **of)
    yield split("actions plane fourier", "plane", 0.9, target=logs.leaning, features="fourier:order=2", **of)
    yield split("actions plane always", "plane", 0.9, target=logs.always_up, **of)
    yield split("actions pendulum", "pendulum", 0.9, target=logs.steering, **of)


def _orders() -> Iterator[Folder]:
    """Rows that are scattered, episodes across files, no column of episodes."""
    given = {"gamma": 0.98}
    yield Folder("order scattered", lambda: scattered("walk"), given)
    yield Folder("order scattered plane", lambda: scattered("plane"), given | {"features": "fourier:order=2"})
    yield Folder("order scattered ring", lambda: scattered("ring"), given)
    yield Folder("order scattered without time", lambda: scattered("walk", ("t",)), given)
    yield Folder("order without episodes", lambda: memory.table("walk", without=("episode",)), given)
    yield Folder("order without episodes or time", lambda: memory.table("plane", without=("episode", "t")), given)
    yield Folder("order without ends", lambda: memory.table("walk", without=("terminated", "truncated")), given)
    names = np.char.add("e", memory.table("walk")["episode"].astype(str))
    yield Folder("order named episodes", lambda: memory.table("walk", episode=names), given)


def scattered(name: str, without: tuple[str, ...] = ()) -> Table:
    """The rows of a log in random order."""
    made = memory.table(name, without=without)
    order = np.random.default_rng(17).permutation(len(made["reward"]))
    return {column: values[order] for column, values in made.items()}


def _sums() -> Iterator[Folder]:
    for name, settings in {
        "walk": {"gamma": 1.0},
        "maze": {"gamma": 0.9, "target": logs.thirds},
        "plane": {"gamma": 0.9},
        "space": {"gamma": 0.9, "features": "identity"},
    }.items():
        yield Folder(f"sums {name}", lambda n=name: memory.table(n), settings, files=6, later=2, sums=True)


def _refused() -> Iterator[Folder]:
    yield split("refused traces", "walk", 0.9, lam=0.5)
    yield split("refused blocks", "long", 0.9, files=1, block=50)
    yield split("refused not whitened", "walk", 0.9, whiten=False)
    yield split("refused estimate", "plane", 0.9, target=logs.leaning, behaviour="estimate")
    yield split("refused rule", "walk", 0.9, algorithm="tdrc", alpha=0.1)
    yield split("refused one episode", "long", 0.9, files=1)
    missing = np.where(np.arange(len(memory.table("plane")["t"])) % 50 == 7, np.nan, memory.table("plane")["obs_0"])
    yield Folder("refused missing observation", lambda: memory.table("plane", obs_0=missing), {"gamma": 0.9})


def _large() -> Iterator[Folder]:
    """Long enough that a log has several parts."""
    yield Folder("large states", lambda: logs.play(logs.walk(9), 45_000, 51), {"gamma": 1.0}, files=3)
    yield Folder("large plane", lambda: logs.plane(90_000, 2, seed=52), {"gamma": 0.9}, files=3)
    yield Folder("large ring", lambda: logs.play(logs.ring(600, 30), 60_000, 53), {"gamma": 0.9}, files=2)
