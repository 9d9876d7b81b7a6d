"""What was fitted before the first part was read, as one file: features, checks, clock, lambda and groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, checksum, read_arrays, reading, write_arrays
from gradtd.evaluation.parts.job import Job, Reading
from gradtd.evaluation.parts.kept.question import Question
from gradtd.evaluation.parts.state_table import StateWide
from gradtd.evaluation.trust.records import Waves, Wide
from gradtd.features import Features, from_dict
from gradtd.logs import Log

WHAT = "what gradtd fitted to a log"


@dataclass(frozen=True, eq=False)
class KnownStates(StateWide):
    """The table of states, which refuses those that it was not made of."""

    def of(self, log: Log) -> Wide:
        """The same with the rows of the steps of a log."""
        at = np.searchsorted(self.states, log.observations).clip(max=len(self.states) - 1)
        new = np.flatnonzero(self.states[at] != log.observations)
        if len(new):
            raise InputError(
                f"state {log.observations[new[0]]} was not there when features were fitted, and their sums are kept: "
                "give a new folder, so that they are fitted to all states."
            )
        return super().of(log)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A job, the question that it answers, and what it was fitted to.

    Parameters
    ----------
    question
        What was asked.
    job
        What is computed of every part.
    files, rows
        How many there were.
    episodes
        How many episodes the sample has, at most.
    digest
        Of all this.
    """

    question: Question
    job: Job
    files: int
    rows: int
    episodes: int
    digest: str


def write_fitted(path: Path, question: Question, job: Job, files: int, rows: int, episodes: int) -> None:
    """Write what was fitted, once."""
    wide = job.wide
    arrays: Arrays = {"clock": job.clock}
    header: dict[str, Any] = {"question": question, "files": files, "rows": rows, "episodes": episodes}
    header |= {"lam": job.lam, "groups": job.groups, "named": job.named, "complete": wide.complete}
    header |= {"endless": wide.endless, "headlines": wide.headlines}
    for kind, sets in (("rungs", wide.rungs), ("checkers", wide.checkers)):
        header[kind] = list(sets)
        arrays |= {f"{kind}.{k}": columns for k, columns in enumerate(sets.values())}
    for kind, features in (("features", job.features), ("cosines", wide.cosines)):
        header[kind] = _put(kind, features, arrays)
    if wide.waves is not None:
        arrays |= {"waves.frequencies": wide.waves.frequencies, "waves.phases": wide.waves.phases}
    if isinstance(wide, StateWide):
        arrays |= {"table": wide.table, "states": wide.states, "pairs": wide.pairs}
    else:
        arrays["observations"] = wide.observations
    write_arrays(path, arrays, header)


def _put(kind: str, features: Features | None, arrays: Arrays) -> dict[str, Any] | None:
    """The plain part of what features are; their arrays go to the others."""
    if features is None:
        return None
    told = features.to_dict()
    arrays |= {f"{kind}.{name}": value for name, value in told.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in told.items() if not isinstance(value, np.ndarray)}


def read_fitted(path: Path, how: Reading, gamma: float, name: str) -> Fitted:
    """What was fitted, for a log that is read in this way."""
    with reading(path, WHAT):
        header, arrays = read_arrays(path)
        features = _restored("features", header, arrays)
        job = Job(
            how,
            gamma,
            features,
            _wide(header, arrays),
            header["lam"],
            header["groups"],
            name,
            arrays["clock"],
            header["named"],
        )
        digest = checksum(header, arrays)[:32]
        return Fitted(header["question"], job, header["files"], header["rows"], header["episodes"], digest)


def _restored(kind: str, header: dict[str, Any], arrays: Arrays) -> Any:
    if header[kind] is None:
        return None
    own = {name.removeprefix(f"{kind}."): value for name, value in arrays.items() if name.startswith(f"{kind}.")}
    return from_dict(header[kind] | own)


def _wide(header: dict[str, Any], arrays: Arrays) -> Wide:
    rungs, checkers = (
        {name: arrays[f"{kind}.{k}"] for k, name in enumerate(header[kind])} for kind in ("rungs", "checkers")
    )
    plain = (rungs, checkers, tuple(header["headlines"]), header["complete"], header["endless"])
    if "table" in arrays:
        return KnownStates(*plain, table=arrays["table"], states=arrays["states"], pairs=arrays["pairs"])
    waves = Waves(arrays["waves.frequencies"], arrays["waves.phases"]) if "waves.phases" in arrays else None
    return Wide(*plain, observations=arrays["observations"], cosines=_restored("cosines", header, arrays), waves=waves)
